"""Groups, whitening, losses and their means, beside loops over single samples; and estimators made of all of them."""

from itertools import pairwise

import numpy as np
import oracle
import pytest
import rl_oracle
from checks import rows, with_rows

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


class Samples:
    """Samples in groups, with tokens that count in turns; NaN where nothing counts."""

    def __init__(self, seed, kind=sf.Ragged):
        self.rng = rng = np.random.default_rng(seed)
        self.size = int(rng.integers(1, 5))
        self.n = self.size * int(rng.integers(0, 4))
        self.lengths = rng.choice([0, 1, 3, 7], self.n)
        self.kind, total = kind, int(self.lengths.sum())
        self.where = rng.random(total) < rng.choice([0.0, 0.7, 1.0])
        self.old = np.where(self.where, -rng.exponential(1, total), np.nan)
        self.logp = np.where(self.where, self.old + rng.normal(0, 0.4, total), np.nan)
        self.kl = np.where(self.where, rng.normal(0, 1, total), np.nan)
        self.score = rng.integers(0, 3, self.n).astype("f8")
        bounds = np.concatenate([[0], np.cumsum(self.lengths)]).astype(int)
        self.parts = [slice(a, b) for a, b in pairwise(bounds)]

    def batch(self, data):
        return sf.convert(sf.Ragged(np.asarray(data), self.lengths), self.kind)

    def lists(self, data):
        return [np.asarray(data)[part].tolist() for part in self.parts]

    def spread(self, each):
        return [[value] * len(range(*part.indices(1 << 30))) for value, part in zip(each, self.parts, strict=True)]

    def group(self, counts=None, **options):
        counts = [True] * self.n if counts is None else counts
        out = []
        for g in range(0, self.n, self.size):
            out += rl_oracle.standardized(self.score[g : g + self.size], counts[g : g + self.size], **options)
        return out

    def loss(self, advantages, mean=(), clip=(0.2, 0.2), **options):
        """The loss of a step of training, its advantages given as lists."""
        losses = [
            rl_oracle.policy(*one, clip, **options)
            for one in zip(*map(self.lists, (self.logp, self.old)), advantages, self.lists(self.where), strict=True)
        ]
        return rl_oracle.mean_loss(losses, self.lists(self.where), **dict(mean))


def whitened(s, lists, eps=1e-8):
    """All tokens that count, whitened together."""
    flat = [x for part in lists for x in part]
    done = iter(rl_oracle.standardized(flat, s.where.tolist(), eps=eps) if flat else [])
    return [[next(done) for _ in part] for part in lists]


def returned(s, outcome, beta=0.0, gamma=1.0):
    """Returns of outcomes and of a penalty for divergence."""
    found = []
    for part, value in zip(s.parts, outcome, strict=True):
        where, kl = s.where[part], s.kl[part]
        total, out = float(value), [0.0] * len(where)
        for t in reversed(range(len(where))):
            if where[t]:
                total = out[t] = (gamma * total if any(where[t + 1 :]) else total) - (beta * kl[t] if beta else 0.0)
        found.append(out)
    return found


def values_of(s):
    return np.where(s.where, np.sin(np.arange(len(s.where))), np.nan)


def by_values(s, lam):
    """Advantages by a critic."""
    found = []
    for i, part in enumerate(s.parts):
        where = s.where[part].tolist()
        rewards = [0.0] * len(where)
        if any(where):
            rewards[max(t for t, w in enumerate(where) if w)] = float(s.score[i])
        values = values_of(s)[part].tolist()
        found.append(
            rl_oracle.gae(rewards, values, where, [False] * len(where), [0.0] * len(where), 0.99, lam(sum(where)))[0]
        )
    return found


def ours(s, advantages, mean=None, **options):
    """The loss that this library makes of the same."""
    where = s.batch(s.where)
    losses = sf.rl.policy_loss(s.batch(s.logp), s.batch(s.old), advantages, where=where, **options)
    return sf.rl.mean_loss(losses, where=where, **(mean or {}))


def vapo_lam(s):
    return 1 - 1 / (0.5 * np.array([s.where[part].sum() for part in s.parts], "f8") + 1)


