"""Sum the rows of every sequence, column by column, in the order of the rows."""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@compiled
def cpu(x: Any, out: Any, offsets: Any, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; flat ``x (rows * width,)`` and ``out (n * width,)``; sums run in the dtype of `out`."""
    for i in range(lo, hi):
        total = out[i * width : (i + 1) * width]
        for k in range(total.size):
            total[k] = 0
        for r in range(offsets[i], offsets[i + 1]):
            row = x[r * width : (r + 1) * width]
            for k in range(row.size):
                total[k] += row[k]


@compiled_for_cuda(over="sequences")
def cuda(x: Any, out: Any, offsets: Any, width: int) -> None:
    """All sequences, a block each, a thread a column; where they are narrow, several threads share a column.

    Thread y of a column adds up every so many rows, and the parts are added in pairs.  How many there are depends on
    the width alone, so the order of summation depends on the sequence alone.
    """
    parts = gpu.shared.array(128, x.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    i = gpu.blockIdx.x
    while i < offsets.size - 1:
        first = gpu.blockIdx.y * gpu.blockDim.x
        while first < width:  # the same turns for the whole block, which waits for each other below
            k = first + gpu.threadIdx.x
            parts[place] = 0
            total = parts[place]  # zero in the dtype of x
            if k < width:
                r = offsets[i] + gpu.threadIdx.y
                while r < offsets[i + 1]:
                    total += x[r * width + k]
                    r += gpu.blockDim.y
            parts[place] = total
            gpu.syncthreads()
            half = gpu.blockDim.y >> 1
            while half > 0:
                if gpu.threadIdx.y < half:
                    parts[place] += parts[place + half * gpu.blockDim.x]
                gpu.syncthreads()
                half >>= 1
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = parts[place]
            first += gpu.gridDim.y * gpu.blockDim.x
        i += gpu.gridDim.x
