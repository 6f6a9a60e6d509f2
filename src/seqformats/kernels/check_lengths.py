"""Check lengths, and add up their offsets."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(lengths: Integers, offsets: Integers, rows: int) -> int:
    """Write ``offsets (n + 1,)``; return the longest length, or ``-1 - i`` where it is negative or goes past `rows`."""
    total = 0
    longest = 0
    offsets[0] = 0
    for i in range(lengths.size):
        length = lengths[i]
        if length < 0 or length > rows - total:
            return -1 - i
        total += length
        offsets[i + 1] = total
        longest = p.at_least(longest, length)
    return longest


KERNEL = p.KernelSpec(cpu)
