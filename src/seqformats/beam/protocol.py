"""The protocol of a limit on hypotheses, ready-made or one of a user's own."""

from __future__ import annotations

from collections.abc import Sequence

from ..arrays import Array
from .hypotheses import Live
from .plan import Plan


class Constraint:
    """A limit on hypotheses, which may be one of a user's own; `begin` makes what one search needs of it.

    See Also
    --------
    Running : What it makes, and an example.

    Examples
    --------
    >>> import seqformats as sf
    >>> isinstance(sf.NoRepeatNgram(3), sf.Constraint)
    True
    """

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Begin a search for `n` sources, of which source i ends with one of ``ends[i]``."""
        raise NotImplementedError(f"{type(self).__name__} has no method begin(n, ends), which returns a Running")


class Running:
    """A constraint at work in one search.

    At each step `limit` is called before candidates are chosen, and `follow` when they are.  Both get the hypotheses
    that are alive as a `Live`, a row each; what is kept for each row has to follow them.

    See Also
    --------
    Plan : What can be said of tokens.

    Examples
    --------
    Tokens that rise, up to an end:

    >>> import numpy as np
    >>> import seqformats as sf
    >>> class Rising(sf.Constraint):
    ...     def begin(self, n, ends):
    ...         return RisingNow(ends, np.zeros(n, int))
    >>> class RisingNow(sf.beam.Running):
    ...     def __init__(self, ends, least):
    ...         self.ends, self.least = ends, least  # least: of each row
    ...     def limit(self, live, plan):
    ...         for row, source in enumerate(live.source):
    ...             lower = np.setdiff1d(np.arange(self.least[row]), self.ends[source])
    ...             plan.ban(np.full(lower.size, row), lower)
    ...     def follow(self, live):
    ...         self.least = np.maximum(self.least[live.parents], live.tokens + 1)
    >>> scores = np.log([[0.1, 0.2, 0.3, 0.4]])
    >>> found = sf.beam_search(
    ...     lambda state: (scores.repeat(len(state.tokens), 0), None), None, start=[0], end=0, beam_size=3,
    ...     max_new_tokens=3, n_best=3, constraints=Rising())
    >>> found.tokens.to_nested()
    [[[1, 2, 3], [2, 3, 0], [1, 3, 0]]]
    """

    def limit(self, live: Live, plan: Plan) -> None:
        """Say in the plan what may follow."""

    def follow(self, live: Live) -> None:
        """The rows have become these: row r was row ``live.parents[r]``, and has ``live.tokens[r]`` behind it."""
