"""The softmax of every sequence, or its logarithm, of what `add_powers` has found of it, column by column.

``top (n * width,)`` and `total`; `x` and `out` hold the sequences in the same layout, see `Layout`; `log` is 1 for the
logarithm, and 2 where `total` is by what powers are multiplied, not by what they are divided.
"""

from typing import Any

import numpy as np

from . import parts as p
from .parts import Array, Columns, Item, Layout

ln = np.log  # of one number; on CUDA the device's own is put in its place


@p.shared
def shift_of(top: Array, total: Array, place: int, log: int) -> Any:
    """Find what is taken from the items of a sequence and column, and the factor of their powers."""
    powers = total[place]
    if log == 2:
        return top[place], powers
    return top[place], ln(powers) if log else total.dtype.type(1) / powers


@p.shared
def power(item: Item, shift: tuple[Item, Item], log: int) -> Any:
    """The softmax of an item, or its logarithm."""
    less = item - shift[0]
    return less - shift[1] if log == 1 else p.exp(less) * shift[1]


@p.compiled
def cpu(top: Array, total: Array, x: Array, out: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`, number by number."""
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            if length != 0:
                shift = shift_of(top, total, i * width + k, log)
                for t in range(length):
                    d = p.item_at(columns, t)
                    out[d] = power(x[d], shift, log)


def cuda(top: Array, total: Array, x: Array, out: Array, at: Layout, log: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = p.first_of_line(), p.word_of_line()
    if r < at.cum[at.cum.size - 1] and k < width:
        (i0, _, row0), (i1, _, row1), (i2, _, row2), (i3, _, row3) = p.four_rows(at, r)
        a, b = x[row0 * width + k], x[row1 * width + k]
        c, d = x[row2 * width + k], x[row3 * width + k]
        shift0 = shift_of(top, total, i0 * width + k, log)
        shift1 = shift0 if i1 == i0 else shift_of(top, total, i1 * width + k, log)
        shift2 = shift1 if i2 == i1 else shift_of(top, total, i2 * width + k, log)
        shift3 = shift2 if i3 == i2 else shift_of(top, total, i3 * width + k, log)
        out[row0 * width + k] = power(a, shift0, log)
        out[row1 * width + k] = power(b, shift1, log)
        out[row2 * width + k] = power(c, shift2, log)
        out[row3 * width + k] = power(d, shift3, log)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "lines", p.alike(p.FLOATS, 4))
