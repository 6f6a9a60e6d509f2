"""Variances and deviations: what a sample is, numbers far from zero, and gradients; quantiles between items."""

import fractions
import functools

import numpy as np
import oracle
import pytest
import strategies
from conftest import INTERPRETED
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
of_both = pytest.mark.parametrize("operation", [sf.reduce_var, sf.reduce_std], ids=lambda f: f.__name__)
WAYS = ("linear", "lower", "higher", "nearest", "midpoint")


def values(y):
    return y.data if isinstance(y, sf.LoD) else np.asarray(y)


# --------------------------------------------------------------------------------------------- variances


@of_both
@every_encoding
@pytest.mark.parametrize("ddof", [0, 1, 2, 5, 2**70 % 2**63])
def test_the_length_less_the_degrees_of_freedom(arrays, operation, kind, ddof):
    truth = strategies.truth_from([4, 0, 1, 3, 2], "f8", (2,))
    found = arrays.on(functools.partial(operation, ddof=ddof, empty=-5.0))(oracle.build(kind, truth))
    numpys = np.var if operation is sf.reduce_var else np.std
    for row, sequence in zip(found, truth.sequences(), strict=True):
        wanted = numpys(sequence, 0, ddof=ddof) if len(sequence) > ddof else [-5, -5]
        assert np.allclose(row, wanted, rtol=1e-14)


@of_both
def test_few_items_are_as_good_as_none(operation):
    x = sf.Ragged(np.arange(6.0), [0, 1, 2, 3])
    assert operation(x, ddof=2)[:3].tolist() == [0, 0, 0]
    with pytest.raises(sf.StructureError, match="sequence 0 is empty"):
        operation(x, ddof=2, empty="raise")
    with pytest.raises(sf.StructureError, match="sequence 0 has 1 items, which are too few; give empty=0.0"):
        operation(x[1:], ddof=2, empty="raise")
    assert operation(x[3:], ddof=2, empty="raise") > 0
    _, pullback = sf.vjp(operation, x, ddof=2)
    assert pullback(np.full(4, np.nan)).data[:3].tolist() == [0, 0, 0]


@of_both
@pytest.mark.parametrize("ddof", [-1, 2**63, 10**30])
def test_degrees_of_freedom_that_cannot_be(operation, ddof):
    for call in (operation, functools.partial(sf.vjp, operation)):
        with pytest.raises(sf.ConversionError, match="ddof must"):
            call(sf.Ragged(np.ones(2), [2]), ddof=ddof)


@of_both
@pytest.mark.parametrize("ddof", [None, 1.0, "1", True, [1]])
def test_degrees_of_freedom_of_a_wrong_kind(operation, ddof):
    with pytest.raises(TypeError, match="ddof must be an integer"):
        operation(sf.Ragged(np.ones(2), [2]), ddof=ddof)


@of_both
def test_complex_numbers_have_no_variance(operation):
    with pytest.raises(TypeError, match="complex64 have no variance here; add up those of their real"):
        operation(sf.Ragged(np.ones(2, "c8"), [2]))


@pytest.mark.parametrize("width", [1, 4, 33])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_numbers_far_from_zero(arrays, width, dtype):
    """Around 1e8, where a sum of squares has no digit left, and where neighbours of float32 are 8 apart."""
    rng = np.random.default_rng(0)
    lengths = [2, 7, 100 if INTERPRETED else 5000]
    data = (1e8 + 8 * rng.integers(-9, 9, (sum(lengths), width))).astype(dtype)
    for operation, numpys in ((sf.reduce_var, np.var), (sf.reduce_std, np.std)):
        found = arrays.on(operation)(sf.Ragged(data, lengths))
        wanted = [numpys(part.astype("f8"), 0) for part in np.split(data, np.cumsum(lengths)[:-1])]
        np.testing.assert_allclose(found, wanted, rtol=2e-6 if dtype == "f4" else 1e-12)
        if dtype != "i8":
            x = sf.Ragged(data, lengths)
            found = arrays.vjp(operation, x)[1](np.ones((3, width), dtype)).data
            wanted = sf.vjp(operation, sf.Ragged(data.astype("f8"), lengths))[1](np.ones((3, width))).data
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9)


