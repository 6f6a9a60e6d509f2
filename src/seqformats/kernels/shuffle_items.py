"""A random order of the items of every sequence: ``out[cum[i] + t]`` is which item of sequence i comes as number t.

``out (rows,)``; all orders are as likely (R. A. Fisher and F. Yates 1938, in the form that begins with no items, and
puts each next one in the place of one before or last).
"""

from . import parts as p
from .parts import Array, Integers


@p.shared
def arrange(out: Array, begin: int, length: int, seed: int, i: int) -> None:
    """One sequence."""
    four = p.draw(seed, 5, i, 0)
    for t in range(length):
        if t & 3 == 0:
            four = p.draw(seed, 5, i, t >> 2)
        k = p.draw_integer(t + 1, p.one_of(four, t & 3), seed, 6, i, t)
        out[begin + t] = out[begin + k]
        out[begin + k] = t


@p.compiled
def cpu(out: Array, cum: Integers, seed: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        arrange(out, cum[i], cum[i + 1] - cum[i], seed, i)


def cuda(out: Array, cum: Integers, seed: int, width: int) -> None:
    """All sequences, a thread each: where an item goes depends on those before."""
    for i in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        arrange(out, cum[i], cum[i + 1] - cum[i], seed, i)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("i8",),))
