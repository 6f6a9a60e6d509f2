"""The gradient of `bag_max`: each number of `x`, the gradients of bags, to the row of the table that was the largest.

Row j of the result has the ids at ``order[cum[j]:cum[j + 1]]``, which are in the bags `bags`, and is row ``to[j]`` of
``out``, whose rows are `width` numbers.  ``places (n * width,)`` are those that `bag_max` has written.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Integers


class Named(NamedTuple):
    """The numbers that were the largest, and the ids and bags of the rows."""

    places: Integers
    order: Integers
    bags: Integers


@p.compiled
def cpu(x: Array, named: Named, out: Array, cum: Integers, to: Integers, width: int, lo: int, hi: int) -> None:
    """Rows `lo` to `hi`, in the order of the bags."""
    x, (places, order, bags), out = p.pointer(x), p.pointer(named), p.pointer(out)
    for j in range(lo, hi):
        begin = to[j] * width
        for k in range(width):
            out[begin + k] = 0
        for entry in range(cum[j], cum[j + 1]):
            place, given = order[entry], bags[entry] * width
            for k in range(width):
                if places[given + k] == place:
                    out[begin + k] += x[given + k]


def cuda(x: Array, named: Named, out: Array, cum: Integers, to: Integers, width: int) -> None:
    """All rows, a thread a column of each."""
    places, order, bags = named
    for j in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        for k in range(p.first_column(), width, p.columns_of_grid()):
            total = out.dtype.type(0)
            for entry in range(cum[j], cum[j + 1]):
                given = bags[entry] * width + k
                if places[given] == order[entry]:
                    total += x[given]
            out[to[j] * width + k] = total


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 2))
