"""The tokens of hypotheses, from their last nodes back to the start.

Hypothesis i ends at node ``last[i]`` of the tree; its tokens come to ``tokens[starts[i]:starts[i + 1]]``, what each has
added to the score to the same places of ``added``.
"""

from ..beam.rows import Tree
from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(tree: Tree, last: Integers, tokens: Integers, added: Array, starts: Integers, lo: int, hi: int) -> None:
    """Hypotheses `lo` to `hi`."""
    values = tree.values
    for i in range(lo, hi):
        node = last[i]
        place = starts[i + 1] - 1
        while node >= 0:
            before = tree.previous[node]
            tokens[place] = tree.tokens[node]
            added[place] = values[node] - values[before] if before >= 0 else values[node]
            node = before
            place -= 1


KERNEL = p.KernelSpec(cpu, takes=(("f4", "f4"),))
