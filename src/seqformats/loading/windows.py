"""Which rows of a stream come together in a batch: windows of rows that follow one another, bucketed by length."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import LONG
from ..operations.batch import buckets
from ..operations.costs import Cost, costs_of
from .plan import shuffled
from .rows import Fit, Rows, joined, measured

BATCHES, FEW, MANY = 100, 4, 1 << 16
"""About how many batches a window has where nothing else is said, and without an order; how many rows at most."""


class Plan(NamedTuple):
    """How batches are made.

    ``window``: how many rows come together before they are bucketed, None: as many as make `BATCHES` batches, 0: they
    stay in their order; ``step`` and ``width``: what the width of a padded batch is a multiple of, and what it is at
    least; ``seed``: what the random order begins with; ``share``: the number of this process among those that divide
    the rows, and how many these are.
    """

    limit: int
    by: Hashable = None
    padded: bool = True
    step: int = 1
    width: int | None = None
    cut: bool = False
    most: int | None = None
    window: int | None = None
    seed: tuple[int, ...] | None = None
    too_long: str = "raise"
    drop_last: bool = False
    cost: Cost | None = None
    max_cost: float | None = None
    share: tuple[int, int] = (0, 1)

    def sizes(self, lengths: Array) -> Array:
        """What the sequences take of a batch: their lengths, with the padding that each has."""
        if not self.padded:
            return lengths
        wide = lengths if self.width is None else np.full_like(lengths, self.width)
        return -(-wide // self.step) * self.step

    def over(self, sizes: Array, counts: Array | None = None) -> Array:
        """Tell which sequences of these sizes cost more than a batch may; of `counts` like it, which batches do."""
        if self.max_cost is None:
            return np.zeros(sizes.size, bool)
        costs = costs_of(sizes, self.cost)
        if counts is not None:
            costs = np.maximum.accumulate(costs) * counts if self.padded else np.cumsum(costs)
        over: Array = costs > self.max_cost
        return over


def planned(pieces: Iterator[Rows], plan: Plan) -> Iterator[tuple[Rows, Array]]:
    """The rows of one window after the other, each with the places in it of a batch."""
    fit = Fit()
    measured_ones = (measured(fit(piece), plan.by) for piece in pieces if piece.size)
    coming = _Coming(_shared((_kept(piece, plan) for piece in measured_ones), *plan.share))
    held: list[Rows] = []  # what was left of the last window
    scale, number, ended = 1, 0, False
    while not ended:
        ended = coming.fill(held, _Room(plan, scale))
        if not held:
            return
        window = joined(held)
        batches = _batches(window.lengths, plan, number)
        held, rest = [], not ended and (len(batches) > 1 or plan.window == 0)
        if rest:  # with what comes next it may become a whole one
            held = [window.chosen(batches.pop())]
        elif ended and plan.drop_last and not _whole(window.lengths[batches[-1]], plan):
            batches.pop()
        scale = 1 if batches else 2 * scale
        for k in _turn(len(batches), plan, number):
            yield window, batches[k]
        del window, batches
        number += 1


def _shared(pieces: Iterator[Rows], place: int, count: int) -> Iterator[Rows]:
    """Yield every count-th row, beginning with the one at `place`."""
    before = 0
    for piece in pieces:
        own = piece if count == 1 else piece.chosen(np.arange((place - before) % count, piece.size, count))
        before += piece.size
        if own.size:
            yield own


class _Coming:
    """The rows that come, which a window may take a part of."""

    def __init__(self, pieces: Iterator[Rows]) -> None:
        self.pieces = pieces
        self.next: Rows | None = None

    def fill(self, held: list[Rows], room: _Room) -> bool:
        """Take as many as there is room for, those that are held among them; have all come?"""
        for piece in held:
            room.take(piece)
        while room.left:
            found = self.next or next(self.pieces, None)
            self.next = None
            if found is None:
                return True
            fits = room.take(found)
            held.append(found.part(0, fits))
            if fits < found.size:
                self.next = found.part(fits, found.size)
        return False


class _Room:
    """What a window has room for."""

    def __init__(self, plan: Plan, scale: int) -> None:
        batches = (FEW if plan.window == 0 else BATCHES) * scale
        self.rows = plan.window or min(MANY * scale, batches * (plan.most or MANY))
        self.items = None if plan.window else batches * plan.limit
        self.left = True

    def take(self, piece: Rows) -> int:
        """How many rows of these come in."""
        fits = min(piece.size, self.rows)
        if self.items is not None:
            weights = np.cumsum(np.maximum(piece.lengths[:fits], 1))
            fits = min(fits, 1 + int(np.searchsorted(weights, self.items)))
            self.items -= int(weights[fits - 1]) if fits else 0
        self.rows -= fits
        self.left = self.rows > 0 and (self.items is None or self.items > 0)
        return fits


def _kept(piece: Rows, plan: Plan) -> Rows:
    """Without the rows that no batch has room for; StructureError for one, unless they are dropped."""
    lengths = piece.lengths
    long = plan.sizes(lengths) > plan.limit
    dear = plan.over(plan.sizes(lengths)) & ~long
    long |= dear
    if plan.width is not None and not plan.cut:
        long |= lengths > plan.width
    if not long.any():
        return piece
    if plan.too_long == "drop":
        return piece.chosen(np.flatnonzero(~long))
    i = int(long.argmax())
    row, length = piece.part(i, i + 1), int(lengths[i])
    size = int(plan.sizes(row.lengths)[0])
    if dear[i]:
        raise LONG(
            f"{row.where(row.by)} has {length} items, which cost more than max_cost={plan.max_cost}; "
            'too_long="drop" leaves such rows out'
        )
    over = f"max_items={plan.limit}" if size > plan.limit else f"width={plan.width}, without truncate=True"
    padded = f", padded to {size}" if size > max(length, plan.limit) else ""
    raise LONG(
        f'{row.where(row.by)} has {length} items{padded}, more than {over}; too_long="drop" leaves such rows out'
    )


def _batches(lengths: Any, plan: Plan, number: int) -> list[Array]:
    """The places of the rows of each batch of a window."""
    sizes = plan.sizes(lengths)
    if plan.window == 0:
        ends = _ends_in_order(sizes, plan)
        return [np.arange(a, b) for a, b in pairwise([0, *ends])]
    order = np.arange(sizes.size) if plan.seed is None else shuffled(sizes.size, *plan.seed, number, 0)
    limits = (plan.limit, plan.padded)
    made = buckets(sizes[order], *limits, max_sequences=plan.most, cost=plan.cost, max_cost=plan.max_cost)
    places, ends = order[made.data], made.offsets.tolist()
    return [places[a:b] for a, b in pairwise(ends)]


def _ends_in_order(sizes: Array, plan: Plan) -> list[int]:
    """Where batches of rows in their order end, each as large as it can be."""
    ends: list[int] = []
    at, look = 0, 64
    most = plan.most or sizes.size
    while at < sizes.size:
        part = sizes[at : at + min(look, most + 1)]
        taken = np.maximum.accumulate(part) * np.arange(1, part.size + 1) if plan.padded else np.cumsum(part)
        over = np.flatnonzero((taken > plan.limit) | plan.over(part, np.arange(1, part.size + 1)))
        fits = int(over[0]) if over.size else part.size
        if fits == part.size and fits < min(most, sizes.size - at):
            look *= 2  # the batch goes on
            continue
        at += min(fits, most)
        ends.append(at)
    return ends


def _whole(lengths: Array, plan: Plan) -> bool:
    """Would one more sequence like the shortest of these be too much?"""
    sizes = plan.sizes(lengths)
    if plan.most is not None and sizes.size >= plan.most:
        return True
    more = np.append(np.sort(sizes)[::-1], sizes.min())
    if plan.over(more, np.arange(1, more.size + 1))[-1]:
        return True
    if plan.padded:
        return bool(sizes.max() * (sizes.size + 1) > plan.limit)
    return bool(sizes.sum() + sizes.min() > plan.limit)


def _turn(n: int, plan: Plan, number: int) -> Array:
    """The order in which the batches of a window come."""
    return np.arange(n) if plan.seed is None or plan.window == 0 else shuffled(n, *plan.seed, number, 1)
