"""Pack sequences of falling length into bins of one capacity: best fit decreasing.

A sequence goes into the bin that has the least room that is enough; of several the one that has had it for the longest
time (D. S. Johnson, "Near-optimal bin packing algorithms", 1973).  The rooms that some bin has are a set of bits, 32 in
a word, with a bit above for each word that has any, and so on; bins of the same room are a queue.  So a sequence takes
as long whether there are ten bins or a million.
"""

from typing import Any

from . import parts as p
from .parts import Integers


@p.shared
def lowest(word: int) -> Any:
    """The number of the lowest bit of 32 that is set."""
    place = 0
    if word & 0xFFFF == 0:
        word >>= 16
        place += 16
    if word & 0xFF == 0:
        word >>= 8
        place += 8
    if word & 0xF == 0:
        word >>= 4
        place += 4
    if word & 0x3 == 0:
        word >>= 2
        place += 2
    return place + 1 - (word & 1)


@p.shared
def least_room(words: Integers, begins: Integers, length: int) -> Any:
    """The least room from `length` on that some bin has; -1 where none has so much."""
    place, level = length, 0
    while level < begins.size:
        word = words[begins[level] + (place >> 5)] >> (place & 31)
        if word:
            place += lowest(word)
            while level > 0:
                level -= 1
                place = (place << 5) + lowest(words[begins[level] + place])
            return place
        place = (place >> 5) + 1
        level += 1
    return -1


@p.compiled
def cpu(
    lengths: Integers,
    capacity: int,
    words: Integers,
    begins: Integers,
    queues: Integers,
    behind: Integers,
    of: Integers,
) -> int:
    """Write the bin of each sequence to ``of (n,)``; returns the number of bins.

    ``lengths (n,)`` falls and none is over `capacity`.  ``words``, zero before, has the bits, those of level k from
    ``begins[k]`` on, with a word more than its bits take; ``queues (2 * (capacity + 1),)``, -1 before, are the first
    and the last bin of each room, and ``behind (n,)`` the one behind each bin.
    """
    bins = 0
    for i in range(lengths.size):
        found = least_room(words, begins, lengths[i])
        room = capacity
        b = bins
        if found < 0:
            bins += 1
        else:
            room = found
            b = queues[2 * room]
            queues[2 * room] = behind[b]
            if behind[b] < 0:
                place = room
                for level in range(begins.size):
                    at = begins[level] + (place >> 5)
                    words[at] &= ~(1 << (place & 31))
                    if words[at]:
                        break
                    place >>= 5
        of[i] = b
        room -= lengths[i]
        behind[b] = -1
        if queues[2 * room] >= 0:
            behind[queues[2 * room + 1]] = b
            queues[2 * room + 1] = b
        else:
            queues[2 * room] = queues[2 * room + 1] = b
            place = room
            for level in range(begins.size):
                words[begins[level] + (place >> 5)] |= 1 << (place & 31)
                place >>= 5
    return bins


KERNEL = p.KernelSpec(cpu)
