"""Every operation with a gradient, by name, as a function of one batch of six rows of two numbers."""

import numpy as np
import pytest

import seqformats as sf
from seqformats.operations import reduce

torch = pytest.importorskip("torch")

FORMATS = [sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD]
LENGTHS = [3, 0, 1, 2]
OTHER = torch.rand(5, 2, dtype=torch.float64)
LIKE = sf.LoD(np.zeros(4), [[0, 1, 1, 4, 4], [0, 2, 2, 3, 4]])


def other(x):
    """A second operand in the dtype of the first."""
    return sf.Ragged(OTHER.to(x.dtype), [1, 2, 2, 0])


REDUCTIONS = {name: getattr(sf, f"reduce_{name}") for name, record in reduce.REDUCTIONS.items() if record.has_gradient}
OPERATIONS = {
    **{f"reduce_{name}": function for name, function in REDUCTIONS.items()},
    "reduce_logsumexp": lambda x: sf.reduce_logsumexp(x, empty=0.0),
    "var of a sample": lambda x: sf.reduce_var(x, ddof=1),
    "quantile": lambda x: sf.reduce_quantile(x, [0.1, 0.5, 0.77]),
    "topk_mean": lambda x: sf.topk_mean(x, [1, 2, 4]),
    "softmax": sf.softmax,
    "log_softmax": sf.log_softmax,
    "cumsum": sf.cumsum,
    "attention": lambda x: sf.attention(x, x, x, causal=True),
    "reverse": sf.reverse,
    "shuffle": lambda x: sf.shuffle(x, 5),
    "cross_entropy": lambda x: sf.cross_entropy(x, torch.tensor([1, 0, -1, 0, 1, 1]), ignore=-1),
    "slice": lambda x: sf.slice(x, [1, 0, 0, 0], [2, 0, 0, 2]),
    "cut": lambda x: sf.cut(x, 1, -1),
    "cut by steps": lambda x: sf.cut(x, -1, None, -2),
    "truncate": lambda x: sf.truncate(x, 2, "middle"),
    "truncate_pair": lambda x: sf.truncate_pair(x, other(x), 3)[0],
    "shift": lambda x: sf.shift(x, -1, fill=7.0),
    "chunk": lambda x: sf.chunk(x, 2, 1),
    "padded chunks": lambda x: sf.chunk(x, 2, last="pad"),
    "unchunk": lambda x: sf.unchunk(sf.chunk(x, 2, 1), "mean"),
    "largest of chunks": lambda x: sf.unchunk(sf.chunk(x, 2, 1), "max"),
    "reshape": lambda x: sf.reshape(x, 1),
    "window": lambda x: sf.window(x, 1, 2),
    "ngrams": lambda x: sf.ngrams(x, 2, fill=7.0),
    "conv": lambda x: sf.conv(x, torch.linspace(-1, 1, 18, dtype=x.dtype).reshape(6, 3), 1, 1),
    "concat": lambda x: sf.concat([x, other(x)]),
    "expand": lambda x: sf.expand(x, LIKE, level=0),
    "repeat": lambda x: sf.repeat(x, [2, 1, 0, 3]),
    "expand_as": lambda x: sf.expand_as(x, sf.Ragged(np.zeros(9), [2, 0, 1, 3, 2, 1])),
    "reorder": lambda x: sf.reorder(x, [2, 0, 3, 1]),
    "select": lambda x: sf.select(x, [3, 0, 0, 1]),
    "join_batches": lambda x: sf.join_batches([x, other(x)]),
    "shrink": lambda x: sf.shrink(x, sf.Ragged(np.zeros(6), [3, 2, 1, 0]), 1),
    "unpack": lambda x: torch.cat(sf.TensorArray.unpack(x).steps),
    "pack": lambda x: sf.TensorArray.unpack(x).pack(),
    "split_batches": lambda x: sf.split_batches(x, [1, 3])[1],
    "sort_by_length": lambda x: sf.sort_by_length(x)[0],
    "gather": lambda x: sf.gather(x, sf.Ragged(np.array([2, 0, 0, 0, 1]), [3, 0, 1, 1])),
    "interleave": lambda x: sf.interleave([x, x]),
    "cross": lambda x: sf.cross(x, other(x)).one,
    "filter": lambda x: sf.filter(x, sf.Ragged(np.array([True, False, True, True, False, True]), LENGTHS)),
    "masked_scatter": lambda x: sf.masked_scatter(x, torch.tensor([1, 0, 0, 1, 0, 1]) > 0, other(x).data[:3]),
    "put_sequences": lambda x: sf.put_sequences(x, [3, 0, 3], other(x)[:3]),
    "split": lambda x: sf.split(x, sf.Ragged(np.array([True, False, True, True, False, True]), LENGTHS)),
    "flatten_levels": lambda x: sf.flatten_levels(sf.chunk(x, 2)),
    "nest": lambda x: sf.nest(x, [2, 2]),
    "astype": lambda x: sf.astype(x, "float64"),
    "sort": sf.sort,
    "topk": lambda x: sf.topk(x, 2)[0],
    "scatter": lambda x: sf.scatter(
        torch.ones(4, 5, 2, dtype=x.dtype), sf.Ragged(np.array([0, 1, 2, 0, 1, 1]), LENGTHS), x
    ),
    "convert_like": lambda x: sf.convert_like(sf.convert(x, sf.Packed), x),
    "reduce": lambda x: sf.reduce(x, "mean", empty=2.0),
}


def tensor_of(y):
    """The items of a result as one tensor, connected to its graph."""
    if isinstance(y, torch.Tensor):
        return y
    return torch.cat(list(y.items)) if isinstance(y, sf.List) else y.data
