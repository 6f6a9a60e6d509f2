"""Items at chosen places and all pairs of items, against plain Python."""

import numpy as np
import oracle
import pytest
import rows_oracle
import strategies
from checks import assert_result, assert_slopes, mapped, rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.formats.bare import as_encoding
from seqformats.formats.leaves import without_data
from seqformats.formats.structure import Structure
from seqformats.operations.pick import pick, place

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)

INDEX_DTYPES = [np.dtype(code) for code in ("i8", "i4", "i1", ">i4")]


@st.composite
def indices(draw, lengths, kind, dtypes):
    """Places in sequences of these lengths, as a list of lists and as an encoding or bare lists of integers."""
    found = [draw(st.lists(st.integers(-k, k - 1), max_size=4)) if k else [] for k in lengths]
    if kind is list:
        return found, found
    dtype = draw(st.sampled_from(dtypes))
    item = draw(st.sampled_from([(), (1,)]))
    truth = oracle.truth_of([np.array(part, dtype).reshape(-1, *item) for part in found], dtype, item)
    return found, oracle.build(kind, truth)


# ------------------------------------------------------------------------------------------------- gather


@every_format
@given(data=st.data())
def test_gather(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(strategies.DTYPES)))
    other = data.draw(st.sampled_from([*oracle.ENCODINGS, list]))
    wanted, index = data.draw(indices(truth.lengths(), other, arrays.of(INDEX_DTYPES)))
    if not truth.lengths() and isinstance(index, (sf.List, list)):
        index = sf.Ragged(np.zeros(0, np.int64), [])
    found = arrays.on(sf.gather)(x, index)
    assert_result(found, x, mapped(truth, lambda items, i: [items[t] for t in wanted[i]]))


@every_encoding
def test_gradient_of_gather(arrays, kind):
    truth = strategies.truth_from([3, 0, 1, 4], np.dtype("f8"), (2,))
    x = oracle.build(kind, truth)
    index = sf.Ragged(np.array([2, -1, 0, 2, 0, 0, 1, 3]), [4, 0, 2, 2])
    assert_slopes(lambda x: arrays.vjp(sf.gather, x, index), [x])
    y, pullback = arrays.vjp(sf.gather, x, index)
    dx = pullback(y)
    for items, wanted, given_ in zip(
        oracle.read(dx).sequences(), [[2, 2, 0, 2], [], [0, 0], [1, 3]], truth.sequences(), strict=True
    ):
        for t, item in enumerate(items):
            np.testing.assert_array_equal(item, wanted.count(t) * (given_[t] if given_ else 0))


def test_gradient_of_gather_is_added_up_in_wide_floats():
    """Ten thousand small gradients on top of a large one, in float16 and in float32."""
    for dtype, one in (("f2", 2.0**-11), ("f4", 2.0**-24)):
        x = sf.Ragged(np.zeros(1, dtype), [1])
        _, pullback = sf.vjp(sf.gather, x, [[0] * 10_001])
        dy = np.full(10_001, one, dtype)
        dy[0] = 1
        assert pullback(dy).data[0] == np.array(1 + 10_000 * one, dtype)


def test_an_index_over_more_levels():
    """Only the innermost sequences count; the outer levels of the result are those of x."""
    x = sf.LoD(np.arange(5), [[0, 2, 3], [0, 1, 3, 5]])
    found = sf.gather(x, [[0, 0], [], [-1]])
    assert found.to_nested() == [[[0, 0], []], [[4]]]
    assert sf.gather(x.to_nested(), sf.LoD(np.array([0]), [[0, 3], [0, 0, 1, 1]])) == [[[], [1]], [[]]]


def test_gather_of_nothing():
    assert sf.gather([], []) == []
    assert sf.gather([[], []], [[], []]) == [[], []]
    x = sf.Ragged(np.zeros((0, 3), "f4"), [0, 0])
    assert sf.gather(x, sf.Ragged(np.zeros(0, complex), [0, 0])).lengths.tolist() == [0, 0]
    found = sf.gather(x, [[], []])
    assert (found.item_shape, found.dtype) == ((3,), np.float32)


ERRORS = {
    "index has 1 sequences, but x has 2": (sf.StructureError, [[0]]),
    "index must hold one integer per item": (sf.StructureError, sf.Ragged(np.zeros((2, 2), int), [1, 1])),
    "index must hold integers, not float64": (TypeError, [[0.0], [0]]),
    "index must hold integers, not bool": (TypeError, [[True], [False]]),
    r"index\[1\]\[1\] is 1, but sequence 1 of x has 1 items": (IndexError, [[2, -3], [0, 1]]),
    r"index\[0\]\[0\] is -4, but sequence 0 of x has 3 items": (IndexError, [[-4], [9]]),
    "is 18446744073709551615, but": (IndexError, sf.Ragged(np.array([2**64 - 1], "u8"), [1, 0])),
    r"index\[0\]\[0\] is -9223372036854775808": (IndexError, [[-(2**63)], []]),
    r"index\[0\]\[0\] is 9223372036854775807": (IndexError, [[2**63 - 1], []]),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors_of_gather(message):
    kind, index = ERRORS[message]
    with pytest.raises(kind, match=message):
        sf.gather(sf.Ragged(np.arange(4), [3, 1]), index)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "u8"])
def test_places_of_every_dtype(dtype):
    index = sf.Ragged(np.array([2, 0, 0], dtype), [2, 1])
    assert sf.gather(sf.Ragged(np.arange(4), [3, 1]), index).to_nested() == [[2, 0], [3]]


