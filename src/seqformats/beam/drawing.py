"""Draws of one search: tokens by their probabilities, or the best candidates with noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, Library, to_host
from ..errors import RANGE
from ..launch.kernel import Work, kernel
from . import candidates
from .candidates import Query
from .hypotheses import Live
from .rows import Candidates, Drawn, Draws, Room, Scores, Warp

Best = Callable[[Query], Candidates]
"""The best candidates of each beam."""

_NO_DRAWS, _NOTHING = np.empty(0, np.int64), np.empty(0, np.float32)
_NO_ROOM = Room._make([*[_NOTHING] * 5, _NO_DRAWS, _NOTHING, np.empty(0, np.float64)])
_AS_IT_IS = [1, 1, -np.inf, 1]  # numbers of a `Warp`


class Drawing:
    """Draws candidates in one search."""

    takes_logits = False
    """Are scores taken as the model gives them, if no hook has seen them?"""
    alone = False
    """Is there one candidate per hypothesis, with nothing to leave out?"""

    def draw(self, query: Query, live: Live, best: Best) -> Candidates:
        """The candidates of each beam."""
        raise NotImplementedError

    def follow(self, live: Live) -> None:
        """The rows have become these."""

    def add(self, other: Drawing) -> None:
        """Draw for other sources too, which come behind."""

    def keep(self, sources: Array, rows: Array) -> None:
        """Draw for the sources with these numbers, and with these rows, alone."""


class WithReplacement(Drawing):
    """Every hypothesis draws its next token by itself: one candidate each.

    The key of a candidate is the number of its draw, below zero, so that hypotheses stay in this order.
    """

    takes_logits = True
    alone = True

    def __init__(self, seeds: Array, numbers: Array | None, warp: Warp, sizes: Array) -> None:
        self._seeds = seeds & 0x7FFFFFFFFFFFFFFF
        self._numbers = np.zeros_like(seeds) if numbers is None else numbers
        self._room, self._warp, self._sizes = _Rooms(), warp, sizes
        self._new = True  # are there sources with one row for all draws?

    def draw(self, query: Query, live: Live, best: Best) -> Candidates:
        """A token for every draw; at first each source has one row, of which all of its draws are."""
        rows, width = query.x.shape
        begin, row, source, lengths = np.arange(rows + 1), np.arange(rows), live.source, live.lengths
        number = (-live.rows.keys).astype(np.int64)
        if self._new:
            first = lengths == 0
            times = np.where(first, self._sizes[source], 1)
            begin = np.append(0, np.cumsum(times))
            row = np.repeat(row, times)
            source, lengths = source[row], lengths[row]
            number = np.where(first[row], np.arange(row.size) - begin[row], number[row])
        draws = Draws(begin, self._seeds[source], number << 32 | self._numbers[source], lengths)
        drawn = to_host(self._room.draw(query, draws, self._warp).tokens)
        tokens = drawn[row.size :].astype(np.int64)
        beams = query.wanted.begin.size
        there = tokens >= 0
        if not there.all():
            for bad in row[tokens == -2].tolist():
                return Candidates(_NOTHING, _NOTHING, _NO_DRAWS, np.full(beams, -1 - bad), 0, width)
            drawn, number, row, source, tokens = (x[there] for x in (drawn[: there.size], number, row, source, tokens))
        counts = np.bincount(source, minlength=beams).astype(np.int64)
        places = max(int(counts.max(initial=0)), 1)
        at = source * places + np.arange(row.size) - np.searchsorted(source, source)
        values, keys = np.empty((2, beams * places), np.float32)
        ids = np.empty(beams * places, np.int64)
        values[at], keys[at], ids[at] = drawn[: row.size], -number, row * width + tokens
        return Candidates(values, keys, ids, counts, places, width)

    def follow(self, live: Live) -> None:
        """The rows have become these."""
        self._new = False

    def add(self, other: Drawing) -> None:
        """Draw for other sources too, which come behind."""
        assert isinstance(other, WithReplacement)
        self._new = True
        for name in ("_seeds", "_numbers", "_sizes"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))

    def keep(self, sources: Array, rows: Array) -> None:
        """Draw for the sources with these numbers, and with these rows, alone."""
        self._seeds, self._numbers, self._sizes = (x[sources] for x in (self._seeds, self._numbers, self._sizes))


class Greedy(WithReplacement):
    """The best token, the first by number of those that are worth the same."""

    def __init__(self, sizes: Array) -> None:
        if sizes.max(initial=1) > 1:
            raise RANGE(
                f'the rule "greedy" follows one hypothesis of each source: beam_size must be 1, not {sizes.max()}'
            )
        super().__init__(np.zeros_like(sizes), None, Warp(np.array(_AS_IT_IS, np.float32), 1), sizes)
        self._seeds = np.full(sizes.size, -1)  # which draw nothing


class WithoutReplacement(Drawing):
    """The best candidates with Gumbel noise, which is a hash of the tokens of a hypothesis."""

    def __init__(self, seeds: Array, numbers: Array | None, warp: Warp) -> None:
        self._hashes = _mix_bits(_mix_bits(seeds & 0xFFFFFFFF) ^ (seeds >> 32 & 0x7FFFFFFF))
        if numbers is not None:
            self._hashes = _mix_bits(self._hashes ^ _mix_bits(numbers + 1))
        self._warp = None if warp.top_k == 0 and warp.numbers.tolist() == _AS_IT_IS else warp
        self._room = _Rooms()
        self._running = np.zeros(seeds.size, np.float32)  # the log-probability of each row as it was drawn from
        self._last, self._width = (_NO_DRAWS, self._running), 1

    def draw(self, query: Query, live: Live, best: Best) -> Candidates:
        """The best with noise, and their log-probabilities without it."""
        library, x, running = query.library, query.x, query.running
        before, drawn_from = running, x
        if self._warp is not None:
            no_draws = Draws(np.zeros(x.shape[0] + 1, np.int64), _NO_DRAWS, _NO_DRAWS, _NO_DRAWS)
            before, drawn_from = self._running, self._room.draw(query, no_draws, self._warp).warped
        noisy = self._perturb(library, drawn_from, before, live.rows.keys)
        found = best(query._replace(x=noisy, running=np.zeros_like(running), form=candidates.LOG_PROBABILITIES))
        live.check(found.counts)
        used = candidates.find_used(found)
        ids = found.ids[used]
        values = np.zeros_like(found.keys)
        row = ids // found.width
        values[used] = running[row] + library.to_numpy(library.take(x.reshape(-1), ids, 0))
        if self._warp is not None:
            order = np.argsort(ids)
            added = library.to_numpy(library.take(drawn_from.reshape(-1), ids, 0))
            self._last, self._width = (ids[order], (before[row] + added)[order]), found.width
        return found._replace(values=values)

    def _perturb(self, library: Library, x: Array, running: Array, keys: Array) -> Array:
        """Log-probabilities of all candidates with noise; see the kernel."""
        rows, width = x.shape
        out = library.empty((rows, width), x.dtype, x)
        work = Work(rows, rows)
        kernel("perturb_scores").start_named(library, (x, running, keys), (out,), (self._hashes,), width, work)
        return out

    def follow(self, live: Live) -> None:
        """The rows have become these."""
        self._hashes = _mix_bits(_mix_bits(self._hashes[live.parents]) ^ (live.tokens + 1))
        if self._warp is not None:
            ids, running = self._last
            self._running = running[np.searchsorted(ids, live.parents * self._width + live.tokens)]

    def add(self, other: Drawing) -> None:
        """Draw for other sources too, which come behind."""
        assert isinstance(other, WithoutReplacement)
        self._hashes, self._running = (
            np.concatenate(pair) for pair in ((self._hashes, other._hashes), (self._running, other._running))
        )

    def keep(self, sources: Array, rows: Array) -> None:
        """Draw for the sources with these numbers, and with these rows, alone."""
        self._hashes, self._running = self._hashes[rows], self._running[rows]


class _Rooms:
    """Starts the kernel that draws, and keeps its room from step to step."""

    def __init__(self) -> None:
        self._size, self._room = (-1, -1), _NO_ROOM

    def draw(self, query: Query, draws: Draws, warp: Warp) -> Drawn:
        """Draw beside the scores; where nothing is drawn, give the log-probabilities that would be drawn from."""
        library, x, running, form = query[:4]
        rows, width = x.shape
        count, on_host = draws.seeds.size, library.kind(x) == "cpu"
        size = (2 * count,)
        tokens = np.empty(size, np.float64) if on_host else library.empty(size, library.dtype("float64"), x)
        warped = library.empty((0 if count else rows, width), x.dtype, x)
        out, args = Drawn(tokens, warped), (query.limits, draws, warp)
        if on_host:
            flat = Drawn(tokens, library.result(warped))
            given = Scores(library.operand(x), running, form), flat, self._allocate(rows, width), *args, width
            kernel("draw_tokens").run_over(given, Work(rows, rows), 4 * rows * width)
        else:
            scores, outputs, work = Scores(x, running, form), (out, _NO_ROOM), Work(rows, rows)
            kernel("draw_tokens").start_named(library, (scores,), outputs, args, width, work, query.numbers)
        return out

    def _allocate(self, rows: int, width: int) -> Room:
        """Room for so many rows: memory that nobody touches costs nothing."""
        if self._size[1] != width or self._size[0] < rows:
            self._size = rows, width
            blocks = -(-width // (16 if width <= 1024 else 128))
            size = rows * width
            floats = [np.empty(size, np.float32) for _ in range(5)]
            best, bins = np.empty(rows * blocks, np.float32), np.empty(rows * 256, np.float64)
            self._room = Room._make([*floats, np.empty(size, np.int64), best, bins])
        return self._room


def _mix_bits(x: Array) -> Array:
    """The hash of the kernel `perturb_scores`, of many."""
    x = x ^ (x >> 15)
    x = (x * 0x2C1B3C6D) & 0xFFFFFFFF
    x = x ^ (x >> 12)
    x = (x * 0x297A2D39) & 0xFFFFFFFF
    return x ^ (x >> 15)
