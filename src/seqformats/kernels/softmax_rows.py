"""Softmax along every sequence, column by column, with the maximum taken out first; or its logarithm.

`x` and `out` hold the sequences in the same layout, see `Layout`; `log` is 1 for the logarithm.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.by_columns(some=8)
def softmax(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence."""
    x, out, blocks, log = given
    length, one = columns.length, p.unknown(1)
    ahead = p.at_least(8 * columns.step * columns.width, 1024)
    top = p.load(x, p.item_at(columns, 0), count, out)
    t = one
    while t < length:
        d = p.item_at(columns, t)
        if count >= 32:
            p.prefetch(x, d + ahead, count)
        value = p.load(x, d, count, out)
        top = p.larger(top, value)
        t += one
    total = p.each(out, 0, count)
    t = 0
    end = p.at_most(length, 8)
    while True:
        part = p.each(out, 0, count)
        while t < end:
            d = p.item_at(columns, t)
            value = p.load(x, d, count, out) - top
            power = p.exp(value)
            part += power
            p.store(out, d, value if log else power)
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
    shift = p.log(total) if log else total
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        value = p.load(out, d, count, out)
        p.store(out, d, value - shift if log else value / shift)
        t += one


@p.compiled
def cpu(x: Array, out: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (p.pointer(x), p.pointer(out), p.room(p.pointer(out)), log), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        if columns.length != 0:
            softmax(given, columns, i * width, 0, width)


@p.shared
def put_beside(four: tuple[Any, Any, Any, Any], top: Any, shift: Any, log: int) -> Any:
    """Finish four items."""
    a, b, c, d = four
    a, b, c, d = a - top, b - top, c - top, d - top
    if log:
        return a - shift, b - shift, c - shift, d - shift
    return p.exp(a) * shift, p.exp(b) * shift, p.exp(c) * shift, p.exp(d) * shift


@p.shared
def put_eight(out: Array, columns: Columns, t: int, by: int, eight: Any, found: tuple[Any, Any, int]) -> None:
    """Finish item t of a column and seven more, as many as there are."""
    a, b, c, d, e, f, g, h = eight
    p.put_some(out, columns, t, by, put_beside((a, b, c, d), *found))
    if t + 4 * by < columns.length:
        p.put_some(out, columns, t + 4 * by, by, put_beside((e, f, g, h), *found))


@p.shared
def put_powers(x: Array, out: Array, columns: Columns, t: int, by: int, found: tuple[Any, Any, int]) -> None:
    """The results of every so many items of a column from t on; `found` is what `powers_of` gives, and `log`."""
    top, total, log = found
    total += total - total  # NaN where it is infinite
    shift = p.ln(total) if log else (p.zero_in(x) + p.number_in(x, 1)) / total  # one division a column
    while t < columns.length:
        eight, more = p.eight_of(x, columns, t, by, top), p.eight_ahead(x, columns, t + 8 * by, by, top)
        put_eight(out, columns, t, by, eight, (top, shift, log))
        t += 8 * by
        if p.has_one(x) and t < columns.length:
            put_eight(out, columns, t, by, more, (top, shift, log))
            t += 8 * by


@p.block_per_sequence
def cuda(x: Array, out: Array, at: Layout, log: int, width: int, *, k: int, columns: Columns, slot: int) -> None:
    """A column of a sequence, by the threads of a block."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    top, total = p.column_powers(x, parts, slot, k, columns)
    if k < width:
        put_powers(x, out, columns, gpu.threadIdx.y, gpu.blockDim.y, (top, total, log))


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, log: int, width: int, *, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    top, total = p.powers_of(x, columns, 0, 1)
    put_powers(x, out, columns, 0, 1, (top, total, log))


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 2), short=short, fours=True)
