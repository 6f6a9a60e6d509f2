"""In and out of pipelines: the inputs of a language model, functions of every sequence, sequences as arrays."""

from typing import Any

import numba
import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import FLOATS, Batch
from .peers import torch

IDS = ("ids",)


@operation("model_inputs", IDS, cuda=False)
def _(b: Batch) -> Case:
    """Ids, mask, positions and labels, padded on the left."""
    items, lengths = b.items, b.lengths
    peers: dict[str, Any]
    if b.arrays == "NumPy":

        def loop() -> Any:
            width = max(map(len, items))
            ids = np.zeros((len(items), width), np.int64)
            mask = np.zeros_like(ids)
            for row, item in enumerate(items):
                ids[row, width - len(item) :] = item
                mask[row, width - len(item) :] = 1
            return ids, mask, np.maximum(mask.cumsum(1) - 1, 0), np.where(mask == 0, -100, ids)

        peers = {"NumPy, a loop": loop}
    else:

        def padded() -> Any:
            ids = torch.nn.utils.rnn.pad_sequence(items, True, 0, "left")
            width = ids.shape[1]
            mask = (torch.arange(width)[None] >= width - torch.from_numpy(lengths)[:, None]).long()
            return ids, mask, (mask.cumsum(1) - 1).clamp(min=0), ids.masked_fill(mask == 0, -100)

        peers = {"pad_sequence and a mask": padded}
    library = "numpy" if b.arrays == "NumPy" else "torch"
    written = 4 * 8 * b.n * int(lengths.max())
    ours = Peer(lambda: sf.model_inputs(items, library=library), lambda found: plain(list(found.values())))
    return Case(ours, peers, Limit(b.bytes, written), read=plain)


@numba.njit(nogil=True)
def spread(sequence: Any) -> Any:
    """The largest number less the least."""
    return sequence.max() - sequence.min()


def spread_of(sequence: Any) -> Any:
    return sequence.max() - sequence.min()


@operation("map_sequences, compiled", FLOATS, ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    x, items = b.ragged, b.items
    peers = {"Python loop": lambda: np.array([spread_of(item) for item in items])}
    return Case(lambda: sf.map_sequences(spread, x), peers, Limit(b.bytes, 0))


@operation("map_sequences, Python", FLOATS, ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    x, flat, offsets = b.ragged, b.flat, b.offsets

    def loop() -> Any:
        return np.array([spread_of(item) for item in np.split(flat, offsets[1:-1])])

    return Case(lambda: sf.map_sequences(spread_of, x), {"np.split and a loop": loop}, Limit(b.bytes, 0))


@operation("sequences", IDS, cuda=False)
def _(b: Batch) -> Case:
    x, flat, offsets = b.ragged, b.flat, b.offsets
    if b.arrays == "NumPy":
        peers: dict[str, Any] = {"np.split": lambda: np.split(flat, offsets[1:-1])}
    else:
        sizes = b.lengths.tolist()
        peers = {"torch.split": lambda: torch.split(flat, sizes)}
    return Case(lambda: list(x.sequences()), peers, read=plain)
