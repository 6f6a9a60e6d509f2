"""Masks, positions, segments and cumulated lengths, against plain Python."""

import math

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_question = pytest.mark.parametrize(
    "op", [sf.position_ids, sf.segment_ids, sf.cu_seqlens, sf.block_mask], ids=lambda op: op.__name__
)

KINDS = [np.dtype(code) for code in ("f4", "i8", "<U3", ">i8")]


def example(kind, lengths=(2, 0, 3), item_shape=()):
    return oracle.build(kind, strategies.truth_from(list(lengths), "f8", item_shape))


def encoded(arrays, kind):
    return strategies.encoded(kind, kinds=arrays.of(KINDS), shapes=[(), (2,), (0,)])


def assert_array(found, wanted, dtype, shape):
    """A new NumPy array that the caller may write to."""
    oracle.assert_bits(found, np.array(wanted, dtype).reshape(shape))
    assert type(found) is np.ndarray
    assert found.flags.writeable


# ------------------------------------------------------------------------------------------------- masks


LENGTHS = [np.dtype(code) for code in ("i8", "u1", "i4", ">i4")]


def places(length, width, side):
    row = [t < length for t in range(width)]
    return row[::-1] if side == "left" else row


@given(data=st.data())
def test_mask(arrays, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    size = math.prod(shape)
    lengths = np.array(data.draw(st.lists(st.integers(0, 6), min_size=size, max_size=size)), "i8")
    lengths = lengths.astype(data.draw(st.sampled_from(arrays.of(LENGTHS))))
    longest, side = int(max(lengths, default=0)), data.draw(strategies.sides())
    width = data.draw(st.one_of(st.none(), st.integers(longest, longest + 3)))
    room = longest if width is None else width
    found = arrays.on(sf.mask)(lengths.reshape(shape), width=width, side=side)
    assert_array(found, [places(length, room, side) for length in lengths], bool, (*shape, room))


def test_mask_of_a_list():
    assert_array(sf.mask([1, 3]), [[1, 0, 0], [1, 1, 1]], bool, (2, 3))
    assert_array(sf.mask((1, np.int8(2)), width=3, side="left"), [[0, 0, 1], [0, 1, 1]], bool, (2, 3))
    assert_array(sf.mask([]), [], bool, (0, 0))
    assert_array(sf.mask([], width=4), [], bool, (0, 4))
    assert_array(sf.mask([0, 0]), [], bool, (2, 0))


@every_encoding
@given(data=st.data())
def test_mask_of_an_encoding(arrays, kind, data):
    truth, x = data.draw(encoded(arrays, kind))
    side = data.draw(strategies.sides())
    width = x.data.shape[1] if kind is sf.Masked else truth.longest()
    wanted = [places(length, width, side) for length in truth.lengths()]
    assert_array(arrays.on(sf.mask)(x, side=side), wanted, bool, (len(wanted), width))


def test_the_mask_of_a_masked_batch(arrays):
    """Side and width are its own unless given: the mask of an attention over its data."""
    for side in ("left", "right"):
        x = sf.convert(example(sf.List), sf.Masked, width=5, side=side)
        oracle.assert_bits(sf.mask(x), x.mask)
        oracle.assert_bits(arrays.on(lambda y: y.mask)(x), x.mask)
        oracle.assert_bits(sf.mask(x, width=5, side=side), x.mask)
        for other in ("left", "right"):
            oracle.assert_bits(sf.mask(x, width=7, side=other), sf.mask(x.lengths, width=7, side=other))
            oracle.assert_bits(sf.mask(x, side=other), sf.mask(x.lengths, width=5, side=other))
    with pytest.raises(sf.ConversionError, match="width=1 is too small"):
        sf.mask(x, width=1)
    for side in ("", "middle", 0):
        with pytest.raises(sf.ConversionError, match="side must be"):
            sf.mask(x, side=side)


# ---------------------------------------------------------------------------------------- lengths instead


@every_question
@pytest.mark.parametrize("given", [[2, 0, 3], (2, 0, 3), np.array([2, 0, 3]), np.array([2, 0, 3], np.uint8)], ids=repr)
def test_questions_about_lengths(op, given):
    """Where `mask` takes lengths, so do the others; of an encoding they say the same."""
    oracle.assert_bits(op(given), op(sf.Ragged(np.zeros(5), [2, 0, 3])))


@every_question
def test_questions_about_no_lengths(op):
    oracle.assert_bits(op([]), op(sf.List([])))
    oracle.assert_bits(op(np.array([], np.int64)), op(sf.List([])))


@every_question
def test_questions_about_wrong_lengths(op):
    for wrong in ([2, -1], np.array([2, -1]), np.array([[2, 1]])):
        with pytest.raises(sf.StructureError, match="lengths"):
            op(wrong)
    for wrong in ([2.0, 1.0], [True, False], ["a"]):
        with pytest.raises(TypeError, match="lengths"):
            op(wrong)


# --------------------------------------------------------------------------------- positions and segments


@every_format
@given(data=st.data())
def test_position_ids(arrays, kind, data):
    truth, x = data.draw(encoded(arrays, kind))
    lengths = truth.lengths()
    starts = data.draw(st.lists(st.integers(-5, 5), min_size=len(lengths), max_size=len(lengths)))
    one = data.draw(st.sampled_from([0, 7, -3, np.int8(2), np.array(4)]))
    wrap = data.draw(st.sampled_from([list, np.array, lambda found: np.array(found, "i2")[:, None]]))
    total = (sum(lengths),)
    assert_array(arrays.on(sf.position_ids)(x), [t for length in lengths for t in range(length)], "i8", total)
    wanted = [t + int(one) for length in lengths for t in range(length)]
    assert_array(arrays.on(sf.position_ids)(x, one), wanted, "i8", total)
    wanted = [start + t for start, length in zip(starts, lengths, strict=True) for t in range(length)]
    assert_array(arrays.on(sf.position_ids)(x, start=wrap(starts)), wanted, "i8", total)


@every_format
@given(data=st.data())
def test_segments(arrays, kind, data):
    """Which sequence each row belongs to: by its number, by cumulated lengths, and by pairs of rows."""
    truth, x = data.draw(encoded(arrays, kind))
    lengths = truth.lengths()
    segments = [i for i, length in enumerate(lengths) for _ in range(length)]
    rows = range(len(segments))
    assert_array(arrays.on(sf.segment_ids)(x), segments, "i8", (len(rows),))
    assert_array(arrays.on(sf.cu_seqlens)(x), oracle.offsets_of(lengths), "i4", (len(lengths) + 1,))
    pairs = [[segments[a] == segments[b] for b in rows] for a in rows]
    assert_array(arrays.on(sf.block_mask)(x), pairs, bool, (len(rows), len(rows)))
    before = [[segments[a] == segments[b] and b <= a for b in rows] for a in rows]
    assert_array(arrays.on(sf.block_mask)(x, causal=True), before, bool, (len(rows), len(rows)))


@every_format
@given(data=st.data())
def test_numbers_in_the_layout_of_the_batch(arrays, kind, data):
    truth, x = data.draw(encoded(arrays, kind))
    lengths = truth.lengths()
    positions = [[np.int64(t + 7) for t in range(length)] for length in lengths]
    segments = [[np.int64(i)] * length for i, length in enumerate(lengths)]
    for op, wanted in ((lambda y: sf.position_ids(y, 7, layout=True), positions), (segmented, segments)):
        found = arrays.on(op)(x)
        flat = [number for sequence in wanted for number in sequence]
        if kind is list:
            assert type(found) is list
            assert sf.convert(found, sf.Ragged, dtype="i8").data.tolist() == flat
            continue
        rows = oracle.read(found)
        assert (type(found), rows.dtype, rows.counts()) == (kind, np.int64, oracle.read(x).counts())
        assert [int(item) for sequence in rows.sequences() for item in sequence] == flat
        if kind in oracle.PADDED:
            assert found.data.shape == x.data.shape[:2]
            assert found.data.sum() == sum(flat)


def segmented(x):
    return sf.segment_ids(x, layout=True)


def test_a_layout_is_that_of_a_batch():
    for op in (sf.position_ids, sf.segment_ids):
        assert op([], layout=True) == []
        for wrong in ([2, 1], np.array([2, 1]), 3):
            with pytest.raises(TypeError, match="layout=True is for a batch|give it lengths"):
                op(wrong, layout=True)
        with pytest.raises(TypeError, match="layout must be"):
            op(X, layout=1)


@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [2, 0]])
def test_odd_shapes(lengths):
    rows = sum(lengths)
    for kind in oracle.ENCODINGS:
        for item_shape in ((), (0,), (2, 3)):
            x = example(kind, lengths, item_shape)
            assert_array(sf.position_ids(x, 5), range(5, 5 + rows), "i8", (rows,))
            assert_array(sf.segment_ids(x), [0] * rows, "i8", (rows,))
            assert_array(sf.cu_seqlens(x), oracle.offsets_of(lengths), "i4", (len(lengths) + 1,))
            assert_array(sf.block_mask(x), [[True] * rows] * rows, bool, (rows, rows))


