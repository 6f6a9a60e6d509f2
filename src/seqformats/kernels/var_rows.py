"""The variance of every sequence, column by column, or its root: the mean, and the squares of what is beside it.

What the mean, which is rounded, leaves over is taken from the squares (Chan, Golub and LeVeque, "Algorithms for
computing the sample variance", 1983), so that numbers far from zero lose nothing.  The CPU reads the items twice, and
calculates in float64.  On CUDA they are read once, in the dtype of `out`; blocks of float32 are added up in float64.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  The sum of squares is divided by the length
less `ddof`; sequences that are not longer give zeros.  `deviation` is 1 for the square root.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.by_columns(most=16)
def vary(given: Any, columns: Columns, place: int, count: int) -> None:
    """The variances of some columns of a sequence to ``out[place:]``; `blocks` is a `room`."""
    x, out, blocks, deviation, divisor = given
    mean, length, one = p.centre(x, blocks, columns, count), columns.length, p.unknown(1)
    sums, squares, zero = p.each(blocks, 0.0, count), p.each(blocks, 0.0, count), p.each(blocks, 0.0, count)
    t = 0
    while t + 4 <= length:
        a = p.load(x, p.item_at(columns, t), count, blocks) - mean
        b = p.load(x, p.item_at(columns, t + 1), count, blocks) - mean
        c = p.load(x, p.item_at(columns, t + 2), count, blocks) - mean
        d = p.load(x, p.item_at(columns, t + 3), count, blocks) - mean
        sums += a + b + (c + d)
        squares += a * a + b * b + (c * c + d * d)
        t += 4
    while t < length:
        a = p.load(x, p.item_at(columns, t), count, blocks) - mean
        sums += a
        squares += a * a
        t += one
    found = squares - sums * (sums / p.each(blocks, float(length), count))
    found = p.choose(found < zero, zero, found) / p.each(blocks, divisor, count)
    if deviation != 0:
        found = p.root(found)
    p.store(out, place, found)


@p.compiled
def cpu(x: Array, out: Array, at: Layout, deviation: int, ddof: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    found, at = p.pointer(out), p.pointer(at)
    rows, blocks = p.pointer(x), p.room(found)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = 0
        while k < width and columns.length <= ddof:
            out[i * width + k] = 0
            k += 1
        given = rows, found, blocks, deviation, float(columns.length - ddof)
        vary(given, columns, i * width, k, width)


def cuda(x: Array, out: Array, at: Layout, deviation: int, ddof: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    The order of summation depends on the sequence alone, see `tree_sum`.
    """
    parts = p.natural(gpu.shared.array(128, out.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        inverse = p.number_in(out, 1) / p.number_in(out, max(length, 1))
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            share = p.share_of(length)
            if k >= width or length <= ddof:
                share = length, 1
            moments = p.moments_of(x, out, columns, share)
            parts[place] = p.total_of(out, moments)
            p.tree_sum(parts, place)
            mean = parts[gpu.threadIdx.x] * inverse
            gpu.syncthreads()  # before the memory is used again
            total, more = p.sums_beside(out, moments, mean)
            parts[place] = total
            p.tree_sum(parts, place)
            sums = parts[gpu.threadIdx.x]
            gpu.syncthreads()
            parts[place] = more
            p.tree_sum(parts, place)
            squares = parts[gpu.threadIdx.x]
            gpu.syncthreads()
            if gpu.threadIdx.y == 0 and k < width:
                p.put_variance(out, i * width + k, sums, squares, length, ddof, deviation)


def short(x: Array, out: Array, at: Layout, deviation: int, ddof: int, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length if length > ddof else 0, width, at.steps, at.step)
            moments = 0, p.zero_in(out), p.zero_in(out), p.zero_in(out)
            if columns.length != 0:
                mean, sums, squares = p.block_moments(x, out, columns, 0, 1, columns.length)
                moments = columns.length, mean, sums, squares
            mean = p.total_of(out, moments) * (p.number_in(out, 1) / p.number_in(out, max(length, 1)))
            sums, squares = p.sums_beside(out, moments, mean)
            p.put_variance(out, i * width + k, sums, squares, length, ddof, deviation)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", (*p.alike(p.FLOATS, 2), *p.MEANS), short=short, fours=True)