def critic(s, lam):
    return sf.rl.gae(s.score, s.batch(values_of(s)), gamma=0.99, lam=lam, where=s.where).advantages


PER, FIXED = {"per": "sequence"}, {"per": "sequence", "length": 16.0}
ESTIMATORS = {
    "GAE": (lambda s: ours(s, critic(s, 0.95)), lambda s: s.loss(by_values(s, lambda _: 0.95))),
    "VAPO": (
        lambda s: ours(s, critic(s, vapo_lam(s))),
        lambda s: s.loss(by_values(s, lambda n: 1 - 1 / (0.5 * n + 1))),
    ),
    "REINFORCE++": (
        lambda s: ours(
            s,
            sf.rl.whiten(
                sf.rl.returns(
                    sf.rl.token_rewards(s.score, s.batch(s.where), kl=s.batch(s.kl), beta=0.1), where=s.where
                ),
                where=s.where,
            ),
        ),
        lambda s: s.loss(whitened(s, returned(s, s.score, 0.1))),
    ),
    "REINFORCE++ baseline": (
        lambda s: ours(
            s,
            sf.rl.whiten(
                sf.rl.returns(sf.rl.group_advantages(s.score, s.size, scale=None), where=s.batch(s.where)),
                where=s.where,
            ),
        ),
        lambda s: s.loss(whitened(s, returned(s, s.group(scale=None)))),
    ),
    "RLOO": (
        lambda s: ours(s, sf.rl.group_advantages(s.score, s.size, center="others", scale=None)),
        lambda s: s.loss(s.spread(s.group(center="others", scale=None))),
    ),
    "GRPO": (
        lambda s: ours(s, sf.rl.group_advantages(s.score, s.size), PER),
        lambda s: s.loss(s.spread(s.group()), PER),
    ),
    "Dr. GRPO": (
        lambda s: ours(s, sf.rl.group_advantages(s.score, s.size, scale=None), FIXED),
        lambda s: s.loss(s.spread(s.group(scale=None)), FIXED),
    ),
    "DAPO": (
        lambda s: ours(s, sf.rl.group_advantages(s.score, s.size), {"total": 50, "ranks": 2}, clip=(0.2, 0.28)),
        lambda s: s.loss(s.spread(s.group()), {"total": 50, "ranks": 2}, clip=(0.2, 0.28)),
    ),
    "GSPO": (
        lambda s: ours(s, sf.rl.group_advantages(s.score, s.size), PER, level="sequence", clip=(3e-4, 4e-4)),
        lambda s: s.loss(s.spread(s.group()), PER, level="sequence", clip=(3e-4, 4e-4)),
    ),
    "PPO with a dual clip": (lambda s: ours(s, -s.score, dual=1.1), lambda s: s.loss(s.spread(-s.score), dual=1.1)),
}


@every_encoding
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_against_loops(kind, name):
    for seed in range(6):
        samples = Samples(seed, kind)
        found, wanted = (f(samples) for f in ESTIMATORS[name])
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=f"{name}, {seed}")


def test_groups():
    score, keys = np.array([1.0, 0, 3, 1, 5, 7]), ["b", "a", "b", "a", "a", "c"]
    counts = np.array([True, True, True, False, True, True])
    found = sf.rl.group_advantages(score, keys, where=counts, scale=None)
    assert found.tolist() == [-1, -2.5, 1, 0, 2.5, 0]
    assert sf.rl.group_advantages(score, keys, center="others", where=counts, scale=None).tolist() == [
        -2,
        -5,
        2,
        0,
        5,
        0,
    ]
    assert not sf.rl.group_advantages(np.full(8, 0.1, "f4"), 4).any()
    assert sf.rl.group_advantages(np.zeros(0), 4).shape == (0,)
    assert sf.rl.group_advantages(np.arange(4), [0, 0, 1, 1]).dtype == np.float64
    assert sf.rl.group_advantages([], []).shape == (0,)


