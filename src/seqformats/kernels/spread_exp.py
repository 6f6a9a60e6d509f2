"""Give every row of a sequence the sequence's own row times its softmax: the gradient of logsumexp.

``x (n * width,)``, the gradient; ``z (n * width,)``, the logsumexp; `y`, its items, and `out` hold the sequences in the
same layout, see `Layout`.

The powers ``exp(y - z)`` add up to 1 only as far as `z` is not rounded, so they are divided by their sum.  The CPU
keeps them in `out` meanwhile.
"""

import math
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
    choose,
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
    from .parts.columns import column_powers, powers_of
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, natural, zero_in


@by_columns(some=8)
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[place:]`` and ``z[place:]`` belong."""
    x, y, z, out, blocks = given
    length, one = columns.length, unknown(1)
    ahead = at_least(8 * columns.step * columns.width, 1024)
    log, zero = load(z, place, count, z), each(out, 0, count)
    nothing = log == each(z, -math.inf, count)  # a sequence of -inf alone has no slope
    log, total = choose(nothing, zero, log), zero
    t = 0
    end = at_most(length, 8)
    while True:
        part = each(out, 0, count)
        while t < end:
            d = item_at(columns, t)
            if count >= 32:
                prefetch(y, d + ahead, count)
            power = exp(load(y, d, count, out) - log)
            part += power
            store(out, d, power)
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
    row = choose(nothing, zero, load(x, place, count, out) / total)
    t = 0
    while t < length:
        d = item_at(columns, t)
        store(out, d, row * load(out, d, count, out))
        t += one


@compiled
def cpu(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (pointer(x), pointer(y), pointer(z), pointer(out), room(pointer(out))), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        spread(given, columns, i * width, 0, width)


@shared
def put_slopes(x: Array, y: Array, z: Array, out: Array, columns: Columns, place: int, share: Any, found: Any) -> None:
    """The gradients of a share of a column, to which ``x[place]`` belongs; `found` is what `powers_of` gives."""
    (t, by), (top, total), log = share, found, z[place]
    total += total - total  # NaN where it is infinite
    row = x[place] / total
    if math.isinf(log) and log < 0:  # a sequence of -inf alone has no slope
        row = zero_in(x)
    while t < columns.length:
        d = item_at(columns, t)
        out[d] = row * exp(y[d] - top)
        t += by


def cuda(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    parts = natural(gpu.shared.array(128, x.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            found = column_powers(y, parts, place, k, columns)
            if k < width:
                put_slopes(x, y, z, out, columns, i * width + k, (gpu.threadIdx.y, gpu.blockDim.y), found)
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x


def short(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            put_slopes(x, y, z, out, columns, i * width + k, (0, 1), powers_of(y, columns, 0, 1))
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", alike(FLOATS, 4), short=short)
