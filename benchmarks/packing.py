"""Time of balancing and packing, beside what trainers have in Python; and how good the results are.

    python benchmarks/packing.py [rounds]

Lognormal lengths, median 665, at most 16,384, in one process and taking turns.  The peers are written as in verl
(``seqlen_balancing``), as a heap of loads, and as TRL packs by best fit, a tree over the rooms.
"""

import collections
import heapq
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import seqformats as sf

Parts = Sequence[Sequence[int]]
COST = (6 * 4096, 1)


def differencing(costs: list[float], ranks: int) -> Parts:
    """The largest differencing method, a heap of partial solutions."""
    count = itertools.count()
    order = sorted(range(len(costs)), key=costs.__getitem__)
    empty = [(0.0, []) for _ in range(ranks - 1)]
    heap = [(-costs[i], next(count), [(costs[i], [i]), *empty]) for i in order]
    heapq.heapify(heap)
    while len(heap) > 1:
        one, two = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        parts = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(one, reversed(two), strict=True)]
        parts.sort(key=lambda part: part[0], reverse=True)
        heapq.heappush(heap, (parts[-1][0] - parts[0][0], next(count), parts))
    return [part for _, part in heap[0][2]]


def longest_first(costs: list[float], ranks: int) -> Parts:
    """Each to the rank that costs least so far, the costliest first."""
    parts: Parts = [[] for _ in range(ranks)]
    heap = [(0.0, rank) for rank in range(ranks)]
    for i in sorted(range(len(costs)), key=costs.__getitem__, reverse=True):
        load, rank = heap[0]
        parts[rank].append(i)
        heapq.heapreplace(heap, (load + costs[i], rank))
    return parts


class Rooms:
    """A tree over the rooms that bins have left, the largest in each node."""

    def __init__(self, capacity: int) -> None:
        self.size = 1 << capacity.bit_length()
        self.tree = [0] * (2 * self.size)

    def put(self, room: int, value: int) -> None:
        at = room + self.size
        self.tree[at] = value
        while at > 1:
            at >>= 1
            self.tree[at] = max(self.tree[2 * at], self.tree[2 * at + 1])

    def least(self, length: int) -> int:
        """The least room from `length` on."""
        at = length + self.size
        if self.tree[at] >= length:
            return self.tree[at]
        while at % 2 == 1 or self.tree[at + 1] < length:
            at >>= 1
        at += 1
        while at < self.size:
            at = 2 * at if self.tree[2 * at] >= length else 2 * at + 1
        return self.tree[at]


def best_fit(lengths: list[int], capacity: int) -> Parts:
    """Best fit decreasing."""
    rooms, of_room, bins = Rooms(capacity), collections.defaultdict(collections.deque), []
    rooms.put(capacity, capacity)
    for i in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        room = rooms.least(lengths[i])
        if room < capacity:
            part = of_room[room].popleft()
            if not of_room[room]:
                rooms.put(room, 0)
        else:
            part = []
            bins.append(part)
        part.append(i)
        left = room - lengths[i]
        of_room[left].append(part)
        if left:
            rooms.put(left, left)
    return bins


def race(candidates: dict[str, Callable[[], object]], rounds: int) -> tuple[dict[str, float], dict[str, object]]:
    """The median seconds of each, in turns, and what each has found; those that take seconds run once."""
    times, found = collections.defaultdict(list), {}
    for _ in range(rounds + 1):  # the first one loads kernels
        for name, run in candidates.items():
            if name in times and len(times[name]) > 1 and times[name][-1] > 1:
                continue
            begin = time.perf_counter()
            found[name] = run()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(took[1:]) for name, took in times.items()}, found


def balanced(n: int, ranks: int, cost: tuple[float, float] | None, peers: bool, rounds: int) -> None:
    """A line for each way of dividing."""
    lengths = np.minimum(np.random.default_rng(0).lognormal(6.5, 1, n).astype(int), 16_384)
    costs = lengths.astype(float) if cost is None else cost[0] * lengths + cost[1] * lengths.astype(float) ** 2
    prices = costs.tolist()
    candidates: dict[str, Callable[[], object]] = {
        "argsort": lambda: np.argsort(lengths, kind="stable"),
        "sf.balance": lambda: sf.balance(lengths, ranks, cost=cost),
        "sf.balance, equal counts": lambda: sf.balance(lengths, ranks, cost=cost, equal_counts=True),
        "LPT in Python": lambda: longest_first(prices, ranks),
    }
    if peers:
        candidates["differencing in Python"] = lambda: differencing(prices, ranks)
    times, found = race(candidates, rounds)
    bound = found["sf.balance"].bound
    print(f"\n{n:,} lengths, {ranks:,} ranks, {'items' if cost is None else 'a L + b L^2'}")
    for name, took in times.items():
        top = 0.0
        if name.startswith("sf"):
            top = found[name].costs.max()
        elif name != "argsort":
            top = max(costs[part].sum() for part in found[name])
        over = f"{top / bound:10.7f} of the bound" if top else ""
        print(f"  {name:26s}{took * 1e3:10.2f} ms  {took / times['argsort']:8.1f} x argsort  {over}")


def packed(n: int, rounds: int) -> None:
    """A line for each way of packing."""
    lengths = np.minimum(np.random.default_rng(0).lognormal(6.5, 1, n).astype(int) + 1, 8192)
    rows, batch = lengths.tolist(), sf.Ragged(np.arange(lengths.sum()), lengths)
    candidates: dict[str, Callable[[], object]] = {
        "sf.pack_bins": lambda: sf.pack_bins(lengths, 8192),
        "sf.pack_bins, fewest": lambda: sf.pack_bins(lengths, 8192, fewest=True),
        "best fit in Python": lambda: best_fit(rows, 8192),
    }
    if n <= 100_000:
        candidates["sf.pack, all of it"] = lambda: sf.pack(batch, 8192).ids
    times, found = race(candidates, rounds)
    print(f"\n{n:,} lengths into packs of 8,192")
    for name, took in times.items():
        print(f"  {name:26s}{took * 1e3:10.2f} ms  {took / n * 1e9:8.0f} ns a sequence  {len(found[name]):,} packs")


def main(rounds: int = 5) -> None:
    """All of it, in a minute or two."""
    for cost in (None, COST):
        balanced(512, 16, cost, True, rounds)
        balanced(8192, 64, cost, True, rounds)
        balanced(1_000_000, 1024, cost, False, rounds)
    for n in (10_000, 100_000, 1_000_000):
        packed(n, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
