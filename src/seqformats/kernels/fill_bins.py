"""Pack sequences of falling length into bins of one capacity: first fit decreasing.

The free room of the bins is kept in a tournament tree, so the first bin with room enough is found in log(n) steps
(D. S. Johnson, Near-optimal bin packing algorithms, 1973).
"""

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(lengths: Integers, capacity: int, tree: Integers, bins: Integers) -> int:
    """Write the bin of each sequence; returns the number of bins.

    ``lengths (n,)`` falls and none is over `capacity`; ``tree (2 * size,)`` with `size` the least power of two that is
    not below n; ``bins (n,)``.
    """
    size = tree.size // 2
    for node in range(tree.size):
        tree[node] = capacity
    count = 0
    for i in range(lengths.size):
        length = lengths[i]
        node = 1
        while node < size:
            node *= 2
            if tree[node] < length:
                node += 1
        bins[i] = node - size
        count = max(count, node - size + 1)
        tree[node] -= length
        node //= 2
        while node > 0:
            tree[node] = max(tree[2 * node], tree[2 * node + 1])
            node //= 2
    return count


KERNEL = p.KernelSpec(cpu)
