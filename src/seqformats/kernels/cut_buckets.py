"""Cut sequences of falling length into batches of a limited size."""

from typing import Any

from .._kernel import compiled


@compiled
def cpu(lengths: Any, limit: int, padded: int, counts: Any) -> int:
    """Write how many sequences each batch has; returns the number of batches.

    ``lengths (n,)`` falls and none is over `limit`; ``counts (n,)``.  A batch holds at most `limit` items, where
    `padded` is 1 as many as its longest sequence has for each.
    """
    batches = 0
    room = 0
    longest = 0
    for i in range(lengths.size):
        length = lengths[i]
        need = longest if padded and longest > length else length
        if i == 0 or need > room:
            counts[batches] = 0
            batches += 1
            room = limit
            longest = length
            need = length
        counts[batches - 1] += 1
        room -= need
    return batches
