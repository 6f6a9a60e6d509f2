"""A handful of operations on a batch of given lengths, beside what is written without this library.

All take turns, in rounds whose order is drawn, so that what else the machine does meets each alike; a time is the
median of the rounds.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..converters.convert import convert
from ..errors import MEMORY
from ..formats import List, Masked, Ragged
from ..operations.batch import buckets
from ..operations.expand import expand_as
from ..operations.select import select
from ..operations.softmax import softmax
from ..operations.sums import reduce_mean

_SECONDS = 2e-3  # of a turn, at least
_MOST = 1000  # calls in a turn
_LARGEST = 1 << 30  # bytes of a rectangle


class Contender(NamedTuple):
    """One way to do an operation."""

    operation: str
    arrays: str
    """In whose arrays: "NumPy" or "PyTorch"."""
    own: bool
    """Is it this library's?"""
    call: Callable[[], Any]


class Time(NamedTuple):
    """A line of the table."""

    operation: str
    arrays: str
    own: float
    """Seconds of this library."""
    other: float
    """Seconds without it."""

    @property
    def ratio(self) -> float:
        """Ratio of the time without this library to the time with it."""
        return self.other / self.own


# --- what runs -------------------------------------------------------------------------------------------------------


def in_numpy(lengths: Array, width: int, seed: int) -> list[Contender]:
    """The operations on arrays of NumPy, and the same by NumPy alone."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(int(lengths.sum()), width)).astype(np.float32)
    n, longest = lengths.size, int(lengths.max())
    cuts = np.cumsum(lengths)[:-1]
    parts = np.split(rows, cuts)
    x = Ragged(rows, lengths)
    padded = convert(x, Masked)
    full = lengths > 0
    starts = np.concatenate([[0], cuts])[full]
    vectors = rng.normal(size=(n, width)).astype(np.float32)
    index = rng.permutation(n)[: -(-n // 2)]

    def pad() -> tuple[Array, Array]:
        out: Array = np.zeros((n, longest, width), np.float32)
        for i, part in enumerate(parts):
            out[i, : len(part)] = part
        return out, np.arange(longest) < lengths[:, None]

    def mean() -> Array:
        out: Array = np.zeros((n, width), np.float32)
        if starts.size:
            out[full] = np.add.reduceat(rows, starts) / lengths[full, None]
        return out

    def soft() -> Array:
        found = []
        for part in parts:
            if len(part):
                powers = np.exp(part - part.max(0))
                found.append(powers / powers.sum(0))
        return np.concatenate(found) if found else rows

    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "list -> ragged": (
            lambda: convert(parts, Ragged),
            lambda: (np.concatenate(parts), np.array([len(part) for part in parts])),
        ),
        "ragged -> masked": (lambda: convert(x, Masked), pad),
        "masked -> ragged": (
            lambda: convert(padded, Ragged),
            lambda: padded.data[np.arange(longest) < lengths[:, None]],
        ),
        "mean": (lambda: reduce_mean(x), mean),
        "softmax": (lambda: softmax(x), soft),
        "expand": (lambda: expand_as(vectors, x), lambda: np.repeat(vectors, lengths, axis=0)),
        "select": (lambda: select(x, index), lambda: np.concatenate([parts[i] for i in index])),
    }
    return _contenders("NumPy", pairs)


def in_torch(lengths: Array, width: int, seed: int) -> list[Contender]:
    """Measure tensors and PyTorch; none where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return []
    torch: Any = importlib.import_module("torch")
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.normal(size=(int(lengths.sum()), width)).astype(np.float32))
    n, longest = lengths.size, int(lengths.max())
    sizes, counts = lengths.tolist(), torch.from_numpy(lengths.copy())
    parts = list(torch.split(rows, sizes))
    x: Any = Ragged(rows, lengths)
    padded: Any = convert(x, Masked)
    vectors = torch.from_numpy(rng.normal(size=(n, width)).astype(np.float32))
    index = rng.permutation(n)[: -(-n // 2)]
    pad = torch.nn.utils.rnn.pad_sequence
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "list -> ragged": (
            lambda: convert(List(parts), Ragged),
            lambda: (torch.cat(parts), torch.tensor([len(part) for part in parts])),
        ),
        "ragged -> masked": (lambda: convert(x, Masked), lambda: pad(torch.split(rows, sizes), batch_first=True)),
        "masked -> ragged": (
            lambda: convert(padded, Ragged),
            lambda: padded.data[torch.arange(longest) < counts[:, None]],
        ),
        "mean": (
            lambda: reduce_mean(x),
            lambda: torch.segment_reduce(rows, "mean", lengths=counts, unsafe=True, initial=0),
        ),
        "softmax": (
            lambda: softmax(x),
            lambda: torch.cat([torch.softmax(part, 0) for part in torch.split(rows, sizes)]),
        ),
        "expand": (
            lambda: expand_as(vectors, x),
            lambda: torch.repeat_interleave(vectors, counts, 0, output_size=len(rows)),
        ),
        "select": (lambda: select(x, index), lambda: torch.cat([parts[i] for i in index])),
    }
    return _contenders("PyTorch", pairs)


def _contenders(arrays: str, pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]]) -> list[Contender]:
    both = (True, False)
    return [Contender(name, arrays, own, calls[not own]) for name, calls in pairs.items() for own in both]


