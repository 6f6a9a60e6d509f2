"""Places in sequences, negative ones counted from the end, as places from the beginning.

``index (rows,)`` has those of sequence i from ``cum[i]`` to ``cum[i + 1]``, ``lengths (n,)`` the items that there are;
``out (rows,)``.
"""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(index: Integers, out: Integers, cum: Integers, lengths: Integers) -> int:
    """The first row whose place does not exist, or -1."""
    for i in range(lengths.size):
        length = lengths[i]
        given, found = index[cum[i] : cum[i + 1]], out[cum[i] : cum[i + 1]]
        wrong = 0
        for r in range(given.size):
            place = given[r] + (length if given[r] < 0 else 0)
            wrong |= (place < 0) | (place >= length)
            found[r] = place
        if wrong:
            for r in range(cum[i], cum[i + 1]):
                if out[r] < 0 or out[r] >= length:
                    return r
    return -1


KERNEL = p.KernelSpec(cpu)
