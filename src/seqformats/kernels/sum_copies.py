"""Add up the copies of every sequence: the gradient of repeating it.

Sequence i of `x` stands there ``counts[i]`` times, its copies one after the other from row ``starts[i]`` on; in `out`
it has the rows ``cum[i]`` to ``cum[i + 1]``, `width` items each.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, search


@compiled
def cpu(x: Any, out: Any, starts: Any, cum: Any, counts: Any, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, copies in their order."""
    for i in range(lo, hi):
        size = (cum[i + 1] - cum[i]) * width
        total = out[cum[i] * width : cum[i] * width + size]
        for k in range(total.size):
            total[k] = 0
        for c in range(counts[i]):
            begin = starts[i] * width + c * size
            part = x[begin : begin + size]
            for k in range(part.size):
                total[k] += part[k]


@compiled_for_cuda(over="rows")
def cuda(x: Any, out: Any, starts: Any, cum: Any, counts: Any, width: int) -> None:
    """All rows of `out`, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i = search(cum, r)
        length = cum[i + 1] - cum[i]
        k = gpu.threadIdx.x
        while k < width:
            total = out.dtype.type(0)
            for c in range(counts[i]):
                total += x[(starts[i] + c * length + r - cum[i]) * width + k]
            out[r * width + k] = total
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
