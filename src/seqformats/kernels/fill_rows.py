"""Put, for every NaN of a sequence, the last number before it in its column; those before the first stay NaN.

``x`` and ``out`` hold the sequences in the same layout, see `Layout`.  On CUDA each thread of a column looks for the
last number of its share of the items first, so that all know what stands before theirs.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, filled = p.pointer(x), p.pointer(out)
    at = p.pointer(at)
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        if length != 0 and width == 1:
            last = rows[first]
            for t in range(length):
                r = first + p.along(at, t)
                last = rows[r] if rows[r] == rows[r] else last
                filled[r] = last
            continue
        before = first * width
        for t in range(length):
            r = (first + p.along(at, t)) * width
            for k in range(width):
                value = rows[r + k]
                filled[r + k] = value if t == 0 or value == value else filled[before + k]
            before = r


def cuda(x: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    ends = p.natural(gpu.shared.array(128, at.cum.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        _, first, length = p.locate(at, u)
        share = (length + gpu.blockDim.y - 1) // gpu.blockDim.y
        start = p.at_most(gpu.threadIdx.y * share, length)
        stop = p.at_most(start + share, length)
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            last = -1
            if k < width:
                for t in range(start, stop):
                    value = x[(first + p.along(at, t)) * width + k]
                    if value == value:
                        last = t
            ends[place] = last
            gpu.syncthreads()
            last = -1
            for y in range(gpu.threadIdx.y):  # the last one of the threads before
                last = max(last, ends[y * gpu.blockDim.x + gpu.threadIdx.x])
            if k < width:
                for t in range(start, stop):
                    r = (first + p.along(at, t)) * width + k
                    value = x[r]
                    if value == value:
                        last = t
                    out[r] = x[(first + p.along(at, last)) * width + k] if last >= 0 else value
            gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 2), p.STREAMS)
