"""Indexing on every encoding: ``convert(x[k], List)`` equals ``convert(x, List)[k]``, and a Python list agrees."""

import itertools
import operator

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)


def example(kind, dtype="f4", item_shape=(2,)):
    """Four outermost sequences; a `LoD` has two levels."""
    if kind is sf.LoD:
        return oracle.build(kind, strategies.truth_from([[3, 0], [], [1], [2, 2]], dtype, item_shape, levels=2))
    return oracle.build(kind, strategies.truth_from([3, 0, 1, 2], dtype, item_shape))


# ------------------------------------------------------------------------------------------ the one law


@every_encoding
@given(data=st.data())
def test_any_index_on_any_encoding(arrays, kind, data):
    """The same encoding, those sequences in that order, valid, dtype and item shape kept."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    index = data.draw(strategies.indices(len(truth)))
    result = arrays.on(operator.getitem)(x, index)
    assert type(result) is kind
    oracle.assert_holds(result, truth.take(strategies.chosen(index, len(truth))))


@every_encoding
@given(data=st.data())
def test_indexing_and_converting_commute(kind, data):
    truth, x = data.draw(strategies.encoded(kind, levels=1))
    index = data.draw(strategies.indices(len(truth)))
    oracle.assert_same(sf.convert(x[index], sf.List), sf.convert(x, sf.List)[index])


# --------------------------------------------------------------------------------------- layouts kept


@given(data=st.data())
def test_masked_keeps_width_side_and_padding(arrays, data):
    truth, x = data.draw(strategies.encoded(sf.Masked, kinds=arrays.dtypes))
    index = data.draw(strategies.indices(len(truth)))
    result = arrays.on(operator.getitem)(x, index)
    assert result.side == x.side
    oracle.assert_bits(result.data, x.data[strategies.chosen(index, len(truth))])


@given(data=st.data())
def test_padded_is_cut_to_its_new_longest(arrays, data):
    truth, x = data.draw(strategies.encoded(sf.Padded, kinds=arrays.dtypes))
    index = data.draw(strategies.indices(len(truth)))
    result = arrays.on(operator.getitem)(x, index)
    chosen = truth.take(strategies.chosen(index, len(truth)))
    assert result.data.shape[:2] == (chosen.longest(), len(chosen))
    assert result.size_at_t.tolist() == oracle.sizes_of(chosen.lengths(), chosen.longest())


@every_encoding
@pytest.mark.parametrize("index", [slice(0, 0), [], np.array([], np.int64), np.zeros(4, bool)], ids=repr)
@pytest.mark.parametrize("item_shape", [(), (3,), (0,), (2, 0, 3)], ids=str)
def test_nothing_chosen_keeps_dtype_and_item_shape(kind, index, item_shape):
    x = example(kind, ">f4", item_shape)
    result = x[index]
    assert len(result) == 0
    assert result.rows == 0
    assert result.dtype == np.dtype(">f4")
    assert result.item_shape == item_shape
    assert len(sf.convert(result, sf.List)) == 0


@every_encoding
@pytest.mark.parametrize("index", [np.int8(127), np.int8(-128), np.uint8(199), np.int16(-1)], ids=repr)
def test_small_numpy_integers_do_not_overflow(kind, index):
    x = sf.convert(sf.Ragged(np.arange(200), [1] * 200), kind)
    assert sf.convert(x[index], list) == [[int(index) % 200]]


@pytest.mark.parametrize("kind", [sf.Padded, sf.Packed], ids=oracle.format_name)
def test_equal_lengths_keep_their_order_after_indexing(kind):
    x = sf.convert(sf.Ragged(np.arange(4), [1, 1, 1, 1]), kind)
    result = x[[2, 0, 3]]
    assert result.indices.tolist() == [0, 1, 2]
    assert result.data.reshape(-1).tolist() == [2, 0, 3]


# --------------------------------------------------------------------------------------------------- views

CHAINED = [sf.Ragged, sf.Masked, sf.LoD, sf.List]


@pytest.mark.parametrize("kind", CHAINED, ids=oracle.format_name)
@pytest.mark.parametrize("cut", [slice(None), slice(0, 3), slice(2, None), slice(-2, None), slice(0, 4, 1)], ids=str)
def test_slices_are_views(kind, cut):
    x = example(kind)
    result = x[cut]
    for array in oracle.arrays_of(result):
        assert array.size == 0 or any(np.shares_memory(array, whole) for whole in oracle.arrays_of(x))
    for array in oracle.arrays_of(x):
        array[...] = -1
    assert all((array == -1).all() for array in oracle.arrays_of(result))
    assert sum(array.size for array in oracle.arrays_of(result)) > 0


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Masked, sf.LoD], ids=oracle.format_name)
def test_lists_of_positions_are_copies(kind):
    x = example(kind)
    for index in ([0, 3], [3, 0], np.array([True, False, False, True])):
        assert not oracle.shares(x[index], x)


@every_encoding
@given(data=st.data())
def test_indexing_changes_nothing(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    x[data.draw(strategies.indices(len(truth)))]
    oracle.assert_holds(x, truth)


# -------------------------------------------------------------------------------------------------- errors


@every_encoding
@pytest.mark.parametrize(
    "index",
    [4, -5, 100, np.int64(4), [0, 4], [-5], np.array([0, 4]), [True], np.ones(5, bool), np.ones(3, bool), 2**70],
    ids=repr,
)
def test_a_wrong_index(kind, index):
    with pytest.raises(IndexError):
        example(kind)[index]


@every_encoding
@pytest.mark.parametrize(
    "index",
    [
        0.0,
        np.float64(1),
        "0",
        None,
        {},
        [0.0, 1.0],
        np.array([0.0]),
        ["a"],
        [None],
        ...,
        (0, 1),
        [[0], [1]],
        np.zeros((2, 2), np.int64),
        slice(0.0, 2.0),
        slice("a", None),
    ],
    ids=repr,
)
def test_a_wrong_kind_of_index(kind, index):
    with pytest.raises(TypeError):
        example(kind)[index]


@every_encoding
def test_an_index_into_no_sequences(kind):
    x = oracle.build(kind, strategies.truth_from([], "f4", (3,)))
    for index in (0, -1, [0], np.ones(1, bool)):
        with pytest.raises(IndexError):
            x[index]
    for index in (slice(None), slice(None, None, -1), [], np.zeros(0, bool)):
        result = x[index]
        assert len(result) == 0
        assert result.item_shape == (3,)
        assert result.dtype == np.float32


def test_a_wrong_index_names_the_number_of_sequences():
    for kind in oracle.ENCODINGS:
        with pytest.raises(IndexError, match=r"(?s)9.*4|4.*9"):
            example(kind)[9]


# ----------------------------------------------------------------------------------------------- iteration


@every_encoding
@given(data=st.data())
def test_iteration_gives_every_sequence_and_ends(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    parts = list(itertools.islice(iter(x), len(truth) + 5))
    assert len(parts) == len(truth)
    for i, part in enumerate(parts):
        assert type(part) is kind
        oracle.assert_holds(part, truth.take([i]))


@every_encoding
def test_reversed_and_unpacking(kind):
    x = example(kind)
    first, *_, last = x
    oracle.assert_same(first, x[0])
    oracle.assert_same(last, x[-1])
    oracle.assert_same(next(iter(reversed(x))), x[3])
    assert len(list(zip(x, x, strict=True))) == 4


# --------------------------------------------------------------------------------------------------- pairs


@given(data=st.data())
def test_pairs_index_both_members(data):
    one, first = data.draw(strategies.encoded(sf.Ragged))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=len(one), max_size=len(one)))
    two = strategies.truth_from(lengths, "i8")
    pairs = sf.Pairs(first, oracle.build(sf.Padded, two))
    index = data.draw(strategies.indices(len(one)))
    chosen = strategies.chosen(index, len(one))
    result = pairs[index]
    assert type(result) is sf.Pairs
    assert len(result) == len(chosen)
    oracle.assert_holds(result.one, one.take(chosen))
    oracle.assert_holds(result.two, two.take(chosen))


@pytest.mark.parametrize("index", [np.int8(127), np.int8(-128), np.uint8(199), np.int16(-1)], ids=repr)
def test_small_numpy_integers_do_not_overflow_in_pairs(index):
    result = sf.Pairs(sf.Ragged(np.arange(200), [1] * 200), np.arange(200))[index]
    assert result.two.tolist() == [int(index) % 200]
    assert result.one.data.tolist() == [int(index) % 200]


def test_pairs_with_an_array():
    rows = np.arange(8).reshape(4, 2)
    result = sf.Pairs(example(sf.Ragged), rows)[[3, 0]]
    assert result.two.tolist() == [[6, 7], [0, 1]]
    assert result.one.lengths.tolist() == [2, 3]
    with pytest.raises(IndexError):
        sf.Pairs(example(sf.Ragged), rows)[4]
    assert len(list(itertools.islice(iter(sf.Pairs(example(sf.Ragged), rows)), 9))) == 4
