"""Cut sequences of falling length into batches of a limited size."""

from .parts import (
    Integers,
    KernelSpec,
    compiled,
)


@compiled
def cpu(lengths: Integers, limit: int, padded: int, step: int, most: int, counts: Integers) -> int:
    """Write how many sequences each batch has; returns the number of batches.

    ``lengths (n,)`` falls and none, rounded up to a multiple of `step`, is over `limit`; ``counts (n,)``.  A batch has
    at most `most` sequences and `limit` items, where `padded` is 1 as many as its longest sequence has for each.
    """
    batches = 0
    room = 0
    width = 0  # of a padded batch
    for i in range(lengths.size):
        need = width if padded else lengths[i]
        if i == 0 or need > room or counts[batches - 1] == most:
            counts[batches] = 0
            batches += 1
            room = limit
            width = -(-lengths[i] // step) * step  # without a sum that could overflow
            need = width if padded else lengths[i]
        counts[batches - 1] += 1
        room -= need
    return batches


KERNEL = KernelSpec(cpu)
