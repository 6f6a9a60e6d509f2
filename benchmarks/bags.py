"""Rows of a table in bags, and products of pairs of sequences, beside PyTorch's bags and loops with BLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import seqformats as sf

from .cells import Case, Peer, operation
from .data import Batch
from .peers import torch

ROWS, WIDTH = 100_000, 64
"""Of the table."""
BAGS = ("tiny", "small", "text", "many")
PAIRS = ("tiny", "small", "text", "wide")


class Bags:
    """A table, ids, and where PyTorch finds the bags."""

    def __init__(self, b: Batch) -> None:
        rng = np.random.default_rng(4)
        self.table = b.put(rng.standard_normal((ROWS, WIDTH), np.float32))
        self.ids = sf.Ragged(b.put(rng.integers(0, ROWS, b.rows)), b.lengths)
        self.offsets = b.put(b.offsets)

    def by_torch(self, table: Any, mode: str) -> Any:
        return torch.nn.functional.embedding_bag(
            self.ids.data, table, self.offsets, mode=mode, include_last_offset=True
        )


def of_bags(mode: str) -> None:
    """Declare the operation, forwards, and with the gradient of a table of which few rows are named, or many."""

    @operation(f"embedding_bag, {mode}", BAGS)
    def _(b: Batch) -> Case:
        bags = Bags(b)
        if b.arrays == "PyTorch":
            peers: dict[str, Any] = {"PyTorch": lambda: bags.by_torch(bags.table, mode)}
        else:
            reduced = {"sum": np.add, "mean": np.add, "max": np.maximum}[mode].reduceat
            divisors = b.lengths[:, None].astype("f4") if mode == "mean" else np.float32(1)
            peers = {"NumPy reduceat": lambda: reduced(bags.table[bags.ids.data], b.offsets[:-1], 0) / divisors}
        return Case(lambda: sf.embedding_bag(bags.table, bags.ids, mode=mode), peers, exact=False)

    @operation(f"embedding_bag, {mode}, and gradient", BAGS, arrays=("PyTorch",))
    def _(b: Batch) -> Case:
        bags = Bags(b)
        table = bags.table.requires_grad_()
        slopes = torch.ones(b.n, WIDTH, device=table.device)

        def trained(reduce: Callable[[], Any]) -> Any:
            table.grad = None
            reduce().backward(slopes)
            return table.grad

        return Case(
            lambda: trained(lambda: sf.embedding_bag(table, bags.ids, mode=mode)),
            {"PyTorch": lambda: trained(lambda: bags.by_torch(table, mode))},
            exact=False,
        )


for _mode in ("sum", "mean", "max"):
    of_bags(_mode)


@operation("embedding_bag, sum, and sparse gradient", BAGS, arrays=("PyTorch",), cuda=False)
def _(b: Batch) -> Case:
    """The gradient as optimizers take it: each row once."""
    bags = Bags(b)
    table = bags.table.requires_grad_()
    slopes = torch.ones(b.n, WIDTH)

    def trained(y: Any) -> Any:
        table.grad = None
        y.backward(slopes)
        return table.grad.coalesce()

    def by_torch() -> Any:
        return torch.nn.functional.embedding_bag(
            bags.ids.data, table, bags.offsets, mode="sum", include_last_offset=True, sparse=True
        )

    peers = {"PyTorch": Peer(lambda: trained(by_torch()), lambda y: y.values().numpy())}
    ours = lambda: trained(sf.embedding_bag(table, bags.ids, sparse=True))  # noqa: E731
    return Case(ours, peers, exact=False, read=lambda y: y.values().numpy())


def pairs(b: Batch) -> tuple[sf.Ragged, sf.Ragged, list[tuple[Any, Any]]]:
    """Two batches over the same sequences, of which the second is transposed in the list of all pairs."""
    rng = np.random.default_rng(5)
    x = b.ragged
    lengths = rng.permutation(b.lengths)
    y = sf.Ragged(b.put(rng.standard_normal((b.rows, *b.item), np.float32)), lengths)
    return x, y, [(one, other.T) for one, other in zip(x.sequences(), y.sequences(), strict=True)]


@operation("pairwise_dot", PAIRS)
def _(b: Batch) -> Case:
    x, y, both = pairs(b)
    peer = Peer(lambda: [one @ other for one, other in both])
    return Case(lambda: sf.pairwise_dot(x, y), {"a loop": peer}, exact=False)


@operation("maxsim", PAIRS)
def _(b: Batch) -> Case:
    x, y, both = pairs(b)
    if b.arrays == "PyTorch":
        loop = lambda: torch.stack([(one @ other).amax(1).sum() for one, other in both])  # noqa: E731
    else:
        loop = lambda: np.array([(one @ other).max(1).sum() for one, other in both])  # noqa: E731
    return Case(lambda: sf.maxsim(x, y), {"a loop": loop}, exact=False)
