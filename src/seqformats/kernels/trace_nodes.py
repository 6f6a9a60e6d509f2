"""The tokens of hypotheses, from their last nodes back to the start.

Hypothesis i ends at node ``last[i]`` of ``node_tokens``, ``node_previous`` and ``node_values`` (see `advance_beams`);
its tokens come to ``tokens[starts[i]:starts[i + 1]]``, what each has added to the score to the same places of
``added``.
"""

from typing import Any

from .parts import (
    KernelSpec,
    compiled,
)


@compiled
def cpu(
    node_tokens: Any,
    node_previous: Any,
    node_values: Any,
    last: Any,
    starts: Any,
    tokens: Any,
    added: Any,
    lo: int,
    hi: int,
) -> None:
    """Hypotheses `lo` to `hi`."""
    for i in range(lo, hi):
        node = last[i]
        place = starts[i + 1] - 1
        while node >= 0:
            before = node_previous[node]
            tokens[place] = node_tokens[node]
            added[place] = node_values[node] - node_values[before] if before >= 0 else node_values[node]
            node = before
            place -= 1


KERNEL = KernelSpec(cpu, takes=(("f4",),))
