"""What an encoding is: construction, ownership, builders, properties, identity, copies and examples."""

import copy
import dataclasses
import pickle

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
with_data = pytest.mark.parametrize("kind", oracle.ENCODINGS[1:], ids=oracle.format_name)  # all but List

REFUSED = (TypeError, sf.SeqFormatError)


def example(kind=sf.Ragged, dtype="f4", item_shape=(2,)):
    """Lengths 3, 0, 1, 2; a LoD holds them in two levels."""
    if kind is sf.LoD:
        return oracle.build(kind, strategies.truth_from([[3, 0], [1, 2]], dtype, item_shape, levels=2))
    return oracle.build(kind, strategies.truth_from([3, 0, 1, 2], dtype, item_shape))


def structures(x):
    """All structure arrays of an encoding."""
    arrays = [getattr(x, name) for name in ("lengths", "indices", "size_at_t") if hasattr(x, name)]
    arrays = [array for array in arrays if isinstance(array, np.ndarray)]
    return arrays + list(getattr(x, "lod", ()))


# --------------------------------------------------------------------------------------------- construction


@with_data
def test_contiguous_data_is_taken_as_it_is(kind):
    fields = oracle.FIELDS[kind](strategies.truth_from([3, 0, 1], "f4", (2,)))
    assert kind(**fields).data is fields["data"]
    fields["data"].flags.writeable = False
    assert kind(**fields).data is fields["data"]


@with_data
@pytest.mark.parametrize("form", [strategies.fortran, strategies.strided, strategies.backwards])
def test_other_data_is_copied_once(kind, form):
    fields = oracle.FIELDS[kind](strategies.truth_from([3, 2, 1], "f4", (2,)), form=form)
    x = kind(**fields)
    assert x.data.flags.c_contiguous
    assert not np.shares_memory(x.data, fields["data"])
    oracle.assert_bits(x.data, fields["data"])


def test_items_of_a_list_are_taken_as_they_are():
    items = [np.zeros((2, 3)), np.ones((0, 3))]
    x = sf.List(items)
    assert type(x.items) is tuple
    assert np.shares_memory(x.items[0], items[0])
    assert len(sf.List(tuple(items))) == 2


def test_structure_is_copied_from_the_caller():
    lengths = np.array([2, 1])
    x = sf.Ragged(np.zeros(3), lengths)
    lengths[:] = 7
    assert x.lengths.tolist() == [2, 1]
    offsets = np.array([0, 2, 3])
    y = sf.LoD(np.zeros(3), [offsets])
    offsets[:] = 7
    assert y.lod[0].tolist() == [0, 2, 3]
    frozen = np.array([2, 1])
    frozen.flags.writeable = False
    assert not np.shares_memory(sf.Ragged(np.zeros(3), frozen).lengths, frozen)


@pytest.mark.parametrize(
    "lengths",
    [
        [2, 0, 1],
        (2, 0, 1),
        [np.int8(2), 0, np.uint64(1)],
        np.array([2, 0, 1], np.uint8),
        np.array([2, 0, 1], np.uint64),
        np.array([2, 0, 1], ">i4"),
        np.array([2, 9, 0, 9, 1, 9])[::2],
    ],
    ids=["list", "tuple", "NumPy integers", "uint8", "uint64", "big-endian", "strided"],
)
def test_any_integers_are_lengths(lengths):
    assert sf.Ragged(np.zeros(3), lengths).lengths.tolist() == [2, 0, 1]


@pytest.mark.parametrize("lengths", [[], (), np.array([]), np.array([], bool), np.zeros(0, np.int32)], ids=repr)
def test_an_empty_list_of_lengths_is_fine(lengths):
    x = sf.Ragged(np.zeros((0, 3)), lengths)
    assert len(x) == 0
    assert x.lengths.dtype == np.int64
    assert x.item_shape == (3,)


BAD_LENGTHS = {
    "too few": [2, 1],
    "too many": [2, 1, 1],
    "negative": [4, -1],
    "float": [2.0, 1.0],
    "a float array": np.array([1.0, 2.0]),
    "bool": [True, True, True],
    "a bool array": np.array([True, True, True]),
    "one bool among integers": [2, True],
    "overflowing": [2**63],
    "overflowing uint64": np.array([2**64 - 1, 4], np.uint64),
    "an overflowing sum": [2**62, 2**62, 2**62, 2**62, 3],
    "two axes": [[2], [1]],
    "ragged": [[1], [1, 1]],
    "a number": 3,
    "None": None,
    "strings": ["2", "1"],
    "text": "21",
    "complex": [2 + 0j, 1],
}


@pytest.mark.parametrize("bad", BAD_LENGTHS)
def test_lengths_that_are_refused(bad):
    lengths = BAD_LENGTHS[bad]
    with pytest.raises(REFUSED):
        sf.Ragged(np.zeros(5 if bad in ("too few", "too many") else 3), lengths)


