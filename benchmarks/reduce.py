"""One item of every sequence, and the gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np

import seqformats as sf
from seqformats.operations.reduce import REDUCTIONS

from .cells import Case, Limit, Peer, operation, plain
from .data import FLOATS, Batch
from .peers import ak, ops, torch

SEGMENT = ("sum", "mean", "prod", "max", "min")  # torch.segment_reduce
AWKWARD = {name: name for name in (*SEGMENT, "var", "std", "any", "all")} | {"count": "count_nonzero"}


def first(x: Any) -> Any:
    """Thinc and torch give more than the values."""
    return x[0] if isinstance(x, tuple) else x


def numpy_peers(name: str, b: Batch) -> dict[str, Callable[[], Any] | Peer]:
    flat, flat2, counts = b.flat, b.flat2, b.lengths32
    begin, lengths = b.offsets[:-1], b.lengths.reshape(-1, *[1] * len(b.item))
    found: dict[str, Callable[[], Any] | Peer] = {}
    if name == "sum":
        found["NumPy reduceat"] = lambda: np.add.reduceat(flat, begin)
    elif name == "mean":
        found["NumPy reduceat"] = lambda: np.add.reduceat(flat, begin) / lengths
    elif name == "sqrt":
        found["NumPy reduceat"] = lambda: np.add.reduceat(flat, begin) / np.sqrt(lengths)
    elif name in ("prod", "max", "min"):
        function = {"prod": np.multiply, "max": np.maximum, "min": np.minimum}[name]
        found["NumPy reduceat"] = lambda: function.reduceat(flat, begin)
    elif name == "first":
        found["NumPy index"] = lambda: flat[begin]
        found["NumPy take"] = lambda: flat.take(begin, 0)
    elif name == "last":
        found["NumPy index"] = lambda: flat[b.offsets[1:] - 1]
        found["NumPy take"] = lambda: flat.take(b.offsets[1:] - 1, 0)
    elif name == "logsumexp":

        def composed() -> np.ndarray:
            most = np.maximum.reduceat(flat, begin)
            return np.log(np.add.reduceat(np.exp(flat - np.repeat(most, b.lengths, 0)), begin)) + most

        found["NumPy reduceat"] = composed
    elif name in ("var", "std"):

        def moment() -> np.ndarray:
            beside = flat - np.repeat((np.add.reduceat(flat, begin) / lengths).astype(flat.dtype), b.lengths, 0)
            found = np.add.reduceat(beside * beside, begin) / lengths
            return found if name == "var" else np.sqrt(found)

        found["NumPy reduceat"] = moment
    elif name == "count":
        found["NumPy reduceat"] = lambda: np.add.reduceat(flat != 0, begin, dtype=np.int64)
    elif name in ("any", "all"):
        joined = np.logical_or if name == "any" else np.logical_and
        found["NumPy reduceat"] = lambda: joined.reduceat(flat, begin)
    elif name in ("median", "nunique") and b.name != "skewed":
        found["NumPy sort, padded"] = sorted_peer(name, b)
    if name in ("sum", "mean", "max", "first", "last"):
        theirs = getattr(ops, f"reduce_{name}")
        found["Thinc"] = Peer(lambda: theirs(flat2, counts), first)
    if name in AWKWARD and b.name != "many":  # seconds a call there
        found["Awkward"] = lambda: getattr(ak, AWKWARD[name])(b.awkward, axis=1)
    return found


def sorted_peer(name: str, b: Batch) -> Callable[[], Any]:
    """Medians, or numbers of different items, of a padded batch that is sorted whole."""
    masked = sf.convert(b.ragged, sf.Masked, fill=np.inf).data
    lengths = b.lengths.reshape(-1, 1, *[1] * len(b.item))
    middle = np.concatenate([(lengths - 1) // 2, lengths // 2], 1)
    inside = np.arange(1, b.longest).reshape(1, -1, *[1] * len(b.item)) < lengths

    def run() -> np.ndarray:
        ordered = np.sort(masked, 1)
        if name == "median":
            return np.take_along_axis(ordered, middle, 1).mean(1)
        return ((ordered[:, 1:] != ordered[:, :-1]) & inside).sum(1) + 1

    return run


def torch_peers(name: str, b: Batch) -> dict[str, Callable[[], Any] | Peer]:
    flat, counts, ends = b.flat, b.counts, b.ends
    divisor = counts.reshape(-1, *[1] * len(b.item))
    if name in SEGMENT:
        found: dict[str, Callable[[], Any] | Peer] = {
            "segment_reduce": lambda: torch.segment_reduce(flat, name, lengths=counts, axis=0, unsafe=True)
        }
        if name in ("sum", "mean"):
            jagged = b.jagged
            found["nested"] = lambda: getattr(jagged, name)(1)
        return found
    if name == "sqrt":
        return {
            "segment_reduce": lambda: (
                torch.segment_reduce(flat, "sum", lengths=counts, axis=0, unsafe=True) / divisor.sqrt()
            )
        }
    if name == "first":
        return {"index_select": lambda: flat.index_select(0, ends[:-1])}
    if name == "last":
        return {"index_select": lambda: flat.index_select(0, ends[1:] - 1)}

    if name in ("var", "std"):

        def moment() -> Any:
            mean = torch.segment_reduce(flat, "mean", lengths=counts, axis=0, unsafe=True)
            beside = flat - torch.repeat_interleave(mean, counts, dim=0, output_size=b.rows)
            found = torch.segment_reduce(beside * beside, "mean", lengths=counts, axis=0, unsafe=True)
            return found if name == "var" else found.sqrt()

        return {"segment_reduce": moment}
    if name in ("count", "any", "all"):
        kind = {"count": "sum", "any": "max", "all": "min"}[name]
        return {
            "segment_reduce": lambda: torch.segment_reduce(
                (flat != 0).float(), kind, lengths=counts, axis=0, unsafe=True
            )
        }
    if name != "logsumexp":
        return {}

    def composed() -> Any:
        most = torch.segment_reduce(flat, "max", lengths=counts, axis=0, unsafe=True)
        shifted = flat - torch.repeat_interleave(most, counts, dim=0, output_size=b.rows)
        return torch.segment_reduce(shifted.exp(), "sum", lengths=counts, axis=0, unsafe=True).log() + most

    found = {"segment_reduce": composed}
    if b.name != "skewed":
        masked = sf.convert(b.ragged, sf.Masked, fill=-np.inf).data
        found["padded with -inf"] = lambda: masked.logsumexp(1)
    return found


def reduction(name: str, b: Batch) -> Case:
    ours, x = getattr(sf, f"reduce_{name}"), b.ragged
    peers = (numpy_peers if b.arrays == "NumPy" else torch_peers)(name, b)
    few = b.n * b.row_bytes
    limit = Limit(few, few) if name in ("first", "last") else Limit(b.bytes, few)
    return Case(lambda: ours(x), peers, limit, exact=False)


def gradient(name: str, b: Batch) -> Case:
    x, dy, flat, flat2 = b.ragged, b.rows_of_ones, b.flat, b.flat2
    y, pullback = sf.vjp(getattr(sf, f"reduce_{name}"), x)
    few = b.n * b.row_bytes
    limit = Limit(few, b.bytes)
    if name not in ("sum", "mean", "sqrt", "first", "last"):
        limit = Limit(few + b.bytes, b.bytes)
    lengths = b.lengths.reshape(-1, *[1] * len(b.item))
    peers: dict[str, Callable[[], Any] | Peer] = {}
    if b.arrays == "NumPy":
        by = {"sum": 1, "mean": lengths, "sqrt": np.sqrt(lengths)}
        if name in by:
            root = by[name]
            peers["NumPy repeat"] = lambda: np.repeat((dy / root).astype(dy.dtype, copy=False), b.lengths, 0)
        elif name in ("first", "last"):
            where = b.offsets[:-1] if name == "first" else b.offsets[1:] - 1

            def placed() -> np.ndarray:
                out = np.zeros_like(flat)
                out[where] = dy
                return out

            peers["NumPy index"] = placed
        elif name in ("var", "std"):
            scale = (dy * 2 / lengths if name == "var" else dy / lengths / np.where(y == 0, 1, y)).astype(dy.dtype)

            def beside() -> np.ndarray:
                mean = (np.add.reduceat(flat, b.offsets[:-1]) / lengths).astype(flat.dtype)
                return (flat - np.repeat(mean, b.lengths, 0)) * np.repeat(scale, b.lengths, 0)

            peers["NumPy repeat"] = beside
        elif name == "logsumexp":
            peers["NumPy repeat"] = lambda: np.exp(flat - np.repeat(y, b.lengths, 0)) * np.repeat(dy, b.lengths, 0)
        dy2 = dy.reshape(b.n, -1)
        if name in ("sum", "mean"):
            back = getattr(ops, f"backprop_reduce_{name}")
            peers["Thinc"] = lambda: back(dy2, b.lengths32)
        elif name in ("max", "first", "last") and ops:
            back, saved = getattr(ops, f"backprop_reduce_{name}"), getattr(ops, f"reduce_{name}")(flat2, b.lengths32)[1]
            if name == "max":
                peers["Thinc"] = lambda: back(dy2, saved, b.lengths32)
            else:
                peers["Thinc"] = lambda: back(dy2, saved)
    else:
        counts, ends = b.counts, b.ends
        divisor = counts.reshape(-1, *[1] * len(b.item))
        by = {"sum": None, "mean": divisor, "sqrt": divisor.sqrt()}
        if name in by:
            root = by[name]
            peers["repeat_interleave"] = lambda: torch.repeat_interleave(
                dy if root is None else dy / root, counts, dim=0, output_size=b.rows
            )
        elif name in ("first", "last"):
            where = ends[:-1] if name == "first" else ends[1:] - 1
            peers["index_copy"] = lambda: torch.zeros_like(flat).index_copy_(0, where, dy)
        elif name == "logsumexp":
            peers["repeat_interleave"] = lambda: (
                (flat - torch.repeat_interleave(y, counts, dim=0, output_size=b.rows)).exp_()
                * torch.repeat_interleave(dy, counts, dim=0, output_size=b.rows)
            )
        if name in SEGMENT:
            peers["segment_reduce_backward"] = lambda: torch.ops.aten._segment_reduce_backward(
                dy, y, flat, name, lengths=counts, axis=0
            )
    return Case(lambda: pullback(dy), peers, limit, exact=False)


def through_autograd(name: str, b: Batch) -> Case:
    """Forward and back, as a training step has it."""
    leaf = b.flat.clone().requires_grad_()
    dy, counts, lengths = b.rows_of_ones, b.counts, b.lengths
    few = b.n * b.row_bytes

    def ours() -> Any:
        return torch.autograd.grad(getattr(sf, f"reduce_{name}")(sf.Ragged(leaf, lengths)), leaf, dy)[0]

    def theirs() -> Any:
        y = torch.segment_reduce(leaf, name, lengths=counts, axis=0, unsafe=True)
        return torch.autograd.grad(y, leaf, dy)[0]

    limit = Limit(b.bytes * (2 if name in ("prod", "max", "min") else 1) + few, b.bytes)
    return Case(ours, {"segment_reduce": theirs}, limit, exact=False)


for _name, _record in REDUCTIONS.items():
    operation(f"reduce_{_name}", FLOATS)(lambda b, name=_name: reduction(name, b))
    if _record.pullback is not None:
        operation(f"reduce_{_name} gradient", FLOATS)(lambda b, name=_name: gradient(name, b))
for _name in SEGMENT:
    operation(f"reduce_{_name} with autograd", FLOATS, ["PyTorch"])(lambda b, name=_name: through_autograd(name, b))


def weighted(name: str, b: Batch) -> Case:
    """With a weight for each item."""
    ours, x, flat, begin, counts = getattr(sf, f"reduce_{name}"), b.ragged, b.flat, b.offsets[:-1], b.counts
    weights = b.put(np.random.default_rng(3).random(b.rows, np.float32))
    column = weights.reshape(-1, *[1] * len(b.item))

    def numpys() -> np.ndarray:
        sums = np.add.reduceat(flat * column, begin)
        return sums if name == "sum" else sums / np.add.reduceat(column, begin)

    def torchs() -> Any:
        sums = torch.segment_reduce(flat * column, "sum", lengths=counts, axis=0, unsafe=True)
        return (
            sums if name == "sum" else sums / torch.segment_reduce(column, "sum", lengths=counts, axis=0, unsafe=True)
        )

    peers = {"NumPy reduceat": numpys} if b.arrays == "NumPy" else {"segment_reduce": torchs}
    limit = Limit(b.bytes + 4 * b.rows, b.n * b.row_bytes)
    return Case(lambda: ours(x, weights=weights), peers, limit, exact=False)


for _name in ("sum", "mean"):
    operation(f"reduce_{_name}, weighted", FLOATS)(lambda b, name=_name: weighted(name, b))


@operation("reduce_quantile", FLOATS)
def _(b: Batch) -> Case:
    """Three of them."""
    x, levels = b.ragged, [0.1, 0.5, 0.9]
    peers: dict[str, Callable[[], Any] | Peer] = {}
    if b.name not in ("skewed", "many"):
        masked = sf.convert(x, sf.Masked, fill=np.nan).data
        if b.arrays == "NumPy":
            peers["NumPy nanquantile, padded"] = lambda: np.nanquantile(masked, levels, axis=1).swapaxes(0, 1)
        else:
            q = b.put(np.array(levels, np.float32))
            peers["nanquantile, padded"] = lambda: masked.nanquantile(q, dim=1).swapaxes(0, 1).contiguous()
    return Case(lambda: sf.reduce_quantile(x, levels), peers, Limit(b.bytes, 3 * b.n * b.row_bytes), exact=False)


@operation("argmax", FLOATS)
def _(b: Batch) -> Case:
    x, masked = b.ragged, sf.convert(b.ragged, sf.Masked, fill=-np.inf).data if b.name != "skewed" else None
    peers = {}
    if masked is not None:
        peers["padded with -inf"] = lambda: masked.argmax(1)
    if b.arrays == "NumPy":
        peers["Thinc reduce_max"] = Peer(lambda: ops.reduce_max(b.flat2, b.lengths32)[1])
    return Case(lambda: sf.argmax(x), peers, Limit(b.bytes, 2 * b.n * b.row_bytes))


@operation("argmin", FLOATS)
def _(b: Batch) -> Case:
    x, peers = b.ragged, {}
    if b.name != "skewed":
        masked = sf.convert(x, sf.Masked, fill=np.inf).data
        peers["padded with inf"] = lambda: masked.argmin(1)
    return Case(lambda: sf.argmin(x), peers, Limit(b.bytes, 2 * b.n * b.row_bytes))


@operation("topk_mean", FLOATS)
def _(b: Batch) -> Case:
    x = b.ragged
    limit = Limit(b.bytes, 2 * b.n * b.row_bytes)
    if b.name in ("skewed", "many") or not b.item:
        return Case(lambda: sf.topk_mean(x, [1, 3]), {}, limit)
    masked = sf.convert(x, sf.Masked, fill=-np.inf).data
    if b.longest < 3:
        return Case(lambda: sf.topk_mean(x, [1, 3]), {}, limit)
    if b.arrays == "NumPy":

        def idiom() -> np.ndarray:
            best = np.sort(np.partition(masked, masked.shape[1] - 3, axis=1)[:, -3:], axis=1)[:, ::-1]
            best = np.where(np.isneginf(best), 0, best)
            return np.stack([best[:, 0], best.sum(1) / 3], 1)

        return Case(lambda: sf.topk_mean(x, [1, 3]), {"NumPy partition, padded": idiom}, limit, exact=False)

    def with_topk() -> Any:
        best = masked.topk(3, dim=1).values
        best = best.masked_fill(best == -np.inf, 0)
        return torch.stack([best[:, 0], best.sum(1) / 3], 1)

    return Case(lambda: sf.topk_mean(x, [1, 3]), {"topk, padded": with_topk}, limit, exact=False)


@operation("reduce_sum, from arrays", FLOATS)
def _(b: Batch) -> Case:
    """With the encoding made in the call."""
    flat, lengths = b.flat, b.lengths
    peers: dict[str, Any] = {}
    if b.arrays == "NumPy":
        flat2, counts = b.flat2, b.lengths32
        peers["Thinc"] = lambda: ops.reduce_sum(flat2, counts)
        peers["NumPy reduceat"] = lambda: np.add.reduceat(flat, np.cumsum(lengths) - lengths)
    else:
        counts = b.counts
        peers["segment_reduce"] = lambda: torch.segment_reduce(flat, "sum", lengths=counts, axis=0)
    return Case(
        lambda: sf.reduce_sum(sf.Ragged(flat, lengths)),
        peers,
        Limit(b.bytes, b.n * b.row_bytes),
        plain,
        exact=False,
    )
