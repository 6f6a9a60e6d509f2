"""The oracle itself: it agrees with numbers written by hand, and its comparisons fail on wrong answers."""

import itertools

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

SEQUENCES = [[1, 2, 3], [], [4], [5, 6]]


def small(dtype="i8", item_shape=()):
    return strategies.truth_from([3, 0, 1, 2], dtype, item_shape)


def test_builders_agree_with_numbers_written_by_hand():
    truth = small()
    padded = oracle.padded_fields(truth, fill=9)
    assert padded["data"].tolist() == [[1, 5, 4, 9], [2, 6, 9, 9], [3, 9, 9, 9]]
    assert padded["size_at_t"] == [3, 2, 1]
    assert padded["lengths"] == [3, 2, 1, 0]
    assert padded["indices"] == [0, 3, 2, 1]
    assert oracle.packed_fields(truth)["data"].tolist() == [1, 5, 4, 2, 6, 3]
    assert oracle.ragged_fields(truth)["data"].tolist() == [1, 2, 3, 4, 5, 6]
    assert [item.tolist() for item in oracle.list_fields(truth)["items"]] == SEQUENCES
    assert oracle.nested(truth) == SEQUENCES


def test_equal_lengths_keep_their_order():
    assert oracle.falling([2, 1, 2, 3, 1]) == [3, 0, 2, 1, 4]


def test_masked_sides_and_widths_by_hand():
    truth = small()
    left = oracle.masked_fields(truth, side="left", fill=7, width=4)
    assert left["data"].tolist() == [[7, 1, 2, 3], [7, 7, 7, 7], [7, 7, 7, 4], [7, 7, 5, 6]]
    right = oracle.masked_fields(truth, multiple_of=2)
    assert right["data"].tolist() == [[1, 2, 3, 0], [0, 0, 0, 0], [4, 0, 0, 0], [5, 6, 0, 0]]
    cut = oracle.masked_fields(truth, width=2, truncate=True)
    assert cut["data"].tolist() == [[1, 2], [0, 0], [4, 0], [5, 6]]
    assert cut["lengths"] == [2, 0, 1, 2]


def test_truncated_padding_sorts_what_is_left():
    truth = strategies.truth_from([2, 5, 3], "i8")
    fields = oracle.padded_fields(truth, width=2, truncate=True)
    assert fields["lengths"] == [2, 2, 2]
    assert fields["indices"] == [0, 1, 2]


def test_levels_by_hand():
    truth = oracle.infer([[[1, 2], [3, 4]], [[5, 6, 7]]])
    assert truth.levels == 2
    assert truth.counts() == [[2, 1], [2, 2, 3]]
    assert oracle.lod_fields(truth)["lod"] == ([0, 2, 3], [0, 2, 4, 7])
    assert [len(sequence) for sequence in truth.sequences(0)] == [4, 3]
    assert [len(sequence) for sequence in truth.sequences(-1)] == [2, 2, 3]
    assert oracle.nested(truth.at(0)) == [[1, 2, 3, 4], [5, 6, 7]]


def test_inferred_nesting():
    assert oracle.infer([]).counts() == [[]]
    assert oracle.infer([]).dtype == np.float64
    assert oracle.infer([[], []]).counts() == [[0, 0]]
    assert oracle.infer([[], [[1]]]).counts() == [[0, 1], [1]]
    assert oracle.infer([np.zeros((2, 3), "f4")]).item_shape == (3,)
    assert oracle.infer([[np.zeros((2, 3), "f4")], []]).counts() == [[1, 0], [2]]


