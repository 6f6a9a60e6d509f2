"""The running sum along every sequence, column by column; or from its end, which is the gradient.

`x` and `out` hold the sequences in the same layout, see `locate` for the arguments; `back` is 1 for the way from the
end.
"""

from typing import TYPE_CHECKING, Any

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
    for u in range(lo, hi):
        _, first, length = locate(starts, cum, u, stride, left, step)
        before = out[0:0]
        for s in range(length):
            r = first + along(length - 1 - s if back else s, steps, step)
            row = x[r * width : (r + 1) * width]
            to = out[r * width : (r + 1) * width]
            if s == 0:
                for k in range(row.size):
                    to[k] = row[k]
            else:
                for k in range(row.size):
                    to[k] = before[k] + row[k]
            before = to


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
