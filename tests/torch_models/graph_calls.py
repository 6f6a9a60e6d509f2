"""Calls of every operation that a graph may hold, and the nodes that a compiled function has of them."""

import numpy as np

import seqformats as sf

LENGTHS = (3, 0, 2, 4)


def batch(lengths=LENGTHS, item=(2,), dtype="float32", kind=sf.Ragged, **options):
    """A batch of tensors with other items in each place."""
    import torch

    lengths = list(lengths)
    rows = sum(lengths)
    size = rows * int(np.prod(item, dtype=int))
    data = np.random.default_rng(size).permutation(size).reshape(rows, *item)
    return sf.convert(sf.Ragged(torch.from_numpy(data).to(getattr(torch, dtype)), lengths), kind, **options)


def asking(x):
    """The same batch, which asks for a gradient."""
    return x._with_data(x.data.detach().clone().requires_grad_())


def weight():
    import torch

    return torch.linspace(-1.0, 1.0, 18).reshape(6, 3)


def one_head(x):
    r = sf.convert(x, sf.Ragged)
    return sf.Ragged(r.data.unsqueeze(1), r.lengths)


one = sf.with_array(lambda rows: rows[:, 0])
floats = sf.with_array(lambda rows: rows.float())
with_ones = sf.with_array(lambda rows: rows * 0 + 1)

