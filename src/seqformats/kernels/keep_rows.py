"""Mark the rows that hold none of some tokens.

``x (rows,)`` are integers, ``tokens (k,)`` is sorted; ``out (rows,)`` gets 1 for a row to keep and 0 for one of the
tokens.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(x: Array, out: Array, tokens: Integers, width: int, lo: int, hi: int) -> None:
    """Rows `lo` to `hi`."""
    items = x[lo:hi]
    keep = out[lo:hi]
    for r in range(items.size):
        low = 0
        high = tokens.size
        while low < high:
            middle = (low + high) >> 1
            if tokens[middle] < items[r]:
                low = middle + 1
            else:
                high = middle
        keep[r] = 1 if low == tokens.size or tokens[low] != items[r] else 0


def cuda(x: Array, out: Array, tokens: Integers, width: int) -> None:
    """All rows, a thread each."""
    for r in range(p.first_unit(), out.size, p.units_of_grid()):
        low = 0
        high = tokens.size
        while low < high:
            middle = (low + high) >> 1
            if tokens[middle] < x[r]:
                low = middle + 1
            else:
                high = middle
        out[r] = 1 if low == tokens.size or tokens[low] != x[r] else 0


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "units", tuple((kind, "u1") for kind in (*p.SIGNED, "u1"))
)  # uint64 comes as int64
