"""Columns of Arrow to padded tensors with a mask, and batches to columns."""

from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Peer, operation, plain
from .data import Batch
from .peers import ak, pa, torch

COUNTS = (32, 1_024, 10_000)
"""How many sequences of the batch are in the column."""


def column_of(b: Batch, count: int) -> Any:
    """The first sequences of a batch of token ids, as a list column."""
    offsets = b.offsets[: count + 1]
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(plain(b.flat)[: offsets[-1]]))


def padded(sequences: list[Any]) -> Any:
    """What a user of PyTorch writes, who has tensors."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    batch = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    return batch, torch.arange(batch.shape[1])[None] < lengths[:, None]


def from_column(b: Batch, count: int) -> Case:
    column = column_of(b, count) if pa else None

    def ours() -> Any:
        x = sf.convert(column, sf.Masked, library="torch")
        return x.data, x.mask

    def by_lists() -> Any:
        return padded([torch.tensor(row) for row in column.to_pylist()])

    def by_arrays() -> Any:
        return padded([torch.from_numpy(row) for row in column.to_numpy(zero_copy_only=False)])

    def by_awkward() -> Any:
        rows = ak.from_arrow(column)
        lengths = ak.to_numpy(ak.num(rows))
        width = int(lengths.max())
        found = ak.to_numpy(ak.fill_none(ak.pad_none(rows, width, clip=True), 0))
        return torch.from_numpy(found), torch.from_numpy(np.arange(width) < lengths[:, None])

    peers = {"to_pylist, pad_sequence": by_lists, "to_numpy, pad_sequence": by_arrays, "Awkward Array": by_awkward}
    return Case(Peer(ours), peers)


for _count in COUNTS:
    operation(f"column of {_count:,} -> padded, mask", ["ids"], ["PyTorch"], cuda=False)(
        lambda b, count=_count: from_column(b, count)
    )


@operation("to_arrow", ["ids"], ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    x, items = sf.Ragged(b.flat, b.lengths), b.items
    peers = {
        "pa.array of arrays": lambda: pa.array(items),
        "Awkward Array": lambda: ak.to_arrow(ak.unflatten(b.flat, b.lengths), extensionarray=False),
    }
    return Case(lambda: sf.to_arrow(x), peers, read=lambda column: column.flatten().to_numpy())
