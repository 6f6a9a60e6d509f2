"""The variance of every sequence, column by column, or its root: the mean, and the squares of what is beside it.

What the mean, which is rounded, leaves over is taken from the squares (Chan, Golub and LeVeque, "Algorithms for
computing the sample variance", 1983), so that numbers far from zero lose nothing.  The CPU reads the items twice, and
calculates in float64.  On CUDA they are read once, in the dtype of `out`; blocks of float32 are added up in float64.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  The sum of squares is divided by the length
less `ddof`; sequences that are not longer give zeros.  `deviation` is 1 for the square root.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    FLOATS,
    MEANS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    alike,
    by_columns,
    centre,
    choose,
    columns_of,
    compiled,
    each,
    item_at,
    load,
    locate,
    pointer,
    room,
    root,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import share_of, tree_sum
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, natural, number_in, zero_in
    from .parts.moments import block_moments, moments_of, put_variance, sums_beside, total_of


@by_columns(most=16)
def vary(given: Any, columns: Columns, place: int, count: int) -> None:
    """The variances of some columns of a sequence to ``out[place:]``; `blocks` is a `room`."""
    x, out, blocks, deviation, divisor = given
    mean, length, one = centre(x, blocks, columns, count), columns.length, unknown(1)
    sums, squares, zero = each(blocks, 0.0, count), each(blocks, 0.0, count), each(blocks, 0.0, count)
    t = 0
    while t + 4 <= length:
        a = load(x, item_at(columns, t), count, blocks) - mean
        b = load(x, item_at(columns, t + 1), count, blocks) - mean
        c = load(x, item_at(columns, t + 2), count, blocks) - mean
        d = load(x, item_at(columns, t + 3), count, blocks) - mean
        sums += a + b + (c + d)
        squares += a * a + b * b + (c * c + d * d)
        t += 4
    while t < length:
        a = load(x, item_at(columns, t), count, blocks) - mean
        sums += a
        squares += a * a
        t += one
    found = squares - sums * (sums / each(blocks, float(length), count))
    found = choose(found < zero, zero, found) / each(blocks, divisor, count)
    if deviation != 0:
        found = root(found)
    store(out, place, found)


@compiled
def cpu(x: Array, out: Array, at: Layout, deviation: int, ddof: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    found, at = pointer(out), pointer(at)
    rows, blocks = pointer(x), room(found)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
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
    parts = natural(gpu.shared.array(128, out.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        inverse = number_in(out, 1) / number_in(out, max(length, 1))
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            share = share_of(length)
            if k >= width or length <= ddof:
                share = length, 1
            moments = moments_of(x, out, columns, share)
            parts[place] = total_of(out, moments)
            tree_sum(parts, place)
            mean = parts[gpu.threadIdx.x] * inverse
            gpu.syncthreads()  # before the memory is used again
            total, more = sums_beside(out, moments, mean)
            parts[place] = total
            tree_sum(parts, place)
            sums = parts[gpu.threadIdx.x]
            gpu.syncthreads()
            parts[place] = more
            tree_sum(parts, place)
            squares = parts[gpu.threadIdx.x]
            gpu.syncthreads()
            if gpu.threadIdx.y == 0 and k < width:
                put_variance(out, i * width + k, sums, squares, length, ddof, deviation)
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x


def short(x: Array, out: Array, at: Layout, deviation: int, ddof: int, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length if length > ddof else 0, width, at.steps, at.step)
            moments = 0, zero_in(out), zero_in(out), zero_in(out)
            if columns.length != 0:
                mean, sums, squares = block_moments(x, out, columns, 0, 1, columns.length)
                moments = columns.length, mean, sums, squares
            mean = total_of(out, moments) * (number_in(out, 1) / number_in(out, max(length, 1)))
            sums, squares = sums_beside(out, moments, mean)
            put_variance(out, i * width + k, sums, squares, length, ddof, deviation)
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", (*alike(FLOATS, 2), *MEANS), short=short, fours=True)
