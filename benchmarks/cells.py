"""One cell of the tables: an operation of this library and of its peers on one batch, timed in turns.

A family module declares its operations with `operation`; each gives a `Case` for a batch.  The runner checks that all
results agree, then lets the candidates take turns, in an order that is drawn anew in each round: whoever follows a pass
over 100 MB, or one past the caches, starts with cold ones, and in a fixed order that would always be the same one.
"""

from __future__ import annotations

import functools
import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np

import seqformats as sf
from seqformats.formats import Encoding

from .data import SHAPES, Batch
from .peers import missed, torch

Function = Callable[..., Any]
OURS = "seqformats"
CALL = "one jitted call"
TURN = 1e-3
"""Seconds that a turn takes at least."""
SLOW = 0.1
"""Seconds of a call from which on once is enough, where others are far faster."""
BY_MINIMUM = ("tiny", "small")
"""Batches whose calls take microseconds, which whatever else runs can only lengthen: their ratios are of minima."""
BY_TENTH = "wide"
"""The batch that is judged by tenth percentiles too, for which it is measured in three times as many rounds."""


@dataclass(frozen=True)
class Peer:
    """Something to be timed: `read` makes its result comparable.

    `prepare` gives an argument outside of the clock, with which all calls of a turn go on.
    """

    run: Function
    read: Callable[[Any], Any] | None = None
    prepare: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Limit:
    """What the machine allows: so many bytes read once, so many written once into new memory."""

    read: int = 0
    written: int = 0


@dataclass(frozen=True)
class Case:
    """An operation on one batch."""

    ours: Function | Peer
    peers: dict[str, Function | Peer] = field(default_factory=dict)
    limit: Limit | None = None
    read: Callable[[Any], Any] | None = None  # of ours, and of every peer that names none
    exact: bool = True


@dataclass(frozen=True)
class Operation:
    """A line of the tables, over all shapes that it is measured on."""

    family: str
    name: str
    case: Callable[[Batch], Case]
    shapes: tuple[str, ...]
    arrays: tuple[str, ...]
    cuda: bool


OPERATIONS: list[Operation] = []


def operation(
    name: str,
    shapes: Sequence[str] = tuple(SHAPES),
    arrays: Sequence[str] = ("NumPy", "PyTorch"),
    cuda: bool = True,
) -> Callable[[Callable[[Batch], Case]], Callable[[Batch], Case]]:
    """Declare an operation; the family is the module that does."""

    def declare(case: Callable[[Batch], Case]) -> Callable[[Batch], Case]:
        family = case.__module__.rpartition(".")[2]
        OPERATIONS.append(Operation(family, name, case, tuple(shapes), tuple(arrays), cuda))
        return case

    return declare


# --- do the results agree? -------------------------------------------------------------------------------------------