@of_both
def test_items_that_are_all_the_same(operation):
    for value in (0.1, 1e8, -3.0):
        x = sf.Ragged(np.full((100, 3), value), [100])
        assert np.abs(operation(x)).max() < 1e-16 * abs(value)
        assert np.isfinite(sf.vjp(operation, x)[1](np.ones((1, 3))).data).all()


def test_the_gradient_where_there_is_no_deviation():
    _, pullback = sf.vjp(sf.reduce_std, sf.Ragged(np.array([2.0, 2.0, 5.0]), [2, 1]))
    assert pullback(np.ones(2)).data.tolist() == [0, 0, 0]


# --------------------------------------------------------------------------------------------- quantiles

REAL = [np.dtype(code) for code in ("f4", "f8", ">f4", "?", "i2", "i8", "u1")]


@every_format
@given(data=st.data())
def test_quantiles_against_plain_python(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(REAL), shapes=[(), (2,), (5,)]))
    levels = data.draw(st.lists(st.sampled_from([0, 0.125, 0.25, 0.5, 0.75, 1]), max_size=12))
    found = arrays.on(sf.reduce_quantile)(x, levels, empty=7.0)
    if isinstance(found, list):
        return  # without items they keep no item shape
    shape = (len(truth.sequences()), len(levels), *truth.item_shape)
    found = values(found)
    assert found.shape == shape
    assert found.dtype == (np.dtype("f4") if truth.dtype in ("f4", ">f4") else np.dtype("f8"))
    for i, sequence in enumerate(truth.sequences()):
        for place in np.ndindex(*truth.item_shape):
            column = [item[place].item() for item in sequence]
            for q, level in enumerate(levels):
                wanted = 7.0
                if column:
                    finite = all(np.isfinite(column))
                    exact = [fractions.Fraction(v) for v in column] if finite else [float(v) for v in column]
                    wanted = float(oracle.quantile(exact, fractions.Fraction(level) if finite else level))
                biggest = max((abs(v) for v in column if np.isfinite(v)), default=0)
                bound = 4 * np.finfo(found.dtype).eps * float(biggest) + np.finfo(found.dtype).tiny
                assert np.isclose(found[(i, q, *place)], wanted, rtol=0, atol=bound, equal_nan=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 16, 17, 18, 40, 50 if INTERPRETED else 400])
def test_quantiles_are_numpys(arrays, way, length):
    rng = np.random.default_rng(length)
    data = rng.normal(size=(length, 2)).round(1)
    levels = [0, 0.01, 0.25, 1 / 3, 0.5, 0.62, 0.99, 1]
    x = sf.Ragged(data, [length])
    wanted = np.quantile(data, levels, axis=0, method=way)
    assert np.allclose(arrays.on(sf.reduce_quantile)(x, levels, interpolation=way)[0], wanted, rtol=1e-14)
    for q, level in enumerate(levels):  # one at a time, which are not sorted
        assert np.allclose(sf.reduce_quantile(x, level, interpolation=way)[0], wanted[q], rtol=1e-14)
    many = np.linspace(0, 1, 21)
    found = sf.reduce_quantile(x, many, interpolation=way)[0]
    assert np.allclose(found, np.quantile(data, many, axis=0, method=way), rtol=1e-14)


