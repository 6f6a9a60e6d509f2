"""Encodings built in functions that the caller compiles: what is checked, and what comes out."""

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, typed
from numba.core.errors import TypingError

import seqformats as sf

pytestmark = pytest.mark.passes("compiled", reason="the functions of users are compiled in no other pass")


@njit
def ragged(data, lengths):
    return sf.Ragged(data, lengths)


@njit
def masked(data, lengths):
    return sf.Masked(data, lengths)


@njit
def masked_left(data, lengths):
    return sf.Masked(data, lengths=lengths, side="left")


@njit
def padded(data, size_at_t, lengths, indices):
    return sf.Padded(data, size_at_t, lengths, indices)


@njit
def packed(data, size_at_t, lengths, indices):
    return sf.Packed(data, size_at_t, lengths, indices)


@njit
def lod(data, outer, inner):
    return sf.LoD(data, (outer, inner))


def numbers(*values):
    return np.array(values, np.int64)


few = st.lists(st.integers(-1, 4), max_size=4).map(lambda values: numbers(*values))


def outcome(make, *args):
    """What is made, or the kind of the error."""
    try:
        return make(*args)
    except sf.StructureError as error:
        return type(error)


def agree(compiled, plain, *args):
    """Both make the same, or refuse."""
    found, expected = outcome(compiled, *args), outcome(plain, *args)
    assert type(found) is type(expected)
    if isinstance(expected, type):
        assert found is expected
    else:
        oracle.assert_same(found, expected)
        assert found.data is args[0]


@given(few, st.integers(0, 9))
def test_ragged(lengths, rows):
    agree(ragged, sf.Ragged, np.arange(rows * 1.0), lengths)


@given(few, st.integers(0, 4), st.integers(0, 4))
def test_masked(lengths, n, width):
    data = np.arange(n * width * 1.0).reshape(n, width)
    agree(masked, sf.Masked, data, lengths)
    agree(masked_left, lambda *args: sf.Masked(*args, side="left"), data, lengths)


@given(st.data())
def test_by_steps(data):
    """A valid batch of which one number may have been changed."""
    lengths = data.draw(st.lists(st.integers(0, 4), max_size=4))
    x = sf.convert(sf.Ragged(np.arange(sum(lengths) * 1.0), lengths), sf.Padded)
    y = sf.convert(x, sf.Packed)
    parts = [x.size_at_t.copy(), x.lengths.copy(), x.indices.copy()]
    part = data.draw(st.sampled_from(parts))
    if part.size:
        part[data.draw(st.integers(0, part.size - 1))] += data.draw(st.sampled_from([-2, -1, 0, 0, 0, 1, 9]))
    agree(padded, sf.Padded, x.data, *parts)
    agree(packed, sf.Packed, y.data, *parts)


@given(few.map(np.cumsum), few.map(np.cumsum), st.integers(0, 3))
def test_lod(outer, inner, rows):
    outer, inner = np.r_[0, np.abs(outer)], np.r_[0, np.abs(inner)]
    data = np.arange(float(inner[-1] if rows else rows))
    agree(lod, lambda data, *levels: sf.LoD(data, levels), data, outer, inner)
    inner = np.arange(outer[-1] + 1)
    agree(lod, lambda data, *levels: sf.LoD(data, levels), np.arange(float(inner[-1])), outer, inner)


@pytest.mark.parametrize(
    ("make", "args", "message"),
    [
        (ragged, (np.ones(3), numbers(2, 2)), "lengths add up to 4, but data has 3 rows"),
        (ragged, (np.ones(3), numbers(2)), "lengths add up to 2, but data has 3 rows"),
        (ragged, (np.ones(3), numbers(4, -1)), "must not be negative, but lengths\\[1\\] is -1"),
        (ragged, (np.ones(3), numbers(-1, 4)), "must not be negative, but lengths\\[0\\] is -1"),
        (ragged, (np.ones(3), numbers(1, 2**63 - 1)), "more than int64 can count"),
        (ragged, (np.ones(3), np.array([2**64 - 1], np.uint64)), "must fit int64"),
        (masked, (np.ones((2, 3)), numbers(2)), "there are 1 lengths, but data has 2 rows"),
        (masked, (np.ones((2, 3)), numbers(2, 4)), "longest length is 4, but data is only 3 wide"),
        (masked, (np.ones((2, 3)), numbers(2**63 - 1, 4)), "more than int64 can count"),
        (padded, (np.ones((2, 2)), numbers(2, 1), numbers(2, 1), numbers(0, 0)), "every position from 0 to 1 once"),
        (padded, (np.ones((2, 2)), numbers(2, 1), numbers(2, 1), numbers(0)), "indices must be as many as lengths"),
        (padded, (np.ones((2, 2)), numbers(2, 1), numbers(1, 2), numbers(0, 1)), "must fall, but lengths\\[1\\] is 2"),
        (padded, (np.ones((2, 2)), numbers(2, 1), numbers(2, -1), numbers(0, 1)), "must not be negative"),
        (padded, (np.ones((2, 2)), numbers(2, 1), numbers(3, 1), numbers(0, 1)), "there are only 2 steps"),
        (padded, (np.ones((2, 2)), numbers(2, 2), numbers(2, 1), numbers(0, 1)), "which are 1, not 2"),
        (padded, (np.ones((3, 2)), numbers(2, 1), numbers(2, 1), numbers(0, 1)), "2 numbers and data has 3 steps"),
        (padded, (np.ones((2, 3)), numbers(2, 1), numbers(2, 1), numbers(0, 1)), "2 lengths, but data has 3 columns"),
        (packed, (np.ones(4), numbers(2, 1), numbers(2, 1), numbers(0, 1)), "add up to 3, but data has 4 rows"),
        (lod, (np.ones(3), numbers(), numbers(0, 3)), "lod\\[0\\] must begin with 0; no sequence at all"),
        (lod, (np.ones(3), numbers(1, 1), numbers(0, 3)), "lod\\[0\\] must begin with 0, but begins with 1"),
        (lod, (np.ones(3), numbers(0, 2), numbers(0, 3, 2)), "lod\\[1\\] must never fall, but has 2 after 3"),
        (lod, (np.ones(3), numbers(0, 2), numbers(0, 3)), "lod\\[0\\] ends with 2"),
    ],
)
def test_messages(make, args, message):
    with pytest.raises(sf.StructureError, match=message) as error:
        make(*args)
    assert type(error.value) is sf.StructureError