@every_encoding
def test_ranks_whiten_as_one(arrays, kind):
    """The moments of a rank without items are zeros, and those of all parts give what the whole gives."""
    s = Samples(3, kind)
    x = np.where(s.where, s.rng.standard_normal(len(s.where)), np.nan)
    halves = [np.arange(s.n) < s.n // 2, np.arange(s.n) >= s.n // 2]
    parts = [(sf.select(s.batch(x), h), sf.select(s.batch(s.where), h)) for h in halves]
    each = [arrays.down(sf.rl.moments(arrays.up(p), where=w)) for p, w in parts]
    nothing = sf.rl.moments(sf.Ragged(np.zeros(0), [0]))
    assert nothing.tolist() == [0, 0, 0]
    given = arrays.up(sum(each) + nothing)
    made = [rows(arrays.down(sf.rl.whiten(arrays.up(p), where=w, moments=given))) for p, w in parts]
    whole = rows(arrays.down(sf.rl.whiten(arrays.up(s.batch(x)), where=s.where)))
    np.testing.assert_allclose(np.concatenate(made), whole, atol=1e-6)
    flat = rl_oracle.standardized(x.tolist(), s.where.tolist(), eps=1e-8)
    np.testing.assert_allclose(whole, flat, atol=1e-9)
    assert sf.rl.whiten(sf.Ragged(np.array([3.0]), [1])).data.tolist() == [0]


@every_encoding
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_gradients_against_finite_differences(arrays, kind, level):
    rng = np.random.default_rng(4)
    lengths, where = [3, 0, 1, 5], np.array([1, 0, 1, 1, 1, 0, 1, 1, 0], bool)
    x = sf.convert(sf.Ragged(rng.normal(-1, 0.3, 9), lengths), kind)
    old, advantages = with_rows(x, rng.normal(-1, 0.3, 9)), rng.standard_normal(4)
    up, down = arrays.up, arrays.down
    calls = [
        (sf.rl.ratios, (old,), {"level": level, "where": where}),
        (sf.rl.policy_loss, (old, advantages), {"level": level, "where": where, "clip": (0.2, 0.28), "dual": 1.2}),
        (sf.rl.policy_loss, (old, with_rows(x, rng.standard_normal(9))), {"level": level, "clip": None}),
        (sf.rl.mean_loss, (), {"per": level, "where": where, "total": 4, "ranks": 2}),
        (sf.rl.whiten, (), {"where": where}),
        (sf.rl.whiten, (), {"where": where, "moments": np.array([9.0, 2.0, 11.0])}),
        (sf.standardize, (), {"where": where, "center": "others" if level == "token" else "mean"}),
    ]
    for function, args, options in calls:
        beside = [up(a) for a in args]

        def values(z, function=function, beside=beside, options=options):
            y = down(function(up(with_rows(x, z)), *beside, **options))
            return np.asarray(y) if function is sf.rl.mean_loss else rows(y)

        y, pullback = sf.vjp(function, up(x), *beside, **options)
        dy = rng.standard_normal(values(rows(x)).shape)
        given = np.asarray(dy) if function is sf.rl.mean_loss else with_rows(down(y), dy)
        dx, way = rows(down(pullback(up(given)))), rng.standard_normal(9)
        assert not dx[~where].any() or options.get("where") is None
        slope = ((values(rows(x) + 1e-6 * way) - values(rows(x) - 1e-6 * way)) * dy).sum() / 2e-6
        assert np.isclose((dx * way).sum(), slope, rtol=1e-5, atol=1e-7), function


def test_parts_add_up_to_the_whole_and_empty_ones_to_nothing():
    s = Samples(8)
    where, losses = s.batch(s.where), s.batch(s.logp)
    total = int(sf.reduce_count(where).sum())
    whole = sf.rl.mean_loss(losses, where=where)
    parts = [sf.rl.mean_loss(losses[[i]], where=where[[i]], total=total) for i in range(s.n)]
    np.testing.assert_allclose(sum(parts), whole)
    assert sf.rl.mean_loss(losses, where=np.zeros_like(s.where)) == 0
    assert sf.rl.mean_loss(sf.Ragged(np.zeros(0), [])) == 0
    assert sf.rl.mean_loss(sf.Ragged(np.ones(3, "f4"), [0, 3]), per="sequence").dtype == np.float32


@pytest.mark.parametrize("per", ["token", "sequence"])
def test_a_total_of_none_is_none_of_ours(arrays, per):
    """A `total` of no steps shows in the loss of a batch that has some, which is infinite."""
    losses, where = sf.Ragged(np.array([1.0, 2.0]), [1, 1]), np.array([True, True])
    for marks, wanted in ((where, np.inf), (~where, 0.0)):
        found = sf.rl.mean_loss(arrays.up(losses), where=marks, per=per, total=0)
        assert np.asarray(arrays.down(found)) == wanted


def test_a_limit_holds_without_a_gradient():
    logp, old = sf.Ragged(np.array([0.0, -900.0, 1.0]), [3]), sf.Ragged(np.array([-900.0, 0, 0]), [3])
    y, pullback = sf.vjp(sf.rl.ratios, logp, old, limit=2)
    np.testing.assert_allclose(y.data, np.exp([2.0, -2, 1]))
    np.testing.assert_allclose(pullback(np.ones(3)).data, [0, 0, np.e])
    hidden = sf.Ragged(np.array([0.0, np.nan, 1.0]), [3])
    assert sf.rl.ratios(hidden, hidden, where=np.array([True, False, True])).data.tolist() == [1, 1, 1]


X = sf.Ragged(np.arange(3.0), [2, 1])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: sf.rl.policy_loss(X, X, np.ones(3)), sf.StructureError, r"advantages must have shape \(2,\)"),
        (
            lambda: sf.rl.policy_loss(X, sf.Ragged(np.ones(3), [3]), np.ones(2)),
            sf.StructureError,
            "old has 1 sequences, but logp",
        ),
        (
            lambda: sf.rl.policy_loss(X, np.ones(3), np.ones(2)),
            TypeError,
            "old has a number per item, so it must be a batch",
        ),
        (lambda: sf.rl.policy_loss(X, X, None), TypeError, "advantages must be a batch, or an array"),
        (lambda: sf.rl.policy_loss(X, X, np.ones(2), clip=(0.2, -1)), sf.ConversionError, "clip must not be negative"),
        (lambda: sf.rl.policy_loss(X, X, np.ones(2), clip=(1, 2, 3)), TypeError, "clip must be a number"),
        (lambda: sf.rl.policy_loss(X, X, np.ones(2), dual=0), sf.ConversionError, "dual must be above 0"),
        (lambda: sf.rl.ratios(X, X, level="word"), sf.ConversionError, "level must be 'token' or 'sequence'"),
        (lambda: sf.rl.ratios(X, X, limit=np.nan), sf.ConversionError, "limit must be above 0"),
        (lambda: sf.rl.mean_loss(X, per="batch"), sf.ConversionError, "per must be 'token' or 'sequence'"),
        (lambda: sf.rl.mean_loss(X, length=3), sf.ConversionError, "length goes with per='sequence'"),
        (lambda: sf.rl.mean_loss(X, total=-1), sf.ConversionError, "total must not be negative"),
        (lambda: sf.rl.mean_loss(X, ranks=0), sf.ConversionError, "ranks must be at least 1"),
        (lambda: sf.rl.mean_loss(X, ranks=10**400), sf.ConversionError, "ranks must be a number"),
        (lambda: sf.rl.group_advantages(np.ones(5), 2), sf.StructureError, "5 samples are no groups of 2"),
        (lambda: sf.rl.group_advantages(np.ones(5), 0), sf.ConversionError, "group must be at least 1 sample"),
        (lambda: sf.rl.group_advantages(np.ones(2), [1]), sf.StructureError, "one key is needed for each"),
        (lambda: sf.rl.group_advantages(np.ones(2), [0.5, 1]), TypeError, "keys of groups must be integers or strings"),
        (lambda: sf.rl.group_advantages(X, 2), TypeError, "rewards has a number per sample, so it must be an array"),
        (lambda: sf.rl.group_advantages(np.ones(2), 2, where=[1, 0]), TypeError, "where must hold bools"),
        (lambda: sf.rl.whiten(X, moments=np.ones(2)), sf.StructureError, r"moments must have shape \(3,\)"),
        (lambda: sf.rl.moments(sf.Ragged(np.ones((3, 2)), [3])), sf.StructureError, "x must have a number per item"),
    ],
)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
