"""What may follow what: ready-made limits on the tokens of a hypothesis, which can be combined."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Array, frozen, is_array, shape_of, to_host
from ..converters.convert import convert
from ..converters.layouts import at_least
from ..errors import ConversionError, StructureError, said
from ..formats import Encoding, List, LoD, Ragged
from ..formats.structure import integers, whole
from ..limits import OBJECT, check_room, remember
from .rules import number


class Beams:
    """The live rows on the host.

    t : how many tokens each has
    source, parents, tokens, nodes : ``(rows,)`` int64: its source, its row in the step before, its last token (the
        start at first), and the node of that
    there : the first three beside the memories, once they were brought there; see `candidates.Sent`
    """

    def __init__(
        self, t: int, source: Array, parents: Array, tokens: Array, nodes: Array, tree: Any, limit: Array
    ) -> None:
        self.t, self.source, self.parents, self.tokens, self.nodes = t, source, parents, tokens, nodes
        self.there: Any = None
        self._tree, self._limit = tree, limit

    @property
    def left(self) -> Array:
        """How many tokens each row may still have, ``(rows,)``."""
        left: Array = self._limit[self.source] - self.t
        return left

    @cached_property
    def prefixes(self) -> Array:
        """All tokens so far, ``(rows, t)``, the start excluded."""
        tokens: Array = self._tree.traced(self.nodes, np.arange(self.nodes.size + 1) * self.t)[0]
        return frozen(tokens.reshape(self.nodes.size, self.t))


class Plan:
    """What may follow each row: the tokens that alone are allowed, and those whose log-probability changes."""

    factors: Array
    addends: Array
    allowed_from: Array
    allowed_to: Array
    allowed: Array
    edited_at: Array
    edited: Array

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        self.allowed_from = self.allowed_to = self.allowed = self.edited_at = self.edited = np.empty(0, np.int64)
        self.factors = self.addends = np.empty(0, np.float32)
        self._edits: list[tuple[Array, Array, Array, Array]] = []

    def copy(self) -> Plan:
        """Another plan with the same limits so far."""
        twin = copy.copy(self)
        twin._edits = list(self._edits)
        return twin

    def allow(self, begin: Array, end: Array, tokens: Array) -> None:
        """Row r goes on with ``tokens[begin[r]:end[r]]`` only, which rise; with anything where ``begin[r]`` is -1."""
        if tokens.size and tokens.max() >= self.width:
            raise StructureError(f"token {tokens.max()} is asked for, but scores have {self.width} columns")
        if self.allowed_from.size:
            begin, end, tokens = self._common(begin, end, tokens)
        self.allowed_from, self.allowed_to, self.allowed = begin, end, tokens

    def _common(self, begin: Array, end: Array, tokens: Array) -> tuple[Array, Array, Array]:
        """What these allow and those before."""
        rows_before, places_before = _spread(self.allowed_from, self.allowed_to)
        rows, places = _spread(begin, end)
        before, now = rows_before * self.width + self.allowed[places_before], rows * self.width + tokens[places]
        in_both = np.isin(before, now, assume_unique=True)
        kept = np.concatenate([before[in_both | (begin < 0)[rows_before]], now[(self.allowed_from < 0)[rows]]])
        kept.sort()
        at = np.searchsorted(kept, np.arange(self.rows + 1) * self.width)
        free = (self.allowed_from < 0) & (begin < 0)
        return np.where(free, -1, at[:-1]), np.where(free, -1, at[1:]), kept % self.width

    def change(self, rows: Array, tokens: Array, factor: Any = 1.0, addend: Any = 0.0) -> None:
        """The log-probability of ``tokens[i]`` behind ``rows[i]`` is multiplied (divided above 0) and increased."""
        inside = (tokens >= 0) & (tokens < self.width)
        rows, tokens = rows[inside], tokens[inside]
        values = [np.broadcast_to(np.asarray(v, np.float32), inside.shape)[inside] for v in (factor, addend)]
        self._edits.append((rows, tokens, values[0], values[1]))

    def ban(self, rows: Array, tokens: Array) -> None:
        """``tokens[i]`` does not follow ``rows[i]``."""
        self.change(rows, tokens, addend=-np.inf)

    def bans(self) -> Plan:
        """The same without what only changes a log-probability."""
        twin = copy.copy(self)
        banned = self.addends == -np.inf
        twin.factors, twin.addends, twin.edited = self.factors[banned], self.addends[banned], self.edited[banned]
        if self.edited_at.size:
            twin.edited_at = np.append(0, np.cumsum(banned))[self.edited_at]
        twin._edits = [tuple(part[edit[3] == -np.inf] for part in edit) for edit in self._edits]
        return twin

    def limited(self, row: int, token: int, value: Any) -> Any:
        """The log-probability that a token has behind a row, where it was `value`."""
        begin = self.allowed_from[row] if self.allowed_from.size else -1
        if begin >= 0 and token not in self.allowed[begin : self.allowed_to[row]]:
            return np.float32(-np.inf)
        if not self.edited_at.size:
            return value
        begin, end = self.edited_at[row : row + 2]
        place = begin + np.searchsorted(self.edited[begin:end], token)
        if place == end or self.edited[place] != token:
            return value
        factor = self.factors[place]
        return (value / factor if value > 0 else value * factor) + self.addends[place]

    def done(self) -> Plan:
        """In the form that kernels read."""
        if self._edits:
            rows, tokens, factors, addends = (np.concatenate(parts) for parts in zip(*self._edits, strict=True))
            places = rows * self.width + tokens
            order = np.argsort(places, kind="stable")
            places = places[order]
            first = np.flatnonzero(np.diff(places, prepend=-1))
            self.factors = np.multiply.reduceat(factors[order], first)
            self.addends = np.add.reduceat(addends[order], first)
            self.edited = places[first] % self.width
            self.edited_at = np.searchsorted(places[first], np.arange(self.rows + 1) * self.width).astype(np.int64)
        return self


def _spread(begin: Array, end: Array) -> tuple[Array, Array]:
    """The places from each begin to its end, one after the other, and of which of them each is."""
    lengths = end - begin
    of = np.repeat(np.arange(begin.size), lengths)
    return of, np.arange(of.size) + (begin - np.cumsum(lengths) + lengths)[of]


class Constraint:
    """A limit on hypotheses; `begin` makes what one search needs of it."""

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        """For `n` sources, of which source i ends with one of ``ends[i]``."""
        raise NotImplementedError


class Running:
    """A constraint at work in one search."""

    def limit(self, beams: Beams, plan: Plan) -> None:
        """Say in the plan what may follow."""

    def follow(self, beams: Beams) -> None:
        """The rows have become these."""


def tokens_of(values: Any, what: str) -> Array:
    """A sequence of tokens as int64; none is negative."""
    found = integers(values, what)
    if found.size and found.min() < 0:
        raise StructureError(f"{what} must not be negative, but one of them is {found.min()}")
    return found


def is_token(x: Any) -> bool:
    """Is this one number, and no sequence?"""
    return not isinstance(x, (list, tuple)) and not (is_array(x) and len(shape_of(x)))


def is_nested(given: Any) -> bool:
    """Are these sequences of tokens for each source, and not for all?"""
    if isinstance(given, LoD):
        return len(given.lod) > 1
    lists = (list, tuple)
    return isinstance(given, lists) and any(isinstance(s, lists) and not all(map(is_token, s)) for s in given)


def _each(given: Any) -> Any:
    """What holds tokens, or sequences of them, one by one; an array on the host."""
    if is_array(given):
        given = to_host(given)
        if given.ndim < 1:
            raise TypeError("tokens come in sequences, not as a single number")
        check_room(given.shape[0], OBJECT, "sequences of tokens")
    return given


def token_lists(given: Any, what: str) -> list[Array]:
    """Sequences of tokens, from a list of lists, an encoding, ..."""
    if isinstance(given, Encoding):
        given = convert(given, Ragged if isinstance(given, LoD) else List)
        given = convert(given, List).items
    given = _each(given)
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{what} must be sequences of tokens, not {type(given).__name__}")
    return [tokens_of(x, what) for x in given]


class Trie:
    """Sequences of tokens as a tree held in arrays: the children of a node are neighbours, in rising order.

    Parameters
    ----------
    sequences : lists or arrays of tokens, or an encoding of them; any length

    Node 0 is the root; node i follows its parent with ``tokens[i]``, its children are ``begin[i]`` to ``end[i]``.

    Errors: TypeError for tokens that are no integers, StructureError for negative ones.

    >>> import seqformats as sf
    >>> trie = sf.Trie([[3, 1], [3, 2], [5]])
    >>> trie.tokens, trie.begin, trie.end
    (array([-1,  3,  5,  1,  2]), array([1, 3, 5, 5, 5]), array([3, 5, 5, 5, 5]))
    """

    tokens: Array
    begin: Array
    end: Array

    def __init__(self, sequences: Any) -> None:
        found = token_lists(sequences, "sequences")
        self._build(found, np.zeros(len(found), np.int64), 1)

    @classmethod
    def _of(cls, sequences: list[Array], roots: Array, count: int) -> Trie:
        """A tree for each of `count` roots, which are the first nodes."""
        trie = cls.__new__(cls)
        trie._build(sequences, roots, count)
        return trie

    def _build(self, sequences: list[Array], node: Array, count: int) -> None:
        self._sequences = sequences
        self._ended: dict[tuple[int, ...], Trie] = {}  # the same with ends behind them
        lengths = np.array([s.size for s in sequences], np.int64)
        starts = np.cumsum(lengths) - lengths
        self._known, flat = np.unique(np.concatenate([np.empty(0, np.int64), *sequences]), return_inverse=True)
        width = max(self._known.size, 1)
        # one number for a node and a token: children of a node come one after the other, in rising order
        self._keys = np.empty(0, np.int64)
        size, depth, alive = count, 0, np.flatnonzero(lengths > 0)
        while alive.size:
            new, which = np.unique(node[alive] * width + flat[starts[alive] + depth], return_inverse=True)
            self._keys = np.append(self._keys, new)
            node = node.copy()
            node[alive] = size + which
            size += new.size
            depth += 1
            alive = alive[lengths[alive] > depth]
        parents, known = np.divmod(self._keys, width)
        self.tokens = np.concatenate([np.full(count, -1), self._known[known]])
        self.begin, self.end = (count + np.searchsorted(parents, np.arange(size), side) for side in ("left", "right"))
        self.begin[self.begin == self.end] = size
        self.end[self.begin == size] = size

    @property
    def largest(self) -> int:
        """The largest token; -1 where there is none."""
        return int(self._known[-1]) if self._known.size else -1

    def child(self, nodes: Array, tokens: Array) -> Array:
        """The child of each node with each token; -1 where there is none, or no node."""
        if not self._keys.size:
            return np.full(nodes.shape, -1)
        known = np.minimum(np.searchsorted(self._known, tokens), self._known.size - 1)
        key = nodes * self._known.size + known
        place = np.minimum(np.searchsorted(self._keys, key), self._keys.size - 1)
        there = (nodes >= 0) & (self._known[known] == tokens) & (self._keys[place] == key)
        return np.where(there, self.tokens.size - self._keys.size + place, -1)


class AllowedTokens(Constraint):
    """A hypothesis is one of the given sequences, with an end behind it; or, if it has no room, the beginning of one.

    Parameters
    ----------
    trie_or_lists : a `Trie`, or sequences of tokens, for all sources; or a `LoD` over ``[source -> sequences, sequence
        -> tokens]`` or lists of lists of lists, for each its own

    >>> import numpy as np
    >>> import seqformats as sf
    >>> found = sf.beam_search(
    ...     lambda state: (np.zeros((len(state.tokens), 9)), None), None, start=np.zeros(1, int), end=1, beam_size=2,
    ...     max_new_tokens=5, n_best=2, constraints=[sf.AllowedTokens([[3, 4], [5]])])
    >>> sorted(found.tokens.to_nested()[0])
    [[3, 4, 1], [5, 1]]
    """

    def __init__(self, trie_or_lists: Any) -> None:
        self._own: list[list[Array]] | None = None
        self._shared: list[Array] = []
        self._ended: dict[tuple[int, ...], Trie] = {}
        if isinstance(trie_or_lists, Trie):
            self._shared, self._ended = trie_or_lists._sequences, trie_or_lists._ended
            return
        each = is_nested(trie_or_lists)
        if isinstance(trie_or_lists, LoD):
            trie_or_lists = trie_or_lists.to_nested()
        if each:
            self._own = [token_lists(part, "the allowed sequences") for part in trie_or_lists]
        else:
            self._shared = token_lists(trie_or_lists, "the allowed sequences")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        if self._own is not None:
            if len(self._own) != n:
                raise StructureError(f"there are allowed sequences for {len(self._own)} sources, but {n} sources")
        elif all(np.array_equal(ends[0], other) for other in ends):
            key = tuple(ends[0].tolist()) if n else ()
            trie = self._ended.get(key)
            if trie is None:
                trie = remember(self._ended, key, _with_ends([self._shared], [np.array(key, np.int64)]))
            return _Allowed(trie, np.zeros(n, np.int64))
        return _Allowed(_with_ends(self._own or [self._shared] * n, ends), np.arange(n))


def _with_ends(parts: Sequence[list[Array]], ends: Sequence[Array]) -> Trie:
    """A tree for each part, whose sequences go on with each of its ends."""
    roots: list[int] = []
    found: list[Array] = []
    for root, (part, last) in enumerate(zip(parts, ends, strict=True)):
        for sequence in part:
            done = not last.size or (sequence.size and sequence[-1] in last)
            more = [sequence] if done else [np.append(sequence, end) for end in last]
            found += more
            roots += [root] * len(more)
    return Trie._of(found, np.array(roots, np.int64), len(parts))


class _Allowed(Running):
    def __init__(self, trie: Trie, roots: Array) -> None:
        self.trie, self.nodes = trie, roots

    def limit(self, beams: Beams, plan: Plan) -> None:
        if self.trie.largest >= plan.width:
            raise StructureError(f"token {self.trie.largest} is allowed, but scores have {plan.width} columns")
        inside = self.nodes >= 0
        begin, end = (np.where(inside, array[self.nodes], 0) for array in (self.trie.begin, self.trie.end))
        places = _spread(begin, end)[1]
        ends = np.cumsum(end - begin)
        plan.allow(ends - (end - begin), ends, self.trie.tokens[places])

    def follow(self, beams: Beams) -> None:
        self.nodes = self.trie.child(self.nodes[beams.parents], beams.tokens)


class ForcedPrefix(Constraint):
    """Hypotheses begin with given tokens.

    Parameters
    ----------
    tokens : a list of tokens for all sources, or one for each (lists of lists, an encoding); any may be empty

    >>> import seqformats as sf
    >>> prefix = sf.ForcedPrefix([[4, 2], []])  # of two sources only the first is forced
    """

    def __init__(self, tokens: Any) -> None:
        self._own: list[Array] | None = None
        self._shared: Array = np.empty(0, np.int64)
        if is_array(tokens) or (isinstance(tokens, (list, tuple)) and all(map(is_token, tokens))):
            self._shared = tokens_of(tokens, "the forced prefix")
        else:
            self._own = token_lists(tokens, "the forced prefix")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        own = [self._shared] * n if self._own is None else self._own
        if len(own) != n:
            raise StructureError(f"there are forced prefixes for {len(own)} sources, but {n} sources")
        return _Forced(own)


class _Forced(Running):
    def __init__(self, prefixes: list[Array]) -> None:
        self.lengths = np.array([p.size for p in prefixes], np.int64)
        self.table = np.full((len(prefixes), max([0, *self.lengths.tolist()])), -1)
        for row, prefix in zip(self.table, prefixes, strict=True):
            row[: prefix.size] = prefix

    def limit(self, beams: Beams, plan: Plan) -> None:
        forced = self.lengths[beams.source] > beams.t
        if forced.any():
            rows = np.flatnonzero(forced)
            begin, end = np.full(forced.size, -1), np.full(forced.size, -1)
            begin[rows], end[rows] = np.arange(rows.size), np.arange(rows.size) + 1
            plan.allow(begin, end, self.table[beams.source[rows], beams.t])


class ForcedTokens(Constraint):
    """At given places a hypothesis has given tokens, if it is that long.

    Parameters
    ----------
    tokens : a dict from the place, 0 for the first generated token, to the token

    >>> import seqformats as sf
    >>> forced = sf.ForcedTokens({0: 250004})  # the language comes first
    """

    def __init__(self, tokens: Mapping[int, int]) -> None:
        if not isinstance(tokens, Mapping):
            raise TypeError(f"the forced tokens must be a dict from places to tokens, not {type(tokens).__name__}")
        self._at = {at_least(t, "a place", 0): at_least(token, "a token", 0) for t, token in tokens.items()}

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        return _ForcedAt(self._at)


class _ForcedAt(Running):
    def __init__(self, at: dict[int, int]) -> None:
        self.at = at

    def limit(self, beams: Beams, plan: Plan) -> None:
        if beams.t in self.at:
            rows = beams.source.size
            plan.allow(np.zeros(rows, np.int64), np.ones(rows, np.int64), np.array([self.at[beams.t]]))


class BannedTokens(Constraint):
    """Tokens, or phrases of several, that no hypothesis has.

    Parameters
    ----------
    tokens : a token, or a list of tokens and of phrases (lists of tokens)

    >>> import seqformats as sf
    >>> banned = sf.BannedTokens([0, 1, [7, 8]])  # 7 may come, and 8, but not 8 behind 7
    """

    def __init__(self, tokens: Any) -> None:
        if isinstance(tokens, Encoding):
            tokens = token_lists(tokens, "the banned tokens")
        if is_token(tokens):
            tokens = [tokens]
        phrases = [[x] if is_token(x) else list(x) for x in _each(tokens)]
        if any(not phrase for phrase in phrases):
            raise StructureError("a banned phrase has no token")
        found = [tokens_of([whole(x, "a banned token") for x in phrase], "the banned tokens") for phrase in phrases]
        self._single = np.unique(np.concatenate([np.empty(0, np.int64), *[p for p in found if p.size == 1]]))
        self._phrases = [p for p in found if p.size > 1]

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        return _Banned(self._single, self._phrases)


class _Banned(Running):
    def __init__(self, single: Array, phrases: list[Array]) -> None:
        self.single, self.phrases = single, phrases
        self.largest = max([-1, *single.tolist(), *(int(phrase.max()) for phrase in phrases)])

    def limit(self, beams: Beams, plan: Plan) -> None:
        if self.largest >= plan.width:
            raise StructureError(f"token {self.largest} is banned, but scores have {plan.width} columns")
        rows = beams.source.size
        plan.ban(np.repeat(np.arange(rows), self.single.size), np.tile(self.single, rows))
        for phrase in self.phrases:
            size = phrase.size - 1
            if beams.t >= size:
                here = np.flatnonzero((beams.prefixes[:, beams.t - size :] == phrase[:-1]).all(1))
                plan.ban(here, np.full(here.size, phrase[-1]))


class NoRepeatNgram(Constraint):
    """No n tokens in a row come twice in a hypothesis.

    Parameters
    ----------
    n : at least 1

    >>> import seqformats as sf
    >>> no_trigram_twice = sf.NoRepeatNgram(3)
    """

    def __init__(self, n: int) -> None:
        self._n = at_least(n, "n", 1)

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        return _NoRepeat(self._n)


class _NoRepeat(Running):
    def __init__(self, n: int) -> None:
        self.n = n

    def limit(self, beams: Beams, plan: Plan) -> None:
        before = self.n - 1
        if beams.t <= before:
            return
        prefixes, places = beams.prefixes, beams.t - before
        same = np.ones((beams.source.size, places), bool)
        for j in range(before):
            same &= prefixes[:, j : j + places] == prefixes[:, places + j : places + j + 1]
        rows, at = np.nonzero(same)
        plan.ban(rows, prefixes[rows, at + before])


class RepetitionPenalty(Constraint):
    """Tokens that a hypothesis has already become less likely (Keskar et al. 2019, arXiv 1909.05858).

    Parameters
    ----------
    penalty : the log-probability is multiplied by it (divided, where it is above 0); above 0, 1 changes nothing

    >>> import seqformats as sf
    >>> penalty = sf.RepetitionPenalty(1.2)
    """

    def __init__(self, penalty: float) -> None:
        self._penalty = number(penalty, "penalty")
        if not 1e-30 < self._penalty < 1e30:
            raise ConversionError(f"penalty must be above 0, and between 1e-30 and 1e30, not {said(penalty)}")

    def begin(self, n: int, ends: Sequence[Array]) -> Running:
        return _Repetition(self._penalty)


class _Repetition(Running):
    def __init__(self, penalty: float) -> None:
        self.penalty = penalty

    def limit(self, beams: Beams, plan: Plan) -> None:
        ordered = np.sort(beams.prefixes, axis=1)
        rows, at = np.nonzero(np.diff(ordered, axis=1, prepend=-1))
        plan.change(rows, ordered[rows, at], factor=self.penalty)


class DiverseGroups(Constraint):
    """Several beams for each source, each avoiding what those before it have just chosen (Vijayakumar et al. 2018).

    Parameters
    ----------
    groups : how many; every beam size must be a multiple of it
    penalty : what a token loses for each time that it was chosen, at least 0

    Each group is a beam of its own; the hypotheses of all are put together at the end.  Source: A. K. Vijayakumar et
    al., "Diverse Beam Search", arXiv 1610.02424, with Hamming diversity.

    >>> import seqformats as sf
    >>> diverse = sf.DiverseGroups(groups=2, penalty=0.5)
    """

    def __init__(self, groups: int, penalty: float) -> None:
        self.groups = at_least(groups, "groups", 1)
        self.penalty = number(penalty, "penalty")
        if not 0 <= self.penalty < 1e30:
            raise ConversionError(f"penalty must be at least 0, and below 1e30, not {said(penalty)}")


def ends_of(given: Any, n: int) -> tuple[list[Array], Array, Array]:
    """The tokens that end a hypothesis of each source; also as offsets and tokens."""
    if isinstance(given, Encoding):
        found = token_lists(given, "end")
        if len(found) != n:
            raise StructureError(f"end has the ids of {len(found)} sources, but there are {n} sources")
    elif is_token(given):
        found = [np.array([at_least(to_host(given).item() if is_array(given) else given, "end", 0)])] * n
    else:
        found = [tokens_of(given, "end")] * n
    found = [np.unique(e) for e in found]
    offsets = np.cumsum([0, *[e.size for e in found]]).astype(np.int64)
    return found, offsets, np.concatenate([np.empty(0, np.int64), *found])
