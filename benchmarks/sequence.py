"""Along each sequence: softmax, running sums, repeated rows, windows, order, n-grams."""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import FLOATS, Batch
from .peers import ak, ops, torch

SOME = ("tiny", "small", "wide", "many", "short", "text")
"""Where a peer can pad without wasting the machine."""


def both(b: Batch) -> Limit:
    return Limit(b.bytes, b.bytes)


def repeat(x: Any, b: Batch) -> Any:
    """One row a sequence to one row an item."""
    if b.arrays == "NumPy":
        return np.repeat(x, b.lengths, 0)
    return torch.repeat_interleave(x, b.counts, dim=0, output_size=b.rows)


def segments(x: Any, name: str, b: Batch) -> Any:
    """One row a sequence, by what each library has for it."""
    if b.arrays == "NumPy":
        return (np.add if name == "sum" else np.maximum).reduceat(x, b.offsets[:-1])
    return torch.segment_reduce(x, name, lengths=b.counts, axis=0, unsafe=True)


def log_of(x: Any) -> Any:
    return np.log(x) if isinstance(x, np.ndarray) else x.log()


def exp_of(x: Any) -> Any:
    return np.exp(x) if isinstance(x, np.ndarray) else x.exp()


def composed(b: Batch) -> str:
    """The name of the peer that is put together of segment operations."""
    return "NumPy reduceat" if b.arrays == "NumPy" else "segment_reduce"


@operation("softmax", FLOATS)
def _(b: Batch) -> Case:
    x, flat = b.ragged, b.flat

    def by_segments() -> Any:
        e = exp_of(flat - repeat(segments(flat, "max", b), b))
        return e / repeat(segments(e, "sum", b), b)

    peers: dict[str, Any] = {composed(b): by_segments}
    if b.arrays == "NumPy":
        peers["Thinc softmax_sequences"] = lambda: ops.softmax_sequences(b.flat2, b.lengths32)
    elif b.name in SOME:
        masked, column = sf.convert(x, sf.Masked, fill=-np.inf).data, b.column
        jagged = b.jagged
        peers["padded with -inf"] = Peer(lambda: masked.softmax(1), lambda y: plain(y[column]))
        peers["nested"] = Peer(lambda: torch.softmax(jagged, dim=1), lambda y: plain(y.values()))
    return Case(lambda: sf.softmax(x), peers, both(b), exact=False)


@operation("softmax gradient", FLOATS)
def _(b: Batch) -> Case:
    y, pullback = sf.vjp(sf.softmax, b.ragged)
    out, dy = y.data, b.flat

    def by_segments() -> Any:
        weighed = out * dy
        return weighed - out * repeat(segments(weighed, "sum", b), b)

    peers: dict[str, Any] = {composed(b): by_segments}
    if b.arrays == "NumPy":
        peers["Thinc"] = lambda: ops.backprop_softmax_sequences(
            dy.reshape(b.rows, -1), out.reshape(b.rows, -1), b.lengths32
        )
    return Case(lambda: pullback(dy), peers, Limit(2 * b.bytes, b.bytes), exact=False)


@operation("log_softmax", FLOATS)
def _(b: Batch) -> Case:
    x, flat = b.ragged, b.flat

    def by_segments() -> Any:
        shifted = flat - repeat(segments(flat, "max", b), b)
        return shifted - repeat(log_of(segments(exp_of(shifted), "sum", b)), b)

    peers: dict[str, Any] = {composed(b): by_segments}
    if b.arrays == "PyTorch" and b.name in SOME:
        masked, column = sf.convert(x, sf.Masked, fill=-np.inf).data, b.column
        peers["padded with -inf"] = Peer(lambda: masked.log_softmax(1), lambda y: plain(y[column]))
    return Case(lambda: sf.log_softmax(x), peers, both(b), exact=False)


