"""Items by marks and runs of equal items, against plain Python."""

import math

import numpy as np
import oracle
import pytest
import rows_oracle
import strategies
from checks import assert_result, assert_slopes, mapped
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)

HALF = [np.dtype("f2"), strategies.BFLOAT16]
NUMBERS = [dtype for dtype in strategies.DTYPES if dtype.kind in "bfciu" or dtype in HALF]


@st.composite
def marks(draw, lengths):
    """A bool per item, as lists, and in one of the ways in which they can be given."""
    found = [draw(st.lists(st.booleans(), min_size=k, max_size=k)) for k in lengths]
    kind = draw(st.sampled_from([*oracle.ENCODINGS, list, np.ndarray]))
    if kind is list and lengths:
        return found, found
    item = draw(st.sampled_from([(), (1,)]))
    if kind is np.ndarray:
        return found, np.array([mark for part in found for mark in part], bool)
    truth = oracle.truth_of([np.array(part, bool).reshape(-1, *item) for part in found], bool, item)
    return found, oracle.build(sf.Masked if kind is list else kind, truth)


@every_format
@given(data=st.data())
def test_filter(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(strategies.DTYPES)))
    wanted, keep = data.draw(marks(truth.lengths()))
    if not truth.lengths() and isinstance(keep, sf.List):
        keep = np.zeros(0, bool)
    found = arrays.on(sf.filter)(x, keep)
    assert_result(found, x, mapped(truth, lambda items, i: rows_oracle.kept(items, wanted[i])))


def test_long_sequences_and_several_threads():
    for lengths in ([300, 0, 5], [1] * 3000 + [0] * 10, [200_000, 1]):
        rng = np.random.default_rng(0)
        keep = rng.random(sum(lengths)) < 0.5
        x = sf.Ragged(rng.random((sum(lengths), 2)), lengths)
        found = sf.filter(x, keep)
        np.testing.assert_array_equal(found.data, x.data[keep])
        np.testing.assert_array_equal(found.lengths, [part.sum() for part in np.split(keep, x.offsets[1:-1])])


@every_encoding
def test_gradient_of_filter(arrays, kind):
    x = oracle.build(kind, strategies.truth_from([3, 0, 1, 4], np.dtype("f8"), (2,)))
    keep = np.array([1, 0, 1, 0, 1, 1, 0, 0], bool)
    assert_slopes(lambda x: arrays.vjp(sf.filter, x, keep), [x])


def test_any_dtype_has_a_gradient():
    x = sf.Ragged(np.array([1, 2, 3]), [2, 1])
    _, pullback = sf.vjp(sf.filter, x, [[True, False], [True]])
    assert pullback(np.array([5, 7])).data.tolist() == [5, 0, 7]


def test_documented_examples_of_boolean_mask():
    """Those of tf.ragged.boolean_mask, by hand."""
    keep = np.array([True, False, True, False, False, False, True, False, True])
    x = sf.Ragged(np.arange(1, 10), [3, 3, 3])
    assert sf.convert(sf.filter(x, keep), sf.LoD).to_nested() == [[1, 3], [], [7, 9]]
    lists = [[1, 2, 3], [4], [5, 6]]
    assert sf.filter(lists, [[False, False, True], [False], [True, True]]) == [[3], [], [5, 6]]
    rows = sf.select([[1, 2, 3], [4], [5, 6]], [True, False, True])
    assert rows == [[1, 2, 3], [5, 6]]


def test_a_mask_of_its_own():
    x = sf.Masked(np.array([[1.0, -1.0], [5.0, 0.0]]), [2, 1])
    found = sf.filter(x, sf.Masked(x.data > 0, [2, 1]))
    assert type(found) is sf.Masked
    assert sf.convert(found, sf.LoD).to_nested() == [[1.0], [5.0]]


ERRORS = {
    "keep has 1 sequences, but x has 2": (sf.StructureError, [[True]]),
    "sequence 1 of keep has 0 items, but that of x has 1": (sf.StructureError, [[True, True, True], []]),
    "one bool per item, but has item shape": (sf.StructureError, sf.Ragged(np.zeros((4, 2), bool), [3, 1])),
    r"one bool per item, shape \(4,\)": (sf.StructureError, np.zeros(3, bool)),
    "keep must hold bools, not int64; give keep != 0": (TypeError, [[1, 0, 1], [0]]),
    "keep must hold bools, not uint8": (TypeError, np.zeros(4, np.uint8)),
    "is no single batch": (TypeError, 1),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors_of_filter(message):
    kind, keep = ERRORS[message]
    with pytest.raises(kind, match=message):
        sf.filter(sf.Ragged(np.arange(4), [3, 1]), keep)


# --------------------------------------------------------------------------------------------------- runs


@every_format
@given(data=st.data())
def test_run_starts(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(NUMBERS)))
    wanted = mapped(truth, lambda items, _: [np.bool_(mark) for mark in rows_oracle.starts(items)], (), bool)
    assert_result(arrays.on(sf.run_starts)(x), x, wanted)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("item", [(), (1,), (3,)])
def test_runs_of_every_dtype(arrays, dtype, item):
    if dtype not in arrays.dtypes:
        pytest.skip("a dtype that the library does not have")
    values = np.repeat([0, 1, 1, 0, 1], [2, 1, 3, 1, 2]).astype(dtype)
    data = np.zeros((9, *item), dtype)
    data.reshape(9, -1)[:, -1] = values
    for kind in oracle.ENCODINGS:
        x = sf.convert(sf.Ragged(data, [4, 0, 5]), kind)
        found = sf.convert(arrays.on(sf.run_starts)(x), sf.Ragged)
        assert found.data.tolist() == [True, False, True, False, True, False, True, True, False]
        assert found.dtype == bool


def test_special_values_are_compared_by_value():
    nan = math.nan
    for dtype in ("f8", "f4", "f2", "c8"):
        x = sf.Ragged(np.array([nan, nan, 0.0, -0.0, math.inf, math.inf], dtype), [6])
        assert sf.run_starts(x).data.tolist() == [True, True, True, False, True, False]


def test_runs_of_no_numbers():
    assert sf.run_starts([[], []]) == [[], []]
    assert sf.run_starts(sf.Ragged(np.zeros((3, 0)), [3])).data.tolist() == [True, False, False]
    with pytest.raises(TypeError, match="cannot be added up"):
        sf.run_starts(sf.Ragged(np.array(["a"]), [1]))


def test_each_run_once():
    x = sf.Ragged(np.array([4, 4, 5, 5, 5]), [3, 2])
    assert sf.filter(x, sf.run_starts(x)).data.tolist() == [4, 5, 5]
