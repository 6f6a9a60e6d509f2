"""Give every row of a sequence the sequence's own row, scaled: the gradient of a mean, and of sum / sqrt(length).

``x (n * width,)``; `out` holds the sequences in any layout, see `Layout`.  For `mode` see `sum_rows`.
"""

import math
from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout


@p.by_columns(some=8)
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of ``x[place:]``, scaled, to the first `alike` rows of a sequence."""
    x, out, alike, mode = given
    length, one = columns.length, p.unknown(1)
    row = p.load(x, place, count, x) / p.each(x, float(length) if mode == 1 else math.sqrt(length), count)
    t = 0
    while t < alike:
        p.store(out, p.item_at(columns, t), row)
        t += one


@p.compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    row, rows, at = p.pointer(x), p.pointer(out), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        # wide rows are best written one after the other: the first from here, the others from that
        length = columns.length
        alike = 1 if width >= 256 and length != 0 else length
        spread((row, rows, alike, mode), columns, i * width, 0, width)
        for t in range(alike, length):
            p.move(out, p.item_at(columns, t), out, p.item_at(columns, 0), width * out.itemsize)


@p.shared
def number_of(x: Array, at: Layout, i: int, mode: int) -> Any:
    """By what the rows of a sequence are divided."""
    number = p.number_in(x, at.cum[i + 1] - at.cum[i])  # an integer would divide in float64
    return p.number_in(x, math.sqrt(number)) if mode == 2 else number


def cuda(x: Array, out: Array, at: Layout, mode: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = p.first_of_line(), p.word_of_line()
    if r < at.cum[at.cum.size - 1] and k < width:
        (i0, _, d0), (i1, _, d1), (i2, _, d2), (i3, _, d3) = p.four_rows(at, r)
        a, b = x[i0 * width + k], x[i1 * width + k]
        c, d = x[i2 * width + k], x[i3 * width + k]
        out[d0 * width + k] = a / number_of(x, at, i0, mode)
        out[d1 * width + k] = b / number_of(x, at, i1, mode)
        out[d2 * width + k] = c / number_of(x, at, i2, mode)
        out[d3 * width + k] = d / number_of(x, at, i3, mode)


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, mode: int, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    value = x[i * width + k] / number_of(x, at, i, mode)
    for t in range(columns.length):
        out[p.item_at(columns, t)] = value


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "lines", p.alike(p.FLOATS, 2), p.STREAMS, short, fours=True)
