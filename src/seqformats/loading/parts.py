"""A shuffled order of rows that lie in parts, each of which is read in one direction: files, shards of a stream.

The parts come in a random order, many of them at once, and runs of rows of these are mixed so that each part is spread
evenly over the time in which it is read.  A part with a known number of rows begins at a random row and ends before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import CHANGED
from .plan import random_bits, shuffle
from .rows import Rows

MAX_OPEN_PARTS, MAX_RUN_ROWS = 32, 256
"""Numbers of parts that are read at once, and of rows of one that follow one another, at most."""

Seed = tuple[int, ...]


class Segment(NamedTuple):
    """Rows of a group, from one to another."""

    group: int
    start: int
    stop: int


class Part(NamedTuple):
    """Something that is read from any of its groups on.

    ``groups``: how many rows each has; ``run``: how many rows are read at a time; ``read`` yields rows of segments.
    """

    name: str
    groups: tuple[int, ...]
    run: int
    read: Callable[[Sequence[Segment]], Iterator[Rows]]

    @property
    def rows(self) -> int:
        """Number of rows in all groups."""
        return sum(self.groups)

    def in_order(self) -> list[Segment]:
        """All rows as they lie."""
        return [Segment(group, 0, rows) for group, rows in enumerate(self.groups)]

    def in_turn(self, number: int, seed: Seed) -> list[Segment]:
        """All rows, the groups in a random order; the first begins at a random row, and its beginning comes last."""
        first, *others = shuffle(len(self.groups), *seed, number, 4).tolist()
        start = int(random_bits(1, *seed, number, 5)[0]) % max(self.groups[first], 1)
        between = [Segment(group, 0, self.groups[group]) for group in others]
        return [Segment(first, start, self.groups[first]), *between, Segment(first, 0, start)]


def skip_rows(segments: Iterable[Segment], rows: int) -> list[Segment]:
    """Return what is left of segments after so many rows."""
    left = []
    for group, start, stop in segments:
        skipped = min(rows, stop - start)
        rows -= skipped
        if start + skipped < stop:
            left.append(Segment(group, start + skipped, stop))
    return left


def from_row(pieces: Iterator[Rows], row: int) -> Iterator[Rows]:
    """Yield what is left, from one on, of rows that can only be read from their first."""
    for piece in pieces:
        if row < piece.size:
            yield piece.part(row, piece.size)
        row = max(0, row - piece.size)


def mix(parts: Sequence[Part], seed: Seed, row: int) -> Iterator[Rows]:
    """Yield the rows of parts in a random order, from a row on; the order is known before one is read."""
    order = [k for k in shuffle(len(parts), *seed, 0, 2).tolist() if parts[k].rows]
    for number, numbers in enumerate(_cut_evenly(order)):
        chosen = [parts[k] for k in numbers]
        total = sum(part.rows for part in chosen)
        if row < total:
            turns = [part.in_turn(k, seed) for part, k in zip(chosen, numbers, strict=True)]
            yield from _interleave(chosen, turns, (*seed, number, 3), row)
        row = max(0, row - total)


def _cut_evenly(order: Sequence[int]) -> Iterator[Sequence[int]]:
    """Cut an order into pieces of about the same size, each of which is read at once."""
    count = -(-len(order) // MAX_OPEN_PARTS)
    for k in range(count):
        yield order[len(order) * k // count : len(order) * (k + 1) // count]


def _interleave(parts: Sequence[Part], turns: Sequence[list[Segment]], seed: Seed, row: int) -> Iterator[Rows]:
    """Runs of rows of all parts, each part spread evenly, from a row on."""
    which, sizes = _runs(parts, seed)
    ends = np.cumsum(sizes)
    begin = int(np.searchsorted(ends, row, side="right"))
    passed = np.bincount(which[:begin], sizes[:begin], len(parts)).astype(np.int64)
    over = row - int(ends[begin] - sizes[begin])  # of a run that has been given in part
    passed[which[begin]] += over
    sizes[begin] -= over
    left = [part.rows - done for part, done in zip(parts, passed.tolist(), strict=True)]
    readers: dict[int, _Reader] = {}
    try:
        for k, size in zip(which[begin:].tolist(), sizes[begin:].tolist(), strict=True):
            if k not in readers:
                readers[k] = _Reader(parts[k].name, parts[k].read(skip_rows(turns[k], int(passed[k]))))
            yield from readers[k].take(size)
            left[k] -= size
            if not left[k]:
                readers.pop(k).close()
    finally:
        for reader in readers.values():
            reader.close()


def _runs(parts: Sequence[Part], seed: Seed) -> tuple[Array, Array]:
    """Tell of which part each run is, and how many rows it has."""
    counts = np.array([-(-part.rows // part.run) for part in parts])
    which = np.repeat(np.arange(len(parts)), counts)
    number = np.concatenate([np.arange(count) for count in counts])
    chance = random_bits(which.size, *seed) / 2.0**64
    order = np.argsort((number + chance) / counts[which], kind="stable")
    runs, rows = (np.array(each) for each in zip(*((part.run, part.rows) for part in parts), strict=True))
    sizes = np.minimum(runs[which], rows[which] - number * runs[which])
    return which[order], sizes[order]


class _Reader:
    """The rows of a part, as many as are asked for."""

    def __init__(self, name: str, pieces: Iterator[Rows]) -> None:
        self.name, self.pieces = name, pieces
        self.rest: Rows | None = None

    def take(self, size: int) -> Iterator[Rows]:
        """Yield so many rows; StructureError where there are fewer."""
        while size:
            piece = self.rest or next(self.pieces, None)
            if piece is None:
                raise CHANGED(f"{self.name} has fewer rows than it had when it was opened")
            fits = min(size, piece.size)
            self.rest = piece.part(fits, piece.size) if fits < piece.size else None
            size -= fits
            yield piece.part(0, fits)

    def close(self) -> None:
        """Read no more."""
        close = getattr(self.pieces, "close", None)
        if close is not None:
            close()


def mixed_streams(streams: Sequence[Callable[[], Iterator[Rows]]], seed: Seed) -> Iterator[Rows]:
    """Yield the rows of streams in a random order, of whose numbers of rows nobody knows: a run of each in turn."""
    order = shuffle(len(streams), *seed, 0, 2).tolist()
    for number, numbers in enumerate(_cut_evenly(order)):
        running = [_cut(streams[k]()) for k in numbers]
        for turn in itertools.count():
            if not running:
                break
            pieces = [(one, next(one, None)) for one in (running[k] for k in _mix(len(running), seed, turn, number))]
            running = [one for one, piece in pieces if piece is not None]
            yield from (piece for _, piece in pieces if piece is not None)


def _cut(pieces: Iterator[Rows]) -> Iterator[Rows]:
    """Cut rows into runs."""
    for piece in pieces:
        for start in range(0, piece.size, MAX_RUN_ROWS):
            yield piece.part(start, min(start + MAX_RUN_ROWS, piece.size))


def _mix(n: int, seed: Seed, turn: int, number: int) -> list[int]:
    numbers: list[int] = shuffle(n, *seed, turn, 6 + number).tolist()
    return numbers
