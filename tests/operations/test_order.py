"""Sequences in order, their largest and their distinct items, against plain Python."""

import math

import numpy as np
import oracle
import pytest
import rows_oracle
import strategies
from checks import assert_result, assert_slopes, in_lists, mapped, rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
both_ways = pytest.mark.parametrize("falling", [False, True], ids=["rising", "falling"])

HALF = [np.dtype("f2"), strategies.BFLOAT16]
ORDERED = [dtype for dtype in strategies.DTYPES if dtype.kind in "bfiu" or dtype in HALF]
NUMBERS = [np.dtype(code) for code in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f4")]


def ordered(truth, part, most=None, **how):
    """The truth of the values (0) or of the places (1) in order."""
    most = most or {}
    return mapped(
        truth,
        lambda items, i: rows_oracle.ordered(items, most.get(i), **how)[part],
        dtype=np.int64 if part else truth.dtype,
    )


@both_ways
@every_format
@given(data=st.data())
def test_sort_and_argsort(arrays, kind, falling, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(ORDERED)))
    assert_result(arrays.on(sf.sort)(x, descending=falling), x, ordered(truth, 0, falling=falling))
    assert_result(arrays.on(sf.argsort)(x, descending=falling), x, ordered(truth, 1, falling=falling))


def many(dtype, item, lengths=(3, 0, 40, 1, 17, 200, 33), few=True):
    """Numbers with many equal ones, and of floats NaN, infinities and both zeros."""
    dtype, rng = np.dtype(dtype), np.random.default_rng(7)
    shape = (sum(lengths), *item)
    if dtype.kind == "f":
        data = rng.choice([math.nan, 0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, 7.0], shape).astype(dtype)
    elif dtype.kind == "b" or few:
        data = rng.integers(0, 9, shape).astype(dtype)
    else:
        data = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype.newbyteorder("="), True)
    return sf.Ragged(data.astype(dtype), list(lengths))


def by_numpy(x, falling, nans=False):
    """The places of every sequence in order, column by column, by a stable sort of NumPy's."""
    found = []
    for part in np.split(x.data, x.offsets[1:-1]):
        wide = part.astype("f8" if part.dtype.kind == "f" else object if part.dtype.itemsize == 8 else "i8")
        keys = -wide if falling else wide
        if nans:
            keys = np.where(keys != keys, -math.inf, np.clip(keys, -9, 9))
        found.append(np.argsort(keys, 0, kind="stable"))
    return found


@both_ways
@pytest.mark.parametrize("item", [(), (3,)], ids=str)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_long_sequences(dtype, item, falling):
    """Those that are merged, beside NumPy's stable sort."""
    for few in (True, False):
        x = many(dtype, item, few=few)
        found = sf.argsort(x, descending=falling)
        np.testing.assert_array_equal(found.data, np.concatenate(by_numpy(x, falling)))
        values = np.take_along_axis(
            x.data, found.data + np.repeat(x.offsets[:-1], x.lengths).reshape(-1, *[1] * len(item)), 0
        )
        oracle.assert_bits(sf.sort(x, descending=falling).data, values)


@pytest.mark.parametrize("length", [15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 257])
def test_lengths_around_those_of_runs(arrays, length):
    if not arrays.first and length > 70:
        pytest.skip("slow in a simulator")
    rng = np.random.default_rng(length)
    for data in (rng.integers(0, 5, length), np.arange(length), np.arange(length)[::-1].copy(), rng.random(length)):
        found = arrays.on(sf.argsort)(sf.Ragged(data, [length]))
        np.testing.assert_array_equal(found.data, np.argsort(data, kind="stable"))
        found = arrays.on(sf.argsort)(sf.Ragged(data, [length]), descending=True)
        np.testing.assert_array_equal(found.data, np.argsort(-data, kind="stable"))


