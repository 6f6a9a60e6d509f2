"""Give every row of a sequence the sequence's own row times its softmax: the gradient of logsumexp.

``x (n * width,)``, the gradient; ``z (n * width,)``, the logsumexp; `y`, its items, and `out` hold the sequences in the
same layout, see `Layout`.

The powers ``exp(y - z)`` add up to 1 only as far as `z` is not rounded, so they are divided by their sum.  The CPU
keeps them in `out` meanwhile.
"""

import math
from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.by_columns(some=8)
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[place:]`` and ``z[place:]`` belong."""
    x, y, z, out, blocks = given
    length, one = columns.length, p.unknown(1)
    ahead = p.at_least(8 * columns.step * columns.width, 1024)
    log, zero = p.load(z, place, count, z), p.each(out, 0, count)
    nothing = log == p.each(z, -math.inf, count)  # a sequence of -inf alone has no slope
    log, total = p.choose(nothing, zero, log), zero
    t = 0
    end = p.at_most(length, 8)
    while True:
        part = p.each(out, 0, count)
        while t < end:
            d = p.item_at(columns, t)
            if count >= 32:
                p.prefetch(y, d + ahead, count)
            power = p.exp(p.load(y, d, count, out) - log)
            part += power
            p.store(out, d, power)
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
    row = p.choose(nothing, zero, p.load(x, place, count, out) / total)
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        p.store(out, d, row * p.load(out, d, count, out))
        t += one


@p.compiled
def cpu(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (p.pointer(x), p.pointer(y), p.pointer(z), p.pointer(out), p.room(p.pointer(out))), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        spread(given, columns, i * width, 0, width)


@p.shared
def put_slopes(x: Array, y: Array, z: Array, out: Array, columns: Columns, place: int, share: Any, found: Any) -> None:
    """The gradients of a share of a column, to which ``x[place]`` belongs; `found` is what `powers_of` gives."""
    (t, by), (top, total), log = share, found, z[place]
    total += total - total  # NaN where it is infinite
    row = x[place] / total
    if math.isinf(log) and log < 0:  # a sequence of -inf alone has no slope
        row = p.zero_in(x)
    while t < columns.length:
        d = p.item_at(columns, t)
        out[d] = row * p.exp(y[d] - top)
        t += by


@p.block_per_sequence
def cuda(
    x: Array, y: Array, z: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns, slot: int
) -> None:
    """A column of a sequence, by the threads of a block."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    found = p.column_powers(y, parts, slot, k, columns)
    if k < width:
        put_slopes(x, y, z, out, columns, i * width + k, (gpu.threadIdx.y, gpu.blockDim.y), found)


@p.thread_per_column
def short(
    x: Array, y: Array, z: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns
) -> None:
    """A column of a sequence, by one thread."""
    put_slopes(x, y, z, out, columns, i * width + k, (0, 1), p.powers_of(y, columns, 0, 1))


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 4), short=short)
