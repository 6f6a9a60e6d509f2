"""Beam search under lexical constraints: phrases that every hypothesis must have somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library
from ..errors import StructureError
from ..formats import Encoding, LoD
from . import candidates
from .candidates import Found, Lanes
from .constraints import Beams, Constraint, Plan, Running, is_token, sequences, tokens_of


class LexicalConstraints(Constraint):
    """Every hypothesis has all of some phrases, in any order and anywhere.

    Parameters
    ----------
    phrases : a list of phrases (lists of tokens) for all sources; or for each its own (lists of lists of lists)

    An end is no candidate before all phrases are there.  The places of a beam are shared out by how much of the phrases
    a hypothesis has, so that those that have begun one are not crowded out.

    Source: M. Post, D. Vilar, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation", arXiv 1804.06609.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> found = sf.beam_search(
    ...     lambda state: (np.zeros((len(state.tokens), 9)), None), None, start=np.zeros(1, int), end=0, beam_size=4,
    ...     max_new_tokens=4, constraints=[sf.LexicalConstraints([[7, 8], [5]])])
    >>> tokens = found.tokens.to_nested()[0][0]
    >>> 5 in tokens, tokens[tokens.index(7) + 1]
    (True, 8)
    """

    def __init__(self, phrases: Any) -> None:
        if isinstance(phrases, Encoding):
            phrases = phrases.to_nested() if isinstance(phrases, LoD) else sequences(phrases, "the phrases")
        if not isinstance(phrases, (list, tuple)):
            raise TypeError(f"phrases must be lists of tokens, not {type(phrases).__name__}")
        if phrases and all(is_token(x) for x in phrases):
            phrases = [phrases]
        self._each = any(not is_token(x) for part in phrases for x in part)
        parts = phrases if self._each else [phrases]
        self._phrases = [[tokens_of(phrase, "a phrase").tolist() for phrase in part] for part in parts]
        if any(not phrase for part in self._phrases for phrase in part):
            raise StructureError("a phrase has no token")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """For `n` sources."""
        if self._each and len(self._phrases) != n:
            raise StructureError(f"there are phrases for {len(self._phrases)} sources, but {n} sources")
        return LexicalSearch(self._phrases if self._each else self._phrases * n, list(ends))


class _Met(NamedTuple):
    """How far a hypothesis is: the phrases it has, and the one that it is in, with its next place."""

    done: frozenset[int] = frozenset()
    phrase: int = -1
    place: int = 0


class LexicalSearch(Running):
    """The phrases of one search, and how many of them each row has."""

    def __init__(self, phrases: list[list[list[int]]], ends: list[Array]) -> None:
        self.phrases, self.ends = phrases, ends
        self.met = [_Met()] * len(phrases)

    def limit(self, beams: Beams, plan: Plan) -> None:
        """No end before all phrases are there."""
        for r, s in enumerate(beams.source.tolist()):
            if len(self.met[r].done) < len(self.phrases[s]):
                plan.ban(np.full(self.ends[s].size, r), self.ends[s])

    def follow(self, beams: Beams) -> None:
        """The rows have become these."""
        rows = zip(beams.parents.tolist(), beams.tokens.tolist(), beams.source.tolist(), strict=True)
        self.met = [self.behind(self.met[parent], token, source) for parent, token, source in rows]

    def behind(self, met: _Met, token: int, source: int) -> _Met:
        """How far a hypothesis is with one token more."""
        phrases = self.phrases[source]
        phrase, place = met.phrase, met.place
        if phrase < 0 or phrases[phrase][place] != token:
            starts = (i for i, p in enumerate(phrases) if i not in met.done and p[0] == token)
            phrase, place = next(starts, -1), 0
            if phrase < 0:
                return _Met(met.done)
        if place + 1 == len(phrases[phrase]):
            return _Met(met.done | {phrase})
        return _Met(met.done, phrase, place + 1)

    def wanted(self, met: _Met, source: int) -> list[int]:
        """The tokens that bring a hypothesis further."""
        phrases = self.phrases[source]
        starts = {p[0] for i, p in enumerate(phrases) if i not in met.done}
        return sorted(starts if met.phrase < 0 else starts | {phrases[met.phrase][met.place]})

    def found(self, library: Library, x: Array, running: Array, lanes: Lanes, plan: Plan | None, beams: Beams) -> Found:
        """The candidates of each source: of every degree of progress in turn the best one, the furthest first."""
        rows, width = x.shape
        lists = candidates.row_lists(library, x, candidates.LOGS, running, lanes, plan, None)
        counts = library.to_numpy(lists.counts)
        if counts.min() < 0:
            return candidates.merged(library, lists, lanes, x)  # whose counts say which row is bad
        there = np.arange(lists.room) < counts[:, None]
        values, ids = (library.to_numpy(a).reshape(rows, lists.room)[there] for a in (lists.values, lists.ids))
        source = beams.source.tolist()
        wanted = [(r, token) for r in range(rows) for token in self.wanted(self.met[r], source[r]) if token < width]
        more = np.array([r * width + token for r, token in wanted if plan is None or plan.allows(r, token)], np.int64)
        more = np.setdiff1d(more, ids)
        picked = library.to_numpy(library.take(x.reshape(-1), more, 0))
        values, ids = np.concatenate([values, running[more // width] + picked]), np.concatenate([ids, more])
        parents, tokens = np.divmod(ids, width)
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        far = np.array([self._progress(r, token, source[r]) for r, token in pairs], np.int64)
        of = beams.source[parents]
        order = np.lexsort((ids, -values, -far, of))
        bank = np.stack([of, far], 1)[order]
        fresh = np.append(True, (bank[1:] != bank[:-1]).any(1))
        first = np.maximum.accumulate(np.where(fresh, np.arange(fresh.size), 0))
        turn = np.empty_like(order)
        turn[order] = np.arange(order.size) - first
        return candidates.ranked(values, ids, width, lanes, (-far, turn))

    def _progress(self, row: int, token: int, source: int) -> int:
        met = self.behind(self.met[row], token, source)
        return sum(len(self.phrases[source][i]) for i in met.done) + met.place