@operation("cumsum", FLOATS)
def _(b: Batch) -> Case:
    x, masked = b.ragged, b.masked.data
    if b.name not in SOME:
        return Case(lambda: sf.cumsum(x), {}, both(b), exact=False)
    column = b.column
    name = "cumsum, padded"
    peers = {name: Peer(lambda: masked.cumsum(1), lambda y: plain(y[column]))}
    return Case(lambda: sf.cumsum(x), peers, both(b), exact=False)


def repeated(b: Batch, ours: Any) -> Case:
    """A row of each sequence to each of its items."""
    like = b.ragged
    rows = b.rows_of_ones if b.item else b.put(np.arange(b.n, dtype=np.int64))
    few = b.n * b.row_bytes
    if b.arrays == "NumPy":
        lengths = b.lengths
        peers = {"NumPy repeat": lambda: np.repeat(rows, lengths, 0)}
    else:
        counts = b.counts
        peers = {
            "repeat_interleave": lambda: torch.repeat_interleave(rows, counts, dim=0),
            "repeat_interleave, size given": lambda: torch.repeat_interleave(rows, counts, dim=0, output_size=b.rows),
        }
    return Case(lambda: ours(rows, like), peers, Limit(few, b.bytes))


operation("expand")(lambda b: repeated(b, sf.expand))
operation("expand_as")(lambda b: repeated(b, sf.expand_as))


def rows_of(starts: Any, counts: Any, b: Batch) -> Any:
    """The positions ``starts[i], starts[i] + 1, ...``, so many for each i, as users of index arithmetic write it."""
    if b.arrays == "NumPy":
        ends = np.cumsum(counts)
        return np.repeat(starts - ends + counts, counts) + np.arange(ends[-1])
    ends = counts.cumsum(0)
    rows = torch.repeat_interleave(starts - ends + counts, counts)
    return rows + torch.arange(rows.numel(), device=b.device)


@operation("repeat")
def _(b: Batch) -> Case:
    """Sequences repeated none to three times, as beams are."""
    x, flat = b.ragged, b.flat
    times = np.arange(b.n) % 4
    many = int((times * b.lengths).sum()) * b.row_bytes
    if b.arrays == "NumPy":

        def gather() -> Any:
            index = np.repeat(np.arange(b.n), times)
            return flat[rows_of(b.offsets[index], b.lengths[index], b)]
    else:
        numbers, counts, ends = torch.from_numpy(times).to(b.device), b.counts, b.ends

        def gather() -> Any:
            index = torch.repeat_interleave(torch.arange(b.n, device=b.device), numbers)
            return flat[rows_of(ends[index], counts[index], b)]

    read = int((b.lengths * (times > 0)).sum()) * b.row_bytes
    return Case(lambda: sf.repeat(x, times), {"gather": gather}, Limit(read, many))


@operation("reverse")
def _(b: Batch) -> Case:
    x, flat = b.ragged, b.flat
    peers: dict[str, Any] = {}
    if b.arrays == "NumPy":

        def gather() -> Any:
            last = b.offsets[1:] + b.offsets[:-1] - 1
            return flat[np.repeat(last, b.lengths) - np.arange(b.rows)]

        if b.name not in ("many", "wide"):  # seconds a call there
            peers["Awkward"] = Peer(lambda: ak.to_packed(b.awkward[:, ::-1]), lambda y: plain(ak.flatten(y, axis=1)))
    else:
        ends, counts = b.ends, b.counts

        def gather() -> Any:
            last = torch.repeat_interleave(ends[1:] + ends[:-1] - 1, counts, output_size=b.rows)
            return flat[last - torch.arange(b.rows, device=b.device)]

    return Case(lambda: sf.reverse(x), {"gather": gather, **peers}, both(b))


