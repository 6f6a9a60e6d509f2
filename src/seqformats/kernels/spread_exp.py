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
        total = p.rounded(blocks, total)
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


def cuda(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            found = p.column_powers(y, parts, place, k, columns)
            if k < width:
                put_slopes(x, y, z, out, columns, i * width + k, (gpu.threadIdx.y, gpu.blockDim.y), found)


def short(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            put_slopes(x, y, z, out, columns, i * width + k, (0, 1), p.powers_of(y, columns, 0, 1))


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 4), short=short)
