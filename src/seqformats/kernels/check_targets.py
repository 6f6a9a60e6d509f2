"""Count the targets of every sequence that a loss is for, and find those that are no class.

`y` holds integers in a layout, see `Layout`; ``out[i]`` becomes how many of sequence i are not `ignore` (where
`ignores` is 1), or, where one is neither that nor from 0 to ``classes - 1``, -1 less the place of the first such.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers, Layout


@p.shared
def count_targets(y: Array, at: Layout, classes: int, ignore: int, ignores: int, u: int) -> Any:
    """The sequence of a unit, and its number."""
    i, first, length = p.locate(at, u)
    count = 0
    for t in range(length):
        target = y[first + p.along(at, t)]
        if ignores == 0 or target != ignore:
            if target < 0 or target >= classes:
                return i, -1 - t
            count += 1
    return i, count


@p.compiled
def cpu(
    y: Array,
    out: Integers,
    at: Layout,
    classes: int,
    ignore: int,
    ignores: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, count = count_targets(y, at, classes, ignore, ignores, u)
        out[i] = count


def cuda(y: Array, out: Integers, at: Layout, classes: int, ignore: int, ignores: int, width: int) -> None:
    """All units, a thread each."""
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, count = count_targets(y, at, classes, ignore, ignores, u)
        out[i] = count


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "units",
    tuple((kind,) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4")),
    p.STREAMS,
    rare=True,
)
