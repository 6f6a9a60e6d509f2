"""Items and sequences put back, against plain Python."""

import numpy as np
import oracle
import pytest
import strategies
from checks import assert_padding_is_zero, assert_result, assert_slopes, mapped
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
LENGTHS = [3, 0, 1, 4]


def numbers(kind, lengths=LENGTHS, item=(2,), dtype="f8"):
    return oracle.build(kind, strategies.truth_from(lengths, np.dtype(dtype), item))


def others_like(truth, lengths, data):
    """A batch of other items of the same dtype and shape, as a truth and in some encoding."""
    found = strategies.truth_from(lengths, truth.dtype, truth.item_shape, special=True)
    return found, oracle.build(data.draw(st.sampled_from(oracle.FLAT)), found)


@every_format
@given(data=st.data())
def test_masked_scatter(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(strategies.DTYPES)))
    marks = [data.draw(st.lists(st.booleans(), min_size=k, max_size=k)) for k in truth.lengths()]
    new, values = others_like(truth, [sum(part) for part in marks], data)
    mask = np.array([mark for part in marks for mark in part], bool)

    def put(items, i):
        rest = iter(new.sequences()[i])
        return [next(rest) if mark else item for item, mark in zip(items, marks[i], strict=True)]

    if not truth.lengths() and isinstance(x, list):
        values = x
    else:
        as_rows = arrays.on(lambda x, rows: sf.masked_scatter(x, mask, rows.data))(x, oracle.build(sf.Ragged, new))
        assert_result(as_rows, x, mapped(truth, put))
    assert_result(arrays.on(sf.masked_scatter)(x, mask, values), x, mapped(truth, put))
    if truth.rows() and kind is not list:  # equal lists of marks would be a batch of other levels
        same = arrays.on(lambda x: sf.masked_scatter(x, mask, sf.filter(x, mask)))(x)
        assert_result(same, x, truth)


@every_encoding
def test_a_number_everywhere_else(arrays, kind):
    mask = oracle.build(kind, oracle.truth_of([np.array(part, bool) for part in ([1, 0, 1], [], [0], [0, 0, 1, 1])]))
    values = numbers(sf.Ragged, [2, 0, 0, 2], (3,), "i4")
    found = arrays.on(sf.masked_scatter)(-7, mask, values)
    assert type(found) is kind
    assert_padding_is_zero(found)
    wanted = np.full((8, 3), -7, "i4")
    wanted[[0, 2, 6, 7]] = values.data
    np.testing.assert_array_equal(sf.convert(found, sf.Ragged).data, wanted)
    assert_slopes(lambda v: arrays.vjp(sf.masked_scatter, 2.0, mask, v), [numbers(kind, [2, 0, 0, 2])])


@every_encoding
@pytest.mark.parametrize("mode", ["add", "put"])
def test_gradients(arrays, kind, mode):
    x, mask = numbers(kind), np.array([1, 0, 1, 0, 1, 1, 0, 0], bool)
    assert_slopes(lambda x, v: arrays.vjp(sf.masked_scatter, x, mask, v), [x, numbers(kind, [2, 0, 0, 2])])
    assert_slopes(lambda x, v: arrays.vjp(sf.put_sequences, x, [3, 1, 3], v), [x, numbers(kind, [2, 5, 1])])
    index = [[2, -1, 0], [], [0], [1, 1]]
    assert_slopes(lambda x, v: arrays.vjp(sf.scatter, x, index, v, mode=mode), [x, numbers(kind, [3, 0, 1, 2])])


@every_format
@given(data=st.data())
def test_put_sequences(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(strategies.DTYPES)))
    index = data.draw(st.lists(st.integers(-len(truth), len(truth) - 1), max_size=4)) if len(truth) else []
    places = data.draw(st.permutations([i % len(truth) for i in index])) if index else []
    parts = list(truth.nest)
    for i, p in zip(index, places, strict=True):
        parts[i] = truth.nest[p]
    # a list of lists that comes back holds Python's numbers, whatever dtype its arrays had
    keep = (lambda x: sf.convert(x, sf.LoD)) if kind is list else lambda x: x
    found = arrays.on(lambda x: sf.put_sequences(x, index, sf.select(keep(x), places)))(x)
    wanted = oracle.Truth(parts, truth.dtype, truth.item_shape, truth.levels)
    assert_result(found, x, wanted)
    if truth.levels == 1 and kind is not list:
        new, values = others_like(truth, [2] * len(index), data)
        for i, items in zip(index, new.nest, strict=True):
            parts[i] = items
        assert_result(arrays.on(sf.put_sequences)(x, index, values), x, wanted)
        assert sf.equal(arrays.on(sf.put_sequences)(x, slice(0, 1), sf.select(x, slice(0, 1))), x, equal_nan=True)


