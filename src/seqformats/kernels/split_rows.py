"""The parts of sequences that are split at some of their rows.

``places (m,)`` are these rows, rising; sequence i has the rows ``offsets[i]`` to ``offsets[i + 1]``.  Of each part,
``begins`` gets the row with which it begins and ``lengths`` its rows, room for ``m + n`` of them; ``counts (n,)`` gets
the parts of each sequence.
"""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(places: Integers, offsets: Integers, keep: int, begins: Integers, lengths: Integers, counts: Integers) -> int:
    """Returns how many parts there are.

    The row is the end of its part where `keep` is 0, the beginning of the next where it is 1, and in none where it is
    2.  What follows the last row of a sequence is a part unless it is empty; so is, with 1, what is before the first.
    """
    found, j = 0, 0
    for i in range(counts.size):
        first, begin, end = found, offsets[i], offsets[i + 1]
        while j < places.size and places[j] < end:
            stop = places[j] + (1 if keep == 0 else 0)
            if keep != 1 or stop != begin:
                begins[found] = begin
                lengths[found] = stop - begin
                found += 1
            begin = stop + (1 if keep == 2 else 0)
            j += 1
        if begin < end:
            begins[found] = begin
            lengths[found] = end - begin
            found += 1
        counts[i] = found - first
    return found


KERNEL = p.KernelSpec(cpu)
