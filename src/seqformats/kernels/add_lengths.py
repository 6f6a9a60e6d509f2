"""The offsets of sequences by their lengths: ``out[0] = 0``, ``out[i + 1] = out[i] + x[i]``.

``x (n,)``, ``out (n + 1,)`` int64.
"""

from . import parts as p
from .parts import Array
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, width: int, lo: int, hi: int) -> None:
    """All of them, in one unit."""
    out[0] = 0
    for i in range(x.size):
        out[i + 1] = out[i] + x[i]


def cuda(x: Array, out: Array, width: int) -> None:
    """One block, of which each thread takes eight lengths at a time; they are added up by doubling.

    See Hillis and Steele, "Data parallel algorithms", 1986.
    """
    sums = p.natural(gpu.shared.array(128, out.dtype))
    me, threads = gpu.threadIdx.x, gpu.blockDim.x
    size = x.size if gpu.blockIdx.x == 0 else 0
    before = out.dtype.type(0)
    if gpu.blockIdx.x == 0 and me == 0:
        out[0] = before
    for begin in range(0, size, 8 * threads):
        first = begin + 8 * me
        end = min(first + 8, size)
        own = out.dtype.type(0)
        for i in range(first, end):
            own += x[i]
        sums[me] = own
        gpu.syncthreads()
        step = 1
        while step < threads:
            more = sums[me - step] if me >= step else out.dtype.type(0)
            gpu.syncthreads()
            sums[me] += more
            gpu.syncthreads()
            step <<= 1
        offset = before + sums[me] - own
        for i in range(first, end):
            offset += x[i]
            out[i + 1] = offset
        before += sums[threads - 1]
        gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("i8", "i8"), ("i4", "i8")))