@pytest.mark.parametrize("bad", ["too few", "too many", "negative", "overflowing", "an overflowing sum"])
def test_lengths_that_do_not_fit_are_structure_errors(bad):
    with pytest.raises(sf.StructureError) as caught:
        sf.Ragged(np.zeros(5), BAD_LENGTHS[bad])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", ["middle", "", None, 1, "LEFT"], ids=repr)
def test_masked_has_two_sides(side):
    with pytest.raises(REFUSED):
        sf.Masked(np.zeros((1, 2)), [1], side=side)


DATA_OF = {
    sf.Ragged: lambda data: sf.Ragged(data.reshape(4), [4]),
    sf.LoD: lambda data: sf.LoD(data.reshape(4), [[0, 4]]),
    sf.Masked: lambda data: sf.Masked(data.reshape(2, 2), [2, 1]),
    sf.Padded: lambda data: sf.Padded(data.reshape(2, 2), [2, 1], [2, 1], [0, 1]),
    sf.Packed: lambda data: sf.Packed(data.reshape(4), [2, 2], [2, 2], [0, 1]),
    sf.List: lambda data: sf.List([data.reshape(4)]),
}


@every_encoding
def test_arrays_that_cannot_be_moved_are_refused(kind):
    build = DATA_OF[kind]
    build(np.zeros(4))
    with pytest.raises(TypeError, match="object"):
        build(np.array([1, "a", None, 2], object))
    with pytest.raises(TypeError, match="object"):
        build(np.zeros(4, [("a", "i4"), ("b", "O")]))
    with pytest.raises(TypeError, match="mask"):
        build(np.ma.array([1.0, 2, 3, 4], mask=[False, True, False, False]))


@pytest.mark.parametrize("data", [[1.0, 2.0, 3.0], 3, None, "abc", np.float64(1), np.zeros(())], ids=repr)
def test_data_is_an_array_with_axes(data):
    with pytest.raises(REFUSED):
        sf.Ragged(data, [3])


@pytest.mark.parametrize(
    "items",
    [
        [np.zeros((2, 3)), np.zeros((2, 4))],
        [np.zeros(2), np.zeros((2, 1))],
        [np.zeros(2), np.zeros(2, np.float32)],
        [np.zeros(2, "<f4"), np.zeros(2, ">f4")],
        [np.zeros(())],
        [1.0, 2.0],
        [[1.0], [2.0]],
        np.float64(3),
        None,
    ],
    ids=["item shapes", "ranks", "dtypes", "byte orders", "no axis", "numbers", "lists", "a number", "None"],
)
def test_list_refuses(items):
    with pytest.raises(REFUSED):
        sf.List(items)


def test_list_takes_dtype_and_item_shape_from_like():
    x = sf.List((), like=np.zeros((0, 3), np.float32))
    assert x.dtype == np.float32
    assert x.item_shape == (3,)
    assert len(x) == 0
    assert x.rows == 0
    bare = sf.List(())
    assert bare.dtype == np.float64
    assert bare.item_shape == ()


# ------------------------------------------------------------------------------------------------ builders


def test_from_offsets():
    data = np.arange(5.0)
    x = sf.Ragged.from_offsets(data, [0, 2, 2, 5])
    assert x.lengths.tolist() == [2, 0, 3]
    assert x.data is data
    assert x.offsets.tolist() == [0, 2, 2, 5]
    assert sf.Ragged.from_offsets(np.zeros(0), [0]).lengths.tolist() == []


def test_the_names_of_tensorflow():
    data = np.arange(5.0)
    x = sf.Ragged(data, [2, 0, 3])
    for made in (
        sf.Ragged.from_row_splits(data, np.array([0, 2, 2, 5], np.int32)),
        sf.Ragged.from_row_lengths(data, [2, 0, 3]),
        sf.Ragged.from_value_rowids(data, [0, 0, 2, 2, 2]),
        sf.Ragged.from_value_rowids(data, sf.segment_ids(x), len(x)),
    ):
        assert sf.equal(made, x)
        assert made.data is data
    assert sf.Ragged.from_value_rowids(data, [1] * 5, nrows=4).lengths.tolist() == [0, 5, 0, 0]
    assert len(sf.Ragged.from_value_rowids(np.zeros(0), [])) == 0
    assert sf.Ragged.from_value_rowids(np.zeros(0), [], nrows=3).lengths.tolist() == [0, 0, 0]