# --- the times -------------------------------------------------------------------------------------------------------


def times(contenders: Sequence[Contender], rounds: int, seed: int) -> list[Time]:
    """The median of each, over rounds in which all take a turn."""
    calls = []
    for one in contenders:
        for _ in range(3):  # the first compiles, the next teach fast paths
            one.call()
        took = _turn(one.call, 1)
        calls.append(max(1, min(_MOST, int(_SECONDS / max(took, 1e-9)))))
    order, draw = list(range(len(contenders))), random.Random(seed)
    found: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        draw.shuffle(order)
        for k in order:
            found[k].append(_turn(contenders[k].call, calls[k]))
    middle = {
        (one.operation, one.arrays, one.own): statistics.median(took)
        for one, took in zip(contenders, found, strict=True)
    }
    return [
        Time(name, arrays, took, middle[name, arrays, False]) for (name, arrays, own), took in middle.items() if own
    ]


def _turn(call: Callable[[], Any], count: int) -> float:
    """Seconds a call."""
    begun = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begun) / count


# --- the report ------------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """Measurements, and their text."""

    times: list[Time]
    text: str


def report(lengths: Array, *, batch: int, width: int, rounds: int, seed: int) -> Report:
    """Times on a batch of so many sequences, drawn among all, and what buckets of all save.

    OutOfMemory where a rectangle around the batch would take more than a gigabyte.
    """
    drawn = np.random.default_rng(seed).permutation(lengths.size)[:batch]
    own = np.ascontiguousarray(lengths[np.sort(drawn)])
    size = 4 * width * own.size * int(own.max())
    if size > _LARGEST:
        what = f"{own.size} sequences of {own.max()} items of {width} float32"
        raise MEMORY(f"{what} would take {size / 1e9:.3g} GB in a rectangle; give a smaller --batch or --width")
    mean = lengths.sum() / lengths.size
    lines = [
        f"{lengths.size} sequences of {lengths.min()} to {lengths.max()} items, {mean:.1f} on average",
        *_count_padding(lengths, batch),
        "",
        f"a batch of {own.size} sequences with {own.sum()} items of {width} float32, the longest {own.max()}:",
    ]
    contenders = [*in_numpy(own, width, seed), *in_torch(own, width, seed)]
    found = times(contenders, rounds, seed)
    rows = [("operation", "arrays", "seqformats", "without", "without / with")]
    rows += [
        (one.operation, one.arrays, _format_seconds(one.own), _format_seconds(one.other), f"{one.ratio:.2f}")
        for one in found
    ]
    lines += _table(rows)
    if not any(one.arrays == "PyTorch" for one in found):
        lines.append("PyTorch is not installed, so NumPy is all that is beside it")
    lines.append(f"medians of {rounds} rounds, in which all take turns in an order that is drawn")
    return Report(found, "\n".join(lines))


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines with words on the left and numbers on the right."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    put = [str.ljust, str.ljust, str.rjust, str.rjust, str.rjust]
    return ["  ".join([to(cell, w) for to, cell, w in zip(put, row, wide, strict=True)]) for row in rows]


def _count_padding(lengths: Array, batch: int) -> list[str]:
    """Return the share of padding in rectangles: in the order given, and with sequences of like lengths together."""
    n = lengths.size
    if not int(lengths.max()):
        return ["no sequence has an item, so there is nothing to pad"]
    cuts = np.arange(0, n, min(batch, n))
    sizes = np.diff([*cuts, n])
    places = int((np.maximum.reduceat(lengths, cuts) * sizes).sum())
    limit = max(int(lengths.max()), -(-places // cuts.size))
    found = buckets(lengths, limit)
    ordered = lengths[np.asarray(found.data)]
    widest = np.maximum.reduceat(ordered, np.asarray(found.offsets)[:-1])
    better = int((widest * found.lengths).sum())
    items = int(lengths.sum())
    now, then = (f"{100 * (1 - items / size):.0f} %" for size in (places, better))
    return [
        f"padding: {now} in {cuts.size} batches of {min(batch, n)} in this order,",
        f"         {then} in {found.lengths.size} buckets of at most {limit} places, as those have on average",
    ]


def _format_seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
