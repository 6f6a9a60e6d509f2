"""Multiply the items of every sequence by a number, in place; what is 0 stays 0, whatever the number is.

``out`` holds items of `width` numbers in a layout, see `Layout`; ``factors`` are ``(n,)`` float64, one of each
sequence, or where `one` is 1 ``(1,)``, the same for all.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.compiled
def cpu(factors: Array, out: Array, at: Layout, one: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        factor = out.dtype.type(factors[0 if one != 0 else i])
        for t in range(length):
            begin = (first + p.along(at, t)) * width
            row = out[begin : begin + width]
            for k in range(row.size):
                row[k] = row[k] * factor if row[k] != 0 else row[k]


def cuda(factors: Array, out: Array, at: Layout, one: int, width: int) -> None:
    """All items, a block each."""
    for item in range(gpu.blockIdx.x, at.cum[at.cum.size - 1], gpu.gridDim.x):
        i, _, row = p.find(at, item)
        factor = out.dtype.type(factors[0 if one != 0 else i])
        for k in range(row * width + gpu.threadIdx.x, (row + 1) * width, gpu.blockDim.x):
            if out[k] != 0:
                out[k] *= factor


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("f8", "f4"), ("f8", "f8")), 16 << 20)
