"""Lengths of the pairs of items of two batches: a sequence for each item of the first, of all items of the second."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(one: Integers, two: Integers, table: Integers) -> int:
    """Write the structure of the pairs of sequences between ``one (n + 1,)`` and ``two (n + 1,)``; return the longest.

    `table` gets a length for each of the rows of the first, behind these the offsets, ``(rows + 1,)``, and then the
    pairs before each sequence, ``(n + 1,)``.  It is -1 where there are more pairs than 2 ** 62.
    """
    n = one.size - 1
    rows, total, longest = one[n], 0, 0
    table[rows] = 0
    for i in range(n):
        count = two[i + 1] - two[i]
        if total + float(one[i + 1] - one[i]) * count > 4611686018427387904.0:
            return -1
        table[2 * rows + 1 + i] = total
        if one[i + 1] > one[i]:
            longest = p.at_least(longest, count)
        for r in range(one[i], one[i + 1]):
            total += count
            table[r] = count
            table[rows + 1 + r] = total
    table[2 * rows + 1 + n] = total
    return longest


KERNEL = p.KernelSpec(cpu)
