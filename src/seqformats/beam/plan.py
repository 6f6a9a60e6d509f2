"""Limits on what may follow each row, as the kernels read them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, is_among
from ..errors import BEYOND, COUNTS, RANGE, SHAPE
from ..formats.structure import integers
from .rows import Limits

MAX_FACTOR = 1e30
"""The largest factor of a log-probability."""
FREE = {"factor": 0.0, "divisor": MAX_FACTOR}
"""How a log-probability becomes nothing, but for -inf, which stays what it is."""


class Edit(NamedTuple):
    """Changes of log-probabilities; see `Plan.change`."""

    rows: Array
    tokens: Array
    factors: Array
    addends: Array
    divisors: Array

    def where(self, which: Array) -> Edit:
        """Some of them."""
        return Edit(*[part[which] for part in self])


class Plan:
    """Limits on what follows each row: the tokens that alone are allowed, and those whose log-probability changes.

    A `Running` constraint says here, at each step, what it forbids; all that is said holds together.

    Attributes
    ----------
    rows, width : int
        How many live hypotheses there are, and how many tokens.

    See Also
    --------
    Running : For an example.

    Notes
    -----
    Arrays are read as int64.  What is given to the methods is checked: `StructureError` for other shapes, rows that
    there are not, and what else cannot be, `TypeError` for what are no integers, `ConversionError` for numbers that
    cannot be.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> plan = sf.beam.Plan(rows=2, width=5)
    >>> plan.allow([0, -1], [2, -1], [1, 3])  # behind row 0 come 1 and 3 alone, behind row 1 anything
    >>> plan.ban([1, 1], [0, 4])
    >>> plan.change([0], [3], addend=-0.5)
    """

    addends: Array
    factors: Array
    divisors: Array
    allowed_from: Array
    allowed_to: Array
    allowed: Array
    edited_at: Array
    edited: Array
    bits: Array

    def __init__(self, rows: int, width: int) -> None:
        self.rows, self.width = rows, width
        self.allowed_from = self.allowed_to = self.allowed = self.edited_at = self.edited = np.empty(0, np.int64)
        self.addends = self.factors = self.divisors = np.empty(0, np.float32)
        self.bits, self.words = self.edited, 0
        self._edits: list[Edit] = []

    def copy(self) -> Plan:
        """Another plan with the same limits so far."""
        twin = copy.copy(self)
        twin._edits = list(self._edits)
        return twin

    def allow(self, begin: Array, end: Array, tokens: Array) -> None:
        """Row r goes on with ``tokens[begin[r]:end[r]]`` only, which rise; with anything where ``begin[r]`` is -1."""
        begin, end, tokens = _numbers(begin, "begin"), _numbers(end, "end"), _numbers(tokens, "tokens")
        self._check_allowed(begin, end, tokens)
        end = np.where(begin < 0, -1, end)
        if self.allowed_from.size:
            begin, end, tokens = self._common(begin, end, tokens)
        self.allowed_from, self.allowed_to, self.allowed = begin, end, tokens

    def _check_allowed(self, begin: Array, end: Array, tokens: Array) -> None:
        """StructureError where kernels could not read these."""
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < self.width):
            wrong = tokens[(tokens < 0) | (tokens >= self.width)][0]
            raise BEYOND(f"token {wrong} is asked for, but scores have {self.width} columns")
        for name, x in (("begin", begin), ("end", end)):
            if x.shape != (self.rows,):
                raise SHAPE(f"{name} must have a number for each of {self.rows} rows, not shape {x.shape}")
        falls = np.flatnonzero(tokens[1:] <= tokens[:-1])
        wrong = (begin < -1) | ((begin >= 0) & ((end < begin) | (end > tokens.size)))
        if falls.size:
            wrong |= (begin >= 0) & (np.searchsorted(falls, end - 1) > np.searchsorted(falls, begin))
        if wrong.any():
            row = int(wrong.argmax())
            raise BEYOND(
                f"row {row} is allowed tokens {begin[row]} to {end[row]} of {tokens.size}; these must be places "
                "in them, between which tokens rise, or begin must be -1"
            )

    def _common(self, begin: Array, end: Array, tokens: Array) -> tuple[Array, Array, Array]:
        """Intersect what these allow with what was allowed before."""
        rows_before, places_before = spread(self.allowed_from, self.allowed_to)
        rows, places = spread(begin, end)
        before, now = rows_before * self.width + self.allowed[places_before], rows * self.width + tokens[places]
        in_both = is_among(before, now)
        kept = np.concatenate([before[in_both | (begin < 0)[rows_before]], now[(self.allowed_from < 0)[rows]]])
        kept.sort()
        at = np.searchsorted(kept, np.arange(self.rows + 1) * self.width)
        free = (self.allowed_from < 0) & (begin < 0)
        return np.where(free, -1, at[:-1]), np.where(free, -1, at[1:]), kept % self.width

    def change(
        self,
        rows: Array,
        tokens: Array,
        factor: float = 1.0,
        addend: float | Array = 0.0,
        divisor: float | None = None,
    ) -> None:
        """Change the log-probability of ``tokens[i]`` behind ``rows[i]``: add `addend`, then scale the sum.

        A sum of at most 0 is multiplied by `factor`; one above 0 is divided by `divisor`, or by `factor` without one.
        All addends of a token come before all factors, in whatever order they are given, and -inf stays -inf.  A token
        outside of the scores is left out.  `addend` must be below +inf; `divisor` must be above 0 and finite, as
        `factor` must be, which beside a `divisor` need only be finite.
        """
        rows, tokens = _numbers(rows, "rows"), _numbers(tokens, "tokens")
        if rows.shape != tokens.shape:
            raise COUNTS(f"rows and tokens come in pairs, but there are {rows.size} and {tokens.size}")
        if rows.size and not (rows.min() >= 0 and rows.max() < self.rows):
            wrong = rows[(rows < 0) | (rows >= self.rows)][0]
            raise BEYOND(f"row {wrong} is changed, but there are {self.rows} rows")
        inside = (tokens >= 0) & (tokens < self.width)
        factors, addends = _values(factor, "factor", inside), _values(addend, "addend", inside)
        divisors = factors if divisor is None else _values(divisor, "divisor", inside)
        if not np.isfinite(factors).all() or (divisor is None and not (factors > 0).all()):
            raise RANGE(f"factor must be {'finite' if divisor is not None else 'above 0, and finite'}")
        if divisor is not None and not ((divisors > 0) & (divisors < np.inf)).all():
            raise RANGE("divisor must be above 0, and finite")
        if not (addends < np.inf).all():
            raise RANGE("addend must not be NaN or +inf")
        self._edits.append(Edit(rows[inside], tokens[inside], factors, addends, divisors))

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

    def take(self, rows: Array) -> Plan:
        """Take the plan of these rows, which rise, before there is a mask."""
        plan = Plan(rows.size, self.width)
        if self.allowed_from.size:
            plan.allowed_from, plan.allowed_to = self.allowed_from[rows], self.allowed_to[rows]
            plan.allowed = self.allowed
        number = np.full(self.rows, -1)
        number[rows] = np.arange(rows.size)
        for edit in self._edits:
            left = edit.where(number[edit.rows] >= 0)
            plan._edits.append(left._replace(rows=number[left.rows]))
        return plan

    @classmethod
    def join(cls, plans: Sequence[tuple[Plan | None, int]], width: int) -> Plan:
        """Join several plans, each of so many rows, before there is a mask; None says nothing."""
        found = cls(sum(rows for _, rows in plans), width)
        limits, allowed, row, place = [], [found.allowed], 0, 0
        for plan, rows in plans:
            begin = end = np.full(rows, -1)
            if plan is not None:
                found._edits += [edit._replace(rows=edit.rows + row) for edit in plan._edits]
                if plan.allowed_from.size:
                    free = plan.allowed_from < 0
                    begin, end = (np.where(free, -1, x + place) for x in (plan.allowed_from, plan.allowed_to))
                    allowed.append(plan.allowed)
                    place += plan.allowed.size
            limits.append((begin, end))
            row += rows
        if len(allowed) > 1:
            found.allowed_from, found.allowed_to = map(np.concatenate, zip(*limits, strict=True))
            found.allowed = np.concatenate(allowed)
        return found

    def bans(self) -> Plan:
        """Leave out what only changes a log-probability."""
        twin = copy.copy(self)
        banned = self.addends == -np.inf
        twin.addends, twin.factors, twin.divisors, twin.edited = (
            part[banned] for part in (self.addends, self.factors, self.divisors, self.edited)
        )
        if self.edited_at.size:
            twin.edited_at = np.append(0, np.cumsum(banned))[self.edited_at]
        twin._edits = [edit.where(edit.addends == -np.inf) for edit in self._edits]
        return twin

    def apply_limits(self, row: int, token: int, value: np.float32) -> Any:
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
        value = value + self.addends[place]
        if value > 0:
            return value / self.divisors[place]
        return value * self.factors[place] if value > -np.inf else value

    def finish(self) -> Plan:
        """Put all changes into the order in which `limits` gives them."""
        if self._edits:
            rows, tokens, *edits = (np.concatenate(parts) for parts in zip(*self._edits, strict=True))
            places = rows * self.width + tokens
            order = np.argsort(places, kind="stable")
            places = places[order]
            first = np.flatnonzero(np.diff(places, prepend=-1))
            factors, addends, divisors = (part[order] for part in edits)
            with np.errstate(over="ignore", under="ignore"):
                product, quotient = (np.multiply.reduceat(part, first) for part in (factors, divisors))
            self.addends = np.add.reduceat(addends, first)
            self.factors = np.clip(product, np.float32(-MAX_FACTOR), np.float32(MAX_FACTOR))  # not infinite
            self.divisors = np.clip(quotient, np.float32(1 / MAX_FACTOR), np.float32(MAX_FACTOR))  # nor 0
            self.edited = places[first] % self.width
            self.edited_at = np.searchsorted(places[first], np.arange(self.rows + 1) * self.width).astype(np.int64)
        return self

    @property
    def limits(self) -> Limits:
        """Give the limits in the form that kernels read."""
        return Limits(
            self.addends,
            self.factors,
            self.divisors,
            self.allowed_from,
            self.allowed_to,
            self.allowed,
            self.edited_at,
            self.edited,
            self.bits,
            self.words,
        )


NO_LIMITS = Plan(0, 0).limits


def _values(x: object, what: str, inside: Array) -> Array:
    """A number, or one for each pair, as float32 for those pairs that are inside."""
    values = np.asarray(x, np.float32)
    if not values.ndim:  # mostly so
        same = np.empty(np.count_nonzero(inside), np.float32)
        same.fill(values)
        return same
    try:
        return np.broadcast_to(values, inside.shape)[inside]
    except ValueError:
        raise COUNTS(f"{what} must be a number, or one for each of {inside.size} pairs") from None


def _numbers(x: object, what: str) -> Array:
    """A private array ``(n,)`` of int64: kernels read it after it has been checked."""
    return integers(x, what)


def spread(begin: Array, end: Array) -> tuple[Array, Array]:
    """The places from each begin to its end, one after the other, and of which of them each is."""
    lengths = end - begin
    of = np.repeat(np.arange(begin.size), lengths)
    return of, np.arange(of.size) + (begin - np.cumsum(lengths) + lengths)[of]


def words_of(width: int, bits: int) -> int:
    """Count the words of so many bits that hold one bit for each token."""
    return -(-width // bits)