def test_kinds_of_integers():
    expected = sf.Ragged(np.arange(5.0), [2, 3])
    for lengths in ((2, 3), np.array([2, 3], np.uint8), np.array([2, 3], np.uint64), typed.List([2, 3])):
        oracle.assert_same(ragged(expected.data, lengths), expected)


def test_types_are_looked_at_when_a_function_is_compiled():
    for make, args, message in [
        (ragged, (np.ones(3), np.ones(1)), "lengths must be integers with one axis"),
        (ragged, (np.ones(3), numbers(1).reshape(1, 1)), "lengths must be integers with one axis"),
        (ragged, (3.0, numbers(1)), "data must be an array with the axes"),
        (masked, (np.ones(3), numbers(3)), "data must have the axes \\(n, width"),
        (njit(lambda data: sf.Masked(data, (1, 1), 1)), (np.ones((2, 2)),), 'side must be "right" or "left", not'),
        (njit(lambda data, offsets: sf.LoD(data, offsets)), (np.ones(3), numbers(0, 3)), "must be a tuple of offset"),
    ]:
        with pytest.raises(TypingError, match=message):
            make(*args)


def test_the_side_may_come_from_elsewhere():
    @njit
    def again(x, side):
        return sf.Masked(x.data, x.lengths, x.side), sf.Masked(x.data, x.lengths, side)

    x = sf.Masked(np.arange(6).reshape(2, 3), [1, 3], "left")
    kept, other = again(x, "right")
    oracle.assert_same(kept, x)
    assert other.side == "right"
    with pytest.raises(sf.StructureError, match='side must be "right" or "left"'):
        again(x, "middle")


def test_data_that_is_not_contiguous_is_copied():
    data = np.arange(10.0)[::2]
    x = ragged(data, numbers(2, 3))
    oracle.assert_same(x, sf.Ragged(data, [2, 3]))


def test_lengths_are_copied():
    @njit
    def changed(data, lengths):
        x = sf.Ragged(data, lengths)
        lengths[0] = 9
        return x, x.lengths[0], x[0].size

    x, length, size = changed(np.arange(5.0), numbers(2, 3))
    assert (length, size, x.lengths.tolist()) == (2, 2, [2, 3])


def test_what_is_built_can_be_used_at_once():
    @njit
    def sums(data, lengths, size_at_t, indices, outer, inner):
        total = 0.0
        for sequence in sf.Padded(data.reshape(2, 2), size_at_t, lengths, indices):
            total += sequence.sum()
        total += sf.Packed(data[:3].copy(), size_at_t, lengths, indices)[-1].sum()
        for part in sf.LoD(data, (outer, inner)):
            for sequence in part:
                total += sequence.sum()
        return total + sf.Masked(data.reshape(2, 2), lengths, "left")[1][0]

    data = np.arange(1.0, 5)
    x = sf.Padded(data.reshape(2, 2), [2, 1], [2, 1], [1, 0])
    y = sf.Packed(data[:3], [2, 1], [2, 1], [1, 0])
    expected = sum(s.sum() for s in x.sequences()) + y.sequences()[-1].sum() + data.sum() + data[3]
    found = sums(data, numbers(2, 1), numbers(2, 1), numbers(1, 0), numbers(0, 1, 2), numbers(0, 3, 4))
    assert found == expected


def test_only_what_is_positive():
    @njit
    def positive(x):
        kept, lengths, k = np.empty(x.rows, x.dtype), np.zeros(len(x), np.int64), 0
        for i in range(len(x)):
            for value in x[i]:
                if value > 0:
                    kept[k] = value
                    lengths[i] += 1
                    k += 1
        return sf.Ragged(kept[:k], lengths)

    x = sf.Ragged(np.array([1.0, -2, 3, 4, -5]), [2, 0, 3])
    oracle.assert_same(positive(x), sf.filter(x, x.data > 0))
