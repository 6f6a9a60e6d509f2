"""Give every item the number in its bin: the gradient of the weights that `count_bins` adds up.

``x`` holds integers, in any layout, ``slopes (n * width,)`` a row of `width` bins for each sequence; ``out`` is laid
out as `x`.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, slopes: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    items, bins, found = p.pointer(x), p.pointer(slopes), p.pointer(out)
    at = p.pointer(at)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for t in range(length):
            r = first + p.along(at, t)
            found[r] = bins[i * width + items[r]]


def cuda(x: Array, slopes: Array, out: Array, at: Layout, width: int) -> None:
    """All items, a thread each."""
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, _, d = p.find(at, r)
        if gpu.threadIdx.x == 0:
            out[d] = slopes[i * width + x[d]]


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", tuple((kind, "f8", "f8") for kind in ("i4", "i8")))
