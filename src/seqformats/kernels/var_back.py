"""The gradient of a variance, or of its root, for the items: how far each is from the mean, times a factor.

``x (n * width,)``, the gradient; `y`, the items, and `out` hold the sequences in the same layout, see `Layout`;
``values (n * width,)``: what `var_rows` has found, whose `deviation` and `ddof` these are.  A deviation of zero has no
slope.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Columns, Layout


class Given(NamedTuple):
    """The gradient, the items, and what `var_rows` has found."""

    x: Array
    y: Array
    values: Array


@p.by_columns(most=16)
def slope(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[place:]`` belongs; `divisor` is negative for the root of a variance."""
    x, y, values, out, blocks, divisor = given
    mean, length, one = p.centre(y, blocks, columns, count), columns.length, p.unknown(1)
    factor, zero = p.load(x, place, count, blocks), p.each(blocks, 0.0, count)
    if divisor < 0:
        value = p.load(values, place, count, blocks)
        still = value == zero
        factor = p.choose(still, zero, factor / p.choose(still, p.each(blocks, 1.0, count), value))
        factor = factor / p.each(blocks, -divisor, count)
    else:
        factor = (factor + factor) / p.each(blocks, divisor, count)
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        p.store(out, d, factor * (p.load(y, d, count, blocks) - mean))
        t += one


@p.compiled
def cpu(given: Given, out: Array, at: Layout, deviation: int, ddof: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, y, values = given
    row, items, found, rows, at = p.pointer(x), p.pointer(y), p.pointer(values), p.pointer(out), p.pointer(at)
    blocks = p.room(row)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        divisor = float(columns.length - ddof)
        if deviation != 0:
            divisor = -divisor
        k = 0
        while k < width and columns.length <= ddof:
            for t in range(columns.length):
                rows[p.item_at(columns, t) + k] = 0
            k += 1
        slope((row, items, found, rows, blocks, divisor), columns, i * width, k, width)


def cuda(given: Given, out: Array, at: Layout, deviation: int, ddof: int, width: int) -> None:
    """All units, a thread a column of each."""
    x, y, values = given
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        number = out.dtype.type(length)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            factor = out.dtype.type(0)
            if length > ddof:
                factor = x[i * width + k] / out.dtype.type(length - ddof)
                value = values[i * width + k]
                if deviation == 0:
                    factor += factor
                elif value == 0:
                    factor = out.dtype.type(0)
                else:
                    factor /= value
            mean = out.dtype.type(0)
            for turn in range(2):  # what the rounded mean leaves over is a second one
                blocks = p.wide(out.dtype.type(0))
                for t in range(length):
                    blocks += p.wide(y[(first + p.along(at, t)) * width + k] - mean)
                if turn == 0 and length != 0:
                    mean = out.dtype.type(blocks) / number
            beside = mean
            if length != 0:
                beside = out.dtype.type(blocks) / number
            for t in range(length):
                d = (first + p.along(at, t)) * width + k
                out[d] = 0
                if length > ddof:
                    out[d] = factor * (y[d] - mean - beside)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 4))
