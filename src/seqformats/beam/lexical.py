"""Beam search under lexical constraints: phrases that every hypothesis must have somewhere."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array, distinct, is_among
from ..converters.convert import convert
from ..errors import BEYOND, COUNTS, EMPTY, KIND, quote
from ..formats import is_own
from . import candidates
from .candidates import Query
from .hypotheses import Live
from .plan import Plan
from .protocol import Constraint, Running
from .rows import Candidates
from .tokens import is_nested, is_token, token_lists, tokens_of


class LexicalConstraints(Constraint):
    """Require all given phrases in every hypothesis, in any order and place; they may overlap.

    Parameters
    ----------
    phrases : lists of tokens, or encoding
        A list of phrases (lists of tokens) for all sources; or for each its own (lists of lists of lists).

    Raises
    ------
    TypeError, StructureError
        If the argument does not hold phrases.

    Notes
    -----
    An end is no candidate before all phrases are there.  The places of a beam are shared out by how much of the phrases
    a hypothesis has, so that those that have begun one are not crowded out.  A source whose phrases do not come to fit
    into `max_new_tokens` has no hypothesis.

    References
    ----------
    M. Post, D. Vilar, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation", arXiv 1804.06609.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> found = sf.beam_search(
    ...     lambda state: (np.zeros((len(state.tokens), 9)), None), None, start=np.zeros(1, int), end=0, beam_size=4,
    ...     max_new_tokens=4, constraints=[sf.LexicalConstraints([[7, 8], [5]])])
    >>> tokens = found.tokens.to_nested()[0][0]
    >>> 5 in tokens, tokens[tokens.index(7) + 1]
    (True, 8)
    """

    def __init__(self, phrases: object) -> None:
        self._each = is_nested(phrases)
        if is_own(phrases):
            phrases = convert(phrases, list) if phrases.keeps_levels else token_lists(phrases, "the phrases")
        if not isinstance(phrases, (list, tuple)):
            raise KIND(f"phrases must be lists of tokens, not {type(phrases).__name__}")
        if phrases and all(is_token(x) for x in phrases):
            phrases = [phrases]
        for part in phrases:
            if is_token(part):
                raise KIND(f"phrases must be lists of tokens, but {quote(part)} stands beside lists")
        self._each |= bool(phrases) and not any(len(part) for part in phrases)  # as a phrase has a token
        parts = phrases if self._each else [phrases]
        self._phrases = [[tokens_of(phrase, "a phrase").tolist() for phrase in part] for part in parts]
        if any(not phrase for part in self._phrases for phrase in part):
            raise EMPTY("a phrase has no token")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Begin a search for `n` sources."""
        if self._each and len(self._phrases) != n:
            raise COUNTS(f"there are phrases for {len(self._phrases)} sources, but {n} sources")
        return LexicalSearch(self._phrases if self._each else self._phrases * n, ends)


class _Met(NamedTuple):
    """Progress of a hypothesis: the phrases it has, and how much of the start of each other one is at its end."""

    done: frozenset[int]
    places: tuple[int, ...]


class _Phrases:
    """The phrases of one source, which a hypothesis meets wherever they are, even one in the other."""

    def __init__(self, phrases: list[list[int]], ends: list[int]) -> None:
        self.phrases = phrases
        self.tokens = sorted({token for phrase in phrases for token in phrase})
        self.known = frozenset(self.tokens)
        self.ends = ends
        self.none = _Met(frozenset(), (0,) * len(phrases))
        self._shorter = [_borders(phrase) for phrase in phrases]

    def advance(self, met: _Met, token: int) -> _Met:
        """Advance a hypothesis by one token."""
        if token not in self.known:
            return _Met(met.done, self.none.places)
        places, done = [], set(met.done)
        for i, phrase in enumerate(self.phrases):
            place = met.places[i]
            while place and phrase[place] != token:
                place = self._shorter[i][place]
            place += phrase[place] == token and i not in done
            if place == len(phrase):
                done.add(i)
                place = 0
            places.append(place)
        return _Met(frozenset(done), tuple(places))

    def next_tokens(self, met: _Met) -> set[int]:
        """The tokens that bring a hypothesis further."""
        left = [(phrase, met.places[i]) for i, phrase in enumerate(self.phrases) if i not in met.done]
        return {token for phrase, place in left for token in (phrase[0], phrase[place])}

    def progress(self, met: _Met) -> int:
        """Count its tokens of phrases, of those that have begun the longest alone."""
        return sum(len(self.phrases[i]) for i in met.done) + max(met.places, default=0)

    def early(self, met: _Met) -> list[int]:
        """The ends with which a hypothesis would lack a phrase."""
        if len(met.done) == len(self.phrases):
            return []
        return [end for end in self.ends if len(self.advance(met, end).done) < len(self.phrases)]

    def missing(self, met: _Met) -> int:
        """Count the tokens that at least come before a hypothesis has all phrases."""
        left = [len(phrase) - met.places[i] for i, phrase in enumerate(self.phrases) if i not in met.done]
        return max(left, default=0)

    def in_time(self, met: _Met, left: int) -> list[int] | None:
        """The tokens behind which the phrases may still fit into `left` tokens; None for all."""
        if self.missing(_Met(met.done, self.none.places)) <= left:
            return None
        return [token for token in self.tokens if self.missing(self.advance(met, token)) <= left]


