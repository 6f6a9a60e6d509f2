"""The gradients of `reward_rows`: ``doutcome (n,)`` and ``dkl``, laid out as ``dy``, or none where there was no kl."""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


class Given(NamedTuple):
    """The gradients of rewards, their scale, and which items are steps."""

    dy: Array
    scale: Array
    marks: Array


@p.compiled
def cpu(given: Given, doutcome: Array, dkl: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    dy, scale, marks = given
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        doutcome[i] = 0.0
        for t in range(length):
            row = first + p.along(at, t)
            if marks.size == 0 or marks[row] != 0:
                doutcome[i] = dy[row]
            if dkl.size > 0:
                dkl[row] = scale[0] * float(dy[row]) if marks.size == 0 or marks[row] != 0 else 0.0


def cuda(given: Given, doutcome: Array, dkl: Array, at: Layout, width: int) -> None:
    """All units, a thread each."""
    dy, scale, marks = given
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0:
            slope = p.zero_in(doutcome)
            for t in range(length):
                row = first + p.along(at, t)
                if marks.size == 0 or marks[row] != 0:
                    slope = p.item_in(doutcome, dy[row])
                if dkl.size != 0:
                    is_step = marks.size == 0 or marks[row] != 0
                    made = scale[0] * p.number_in(scale, dy[row]) if is_step else p.zero_in(scale)
                    dkl[row] = p.item_in(dkl, made)
            doutcome[i] = slope


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", tuple((kind, "f8", "u1", kind, kind) for kind in p.FLOATS))