@given(data=st.data())
def test_segment_ids_and_from_value_rowids_undo_each_other(data):
    _, x = data.draw(strategies.encoded(sf.Ragged))
    oracle.assert_layout(sf.Ragged.from_value_rowids(x.data, sf.segment_ids(x), len(x)), x)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: sf.Ragged.from_row_splits(np.zeros(5), [0, 4]), sf.StructureError, "row_splits must end with 5"),
        (lambda: sf.Ragged.from_row_splits(np.zeros(5), [1, 5]), sf.StructureError, "row_splits must begin with 0"),
        (lambda: sf.Ragged.from_row_splits(5, [0, 5]), TypeError, "values must be an array"),
        (lambda: sf.Ragged.from_row_lengths(np.zeros(5), [2, 2]), sf.StructureError, "row_lengths add up to 4"),
        (lambda: sf.Ragged.from_row_lengths(np.zeros(5), [6, -1]), sf.StructureError, r"row_lengths\[1\] is -1"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(2), [0]), sf.StructureError, "are 1, but values has 2 rows"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(2), [1, 0]), sf.StructureError, r"\[1\] is 0 after 1"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(2), [-1, 0]), sf.StructureError, r"\[0\] is -1"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(2), [0, 3], nrows=3), sf.StructureError, "at least 4, not 3"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(0), [], nrows=-1), sf.StructureError, "at least 0, not -1"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(1), [2**63 - 1]), sf.OutOfMemory, "no memory"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(1), [0], nrows=10**30), sf.OutOfMemory, "no memory"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(1), [0.0]), TypeError, "integers"),
        (lambda: sf.Ragged.from_value_rowids(np.zeros(1), [0], nrows=1.0), TypeError, "nrows must be an integer"),
    ],
    ids=range(14),
)
def test_the_names_of_tensorflow_refuse(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_from_mask():
    data = np.arange(6).reshape(2, 3)
    right = sf.Masked.from_mask(data, np.array([[True, True, False], [True, False, False]]))
    assert right.side == "right"
    assert right.lengths.tolist() == [2, 1]
    assert right.data is data
    left = sf.Masked.from_mask(data, np.array([[False, True, True], [False, False, True]]))
    assert left.side == "left"
    oracle.assert_holds(left, oracle.truth_of([np.array([1, 2]), np.array([5])]))


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0), (0, 0)], ids=str)
def test_from_mask_of_one_value(shape, value):
    """All or nothing is a prefix as much as a suffix."""
    x = sf.Masked.from_mask(np.zeros((*shape, 2)), np.full(shape, value))
    assert x.lengths.tolist() == [shape[1] * value] * shape[0]
    assert np.array_equal(x.mask, np.full(shape, value))


@pytest.mark.parametrize("mask", [np.ones((2, 2), bool), np.ones(2, bool), np.full((2, 3), 0.5)], ids=str)
def test_from_mask_refuses(mask):
    with pytest.raises(REFUSED):
        sf.Masked.from_mask(np.zeros((2, 3)), mask)


@given(data=st.data())
def test_mask_and_from_mask_undo_each_other(data):
    truth, x = data.draw(strategies.encoded(sf.Masked))
    mask = x.mask
    assert mask.dtype == np.bool_
    assert mask.shape == x.data.shape[:2]
    for i, length in enumerate(truth.lengths()):
        row = mask[i].tolist()
        assert sum(row) == length
        assert row == sorted(row, reverse=x.side == "right")
    oracle.assert_holds(sf.Masked.from_mask(x.data, mask), truth)


@given(data=st.data())
def test_offsets_and_from_offsets_undo_each_other(data):
    truth, x = data.draw(strategies.encoded(sf.Ragged))
    assert oracle.structure_list(x.offsets) == oracle.offsets_of(truth.lengths())
    oracle.assert_layout(sf.Ragged.from_offsets(x.data, x.offsets), x)


def test_lod_from_lengths():
    data = np.arange(14.0).reshape(7, 2)
    x = sf.LoD.from_lengths(data, [[2, 1], [2, 2, 3]])
    assert [level.tolist() for level in x.lod] == [[0, 2, 3], [0, 2, 4, 7]]
    assert x.data is data
    assert [list(level) for level in x.lengths()] == [[2, 1], [2, 2, 3]]
    assert [level.tolist() for level in sf.LoD.from_lengths(np.zeros(5), [[2, 3]]).lod] == [[0, 2, 5]]
    assert [level.tolist() for level in sf.LoD.from_lengths(np.zeros(0), [[]]).lod] == [[0]]
    assert [level.tolist() for level in sf.LoD.from_lengths(np.zeros(5), np.array([[2, 3]])).lod] == [[0, 2, 5]]


def test_lod_from_nested_with_known_levels():
    """Lists that are empty at the end do not say how deep they are."""
    x = sf.LoD.from_nested([[], []], dtype="i4", levels=3)
    assert [level.tolist() for level in x.lod] == [[0, 0, 0], [0], [0]]
    assert x.dtype == np.int32
    y = sf.LoD.from_nested([], levels=2)
    assert [level.tolist() for level in y.lod] == [[0], [0]]
    assert y.dtype == np.float64
    z = sf.LoD.from_nested([[np.zeros((2, 3), "f4")], []])
    assert z.item_shape == (3,)
    assert [level.tolist() for level in z.lod] == [[0, 1, 1], [0, 2]]


