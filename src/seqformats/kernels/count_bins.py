"""Count how often every sequence has each of the numbers from 0 on, or add up the weights of its items with it.

``x`` holds integers, in any layout, and ``weights``, laid out as `x`, a number for each item, or nothing: each counts
1.  ``out (n * width,)``, int64 or float64, has a row of `width` bins for each sequence, and ``beyond (n,)`` gets how
many of its items are in no bin.  On CUDA a thread has a bin and looks at the items, several at one bin where there are
few: sums are in one order, which no other sequence changes.
"""

from . import parts as p
from .parts import Array, Integers, Layout
from .parts.names import gpu


@p.compiled
def cpu(
    x: Array, weights: Array, out: Array, beyond: Integers, at: Layout, weighted: int, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    items, factors, bins, wrong = p.pointer(x), p.pointer(weights), p.pointer(out), p.pointer(beyond)
    at = p.pointer(at)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        begin, outside = i * width, 0
        for k in range(width):
            bins[begin + k] = 0
        for t in range(length):
            r = first + p.along(at, t)
            k = items[r]
            if k >= 0 and k < width:
                bins[begin + k] += factors[r] if weighted else 1
            else:
                outside += 1
        wrong[i] = outside


def cuda(x: Array, weights: Array, out: Array, beyond: Integers, at: Layout, weighted: int, width: int) -> None:
    """All units, a block each, a thread a bin; where they are few, several threads share one."""
    parts = p.natural(gpu.shared.array(128, out.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            total = out.dtype.type(0)
            outside = 0
            t = gpu.threadIdx.y
            while t < length and k < width:
                r = first + p.along(at, t)
                if x[r] == k:
                    total += weights[r] if weighted else 1
                if x[r] < 0 or x[r] >= width:
                    outside += 1
                t += gpu.blockDim.y
            parts[place] = total
            p.tree_sum(parts, place)
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = parts[place]
            gpu.syncthreads()  # before the memory is used again
            if column == 0:
                parts[place] = outside if gpu.threadIdx.x == 0 else 0
                p.tree_sum(parts, place)
                if place == 0:
                    beyond[i] = int(parts[0])
                gpu.syncthreads()


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "sequences",
    tuple((kind, made, made) for kind in ("i4", "i8") for made in ("i8", "f8")),
    p.STREAMS,
)
