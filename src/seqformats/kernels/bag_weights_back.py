"""The gradient of the weights of bags: the product of the row of each id with the gradient of its bag, less a shift.

``x (rows * deep,)`` is the table, whose rows the ids of bag i name, ``ids[cum[i]:cum[i + 1]]``; ``slopes (n * deep,)``
are the gradients of the bags, ``shifts (n,)`` what is taken off, and ``out`` has a number for each id.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Integers


class Given(NamedTuple):
    """The table, the gradients of bags and what is taken off, and the ids."""

    x: Array
    slopes: Array
    shifts: Array
    ids: Integers


@p.compiled
def cpu(given: Given, out: Array, cum: Integers, deep: int, width: int, lo: int, hi: int) -> None:
    """Bags `lo` to `hi`."""
    (x, slopes, shifts, ids), out = p.pointer(given), p.pointer(out)
    even = deep & -16
    for i in range(lo, hi):
        for entry in range(cum[i], cum[i + 1]):
            row, slope = ids[entry] * deep, i * deep
            lanes = p.each(out, 0, 16)
            k = 0
            while k < even:
                lanes += p.load(x, row + k, 16, out) * p.load(slopes, slope + k, 16, out)
                k += 16
            total = p.fold_add(lanes)
            while k < deep:
                total += x[row + k] * slopes[slope + k]
                k += 1
            out[entry] = total - shifts[i]


def cuda(given: Given, out: Array, cum: Integers, deep: int, width: int) -> None:
    """All ids, a thread each."""
    x, slopes, shifts, ids = given
    for entry in range(p.first_unit(), cum[cum.size - 1], p.units_of_grid()):
        i = p.search(cum, entry)
        out[entry] = p.dot(x, ids[entry] * deep, slopes, i * deep, deep) - shifts[i]


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 4), p.STREAMS)
