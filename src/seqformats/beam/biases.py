"""Limits that make tokens more or less likely, and those on ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..arrays import Array
from ..converters.layouts import check_at_least
from ..errors import BEYOND, EMPTY, KIND, RANGE, quote
from ..formats.structure import flag, whole
from .hypotheses import Live
from .plan import FREE, MAX_FACTOR, Plan, spread
from .protocol import Constraint, Running
from .rules import number
from .tokens import is_token, tokens_of


class SequenceBias(Constraint):
    """Make tokens, and the last tokens of phrases, more or less likely.

    Parameters
    ----------
    biases : mapping of int or tuple of int to float
        What the log-probability of a token is increased by; of a phrase that of its last token, behind the others.  A
        token may have several; -inf bans it.  A `RepetitionPenalty` and all other limits act on what comes out, as in
        transformers.

    Raises
    ------
    TypeError, StructureError, ConversionError
        If the argument is not such a mapping, its keys are no tokens, or a value is NaN or +inf.

    Examples
    --------
    >>> import seqformats as sf
    >>> bias = sf.SequenceBias({3: -2.0, (7, 8): 1.5})  # 3 comes seldom, and 8 more often behind 7
    """

    def __init__(self, biases: Mapping[int | tuple[int, ...], float]) -> None:
        if not isinstance(biases, Mapping):
            raise KIND(f"the biases must be a dict from tokens and phrases to numbers, not {quote(biases)}")
        self._biases: list[tuple[Array, float]] = []
        for tokens, bias in biases.items():
            parts = [tokens] if is_token(tokens) else tokens
            if not isinstance(parts, (list, tuple)):
                raise KIND(f"the biases must be those of tokens and of tuples of such, not of {quote(tokens)}")
            phrase = tokens_of([whole(x, "a biased token") for x in parts], "the biased tokens")
            if not phrase.size:
                raise EMPTY("a biased phrase has no token")
            value = number(bias, "a bias")
            if not value < 1e30:
                raise RANGE(f"a bias must be below 1e30, not {quote(bias)}")
            self._biases.append((phrase, max(value, -1e30) if value > -math.inf else value))

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _Biased(self._biases)


class _Biased(Running):
    def __init__(self, biases: list[tuple[Array, float]]) -> None:
        self.biases = biases
        self.largest = max([-1, *(int(phrase.max()) for phrase, _ in biases)])

    def limit(self, live: Live, plan: Plan) -> None:
        if self.largest >= plan.width:
            raise BEYOND(f"token {self.largest} has a bias, but scores have {plan.width} columns")
        for phrase, bias in self.biases:
            here = live.find_suffix(phrase[:-1])
            plan.change(here, np.full(here.size, phrase[-1]), addend=bias)


class ExponentialDecayLengthPenalty(Constraint):
    """Make ends more likely with every token after a given length.

    Parameters
    ----------
    start : int
        Up to this many tokens, ends are as likely as the model says; after that they become more likely.
    factor : float
        Above 0.  Behind `start` + p tokens the log-probability of an end grows by ``factor ** p - 1`` times what it is
        away from 0; with a factor below 1 it falls.

    Raises
    ------
    TypeError, ConversionError
        If a number is out of its range.

    Notes
    -----
    It is that of transformers, by which the log-probability of an end may become more than 0.

    Examples
    --------
    >>> import seqformats as sf
    >>> shorter = sf.ExponentialDecayLengthPenalty(20, 1.1)
    """

    def __init__(self, start: int, factor: float) -> None:
        self._start, self._factor = check_at_least(start, "start", 0), number(factor, "factor")
        if not 0 < self._factor < math.inf:
            raise RANGE(f"factor must be above 0, and finite, not {quote(factor)}")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _Decay(self._start, math.log(self._factor), ends)


class _Decay(Running):
    def __init__(self, start: int, growth: float, ends: Sequence[Array]) -> None:
        self.start, self.growth, self.ends = start, growth, Ends(ends)

    def limit(self, live: Live, plan: Plan) -> None:
        beyond = live.t - self.start
        if beyond > 0:
            rows, tokens = self.ends.find_pairs(live, np.arange(live.source.size))
            most = math.log(MAX_FACTOR)
            grown = math.exp(min(max(beyond * self.growth, -most), most))
            plan.change(rows, tokens, factor=2 - grown, divisor=1 / grown)


class ForcedEnd(Constraint):
    """Force an end as the last token of hypotheses that reach their maximum length.

    Parameters
    ----------
    free : bool
        Whether it costs nothing: the log-probability of such an end then counts as 0, as in transformers.

    Raises
    ------
    TypeError
        If `free` has an invalid value.

    Notes
    -----
    A source without any end is not limited.  The rule "fairseq" does this in every search.

    Examples
    --------
    >>> import seqformats as sf
    >>> limits = [sf.ForcedEnd()]
    """

    def __init__(self, *, free: bool = False) -> None:
        self._free = flag(free, "free")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _EndForced(self._free, ends)


class _EndForced(Running):
    def __init__(self, free: bool, ends: Sequence[Array]) -> None:
        self.free, self.ends = free, Ends(ends)

    def limit(self, live: Live, plan: Plan) -> None:
        begin, end = self.ends.begin[live.source], self.ends.end[live.source]
        forced = (live.tokens_left == 1) & (begin < end)
        if forced.any():
            plan.allow(np.where(forced, begin, -1), np.where(forced, end, -1), self.ends.tokens)
            if self.free:
                rows, tokens = self.ends.find_pairs(live, np.flatnonzero(forced))
                plan.change(rows, tokens, **FREE)


class Ends:
    """The ends of all sources: those of source i are ``tokens[begin[i]:end[i]]``."""

    def __init__(self, ends: Sequence[Array]) -> None:
        self.tokens = np.concatenate([np.empty(0, np.int64), *ends])
        sizes = np.array([part.size for part in ends], np.int64)
        self.end = np.cumsum(sizes)
        self.begin = self.end - sizes

    def find_pairs(self, live: Live, rows: Array) -> tuple[Array, Array]:
        """Rows and tokens: each of these rows with each end of its source."""
        source = live.source[rows]
        of, places = spread(self.begin[source], self.end[source])
        return rows[of], self.tokens[places]
