"""Rewards, returns, advantages and traces of drawn rollouts, beside loops over single sequences in Python."""

import numpy as np
import oracle
import pytest
import rl_oracle
from checks import rows, with_rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


class Rollouts:
    """Sequences of turns: an item is a step or not, an episode may end within a sequence; NaN where nothing counts."""

    def __init__(self, seed, kind, dtype="f8"):
        self.rng = rng = np.random.default_rng(seed)
        self.n = n = int(rng.integers(0, 6))
        self.lengths = rng.choice([0, 1, 2, 5, 9], n)
        self.total = total = int(self.lengths.sum())
        self.kind = kind
        turns = np.repeat(rng.random(total) < 0.6, rng.integers(1, 4, total))[:total]
        self.where = [np.ones(total, bool), turns, rng.random(total) < 0.5, np.zeros(total, bool)][rng.integers(4)]
        self.done = rng.random(total) < rng.choice([0, 0.3])
        self.rewards, self.values, self.after = rng.standard_normal((3, total)).astype(dtype)
        self.values[~self.where] = np.nan
        self.bounds = np.concatenate([[0], np.cumsum(self.lengths)]).astype(int)
        self.last = np.zeros(total, bool)
        self.last[self.bounds[1:][self.lengths > 0] - 1] = True

    def batch(self, data, kind=None):
        return sf.convert(sf.Ragged(np.asarray(data), self.lengths), kind or self.kind)

    def each(self):
        return [slice(a, b) for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)]

    def all_of(self, function, *arrays):
        """A function of lists of each sequence, its results one after the other."""
        found = [function(*[list(map(float, a[part])) for a in arrays], i) for i, part in enumerate(self.each())]
        return np.array([item for part in found for item in part])


def loose(dtype):
    return {"f4": 1e-4, "f8": 1e-9}[dtype]


@every_encoding
@given(seed=st.integers(0, 10**6), data=st.data())
def test_against_loops(arrays, kind, seed, data):
    dtype = data.draw(st.sampled_from(["f4", "f8"]))
    b = Rollouts(seed, kind, dtype)
    rng, near = b.rng, {"rtol": loose(dtype), "atol": loose(dtype)}
    gamma, lam = rng.uniform(0.5, 1, b.n), rng.uniform(0.5, 1, b.n)
    if data.draw(st.booleans()):
        gamma, lam = np.full(b.n, 0.9), np.full(b.n, 0.8)
    how = data.draw(st.sampled_from(["none", "of sequences", "of items"]))
    after = np.zeros(b.total)
    bootstrap = None
    if how == "of items":
        after, bootstrap = b.after, b.batch(b.after)
    elif how == "of sequences":
        bootstrap = rng.standard_normal(b.n).astype(dtype)
        after[b.last] = bootstrap[b.lengths > 0]
    others = {"where": b.batch(b.where, data.draw(st.sampled_from(oracle.ENCODINGS))), "done": b.done}
    up = arrays.up
    given_as = up(bootstrap) if bootstrap is not None else None
    wanted = [
        rl_oracle.gae(*[a[part].tolist() for a in (b.rewards, b.values, b.where, b.done, after)], g, k)
        for part, g, k in zip(b.each(), gamma, lam, strict=True)
    ]
    options = {"gamma": gamma, "bootstrap": given_as, **others}
    found = sf.rl.gae(up(b.batch(b.rewards)), up(b.batch(b.values)), lam=lam, **options)
    for k, y in enumerate(map(arrays.down, found)):
        assert type(y) is kind
        assert y._dtype == dtype
        np.testing.assert_allclose(rows(y), [x for part in wanted for x in part[k]], **near)
    sums = [
        rl_oracle.gae(
            b.rewards[part].tolist(),
            [0.0] * len(b.rewards[part]),
            *[a[part].tolist() for a in (b.where, b.done, after)],
            g,
            1.0,
        )[0]
        for part, g in zip(b.each(), gamma, strict=True)
    ]
    y = arrays.down(sf.rl.returns(up(b.batch(b.rewards)), **options))
    np.testing.assert_allclose(rows(y), [x for part in sums for x in part], **near)
    wide = np.stack([b.rewards, 2 * b.rewards], 1)
    y = arrays.down(sf.rl.traces(up(b.batch(wide)), gamma=gamma, lam=lam, **others))
    traced = [
        rl_oracle.traces(b.rewards[part].tolist(), b.where[part], b.done[part], g * k)
        for part, g, k in zip(b.each(), gamma, lam, strict=True)
    ]
    column = np.array([x for part in traced for x in part])
    np.testing.assert_allclose(rows(y), np.stack([column, 2 * column], 1).reshape(-1, 2), **near)