def inputs_against_quicksort(n):
    """Orders that some ways of choosing a pivot are slow for."""
    t = np.arange(n)
    yield from (t, t[::-1], np.zeros(n, int), t % 2, np.minimum(t, t[::-1]), np.maximum(t, t[::-1]), t * 7919 % n)
    killer = np.empty(n, int)  # of the median of three: Musser's sequence
    half = n // 2
    killer[: 2 * (half // 2) : 2] = np.arange(1, 2 * (half // 2), 2)
    killer[1 : 2 * (half // 2) : 2] = half + np.arange(1, 2 * (half // 2), 2)
    killer[2 * (half // 2) :] = np.arange(n - 2 * (half // 2)) * 2
    yield killer


@pytest.mark.parametrize("n", [17, 100, 300] if INTERPRETED else [17, 100, 1000, 100_000])
def test_any_order_of_the_items(n):
    for data in inputs_against_quicksort(n):
        x = sf.Ragged(data.astype("f8"), [n])
        assert sf.reduce_median(x) == np.median(data)
        assert np.array_equal(sf.reduce_quantile(x, np.linspace(0, 1, 9))[0], np.quantile(data, np.linspace(0, 1, 9)))
        assert sf.reduce_nunique(x) == len(np.unique(data))
        found, counts = np.unique(data, return_counts=True)
        assert sf.reduce_mode(x) == found[counts.argmax()]


@every_encoding
def test_the_gradient_goes_to_the_items_of_a_quantile(arrays, kind):
    x = sf.convert([np.array([4.0, 1.0, 3.0, 2.0]), np.zeros(0), np.array([5.0, 5.0, 7.0])], kind)
    flat = lambda dx: sf.convert(dx, sf.Ragged).data.tolist()  # noqa: E731
    assert flat(arrays.vjp(sf.reduce_median, x)[1](np.array([8.0, 9.0, 3.0]))) == [0, 0, 4, 4, 0, 3, 0]
    dy = np.array([[8.0, 1.0], [9.0, 9.0], [4.0, 1.0]])
    assert flat(arrays.vjp(sf.reduce_quantile, x, [0.25, 1.0])[1](dy)) == [1, 2, 0, 6, 2, 2, 1]
    x = sf.convert([np.array([1.0, np.nan, np.nan])], kind)
    assert flat(arrays.vjp(sf.reduce_median, x)[1](np.array([3.0]))) == [0, 3, 0]


def test_one_level_has_no_axis():
    x = sf.LoD(np.arange(6.0).reshape(3, 2), [[0, 2], [0, 1, 3]])
    assert sf.reduce_quantile(x, 0.5).data.tolist() == [[0, 1], [3, 4]]
    assert sf.reduce_quantile(x, [0.5]).data.shape == (2, 1, 2)
    assert sf.reduce_quantile(x, []).data.shape == (2, 0, 2)
    assert sf.reduce_quantile([[[1, 2]], []], 0.5) == [[1.5], []]
    for q in (np.float32(0.5), np.array(0.5), 1, np.int8(0)):
        assert sf.reduce_quantile(x, q).data.shape == (2, 2)


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan, 2, [0.5, -1], 10**400, np.inf])
def test_levels_that_cannot_be(q):
    for call in (sf.reduce_quantile, functools.partial(sf.vjp, sf.reduce_quantile)):
        with pytest.raises(sf.ConversionError, match="q must be a number from 0 to 1"):
            call(sf.Ragged(np.ones(3), [2, 1]), q)


@pytest.mark.parametrize("q", [None, "0.5", True, 1j, object(), {}, [None], ["a"], [True]])
def test_levels_of_a_wrong_kind(q):
    with pytest.raises(TypeError, match="q must be a number"):
        sf.reduce_quantile(sf.Ragged(np.ones(3), [2, 1]), q)


def test_other_wrong_options():
    x = sf.Ragged(np.ones(3), [2, 1])
    with pytest.raises(sf.StructureError, match="one axis"):
        sf.reduce_quantile(x, [[0.5]])
    with pytest.raises(sf.ConversionError, match="interpolation must be one of linear, lower.*'cubic'"):
        sf.reduce_quantile(x, 0.5, interpolation="cubic")
    with pytest.raises(TypeError, match="interpolation must be a name"):
        sf.reduce_quantile(x, 0.5, interpolation=None)
    with pytest.raises(TypeError, match="no order"):
        sf.reduce_quantile(sf.Ragged(np.ones(1, "c8"), [1]), 0.5)
