"""Sequences with items put in, in turns, by a template; split into parts, and levels joined."""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import Batch
from .peers import ak, torch

IDS = ("ids",)
FEW = ("tiny", "small", "ids", "short", "text")
"""Where a peer takes less than a second."""


def values(x: Any) -> Any:
    """The items of a result of Awkward."""
    return plain(ak.flatten(x, axis=None))


@operation("concat, constants")
def _(b: Batch) -> Case:
    """An item before and one behind every sequence."""
    x, flat, n = b.ragged, b.flat, b.n
    item = 7 if not b.item else b.put(np.full(b.item, 7, b.shape.dtype))
    bytes_ = b.bytes + 2 * n * b.row_bytes
    peers: dict[str, Any] = {}
    if b.arrays == "NumPy":

        def places() -> Any:
            ends = np.cumsum(b.lengths + 2)
            out = np.empty((ends[-1], *b.item), flat.dtype)
            inside = np.ones(ends[-1], bool)
            for where in (ends - b.lengths - 2, ends - 1):
                inside[where] = False
                out[where] = item
            out[inside] = flat
            return out

        if b.name in FEW:
            peers["NumPy insert"] = lambda: np.insert(
                flat, np.stack([b.offsets[:-1], b.offsets[1:]], 1).reshape(-1), item, 0
            )
        if b.name in FEW and not b.item:
            one = np.full((n, 1), item)
            peers["Awkward"] = Peer(lambda: ak.concatenate([one, b.awkward, one], axis=1), values)
    else:
        counts = b.counts

        def places() -> Any:
            ends = (counts + 2).cumsum(0)
            out = torch.empty((int(ends[-1]), *b.item), dtype=flat.dtype, device=b.device)
            inside = torch.ones(len(out), dtype=torch.bool, device=b.device)
            for where in (ends - counts - 2, ends - 1):
                inside[where] = False
                out[where] = item
            out[inside] = flat
            return out

    return Case(lambda: sf.concat([item, x, item]), {"places": places, **peers}, Limit(b.bytes, bytes_))


@operation("interleave")
def _(b: Batch) -> Case:
    """Two batches of the same lengths, item by item: the case in which an idiom is simple."""
    x, flat = b.ragged, b.flat
    stack = (lambda: np.stack([flat, flat], 1)) if b.arrays == "NumPy" else (lambda: torch.stack([flat, flat], 1))
    return Case(lambda: sf.interleave([x, x]), {"stack": stack}, Limit(2 * b.bytes, 2 * b.bytes))


@operation("template", IDS, ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    """Two sequences of tokens with what models want between them, types, and which tokens were put in."""
    x, flat = b.ragged, b.flat
    template = sf.Template([101, "a", 102, "b", 102])

    def places() -> Any:
        lengths = 2 * b.lengths + 3
        ends = np.cumsum(lengths)
        first, middle = ends - lengths, ends - b.lengths - 2
        out, special = np.empty(ends[-1], flat.dtype), np.zeros(ends[-1], bool)
        for where, token in ((first, 101), (middle, 102), (ends - 1, 102)):
            out[where], special[where] = token, True
        steps = np.arange(b.rows) - np.repeat(b.offsets[:-1], b.lengths)
        out[np.repeat(first + 1, b.lengths) + steps] = flat
        out[np.repeat(middle + 1, b.lengths) + steps] = flat
        types = np.repeat(np.tile([0, 1], b.n), np.stack([b.lengths + 2, b.lengths + 1], 1).reshape(-1))
        return out, types, special

    def read(made: Any) -> Any:
        return np.concatenate([plain(part) for part in made])

    total = (2 * b.rows + 3 * b.n) * (2 * b.row_bytes + 1)
    return Case(lambda: template(x, x), {"NumPy": Peer(places, read)}, Limit(2 * b.bytes, total), read)


@operation("split_at", IDS, ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    """Sequences of tokens in parts, which end with one token of a hundred."""
    flat = b.flat % 100
    x = sf.Ragged(flat, b.lengths)

    def views() -> Any:
        """One sequence of them all, since an idiom for more is far longer."""
        return np.split(flat, np.flatnonzero(flat == 0) + 1)

    def bounds() -> Any:
        """The lengths of parts, and how many parts there are of each sequence."""
        ends = np.union1d(np.flatnonzero(flat == 0) + 1, b.offsets[1:])
        return np.diff(ends, prepend=0), np.diff(np.searchsorted(ends, b.offsets, side="right"))

    def read(made: Any) -> Any:
        lengths = made.lengths() if isinstance(made, sf.LoD) else [made[1], made[0]]
        return np.concatenate([np.asarray(lengths[0]), np.asarray(lengths[1])])

    peers = {"NumPy bounds": bounds, "NumPy split": Peer(views, lambda _: read(sf.split_at(x, 0)))}
    return Case(lambda: sf.split_at(x, 0), peers, Limit(b.bytes, 0), read)


@operation("nest", IDS, ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    """Sequences grouped four by four; nothing is moved."""
    x, theirs = b.ragged, b.awkward
    groups = np.diff([*range(0, b.n, 4), b.n])
    peers = {"Awkward": Peer(lambda: ak.unflatten(theirs, groups), lambda y: plain(ak.flatten(y, axis=None)))}
    return Case(lambda: sf.nest(x, groups), peers)


@operation("flatten_levels", IDS, ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    """Parts joined to the sequences that they are of."""
    halves = np.stack([b.lengths // 2, b.lengths - b.lengths // 2], 1).reshape(-1)
    x = sf.LoD.from_lengths(b.flat, [np.full(b.n, 2), halves])
    theirs = ak.unflatten(ak.unflatten(b.flat, halves), np.full(b.n, 2))
    return Case(
        lambda: sf.flatten_levels(x),
        {"Awkward": Peer(lambda: ak.flatten(theirs, axis=2), values)},
    )
