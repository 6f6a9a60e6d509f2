"""Give every row of a sequence the sequence's own row times ``exp(y - z)``: the gradient of logsumexp.

``x (n * width,)``, the gradient; ``z (n * width,)``, the logsumexp; `y`, its items, and `out` hold the sequences in the
same layout, see `Layout`.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    alike,
    at_least,
    at_most,
    choose,
    columns_at_once,
    compiled,
    each,
    exp,
    in_lanes,
    item_at,
    load,
    locate,
    pointer,
    prefetch,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import find
    from .parts.gpu import gpu


@in_lanes
def spread(x: Array, y: Array, z: Array, out: Array, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[place:]`` and ``z[place:]`` belong."""
    length, one = columns.length, unknown(1)
    ahead = at_least(8 * columns.step * columns.width, 1024)
    log = load(z, place, count, z)
    # a sequence of -inf alone has no slope
    row = choose(log == each(z, -np.inf, count), each(x, 0, count), load(x, place, count, x))
    log = choose(log == each(z, -np.inf, count), each(z, 0, count), log)
    t = 0
    while t < length:
        d = item_at(columns, t)
        if count >= 32:
            prefetch(y, d + ahead, count)
        store(out, d, row * exp(load(y, d, count, y) - log))
        t += one


@compiled
def cpu(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    row, items, logs, rows = pointer(x), pointer(y), pointer(z), pointer(out)
    at = pointer(at)
    count = columns_at_once(width, 8)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        k = 0
        while k < width:
            k = at_most(k, width - count)
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if count == 32:
                spread(row, items, logs, rows, columns, place, 32)
            elif count == 8:
                spread(row, items, logs, rows, columns, place, 8)
            elif count == 4:
                spread(row, items, logs, rows, columns, place, 4)
            else:
                spread(row, items, logs, rows, columns, place, 1)
            k += count


def cuda(x: Array, y: Array, z: Array, out: Array, at: Layout, width: int) -> None:
    """All rows, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < at.cum[at.cum.size - 1]:
        i, _, d = find(at, r)
        k = gpu.threadIdx.x
        while k < width:
            log = z[i * width + k]
            out[d * width + k] = x[i * width + k] * exp(y[d * width + k] - log)
            if math.isinf(log) and log < 0:  # a sequence of -inf alone has no slope
                out[d * width + k] = 0
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", alike(FLOATS, 4))
