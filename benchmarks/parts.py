"""Parts of each sequence: slices, shifts, chunks and the way back from chunks."""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import FLOATS, SHAPES, Batch
from .peers import ak, torch
from .sequence import both, rows_of


def minimum(x: Any, least: int) -> Any:
    return np.maximum(x, least) if isinstance(x, np.ndarray) else x.clamp_min(least)


def structure(b: Batch) -> tuple[Any, Any]:
    """Where the sequences begin, and how long they are, beside the items."""
    return (b.offsets[:-1], b.lengths) if b.arrays == "NumPy" else (b.ends[:-1], b.counts)


@operation("cut")
def _(b: Batch) -> Case:
    """Every sequence without its first and its last item."""
    x, flat = b.ragged, b.flat
    starts, lengths = structure(b)

    def gather() -> Any:
        return flat[rows_of(starts + 1, minimum(lengths - 2, 0), b)]

    peers: dict[str, Any] = {"gather": gather}
    if b.arrays == "NumPy" and b.name not in ("many", "wide"):  # seconds a call there
        peers["Awkward"] = Peer(lambda: ak.to_packed(b.awkward[:, 1:-1]), lambda y: plain(ak.flatten(y, axis=1)))
    return Case(lambda: sf.cut(x, 1, -1), peers, both(b))


@operation("cut by steps")
def _(b: Batch) -> Case:
    """Every second item, from the end."""
    x, flat = b.ragged, b.flat
    starts, lengths = structure(b)

    def gather() -> Any:
        counts = (lengths + 1) // 2
        behind = rows_of(-(starts + lengths - 1), counts, b)  # counted from where each begins
        repeated = np.repeat if b.arrays == "NumPy" else torch.repeat_interleave
        first = repeated(starts + lengths - 1, counts)
        return flat[first - 2 * (behind + first)]

    peers: dict[str, Any] = {"gather": gather}
    if b.arrays == "NumPy" and b.name not in ("many", "wide"):
        peers["Awkward"] = Peer(lambda: ak.to_packed(b.awkward[:, ::-2]), lambda y: plain(ak.flatten(y, axis=1)))
    return Case(lambda: sf.cut(x, step=-2), peers, Limit(b.bytes // 2, b.bytes // 2))


@operation("truncate")
def _(b: Batch) -> Case:
    """The last items of every sequence, as many as half of the usual length."""
    x, flat, most = b.ragged, b.flat, SHAPES[b.name].mean // 2
    starts, lengths = structure(b)

    def gather() -> Any:
        kept = np.minimum(lengths, most) if b.arrays == "NumPy" else lengths.clamp_max(most)
        return flat[rows_of(starts + lengths - kept, kept, b)]

    return Case(lambda: sf.truncate(x, most, "left"), {"gather": gather}, Limit(b.bytes // 2, b.bytes // 2))


@operation("truncate_pair", arrays=("NumPy",))
def _(b: Batch) -> Case:
    """Each sequence beside the one before it in the batch, both together as long as one usually is."""
    flat, most = b.flat, SHAPES[b.name].mean
    x = b.ragged
    y = sf.convert(x[np.roll(np.arange(b.n), 1)], sf.Ragged)

    def gather() -> Any:
        one, two = b.lengths, y.lengths
        less = np.minimum(one, two)
        more = np.where(less > most, less, np.maximum(less, most - less))
        over = less + more > most
        less, more = np.where(over, most // 2, less), np.where(over, most - np.minimum(less, most // 2), more)
        first = np.where(one <= two, np.minimum(one, less), np.minimum(one, more))
        second = np.where(one <= two, np.minimum(two, more), np.minimum(two, less))
        return flat[rows_of(x.offsets[:-1], first, b)], y.data[rows_of(y.offsets[:-1], second, b)]

    moved = Limit(b.bytes, b.bytes)
    return Case(lambda: sf.truncate_pair(x, y, most), {"gather": Peer(gather)}, moved, lambda pair: plain(list(pair)))


@operation("shift")
def _(b: Batch) -> Case:
    """The items before."""
    x, flat, starts = b.ragged, b.flat, structure(b)[0]

    def shift() -> Any:
        out = np.empty_like(flat) if b.arrays == "NumPy" else torch.empty_like(flat)
        out[1:] = flat[:-1]
        out[starts] = 0
        return out

    return Case(lambda: sf.shift(x, 1), {"NumPy" if b.arrays == "NumPy" else "PyTorch": shift}, both(b))


def sizes(b: Batch) -> tuple[int, int]:
    """The size of chunks, and by how much they overlap: about three a sequence."""
    size = max(SHAPES[b.name].mean // 2, 2)
    return size, size // 4


def chunk_rows(b: Batch) -> Any:
    """The row of each item of each chunk, as users of index arithmetic write it."""
    size, overlap = sizes(b)
    step = size - overlap
    starts, lengths = structure(b)
    counts = 1 - (-minimum(lengths - size, 0) // step)
    repeated = np.repeat if b.arrays == "NumPy" else torch.repeat_interleave
    places = rows_of(0 * counts, counts, b) * step
    left = repeated(lengths, counts) - places
    return rows_of(
        repeated(starts, counts) + places, np.minimum(left, size) if b.arrays == "NumPy" else left.clamp_max(size), b
    )


@operation("chunk")
def _(b: Batch) -> Case:
    x, flat, (size, overlap) = b.ragged, b.flat, sizes(b)
    return Case(
        lambda: sf.chunk(x, size, overlap), {"gather": lambda: flat[chunk_rows(b)]}, Limit(b.bytes, b.bytes * 4 // 3)
    )


@operation("unchunk", FLOATS)
def _(b: Batch) -> Case:
    """The mean of what overlapping chunks have."""
    chunks = sf.chunk(b.ragged, *sizes(b))
    rows, data = chunk_rows(b), chunks.data

    def add() -> Any:
        if b.arrays == "NumPy":
            out = np.zeros_like(b.flat)
            np.add.at(out, rows, data)
            counts = np.bincount(rows, minlength=b.rows).astype(out.dtype)
        else:
            out = torch.zeros_like(b.flat).index_add_(0, rows, data)
            counts = torch.bincount(rows, minlength=b.rows).to(out.dtype)
        out /= counts.reshape(-1, *[1] * len(b.item))
        return out

    name = "np.add.at" if b.arrays == "NumPy" else "index_add"
    return Case(lambda: sf.unchunk(chunks, "mean"), {name: add}, Limit(b.bytes * 4 // 3, b.bytes), exact=False)
