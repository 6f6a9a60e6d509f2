"""Give one row of every sequence, column by column, the sequence's own item, and the others zeros: the gradient of a
maximum.

``x (n * width,)``; ``places (n * width,)``: the place in the sequence, -1 for none; `out` holds the sequences in any
layout, see `locate` for the arguments.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, compiled, compiled_for_cuda, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


@compiled
def cpu(
    x: Any,
    places: Any,
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
        for t in range(length):
            r = first + along(t, steps, step)
            row = out[r * width : (r + 1) * width]
            for k in range(row.size):
                row[k] = 0
        if length != 0:
            for k in range(width):
                r = first + along(places[i * width + k], steps, step)
                out[r * width + k] = x[i * width + k]


@compiled_for_cuda(over="rows")
def cuda(
    x: Any,
    places: Any,
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
        i, t, d = find(starts, cum, steps, r, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            out[d * width + k] = 0
            if places[i * width + k] == t:
                out[d * width + k] = x[i * width + k]
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
