"""The gradient of softmax along every sequence, ``y * (x - sum(x * y))``, or of its logarithm, ``x - exp(y) * sum(x)``.

`x`, the gradient, `y`, the result, and `out` hold the sequences in the same layout, see `Layout`;
`log` is 1 for the logarithm.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    add_block,
    alike,
    at_least,
    at_most,
    by_columns,
    columns_of,
    compiled,
    each,
    exp,
    item_at,
    load,
    locate,
    pointer,
    prefetch,
    room,
    rounded,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import column_slopes, four_of, slopes_of, softmax_slope
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, natural


def back_few(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence of up to 8 rows: the same as `back`, for less."""
    x, y, out, _, log = given
    length, one = columns.length, unknown(1)
    total = each(out, 0, count)
    t = 0
    while t < length:
        d = item_at(columns, t)
        slope = load(x, d, count, out)
        total += slope if log else slope * load(y, d, count, out)
        t += one
    t = 0
    while t < length:
        d = item_at(columns, t)
        slope, row = load(x, d, count, out), load(y, d, count, out)
        store(out, d, slope - exp(row) * total if log else row * (slope - total))
        t += one


@by_columns(some=8, few=back_few)
def back(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence."""
    x, y, out, blocks, log = given
    length, one = columns.length, unknown(1)
    ahead = at_least(8 * columns.step * columns.width, 1024)
    total = each(out, 0, count)
    t = 0
    end = at_most(length, 8)
    while True:
        part = each(out, 0, count)
        while t < end:
            d = item_at(columns, t)
            if count >= 32:
                prefetch(x, d + ahead, count)
                if not log:
                    prefetch(y, d + ahead, count)
            slope = load(x, d, count, out)
            part += slope if log else slope * load(y, d, count, out)
            t += one
        total += part
        if end == length:
            break
        if end & 63 == 0:
            add_block(blocks, total, end == 64)
            total = each(out, 0, count)
        end = at_most(end + 8, length)
    if length > 64:
        total = rounded(blocks, total)
    t = 0
    while t < length:
        d = item_at(columns, t)
        slope, row = load(x, d, count, out), load(y, d, count, out)
        store(out, d, slope - exp(row) * total if log else row * (slope - total))
        t += one


@shared
def back_by_rows(given: Any, columns: Columns) -> int:
    """The columns that 16 lanes can share, some rows at a time, as wide ones are best read and written; how many.

    `blocks` is a `room`, so many columns are taken at once.  The last row of `out` keeps sums until its turn comes.
    """
    x, y, out, blocks, log = given
    length, even = columns.length, columns.width & -16
    one, some = unknown(1), unknown(16)
    begin = 0
    while begin < even:
        size = at_most(even - begin, 1024)
        last = item_at(columns, length - 1) + begin
        t = 0
        while t < length:
            end = at_most(t + 8, length)
            k = 0
            while k < size:
                part = each(out, 0, 16)
                r = t
                while r < end:
                    d = item_at(columns, r) + begin + k
                    slope = load(x, d, 16, out)
                    part += slope if log else slope * load(y, d, 16, out)
                    r += one
                if t & 63 != 0:
                    part += load(out, last + k, 16, out)
                store(out, last + k, part)
                k += some
            t = end
            k = 0
            while t & 63 == 0 and k < size:
                block = load(out, last + k, 16, blocks)
                if t != 64:
                    block += load(blocks, k, 16, blocks)
                store(blocks, k, block)
                k += some
        k = 0
        while length >= 64 and k < size:
            block = load(blocks, k, 16, blocks)
            if length & 63 != 0:
                block += load(out, last + k, 16, blocks)
            store(out, last + k, block)
            k += some
        for t in range(length):
            d = item_at(columns, t) + begin
            k = 0
            while k < size:
                slope, row, total = load(x, d + k, 16, out), load(y, d + k, 16, out), load(out, last + k, 16, out)
                store(out, d + k, slope - exp(row) * total if log else row * (slope - total))
                k += some
        begin += size
    return even


@compiled
def cpu(x: Array, y: Array, out: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (pointer(x), pointer(y), pointer(out), room(pointer(out)), log), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        k = 0
        if width >= 256 and columns.length != 0:
            k = back_by_rows(given, columns)
        back(given, columns, i * width, k, width)


@shared
def put_slopes(x: Array, y: Array, out: Array, columns: Columns, share: Any, found: tuple[Any, int]) -> None:
    """The gradients of a share of a column; `found` is what `slopes_of` gives, and `log`."""
    t, by = share
    total, log = found
    while t + 3 * by < columns.length:
        a, b, c, d = four_of(x, columns, t, by)
        e, f, g, h = four_of(y, columns, t, by)
        out[item_at(columns, t)] = softmax_slope(a, e, total, log)
        out[item_at(columns, t + by)] = softmax_slope(b, f, total, log)
        out[item_at(columns, t + 2 * by)] = softmax_slope(c, g, total, log)
        out[item_at(columns, t + 3 * by)] = softmax_slope(d, h, total, log)
        t += 4 * by
    while t < columns.length:
        p = item_at(columns, t)
        out[p] = softmax_slope(x[p], y[p], total, log)
        t += by


def cuda(x: Array, y: Array, out: Array, at: Layout, log: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    parts = natural(gpu.shared.array(128, x.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        _, first, length = locate(at, u)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            total = column_slopes(x, y, parts, place, k, columns, log)
            if k < width:
                put_slopes(x, y, out, columns, (gpu.threadIdx.y, gpu.blockDim.y), (total, log))
            column += columns_of_grid()
        u += gpu.gridDim.x


def short(x: Array, y: Array, out: Array, at: Layout, log: int, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    u = first_unit()
    while u < at.cum.size - 1:
        _, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            total = slopes_of(x, y, columns, 0, 1, log)
            put_slopes(x, y, out, columns, (0, 1), (total, log))
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", alike(FLOATS, 3), short=short, fours=True)
