"""Order sequences by falling length, equal lengths in the order they came: a counting sort."""

from typing import Any

from .._kernel import compiled


@compiled
def cpu(lengths: Any, sorted_lengths: Any, indices: Any, size_at_t: Any, steps: Any) -> None:
    """Write ``sorted_lengths (n,)``, ``indices (n,)``, ``size_at_t (longest,)`` and ``steps (longest + 1,)``.

    `size_at_t[t]` counts the sequences longer than t, `steps[t]` the rows before step t.
    """
    n = lengths.size
    for t in range(steps.size):
        steps[t] = 0
    for i in range(n):
        steps[lengths[i]] += 1
    # a sequence of length l comes after the ones that are longer: size_at_t[l] of them
    alive = n
    for t in range(size_at_t.size):
        alive -= steps[t]
        size_at_t[t] = alive
        steps[t] = alive
    steps[size_at_t.size] = 0
    for i in range(n):
        length = lengths[i]
        j = steps[length]
        steps[length] = j + 1
        indices[j] = i
        sorted_lengths[j] = length
    total = 0
    for t in range(size_at_t.size):
        steps[t] = total
        total += size_at_t[t]
    steps[size_at_t.size] = total
