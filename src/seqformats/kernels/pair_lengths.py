"""Count the pairs that the items of two sequences make."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(a: Integers, b: Integers, table: Integers) -> int:
    """Write the products of two ``(n,)`` lengths and their offsets into ``table (2 * n + 1,)``; return the greatest.

    It is -1 where there are more pairs than 2 ** 62.
    """
    n = a.size
    total = 0
    longest = 0
    table[n] = 0
    for i in range(n):
        if total + float(a[i]) * b[i] > 4611686018427387904.0:
            return -1
        table[i] = a[i] * b[i]
        total += table[i]
        table[n + 1 + i] = total
        longest = p.at_least(longest, table[i])
    return longest


KERNEL = p.KernelSpec(cpu)