@given(data=st.data())
def test_to_nested_of_any_batch(data):
    truth, x = data.draw(strategies.encoded(sf.LoD))
    oracle.assert_nested(x.to_nested(), oracle.nested(truth))


def test_absolute_offsets():
    x = sf.LoD(np.zeros(9), [[0, 3, 5], [0, 2, 3, 3, 3, 9]])
    assert [list(map(int, level)) for level in x.absolute()] == [[0, 3, 9], [0, 2, 3, 3, 3, 9]]
    three = sf.LoD(np.zeros(5), [[0, 2], [0, 1, 3], [0, 2, 4, 5]])
    assert [list(map(int, level)) for level in three.absolute()] == [[0, 5], [0, 2, 5], [0, 2, 4, 5]]


def test_absolute_offsets_cannot_tell_where_empty_sequences_belong():
    """The corrected reading of the decoder documents."""
    lod = [[0, 3, 9], [0, 2, 3, 3, 3, 9]]
    with pytest.raises(sf.StructureError):
        sf.LoD.from_absolute(np.zeros(9), lod)
    with pytest.raises(sf.StructureError):
        sf.LoD.from_absolute(np.zeros(9), lod, empties="raise")
    left = sf.LoD.from_absolute(np.zeros(9), lod, empties="left")
    assert [level.tolist() for level in left.lod] == [[0, 4, 5], [0, 2, 3, 3, 3, 9]]
    right = sf.LoD.from_absolute(np.zeros(9), lod, empties="right")
    assert [level.tolist() for level in right.lod] == [[0, 2, 5], [0, 2, 3, 3, 3, 9]]


def test_absolute_offsets_that_are_clear():
    x = sf.LoD.from_absolute(np.zeros(9), [[0, 3, 9], [0, 2, 3, 9]])
    assert [level.tolist() for level in x.lod] == [[0, 2, 3], [0, 2, 3, 9]]
    for empties in ("raise", "left", "right"):  # the first and the last boundary are clear
        ends = sf.LoD.from_absolute(np.zeros(4), [[0, 2, 4], [0, 0, 2, 4, 4]], empties=empties)
        assert [level.tolist() for level in ends.lod] == [[0, 2, 4], [0, 0, 2, 4, 4]]
    one = sf.LoD.from_absolute(np.zeros(3), [[0, 3, 3]])
    assert [level.tolist() for level in one.lod] == [[0, 3, 3]]


def test_absolute_offsets_that_are_refused():
    for empties in ("raise", "left", "right"):  # a boundary that does not occur
        with pytest.raises(sf.StructureError, match="no boundary of"):
            sf.LoD.from_absolute(np.zeros(9), [[0, 4, 9], [0, 2, 3, 9]], empties=empties)
    with pytest.raises(REFUSED):
        sf.LoD.from_absolute(np.zeros(9), [[0, 3, 9], [0, 2, 3, 9]], empties="middle")


@given(data=st.data())
def test_absolute_and_from_absolute_undo_each_other(data):
    """Wherever no sequence is empty."""
    levels = data.draw(st.integers(1, 3))
    nesting = st.lists(st.integers(1, 3), min_size=1, max_size=3)
    for _ in range(levels - 1):
        nesting = st.lists(nesting, min_size=1, max_size=3)
    x = oracle.build(sf.LoD, strategies.truth_from(data.draw(nesting), "i8", levels=levels))
    oracle.assert_layout(sf.LoD.from_absolute(x.data, x.absolute()), x)


@given(data=st.data())
def test_sub_cuts_outer_sequences(data):
    truth, x = data.draw(strategies.encoded(sf.LoD))
    stop = data.draw(st.integers(0, len(truth)))
    start = data.draw(st.integers(0, stop))
    result = x.sub(start, stop)
    oracle.assert_holds(result, truth.take(range(start, stop)))
    oracle.assert_layout(result, x.sub(start, stop, level=0))
    assert np.shares_memory(result.data, x.data) or result.data.size == 0


def test_sub_at_an_inner_level():
    x = oracle.build(sf.LoD, strategies.truth_from([[2, 0], [3, 1]], "i8", levels=2))
    result = x.sub(1, 3, level=1)
    assert result.data.tolist() == [3, 4, 5]
    assert sf.lengths(result).tolist() == [0, 3]


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 4), (2, 1), (4, 4)])
def test_sub_refuses_what_is_not_there(start, stop):
    x = sf.LoD(np.zeros(3), [[0, 1, 2, 3]])
    with pytest.raises((IndexError, sf.SeqFormatError)):
        x.sub(start, stop)