@every_encoding
@pytest.mark.parametrize("seed", range(5))
def test_outcomes_go_to_the_last_step(arrays, kind, seed):
    b = Rollouts(seed, kind)
    outcome, kl = b.rng.standard_normal(b.n), np.where(b.where, b.after, np.nan)
    wanted = np.where(b.where, -0.5 * b.after, 0)
    for part, value in zip(b.each(), outcome, strict=True):
        steps = np.flatnonzero(b.where[part])
        if steps.size:
            wanted[part.start + steps[-1]] += value
    there = arrays.up(outcome), b.batch(b.where)
    found = arrays.down(sf.rl.token_rewards(*there, kl=arrays.up(b.batch(kl)), beta=0.5))
    np.testing.assert_allclose(rows(found), wanted, rtol=1e-12)
    plain = arrays.down(sf.rl.token_rewards(arrays.up(outcome), arrays.up(b.batch(b.where))))
    assert type(plain) is kind
    by_hand, spread = (arrays.down(sf.rl.returns(r, gamma=0.9, where=there[1])) for r in (arrays.up(plain), there[0]))
    oracle.assert_bits(rows(by_hand), rows(spread))
    both = [sf.rl.gae(arrays.up(r), arrays.up(b.batch(b.values)), lam=0.9, where=b.where) for r in (plain, outcome)]
    oracle.assert_bits(*[rows(arrays.down(y.advantages)) for y in both])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.usefixtures("threads_for_all")
def test_the_bits_of_the_plain_loop_alone_and_in_a_batch(dtype):
    rng = np.random.default_rng(0)
    lengths = [1500, 0, 1, 64]
    r, v = rng.standard_normal((2, sum(lengths))).astype(dtype)
    x, y = sf.Ragged(r, lengths), sf.Ragged(v, lengths)
    parts = [slice(a, b) for a, b in zip(x.offsets[:-1], x.offsets[1:], strict=True)]
    wanted = np.concatenate(
        [np.array(rl_oracle.plain_gae(r[part], v[part], 0.99, 0.95), "f8") for part in parts]
    ).astype(dtype)
    sf.set_num_threads(3)
    for kind in oracle.ENCODINGS:
        found = sf.rl.gae(sf.convert(x, kind), sf.convert(y, kind), gamma=0.99, lam=0.95)
        oracle.assert_bits(rows(found.advantages), wanted)
    for i, part in enumerate(parts):
        oracle.assert_bits(sf.rl.gae(x[[i]], y[[i]], gamma=0.99, lam=0.95).advantages.data, wanted[part])


@given(data=st.data())
def test_many_sequences_have_the_same_bits_in_every_encoding(data):
    """Columns of a rectangle go some at a time: with marks, ends, states, and numbers a sequence, forwards and back."""
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    n = data.draw(st.integers(14, 40))
    lengths = rng.integers(0, 12, n)
    total, dtype = int(lengths.sum()), data.draw(st.sampled_from(["f4", "f8"]))
    floats = [sf.Ragged(row, lengths) for row in rng.standard_normal((4, total)).astype(dtype)]
    where, done = (data.draw(st.sampled_from([None, rng.random(total) < odds])) for odds in (0.6, 0.2))
    after = data.draw(st.sampled_from([None, rng.standard_normal(n).astype(dtype), floats[2]]))
    gamma = data.draw(st.sampled_from([0.9, rng.random(n)]))
    decay, begin = data.draw(st.sampled_from([(0.5, None), (floats[3], rng.standard_normal(n))]))
    way = {"reverse": data.draw(st.booleans()), "exclusive": data.draw(st.booleans()), "where": where}

    def everything(kind):
        x, y, _, _ = [sf.convert(z, kind) for z in floats]
        bootstrap = after if after is None or isinstance(after, np.ndarray) else sf.convert(after, kind)
        options = {"gamma": gamma, "lam": 0.7, "where": where, "done": done, "bootstrap": bootstrap}
        found, pull = sf.vjp(sf.rl.gae, x, y, **options)
        slopes = pull(found)
        out, states = sf.recurrence(x, decay, initial=begin, final=True, **way)
        traced = sf.rl.traces(x, gamma=gamma, where=where, done=done)
        made = [*found, *(slopes if isinstance(slopes, tuple) else [slopes]), out, traced]
        for block, z in [(z.data.T if kind is sf.Padded else z.data, z) for z in made if hasattr(z, "lengths")]:
            if kind in (sf.Padded, sf.Masked):
                assert not block[np.arange(block.shape[1]) >= z.lengths[:, None]].any()
        return [*[rows(z) if hasattr(z, "lengths") else z for z in made if z is not None], states]

    wanted = everything(sf.Ragged)
    for kind in (sf.Padded, sf.Packed, sf.Masked):
        for a, b in zip(everything(kind), wanted, strict=True):
            oracle.assert_bits(a, b)


