"""Sequences divided among bins, by costs and sizes: beginnings, improvements, and how little the costliest can cost.

Everything here is about sequences by falling cost, and knows them by their places in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..launch.kernel import kernel
from .costs import falling

deal_costs, merge_spreads, improve_bins = kernel("deal_costs"), kernel("merge_spreads"), kernel("improve_bins")
search_bins, group_bins = kernel("search_bins"), kernel("group_bins")
fill_bins, fit_bins = kernel("fill_bins"), kernel("fit_bins")

SMALL_TASK = 1 << 21
"""Up to so many sequences times bins, single sequences are differenced, and all may be moved."""
MAX_SEARCHED, MAX_SEARCH_STEPS = 12, 1 << 21
"""Up to how many sequences all divisions are searched, and in how many steps at most."""
EXACTLY = 1e-12
NEAR = ((SMALL_TASK >> 9, EXACTLY), (32 * SMALL_TASK, 1e-9))
"""Up to so many sequences times bins, how far over the bound a search may end, as a share of it; beyond, `FAR`."""
FAR = 1e-6
TRIES = 1 << 17
"""Number of pairs of bins that are tried to make a division better, at most; fewer where sequences are few."""
LISTED = 32
"""Number of sequences a bin, about, that may be moved where there are many: the cheapest, and as many of the others."""
ROOMS = 1 << 22
"""Up to such capacities bins are found by the room that they have left."""


class Task(NamedTuple):
    """Sequences to be divided, by falling cost.

    ``costs (n,)`` float64; ``sizes (n,)`` int64 and ``capacity``: the items of each, and the most of a bin; without
    sizes bins have room for all.  ``equal``: do the numbers of sequences differ by one at most?
    """

    costs: Array
    sizes: Array
    capacity: int
    equal: bool

    def fits(self, of: Array, bins: int) -> bool:
        """Tell whether no bin is over the capacity, nor has more sequences than it may."""
        if self.equal and np.ptp(np.bincount(of, minlength=bins)) > 1:
            return False
        return not self.sizes.size or bool(self.items(of, bins).max() <= self.capacity)

    def items(self, of: Array, bins: int) -> Array:
        """The items of each bin."""
        found = np.zeros(bins, np.int64)
        if self.sizes.size:
            np.add.at(found, of, self.sizes)
        return found


def divide(task: Task, bins: int) -> tuple[Array | None, float]:
    """Return the bin of each sequence, None where no way was found, and what the costliest bin costs at least."""
    n = task.costs.size
    if not n:
        return np.zeros(0, np.int64), 0.0
    few = n * bins <= SMALL_TASK
    bound = bound_cost(task, bins)
    enough = bound * (1 + next((share for size, share in NEAR if n * bins <= size), FAR))
    best: tuple[float, Array] | None = None
    for of in _beginnings(task, bins, few):
        if not task.fits(of, bins):
            continue
        if n >= bins:
            _fill_empty(of, bins)
        if best is None or best[0] > enough:
            load = _improve(task, bins, of, enough, few)
        else:
            load = float(np.bincount(of, task.costs, bins).max())
        if best is None or load < best[0]:
            best = load, of
        if best[0] <= (bound * (1 + EXACTLY) if few else enough):
            break
    if n <= MAX_SEARCHED and (best is None or best[0] > enough):
        best = _search(task, bins, best, enough)
    return (None if best is None else best[1]), bound


def bound_cost(task: Task, bins: int) -> float:
    """Bound the costliest bin from below by the mean; and of the k * bins + 1 costliest sequences k + 1 share a bin.

    With equal counts there are others beside the costliest sequence, at least the cheapest.
    """
    costs = task.costs
    n = costs.size
    total = float(costs.sum())
    whole = total < 2.0**53 and bool((costs == np.floor(costs)).all())
    found = float(np.ceil(total / bins)) if whole else total / bins
    if task.equal and n >= bins:
        found = max(found, float(costs[0] + costs[n - n // bins + 1 :].sum()))
    for k in range(-(-n // bins)):
        shared = float(costs[k * bins - k : k * bins + 1].sum())
        found = max(found, shared)
        if k > 64 and shared < found / 2:
            break
    return found


# --- beginnings ------------------------------------------------------------------------------------------------------


def _beginnings(task: Task, bins: int, few: bool) -> Iterator[Array]:
    """Divisions to begin with, which may break the rules; the next one is made when it is asked for."""
    n = task.costs.size
    if not task.equal or task.sizes.size:
        of = _deal(task, bins)
        if of is not None:
            yield of
    if task.equal and not few:
        yield _rounds(task.costs, bins)
    if few and not task.equal:
        yield merge(task.costs, bins, 1)
    yield merge(task.costs, bins, min(bins, n))
    if task.sizes.size and not task.equal:
        order = falling(task.sizes)
        packed, count = fit(task.sizes[order], task.capacity)
        if count <= bins:
            of = np.empty(n, np.int64)
            of[order] = packed
            yield of


def _deal(task: Task, bins: int) -> Array | None:
    """Each sequence to the bin that costs least so far and has room; None where one finds no room.

    Sequences that cost nothing come last, and go to the bins with the fewest.
    """
    costs, n = task.costs, task.costs.size
    most = -(-n // bins) if task.equal else n
    room, left = np.full(bins, -float(task.capacity)), np.full(bins, most)
    paid = int(np.searchsorted(-costs, 0.0))
    if not task.sizes.size:
        entries = _Bundles(paid, bins)
        of = _deal_out(entries.sums(costs[:paid]), task.sizes, np.zeros(bins), room, left)
        of = None if of is None else entries.each(of)
    else:
        of = _deal_out(costs[:paid], task.sizes[:paid], np.zeros(bins), room, left)
    if of is None or paid == n:
        return of
    counts = np.bincount(of, minlength=bins).astype(np.float64)
    rest = _deal_out(np.ones(n - paid), task.sizes[paid:], counts, room, left)
    return None if rest is None else np.concatenate([of, rest])


def _deal_out(costs: Array, sizes: Array, loads: Array, room: Array, left: Array) -> Array | None:
    of, bins = np.empty(costs.size, np.int64), loads.size
    heaps = np.empty(2 * bins, np.int64)
    heaps[:bins] = np.argsort(loads, kind="stable")
    return of if deal_costs.run(costs, sizes, loads, room, left, heaps, of) else None


class _Bundles:
    """Entries for many sequences: the first and last ones, and bundles of those between.

    As many rows as there are bundles, cut from what lies between, are laid on each other to and fro, so that all
    bundles cost about the same.
    """

    def __init__(self, n: int, bins: int) -> None:
        head, rows, tail = 64 * bins, 64 * bins, 32 * bins
        self.times = 0 if n < 2 * (head + rows + tail) else (n - head - tail) // rows
        self.head, self.rows = head, rows

    def sums(self, costs: Array) -> Array:
        """The costs of the entries."""
        if not self.times:
            return costs
        between = costs[self.head :][: self.times * self.rows].reshape(self.times, self.rows)
        bundles = between[::2].sum(0) + between[1::2].sum(0)[::-1]
        return np.concatenate([costs[: self.head], bundles, costs[self.head + between.size :]])

    def each(self, of: Array) -> Array:
        """The bin of each sequence, from those of the entries."""
        if not self.times:
            return of
        head, bundles, tail = np.split(of, [self.head, self.head + self.rows])
        between = np.empty((self.times, self.rows), np.int64)
        between[::2], between[1::2] = bundles, bundles[::-1]
        return np.concatenate([head, between.reshape(-1), tail])


def _rounds(costs: Array, bins: int) -> Array:
    """One of each run of as many entries as bins to each bin, the costliest to the one that costs least so far."""
    entries = _Bundles(costs.size, bins)
    sums = entries.sums(costs)
    of, loads = np.empty(sums.size, np.int64), np.zeros(bins)
    for begin in range(0, sums.size, bins):
        run = sums[begin : begin + bins]
        takers = np.argsort(loads, kind="stable")[: run.size]
        of[begin : begin + bins] = takers
        loads[takers] += run
    return entries.each(of)


def merge(costs: Array, bins: int, each: int) -> Array:
    """The largest differencing method, beginning with `each` sequences in a solution, 1 or as many as bins."""
    n, states = costs.size, -(-costs.size // each)
    of = np.empty(n, np.int64)
    values = np.empty((states + 1) * bins + states)
    numbers = np.empty(2 * (states + 1) * bins + n + 2 * states + 2 * bins + 2, np.int64)
    merge_spreads.run(costs, values, numbers, of, bins, each)
    return of


def fit(sizes: Array, capacity: int) -> tuple[Array, int]:
    """Best fit of falling sizes into bins of one capacity: the bin of each, and how many there are.

    First fit where the capacity is too large for a table of rooms.
    """
    n = sizes.size
    of = np.empty(n, np.int64)
    if capacity > ROOMS:
        tree = np.empty(2 << max(n - 1, 0).bit_length(), np.int64)
        return of, fill_bins.run(sizes, capacity, tree, of)
    begins: list[int] = []
    total, count = 0, capacity + 1
    while not begins or count > 1:
        begins.append(total)
        count = -(-count // 32)
        total += count + 1
    queues = np.full(2 * (capacity + 1), -1, np.int64)
    words = np.zeros(total, np.int64)
    return of, fit_bins.run(sizes, capacity, words, np.array(begins), queues, np.empty(n, np.int64), of)


def least_bins(sizes: Array, capacity: int) -> int:
    """Bound the number of bins of a capacity from below: L2 of S. Martello and P. Toth, "Knapsack Problems", 1990."""
    found = -(-int(sizes.sum()) // max(capacity, 1))
    if capacity > ROOMS:
        return found
    counts = np.bincount(sizes, minlength=capacity + 2)
    number, total = [np.cumsum(x[::-1])[::-1] for x in (counts, counts * np.arange(counts.size))]  # from a size on
    k = np.arange(capacity // 2 + 1)
    large, half = capacity - k + 1, capacity // 2 + 1  # none of size k goes beside the large ones; one half a bin
    pairs = number[half] - number[large]
    free = pairs * capacity - (total[half] - total[large])
    more = -(-np.maximum(total[k] - total[half] - free, 0) // max(capacity, 1))
    return max(found, int((number[large] + pairs + more).max()))


def pack_fewer(task: Task, of: Array, low: int, count: int) -> tuple[Array, int]:
    """The bins of a packing into `count` bins, or fewer, at least `low`, where the differencing method finds room."""
    while low < count:
        bins = (low + count) // 2
        found = merge(task.costs, bins, bins)
        few = task.costs.size * bins <= SMALL_TASK
        if _improve(task._replace(sizes=task.sizes[:0]), bins, found, float(task.capacity), few) <= task.capacity:
            of, count = found, bins
        else:
            low = bins + 1
    return of, count


def group(of: Array, counts: Array) -> Array:
    """Return the places of the members of each bin, bin by bin, and write how many each has to `counts`."""
    places = np.empty(of.size, np.int64)
    group_bins.run(of, counts, places, np.empty(counts.size, np.int64))
    return places


# --- improvements ----------------------------------------------------------------------------------------------------


def _fill_empty(of: Array, bins: int) -> None:
    """Give the cheapest sequences that are not alone to empty bins."""
    counts = np.bincount(of, minlength=bins)
    k = of.size
    for b in np.flatnonzero(counts == 0).tolist():
        k -= 1
        while counts[of[k]] < 2:
            k -= 1
        counts[of[k]] -= 1
        of[k] = b
        counts[b] = 1


def _improve(task: Task, bins: int, of: Array, enough: float, few: bool) -> float:
    """Change the bins until the costliest cannot be made cheaper, or costs `enough`; what that costs."""
    loads = np.bincount(of, task.costs, bins)
    movable = np.arange(of.size) if few else None
    full = True
    while full and loads.max() > enough:
        chosen = _choose(of, bins) if movable is None else movable
        longest = int(np.bincount(of[chosen], minlength=bins).max())
        width = longest + max(20, longest // 4)  # of two lists up to 12 places may change at once
        counts = np.bincount(of, minlength=bins)
        numbers = np.empty(bins * (4 + width) + 6 * 512, np.int64)
        numbers[:bins], numbers[bins : 2 * bins] = counts, task.items(of, bins)
        values = np.concatenate([[enough], loads, np.empty(512)])
        limits = np.array([task.capacity, task.equal, min(TRIES, 4096 + 32 * of.size), width, few])
        full = bool(improve_bins.run(task.costs, task.sizes, chosen, of, values, numbers, limits))
        loads = np.bincount(of, task.costs, bins)
    return float(loads.max())


def _choose(of: Array, bins: int) -> Array:
    """Choose which of many sequences may be moved: the cheapest, and some between all others, but few of each bin."""
    n = of.size
    few = LISTED * bins
    step = max(1, (n - few) // few) if n > few else 1
    some = np.concatenate([np.arange(0, max(n - few, 0), step), np.arange(max(n - few, 0), n)])
    counts = np.empty(bins, np.int64)
    places = group(of[some], counts)
    number = np.arange(places.size) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen: Array = some[np.sort(places[number < 8 * LISTED])]
    return chosen


def _search(task: Task, bins: int, best: tuple[float, Array] | None, enough: float) -> tuple[float, Array] | None:
    """The best division of a few sequences, or the one known where there is none better."""
    n = task.costs.size
    values = np.empty(2 + bins + 2 * n + 1)
    values[0], values[1] = np.inf if best is None else best[0], enough
    of = np.full(n, -1, np.int64)
    limits = np.array([bins, task.capacity, task.equal, MAX_SEARCH_STEPS])
    sizes = task.sizes if task.sizes.size else np.zeros(n, np.int64)
    search_bins.run(task.costs, sizes, values, np.empty(2 * bins + 2 * n + 1, np.int64), of, limits)
    return best if of[0] < 0 else (float(values[0]), of)