# ---------------------------------------------------------------------------------------------- properties


@every_encoding
@given(data=st.data())
def test_properties(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    assert x.dtype == truth.dtype
    assert x.item_shape == truth.item_shape
    assert type(x.item_shape) is tuple
    assert x.rows == truth.rows()
    assert x.max_length == truth.longest()
    assert len(x) == len(truth)
    assert str(x.device) == "cpu"
    oracle.assert_bits(np.array(sf.lengths(x)), np.array(truth.lengths(), np.int64))
    for level in range(-truth.levels, truth.levels):
        assert sf.lengths(x, level=level).tolist() == truth.lengths(level)


def test_lengths_of_bare_lists():
    assert sf.lengths([np.zeros(2), np.zeros(0)]).tolist() == [2, 0]
    assert sf.lengths([[1, 2, 3], []]).tolist() == [3, 0]
    assert sf.lengths([]).tolist() == []


@pytest.mark.parametrize("level", [2, -3])
def test_lengths_of_a_level_that_is_not_there(level):
    with pytest.raises((IndexError, sf.SeqFormatError)):
        sf.lengths(example(sf.LoD), level=level)


@every_encoding
def test_encodings_are_frozen(kind):
    x = example(kind)
    for field in dataclasses.fields(x):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(x, field.name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(x, field.name)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("List", ["items", "like"]),
        ("Ragged", ["data", "lengths"]),
        ("Padded", ["data", "size_at_t", "lengths", "indices"]),
        ("Packed", ["data", "size_at_t", "lengths", "indices"]),
        ("Masked", ["data", "lengths", "side"]),
        ("LoD", ["data", "lod"]),
        ("Pairs", ["one", "two"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_fields(kind, names):
    """The constructor's arguments are the dataclass's fields, in this order."""
    fields = [field for field in dataclasses.fields(getattr(sf, kind)) if field.init]
    assert [field.name for field in fields][: len(names)] == names


@every_encoding
def test_hash_is_identity(kind):
    x, y = example(kind), example(kind)
    assert len({x, y, x}) == 2
    assert {x: 1, y: 2}[x] == 1


@with_data
def test_asarray_is_data(kind):
    x = example(kind)
    assert np.asarray(x) is x.data
    assert np.array(x).tolist() == x.data.tolist()
    assert not np.shares_memory(np.array(x), x.data)
    oracle.assert_bits(np.asarray(x, dtype=np.float64), x.data.astype(np.float64))


def test_asarray_of_encodings_without_data():
    for x in (example(sf.List), sf.Pairs(example(), example())):
        with pytest.raises(TypeError):
            np.asarray(x)


@every_encoding
def test_repr_is_one_line(kind):
    text = repr(oracle.build(kind, strategies.truth_from([3, 0, 1, 2], "f4", (7,))))
    assert "\n" not in text
    for part in (kind.__name__, "float32", "cpu", "7", "3, 0, 1, 2"):
        assert part in text


@every_encoding
def test_repr_of_a_large_batch_is_short(kind):
    lengths = np.arange(5000) % 3
    x = sf.convert(sf.Ragged(np.zeros((int(lengths.sum()), 4)), lengths), kind)
    assert len(repr(x)) < 400
    assert "\n" not in repr(x)


# --------------------------------------------------------------------------------------------------- equal


@every_encoding
@given(data=st.data())
def test_equal_to_itself_and_a_copy(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    y = oracle.build(kind, truth, **({"side": x.side} if kind is sf.Masked else {}))
    if truth.dtype == strategies.BFLOAT16 or truth.dtype.kind in "fcM":
        assert sf.equal(arrays.up(x), arrays.up(y), equal_nan=True) is True
    else:
        assert sf.equal(arrays.up(x), arrays.up(y)) is True


DIFFERENT = {
    "an item": strategies.counting("f4", (6, 2)) * 2,
    "a dtype": strategies.counting("f8", (6, 2)),
    "a byte order": strategies.counting(">f4", (6, 2)),
    "an item shape": strategies.counting("f4", (6, 2)).reshape(6, 2, 1),
}


@every_encoding
@pytest.mark.parametrize("what", DIFFERENT)
def test_unequal_in(arrays, what, kind):
    right = sf.convert(sf.Ragged(strategies.counting("f4", (6, 2)), [3, 0, 1, 2]), kind)
    wrong = sf.convert(sf.Ragged(DIFFERENT[what], [3, 0, 1, 2]), kind)
    if not {right.dtype, wrong.dtype} <= {*arrays.dtypes}:
        pytest.skip(f"no arrays of {wrong.dtype}")
    right, wrong = arrays.up(right), arrays.up(wrong)
    assert sf.equal(right, right) is True
    assert sf.equal(right, wrong) is False
    assert sf.equal(wrong, right) is False


@every_encoding
def test_unequal_in_lengths_and_order(kind):
    data = np.ones(6)
    right = sf.convert(sf.Ragged(data, [3, 0, 1, 2]), kind)
    for lengths in ([3, 1, 0, 2], [3, 1, 2], [2, 0, 1, 3], [3, 0, 1, 2, 0]):
        assert sf.equal(right, sf.convert(sf.Ragged(data, lengths), kind)) is False


def test_unequal_encodings_and_levels():
    x = example()
    for kind in oracle.ENCODINGS:
        if kind is not sf.Ragged:
            assert sf.equal(x, sf.convert(x, kind)) is False
    one, two = sf.LoD(np.ones(3), [[0, 1, 2], [0, 1, 3]]), sf.LoD(np.ones(3), [[0, 2, 2], [0, 1, 3]])
    assert sf.equal(one, two) is False
    assert sf.equal(one, sf.LoD(np.ones(3), [[0, 1, 3]])) is False


@pytest.mark.parametrize("kind", oracle.PADDED, ids=oracle.format_name)
def test_equal_never_looks_at_padding(kind):
    truth = strategies.truth_from([2, 0, 1], "f8")
    x, y = oracle.build(kind, truth, fill=1), oracle.build(kind, truth, fill=np.nan, width=5)
    assert sf.equal(x, y) is True


@pytest.mark.parametrize("kind", [sf.Padded, sf.Packed], ids=oracle.format_name)
def test_equal_speaks_of_the_callers_order(kind):
    truth = strategies.truth_from([1, 2, 1], "f8")
    x, y = oracle.build(kind, truth), oracle.build(kind, truth, order=[1, 2, 0])
    assert x.indices.tolist() != y.indices.tolist()
    assert sf.equal(x, y) is True


@every_encoding
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "M8[s]"])
def test_equal_and_nan(kind, dtype):
    missing = np.array(["NaT"], dtype) if dtype.startswith("M") else np.array([np.nan], dtype)
    x = sf.convert(sf.Ragged(missing, [1]), kind)
    assert sf.equal(x, x) is False
    assert sf.equal(x, x, equal_nan=True) is True
    number = sf.convert(sf.Ragged(strategies.counting(dtype, (1,)), [1]), kind)
    for one, two in ((x, number), (number, x)):
        assert sf.equal(one, two, equal_nan=True) is False


@every_encoding
@pytest.mark.parametrize("dtype", ["<U3", "S2", "?"])
def test_equal_nan_of_dtypes_without_nan(kind, dtype):
    x = sf.convert(sf.Ragged(strategies.counting(dtype, (3,)), [1, 2]), kind)
    assert sf.equal(x, x, equal_nan=True) is True


# -------------------------------------------------------------------------------- copies, pickles, replaced


COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x, protocol=5)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": dataclasses.replace,
}


@every_encoding
@pytest.mark.parametrize("how", COPIES)
@given(data=st.data())
def test_copies_are_equal_and_valid(kind, how, data):
    truth, x = data.draw(strategies.encoded(kind))
    y = COPIES[how](x)
    assert y is not x
    oracle.assert_holds(y, truth)
    oracle.assert_layout(y, x)


@every_encoding
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol(kind, protocol):
    """NumPy itself loses a foreign byte order below protocol 5; everything else stays."""
    x = example(kind)
    oracle.assert_layout(pickle.loads(pickle.dumps(x, protocol=protocol)), x)


@every_encoding
@pytest.mark.parametrize("how", ["pickle", "deepcopy"])
def test_deep_copies_share_nothing(kind, how):
    x = example(kind)
    y = COPIES[how](x)
    assert not oracle.shares(x, y)
    for one, two in zip(structures(x), structures(y), strict=True):
        assert not np.shares_memory(one, two)
        assert not two.flags.writeable


@pytest.mark.parametrize("how", ["pickle", "copy", "deepcopy"])
def test_copies_go_through_the_constructor(how):
    """An object that was tampered with does not survive."""
    x = example()
    object.__setattr__(x, "lengths", np.array([100]))
    with pytest.raises(sf.StructureError):
        COPIES[how](x)


def test_replace_checks_again():
    x = sf.Ragged(np.zeros((3, 2), np.float32), [2, 1])
    y = dataclasses.replace(x, data=np.ones((3, 5)))
    assert y.item_shape == (5,)
    assert y.lengths.tolist() == [2, 1]
    assert dataclasses.replace(x, lengths=[1, 1, 1]).lengths.tolist() == [1, 1, 1]
    with pytest.raises(sf.StructureError):
        dataclasses.replace(x, lengths=[1, 1])
    with pytest.raises(sf.StructureError):
        dataclasses.replace(x, data=np.ones((4, 2)))
    z = dataclasses.replace(sf.Masked(np.zeros((1, 3)), [2]), side="left")
    assert z.mask.tolist() == [[False, True, True]]


@with_data
def test_data_that_was_resized_behind_the_back_is_noticed(kind):
    """NumPy can shrink an array in place; nothing reads past its new end."""
    x = oracle.build(kind, strategies.truth_from([50, 0, 40], "f8", (8,)))
    x.data.resize((1,) * x.data.ndim, refcheck=False)
    for use in (lambda: sf.convert(x, sf.List), lambda: sf.convert(x, sf.Padded, width=60), lambda: x[[2, 0]]):
        with pytest.raises(sf.StructureError):
            use()


PASSED_ON = {
    "copy": lambda x, whole: sf.convert(x, type(x), copy=True),
    "device": lambda x, whole: sf.to_device(x, "cpu"),
    "like": lambda x, whole: sf.convert_like(x, whole),
    "flat": lambda x, whole: sf.with_flatten(lambda items: items)(x),
    "gradient": lambda x, whole: sf.vjp(sf.convert, whole, sf.Ragged)[1](x),
    "result": lambda x, whole: sf.with_ragged(lambda batch: x)(whole),
}


@with_data
@pytest.mark.parametrize("use", PASSED_ON.values(), ids=PASSED_ON)
def test_no_batch_made_of_another_hides_that_it_was_resized(kind, use):
    x, whole = (oracle.build(kind, strategies.truth_from([2, 0, 3], "f8", (2,))) for _ in range(2))
    x.data.resize((1,) * x.data.ndim, refcheck=False)
    with pytest.raises(sf.StructureError):
        sf.reduce_sum(use(x, whole))


def test_items_that_were_resized_behind_the_back_are_noticed():
    x = oracle.build(sf.List, strategies.truth_from([50, 0, 40], "f8", (8,)))
    x.items[0].resize((1, 8), refcheck=False)
    for use in (lambda: sf.convert(x, sf.Ragged), lambda: sf.convert(x, sf.Padded, width=60)):
        with pytest.raises(sf.StructureError):
            use()


def test_derived_values_are_not_carried_over():
    """Offsets and masks that were asked for belong to the object they were asked of."""
    x = sf.Ragged(np.zeros(3), [2, 1])
    assert x.offsets.tolist() == [0, 2, 3]
    assert dataclasses.replace(x, lengths=[1, 2]).offsets.tolist() == [0, 1, 3]


# -------------------------------------------------------------------------------------------------- pairs


@pytest.mark.parametrize("kind", [sf.List, sf.Ragged, sf.Masked], ids=oracle.format_name)
def test_pairs_hold_two_of_one_length(kind):
    one, two = example(kind), np.zeros((4, 2))
    pairs = sf.Pairs(one, two)
    assert len(pairs) == 4
    assert pairs.one is one
    assert np.shares_memory(pairs.two, two)
    with pytest.raises(REFUSED):
        sf.Pairs(one, np.zeros((3, 2)))


def test_pairs_are_copied_and_pickled():
    x = sf.Pairs(sf.Ragged(np.arange(3), [1, 2]), np.arange(2))
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert sf.equal(y, x)


def test_a_subclass_is_indexed_as_its_base():
    class Mine(sf.Ragged):
        pass

    assert Mine(np.arange(3), [1, 2])[[1]].data.tolist() == [1, 2]


# ------------------------------------------------------------------------------------- structure stays as it is


def structure_shown(x):
    """Every array of structure that an encoding shows."""
    names = ("lengths", "offsets", "indices", "size_at_t", "lod")
    found = {name: getattr(x, name) for name in names if hasattr(x, name) and not callable(getattr(x, name))}
    found["sf.lengths"] = sf.lengths(x)
    if isinstance(x, sf.LoD):
        found |= {f"lod[{k}]": offsets for k, offsets in enumerate(found.pop("lod"))}
        found |= {f"absolute()[{k}]": offsets for k, offsets in enumerate(x.absolute())}
        found |= {f"sf.lengths of {k}": sf.lengths(x, k) for k in range(len(x.lod))}
    return found


def batches_of_every_make():
    rows = np.arange(12.0).reshape(6, 2)
    x = sf.Ragged(rows, np.array([3, 1, 2]))
    arrays = [rows[:3], rows[3:4], rows[4:]]
    deep = sf.LoD(rows, [[0, 2, 3], [0, 3, 4, 6]])
    yield "constructor", x
    yield "constructor of a list", sf.Ragged(rows, [3, 1, 2])
    yield "from_offsets", sf.Ragged.from_offsets(rows, np.array([0, 3, 4, 6]))
    yield "from_row_splits", sf.Ragged.from_row_splits(rows, np.array([0, 3, 4, 6]))
    yield "from_row_lengths", sf.Ragged.from_row_lengths(rows, np.array([3, 1, 2]))
    yield "from_value_rowids", sf.Ragged.from_value_rowids(rows, np.array([0, 0, 0, 1, 2, 2]))
    yield "from_lengths", sf.LoD.from_lengths(rows, [[2, 1], [3, 1, 2]])
    yield "from_absolute", sf.LoD.from_absolute(rows, [[0, 4, 6], [0, 3, 4, 6]])
    yield "from_nested", sf.LoD.from_nested([[[1, 2], [3]], [[4]]])
    yield "from_nested of text", sf.LoD.from_nested([[["a", "b"], ["c"]], [["d"]]])
    yield "from_mask", sf.Masked.from_mask(np.zeros((2, 2)), np.array([[1, 1], [1, 0]]))
    yield "Padded", sf.Padded(np.zeros((2, 2)), [2, 1], [2, 1], [1, 0])
    yield "Packed", sf.Packed(np.zeros(3), np.array([2, 1]), np.array([2, 1]), np.array([1, 0]))
    yield "List", sf.List(arrays)
    yield "List of other arrays", sf.List([np.asfortranarray(rows[:2]), rows[2:]])
    for kind in (sf.List, sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD):
        name = kind.__name__
        y = sf.convert(x, kind)
        yield f"to {name}", y
        yield f"list to {name}", sf.convert(arrays, kind)
        yield f"lists to {name}", sf.convert([[1.0, 2.0], [3.0]], kind)
        yield f"levels to {name}", sf.convert(deep, kind, level=0)
        yield f"{name} picked", y[[2, 0]]
        yield f"{name} masked", y[np.array([True, False, True])]
        yield f"{name} cut", y[1:]
        yield f"{name} of one", y[1]
        yield f"{name} reversed", sf.reverse(y)
        yield f"{name} joined", sf.join_batches([y, y])
        yield f"{name} side by side", sf.concat([y, y])
        yield f"{name} split", sf.split_batches(y, [1, 2])[1]
        yield f"{name} sorted", sf.sort_by_length(y)[0]
        yield f"{name} repeated", sf.repeat(y, 2)
        yield f"{name} sliced", sf.slice(y, 0, 1)
        yield f"{name} softmax", sf.softmax(y)
        yield f"{name} window", sf.window(y, 1, 1)
        yield f"{name} copied", copy.deepcopy(y)
        yield f"{name} wrapped", sf.with_padded(lambda p: p.data * 2)(y)
        yield f"{name} gradient", sf.vjp(sf.convert, y, sf.Masked)[1](sf.convert(y, sf.Masked))
    yield "wide Padded", sf.convert(x, sf.Padded, width=9)
    yield "cut Masked", sf.convert(x, sf.Masked, width=2, truncate=True)
    yield "levels picked", deep[[1, 0]]
    yield "levels selected", sf.select(deep, [2, 0], level=1)
    yield "levels of a part", deep.sub(0, 2, level=1)
    yield "reduced levels", sf.reduce_sum(deep)
    yield "reshaped", sf.reshape(x, 1)
    yield "erased", sf.erase(sf.Ragged(np.arange(3), [2, 1]), [1])
    yield "buckets", sf.buckets([1, 2, 3], 4)
    yield "pack_bins", sf.pack_bins([1, 2, 3], 4)
    yield "packed steps", sf.TensorArray.unpack(x).pack()
    yield "packed levels", sf.TensorArray([deep, deep[:1]]).pack()
    found = sf.beam_search(
        lambda state: (np.zeros((len(state.tokens), 4), np.float32), None),
        None,
        start=np.zeros(2, int),
        end=1,
        beam_size=2,
        max_new_tokens=3,
    )
    yield "hypotheses", found.tokens
    yield "scores of tokens", found.token_scores


def test_structure_cannot_be_unlocked():
    seen = 0
    for made, x in batches_of_every_make():
        for name, array in structure_shown(x).items():
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            base = array.base
            assert base is not None, f"{made}: {name}"
            assert not base.flags.writeable, f"{made}: {name}"
            seen += 1
    assert seen > 400


def test_orders_cannot_be_unlocked():
    x = sf.Ragged(np.arange(3), [1, 2])
    for order in (sf.sort_by_length(x)[1], sf.inverse_order([1, 0]), sf.inverse_order(np.array([1, 0]))):
        with pytest.raises(ValueError, match="WRITEABLE"):
            order.setflags(write=True)


def test_what_was_given_stays_writable():
    lengths, rows = np.array([1, 2]), np.arange(3.0)
    sf.Ragged(rows, lengths)
    sf.Ragged(rows, lengths[:])
    sf.LoD(rows, [np.array([0, 2]), np.array([0, 1, 3])])
    sf.position_ids(sf.Ragged(rows, lengths), lengths[::1])
    for array in (lengths, rows):
        array[0] = 1
