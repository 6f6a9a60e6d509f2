"""Number the rows of every sequence: ``first[i] + t`` for item t of sequence i, or i itself where `segments` is 1.

`out` has the places of the rows in any layout, see `Layout`; `first` is not looked at for segments.
"""

from . import parts as p
from .parts import Array, Integers, Layout


@p.compiled
def cpu(out: Array, at: Layout, first: Integers, segments: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, place, length = p.locate(at, u)
        begin = i if segments else first[i]
        if at.step == 1:
            part = out[place : place + length]
            for t in range(part.size):
                part[t] = begin + (0 if segments else t)
        else:
            for t in range(length):
                out[place + p.along(at, t)] = begin + (0 if segments else t)


def cuda(out: Array, at: Layout, first: Integers, segments: int, width: int) -> None:
    """All rows, a thread each."""
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, t, place = p.find(at, r)
        out[place] = i if segments else first[i] + t


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", (("i8",),))