@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
@given(data=st.data())
def test_reading_undoes_building(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    oracle.assert_holds(x, truth)


# ------------------------------------------------------------------------------- comparisons that must fail


def changed(truth, position=(0, 1)):
    """The same batch with another value in one item."""
    nest = [list(sequence) for sequence in truth.nest]
    item = nest[position[0]][position[1]].copy()
    flat = item.reshape(-1).view(np.uint8)
    flat[0] ^= 1
    nest[position[0]][position[1]] = item
    return oracle.Truth(nest, truth.dtype, truth.item_shape)


WRONG_BATCHES = {
    "one item changed": changed(small()),
    "one item short": oracle.Truth([small().nest[0][:2], *small().nest[1:]], np.dtype("i8")),
    "same items cut elsewhere": strategies.truth_from([2, 1, 1, 2], "i8"),
    "sequences in another order": small().take([3, 1, 2, 0]),
    "one sequence missing": small().take([0, 1, 2]),
    "empty sequence missing": small().take([0, 2, 3]),
    "another dtype": small("f8"),
    "another byte order": small(">i8"),
    "item shape lost": strategies.truth_from([3, 0, 1, 2], "i8", (1,)),
}


@pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
@pytest.mark.parametrize("wrong", WRONG_BATCHES)
def test_assert_same_fails_on(wrong, kind):
    right, other = oracle.build(kind, small()), oracle.build(kind, WRONG_BATCHES[wrong])
    oracle.assert_same(right, oracle.build(kind, small()))
    if kind is list and wrong == "another byte order":
        oracle.assert_same(other, right)  # Python numbers have none
        return
    with pytest.raises(AssertionError):
        oracle.assert_same(other, right)
    with pytest.raises(AssertionError):
        oracle.assert_same(right, other)


@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
@pytest.mark.parametrize(("one", "two"), [((0,), (2, 0)), ((3,), (1,)), ((2, 3), (6,)), ((), (1,))], ids=str)
def test_assert_same_fails_on_another_item_shape_without_items(kind, one, two):
    batch = strategies.truth_from([0, 0], "f4", one)
    with pytest.raises(AssertionError, match="item shape"):
        oracle.assert_same(oracle.build(kind, strategies.truth_from([0, 0], "f4", two)), oracle.build(kind, batch))


def test_assert_same_fails_on_another_encoding():
    with pytest.raises(AssertionError):
        oracle.assert_same(oracle.build(sf.Ragged, small()), oracle.build(sf.LoD, small()))


def test_assert_same_fails_on_the_other_side():
    left, right = (oracle.build(sf.Masked, small(), side=side) for side in ("left", "right"))
    with pytest.raises(AssertionError, match="side"):
        oracle.assert_same(left, right)


def test_assert_same_fails_on_a_lost_level():
    truth = strategies.truth_from([[1, 2], [0]], "i8", levels=2)
    lost = oracle.build(sf.LoD, truth.at(-1))
    with pytest.raises(AssertionError, match="levels"):
        oracle.assert_same(lost, oracle.build(sf.LoD, truth))


def test_assert_same_fails_on_another_outer_level():
    one, two = (strategies.truth_from(nesting, "i8", levels=2) for nesting in ([[1, 0], [2]], [[1], [0, 2]]))
    with pytest.raises(AssertionError, match="lengths"):
        oracle.assert_same(oracle.build(sf.LoD, one), oracle.build(sf.LoD, two))


def test_assert_same_compares_bits():
    zero, minus = (sf.Ragged(np.array([value]), [1]) for value in (0.0, -0.0))
    with pytest.raises(AssertionError, match="items"):
        oracle.assert_same(zero, minus)
    one, two = (sf.Ragged(np.array([bits], np.uint32).view(np.float32), [1]) for bits in (0x7FC00000, 0x7FC00001))
    oracle.assert_same(one, one)
    with pytest.raises(AssertionError, match="items"):
        oracle.assert_same(one, two)


def test_assert_same_never_looks_at_padding():
    for kind in oracle.PADDED:
        oracle.assert_same(oracle.build(kind, small(), fill=1, width=5), oracle.build(kind, small(), fill=2))


def test_assert_same_accepts_another_order_of_equal_lengths():
    truth = strategies.truth_from([1, 2, 1], "i8")
    for kind in (sf.Padded, sf.Packed):
        oracle.assert_same(oracle.build(kind, truth, order=[1, 2, 0]), oracle.build(kind, truth))


def test_assert_layout_fails_on_padding_width_and_order():
    truth = strategies.truth_from([1, 2, 1], "i8")
    for kind in oracle.PADDED:
        for other in (oracle.build(kind, truth, fill=1), oracle.build(kind, truth, width=3)):
            with pytest.raises(AssertionError):
                oracle.assert_layout(other, oracle.build(kind, truth))
    for kind in (sf.Padded, sf.Packed):
        with pytest.raises(AssertionError, match="indices"):
            oracle.assert_layout(oracle.build(kind, truth, order=[1, 2, 0]), oracle.build(kind, truth))


def test_assert_nested_fails_on_types_and_depth():
    oracle.assert_same([[1, 2], []], [[1, 2], []])
    for other in ([[1, 2]], [[1, 2.0], []], [[1, 2], [[]]], [(1, 2), []], [[np.int64(1), 2], []], [[1, True], []]):
        with pytest.raises(AssertionError):
            oracle.assert_same(other, [[1, 2], []])


class Fake:
    """Fields of no encoding, to show that reading checks them."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def structure(values):
    array = np.array(values, np.int64)
    array.flags.writeable = False
    return array


WRONG_FIELDS = {
    "lengths that do not add up": (oracle.read_ragged, {"data": np.zeros(3), "lengths": structure([1, 1])}),
    "lengths that can be written": (oracle.read_ragged, {"data": np.zeros(1), "lengths": np.array([1])}),
    "lengths of int32": (oracle.read_ragged, {"data": np.zeros(1), "lengths": structure([1]).astype(np.int32)}),
    "offsets that fall": (oracle.read_lod, {"data": np.zeros(3), "lod": (structure([0, 2, 1, 3]),)}),
    "levels that do not fit": (
        oracle.read_lod,
        {"data": np.zeros(9), "lod": (structure([0, 3, 6]), structure([0, 2, 3, 3, 3, 9]))},
    ),
    "lengths that rise": (
        oracle.read_packed,
        {
            "data": np.zeros(3),
            "size_at_t": structure([2, 1]),
            "lengths": structure([1, 2]),
            "indices": structure([0, 1]),
        },
    ),
    "sizes that do not fit": (
        oracle.read_padded,
        {
            "data": np.zeros((2, 2)),
            "size_at_t": structure([2, 2]),
            "lengths": structure([2, 1]),
            "indices": structure([0, 1]),
        },
    ),
    "indices that repeat": (
        oracle.read_padded,
        {
            "data": np.zeros((2, 2)),
            "size_at_t": structure([2, 1]),
            "lengths": structure([2, 1]),
            "indices": structure([0, 0]),
        },
    ),
    "a length beyond the width": (
        oracle.read_masked,
        {"data": np.zeros((1, 2)), "lengths": structure([3]), "side": "right"},
    ),
}


@pytest.mark.parametrize("wrong", WRONG_FIELDS)
def test_reading_refuses(wrong):
    reader, fields = WRONG_FIELDS[wrong]
    with pytest.raises(AssertionError):
        reader(Fake(**fields))


@given(data=st.data())
def test_chosen_positions_are_those_of_a_python_list(data):
    n = data.draw(st.integers(0, 5))
    index = data.draw(strategies.indices(n))
    array = np.arange(n)
    if isinstance(index, list):
        index = np.array(index, bool if any(isinstance(one, bool) for one in index) else np.intp)
    assert strategies.chosen(index, n) == np.atleast_1d(array[index]).tolist()


@pytest.mark.parametrize("form", strategies.FORMS)
def test_forms_of_memory_change_no_value(form):
    for dtype, item_shape in itertools.product(strategies.DTYPES, strategies.ITEM_SHAPES):
        array = strategies.counting(dtype, (4, *item_shape), special=True)
        oracle.assert_bits(form(array), array)


def test_forms_of_memory_are_what_they_say():
    array = strategies.counting("i4", (3, 4))
    assert strategies.fortran(array).flags.f_contiguous
    assert not strategies.fortran(array).flags.c_contiguous
    assert not strategies.strided(array).flags.c_contiguous
    assert strategies.backwards(array).strides[-1] < 0
    assert not strategies.read_only(array).flags.writeable
    assert not strategies.unaligned(array).flags.aligned
