"""The coverage penalty: what a hypothesis loses for inputs of its source that it has paid no attention to."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..errors import KIND, NAN, RANGE, SHAPE, quote
from ..formats import Ragged
from ..operations.sums import reduce_sum
from .hypotheses import Found, Trail
from .paths import Paths, Step
from .rows import Tree
from .rules import STOP_COUNT, STOP_TOP, Rule, number

_SUMMED = ("float32", "float64")
_HOW = "let every step return (scores, memory, attention), where attention is floats of shape (rows, positions)"


class Coverage:
    """The coverage penalty of one search (Wu et al. 2016, equation 14); a weight of 0 is none."""

    def __init__(self, weight: float) -> None:
        self.weight = number(weight, "coverage")
        if not 0 <= self.weight < 1e30:
            raise RANGE(f"coverage must be at least 0, and below 1e30, not {quote(weight)}")

    def waiting(self, rule: Rule) -> Rule:
        """The rule, which must not stop at the hypothesis with the best score where another may have the best cover."""
        return rule._replace(stop=STOP_COUNT) if self.weight and rule.stop == STOP_TOP else rule

    def check(self, kept: Step | None) -> None:
        """TypeError, or StructureError, unless the first array that a step keeps can be attention."""
        if not kept:
            raise KIND(f"coverage needs the attention of every step, but this one keeps nothing; {_HOW}")
        library, array = next(iter(kept.values()))
        if len(array.shape) != 2:
            raise SHAPE(f"the first array that is kept has shape {tuple(array.shape)}; for coverage, {_HOW}")
        name = library.dtype_name(array.dtype)
        if not name.startswith(("float", "bfloat")):
            raise KIND(f"the first array that is kept is one of {name}; for coverage, {_HOW}")

    def rescore(self, found: Found, trail: Trail, tree: Tree, paths: Paths) -> Found:
        """Finished hypotheses, those of a source together, with what they lose, and best first."""
        source, last, scores = found
        if not last.size:
            return found
        scores = (scores + self.weight * _log_coverage(source, trail, tree, paths)).astype(np.float32)
        order = np.lexsort((-scores, source))  # stable: equal ones stay as they were
        return Found(source[order], last[order], scores[order])


def _log_coverage(source: Array, trail: Trail, tree: Tree, paths: Paths) -> Array:
    """The sum over all positions of ``log(min(attention, 1))``, float64, where attention is that of all tokens.

    As in CTranslate2 that of a position without any attention is left out, which padding is.
    """
    rows = paths.rows(tree, trail)
    assert rows is not None
    library, attention = paths.first(rows, trail)
    if library.dtype_name(attention.dtype) not in _SUMMED:
        attention = library.astype(attention, "float32")
    totals = library.to_numpy(reduce_sum(Ragged._freeze(attention, trail.inner))).astype(np.float64)
    none = np.isnan(totals).any(1)
    if none.any():
        raise NAN(f"the attention that was kept for source {source[none][0]} holds NaN")
    logs = np.log(np.minimum(totals, 1), out=np.zeros_like(totals), where=totals > 0)
    found: Array = logs.sum(1)
    return found
