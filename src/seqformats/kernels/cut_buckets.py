"""Cut sequences of falling length into batches of a limited size, and of a limited cost."""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(
    lengths: Integers,
    costs: Array,
    limit: int,
    padded: int,
    step: int,
    most: int,
    most_cost: float,
    counts: Integers,
) -> int:
    """Write how many sequences each batch has; returns the number of batches.

    ``lengths (n,)`` falls, at least where `padded` is 1, and none, rounded up to a multiple of `step`, is over `limit`;
    ``costs (n,)``, none over `most_cost`, is empty where costs do not matter; ``counts (n,)``.  A batch has at most
    `most` sequences, `limit` items and `most_cost`.  Where `padded` is 1 it has as many items as its longest sequence
    for each, and the cost of its costliest for each.
    """
    batches = 0
    room = 0
    width = 0  # of a padded batch
    top, total = 0.0, 0.0  # the costliest sequence, and all, of a batch
    for i in range(lengths.size):
        need = width if padded else lengths[i]
        cost = costs[i] if costs.size else 0.0
        if i > 0 and costs.size:
            after = max(top, cost) * (counts[batches - 1] + 1) if padded else total + cost
        else:
            after = 0.0
        if i == 0 or need > room or counts[batches - 1] == most or after > most_cost:
            counts[batches] = 0
            batches += 1
            room = limit
            width = -(-lengths[i] // step) * step  # without a sum that could overflow
            need = width if padded else lengths[i]
            top = total = 0.0
        counts[batches - 1] += 1
        room -= need
        top = max(top, cost)
        total += cost
    return batches


KERNEL = p.KernelSpec(cpu, takes=(("f8",),))
