"""Give every row of a sequence the sequence's own row, scaled: the gradient of a sum, a mean, and sum / sqrt(length).

``x (n * width,)``; `out` holds the sequences in any layout, see `locate` for the arguments.  For `mode` see `sum_rows`.
"""

import math
from typing import TYPE_CHECKING, Any

from .._kernel import along, compiled, compiled_for_cuda, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


@compiled
def cpu(
    x: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    mode: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        source = x[i * width : (i + 1) * width]
        number = float(length) if mode == 1 else math.sqrt(length) if mode == 2 else 1.0
        for t in range(length):
            r = first + along(t, steps, step)
            row = out[r * width : (r + 1) * width]
            for k in range(row.size):
                row[k] = source[k] / number


@compiled_for_cuda(over="rows")
def cuda(
    x: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    mode: int,
) -> None:
    """All rows, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i, _, d = find(starts, cum, steps, r, stride, left, step)
        number = x.dtype.type(cum[i + 1] - cum[i] if mode != 0 else 1)  # an integer would divide in float64
        if mode == 2:
            number = x.dtype.type(math.sqrt(number))
        k = gpu.threadIdx.x
        while k < width:
            out[d * width + k] = x[i * width + k] / number
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