# Of each operation a call, as a function of a batch of floats and one of token ids
CALLS = {
    "argmax": lambda x, t: sf.argmax(x),
    "argmin": lambda x, t: sf.argmin(x),
    "argsort": lambda x, t: sf.argsort(t),
    "attention": lambda x, t: sf.attention(*[one_head(x)] * 3, causal=True),
    "bincount": lambda x, t: sf.bincount(sf.with_array(lambda rows: rows % 3)(t), 3),
    "diff": lambda x, t: sf.diff(x),
    "ffill": lambda x, t: sf.ffill(x, sf.run_starts(t)),
    "intersect": lambda x, t: sf.intersect(t, sf.sort(t)),
    "isin": lambda x, t: sf.isin(t, sf.reverse(t)),
    "merge_asof": lambda x, t: sf.merge_asof(t, sf.sort(t)),
    "scatter": lambda x, t: sf.scatter(x, sf.argsort(t), x),
    "searchsorted": lambda x, t: sf.searchsorted(sf.sort(t), t),
    "block_mask": lambda x, t: sf.block_mask(x, causal=True),
    "cu_seqlens": lambda x, t: sf.cu_seqlens(x),
    "mask": lambda x, t: sf.mask(x),
    "position_ids": lambda x, t: sf.position_ids(x),
    "segment_ids": lambda x, t: sf.segment_ids(x),
    "concat": lambda x, t: sf.concat([x, x]),
    "conv": lambda x, t: sf.conv(x, weight(), 1, 1),
    "convert": lambda x, t: sf.convert(x, sf.Masked, side="left", multiple_of=4, fill=-1),
    "cross_entropy": lambda x, t: sf.cross_entropy(x, sf.with_array(lambda rows: rows % 2)(t)),
    "ctc_loss": lambda x, t: sf.ctc_loss(sf.concat([x, x, x]), with_ones(t), normalised=False),
    "embedding_bag": lambda x, t: sf.embedding_bag(weight(), sf.with_array(lambda rows: rows % 3)(t), one(x)),
    "levenshtein": lambda x, t: sf.levenshtein(t, sf.reverse(t)),
    "rl.gae": lambda x, t: sf.rl.gae(one(x), floats(t), gamma=0.5, done=sf.run_starts(t)),
    "rl.mean_loss": lambda x, t: sf.rl.mean_loss(one(x)),
    "rl.whiten": lambda x, t: sf.rl.whiten(one(x)),
    "cumsum": lambda x, t: sf.cumsum(x),
    "cut": lambda x, t: sf.cut(x, 1, -1),
    "ema": lambda x, t: sf.ema(x, 0.5, where=sf.run_starts(t)),
    "erase": lambda x, t: sf.erase(t, [1, 3]),
    "expand": lambda x, t: sf.expand(x, t),
    "expand_as": lambda x, t: sf.expand_as(sf.reduce_sum(x), x),
    "filter": lambda x, t: sf.filter(x, sf.run_starts(t)),
    "gather": lambda x, t: sf.gather(x, sf.argsort(t)),
    "interleave": lambda x, t: sf.interleave([x, x]),
    "join_batches": lambda x, t: sf.join_batches([x, x]),
    "linear_cross_entropy": lambda x, t: sf.linear_cross_entropy(
        x, weight()[:, :2], sf.with_array(lambda rows: rows % 6)(t), bias=weight()[:, 2]
    ),
    "log_softmax": lambda x, t: sf.log_softmax(x),
    "masked_scatter": lambda x, t: sf.masked_scatter(x, sf.run_starts(t), sf.filter(x, sf.run_starts(t))),
    "maxsim": lambda x, t: sf.maxsim(x, sf.reverse(x)),
    "ngrams": lambda x, t: sf.ngrams(t, 2),
    "recurrence": lambda x, t: sf.recurrence(x, with_ones(x), reverse=True, where=sf.run_starts(t)),
    "reduce": lambda x, t: sf.reduce(x, "mean", empty=7.0),
    "reduce_all": lambda x, t: sf.reduce_all(t),
    "reduce_any": lambda x, t: sf.reduce_any(t),
    "reduce_quantile": lambda x, t: sf.reduce_quantile(x, [0.25, 0.5]),
    "repeat": lambda x, t: sf.repeat(x, 2),
    "reshape": lambda x, t: sf.reshape(x, 1),
    "reverse": lambda x, t: sf.reverse(x),
    "rl.policy_loss": lambda x, t: sf.rl.policy_loss(
        one(x), floats(t), sf.reduce_sum(floats(t)), where=sf.run_starts(t)
    ),
    "rl.ratios": lambda x, t: sf.rl.ratios(one(x), floats(t), level="sequence"),
    "rl.returns": lambda x, t: sf.rl.returns(one(x), gamma=0.5, where=sf.run_starts(t)),
    "rl.traces": lambda x, t: sf.rl.traces(x, gamma=0.5, done=sf.run_starts(t)),
    "run_starts": lambda x, t: sf.run_starts(t),
    "select": lambda x, t: sf.select(x, [2, 0]),
    "shift": lambda x, t: sf.shift(x, 1),
    "shuffle": lambda x, t: sf.shuffle(x, seed=3),
    "slice": lambda x, t: sf.slice(x, 0, 0),
    "softmax": lambda x, t: sf.softmax(x),
    "sort": lambda x, t: sf.sort(x),
    "standardize": lambda x, t: sf.standardize(x, where=sf.run_starts(t)),
    "topk": lambda x, t: sf.topk(x, 2),
    "topk_mean": lambda x, t: sf.topk_mean(x, 2),
    "truncate": lambda x, t: sf.truncate(x, 2),
    "unique": lambda x, t: sf.unique(t, counts=True),
    "where": lambda x, t: sf.convert_like(x, t) * t,
    "window": lambda x, t: sf.window(x, 1, 1),
}
CALLS.update(
    {
        name: lambda x, t, name=name: getattr(sf, name)(x)
        for name in sf.__all__
        if name.startswith("reduce_") and name not in CALLS
    }
)


def tensors_of(y):
    """The tensors of a result and its lengths."""
    if isinstance(y, tuple):
        return [tensor for part in y for tensor in tensors_of(part)]
    if hasattr(y, "lengths"):
        return [y.data, *np.array(sf.lengths(y))]
    return [y]


def assert_same(found, wanted):
    import torch

    assert type(found) is type(wanted)
    for one, two in zip(tensors_of(found), tensors_of(wanted), strict=True):
        if isinstance(two, torch.Tensor):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            assert one == two
    if hasattr(wanted, "lengths"):
        assert sf.equal(sf.convert(found, sf.Ragged), sf.convert(found, sf.Ragged))
        assert repr(found) == repr(wanted)