def test_integers_have_no_gradient_that_adds_up():
    with pytest.raises(TypeError, match="int64 has no gradient"):
        sf.vjp(sf.gather, sf.Ragged(np.arange(4), [3, 1]), [[0], [0]])
    with pytest.raises(TypeError, match="cannot be added up"):
        sf.vjp(sf.gather, sf.Ragged(np.array(["a"]), [1]), [[0]])


# --------------------------------------------------------------------------------------------------- pick


@every_encoding
@pytest.mark.parametrize("by_column", [False, True])
def test_places_from_either_side(arrays, kind, by_column):
    """On the host, or beside the items; the way back is the transpose."""
    truth = strategies.truth_from([3, 0, 2], np.dtype("f8"), (2,))
    kept = Structure.of_lengths(np.array([2, 0, 3]))
    places = np.array([2, 2, 0, 1, 0])
    if by_column:
        places = np.stack([places, [0, 2, 1, 1, 1]], 1).reshape(-1)
    x = oracle.build(kind, truth)
    z = arrays.up(x)
    for given_ in (places, arrays.up(places)):
        y = pick(z, given_, kept, by_column=by_column)
        got = rows(arrays.down(y))
        data, where = truth.data(), places.reshape(5, -1)
        flat = where + np.array([0, 0, 3, 3, 3])[:, None]
        np.testing.assert_array_equal(got, np.take_along_axis(data, np.broadcast_to(flat, (5, 2)), 0))
        if not by_column:
            dx = arrays.down(place(y, given_, without_data(z)))
            wanted = np.zeros_like(data)
            np.add.at(wanted, flat[:, 0], got)
            np.testing.assert_array_equal(rows(dx), wanted)


# -------------------------------------------------------------------------------------------------- cross


@every_format
@given(data=st.data())
def test_cross(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(strategies.DTYPES)))
    lengths = [data.draw(st.integers(0, 3)) for _ in truth.lengths()]
    dtype = data.draw(st.sampled_from(arrays.of(strategies.DTYPES)))
    other = strategies.truth_from(lengths, dtype, data.draw(st.sampled_from([(), (2,)])))
    y = oracle.build(data.draw(st.sampled_from(oracle.ENCODINGS)), other)
    if truth.levels > 1:
        y = sf.LoD._from_levels(sf.convert(y, sf.Ragged).data, (*sf.convert(x, sf.LoD)._levels[:-1], y._structure))
        other = oracle.read(y)

    def members(a, b):
        pairs = sf.cross(a, b)
        return [pairs.one, pairs.two]

    found = (members if kind is list else arrays.on(members))(x, y)
    given_ = as_encoding(x)
    twos = other.sequences()
    assert_result(found[0], given_, mapped(truth, lambda a, i: rows_oracle.crossed(a, twos[i])[0]))
    ones = truth.sequences()
    assert_result(found[1], y, mapped(other, lambda b, i: rows_oracle.crossed(ones[i], b)[1]))


@every_encoding
def test_gradient_of_cross(arrays, kind):
    x = oracle.build(kind, strategies.truth_from([3, 0, 1, 2], np.dtype("f8"), (2,)))
    y = sf.Ragged(np.arange(7.0), [2, 1, 0, 4])

    def call(x, y):
        pairs, pullback = sf.vjp(sf.cross, arrays.up(x), arrays.up(y))
        one, two = arrays.down(pairs.one), arrays.down(pairs.two)
        joined = np.concatenate([rows(one).reshape(-1), rows(two).reshape(-1)])

        def back(dy):
            cut = rows(one).size
            first = sf.convert_like(sf.Ragged(dy[:cut].reshape(rows(one).shape), sf.lengths(one)), one)
            second = sf.Ragged(dy[cut:].reshape(rows(two).shape), sf.lengths(two))
            return tuple(arrays.down(list(pullback(sf.Pairs(arrays.up(first), arrays.up(second))))))

        return joined, back

    assert_slopes(call, [x, y])


def test_cross_of_lists_and_levels():
    pairs = sf.cross([[1, 2], []], [["a"], ["b"]])
    assert sf.convert(pairs.one, list) == [[1, 2], []]
    assert sf.convert(pairs.two, list) == [["a", "a"], []]
    x = sf.LoD(np.arange(3), [[0, 2], [0, 2, 3]])
    pairs = sf.cross(x, [[[1, 2], [3]]])
    assert pairs.one.to_nested() == [[[0, 0, 1, 1], [2]]]
    assert pairs.two.to_nested() == [[[1, 2, 1, 2], [3]]]
    with pytest.raises(sf.StructureError, match="outermost"):
        sf.cross(x, [[1, 2], [3]])


def test_errors_of_cross():
    x = sf.Ragged(np.arange(4), [3, 1])
    with pytest.raises(sf.StructureError, match="x has 2 sequences, but y has 1"):
        sf.cross(x, [[1]])
    many = sf.Ragged(np.zeros((2**40, 0), np.int8), [2**40])
    with pytest.raises(sf.OutOfMemory, match="no memory can hold"):
        sf.cross(many, many)
    with pytest.raises(sf.OutOfMemory, match="no memory can hold"):
        sf.cross(sf.Ragged(np.zeros(2**20, np.int8), [2**20]), sf.Ragged(np.zeros((2**40, 0), "i1"), [2**40]))
    with pytest.raises(TypeError, match="int64 has no gradient"):
        sf.vjp(sf.cross, x, x)
    _, pullback = sf.vjp(sf.cross, sf.Ragged(np.zeros(1), [1]), sf.Ragged(np.zeros(2), [2]))
    with pytest.raises(sf.StructureError, match="the gradient has sequences of lengths"):
        pullback(sf.Pairs(sf.Ragged(np.zeros(2), [2]), sf.Ragged(np.zeros(9), [9])))