@every_encoding
@pytest.mark.parametrize("seed", range(4))
def test_gradients_against_finite_differences(arrays, kind, seed):
    b = Rollouts(seed + 3, kind)
    rng = b.rng
    values = rng.standard_normal(b.total)
    after = b.after if seed % 2 else rng.standard_normal(b.n)
    outcome, up, down = rng.standard_normal(b.n), arrays.up, arrays.down
    options = {"gamma": 0.9, "where": b.where, "done": b.done}
    as_given = (lambda z: b.batch(z)) if seed % 2 else (lambda z: z)
    calls = [
        (
            lambda r, v, a: sf.rl.gae(up(b.batch(r)), up(b.batch(v)), lam=0.8, bootstrap=up(as_given(a)), **options),
            [b.rewards, values, after],
        ),
        (lambda r, v: sf.rl.gae(up(r), up(b.batch(v)), lam=0.8, **options), [outcome, values]),
        (lambda r, a: sf.rl.returns(up(b.batch(r)), bootstrap=up(as_given(a)), **options), [b.rewards, after]),
        (lambda r: sf.rl.traces(up(b.batch(r)), lam=0.8, **options), [b.rewards]),
        (lambda o, k: sf.rl.token_rewards(up(o), b.batch(b.where), kl=up(b.batch(k)), beta=0.3), [outcome, values]),
    ]
    pulls = [
        lambda r, v, a: sf.vjp(
            sf.rl.gae, up(b.batch(r)), up(b.batch(v)), lam=0.8, bootstrap=up(as_given(a)), **options
        ),
        lambda r, v: sf.vjp(sf.rl.gae, up(r), up(b.batch(v)), lam=0.8, **options),
        lambda r, a: sf.vjp(sf.rl.returns, up(b.batch(r)), bootstrap=up(as_given(a)), **options),
        lambda r: sf.vjp(sf.rl.traces, up(b.batch(r)), lam=0.8, **options),
        lambda o, k: sf.vjp(sf.rl.token_rewards, up(o), b.batch(b.where), kl=up(b.batch(k)), beta=0.3),
    ]

    def flat(y):
        parts = y if isinstance(y, tuple) else (y,)
        return np.concatenate([rows(down(part)) for part in parts])

    for (call, given_), pull in zip(calls, pulls, strict=True):
        y, pullback = pull(*given_)
        slopes = rng.standard_normal(flat(y).shape)
        parts = np.split(slopes, 2) if isinstance(y, tuple) else [slopes]
        dys = tuple(
            [
                up(with_rows(down(one), part))
                for one, part in zip(y if isinstance(y, tuple) else (y,), parts, strict=True)
            ]
        )
        found = pullback(dys if isinstance(y, tuple) else dys[0])
        for k, d in enumerate(found if isinstance(found, tuple) else (found,)):
            way = rng.standard_normal(given_[k].shape)
            ends = [flat(call(*[g + e * way if j == k else g for j, g in enumerate(given_)])) for e in (1e-6, -1e-6)]
            own = down(d)
            own = own if isinstance(own, np.ndarray) else rows(own)
            assert np.isclose((own * way).sum(), ((ends[0] - ends[1]) * slopes).sum() / 2e-6, rtol=1e-5, atol=1e-6)


def test_no_reward_is_lost_by_where_it_is_written():
    """A reward with an observation belongs to the step that has led there, undecayed; none flows over an end."""
    where = np.array([True, False, False, True, False])
    rewards = sf.Ragged(np.array([0.0, 1, 1, 0, 5]), [5])
    assert sf.rl.returns(rewards, gamma=0.5, where=where).data.tolist() == [4.5, 0, 0, 5, 0]
    done = np.array([False, True, False, False, False])
    assert sf.rl.returns(rewards, gamma=0.5, where=where, done=done).data.tolist() == [1, 0, 0, 5, 0]
    assert sf.rl.returns(rewards, where=~where).data.tolist() == [0, 7, 6, 0, 5]  # the first reward is nobody's: 0


