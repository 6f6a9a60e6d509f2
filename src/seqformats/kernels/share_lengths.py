"""Share a greatest length between the sequences of two batches: how many items of each are kept.

Both have ``lengths (n,)`` and `others`; ``most (1,)`` holds for all pairs, or ``(n,)`` for each.  By `strategy` 0 the
longer one is cut until both are equally long, and then both in turn, `second` 1 keeping one item more of an odd number;
by 1 this one alone is cut, by 2 the other one.
"""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(
    lengths: Integers,
    others: Integers,
    offsets: Integers,
    most: Integers,
    strategy: int,
    second: int,
    left: int,
    table: Integers,
) -> int:
    """Write one after the other into ``table (3 * n + 1,)``: how many are kept, their offsets, the rows of the first.

    With `left` 1 the last ones are kept, else the first ones.  Returns how many are kept of a sequence, at most;
    ``-1 - i`` where none would be left of the one that is cut of pair i.
    """
    n = lengths.size
    longest = 0
    total = 0
    table[n] = 0
    for i in range(n):
        limit = most[i if most.size > 1 else 0]
        length = lengths[i]
        other = others[i]
        if strategy == 0:
            short = p.at_most(p.at_most(length, other), limit // 2)
            is_short = length < other or (length == other and second == 0)
            kept = short if is_short else p.at_most(p.at_least(length, other), limit - short)
        else:
            over = p.at_least(length + other - limit, 0)
            cut = length if strategy == 1 else other
            if over > 0 and over >= cut and limit > 0:
                return -1 - i
            kept = 0 if limit == 0 else length - over if strategy == 1 else length
        total += kept
        table[i] = kept
        table[n + 1 + i] = total
        table[2 * n + 1 + i] = offsets[i + left] - kept * left
        longest = p.at_least(longest, kept)
    return longest


KERNEL = p.KernelSpec(cpu)
