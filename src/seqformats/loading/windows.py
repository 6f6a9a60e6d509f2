"""Windows of rows of a stream that follow one another, bucketed by length into batches."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..errors import LONG
from ..operations.batch import buckets
from ..operations.costs import Cost, costs_of
from .plan import shuffle
from .rows import Fit, Rows, join, measure

_WINDOW_BATCHES, _BATCHES_IN_ORDER, _MAX_WINDOW_ROWS = 100, 4, 1 << 16
"""About how many batches a window has where nothing else is said, and where rows stay in their order; how many rows it
has at most."""
SECTION = 400
"""After about how many batches of a shuffled source no rows are held back, so that reading can begin there."""


class Plan(NamedTuple):
    """Options by which batches are made.

    ``window``: how many rows are bucketed together, None: those of `_WINDOW_BATCHES` batches, 0: they stay in
    their order; ``step`` and ``width``: the width of a padded batch is a multiple of the one, and at least the other;
    ``seed``: the seed of the random order; ``shuffle``: whether rows come in a random order, not only the batches of a
    window.
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
    shuffle: bool = False
    cost: Cost | None = None
    max_cost: float | None = None

    def sizes(self, lengths: Array) -> Array:
        """Measure what the sequences take of a batch: their lengths, with the padding that each has."""
        if not self.padded:
            return lengths
        wide = lengths if self.width is None else np.full_like(lengths, self.width)
        return -(-wide // self.step) * self.step

    def exceeds(self, sizes: Array, counts: Array | None = None) -> Array:
        """Tell which sequences of these sizes cost more than a batch may; of `counts` like it, which batches do."""
        if self.max_cost is None:
            return np.zeros(sizes.size, bool)
        costs = costs_of(sizes, self.cost)
        if counts is not None:
            costs = np.maximum.accumulate(costs) * counts if self.padded else np.cumsum(costs)
        return costs > self.max_cost


class Mark(NamedTuple):
    """Place to begin reading at: the numbers of the next batch, of its window, and of the first row that is read."""

    batch: int = 0
    window: int = 0
    row: int = 0


class Step(NamedTuple):
    """A batch before it is laid out: the places of its rows in a window, where to begin for it, and is it the last?"""

    window: Rows
    where: Array
    mark: Mark
    last: bool


def plan_batches(pieces: Iterator[Rows], plan: Plan, mark: Mark, fit: Fit) -> Iterator[Step]:
    """Yield batch after batch of one window after the other; `pieces` begin with the row that `mark` says."""
    coming = _Coming(pieces, plan, mark.row, fit)
    held: list[Rows] = []  # what was left of the last window
    scale, number, count, ended = 1, mark.window, mark.batch, False
    while not ended:
        if not held:
            mark = Mark(count, number, coming.row)
        elif plan.window == 0:  # rows come in their order, so those that are held can be read again
            mark = Mark(count, number, int(held[0].places[0]))
        ended = coming.fill(held, _Room(plan, scale))
        if not held:
            return
        window = join(held)
        batches = _batches(window.lengths, plan, number)
        closed = ended or (plan.shuffle and count + len(batches) - mark.batch >= SECTION)
        held, rest = [], not closed and (len(batches) > 1 or plan.window == 0)
        if rest:  # with what comes next it may become a whole one
            held = [window.take(batches.pop())]
        elif closed and plan.drop_last and not _whole(window.lengths[batches[-1]], plan):
            batches.pop()
        scale = 1 if batches else 2 * scale
        turn = _turn(len(batches), plan, number).tolist()
        for k in turn:
            yield Step(window, batches[k], mark, k == turn[-1])
        count += len(batches)
        del window, batches
        number += 1


class Deal(NamedTuple):
    """Batches that this process takes.

    A turn is `world` batches that follow one another, of which it takes the one at `rank`: those of turn `first` and of
    each `stride`-th after it.  ``uneven``: what to do with a last turn that has not a batch for every rank.
    """

    rank: int = 0
    world: int = 1
    first: int = 0
    stride: int = 1
    uneven: str = "repeat"


def deal_batches(steps: Iterator[Step], deal: Deal, count: int) -> Iterator[tuple[Rows, Mark, int]]:
    """Yield the rows of each batch of this process, where to begin for it, and its turn; `count` came before."""
    own: tuple[Rows, Mark, int] | None = None
    spare: tuple[Rows, Mark, int] | None = None  # the last batch, where it may have to be this rank's too
    for window, where, mark, last in steps:
        turn, place = divmod(count, deal.world)
        count += 1
        spare = None
        if turn >= deal.first and (turn - deal.first) % deal.stride == 0:
            if place == deal.rank:
                own = window.take(where), mark, turn
            elif last and place < deal.rank and deal.uneven == "repeat":
                spare = window.take(where), mark, turn
        del window, where  # while the next one is read
        if own is not None and (deal.uneven != "drop" or place == deal.world - 1):
            yield own
            own = None
    if spare is not None:
        yield spare


class _Coming:
    """The rows that come, which a window may take a part of."""

    def __init__(self, pieces: Iterator[Rows], plan: Plan, row: int, fit: Fit) -> None:
        self.pieces, self.plan, self.fit = pieces, plan, fit
        self.next: Rows | None = None
        self.row = row  # the place in the source of the next one
        self.read = row  # how many have been read of it

    def fill(self, held: list[Rows], room: _Room) -> bool:
        """Take as many as there is room for, those that are held among them; tell whether all have come."""
        for piece in held:
            room.take(piece)
        while room.left:
            found = self.next or self._piece()
            self.next = None
            if found is None:
                return True
            fits = room.take(found)
            taken = found.part(0, fits)
            held.append(taken)
            self.row = int(taken.places[-1]) + 1
            if fits < found.size:
                self.next = found.part(fits, found.size)
        return False

    def _piece(self) -> Rows | None:
        """The next rows that there are, with their places in the source; None where none are left."""
        for piece in self.pieces:
            if not piece.size:
                continue
            placed = piece._replace(places=np.arange(self.read, self.read + piece.size))
            self.read += piece.size
            kept = _drop_long(measure(self.fit(placed), self.plan.by), self.plan)
            if kept.size:
                return kept
        return None


class _Room:
    """Limits of a window."""

    def __init__(self, plan: Plan, scale: int) -> None:
        batches = (_BATCHES_IN_ORDER if plan.window == 0 else _WINDOW_BATCHES) * scale
        self.rows = plan.window or min(_MAX_WINDOW_ROWS * scale, batches * (plan.most or _MAX_WINDOW_ROWS))
        self.items = None if plan.window else batches * plan.limit
        self.left = True

    def take(self, piece: Rows) -> int:
        """Count the rows of these that come in."""
        fits = min(piece.size, self.rows)
        if self.items is not None:
            weights = np.cumsum(np.maximum(piece.lengths[:fits], 1))
            fits = min(fits, 1 + int(np.searchsorted(weights, self.items)))
            self.items -= int(weights[fits - 1]) if fits else 0
        self.rows -= fits
        self.left = self.rows > 0 and (self.items is None or self.items > 0)
        return fits


def _drop_long(piece: Rows, plan: Plan) -> Rows:
    """Without the rows that no batch has room for; StructureError for one, unless they are dropped."""
    lengths = piece.lengths
    long = plan.sizes(lengths) > plan.limit
    dear = plan.exceeds(plan.sizes(lengths)) & ~long
    long |= dear
    if plan.width is not None and not plan.cut:
        long |= lengths > plan.width
    if not long.any():
        return piece
    if plan.too_long == "drop":
        return piece.take(np.flatnonzero(~long))
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
    order = np.arange(sizes.size) if plan.seed is None else shuffle(sizes.size, *plan.seed, number, 0)
    limits = (plan.limit, plan.padded)
    made = buckets(sizes[order], *limits, max_sequences=plan.most, cost=plan.cost, max_cost=plan.max_cost)
    places, ends = order[made.data], made.offsets.tolist()
    return [places[a:b] for a, b in pairwise(ends)]


def _ends_in_order(sizes: Array, plan: Plan) -> list[int]:
    """Find where batches of rows in their order end, each as large as it can be."""
    ends: list[int] = []
    at, look = 0, 64
    most = plan.most or sizes.size
    while at < sizes.size:
        part = sizes[at : at + min(look, most + 1)]
        taken = np.maximum.accumulate(part) * np.arange(1, part.size + 1) if plan.padded else np.cumsum(part)
        over = np.flatnonzero((taken > plan.limit) | plan.exceeds(part, np.arange(1, part.size + 1)))
        fits = int(over[0]) if over.size else part.size
        if fits == part.size and fits < min(most, sizes.size - at):
            look *= 2  # the batch goes on
            continue
        at += min(fits, most)
        ends.append(at)
    return ends


def _whole(lengths: Array, plan: Plan) -> bool:
    """Tell whether one more sequence like the shortest of these would be too much."""
    sizes = plan.sizes(lengths)
    if plan.most is not None and sizes.size >= plan.most:
        return True
    more = np.append(np.sort(sizes)[::-1], sizes.min())
    if plan.exceeds(more, np.arange(1, more.size + 1))[-1]:
        return True
    if plan.padded:
        return bool(sizes.max() * (sizes.size + 1) > plan.limit)
    return bool(sizes.sum() + sizes.min() > plan.limit)


def _turn(n: int, plan: Plan, number: int) -> Array:
    """The order in which the batches of a window come."""
    return np.arange(n) if plan.seed is None or plan.window == 0 else shuffle(n, *plan.seed, number, 1)
