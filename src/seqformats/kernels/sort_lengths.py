"""Order sequences by falling length, equal lengths in the order they came: a counting sort."""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(lengths: Integers, longest: int, order: Integers) -> None:
    """Write four arrays, one after the other into ``order (2 * n + 2 * longest + 1,)``.

    These are the sorted lengths ``(n,)``, the positions they had ``(n,)``, how many sequences are longer than t
    ``(longest,)``, and the rows before time step t ``(longest + 1,)``.
    """
    n = lengths.size
    sizes = 2 * n
    steps = sizes + longest
    for t in range(longest + 1):
        order[steps + t] = 0
    for i in range(n):
        order[steps + lengths[i]] += 1
    # a sequence of length l comes after the ones that are longer: as many as are longer than l
    alive = n
    for t in range(longest):
        alive -= order[steps + t]
        order[sizes + t] = alive
        order[steps + t] = alive
    order[steps + longest] = 0
    for i in range(n):
        length = lengths[i]
        j = order[steps + length]
        order[steps + length] = j + 1
        order[n + j] = i
        order[j] = length
    total = 0
    for t in range(longest):
        order[steps + t] = total
        total += order[sizes + t]
    order[steps + longest] = total


KERNEL = p.KernelSpec(cpu)
