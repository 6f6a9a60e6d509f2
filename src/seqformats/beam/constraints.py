"""Ready-made limits on the tokens of a hypothesis, which can be combined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, distinct, is_among, is_array
from ..converters.convert import convert
from ..converters.layouts import check_at_least
from ..errors import BEYOND, COUNTS, EMPTY, KIND, RANGE, quote
from ..formats import LoD, Ragged, is_own
from ..formats.structure import flag, whole
from ..memory_checks import remember
from ..operations.batch import join_batches
from ..operations.expand import repeat
from ..operations.join import concat
from .hypotheses import Live
from .plan import FREE, Plan, spread
from .protocol import Constraint, Running
from .rules import number
from .tokens import is_nested, is_token, one_by_one, token_batch, token_lists, tokens_of
from .trie import Trie


class AllowedTokens(Constraint):
    """A hypothesis is one of the given sequences, with an end behind it; or, if it has no room, the beginning of one.

    Parameters
    ----------
    trie_or_lists : Trie, LoD, or lists of tokens
        A `Trie`, or sequences of tokens, for all sources; or a `LoD` over ``[source -> sequences, sequence ->
        tokens]`` or lists of lists of lists, for each its own.

    Raises
    ------
    TypeError, StructureError
        If the argument does not hold sequences of tokens.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> found = sf.beam_search(
    ...     lambda state: (np.zeros((len(state.tokens), 9)), None), None, start=np.zeros(1, int), end=1, beam_size=2,
    ...     max_new_tokens=5, n_best=2, constraints=[sf.AllowedTokens([[3, 4], [5]])])
    >>> sorted(found.tokens.to_nested()[0])
    [[3, 4, 1], [5, 1]]
    """

    def __init__(self, trie_or_lists: Trie | LoD | Iterable[Any]) -> None:
        self._each = False
        self._ended: dict[tuple[int, ...], Trie] = {}
        if isinstance(trie_or_lists, Trie):
            self._batches, self._ended = [trie_or_lists._sequences], trie_or_lists._ended
            return
        given: Any = trie_or_lists
        self._each = is_nested(given)
        if self._each and is_own(given):
            given = convert(given, list)
        self._batches = [token_batch(part, "the allowed sequences") for part in (given if self._each else [given])]

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        if self._each and len(self._batches) != n:
            raise COUNTS(f"there are allowed sequences for {len(self._batches)} sources, but {n} sources")
        if not self._each and all(np.array_equal(ends[0], other) for other in ends):
            key = tuple(ends[0].tolist()) if n else ()
            trie = self._ended.get(key)
            if trie is None:
                trie = remember(self._ended, key, _with_ends(self._batches, [np.array(key, np.int64)]))
            return _Allowed(trie, np.zeros(n, np.int64))
        return _Allowed(_with_ends(self._batches if self._each else self._batches * n, ends), np.arange(n))


def _with_ends(parts: Sequence[Ragged[Array]], ends: Sequence[Array]) -> Trie:
    """A tree for each part, whose sequences go on with each of its ends."""
    found = [_append_ends(part, last) for part, last in zip(parts, ends, strict=True)]
    none = Ragged(np.empty(0, np.int64), [])
    part = np.repeat(np.arange(len(parts)), list(map(len, found)))
    return Trie._from_roots(join_batches([none, *found]), part, len(parts))


def _append_ends(sequences: Ragged[Array], ends: Array) -> Ragged[Array]:
    """Each sequence with each of the ends behind it, or itself, if it ends already or nothing does."""
    if not ends.size or not len(sequences):
        return sequences
    last = sequences.data[np.maximum(sequences.offsets[1:] - 1, 0)] if sequences.rows else np.full(len(sequences), -1)
    done = (sequences.lengths > 0) & is_among(last, ends)
    times = np.where(done, 1, ends.size)
    behind = np.repeat(~done, times)  # an end comes behind these
    which = np.arange(behind.size) - np.repeat(np.cumsum(times) - times, times)
    return concat([repeat(sequences, times), Ragged(ends[which[behind]], behind.astype(np.int64))])


class _Allowed(Running):
    def __init__(self, trie: Trie, roots: Array) -> None:
        self.trie, self.nodes = trie, roots

    def limit(self, live: Live, plan: Plan) -> None:
        if self.trie.largest >= plan.width:
            raise BEYOND(f"token {self.trie.largest} is allowed, but scores have {plan.width} columns")
        inside = self.nodes >= 0
        begin, end = (np.where(inside, array[self.nodes], 0) for array in (self.trie.begin, self.trie.end))
        places = spread(begin, end)[1]
        ends = np.cumsum(end - begin)
        plan.allow(ends - (end - begin), ends, self.trie.tokens[places])

    def follow(self, live: Live) -> None:
        self.nodes = self.trie.child(self.nodes[live.parents], live.tokens)


class ForcedPrefix(Constraint):
    """Force hypotheses to begin with given tokens.

    Parameters
    ----------
    tokens : sequence of int, lists of such, or encoding
        A list of tokens for all sources, or one for each; any may be empty.
    free : bool
        Whether they cost nothing: the log-probability of each then counts as 0, as in transformers.

    Raises
    ------
    TypeError, StructureError
        If the argument does not hold sequences of tokens.

    Examples
    --------
    >>> import seqformats as sf
    >>> prefix = sf.ForcedPrefix([[4, 2], []])  # of two sources only the first is forced
    """

    def __init__(self, tokens: object, *, free: bool = False) -> None:
        self._free = flag(free, "free")
        self._own: list[Array] | None = None
        self._shared: Array = np.empty(0, np.int64)
        if is_array(tokens) or (isinstance(tokens, (list, tuple)) and all(map(is_token, tokens))):
            self._shared = tokens_of(tokens, "the forced prefix")
        else:
            self._own = token_lists(tokens, "the forced prefix")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        own = [self._shared] * n if self._own is None else self._own
        if len(own) != n:
            raise COUNTS(f"there are forced prefixes for {len(own)} sources, but {n} sources")
        return _Forced(own, self._free)


class _Forced(Running):
    def __init__(self, prefixes: list[Array], free: bool) -> None:
        self.free = free
        self.lengths = np.array([p.size for p in prefixes], np.int64)
        self.table = np.full((len(prefixes), max([0, *self.lengths.tolist()])), -1)
        for row, prefix in zip(self.table, prefixes, strict=True):
            row[: prefix.size] = prefix

    def limit(self, live: Live, plan: Plan) -> None:
        forced = self.lengths[live.source] > live.t
        if forced.any():
            rows = np.flatnonzero(forced)
            begin, end = np.full(forced.size, -1), np.full(forced.size, -1)
            begin[rows], end[rows] = np.arange(rows.size), np.arange(rows.size) + 1
            tokens = self.table[live.source[rows], live.t]
            plan.allow(begin, end, tokens)
            if self.free:
                plan.change(rows, tokens, **FREE)


class ForcedTokens(Constraint):
    """Force given tokens at given places of a hypothesis, if it is that long.

    Parameters
    ----------
    tokens : mapping of int to int
        From the place, 0 for the first generated token, to the token.
    free : bool
        Whether they cost nothing: the log-probability of each then counts as 0, as in transformers.

    Raises
    ------
    TypeError, ConversionError
        If the argument is not such a mapping, and for negative numbers.

    Examples
    --------
    >>> import seqformats as sf
    >>> forced = sf.ForcedTokens({0: 250004})  # the language comes first
    """

    def __init__(self, tokens: Mapping[int, int], *, free: bool = False) -> None:
        self._free = flag(free, "free")
        if not isinstance(tokens, Mapping):
            raise KIND(f"the forced tokens must be a dict from places to tokens, not {type(tokens).__name__}")
        self._at = {check_at_least(t, "a place", 0): check_at_least(token, "a token", 0) for t, token in tokens.items()}

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _ForcedAt(self._at, self._free)


class _ForcedAt(Running):
    def __init__(self, at: dict[int, int], free: bool) -> None:
        self.at, self.free = at, free

    def limit(self, live: Live, plan: Plan) -> None:
        if live.t in self.at:
            rows = live.source.size
            plan.allow(np.zeros(rows, np.int64), np.ones(rows, np.int64), np.array([self.at[live.t]]))
            if self.free:
                plan.change(np.arange(rows), np.full(rows, self.at[live.t]), **FREE)


class BannedTokens(Constraint):
    """Tokens, or phrases of several tokens, that no hypothesis may contain.

    Parameters
    ----------
    tokens : int, sequence of int and of phrases, or encoding
        A token, or a list of tokens and of phrases (lists of tokens).
    until : int, optional
        Apply the ban to this many tokens at the beginning only: with 1, they must not come first.

    Raises
    ------
    TypeError, StructureError, ConversionError
        If `tokens` does not hold tokens, and if `until` is invalid.

    Examples
    --------
    >>> import seqformats as sf
    >>> banned = sf.BannedTokens([0, 1, [7, 8]])  # 7 may come, and 8, but not 8 behind 7
    """

    def __init__(self, tokens: object, *, until: int | None = None) -> None:
        self._until = None if until is None else check_at_least(until, "until", 1)
        if is_own(tokens):
            tokens = token_lists(tokens, "the banned tokens")
        if is_token(tokens):
            tokens = [tokens]
        phrases = [[x] if is_token(x) else list(x) for x in one_by_one(tokens)]
        if any(not phrase for phrase in phrases):
            raise EMPTY("a banned phrase has no token")
        found = [tokens_of([whole(x, "a banned token") for x in phrase], "the banned tokens") for phrase in phrases]
        self._single = distinct(np.concatenate([np.empty(0, np.int64), *[p for p in found if p.size == 1]]))
        self._phrases = [p for p in found if p.size > 1]

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _Banned(self._single, self._phrases, self._until)


class _Banned(Running):
    def __init__(self, single: Array, phrases: list[Array], until: int | None) -> None:
        self.single, self.phrases, self.until = single, phrases, until
        self.largest = max([-1, *single.tolist(), *(int(phrase.max()) for phrase in phrases)])

    def limit(self, live: Live, plan: Plan) -> None:
        if self.largest >= plan.width:
            raise BEYOND(f"token {self.largest} is banned, but scores have {plan.width} columns")
        if self.until is not None and live.t >= self.until:
            return
        rows = live.source.size
        plan.ban(np.repeat(np.arange(rows), self.single.size), np.tile(self.single, rows))
        for phrase in self.phrases:
            here = live.find_suffix(phrase[:-1])
            plan.ban(here, np.full(here.size, phrase[-1]))


class NoRepeatNgram(Constraint):
    """Forbid any n-gram to occur twice in a hypothesis.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    TypeError, ConversionError
        If `n` has an invalid value.

    Examples
    --------
    >>> import seqformats as sf
    >>> no_trigram_twice = sf.NoRepeatNgram(3)
    """

    def __init__(self, n: int) -> None:
        self._n = check_at_least(n, "n", 1)

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _NoRepeat(self._n)


class _NoRepeat(Running):
    def __init__(self, n: int) -> None:
        self.n = n

    def limit(self, live: Live, plan: Plan) -> None:
        before, context = self.n - 1, live.context
        places = context.shape[1] - before
        if places <= 0:
            return
        same = np.ones((live.source.size, places), bool)
        for j in range(before):
            same &= context[:, j : j + places] == context[:, places + j : places + j + 1]
        rows, at = np.nonzero(same)
        plan.ban(rows, context[rows, at + before])


class RepetitionPenalty(Constraint):
    """Make tokens that a hypothesis already contains less likely.

    Parameters
    ----------
    penalty : float
        The log-probability is multiplied by it (divided, where it is above 0); above 0, 1 changes nothing.

    Raises
    ------
    TypeError, ConversionError
        If `penalty` has an invalid value.

    References
    ----------
    N. S. Keskar et al. (2019), arXiv 1909.05858.

    Examples
    --------
    >>> import seqformats as sf
    >>> penalty = sf.RepetitionPenalty(1.2)
    """

    def __init__(self, penalty: float) -> None:
        self._penalty = number(penalty, "penalty")
        if not 1e-30 < self._penalty < 1e30:
            raise RANGE(f"penalty must be above 0, and between 1e-30 and 1e30, not {quote(penalty)}")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """Prepare the constraint for one search."""
        return _Repetition(self._penalty)


class _Repetition(Running):
    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def limit(self, live: Live, plan: Plan) -> None:
        ordered = np.sort(live.context, axis=1)
        rows, at = np.nonzero(np.diff(ordered, axis=1, prepend=-1))
        plan.change(rows, ordered[rows, at], factor=self.penalty)