def test_constants_may_change_before_the_pullback():
    x, values = sf.Ragged(np.arange(6.0), [4, 2]), sf.Ragged(np.ones(6), [4, 2])
    calls = [
        (sf.rl.gae, (x, values), {"gamma": np.full(2, 0.5), "lam": np.full(2, 0.5)}),
        (sf.rl.returns, (x,), {"gamma": np.full(2, 0.5), "done": np.arange(6) == 1}),
        (sf.rl.traces, (x,), {"gamma": np.full(2, 0.5), "lam": np.full(2, 0.5), "where": np.arange(6) != 1}),
        (sf.rl.whiten, (x,), {"moments": np.array([9.0, 2.0, 11.0])}),
    ]
    for function, args, constants in calls:
        y, pullback = sf.vjp(function, *args, **constants)
        before = pullback(y)
        for constant in constants.values():
            constant[:] = 1
        for one, two in zip(*[z if isinstance(z, tuple) else (z,) for z in (before, pullback(y))], strict=True):
            oracle.assert_bits(one.data, two.data)


def test_vapo_has_a_lambda_of_its_own_for_each_sequence():
    r, v = sf.Ragged(np.arange(6.0), [4, 2]), sf.Ragged(np.ones(6), [4, 2])
    lam = 1 - 1 / (0.5 * sf.lengths(r) + 1)
    both = [sf.rl.gae(r[[i]], v[[i]], lam=float(lam[i])).advantages.data for i in range(2)]
    oracle.assert_bits(sf.rl.gae(r, v, lam=lam).advantages.data, np.concatenate(both))


X, Y = sf.Ragged(np.arange(3.0), [2, 1]), sf.Ragged(np.arange(3.0), [1, 2])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: sf.rl.gae(X, Y), sf.StructureError, "rewards has sequences of lengths"),
        (lambda: sf.rl.gae(X, np.ones(3)), TypeError, "ndarray is no single batch"),
        (
            lambda: sf.rl.gae(np.ones(3), X),
            sf.StructureError,
            r"rewards must have shape \(2,\), one number per sequence",
        ),
        (
            lambda: sf.rl.gae(X, sf.Ragged(np.ones((3, 2)), [2, 1])),
            sf.StructureError,
            "values must have a number per item",
        ),
        (lambda: sf.rl.gae(X, X, gamma=np.ones(3)), sf.StructureError, r"gamma must be a number, or have shape \(2,\)"),
        (lambda: sf.rl.gae(X, X, lam="0.9"), TypeError, "lam must be a number"),
        (lambda: sf.rl.gae(X, X, bootstrap=np.ones(2) * 1j), TypeError, "bootstrap takes no items of dtype complex128"),
        (lambda: sf.rl.returns(X, bootstrap=np.array(["a", "b"])), TypeError, "bootstrap takes no items of dtype <U1"),
        (lambda: sf.rl.gae(X, X, bootstrap=np.ones(3)), sf.StructureError, r"bootstrap must have shape \(2,\)"),
        (lambda: sf.rl.gae(X, X, where=[1, 0, 1]), sf.StructureError, "list"),
        (lambda: sf.rl.gae(X, X, where=np.array([1, 0, 1])), TypeError, "where must hold bools, not int64"),
        (lambda: sf.rl.gae(X, X, done=np.ones(2, bool)), sf.StructureError, "done must have one bool per item"),
        (lambda: sf.rl.returns(np.ones(2)), TypeError, "rewards has an outcome per sequence, but no batch says"),
        (lambda: sf.rl.token_rewards(np.ones(2), np.ones(3, bool)), TypeError, "where says how long the sequences are"),
        (lambda: sf.rl.token_rewards(np.ones(3), X), sf.StructureError, r"outcome must have shape \(2,\)"),
        (lambda: sf.rl.token_rewards(np.ones(2), X), TypeError, "where must hold bools"),
        (lambda: sf.rl.token_rewards(X, X), TypeError, "outcome has a number per sequence, so it must be an array"),
    ],
)
def test_bad_input(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
