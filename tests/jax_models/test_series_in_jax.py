"""Events and series in programs of JAX: values as elsewhere, and gradients by finite differences."""

import numpy as np
import pytest

import seqformats as sf

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax
LENGTHS, OTHERS = [3, 0, 1, 5], [2, 3, 0, 6]
KINDS = [sf.Ragged, sf.Padded, sf.Masked]
NAN = np.where([False, True, False, True, True, False, True, True, False], np.nan, 1.0)
IDS = np.array([0, 1, 2, 0, 0, 1, 2, 2, 4])
TIMES = sf.Ragged(np.array([0, 1, 4, 0, 0, 1, 1, 3, 9]), LENGTHS)


def ids_beside(x):
    """Numbers of bins in the library of `x`, which have values while a program is traced."""
    with jax.ensure_compile_time_eval():
        return sf.Ragged(IDS if isinstance(x.data, np.ndarray) else jax.numpy.asarray(IDS), LENGTHS)


@sf.with_array
def with_gaps(rows):
    return (np if isinstance(rows, np.ndarray) else jax.numpy).where(np.isnan(NAN), np.nan, rows)


CALLS = {
    "diff": lambda x, y: [sf.diff(x), sf.diff(x, 2)],
    "ffill": lambda x, y: [sf.ffill(with_gaps(x)), sf.ffill(x, np.isnan(NAN))],
    "window": lambda x, y: [sf.window(x, 1, 1, fill=7), sf.window_by(x, TIMES, 1, 2)],
    "searchsorted": lambda x, y: [
        sf.searchsorted(y, x),
        sf.searchsorted(y, x, "right"),
        sf.searchsorted(np.array([-1.0, 1.0]), x),
    ],
    "merge_asof": lambda x, y: [
        sf.merge_asof(x, y, direction=how, tolerance=limit)
        for how in ("backward", "forward", "nearest")
        for limit in (None, 0.4)
    ],
    "isin": lambda x, y: [sf.isin(x, y), sf.isin(x, np.array([1.0, -1.0]))],
    "bincount": lambda x, y: [sf.bincount(sf.astype(x, int), 3)],
    "bincount of weights": lambda x, y: [sf.bincount(ids_beside(x), 5, weights=x)],
}
SLOPED = {"diff", "ffill", "window", "bincount of weights"}


@pytest.fixture(autouse=True)
def wide():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_in_a_program(kind, name):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 9) + rng.choice([0, 0.25], 9)
    y = sf.sort(sf.Ragged(np.append(rng.integers(-2, 3, 10), np.nan).astype(float), OTHERS)).data

    def run(x, y):
        found = CALLS[name](sf.convert(sf.Ragged(x, LENGTHS), kind), sf.convert(sf.Ragged(y, OTHERS), kind))
        rows = [sf.convert(part, sf.Ragged).data if hasattr(part, "lengths") else part for part in found]
        return (np if isinstance(x, np.ndarray) else jax.numpy).concatenate([part.reshape(-1) for part in rows])

    host = run(x, y)
    there = jax.numpy.asarray(x), jax.numpy.asarray(y)
    np.testing.assert_array_equal(jax.jit(run)(*there), host)
    if name in SLOPED:
        weights, there_too = np.arange(host.size), host == host
        slopes = jax.grad(lambda x: (run(x, there[1])[there_too] * weights[there_too]).sum())(there[0])
        way = rng.integers(-3, 4, 9)
        up, down = ((run(x + sign * way, y) * weights)[there_too].sum() for sign in (1, -1))
        assert (np.nan_to_num(np.asarray(slopes)) * way).sum() == (up - down) / 2