@every_format
@given(data=st.data())
def test_scatter_into_a_batch(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([np.dtype(d) for d in ("i8", "f4", "f8", "i4")])))
    index = [data.draw(st.lists(st.integers(-k, k - 1), max_size=5)) if k else [] for k in truth.lengths()]
    if not index and kind is list:
        return
    new = strategies.truth_from([len(part) for part in index], truth.dtype, truth.item_shape)
    values = oracle.build(data.draw(st.sampled_from(oracle.FLAT)), new)

    def put(items, i, adds):
        items = list(items)
        for t, value in zip(index[i], new.sequences()[i], strict=True):
            items[t] = np.asarray(items[t] + value, truth.dtype) if adds else value
        return items

    at = sf.Ragged(np.array([t for part in index for t in part], np.int64), [len(part) for part in index])
    with np.errstate(all="ignore"):
        assert_result(arrays.on(sf.scatter)(x, at, values, mode="put"), x, mapped(truth, lambda z, i: put(z, i, False)))
        if truth.dtype.kind == "i":
            assert_result(arrays.on(sf.scatter)(x, at, values), x, mapped(truth, lambda z, i: put(z, i, True)))


def test_marks_are_read_when_the_result_is_made():
    mask = np.array([True, False, True])
    _, back = sf.vjp(sf.masked_scatter, sf.Ragged(np.arange(3.0), [3]), mask, np.zeros(2))
    mask[:] = False
    assert [x.tolist() for x in (back(np.ones(3))[0].data, back(np.ones(3))[1])] == [[0, 1, 0], [1, 1]]


X = sf.Ragged(np.arange(4.0), [3, 1])
MASK = [[True, False, True], [False]]
NESTED = sf.LoD(np.arange(4.0), [[0, 2], [0, 3, 4]])
ERRORS = {
    "values has 3 rows, but mask is true 2 times": lambda: sf.masked_scatter(X, MASK, np.zeros(3)),
    "values has 1 sequences, but mask has 2": lambda: sf.masked_scatter(X, MASK, [[1.0, 2.0]]),
    "mask is true so often": lambda: sf.masked_scatter(X, MASK, [[1.0], [2.0]]),
    "mask must hold bools, not int64": lambda: sf.masked_scatter(X, [[1, 0, 1], [0]], np.zeros(2)),
    "sequence 0 of mask has 1 items": lambda: sf.masked_scatter(X, [[True], [False]], np.zeros(1)),
    "values has dtype int64, but base has float64": lambda: sf.masked_scatter(X, MASK, np.zeros(2, int)),
    r"values has item shape \(2,\), but base has \(\)": lambda: sf.masked_scatter(X, MASK, np.zeros((2, 2))),
    "base is the value of items where mask is false, but .*0.5": lambda: sf.masked_scatter(0.5, MASK, np.zeros(2, int)),
    "is no single batch": lambda: sf.masked_scatter(1, np.ones(2, bool), np.zeros(2)),
    "values has 1 sequences, but index has 2 positions": lambda: sf.put_sequences(X, [0, 1], [[1.0]]),
    "index 2 is out of range": lambda: sf.put_sequences(X, [2], [[1.0]]),
    "values has 1 levels, but base has 2": lambda: sf.put_sequences(NESTED, [0], X[[0]]),
    "values has dtype int32": lambda: sf.put_sequences(X, [0], [np.zeros(1, "i4")]),
    "but sequence 1 of base has 1 items": lambda: sf.scatter(X, [[0], [1]], [[1.0], [1.0]]),
    "index has sequences of lengths .1, 1., but updates .1, 2.": lambda: sf.scatter(X, [[0], [0]], [[1.0], [1.0, 2]]),
    "index has 1 sequences, but base has 2": lambda: sf.scatter(X, [[0]], [[1.0]]),
    "updates has dtype int64": lambda: sf.scatter(X, [[0], [0]], [np.zeros(1, int)] * 2),
    "bools cannot be added up": lambda: sf.scatter(MASK, [[0], []], [[True], []]),
    'mode must be "add" or "put"': lambda: sf.scatter(X, [[0], [0]], [[1.0], [1.0]], mode="set"),
    'mode="put" is for a batch': lambda: sf.scatter(np.zeros((2, 3)), [[0], [0]], [[1.0], [1.0]], mode="put"),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message):
    with pytest.raises((sf.SeqFormatError, TypeError, IndexError), match=message) as caught:
        ERRORS[message]()
    assert caught.value.code