def plain(x: Any) -> np.ndarray:
    """The items of a result as a NumPy array; of lists all of them in one row."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, (list, tuple)):
        return np.concatenate([plain(y).reshape(-1) for y in x]) if len(x) else np.zeros(0)
    if isinstance(x, Encoding):  # which has a `detach` too
        return plain(x.items if isinstance(x, sf.List) else x.data)
    for name in ("detach", "data", "dataXd"):
        if hasattr(x, name):
            inner = getattr(x, name)
            return inner().cpu().numpy() if name == "detach" else plain(inner)
    return np.asarray(x)


def check(cell: str, mine: Any, name: str, theirs: Any, exact: bool) -> None:
    """ValueError where two results are not the same items."""
    a, b = plain(mine).reshape(-1), plain(theirs).reshape(-1)
    nan = a.dtype.kind == "f"  # in which NaN is equal to NaN
    same = np.array_equal(a, b, nan) if exact else a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-4)
    if not same:
        raise ValueError(f"{cell}: {name} gives another result, of {b.size} numbers beside {a.size}: {b[:4]}, {a[:4]}")


# --- the limit -------------------------------------------------------------------------------------------------------


def passes(limit: Limit, device: str) -> dict[str, Function]:
    """Plain passes over as many bytes: the fastest of them is the limit.

    What is both read and written is copied, what is only written is zeroed, what is only read is summed.  The result is
    made in each call and given up after it, as that of an operation is.  So above 32 MB, where the C library gives
    memory back to the system and asks for other, a pass writes memory as new as the operation does.
    """
    both = min(limit.read, limit.written) // 4
    more, sums = (limit.written // 4 - both), (limit.read // 4 - both)
    source = np.ones(both + sums, np.float32)
    copied, read = source[:both], source[both:]

    def numpy() -> object:
        out = None
        if both or more:
            out = np.empty(both + more, np.float32)
            np.copyto(out[:both], copied)
            out[both:] = 0
        return out if not sums else (out, read.sum())

    if not torch:
        return {"plain pass (NumPy)": numpy}
    tensor = torch.from_numpy(source).to(device)
    from_, of = tensor[:both], tensor[both:]

    def with_torch() -> object:
        out = None
        if both or more:
            if device == "cpu":  # NumPy asks for huge pages, which is the faster memory to write
                out = torch.from_numpy(np.empty(both + more, np.float32))
            else:
                out = torch.empty(both + more, device=device)
            out[:both].copy_(from_)
            out[both:].zero_()
        return out if not sums else (out, of.sum())

    found: dict[str, Function] = {"plain pass (PyTorch)": with_torch}
    return found if device != "cpu" else {"plain pass (NumPy)": numpy, **found}


@functools.cache
def jitted_call() -> Function:
    """A call of a compiled function that does nothing, with two arrays and some numbers as a kernel has them."""
    function = numba.njit(nogil=True)(lambda *_: None)
    x, cum = np.zeros(8, np.float32), np.zeros(2, np.int64)
    return lambda: function(x, x, cum, 8, 0, 1)


# --- time ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """How long a cell is measured, and in how many rounds at least."""

    seconds: float = 0.08
    rounds: int = 7


class Clock:
    """Seconds that a call takes: of the wall, or of the GPU between two events."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, candidate: Peer, calls: int = 1) -> float:
        """The mean of so many calls, one after the other; a result is given up before the next call."""
        args = () if candidate.prepare is None else (candidate.prepare(),)
        run = candidate.run
        if self.device == "cpu":
            if calls == 1:
                start = time.perf_counter()
                result = run(*args)
                end = time.perf_counter()
                del result
                return end - start
            start = time.perf_counter()
            for _ in range(calls):
                run(*args)
            return (time.perf_counter() - start) / calls
        begin, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        begin.record()
        result = run(*args)
        stop.record()
        torch.cuda.synchronize()
        del result
        return begin.elapsed_time(stop) / 1e3


def quartiles(times: list[float]) -> dict[str, float]:
    """Minimum, tenth percentile, median and quartiles in seconds, and of how many turns."""
    several = times if len(times) > 1 else times * 2
    low, middle, high = statistics.quantiles(several, n=4, method="inclusive")
    tenth = statistics.quantiles(several, n=10, method="inclusive")[0]
    return {"min": min(times), "p10": tenth, "median": middle, "low": low, "high": high, "turns": len(times)}


def figure(t: dict[str, float], shape: str) -> float:
    """The time that ratios are made of; what was measured before minima were kept has medians alone."""
    return t.get("min", t["median"]) if shape in BY_MINIMUM else t["median"]


