"""Write the members of each bin one after the other, in the order in which they come: a counting sort."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(of: Integers, counts: Integers, places: Integers, begins: Integers) -> None:
    """Write the places of ``of (n,)``, the bin of each, bin by bin to ``places (n,)``.

    ``counts (bins,)`` gets how many each bin has; ``begins (bins,)`` is workspace.
    """
    for b in range(counts.size):
        counts[b] = 0
    for i in range(of.size):
        counts[of[i]] += 1
    total = 0
    for b in range(counts.size):
        begins[b] = total
        total += counts[b]
    for i in range(of.size):
        b = of[i]
        places[begins[b]] = i
        begins[b] += 1


KERNEL = p.KernelSpec(cpu)