@operation("concat")
def _(b: Batch) -> Case:
    """Two batches, sequence by sequence."""
    x, flat = b.ragged, b.flat
    peers: dict[str, Any] = {}
    if b.arrays == "NumPy":

        def gather() -> Any:
            begin = np.stack([b.offsets[:-1], b.offsets[:-1] + b.rows], 1).reshape(-1)
            return np.concatenate([flat, flat])[rows_of(begin, np.repeat(b.lengths, 2), b)]

        if b.name not in ("many", "wide"):
            peers["Awkward"] = Peer(
                lambda: ak.concatenate([b.awkward, b.awkward], axis=1), lambda y: plain(ak.flatten(y, axis=1))
            )
    else:
        ends, counts = b.ends, b.counts

        def gather() -> Any:
            begin = torch.stack([ends[:-1], ends[:-1] + b.rows], 1).reshape(-1)
            return torch.cat([flat, flat])[rows_of(begin, counts.repeat_interleave(2), b)]

    return Case(lambda: sf.concat([x, x]), {"gather": gather, **peers}, Limit(2 * b.bytes, 2 * b.bytes))


def shifted(flat: Any, out: Any, b: Batch) -> Any:
    """Neighbours side by side: the items, the ones before, the ones after, and zeros at the ends of sequences."""
    out[:, 1] = flat
    out[1:, 0] = flat[:-1]
    out[:-1, 2] = flat[1:]
    begin, last = (b.offsets[:-1], b.offsets[1:] - 1) if b.arrays == "NumPy" else (b.ends[:-1], b.ends[1:] - 1)
    out[begin, 0] = 0
    out[last, 2] = 0
    return out


@operation("window")
def _(b: Batch) -> Case:
    x, flat = b.ragged, b.flat
    shape = (b.rows, 3, *b.item)
    peers: dict[str, Any]
    if b.arrays == "NumPy":
        peers = {"NumPy shift": lambda: shifted(flat, np.empty(shape, flat.dtype), b)}
        if b.item:
            peers["Thinc seq2col"] = lambda: ops.seq2col(flat, 1, lengths=b.lengths32)
    else:
        peers = {"shift": lambda: shifted(flat, torch.empty(shape, dtype=flat.dtype, device=b.device), b)}
    return Case(lambda: sf.window(x, 1, 1), peers, Limit(b.bytes, 3 * b.bytes))


@operation("window gradient", FLOATS)
def _(b: Batch) -> Case:
    _, pullback = sf.vjp(sf.window, b.ragged, 1, 1)
    dy = b.put(np.random.default_rng(4).standard_normal((b.rows, 3 * b.item[0]), np.float32))
    d = dy.reshape(b.rows, 3, *b.item)
    peers: dict[str, Any] = {}
    if b.arrays == "NumPy":

        def shift() -> Any:
            first = np.zeros(b.rows, bool)
            first[b.offsets[:-1]] = True
            out = d[:, 1].copy()
            out[:-1] += np.where(first[1:, None], 0, d[1:, 0])
            out[1:] += np.where(first[1:, None], 0, d[:-1, 2])
            return out

        peers["Thinc backprop_seq2col"] = lambda: ops.backprop_seq2col(dy, 1, lengths=b.lengths32)
    else:
        ends = b.ends

        def shift() -> Any:
            inside = torch.ones((b.rows, 1), device=b.device)
            inside[ends[:-1]] = 0
            out = d[:, 1].clone()
            out[:-1] += d[1:, 0] * inside[1:]
            out[1:] += d[:-1, 2] * inside[1:]
            return out

    return Case(lambda: pullback(dy), {"shift": shift, **peers}, Limit(3 * b.bytes, b.bytes), exact=False)


@operation("ngrams", ["ids"])
def _(b: Batch) -> Case:
    """Pairs of neighbouring words."""
    x, flat = b.ragged, b.flat
    if b.arrays == "NumPy":

        def shift() -> Any:
            out = np.empty((b.rows, 2), flat.dtype)
            out[:, 0] = flat
            out[:-1, 1] = flat[1:]
            out[b.offsets[1:] - 1, 1] = 0
            return out
    else:
        ends = b.ends

        def shift() -> Any:
            out = torch.empty((b.rows, 2), dtype=flat.dtype, device=b.device)
            out[:, 0] = flat
            out[:-1, 1] = flat[1:]
            out[ends[1:] - 1, 1] = 0
            return out

    return Case(lambda: sf.ngrams(x, 2), {"shift": shift}, Limit(b.bytes, 2 * b.bytes))
