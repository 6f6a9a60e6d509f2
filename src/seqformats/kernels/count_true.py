"""Count the places of every row of a mask that are not zero.

``x (n * width,)``, ``out (n,)`` int64.
"""

from . import parts as p
from .parts import Array
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, width: int, lo: int, hi: int) -> None:
    """Rows `lo` to `hi`."""
    for i in range(lo, hi):
        out[i] = 0
        for place in range(i * width, (i + 1) * width):
            out[i] += x[place] != 0


def cuda(x: Array, out: Array, width: int) -> None:
    """All rows, a block each."""
    sums = p.natural(gpu.shared.array(128, out.dtype))
    me, threads = gpu.threadIdx.x, gpu.blockDim.x
    for i in range(gpu.blockIdx.x, out.size, gpu.gridDim.x):
        count = out.dtype.type(0)
        for k in range(me, width, threads):
            if x[i * width + k] != 0:
                count += 1
        sums[me] = count
        p.sum_of_block(sums, me, threads)
        if me == 0:
            out[i] = sums[0]
        gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("u1", "i8"), ("i4", "i8"), ("i8", "i8")))
