"""Every formula of JAX programs beside its kernel, over sequences at the ends of float32: values and gradients."""

import functools
import importlib
import math

import numpy as np
import pytest

import seqformats as sf

jax = pytest.importorskip("jax")
jnp = jax.numpy
formulas = pytest.importorskip("seqformats.launch.formulas")
pytest.importorskip("seqformats.launch.recurrences")  # adds some

pytestmark = pytest.mark.jax

INF, NAN = math.inf, math.nan
LARGEST, SMALLEST = np.finfo(np.float32).max, np.finfo(np.float32).tiny
ROWS = [
    [],
    [3.0],
    [-INF],
    [INF],
    [NAN],
    [-INF, -INF],
    [INF, INF],
    [-INF, INF],
    [INF, -INF, 2.0],
    [-INF, 5.0],
    [2.0, INF],
    [-INF, -INF, 3.0, 4.0],
    [1.0, NAN, 3.0, NAN],
    [NAN, INF, -INF],
    [0.1, 0.1, 0.1],
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0],
    [0.0, -0.0, 0.0],
    [1e8, 1e8, 1e8, 1e8],
    [1e8, 1e8 + 8.0, 1e8 - 16.0],
    [LARGEST, LARGEST],
    [LARGEST, -LARGEST],
    [3e38, -3e38, 1e38],
    [SMALLEST, -SMALLEST, SMALLEST],
    [1e-30, 3e-30, 2e-30],
    [1e-44, 3e-45, -1e-45, 0.0],
    [0.0, 1e-44],
    [],
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0],
]
LENGTHS = [len(row) for row in ROWS]
DATA = np.array([item for row in ROWS for item in row], np.float32)
SUBNORMAL = np.repeat([all(abs(item) < SMALLEST for item in row) for row in ROWS], LENGTHS)
WEIGHTS = np.resize(np.array([1.0, 2.0, 0.5, 0.0, 3.0], np.float32), DATA.size)
SCORES = np.array([[*row, 1.0, -2.0, 0.5][:4] for row in ROWS if row], np.float32)


def ragged(x):
    return sf.Ragged(x, LENGTHS)


def beside(x, array):
    """An array of NumPy in the library of `x`."""
    return array if isinstance(x, np.ndarray) else jnp.asarray(array)


class Case:
    """Operations one after the other, of the items of all rows: ``step(x)`` is a function and its arguments.

    The gradient is that of the argument at `part`, where the rule gives several.
    """

    def __init__(self, *steps, part=None, wrap=ragged, data=DATA):
        self.steps, self.part, self.wrap, self.data = steps, part, wrap, data

    def __call__(self, x):
        """Data of the result."""
        y = self.wrap(x)
        for step in self.steps:
            function, args, options = step(y)
            y = function(*args, **options)
        return y.data if hasattr(y, "_with_data") else y

    def pull(self, x, dy):
        """The gradient by the rules of this library, where arrays have values."""
        y, backs = self.wrap(x), []
        for step in self.steps:
            function, args, options = step(y)
            y, back = sf.vjp(function, *args, **options)
            backs.append(back)
        dy = y._with_data(dy) if hasattr(y, "_with_data") else dy
        for back in reversed(backs):
            dy = back(dy)
        dy = dy if self.part is None else dy[self.part]
        return dy.data if hasattr(dy, "_with_data") else dy


def of(function, *args, **options):
    return Case(lambda x: (function, (x, *args), options))


def chunked(how):
    return Case(lambda x: (sf.chunk, (x, 3, 1), {}), lambda x: (sf.unchunk, (x, how), {}))


def weighed(function):
    return [
        Case(lambda x: (function, (x,), {"weights": ragged(beside(x.data, WEIGHTS))}), part=0),
        Case(lambda w: (function, (ragged(beside(w.data, DATA)),), {"weights": w}), part=1, data=WEIGHTS),
    ]


def scattered(x):
    """Numbers in turn to three places of each row, which have zeros."""
    index = ragged(np.arange(DATA.size) % 3)
    return sf.scatter, (beside(x.data, np.zeros((len(LENGTHS), 3), np.float32)), index, x), {}


def loss(**options):
    """That of rows of scores."""

    def step(x):
        return sf.cross_entropy, (x, sf.Ragged(beside(x.data, np.arange(len(SCORES)) % 4), [len(SCORES)])), options

    return Case(step, wrap=lambda x: sf.Ragged(x, [len(x)]), data=SCORES)


def back_of(function, *args, rows):
    """The gradient of an operation on other numbers, as an operation on slopes."""
    ones = ragged(np.ones_like(DATA))

    @functools.cache
    def pullback(library):
        return sf.vjp(function, ones if library == "numpy" else sf.to(ones, library), *args)[1]

    def transposed(dy):
        return pullback("numpy" if isinstance(dy, np.ndarray) else "jax")(dy)

    return Case(lambda dy: (transposed, (dy,), {}), wrap=lambda x: x, data=np.resize(DATA[::-1], rows))


