"""Batches as time steps, as recurrent loops want them, and back."""

from itertools import pairwise
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Limit, Peer, operation, plain
from .data import Batch
from .peers import torch


def order_of(b: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sequences by falling length, where each step ends, and the row of each item in the order of steps."""
    order = np.argsort(-b.lengths, kind="stable")
    sizes = np.searchsorted(np.sort(-b.lengths), -np.arange(b.longest), side="left")
    ends = np.concatenate([[0], np.cumsum(sizes)])
    column = np.arange(b.rows) - np.repeat(ends[:-1], sizes)
    return order, ends, b.offsets[order[column]] + np.repeat(np.arange(b.longest), sizes)


@operation("TensorArray.unpack")
def _(b: Batch) -> Case:
    flat, lengths = b.flat, b.lengths
    if b.arrays == "NumPy":

        def gather() -> Any:
            _, ends, rows = order_of(b)
            ordered = flat[rows]
            return [ordered[a:z] for a, z in pairwise(ends.tolist())]

        peers = {"NumPy gather": gather}
        read = plain
    else:
        counts = b.lengths.tolist()

        def pack() -> Any:
            packed = torch.nn.utils.rnn.pack_sequence(torch.split(flat, counts), enforce_sorted=False)
            return torch.split(packed.data, packed.batch_sizes.tolist())

        peers = {"pack_sequence, split": pack}

        def read(steps: Any) -> Any:  # who is first among sequences of one length is not the same
            return np.concatenate([np.sort(plain(step), axis=0).reshape(-1) for step in steps])

    return Case(lambda: sf.TensorArray.unpack(sf.Ragged(flat, lengths)).steps, peers, Limit(b.bytes, b.bytes), read)


@operation("TensorArray.pack")
def _(b: Batch) -> Case:
    x = b.ragged
    old = sf.TensorArray.unpack(x)
    steps = list(old.steps)
    if b.arrays == "NumPy":

        def scatter() -> Any:
            data = np.concatenate(steps)
            out = np.empty_like(data)
            out[order_of(b)[2]] = data
            return out

        peers = {"NumPy scatter": scatter}
    else:
        rnn = torch.nn.utils.rnn
        sizes = torch.tensor([len(step) for step in steps])
        order = torch.from_numpy(x._structure.order.indices.copy()).to(b.device)

        def unpack() -> Any:
            packed = rnn.PackedSequence(torch.cat(steps), sizes, order, torch.argsort(order))
            return torch.cat(rnn.unpack_sequence(packed))

        peers = {"cat, unpack_sequence": unpack}
    # with_steps is what a loop ends with; the steps are joined and brought into the caller's order
    return Case(lambda: old.with_steps(steps).pack(), {k: Peer(f) for k, f in peers.items()}, Limit(b.bytes, b.bytes))
