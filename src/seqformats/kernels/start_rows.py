"""Mark the items of every sequence that differ from the one before, anywhere in their columns.

`x` holds the sequences in any layout, see `Layout`; ``out (rows,)`` bytes in the same, 1 for the first item of a
sequence and for each that differs.  NaN differs from NaN, but with `nans` 1 not.  Items have so many `columns`, and
what is written one, so that there is something to do where items hold nothing.
"""

from typing import Any

from . import parts as p
from .parts import Array, Item, Layout


@p.shared
def differ(a: Item, b: Item, nans: int) -> Any:
    """Tell whether two numbers are different."""
    return (a != b) & ((a == a) | (b == b) | (nans == 0))


@p.compiled
def cpu(x: Array, out: Array, at: Layout, nans: int, columns: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, flags = p.pointer(x), p.pointer(out)
    if columns == 1 and at.step == 1 and at.stride < 0 and hi != lo:  # one after the other
        begin, end = at.cum[lo], at.cum[hi]
        before, items, marks = x[begin : end - 1], x[begin + 1 : end], out[begin + 1 : end]
        if nans:
            for t in range(marks.size):
                marks[t] = differ(before[t], items[t], 1)
        else:
            for t in range(marks.size):
                marks[t] = before[t] != items[t]
        for i in range(lo, hi):
            if at.cum[i] != at.cum[i + 1]:
                flags[at.cum[i]] = 1
        return
    at = p.pointer(at)
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        last = first
        for t in range(length):
            here = first + p.along(at, t)
            differs = t == 0
            k = 0
            while k < columns and not differs:
                differs = differ(rows[last * columns + k], rows[here * columns + k], nans)
                k += 1
            flags[here] = differs
            last = here


def cuda(x: Array, out: Array, at: Layout, nans: int, columns: int, width: int) -> None:
    """All rows, a thread each."""
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        _, t, here = p.find(at, r)
        differs = t == 0
        last = here - p.along(at, t) + p.along(at, t - 1 if t > 0 else 0)
        k = 0
        while k < columns and not differs:
            differs = differ(x[last * columns + k], x[here * columns + k], nans)
            k += 1
        out[here] = 1 if differs else 0


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", tuple((kind, "u1") for kind in (*p.NUMBERS, *p.COMPLEX)))
