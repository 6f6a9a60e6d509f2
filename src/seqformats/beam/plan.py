"""What may follow each row, as the kernels read it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import StructureError
from .rows import Limits

NOTHING = 1e-30
"""A factor by which a log-probability becomes nothing; -inf, which 0 would make NaN, stays what it is."""


class Plan:
    """What may follow each row: the tokens that alone are allowed, and those whose log-probability changes."""

    factors: Array
    addends: Array
    allowed_from: Array
    allowed_to: Array
    allowed: Array
    edited_at: Array
    edited: Array
    bits: Array

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        self.allowed_from = self.allowed_to = self.allowed = self.edited_at = self.edited = np.empty(0, np.int64)
        self.factors = self.addends = np.empty(0, np.float32)
        self.bits, self.words = self.edited, 0
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
        rows_before, places_before = spread(self.allowed_from, self.allowed_to)
        rows, places = spread(begin, end)
        before, now = rows_before * self.width + self.allowed[places_before], rows * self.width + tokens[places]
        in_both = np.isin(before, now, assume_unique=True)
        kept = np.concatenate([before[in_both | (begin < 0)[rows_before]], now[(self.allowed_from < 0)[rows]]])
        kept.sort()
        at = np.searchsorted(kept, np.arange(self.rows + 1) * self.width)
        free = (self.allowed_from < 0) & (begin < 0)
        return np.where(free, -1, at[:-1]), np.where(free, -1, at[1:]), kept % self.width

    def change(self, rows: Array, tokens: Array, factor: float = 1.0, addend: float | Array = 0.0) -> None:
        """The log-probability of ``tokens[i]`` behind ``rows[i]`` is multiplied (divided above 0) and increased."""
        inside = (tokens >= 0) & (tokens < self.width)
        rows, tokens = rows[inside], tokens[inside]
        values = [np.broadcast_to(np.asarray(v, np.float32), inside.shape)[inside] for v in (factor, addend)]
        self._edits.append((rows, tokens, values[0], values[1]))

    def ban(self, rows: Array, tokens: Array) -> None:
        """``tokens[i]`` does not follow ``rows[i]``."""
        self.change(rows, tokens, addend=-np.inf)

    def mask(self, bits: Array) -> None:
        """Row r goes on with token k only where bit ``k % 32`` of ``bits[r, k // 32]``, int32, is one."""
        pairs = np.zeros((self.rows, 2 * words_of(self.width, 64)), "<i4")
        pairs[:, : bits.shape[1]] = bits
        longs = pairs.view("<i8").astype(np.int64, copy=False).reshape(-1)  # which are the same bits in their order
        self.bits = self.bits & longs if self.words else longs
        self.words = words_of(self.width, 64)

    def bans(self) -> Plan:
        """The same without what only changes a log-probability."""
        twin = copy.copy(self)
        banned = self.addends == -np.inf
        twin.factors, twin.addends, twin.edited = self.factors[banned], self.addends[banned], self.edited[banned]
        if self.edited_at.size:
            twin.edited_at = np.append(0, np.cumsum(banned))[self.edited_at]
        twin._edits = [tuple(part[edit[3] == -np.inf] for part in edit) for edit in self._edits]
        return twin

    def limited(self, row: int, token: int, value: np.float32) -> Any:
        """The log-probability that a token has behind a row, where it was `value`."""
        begin = self.allowed_from[row] if self.allowed_from.size else -1
        if begin >= 0 and token not in self.allowed[begin : self.allowed_to[row]]:
            return np.float32(-np.inf)
        if self.words and not self.bits[row * self.words + token // 64] >> token % 64 & 1:
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
        """The same with all changes in the order in which `limits` gives them."""
        if self._edits:
            rows, tokens, factors, addends = (np.concatenate(parts) for parts in zip(*self._edits, strict=True))
            places = rows * self.width + tokens
            order = np.argsort(places, kind="stable")
            places = places[order]
            first = np.flatnonzero(np.diff(places, prepend=-1))
            with np.errstate(over="ignore"):
                product = np.multiply.reduceat(factors[order], first)
            self.factors = np.clip(product, np.float32(NOTHING), np.float32(1 / NOTHING))  # neither 0 nor infinite
            self.addends = np.add.reduceat(addends[order], first)
            self.edited = places[first] % self.width
            self.edited_at = np.searchsorted(places[first], np.arange(self.rows + 1) * self.width).astype(np.int64)
        return self

    @property
    def limits(self) -> Limits:
        """In the form that kernels read."""
        return Limits(
            self.factors,
            self.addends,
            self.allowed_from,
            self.allowed_to,
            self.allowed,
            self.edited_at,
            self.edited,
            self.bits,
            self.words,
        )


NO_LIMITS = Plan(0, 0).limits


def spread(begin: Array, end: Array) -> tuple[Array, Array]:
    """The places from each begin to its end, one after the other, and of which of them each is."""
    lengths = end - begin
    of = np.repeat(np.arange(begin.size), lengths)
    return of, np.arange(of.size) + (begin - np.cumsum(lengths) + lengths)[of]


def words_of(width: int, bits: int) -> int:
    """How many words of so many bits hold one for each token."""
    return -(-width // bits)