def _borders(phrase: list[int]) -> list[int]:
    """Measure, for every start of a phrase, the longest shorter start that it ends with (Knuth, Morris, Pratt)."""
    found = [0, 0]
    for token in phrase[1:]:
        length = found[-1]
        while length and phrase[length] != token:
            length = found[length]
        found.append(length + (phrase[length] == token))
    return found


class LexicalSearch(Running):
    """The phrases of one search, and how many of them each row has."""

    def __init__(self, phrases: list[list[list[int]]], ends: Sequence[Array]) -> None:
        self.sources = [_Phrases(part, last.tolist()) for part, last in zip(phrases, ends, strict=True)]
        self.met = [source.none for source in self.sources]
        self.largest = max((token for source in self.sources for token in source.tokens), default=-1)

    def take(self, sources: Array, rows: Array) -> LexicalSearch:
        """Take some of the sources, and rows, alone."""
        part = copy.copy(self)
        part.sources = [self.sources[i] for i in sources.tolist()]
        part.met = [self.met[r] for r in rows.tolist()]
        return part

    @classmethod
    def join(cls, parts: Sequence[LexicalSearch]) -> LexicalSearch:
        """Join several searches, one behind the other."""
        found = cls([], [])
        found.sources = [source for part in parts for source in part.sources]
        found.met = [met for part in parts for met in part.met]
        return found

    def limit(self, live: Live, plan: Plan) -> None:
        """No end before all phrases are there, and nothing behind which they cannot be any more."""
        if self.largest >= plan.width:
            raise BEYOND(f"token {self.largest} is in a phrase, but scores have {plan.width} columns")
        states = [(self.sources[s], met) for s, met in zip(live.source.tolist(), self.met, strict=True)]
        early = [source.early(met) for source, met in states]
        rows = np.repeat(np.arange(len(early)), [len(ends) for ends in early])
        plan.ban(rows, np.array([end for ends in early for end in ends], np.int64))
        in_time = [
            source.in_time(met, left - 1) for (source, met), left in zip(states, live.tokens_left.tolist(), strict=True)
        ]
        if any(tokens is not None for tokens in in_time):
            ends = np.cumsum([len(tokens or ()) for tokens in in_time])
            begin = np.append(0, ends)[:-1]
            free = np.array([tokens is None for tokens in in_time])
            tokens = np.array([token for tokens in in_time for token in tokens or ()], np.int64)
            plan.allow(np.where(free, -1, begin), np.where(free, -1, ends), tokens)

    def follow(self, live: Live) -> None:
        """The rows have become these."""
        rows = zip(live.parents.tolist(), live.tokens.tolist(), live.source.tolist(), strict=True)
        self.met = [self.sources[source].advance(self.met[parent], token) for parent, token, source in rows]

    def find_candidates(self, query: Query, live: Live, per_parent: int | None) -> Candidates:
        """The candidates of each source: of every degree of progress in turn the best one, the furthest first."""
        library, x, running, _, plan = query[:5]
        width = x.shape[1]
        found = candidates.row_lists(query, per_parent)
        live.check(found.counts)
        best = candidates.find_used(found)
        values, ids = found.values[best], found.ids[best]
        of_rows = [self.sources[source] for source in live.source.tolist()]
        wanted = [(r, token) for r, source in enumerate(of_rows) for token in source.next_tokens(self.met[r])]
        more = distinct(np.array([r * width + token for r, token in wanted], np.int64))
        more = more[~is_among(more, ids)]
        picked = library.to_numpy(library.take(x.reshape(-1), more, 0))
        if plan is not None:
            given = zip(more.tolist(), picked, strict=True)
            picked = np.array([plan.apply_limits(at // width, at % width, value) for at, value in given], np.float32)
        values, ids = np.concatenate([values, running[more // width] + picked]), np.concatenate([ids, more])
        parents, tokens = np.divmod(ids, width)
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        far = np.array([of_rows[r].progress(of_rows[r].advance(self.met[r], token)) for r, token in pairs], np.int64)
        of = live.source[parents]
        order = np.lexsort((ids, -values, -far, of))
        bank = np.stack([of, far], 1)[order]
        fresh = np.append(True, (bank[1:] != bank[:-1]).any(1))
        first = np.maximum.accumulate(np.where(fresh, np.arange(fresh.size), 0))
        turn = np.empty_like(order)
        turn[order] = np.arange(order.size) - first
        return candidates.rank(values, ids, width, query.wanted, (-far, turn))
