"""Check offsets, and find the lengths."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(offsets: Integers, lengths: Integers) -> int:
    """Write ``lengths (n,)``; return the longest, or ``-1 - i`` where offset i falls (or offset 0 is not 0)."""
    longest = 0
    if offsets[0] != 0:
        return -1
    for i in range(lengths.size):
        # both are not negative here, so the difference cannot overflow
        if offsets[i + 1] < offsets[i]:
            return -2 - i
        lengths[i] = offsets[i + 1] - offsets[i]
        longest = p.at_least(longest, lengths[i])
    return longest


KERNEL = p.KernelSpec(cpu)
