"""Which items of each sequence, and in which order: by marks, by places, sorted, distinct, in pairs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import Batch
from .peers import ak, torch
from .sequence import SOME, both, rows_of

NARROW = ("ids", "short", "skewed")
"""Where items are so few numbers that sorting each column is what is measured."""


@functools.cache
def drawn(name: str, rows: int) -> np.ndarray:
    """A random number for each row, the same in each run."""
    return np.random.default_rng([7, len(name), rows]).random(rows)


def segments(b: Batch) -> Any:
    """The number of its sequence for each row."""
    return np.repeat(np.arange(b.n), b.lengths)


def numbers(b: Batch) -> Any:
    """One number an item, with equal ones."""
    return b.put((drawn(b.name, b.rows) * 1000).astype(np.int64 if b.shape.dtype == "int64" else np.float32))


@operation("filter")
def _(b: Batch) -> Case:
    """About half of the items, and the lengths that are left."""
    x, flat, keep = b.ragged, b.flat, b.put(drawn(b.name, b.rows) < 0.5)
    many = int((drawn(b.name, b.rows) < 0.5).sum()) * b.row_bytes
    peers: dict[str, Any]
    if b.arrays == "NumPy":

        def indexed() -> Any:
            return flat[keep], np.add.reduceat(keep, b.offsets[:-1], dtype=np.int64)

        peers = {"NumPy mask": Peer(indexed, lambda y: plain(y[0]))}
        if b.name not in ("many", "wide"):
            mask = ak.unflatten(keep, b.lengths)
            peers["Awkward"] = Peer(lambda: ak.to_packed(b.awkward[mask]), lambda y: plain(ak.flatten(y, axis=1)))
    else:

        def indexed() -> Any:
            return flat[keep], torch.segment_reduce(keep.float(), "sum", lengths=b.counts, unsafe=True)

        peers = {"mask": Peer(indexed, lambda y: plain(y[0]))}
    return Case(lambda: sf.filter(x, keep), peers, Limit(many, many))


@operation("run_starts", arrays=("NumPy",))
def _(b: Batch) -> Case:
    data = numbers(b)
    x, begins = sf.Ragged(data, b.lengths), b.offsets[:-1]

    def compared() -> Any:
        out = np.empty(b.rows, bool)
        np.not_equal(data[1:], data[:-1], out=out[1:])
        out[begins] = True
        return out

    return Case(lambda: sf.run_starts(x), {"NumPy": compared}, Limit(data.nbytes, b.rows))


@operation("gather")
def _(b: Batch) -> Case:
    """As many items as there are, from anywhere in their sequences."""
    x, flat = b.ragged, b.flat
    places = (drawn(b.name, b.rows) * np.repeat(b.lengths, b.lengths)).astype(np.int64)
    index, given = sf.Ragged(b.put(places), b.lengths), b.put(places)
    peers: dict[str, Any]
    if b.arrays == "NumPy":
        peers = {"NumPy take": lambda: flat[np.repeat(b.offsets[:-1], b.lengths) + given]}
        if b.name not in ("many", "wide"):
            inner = ak.unflatten(places, b.lengths)
            peers["Awkward"] = Peer(lambda: ak.to_packed(b.awkward[inner]), lambda y: plain(ak.flatten(y, axis=1)))
    else:
        peers = {"take": lambda: flat[torch.repeat_interleave(b.ends[:-1], b.counts, output_size=b.rows) + given]}
    return Case(lambda: sf.gather(x, index), peers, both(b))


@operation("sort", arrays=("NumPy",))
def _(b: Batch) -> Case:
    data = numbers(b)
    x = sf.Ragged(data, b.lengths)
    peers: dict[str, Any] = {"NumPy lexsort": lambda: data[np.lexsort((data, segments(b)))]}
    if b.n < 10_000:
        parts = b.offsets[1:-1]
        peers["NumPy sort of each"] = lambda: np.concatenate([np.sort(part) for part in np.split(data, parts)])
    nested = ak.unflatten(data, b.lengths)
    peers["Awkward"] = Peer(lambda: ak.sort(nested), lambda y: plain(ak.flatten(y)))
    return Case(lambda: sf.sort(x), peers, Limit(data.nbytes, data.nbytes))


@operation("argsort", arrays=("NumPy",))
def _(b: Batch) -> Case:
    data = numbers(b)
    x, begins = sf.Ragged(data, b.lengths), b.offsets[:-1]

    def lexsorted() -> Any:
        return np.lexsort((data, segments(b))) - np.repeat(begins, b.lengths)

    nested = ak.unflatten(data, b.lengths)
    peers = {
        "NumPy lexsort": lexsorted,
        "Awkward": Peer(lambda: ak.argsort(nested, stable=True), lambda y: plain(ak.flatten(y))),
    }
    return Case(lambda: sf.argsort(x), peers, Limit(data.nbytes, 8 * b.rows))


@operation("topk 4", SOME)
def _(b: Batch) -> Case:
    """The four largest of each sequence, and where they stand."""
    data = numbers(b)
    x = sf.Ragged(data, b.lengths)
    most = np.minimum(b.lengths, 4)
    if b.arrays == "NumPy":

        def chosen() -> Any:
            order = np.lexsort((-data, segments(b)))
            return data[order[rows_of(b.offsets[:-1], most, b)]]

        peers: dict[str, Any] = {"NumPy lexsort": Peer(chosen, plain)}
    else:
        padded = sf.convert(x, sf.Masked, fill=-np.inf).data
        few, real = min(4, b.longest), b.put(np.arange(min(4, b.longest)) < most[:, None])
        peers = {"padded with -inf": Peer(lambda: padded.topk(few, 1), lambda y: plain(y[0][real]))}
    return Case(lambda: sf.topk(x, 4), peers, Limit(4 * b.rows, 12 * b.n), read=lambda y: plain(y.values))


@operation("unique", arrays=("NumPy",))
def _(b: Batch) -> Case:
    data = numbers(b)
    x = sf.Ragged(data, b.lengths)

    def lexsorted() -> Any:
        ids = segments(b)
        values = data[np.lexsort((data, ids))]
        first = np.ones(b.rows, bool)
        first[1:] = (values[1:] != values[:-1]) | (ids[1:] != ids[:-1])
        return values[first], np.bincount(ids[first], minlength=b.n)

    peers: dict[str, Any] = {"NumPy lexsort": Peer(lexsorted, lambda y: plain(y[0]))}
    if b.n < 10_000:
        parts = b.offsets[1:-1]
        peers["NumPy unique of each"] = lambda: np.concatenate([np.unique(part) for part in np.split(data, parts)])
    return Case(lambda: sf.unique(x), peers, Limit(data.nbytes, data.nbytes))


@operation("cross", ("tiny", "small", "text", "short"), arrays=("NumPy",))
def _(b: Batch) -> Case:
    """Each item beside up to three others of its sequence."""
    data = numbers(b)
    x = sf.Ragged(data, b.lengths)
    y = sf.slice(x, 0, np.minimum(b.lengths, 3))
    few, inner = sf.lengths(y), y.data

    def repeated() -> Any:
        times = np.repeat(few, b.lengths)
        return np.repeat(data, times), inner[rows_of(np.repeat(y.offsets[:-1], b.lengths), times, b)]

    one, two = ak.unflatten(data, b.lengths), ak.unflatten(inner, few)
    peers = {
        "NumPy repeat": Peer(repeated, lambda pairs: plain(list(pairs))),
        "Awkward": Peer(
            lambda: ak.cartesian([one, two], axis=1),
            lambda pairs: plain([plain(ak.flatten(pairs[name])) for name in "01"]),
        ),
    }
    many = int((b.lengths * few).sum()) * data.itemsize
    read = lambda pairs: plain([plain(pairs.one), plain(pairs.two)])  # noqa: E731  one expression, as all others
    return Case(lambda: sf.cross(x, y), peers, Limit(data.nbytes, 2 * many), read=read)
