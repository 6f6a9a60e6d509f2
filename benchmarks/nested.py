"""Nested Python lists, to a `LoD` and back."""

from itertools import chain, pairwise
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Peer, operation, plain
from .data import Batch
from .peers import ak, pa


def lists_of(b: Batch) -> list[Any]:
    """Sequences as lists of numbers, or of lists of numbers."""
    return [x.tolist() for x in b.items]


def levels(b: Batch) -> int:
    return 1 + len(b.item)


def dtype(b: Batch) -> type:
    """Python has one kind of float."""
    return np.int64 if b.shape.dtype == "int64" else np.float64


def arrow_type(b: Batch) -> Any:
    kind = pa.int64() if b.shape.dtype == "int64" else pa.float64()
    for _ in range(levels(b)):
        kind = pa.large_list(kind)
    return kind


def arrow_items(x: Any) -> np.ndarray:
    while hasattr(x, "flatten") and pa.types.is_large_list(x.type):
        x = x.flatten()
    return x.to_numpy()


@operation("nested lists -> LoD", ["ids", "short"], ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    nested = lists_of(b)

    def numpy() -> Any:
        """By the shortest way of the standard library."""
        rows = nested
        ends = []
        for _ in range(levels(b)):
            ends.append(np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows))))
            rows = list(chain.from_iterable(rows))
        return np.array(rows, dtype(b)), ends

    peers = {
        "NumPy, itertools": Peer(numpy, lambda x: x[0]),
        "Awkward": Peer(lambda: ak.from_iter(nested), lambda x: plain(ak.flatten(x, axis=None))),
        "pyarrow": Peer(lambda: pa.array(nested, arrow_type(b)), arrow_items),
    }
    return Case(lambda: sf.LoD.from_nested(nested, dtype(b)), peers)


@operation("LoD -> nested lists", ["ids", "short"], ["NumPy"], cuda=False)
def _(b: Batch) -> Case:
    nested = lists_of(b)
    x = sf.LoD.from_nested(nested, dtype(b))
    theirs: dict[str, Any] = {}
    if ak:
        theirs["Awkward"] = ak.from_iter(nested).to_list
    if pa:
        theirs["pyarrow"] = pa.array(nested, arrow_type(b)).to_pylist

    def numpy() -> Any:
        """Level by level, slices of one list."""
        rows = x.data.tolist()
        for offsets in reversed(x.lod):
            ends = offsets.tolist()
            rows = [rows[a:z] for a, z in pairwise(ends)]
        return rows

    def read(y: Any) -> Any:
        for _ in range(levels(b)):
            y = chain.from_iterable(y)
        return np.fromiter(y, dtype(b))

    return Case(x.to_nested, {"NumPy, slices": numpy, **theirs}, read=read)
