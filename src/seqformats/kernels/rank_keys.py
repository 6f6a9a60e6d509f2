"""Order numbers by falling size, equal ones in the order they came: a radix sort by digits of 10 and 11 bits.

Small numbers take one or two passes, any float64, by its bits, six (Knuth, "The Art of Computer Programming", 5.2.5).
"""

from . import parts as p
from .parts import Integers


@p.shared
def pass_over(words: Integers, other: Integers, counts: Integers, shift: int, mask: int) -> None:
    """Copy `words` to `other`, sorted by the digit that begins at bit `shift`."""
    for d in range(mask + 1):
        counts[d] = 0
    for k in range(words.size):
        counts[(words[k] >> shift) & mask] += 1
    total = 0
    for d in range(mask + 1):
        count = counts[d]
        counts[d] = total
        total += count
    for k in range(words.size):
        d = (words[k] >> shift) & mask
        other[counts[d]] = words[k]
        counts[d] += 1


@p.compiled
def cpu(keys: Integers, words: Integers, other: Integers, counts: Integers, order: Integers) -> None:
    """Write the places of ``keys (n,)``, which are not negative, by falling key to ``order (n,)``.

    ``words (n,)``, ``other (n,)`` and ``counts (2048,)`` are workspace; n is below 2^32.
    """
    n = keys.size
    top, bottom = 0, (1 << 63) - 1
    for i in range(n):
        top = max(top, keys[i])
        bottom = min(bottom, keys[i])
        order[i] = i
    low = 0
    while low < 63 and (top - bottom) >> low > 0:
        used = 0
        for k in range(n):  # 21 bits of a key, counted from the largest key downwards, share a word with its place
            i = order[k]
            bits = ((top - keys[i]) >> low) & 0x1FFFFF
            words[k] = bits << 32 | i
            used |= bits
        swapped = used & 2047 != 0
        if swapped:
            pass_over(words, other, counts, 32, 2047)
        if used >> 11:
            pass_over(other if swapped else words, words if swapped else other, counts, 43, 1023)
            swapped = not swapped
        last = other if swapped else words
        for k in range(n):
            order[k] = last[k] & 0xFFFFFFFF
        low += 21


KERNEL = p.KernelSpec(cpu)
