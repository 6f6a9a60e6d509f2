"""From the scores of all tokens to the candidates of each lane, on the device of the scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library
from ..launch.kernel import Work, kernel, sent
from .constraints import Plan

# What the rows of scores are: scores; log-probabilities; scores that limits act on before they become such
SCORES, LOGS, MASKED = range(3)

_NO_FLOATS = np.empty(0, np.float32)
_NO_NUMBERS = np.empty(0, np.int64)


# Of how many lists of a row, and for how many rows at a time, a GPU needs room for the work.
_LISTS, _MOST_ROOM = 128, 1 << 23


class Sent:
    """The rows of a step beside the memories, and on a GPU what its kernels ask for too: all in one copy."""

    def __init__(self, library: Library, rows: tuple[Array, ...], more: tuple[Array, ...], like: Array) -> None:
        self._known: dict[tuple[int, int], Array] = {}
        self.stream = 0
        if library.kind(like) == "cpu":
            self.arrays: Any = library.from_host(np.concatenate(rows).reshape(len(rows), -1), like)
        else:
            host = (*rows, *more)
            self._host = host  # an address means something only while its array is there
            self.stream = library.stream(like)
            self.arrays = sent(library, host, like)
            self._known = {_address(x): there for x, there in zip(host, self.arrays, strict=False)}

    def of(self, x: Array) -> Array:
        """What was sent of an array of the host, or else itself."""
        return self._known.get(_address(x), x) if type(x) is np.ndarray else x


def _address(x: Array) -> tuple[int, int]:
    return x.__array_interface__["data"][0], x.size


class Lanes(NamedTuple):
    """Which rows a lane has, and how many candidates it wants: int64 on the host, and the most of both."""

    begin: Array
    end: Array
    most: Array
    longest: int
    largest: int
    sent: Sent | None = None

    def places(self, width: int) -> int:
        """The most candidates that any lane wants, and can have of so many tokens."""
        return max(min(self.largest, self.longest * width), 1)


class Found(NamedTuple):
    """The candidates of all lanes on the host: those of lane l at ``l * places``, in falling order of their keys."""

    values: Array  # scores of the hypotheses so far, float32
    keys: Array  # what they are sorted by; mostly the same array
    ids: Array  # row * width + token
    counts: Array  # of each lane; -1 - row where that row is bad
    places: int
    width: int


class RowLists(NamedTuple):
    """The candidates of each row apart, beside the scores: those of row r at ``r * room``."""

    values: Array
    ids: Array  # row * width + token
    counts: Array  # -1 - r where row r is bad
    room: int
    width: int
    buffer: Array | None = None  # on a GPU they lie in one

    def on_host(self, library: Library) -> tuple[Array, Array, Array]:
        """Values and ids, of the candidates alone, and counts; one copy from a GPU.  Of none where a row is bad."""
        values, ids, counts = self[:3]
        if self.buffer is not None:
            places = (counts.shape[0], ids.shape[0])
            found = library.to_numpy(self.buffer)
            numbers = found[: 8 * sum(places)].view(np.int64)
            counts, ids, values = numbers[: places[0]], numbers[places[0] :], found[8 * sum(places) :].view(np.float32)
        there = (np.arange(self.room) < counts[:, None]).reshape(-1)
        return values[there], ids[there], counts


def log_probabilities(library: Library, x: Array, plan: Plan | None) -> Array:
    """The rows of `x`, float32, as log-probabilities; limits act on them before."""
    out = library.empty(tuple(x.shape), x.dtype, x)
    rows, width = x.shape
    floats, numbers = _limits(plan)
    if library.kind(x) == "cpu":
        kernel("log_probabilities").start(library, (x, *floats), (out,), numbers, width, None, Work(rows, rows))
    else:
        start("log_probabilities", library, (x, *floats), (out,), numbers, width, rows)
    return out


def _limits(plan: Plan | None) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
    """A plan as kernels take it."""
    if plan is None:
        return (_NO_FLOATS, _NO_FLOATS), (_NO_NUMBERS,) * 5
    numbers = (plan.allowed_from, plan.allowed_to, plan.allowed, plan.edited_at, plan.edited)
    return (plan.factors, plan.addends), numbers


def select(library: Library, x: Array, form: int, running: Array, lanes: Lanes, plan: Plan | None) -> Found:
    """The best candidates of every lane; `form` says what `x` holds, `running` are the scores of the rows so far."""
    if library.kind(x) != "cpu":
        return merged(library, row_lists(library, x, form, running, lanes, plan, None), lanes, x)
    places = lanes.places(x.shape[1])
    count = lanes.begin.size
    values = np.empty(count * places, np.float32)
    ids, counts = np.empty(count * places, np.int64), np.empty(count, np.int64)
    _best_tokens(library.operand(x), x.shape, running, (values, ids, counts), lanes, plan, places, form)
    return Found(values, values, ids, counts, places, x.shape[1])


def row_lists(
    library: Library,
    x: Array,
    form: int,
    running: Array,
    lanes: Lanes,
    plan: Plan | None,
    per_parent: int | None,
) -> RowLists:
    """The best candidates of every row, at most `per_parent`, where they are."""
    rows, width = x.shape
    room = min(lanes.places(width), width, per_parent or width)
    if library.kind(x) == "cpu":
        values, ids = np.empty(rows * room, np.float32), np.empty(rows * room, np.int64)
        counts = np.zeros(rows, np.int64)  # not every row need be in a lane
        _best_tokens(library.operand(x), x.shape, running, (values, ids, counts), lanes, plan, room, form, apart=True)
        return RowLists(values, ids, counts, room, width)
    int64, size = library.dtype("int64"), rows * room
    buffer = library.empty((8 * rows + 12 * size,), library.dtype("uint8"), x)
    counts, ids = buffer[: 8 * rows].view(int64), buffer[8 * rows : 8 * (rows + size)].view(int64)
    values = buffer[8 * (rows + size) :].view(x.dtype)
    lists = min(room, _LISTS) * room
    units = min(rows, max(_MOST_ROOM // lists, _LISTS))
    blocks = library.empty((units * lists,), int64, x)
    edits, limits = _limits(plan)
    args = (*lanes[:3], *limits, room, form, 1)
    outputs = (values, ids, counts, blocks)
    start("best_tokens", library, (x, running, *edits), outputs, args, width, units, lanes.sent)
    return RowLists(values, ids, counts, room, width, buffer)


def merged(library: Library, lists: RowLists, lanes: Lanes, like: Array) -> Found:
    """The best candidates of every lane, of the lists of its rows; one copy from a GPU."""
    places = lanes.places(lists.room)
    count = lanes.begin.size
    size = count * (2 * places + 1)
    inputs: tuple[Array, ...] = (lists.values, lists.ids, lists.counts)
    if type(lists.values) is np.ndarray:
        out: Array = np.empty(size)
        kernel("merge_tokens").start(NUMPY, inputs, (out,), (*lanes[:3], places), lists.room, None, Work(count, 0))
    else:
        there = library.empty((size,), library.dtype("float64"), like)
        start("merge_tokens", library, inputs, (there,), (*lanes[:3], places), lists.room, count, lanes.sent)
        out = library.to_numpy(there)
    size = count * places
    with np.errstate(invalid="ignore", over="ignore"):  # where there is no candidate there is nothing sensible
        values, ids = out[:size].astype(np.float32), out[size : 2 * size].astype(np.int64)
    return Found(values, values, ids, out[2 * size :].astype(np.int64), places, lists.width)


def ranked(values: Array, ids: Array, width: int, lanes: Lanes, before: tuple[Array, ...] = ()) -> Found:
    """The best of any candidates, on the host, as `select` has them: NaN and -inf are none.

    `before` are keys that count more than the values, the last one most; small ones first.
    """
    count = lanes.begin.size
    lane = np.full(int(lanes.end.max(initial=0)), -1)
    for k in np.flatnonzero(lanes.end > lanes.begin).tolist():
        lane[lanes.begin[k] : lanes.end[k]] = k
    of = np.append(lane, -1)[np.minimum(ids // width, lane.size)]
    order = np.lexsort((ids, -values, *before, of))
    order = order[(values[order] > -np.inf) & (of[order] >= 0)]
    of = of[order]
    rank = np.arange(order.size) - np.searchsorted(of, of)
    kept = rank < lanes.most[of]
    order, of, rank = order[kept], of[kept], rank[kept]
    places = max(int(rank.max(initial=0)) + 1, 1)
    best, names = np.empty(count * places, np.float32), np.empty(count * places, np.int64)
    best[of * places + rank], names[of * places + rank] = values[order], ids[order]
    return Found(best, best, names, np.bincount(of, minlength=count).astype(np.int64), places, width)


def used(found: Found) -> Array:
    """The places where there is a candidate, lane by lane, in their order."""
    lane = np.repeat(np.arange(found.counts.size), found.counts)
    return lane * found.places + np.arange(lane.size) - np.searchsorted(lane, lane)


def interleaved(parts: list[Found]) -> Found:
    """The candidates of all lanes, of which each part has every so many."""
    groups, places = len(parts), max(part.places for part in parts)
    count = parts[0].counts.size

    def joined(name: str) -> Array:
        out = np.empty((count, places), getattr(parts[0], name).dtype)
        for g, part in enumerate(parts):
            out[g::groups, : part.places] = getattr(part, name).reshape(count, part.places)[g::groups]
        return out.reshape(-1)

    counts = np.empty(count, np.int64)
    for g, part in enumerate(parts):
        counts[g::groups] = part.counts[g::groups]
    values = joined("values")
    return Found(values, values, joined("ids"), counts, places, parts[0].width)


def _best_tokens(
    x: Array,
    shape: Any,
    running: Array,
    out: tuple[Array, ...],
    lanes: Lanes,
    plan: Plan | None,
    room: int,
    form: int,
    apart: bool = False,
) -> None:
    rows, width = shape
    block = 16 if width <= 1024 else 128
    blocks = np.empty(rows * (-(-width // block) + 2), np.float32)
    edits, limits = _limits(plan)
    most = np.minimum(lanes.most, room) if apart else lanes.most  # a lane has room for all that it can find
    args = (lanes.begin, lanes.end, most, *limits, room, form, int(apart))
    work = Work(lanes.begin.size, rows)
    kernel("best_tokens").start(NUMPY, (x, running, *edits), (*out, blocks), args, width, None, work)


def start(
    name: str,
    library: Library,
    inputs: tuple[Array, ...],
    outputs: tuple[Array, ...],
    args: tuple[Any, ...],
    size: int,
    units: int,
    sent: Sent | None = None,
) -> None:
    """A kernel on a GPU, a block for each unit; inputs and arguments on the host go up in one copy, if not yet sent."""
    if sent is not None and sent.stream == library.stream(outputs[0]):  # another stream might come too early
        inputs, args = tuple(map(sent.of, inputs)), tuple(map(sent.of, args))
    kernel(name).start(library, inputs, outputs, args, size, None, Work(units, units))
