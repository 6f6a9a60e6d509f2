"""The running sum along every sequence, column by column; or from its end, which is the gradient.

`x` and `out` hold the sequences in the same layout, see `locate` for the arguments; `back` is 1 for the way from the
end.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import along, compiled, compiled_for_cuda, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


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
    back: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    items = np.uint64(width)  # places without a sign need no look at whether they count from the end
    for u in range(lo, hi):
        _, first, length = locate(starts, cum, u, stride, left, step)
        before = np.uint64(0)
        for s in range(length):
            r = first + along(length - 1 - s if back else s, steps, step)
            here = np.uint64(r * width)
            if s == 0:
                for k in range(items):
                    out[here + k] = x[here + k]
            else:
                for k in range(items):
                    out[here + k] = out[before + k] + x[here + k]
            before = here


@compiled_for_cuda(over="units")
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
    back: int,
) -> None:
    """All units, a thread a column of each."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < cum.size - 1:
        _, first, length = locate(starts, cum, u, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            total = out.dtype.type(0)
            for s in range(length):
                d = (first + along(length - 1 - s if back else s, steps, step)) * width + k
                total += x[d]
                out[d] = total
            k += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y
