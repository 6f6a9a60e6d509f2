"""Number the rows of every sequence: ``first[i] + t`` for item t of sequence i, or i itself where `segments` is 1.

``out (rows,)``; sequence i has the rows ``cum[i]`` to ``cum[i + 1]``; `first` is not looked at for segments.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, search


@compiled
def cpu(out: Any, cum: Any, first: Any, width: int, segments: int, lo: int, hi: int) -> None:  # noqa: ARG001  as in every kernel
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        part = out[cum[i] : cum[i + 1]]
        begin = i if segments else first[i]
        for t in range(part.size):
            part[t] = begin + (0 if segments else t)


@compiled_for_cuda(over="rows")
def cuda(out: Any, cum: Any, first: Any, width: int, segments: int) -> None:  # noqa: ARG001  as in every kernel
    """All rows, a thread each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i = search(cum, r)
        out[r] = i if segments else first[i] + r - cum[i]
        r += gpu.gridDim.x * gpu.blockDim.y
