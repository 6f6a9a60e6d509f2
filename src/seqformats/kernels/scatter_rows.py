"""Add updates to chosen places: row r of sequence i goes to place ``index[r]`` of row i.

``x (rows * width,)`` are the updates, ``index (rows,)`` their places, from 0 to ``room - 1``;
``out (n * room * width,)``; sequence i has the rows ``cum[i]`` to ``cum[i + 1]``.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@compiled
def cpu(x: Any, index: Any, out: Any, cum: Any, width: int, room: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, updates in their order."""
    for i in range(lo, hi):
        for r in range(cum[i], cum[i + 1]):
            d = (i * room + index[r]) * width
            total = out[d : d + width]
            part = x[r * width : (r + 1) * width]
            for k in range(part.size):
                total[k] += part[k]


@compiled_for_cuda(over="units")
def cuda(x: Any, index: Any, out: Any, cum: Any, width: int, room: int) -> None:
    """All sequences, a thread a column of each, so that updates are added in their order."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < cum.size - 1:
        k = gpu.threadIdx.x
        while k < width:
            for r in range(cum[i], cum[i + 1]):
                out[(i * room + index[r]) * width + k] += x[r * width + k]
            k += gpu.blockDim.x
        i += gpu.gridDim.x * gpu.blockDim.y