def in_turns(
    candidates: dict[str, Peer], clock: Clock, effort: Effort, first: dict[str, float] | None = None
) -> dict[str, dict[str, float]]:
    """Time the candidates in turns; `first` has the times of their very first calls, with imports and compiling.

    A turn is one call, or as many as take 1 ms: alone among calls of others a short one finds none of its code in the
    caches, and would say more about its neighbours.  A candidate far slower than the fastest sits out some rounds, and
    all of them if it takes seconds.
    """
    first = first or {}
    once = {name: clock(one) for name, one in candidates.items()}
    slow = {
        name
        for name in once
        if name != OURS and min(once[name], first.get(name, math.inf)) > max(SLOW, 4 * min(once.values()))
    }
    once = {
        name: seconds if seconds > SLOW / 4 else min(seconds, clock(candidates[name])) for name, seconds in once.items()
    }
    fastest = min(seconds for name, seconds in once.items() if name != CALL)  # which nobody competes with
    every = {name: max(1, min(8, int(seconds / fastest / 4))) for name, seconds in once.items()}
    if sum(once.values()) * effort.rounds < effort.seconds:
        every = dict.fromkeys(every, 1)
    calls = {name: max(1, int(TURN / once[name])) if clock.device == "cpu" else 1 for name in candidates}
    times: dict[str, list[float]] = {name: [once[name]] if name in slow else [] for name in candidates}
    names, draw = list(candidates), random.Random(0)
    enough, least = 5 * effort.seconds, min(3, effort.rounds)
    collecting = gc.isenabled()
    gc.disable()
    try:
        begin, turn = time.perf_counter(), 0
        while True:
            draw.shuffle(names)
            for name in names:
                if name not in slow and turn % every[name] == 0:
                    times[name].append(clock(candidates[name], calls[name]))
            turn += 1
            elapsed = time.perf_counter() - begin
            if elapsed > (effort.seconds if turn >= effort.rounds else enough if turn >= least else math.inf):
                break
    finally:
        if collecting:
            gc.enable()
    return {name: quartiles(found) for name, found in times.items()}


def measure(one: Operation, batch: Batch, threads: int | None, effort: Effort | None) -> dict[str, Any] | None:
    """One cell: the times by name of the candidate, and the two ratios; without `effort` results are compared alone."""
    where = f"{one.name}, {batch.name}, {batch.arrays}"
    case = one.case(batch)
    peers = {name: peer if isinstance(peer, Peer) else Peer(peer) for name, peer in case.peers.items()}
    ours = case.ours if isinstance(case.ours, Peer) else Peer(case.ours)
    candidates = {OURS: ours}

    first: dict[str, float] = {}

    def result(name: str, candidate: Peer) -> Any:
        args = () if candidate.prepare is None else (candidate.prepare(),)
        start = time.perf_counter()
        value = candidate.run(*args)
        first[name] = time.perf_counter() - start
        read = candidate.read or case.read
        return plain(value if read is None else read(value))

    def installed(name: str, peer: Peer) -> Any:
        """The result of a peer; None where it is not there."""
        before = len(missed)
        try:
            value = result(name, peer)
        except Exception:  # whatever comes of calling what is not there
            if len(missed) == before:
                raise
        return None if len(missed) > before else value

    mine = result(OURS, ours)
    for name, peer in peers.items():
        theirs = installed(name, peer)
        if theirs is None:
            continue
        check(where, mine, name, theirs, case.exact)
        candidates[name] = peer
    mine = theirs = None
    if effort is None:
        return None
    limits = passes(case.limit, batch.device) if case.limit else {}
    if batch.name == BY_TENTH:
        effort = replace(effort, rounds=3 * effort.rounds)
    beside = limits | ({CALL: jitted_call()} if limits and batch.device == "cpu" else {})
    found = in_turns(candidates | {k: Peer(f) for k, f in beside.items()}, Clock(batch.device), effort, first)
    if batch.name != BY_TENTH:
        for t in found.values():
            del t["p10"]
    took = {name: figure(t, batch.name) for name, t in found.items()}
    cell: dict[str, Any] = {
        "family": one.family,
        "operation": one.name,
        "shape": batch.name,
        "arrays": batch.arrays,
        "device": batch.device,
        "threads": threads or "default",
        "times": {name: found[name] for name in candidates},
    }
    own = took[OURS]
    rivals = [name for name in candidates if name != OURS]
    if rivals:
        best = min(rivals, key=took.__getitem__)
        cell |= {"best peer": best, "ratio": took[best] / own}
    if case.limit:
        floor = min(limits, key=took.__getitem__)
        cell |= {"limit": found[floor] | {"pass": floor}, "of limit": took[floor] / own}
        if CALL in took:
            cell["of roof"] = (took[floor] + took[CALL]) / own
        cell |= {"read": case.limit.read, "written": case.limit.written}
    return cell
