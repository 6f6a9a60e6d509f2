"""The gradient of softmax along every sequence, ``y * (x - sum(x * y))``, or of its logarithm, ``x - exp(y) * sum(x)``.

`x`, the gradient, `y`, the result, and `out` hold the sequences in the same layout, see `Layout`;
`log` is 1 for the logarithm.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


def back_few(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence of up to 8 rows: the same as `back`, for less."""
    x, y, out, _, log = given
    length, one = columns.length, p.unknown(1)
    total = p.each(out, 0, count)
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        slope = p.load(x, d, count, out)
        total += slope if log else slope * p.load(y, d, count, out)
        t += one
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        slope, row = p.load(x, d, count, out), p.load(y, d, count, out)
        p.store(out, d, slope - p.exp(row) * total if log else row * (slope - total))
        t += one


@p.by_columns(some=8, few=back_few)
def back(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence."""
    x, y, out, blocks, log = given
    length, one = columns.length, p.unknown(1)
    ahead = p.at_least(8 * columns.step * columns.width, 1024)
    total = p.each(out, 0, count)
    t = 0
    end = p.at_most(length, 8)
    while True:
        part = p.each(out, 0, count)
        while t < end:
            d = p.item_at(columns, t)
            if count >= 32:
                p.prefetch(x, d + ahead, count)
                if not log:
                    p.prefetch(y, d + ahead, count)
            slope = p.load(x, d, count, out)
            part += slope if log else slope * p.load(y, d, count, out)
            t += one
        total += part
        if end == length:
            break
        if end & 63 == 0:
            p.add_block(blocks, total, end == 64)
            total = p.each(out, 0, count)
        end = p.at_most(end + 8, length)
    if length > 64:
        total = p.round_sum(blocks, total)
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        slope, row = p.load(x, d, count, out), p.load(y, d, count, out)
        p.store(out, d, slope - p.exp(row) * total if log else row * (slope - total))
        t += one


@p.shared
def back_by_rows(given: Any, columns: Columns) -> int:
    """The columns that 16 lanes can share, some rows at a time, as wide ones are best read and written; how many.

    `blocks` is a `room`, so many columns are taken at once.  The last row of `out` keeps sums until its turn comes.
    """
    x, y, out, blocks, log = given
    length, even = columns.length, columns.width & -16
    one, some = p.unknown(1), p.unknown(16)
    begin = 0
    while begin < even:
        size = p.at_most(even - begin, 1024)
        last = p.item_at(columns, length - 1) + begin
        t = 0
        while t < length:
            end = p.at_most(t + 8, length)
            k = 0
            while k < size:
                part = p.each(out, 0, 16)
                r = t
                while r < end:
                    d = p.item_at(columns, r) + begin + k
                    slope = p.load(x, d, 16, out)
                    part += slope if log else slope * p.load(y, d, 16, out)
                    r += one
                if t & 63 != 0:
                    part += p.load(out, last + k, 16, out)
                p.store(out, last + k, part)
                k += some
            t = end
            k = 0
            while t & 63 == 0 and k < size:
                block = p.load(out, last + k, 16, blocks)
                if t != 64:
                    block += p.load(blocks, k, 16, blocks)
                p.store(blocks, k, block)
                k += some
        k = 0
        while length >= 64 and k < size:
            block = p.load(blocks, k, 16, blocks)
            if length & 63 != 0:
                block += p.load(out, last + k, 16, blocks)
            p.store(out, last + k, block)
            k += some
        for t in range(length):
            d = p.item_at(columns, t) + begin
            k = 0
            while k < size:
                slope, row, total = p.load(x, d + k, 16, out), p.load(y, d + k, 16, out), p.load(out, last + k, 16, out)
                p.store(out, d + k, slope - p.exp(row) * total if log else row * (slope - total))
                k += some
        begin += size
    return even


@p.compiled
def cpu(x: Array, y: Array, out: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (p.pointer(x), p.pointer(y), p.pointer(out), p.room(p.pointer(out)), log), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = 0
        if width >= 256 and columns.length != 0:
            k = back_by_rows(given, columns)
        back(given, columns, i * width, k, width)


@p.shared
def put_slopes(x: Array, y: Array, out: Array, columns: Columns, share: Any, found: tuple[Any, int]) -> None:
    """The gradients of a share of a column; `found` is what `slopes_of` gives, and `log`."""
    t, by = share
    total, log = found
    while t + 3 * by < columns.length:
        a, b, c, d = p.four_of(x, columns, t, by)
        e, f, g, h = p.four_of(y, columns, t, by)
        out[p.item_at(columns, t)] = p.softmax_slope(a, e, total, log)
        out[p.item_at(columns, t + by)] = p.softmax_slope(b, f, total, log)
        out[p.item_at(columns, t + 2 * by)] = p.softmax_slope(c, g, total, log)
        out[p.item_at(columns, t + 3 * by)] = p.softmax_slope(d, h, total, log)
        t += 4 * by
    while t < columns.length:
        q = p.item_at(columns, t)
        out[q] = p.softmax_slope(x[q], y[q], total, log)
        t += by


@p.block_per_sequence
def cuda(
    x: Array, y: Array, out: Array, at: Layout, log: int, width: int, *, k: int, columns: Columns, slot: int
) -> None:
    """A column of a sequence, by the threads of a block."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    total = p.column_slopes(x, y, parts, slot, k, columns, log)
    if k < width:
        put_slopes(x, y, out, columns, (gpu.threadIdx.y, gpu.blockDim.y), (total, log))


@p.thread_per_column
def short(x: Array, y: Array, out: Array, at: Layout, log: int, width: int, *, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    total = p.slopes_of(x, y, columns, 0, 1, log)
    put_slopes(x, y, out, columns, (0, 1), (total, log))


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 3), short=short, fours=True)
