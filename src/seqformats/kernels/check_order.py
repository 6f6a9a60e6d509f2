"""Check that lengths, indices and step sizes of a time-major batch fit, and derive the rest."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(sorted_lengths: Integers, indices: Integers, size_at_t: Integers, lengths: Integers, steps: Integers) -> int:
    """Write ``lengths (n,)`` in the caller's order and ``steps (t + 1,)``, the first row of each step without padding.

    `lengths` must come filled with -1.  Returns 0, or ``4 * place + kind`` for the first fault: kind 1 a length that is
    negative, rises or is longer than there are steps, kind 2 an index that is no place or was there before, kind 3 a
    wrong step size.
    """
    n = sorted_lengths.size
    for j in range(n):
        length = sorted_lengths[j]
        if length < 0 or length > size_at_t.size or (j > 0 and length > sorted_lengths[j - 1]):
            return 4 * j + 1
        i = indices[j]
        if i < 0 or i >= n or lengths[i] >= 0:
            return 4 * j + 2
        lengths[i] = length
    alive = n
    steps[0] = 0
    for t in range(size_at_t.size):
        while alive > 0 and sorted_lengths[alive - 1] <= t:
            alive -= 1
        if size_at_t[t] != alive:
            return 4 * t + 3
        steps[t + 1] = steps[t] + alive
    return 0


KERNEL = p.KernelSpec(cpu)
