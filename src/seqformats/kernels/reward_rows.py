"""A reward for every item: the outcome of a sequence on its last step, and on every step ``scale * kl``; 0 elsewhere.

``outcome (n,)``; ``kl``, or none, and ``marks``, a byte an item that is 0 where an item is no step, or none, hold the
sequences in one layout, see `Layout`, as does ``out``.  ``scale (1,)`` is float64, as all that is added up.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, times


class Given(NamedTuple):
    """Parts of rewards, and which items are steps."""

    outcome: Array
    kl: Array
    scale: Array
    marks: Array


@p.compiled
def cpu(given: Given, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    outcome, kl, scale, marks = given
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        owed = 1
        t = length - 1
        while t >= 0:
            row = first + p.along(at, t)
            reward = 0.0
            if marks.size == 0 or marks[row] != 0:
                if kl.size > 0:
                    reward = scale[0] * float(kl[row])
                if owed != 0:
                    reward += float(outcome[i])
                    owed = 0
            out[row] = reward
            t -= 1


def cuda(given: Given, out: Array, at: Layout, width: int) -> None:
    """All units, a thread each."""
    outcome, kl, scale, marks = given
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        owed = 1
        t = length - 1 if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0 else -1
        while t >= 0:
            row = first + p.along(at, t)
            reward = p.zero_in(scale)
            if marks.size == 0 or marks[row] != 0:
                if kl.size != 0:
                    reward = times(scale[0], p.number_in(scale, kl[row]))
                if owed != 0:
                    reward += p.number_in(scale, outcome[i])
                    owed = 0
            out[row] = p.item_in(out, reward)
            t -= 1


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", tuple((kind, kind, "f8", "u1", kind) for kind in p.FLOATS))
