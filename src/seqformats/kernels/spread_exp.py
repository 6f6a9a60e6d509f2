"""Give every row of a sequence the sequence's own row times ``exp(y - z)``: the gradient of logsumexp.

``x (n * width,)``, the gradient; ``z (n * width,)``, the logsumexp; `y`, its items, and `out` hold the sequences in the
same layout, see `locate` for the arguments.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import (
    along,
    at_least,
    at_most,
    choose,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    each,
    exp,
    in_lanes,
    load,
    locate,
    pointer,
    prefetch,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


@in_lanes
def spread(
    x: Any,
    y: Any,
    z: Any,
    out: Any,
    p: int,
    at: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    ahead: int,
    one: int,
    count: int,
) -> None:
    """Some columns of a sequence, of which item 0 is at p."""
    log = load(z, at, count, z)
    # a sequence of -inf alone has no slope
    row = choose(log == each(z, -np.inf, count), each(x, 0, count), load(x, at, count, x))
    log = choose(log == each(z, -np.inf, count), each(z, 0, count), log)
    t = 0
    while t < length:
        d = p + along(t, steps, step) * width
        if count >= 32:
            prefetch(y, d + ahead, count)
        store(out, d, row * exp(load(y, d, count, y) - log))
        t += one


@compiled
def cpu(
    x: Any,
    y: Any,
    z: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    row, items, logs, rows = pointer(x), pointer(y), pointer(z), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one, count, ahead = unknown(1), columns_at_once(width, 8), at_least(8 * step * width, 1024)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if count == 32:
                spread(row, items, logs, rows, p, at, steps, width, length, step, ahead, one, 32)
            elif count == 8:
                spread(row, items, logs, rows, p, at, steps, width, length, step, ahead, one, 8)
            elif count == 4:
                spread(row, items, logs, rows, p, at, steps, width, length, step, ahead, one, 4)
            else:
                spread(row, items, logs, rows, p, at, steps, width, length, step, ahead, one, 1)
            k += count


@compiled_for_cuda(over="rows")
def cuda(
    x: Any,
    y: Any,
    z: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
) -> None:
    """All rows, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i, _, d = find(starts, cum, steps, r, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            log = z[i * width + k]
            out[d * width + k] = x[i * width + k] * exp(y[d * width + k] - log)
            if math.isinf(log) and log < 0:  # a sequence of -inf alone has no slope
                out[d * width + k] = 0
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
