"""A number of every sequence for each of its items that counts, times a factor; 0 for the others.

``numbers (n,)`` and ``factor (1,)``, float64; ``marks``, a byte an item that is 0 where an item does not count, hold
the sequences in one layout, see `Layout`, or are empty, and ``out`` does.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.compiled
def cpu(numbers: Array, factor: Array, marks: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        value = numbers[i] * factor[0]
        for t in range(length):
            row = first + p.along(at, t)
            out[row] = value if marks.size == 0 or marks[row] != 0 else 0.0


def cuda(numbers: Array, factor: Array, marks: Array, out: Array, at: Layout, width: int) -> None:
    """All rows, a thread each."""
    for r in range(gpu.grid(1), at.cum[at.cum.size - 1], gpu.gridsize(1)):
        i, _, row = p.find(at, r)
        counts = marks.size == 0 or marks[row] != 0
        out[row] = p.item_in(out, numbers[i] * factor[0] if counts else p.zero_in(numbers))


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", tuple(("f8", "f8", "u1", kind) for kind in p.FLOATS))
