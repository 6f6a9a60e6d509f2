"""Divide the row of every sequence by its own total, or by those of each column; a total of 0 gives 0.

``x (n * width,)``, ``totals (n,)``, or ``(n * width,)`` where `own` is 1, ``out (n * width,)``.
"""

from . import parts as p
from .parts import Array


@p.compiled
def cpu(x: Array, totals: Array, out: Array, own: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        for k in range(width):
            total, place = totals[i * width + k if own else i], i * width + k
            out[place] = x[place] / total if total != 0 else 0


def cuda(x: Array, totals: Array, out: Array, own: int, width: int) -> None:
    """All sequences, a thread a column of each."""
    i = p.first_unit()
    while i * width < x.size:
        for k in range(p.first_column(), width, p.columns_of_grid()):
            total, place = totals[i * width + k if own else i], i * width + k
            out[place] = 0
            if total != 0:
                out[place] = x[place] / total
        i += p.units_of_grid()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 3))