def test_several_threads():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 3000, 100)
    x = sf.Ragged(rng.random(lengths.sum()), lengths)
    found = sf.sort(x)
    np.testing.assert_array_equal(
        found.data, np.concatenate([np.sort(part) for part in np.split(x.data, x.offsets[1:-1])])
    )


def test_nan_comes_last_both_ways():
    nan = math.nan
    x = sf.Ragged(np.array([nan, 1.0, nan, 2.0]), [4])
    assert str(sf.sort(x).data.tolist()) == "[1.0, 2.0, nan, nan]"
    assert str(sf.sort(x, descending=True).data.tolist()) == "[2.0, 1.0, nan, nan]"
    assert sf.argsort(x, descending=True).data.tolist() == [3, 1, 0, 2]


def shuffled(kind):
    """Different numbers in no order."""
    x = oracle.build(kind, strategies.truth_from([3, 0, 1, 4], np.dtype("f8"), (2,)))
    data = np.random.default_rng(1).permutation(16).astype(float).reshape(8, 2)
    return sf.convert_like(sf.Ragged(data, sf.lengths(x)), x)


@both_ways
@every_encoding
def test_gradient_of_sort(arrays, kind, falling):
    x = oracle.build(kind, strategies.truth_from([3, 0, 1, 4], np.dtype("f8"), (2,)))
    x = sf.convert_like(
        sf.Ragged(np.random.default_rng(1).permutation(16).astype(float).reshape(8, 2), sf.lengths(x)), x
    )
    assert_slopes(lambda x: arrays.vjp(sf.sort, x, descending=falling), [x], 1e-3)
    y, pullback = arrays.vjp(sf.sort, x, descending=falling)
    np.testing.assert_array_equal(rows(pullback(y)), rows(x))


def test_gradient_of_sorted_integers():
    _, pullback = sf.vjp(sf.sort, sf.Ragged(np.array([3, 1, 2]), [3]))
    assert pullback(np.array([10, 20, 30])).data.tolist() == [30, 10, 20]


def test_what_has_no_order():
    for function in (sf.sort, sf.argsort, sf.unique, sf.argmin, lambda x: sf.topk(x, 1)):
        for data in (np.zeros(1, "c8"), np.array(["a"]), np.array(["2001-01-01"], "M8[s]")):
            with pytest.raises(TypeError, match="have no order"):
                function(sf.Ragged(data, [1]))
    for function in (sf.sort, sf.argsort):
        with pytest.raises(TypeError, match="descending must be True or False"):
            function(sf.Ragged(np.zeros(1), [1]), descending="yes")


# ---------------------------------------------------------------------------------------------------- top


