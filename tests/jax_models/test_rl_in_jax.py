"""Recurrences and what reinforcement learning makes of them in programs of JAX: values and gradients as elsewhere."""

import numpy as np
import pytest

import seqformats as sf

pytestmark = pytest.mark.jax
jax = pytest.importorskip("jax")
LENGTHS, ROWS = [3, 0, 1, 5], 9
WHERE = np.array([True, False, True, True, True, False, True, True, False])
DONE = np.array([False, True, False, False, False, False, True, False, False])
KINDS = [sf.Ragged, sf.Padded, sf.Masked]


def batch(rows, kind):
    return sf.convert(sf.Ragged(rows, LENGTHS), kind)


def flat(y):
    """A result as one row, in NumPy or in JAX."""
    parts = [sf.convert(part, sf.Ragged).data if hasattr(part, "lengths") else part for part in y]
    numpy = np if isinstance(parts[0], np.ndarray) else jax.numpy
    return numpy.concatenate([part.reshape(-1) for part in parts])


CALLS = {
    "recurrence": lambda b, x, d, i: sf.recurrence(b(x), d, initial=i, where=WHERE, final=True),
    "reverse": lambda b, x, d, i: sf.recurrence(b(x), d, initial=i, reverse=True, exclusive=True, final=True),
    "gae": lambda b, r, v, e: sf.rl.gae(b(r), b(v), gamma=0.9, lam=0.8, where=WHERE, done=DONE, bootstrap=e),
    "gae of outcomes": lambda b, r, v, e: sf.rl.gae(e, b(v), lam=0.8, where=WHERE, bootstrap=b(r)),
    "returns": lambda b, r, v, e: [sf.rl.returns(b(r), gamma=0.9, where=WHERE, bootstrap=e)],
    "traces": lambda b, r, v, e: [sf.rl.traces(b(r), gamma=0.9, where=WHERE, done=DONE)],
    "token_rewards": lambda b, r, v, e: [sf.rl.token_rewards(e, b(WHERE), kl=b(r), beta=0.5)],
    "ema": lambda b, r, v, e: [sf.ema(b(r), 0.7, where=WHERE), sf.ema(b(v), 0.7, adjust=True)],
    "standardize": lambda b, r, v, e: [
        sf.standardize(b(r), where=WHERE),
        sf.standardize(b(v), level=None, center="others"),
    ],
    "whiten": lambda b, r, v, e: [sf.rl.whiten(b(r), where=WHERE, moments=[9.0, 2.0, 8.0]), sf.rl.moments(b(v))],
    "losses": lambda b, r, v, e: [sf.rl.mean_loss(b(r), where=WHERE, per="sequence"), sf.rl.mean_loss(b(v), total=4)],
    "groups": lambda b, r, v, e: [sf.rl.group_advantages(e, [1, 2, 2, 1], where=[True, True, True, False])],
}


@pytest.fixture(autouse=True)
def wide():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def check(call, given, kind):
    """Jitted values are the host's, and gradients finite differences of these."""

    def run(*arrays):
        return flat(call(lambda rows: batch(rows, kind), *arrays))

    host, there = run(*given), list(map(jax.numpy.asarray, given))
    np.testing.assert_allclose(jax.jit(run)(*there), host, rtol=1e-9, atol=1e-9)
    rng = np.random.default_rng(1)
    slopes = rng.standard_normal(host.shape)
    found = jax.grad(lambda *arrays: (run(*arrays) * slopes).sum(), tuple(range(len(given))))(*there)
    for k, d in enumerate(found):
        way = rng.standard_normal(given[k].shape)
        ends = [run(*[g + e * way if j == k else g for j, g in enumerate(given)]) for e in (1e-6, -1e-6)]
        slope = ((ends[0] - ends[1]) * slopes).sum() / 2e-6
        np.testing.assert_allclose((np.asarray(d) * way).sum(), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_in_a_program(kind, name):
    rng = np.random.default_rng(0)
    check(CALLS[name], [rng.standard_normal(ROWS), rng.uniform(0.3, 1, ROWS), rng.standard_normal(4)], kind)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_losses_of_policies(level):
    rng = np.random.default_rng(2)
    old, each = rng.standard_normal(ROWS), rng.standard_normal(4)

    def call(b, x):
        held = (lambda a: a) if isinstance(x, np.ndarray) else jax.numpy.asarray
        before, worth = b(held(old)), held(each)
        loss = sf.rl.policy_loss(b(x), before, worth, where=WHERE, level=level, clip=(0.2, 0.28), dual=1.5)
        return [loss, sf.rl.ratios(b(x), before, level=level)]

    check(call, [old + 0.2 * rng.standard_normal(ROWS)], sf.Masked)


def test_nothing_is_divided_by_zero():
    x = sf.Ragged(jax.numpy.asarray([0.5, 0.5, 0.5, 7.0, jax.numpy.nan]), [3, 1, 1])
    assert sf.standardize(x, eps=0, ddof=0).data.tolist()[:4] == [0, 0, 0, 0]
    slope = jax.grad(lambda rows: sf.standardize(sf.Ragged(rows, [3]), eps=0).data[0])(jax.numpy.ones(3))
    assert slope.tolist() == [0, 0, 0]
    losses = sf.Ragged(jax.numpy.ones(2), [2])
    assert float(sf.rl.mean_loss(losses, total=0)) == np.inf
    assert float(sf.rl.mean_loss(losses, where=np.zeros(2, bool), total=0)) == 0
    swapped = np.full(2, 2.0, ">f4")  # JAX has no such dtype
    assert sf.recurrence(losses, swapped).data.tolist() == [1, 3]
    assert sf.rl.traces(losses, gamma=jax.numpy.full(1, 0.5), lam=[0.5]).data.tolist() == [1, 1.25]
