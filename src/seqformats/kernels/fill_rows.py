"""Put, for every NaN of a sequence, the last number before it in its column; those before the first stay NaN.

``x`` and ``out`` hold the sequences in the same layout, see `Layout`.  On CUDA each thread of a column looks for the
last number of its share of the items first, so that all know what stands before theirs.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    STREAMS,
    Array,
    KernelSpec,
    Layout,
    alike,
    along,
    at_most,
    compiled,
    locate,
    pointer,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, natural


@compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, filled = pointer(x), pointer(out)
    at = pointer(at)
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        if length != 0 and width == 1:
            last = rows[first]
            for t in range(length):
                r = first + along(at, t)
                last = rows[r] if rows[r] == rows[r] else last
                filled[r] = last
            continue
        before = first * width
        for t in range(length):
            r = (first + along(at, t)) * width
            for k in range(width):
                value = rows[r + k]
                filled[r + k] = value if t == 0 or value == value else filled[before + k]
            before = r


def cuda(x: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    ends = natural(gpu.shared.array(128, at.cum.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        _, first, length = locate(at, u)
        share = (length + gpu.blockDim.y - 1) // gpu.blockDim.y
        start = at_most(gpu.threadIdx.y * share, length)
        stop = at_most(start + share, length)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            last = -1
            if k < width:
                for t in range(start, stop):
                    value = x[(first + along(at, t)) * width + k]
                    if value == value:
                        last = t
            ends[place] = last
            gpu.syncthreads()
            last = -1
            for y in range(gpu.threadIdx.y):  # the last one of the threads before
                last = max(last, ends[y * gpu.blockDim.x + gpu.threadIdx.x])
            if k < width:
                for t in range(start, stop):
                    r = (first + along(at, t)) * width + k
                    value = x[r]
                    if value == value:
                        last = t
                    out[r] = x[(first + along(at, last)) * width + k] if last >= 0 else value
            gpu.syncthreads()  # before the memory is used again
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", alike(FLOATS, 2), STREAMS)