HALVES = ("linear", "lower", "higher", "nearest", "midpoint")
FLOATS = {
    "sum_rows": [of(sf.reduce_sum), of(sf.reduce_mean), of(sf.reduce_sqrt)],
    "max_rows": [of(sf.reduce_max), of(sf.reduce_min)],
    "prod_rows": [of(sf.reduce_prod)],
    "norm_rows": [of(sf.reduce_norm)],
    "logsumexp_rows": [of(sf.reduce_logsumexp)],
    "softmax_rows": [of(sf.softmax), of(sf.log_softmax)],
    "cumsum_rows": [of(sf.cumsum)],
    "var_rows": [of(function, ddof=ddof) for function in (sf.reduce_var, sf.reduce_std) for ddof in (0, 1)],
    "weigh_rows": [*weighed(sf.reduce_sum), *weighed(sf.reduce_mean)],
    "quantile_rows": [
        of(sf.reduce_median),
        *(of(sf.reduce_quantile, [0.0, 0.3, 0.5, 0.9, 1.0], interpolation=how) for how in HALVES),
    ],
    "topk_rows": [of(sf.topk_mean, 1), of(sf.topk_mean, [1, 2, 3, 20])],
    "scatter_rows": [Case(scattered, part=1)],
    "class_losses": [loss(reduction="none"), loss(reduction="mean"), loss(reduction="none", label_smoothing=0.25)],
    "fold_chunks": [chunked("mean")],
    "max_chunks": [chunked("max")],
}
"""Calls that have a gradient, by the formula that calculates them."""
OTHERS = {
    "find_rows": [of(sf.argmax), of(sf.argmin)],
    "count_rows": [of(sf.reduce_count), of(sf.reduce_any), of(sf.reduce_all)],
    "number_rows": [of(sf.position_ids, layout=True)],
    "spread_rows": [back_of(sf.reduce_mean, rows=len(LENGTHS)), back_of(sf.reduce_sqrt, rows=len(LENGTHS))],
    "add_rows": [back_of(sf.gather, [[0, -1][:length] for length in LENGTHS], rows=sum(min(n, 2) for n in LENGTHS))],
}
"""Formulas without a gradient, or which are gradients themselves."""
SHARES = ("logsumexp_rows", "softmax_rows", "class_losses", "deviation")
"""Formulas whose gradients are differences of shares of 1."""
CALLS = {**FLOATS, **OTHERS}
EACH = [(name, k) for name in CALLS for k in range(len(CALLS[name]))]


@pytest.fixture(autouse=True)
def _narrow():
    """JAX as it is, without 64 bits."""
    with jax.enable_x64(False):
        yield


def same(found, wanted, atol=2e-38):
    """Are they equal, infinities and NaN too?  Of a subnormal number a device may make zero."""
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype or not np.issubdtype(wanted.dtype, np.floating)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=atol, equal_nan=True)


def test_every_formula_is_in_the_table():
    importlib.import_module("seqformats.launch.series")  # loaded when a program first asks for one of its own
    elsewhere = {"ctc_losses"}  # test_jax
    elsewhere |= {"advantage_rows", "marked_sums", "mean_sums", "policy_rows", "recurrence_rows", "reward_rows"}
    elsewhere |= {"average_rows", "standard_rows"}  # test_rl_in_jax
    elsewhere |= {"count_bins", "diff_rows", "fill_rows", "search_rows", "take_bins"}  # test_series_in_jax
    assert set(CALLS) | elsewhere == set(formulas.FORMULAS)


@pytest.mark.parametrize("square", [True, False], ids=["square", "by number"])
@pytest.mark.parametrize(("name", "k"), EACH)
def test_formulas_are_their_kernels(name, k, square, monkeypatch):
    """Outside of a program, in one, and the gradient there: what the kernel makes of NumPy's arrays."""
    case, ran = CALLS[name][k], []
    formula = formulas.FORMULAS[name]
    monkeypatch.setitem(formulas.FORMULAS, name, lambda *args: (ran.append(name), formula(*args)))
    if not square:
        monkeypatch.setattr(formulas.Sequences, "square", False)
    wanted = case(case.data)
    x = jnp.asarray(case.data)
    same(case(x), wanted)
    slopes = np.cos(np.arange(wanted.size, dtype=np.float32)).reshape(wanted.shape)
    if name in OTHERS:
        same(jax.jit(lambda x: case(x))(x), wanted)
    else:

        @jax.jit
        def both(x, dy):
            y, back = jax.vjp(case, x)
            return y, back(dy)[0]

        found, dx = both(x, jnp.asarray(slopes))
        same(found, wanted, atol=4e-38 if name == "norm_rows" else 2e-38)  # of several such numbers
        with np.errstate(all="ignore"):
            wanted = case.pull(case.data, slopes)
        if case.data is DATA and name == "var_rows":  # the deviation of what is taken for zero has no slope
            wanted = np.where(SUBNORMAL, 0, wanted)
        if name == "norm_rows":  # nor has the norm of what comes so near to it
            wanted = np.where(np.abs(case.data) <= np.finfo("f4").tiny, 0, wanted)
        kind = "deviation" if name == "var_rows" and k > 1 else name
        same(dx, wanted, atol=1e-7 if kind in SHARES else 2e-38)
    assert ran
