"""Give every row of a sequence the sequence's own row, scaled: the gradient of a sum and of a mean."""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, search


@compiled
def cpu(x: Any, out: Any, offsets: Any, width: int, mean: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; ``x (n * width,)``, ``out (rows * width,)``, flat; `mean` divides by the length."""
    for i in range(lo, hi):
        source = x[i * width : (i + 1) * width]
        length = offsets[i + 1] - offsets[i]
        for r in range(offsets[i], offsets[i + 1]):
            row = out[r * width : (r + 1) * width]
            for k in range(row.size):
                row[k] = source[k] / length if mean else source[k]


@compiled_for_cuda(over="rows")
def cuda(x: Any, out: Any, offsets: Any, width: int, mean: int) -> None:
    """All sequences, a line of threads a row of `out`."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < offsets[offsets.size - 1]:
        i = search(offsets, r)
        length = x.dtype.type(offsets[i + 1] - offsets[i])  # an integer would divide in float64
        k = gpu.threadIdx.x
        while k < width:
            value = x[i * width + k]
            out[r * width + k] = value / length if mean else value
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
