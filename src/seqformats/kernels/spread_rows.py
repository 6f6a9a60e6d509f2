"""Give every row of a sequence the sequence's own row, scaled: the gradient of a mean, and of sum / sqrt(length).

``x (n * width,)``; `out` holds the sequences in any layout, see `Layout`.  For `mode` see `sum_rows`.
"""

import math
from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    FLOATS,
    STREAMS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    alike,
    by_columns,
    columns_of,
    compiled,
    each,
    item_at,
    load,
    locate,
    move,
    pointer,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import (
        columns_of_grid,
        first_column,
        first_of_line,
        first_unit,
        four_rows,
        units_of_grid,
        word_of_line,
    )
    from .parts.gpu import number_in


@by_columns(some=8)
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of ``x[place:]``, scaled, to the first `alike` rows of a sequence."""
    x, out, alike, mode = given
    length, one = columns.length, unknown(1)
    row = load(x, place, count, x) / each(x, float(length) if mode == 1 else math.sqrt(length), count)
    t = 0
    while t < alike:
        store(out, item_at(columns, t), row)
        t += one


@compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    row, rows, at = pointer(x), pointer(out), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        # wide rows are best written one after the other: the first from here, the others from that
        length = columns.length
        alike = 1 if width >= 256 and length != 0 else length
        spread((row, rows, alike, mode), columns, i * width, 0, width)
        for t in range(alike, length):
            move(out, item_at(columns, t), out, item_at(columns, 0), width * out.itemsize)


@shared
def number_of(x: Array, at: Layout, i: int, mode: int) -> Any:
    """By what the rows of a sequence are divided."""
    number = number_in(x, at.cum[i + 1] - at.cum[i])  # an integer would divide in float64
    return number_in(x, math.sqrt(number)) if mode == 2 else number


def cuda(x: Array, out: Array, at: Layout, mode: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = first_of_line(), word_of_line()
    if r < at.cum[at.cum.size - 1] and k < width:
        (i0, _, d0), (i1, _, d1), (i2, _, d2), (i3, _, d3) = four_rows(at, r)
        a, b = x[i0 * width + k], x[i1 * width + k]
        c, d = x[i2 * width + k], x[i3 * width + k]
        out[d0 * width + k] = a / number_of(x, at, i0, mode)
        out[d1 * width + k] = b / number_of(x, at, i1, mode)
        out[d2 * width + k] = c / number_of(x, at, i2, mode)
        out[d3 * width + k] = d / number_of(x, at, i3, mode)


def short(x: Array, out: Array, at: Layout, mode: int, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            value = x[i * width + k] / number_of(x, at, i, mode)
            for t in range(length):
                out[item_at(columns, t)] = value
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "lines", alike(FLOATS, 2), STREAMS, short, fours=True)
