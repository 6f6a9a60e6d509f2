"""Diverse beam search: several beams for each source, which avoid each other's tokens."""

from __future__ import annotations

import numpy as np

from ..arrays import Array
from ..converters.layouts import check_at_least
from ..errors import RANGE, quote
from .hypotheses import Live
from .plan import Plan
from .protocol import Constraint
from .rules import number


class DiverseGroups(Constraint):
    """Several beams per source, each of which avoids the tokens that earlier beams have just chosen.

    Parameters
    ----------
    groups : int
        The number of groups; every beam size must be a multiple of it.
    penalty : float
        The penalty, at least 0, that is subtracted from a token for each time it was chosen.

    Raises
    ------
    TypeError, ConversionError
        If a number is out of its range.

    Notes
    -----
    Each group is a beam of its own; the hypotheses of all are put together at the end.  The diversity is that of
    Hamming.

    References
    ----------
    A. K. Vijayakumar et al. (2018), "Diverse Beam Search", arXiv 1610.02424.

    Examples
    --------
    >>> import seqformats as sf
    >>> diverse = sf.DiverseGroups(groups=2, penalty=0.5)
    """

    def __init__(self, groups: int, penalty: float) -> None:
        self.groups = check_at_least(groups, "groups", 1)
        self.penalty = number(penalty, "penalty")
        if not 0 <= self.penalty < 1e30:
            raise RANGE(f"penalty must be at least 0, and below 1e30, not {quote(penalty)}")

    def penalise(self, plan: Plan | None, live: Live, width: int, chosen: Array) -> Plan:
        """The plan, and a penalty for every token, as ``source * width + token``, that was chosen before."""
        pairs, counts = np.unique(chosen, return_counts=True)
        changed = Plan(live.source.size, width) if plan is None else plan.copy()
        # every row of a source meets all tokens chosen there
        first, last = (np.searchsorted(pairs, (live.source + k) * width) for k in (0, 1))
        rows = np.repeat(np.arange(first.size), last - first)
        places = np.arange(rows.size) - np.searchsorted(rows, rows) + first[rows]
        changed.change(rows, pairs[places] % width, addend=-self.penalty * counts[places])
        return changed.finish()
