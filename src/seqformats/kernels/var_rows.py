"""The variance of every sequence, column by column, or its root: first the mean, then the squares of what is beside it.

What the mean, which is rounded, leaves over is taken from the squares (Chan, Golub and LeVeque, "Algorithms for
computing the sample variance", 1983), so that numbers far from zero lose nothing.  On the CPU both passes run in
float64, on CUDA in the dtype of `out`, and of float32 the blocks in float64.

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
    at_most,
    centre,
    choose,
    compiled,
    each,
    in_lanes,
    item_at,
    load,
    locate,
    pointer,
    room,
    root,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import four_of, share_of, some_of, tree_sum
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import chosen, gpu, item_in, natural, number_in, sqrt, wide, zero_in


@in_lanes
def vary(
    x: Array, out: Array, blocks: Array, columns: Columns, place: int, deviation: int, divisor: float, count: int
) -> None:
    """The variances of some columns of a sequence to ``out[place:]``; `blocks` is a `room`."""
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
    rows, found = pointer(x), pointer(out)
    at = pointer(at)
    count, blocks = 16 if width >= 16 else 4 if width >= 4 else 1, room(found)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        k = 0
        while k < width and length <= ddof:
            out[i * width + k] = 0
            k += 1
        divisor = float(length - ddof)
        while k < width:
            k = at_most(k, width - count)
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if count == 16:
                vary(rows, found, blocks, columns, place, deviation, divisor, 16)
            elif count == 4:
                vary(rows, found, blocks, columns, place, deviation, divisor, 4)
            else:
                vary(rows, found, blocks, columns, place, deviation, divisor, 1)
            k += count


@shared
def four_more(sums: Any, squares: Any, four: tuple[Any, Any, Any, Any], mean: Any) -> Any:
    """Sums of what is beside the mean, and of its squares, with four items more."""
    a, b, c, d = four
    a, b, c, d = a - mean, b - mean, c - mean, d - mean
    return (((sums + a) + b) + c) + d, (((squares + a * a) + b * b) + c * c) + d * d


@shared
def moments_of(x: Array, out: Array, columns: Columns, mean: Any, share: Any) -> Any:
    """Sums over every so many items of a column from some on, of what is beside the mean and of its squares.

    Eight are added up at a time, in the dtype of `out`.
    """
    t, by = share
    none = zero_in(out)
    sums, squares = wide(none), wide(none)
    while t + 7 * by < columns.length:
        four, others = four_of(x, columns, t, by), four_of(x, columns, t + 4 * by, by)
        s, q = four_more(none, none, four, mean)
        s, q = four_more(s, q, others, mean)
        sums += wide(s)
        squares += wide(q)
        t += 8 * by
    s = q = none
    if t + 3 * by < columns.length:
        s, q = four_more(s, q, four_of(x, columns, t, by), mean)
        t += 4 * by
    if t < columns.length:
        a, b, c, _ = some_of(x, columns, t, by, zero_in(x))
        a, b, c = a - mean, b - mean, c - mean
        s, q = s + a, q + a * a
        if t + by < columns.length:
            s, q = s + b, q + b * b
        if t + 2 * by < columns.length:
            s, q = s + c, q + c * c
    return item_in(out, sums + wide(s)), item_in(out, squares + wide(q))


@shared
def put_variance(out: Array, place: int, sums: Any, squares: Any, length: int, ddof: int, deviation: int) -> None:
    """The variance by what is beside the mean and its squares, or its root; 0 where there are too few items."""
    none = zero_in(out)
    out[place] = none
    if length > ddof:
        found = (squares - sums * (sums / number_in(out, length))) / number_in(out, length - ddof)
        found = chosen(none, found, none, found)
        out[place] = sqrt(found) if deviation else found


def cuda(x: Array, out: Array, at: Layout, deviation: int, ddof: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    The order of summation depends on the sequence alone, see `tree_sum`.
    """
    parts = natural(gpu.shared.array(128, out.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        number = out.dtype.type(max(length, 1))
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            share = share_of(length)
            if k >= width or length <= ddof:
                share = length, 1
            total, _ = moments_of(x, out, columns, out.dtype.type(0), share)
            parts[place] = total
            tree_sum(parts, place)
            mean = parts[gpu.threadIdx.x] / number
            gpu.syncthreads()  # before the memory is used again
            total, more = moments_of(x, out, columns, mean, share)
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
            total, _ = moments_of(x, out, columns, zero_in(out), (0, 1))
            mean = total / number_in(out, max(length, 1))
            sums, squares = moments_of(x, out, columns, mean, (0, 1))
            put_variance(out, i * width + k, sums, squares, length, ddof, deviation)
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", (*alike(FLOATS, 2), *MEANS), short=short, fours=True)
