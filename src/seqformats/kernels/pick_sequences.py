"""The structure of chosen sequences, of a batch with `lengths (n,)` and `offsets (n + 1,)`."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(where: Integers, lengths: Integers, offsets: Integers, picked: Integers) -> int:
    """Write one after the other into ``picked (3 * k + 1,)``: their lengths, their offsets, the rows where they begin.

    ``where (k,)`` are their positions, negative ones counted from the end.  Returns the greatest length, -1 where there
    are more rows than int64 counts or a position that does not exist.
    """
    k = where.size
    longest = 0
    total = 0
    picked[k] = 0
    for j in range(k):
        i = where[j]
        if i < 0:
            i += lengths.size
        if i < 0 or i >= lengths.size:
            return -1
        length = lengths[i]
        total += length
        if total < 0:
            return -1
        picked[j] = length
        picked[k + 1 + j] = total
        picked[2 * k + 1 + j] = offsets[i]
        longest = p.at_least(longest, length)
    return longest


KERNEL = p.KernelSpec(cpu)
