"""Count the marked items of every sequence; sequence i has the rows ``offsets[i]`` to ``offsets[i + 1]``."""

from . import parts as p
from .parts import Bytes, Integers


@p.compiled
def cpu(marks: Bytes, offsets: Integers, table: Integers) -> int:
    """Write into ``table (2 * n + 1,)`` how many of ``marks (rows,)`` are not 0, and their offsets; return the most."""
    n = offsets.size - 1
    counts, marked, cum = p.pointer(table), p.pointer(marks), p.pointer(offsets)
    total = 0
    longest = 0
    counts[n] = 0
    for i in range(n):
        count = 0
        for r in range(cum[i], cum[i + 1]):
            count += marked[r] != 0
        total += count
        counts[i] = count
        counts[n + 1 + i] = total
        longest = p.at_least(longest, count)
    return longest


KERNEL = p.KernelSpec(cpu)
