"""Add the rows of every sequence to chosen places of another: the gradient of picking items more than once.

`x` has the rows of sequence i from ``cum[i]`` to ``cum[i + 1]``; row r is added to the item at ``places[r]`` of the
sequence in `out`, which lies as `at` says, in blocks, and begins with zeros.  What goes to one place is added up in
order, float32 in the float64 of `out`.
"""

from . import parts as p
from .parts import Array, Integers, Layout


@p.compiled
def cpu(x: Array, out: Array, at: Layout, cum: Integers, places: Integers, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        _, first, _ = p.locate(at, i)
        for r in range(cum[i], cum[i + 1]):
            d = (first + places[r]) * width
            total = out[d : d + width]
            row = x[r * width : (r + 1) * width]
            for k in range(row.size):
                total[k] += row[k]


def cuda(x: Array, out: Array, at: Layout, cum: Integers, places: Integers, width: int) -> None:
    """All sequences, a thread a column of each, so that rows are added in their order."""
    for i in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        _, first, _ = p.locate(at, i)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            for r in range(cum[i], cum[i + 1]):
                out[(first + places[r]) * width + k] += p.wide(x[r * width + k])


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("f4", "f8"), ("f8", "f8")))