def test_rows_of_a_time_major_batch_are_in_the_callers_order():
    """As in `Ragged`, whatever the order of the columns."""
    for kind in (sf.Padded, sf.Packed):
        x = oracle.build(kind, strategies.truth_from([1, 2, 2], "f8"), order=[2, 1, 0])
        assert sf.segment_ids(x).tolist() == [0, 1, 1, 2, 2]
        assert sf.position_ids(x, [10, 20, 30]).tolist() == [10, 20, 21, 30, 31]
        assert sf.cu_seqlens(x).tolist() == [0, 1, 3, 5]


def test_a_batch_that_uses_threads():
    lengths = np.random.default_rng(0).integers(0, 90, 1500)
    x = sf.Ragged(np.zeros(lengths.sum(), bool), lengths)
    assert np.array_equal(sf.segment_ids(x), np.repeat(np.arange(lengths.size), lengths))
    assert np.array_equal(sf.position_ids(x), np.arange(x.rows) - np.repeat(x.offsets[:-1], lengths))
    small = sf.Ragged(np.zeros(3000, bool), [1, 1499, 0, 1500])
    ids = sf.segment_ids(small)
    assert np.array_equal(sf.block_mask(small), ids[:, None] == ids)
    assert np.array_equal(sf.block_mask(small, causal=True), np.tril(ids[:, None] == ids))


