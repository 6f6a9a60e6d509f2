"""Give every row of a sequence the sequence's own row times ``exp(y - z)``: the gradient of logsumexp.

``x (n * width,)``, the gradient; ``z (n * width,)``, the logsumexp; `y`, its items, and `out` hold the sequences in the
same layout, see `locate` for the arguments.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import along, compiled, compiled_for_cuda, exp, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


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
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        source = x[i * width : (i + 1) * width]
        log = z[i * width : (i + 1) * width]
        for t in range(length):
            r = first + along(t, steps, step)
            row = y[r * width : (r + 1) * width]
            to = out[r * width : (r + 1) * width]
            for k in range(row.size):
                to[k] = source[k] * exp(row[k] - log[k])
                if log[k] == -np.inf:  # a sequence of -inf alone has no slope
                    to[k] = 0


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