@both_ways
@every_format
@given(data=st.data())
def test_topk(arrays, kind, falling, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(ORDERED)))
    n = len(truth.lengths())
    k = data.draw(st.one_of(st.integers(0, 4), st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    most = dict(enumerate([k] * n if isinstance(k, int) else k))
    found = arrays.on(lambda x: list(sf.topk(x, k, largest=falling)))(x)
    assert_result(found[0], x, ordered(truth, 0, most, falling=falling, nans=True))
    assert_result(found[1], x, ordered(truth, 1, most, falling=falling, nans=True))


@both_ways
@pytest.mark.parametrize("k", [1, 5, 16, 17, 50, 1000])
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_topk_of_long_sequences(dtype, k, falling):
    x = many(dtype, (2,))
    values, places = sf.topk(x, k, largest=falling)
    wanted = by_numpy(x, falling, nans=x.dtype.kind == "f")
    np.testing.assert_array_equal(places.data, np.concatenate([part[:k] for part in wanted]))
    np.testing.assert_array_equal(values.lengths, np.minimum(x.lengths, k))


def test_the_first_of_the_top_is_that_of_argmax():
    x = many("f4", (3,), (3, 40, 1))
    np.testing.assert_array_equal(sf.topk(x, 1).places.data, sf.argmax(x))
    np.testing.assert_array_equal(sf.topk(x, 1, largest=False).places.data, sf.argmin(x))


@every_encoding
def test_gradient_of_topk(arrays, kind):
    x = oracle.build(kind, strategies.truth_from([3, 0, 1, 4], np.dtype("f8"), (2,)))
    x = sf.convert_like(
        sf.Ragged(np.random.default_rng(1).permutation(16).astype(float).reshape(8, 2), sf.lengths(x)), x
    )

    def call(x):
        y, pullback = sf.vjp(sf.topk, arrays.up(x), 2)
        assert type(y) is sf.TopK
        return arrays.down(y.values), lambda dy: arrays.down(pullback(arrays.up(dy)))

    assert_slopes(call, [x], 1e-3)
    y, pullback = sf.vjp(sf.topk, x, 2)
    np.testing.assert_array_equal(rows(pullback(y)), rows(pullback(y.values)))


def test_errors_of_topk():
    x = sf.Ragged(np.arange(4), [3, 1])
    with pytest.raises(sf.StructureError, match="k must not be negative, but is -1 for sequence 1"):
        sf.topk(x, [1, -1])
    with pytest.raises(sf.StructureError, match="k has 3 numbers, but there are 2"):
        sf.topk(x, [1, 1, 1])
    with pytest.raises(TypeError, match="k must be"):
        sf.topk(x, 1.5)
    with pytest.raises(TypeError, match="largest must be True or False"):
        sf.topk(x, 1, largest=0)
    assert sf.topk(x, 2**62).values.data.tolist() == [2, 1, 0, 3]


# ------------------------------------------------------------------------------------------------- unique


@every_format
@given(data=st.data())
def test_unique(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(ORDERED), shapes=[(), (1,)]))
    values = mapped(truth, lambda items, _: rows_oracle.distinct(items)[0])
    counts = mapped(
        truth,
        lambda items, _: [np.array(k).reshape(truth.item_shape) for k in rows_oracle.distinct(items)[1]],
        dtype=np.int64,
    )
    assert_result(arrays.on(sf.unique)(x), x, values)
    found = arrays.on(lambda x: list(sf.unique(x, counts=True)))(x)
    assert_result(found[0], x, values)
    assert_result(found[1], x, counts)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_unique_as_numpy(dtype):
    x = many(dtype, ())
    values, counts = sf.unique(x, counts=True)
    for i, part in enumerate(np.split(x.data, x.offsets[1:-1])):
        one, many_ = np.unique(part, return_counts=True)
        np.testing.assert_array_equal(values[i].data, one)
        np.testing.assert_array_equal(counts[i].data, many_)


def test_errors_of_unique():
    with pytest.raises(sf.StructureError, match=r"items of shape \(\) or \(1,\)"):
        sf.unique(sf.Ragged(np.zeros((2, 2)), [2]))
    with pytest.raises(TypeError, match="counts must be True or False"):
        sf.unique(sf.Ragged(np.zeros(2), [2]), counts=1)
    assert sf.unique([[], []]) == [[], []]
    assert sf.unique([[2, 1, 2], []], counts=True) == ([[1, 2], []], [[1, 2], []])


# ------------------------------------------------------------------------------------------------- argmin


@every_format
@given(data=st.data())
def test_argmin(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(ORDERED), levels=1))
    wanted = np.full((len(truth.lengths()), *truth.item_shape), -1)
    for i, items in enumerate(truth.sequences()):
        for place, numbers in rows_oracle.columns(items):
            wanted[(i, *place)] = oracle.first_least(numbers)
    found = np.asarray(arrays.on(sf.argmin)(x))
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype == np.int64


def test_argmin_of_levels():
    x = sf.LoD(np.array([3.0, 1.0, 2.0]), [[0, 2], [0, 2, 3]])
    assert sf.argmin(x).to_nested() == [[1, 0]]
    assert sf.argmin([[[2, 1], []]]) == in_lists(oracle.infer([[1, -1]]), [[1, -1]])