def test_more_rows_than_int32_can_count():
    """Items without bytes take no memory."""
    data = np.zeros((2**31, 0))
    with pytest.raises(sf.StructureError, match="2147483648 rows.*int32"):
        sf.cu_seqlens(sf.Ragged(data, [1, 2**31 - 1]))
    assert sf.cu_seqlens(sf.Ragged(data[1:], [2**31 - 1])).tolist() == [0, 2**31 - 1]


# ------------------------------------------------------------------------------------------------- errors


X = example(sf.Ragged)
EMPTY = example(sf.Ragged, [])
ERRORS = {
    sf.StructureError: {
        r"mask: lengths\[1\] is -1": lambda: sf.mask([2, -1]),
        "mask: negative": lambda: sf.mask(np.array([[2], [-1]])),
        "mask: int64": lambda: sf.mask(np.array([2**63], "u8")),
        "position_ids: start has 2 numbers, but there are 3": lambda: sf.position_ids(X, [1, 2]),
        "position_ids: start has 1 numbers, but there are 0": lambda: sf.position_ids(EMPTY, [1]),
        "position_ids: int64": lambda: sf.position_ids(X, 2**64),
    },
    sf.ConversionError: {
        "mask: width=2 is too small: sequence 1 has 3": lambda: sf.mask([1, 3], width=2),
        "mask: width=0 is too small: sequence 2 has 3": lambda: sf.mask(X, width=0),
        "mask: width must be at least 0": lambda: sf.mask([], width=-1),
        'mask: side must be "right" or "left", not \'up\'': lambda: sf.mask([1], side="up"),
        "mask: side": lambda: sf.mask([1], side=1),
    },
    TypeError: {
        "mask: integers, not float64": lambda: sf.mask(np.array([1.0])),
        "mask: integers, not bool": lambda: sf.mask(np.array([True])),
        "mask: integers, but one of them is 1.0": lambda: sf.mask([1.0]),
        "mask: lengths": lambda: sf.mask(3),
        "mask: width": lambda: sf.mask([1], width=2.0),
        "position_ids: start": lambda: sf.position_ids(X, 1.5),
        "position_ids: start must be": lambda: sf.position_ids(X, [0.0, 1.0, 2.0]),
        "position_ids: start must be an integer": lambda: sf.position_ids(X, True),
        "position_ids: start must be a": lambda: sf.position_ids(EMPTY, "text"),
        "block_mask: causal must be True or False": lambda: sf.block_mask(X, causal=1),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name.partition(": ")[2]):
        call()


@pytest.mark.parametrize("x", [np.zeros(3), 3, None, object()])
@every_question
def test_what_is_no_encoding(op, x):
    with pytest.raises(TypeError, match="give it lengths"):
        op(x)
