"""The structure of several parts joined sequence by sequence, from the offsets of all of them."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(cum: Integers, joined: Integers) -> int:
    """Write one after the other into ``joined (2 * n + 1,)``: the lengths, the offsets.

    ``cum (parts * (n + 1),)`` holds the offsets of each part.  Returns the greatest length, -1 where there are more
    rows than int64 counts.
    """
    n = joined.size >> 1
    longest = 0
    total = 0
    joined[n] = 0
    for i in range(n):
        before = total
        u = i
        while u < cum.size:
            total += cum[u + 1] - cum[u]
            if total < 0:
                return -1
            u += n + 1
        joined[i] = total - before
        joined[n + 1 + i] = total
        longest = p.at_least(longest, total - before)
    return longest


KERNEL = p.KernelSpec(cpu)
