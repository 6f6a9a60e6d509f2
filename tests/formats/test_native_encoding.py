"""An encoding that answers the questions of `Encoding` is known everywhere: converted, calculated, chosen, wrapped."""

import copy
import pickle

import native_encoding
import numpy as np
import oracle
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_encoding import Strided
from test_wrap import WRAPPERS

import seqformats as sf

LENGTHS = [2, 0, 3, 1]
pytestmark = pytest.mark.usefixtures("entered")
every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture
def entered(tables):
    native_encoding.register()


def build(truth, capacity=None):
    """`Strided` by the oracle: one item at a time."""
    wide = max([*truth.lengths(), 0]) if capacity is None else capacity
    data = np.zeros((len(truth) * wide, *truth.item_shape), truth.dtype)
    for i, sequence in enumerate(truth.sequences()):
        for t, item in enumerate(sequence):
            data[i * wide + t] = item
    return Strided(data, np.array(truth.lengths(), np.int64), wide)


def read(x):
    assert x.data.shape[0] == x.capacity * len(x)
    items = [x.data[i * x.capacity : i * x.capacity + length] for i, length in enumerate(x.lengths.tolist())]
    return oracle.truth_of(items, x.dtype, x.item_shape)


def example(dtype="f8", item_shape=(2,), capacity=5):
    return build(strategies.truth_from(LENGTHS, dtype, item_shape), capacity)


def as_ragged(x):
    return oracle.build(sf.Ragged, read(x))


@every_format
@shared
@given(data=st.data())
def test_converted_from_and_to_everything(kind, data):
    truth, x = data.draw(strategies.encoded(kind))
    there = sf.convert(x, Strided)
    assert type(there) is Strided
    assert there.capacity == there.max_length
    oracle.assert_truth(read(there), truth.at(-1))
    if kind is not list:
        oracle.assert_layout(sf.convert(there, kind), oracle.build(kind, truth.at(-1)))
        oracle.assert_same(sf.convert_like(there, x), x)


def test_options():
    x = example()
    wide = sf.convert(as_ragged(x), Strided, capacity=4, fill=-1)
    assert wide.capacity == 4
    assert wide.data[2:4].tolist() == [[-1, -1], [-1, -1]]
    assert sf.convert(x, Strided) is x
    assert sf.convert(x, Strided, capacity=3).data.shape == (12, 2)
    assert sf.convert(x, Strided, fill=7).data[-1].tolist() == [7, 7]
    with pytest.raises(sf.ConversionError, match="capacity must be at least 3, not 2"):
        sf.convert(x, Strided, capacity=2)
    with pytest.raises(
        TypeError, match="no option 'side' on the way from Ragged to Strided; options there: capacity, fill"
    ):
        sf.convert(as_ragged(x), Strided, side="left")
    assert "one move by copy_blocks   options: capacity, fill" in sf.explain(sf.Ragged, Strided)


def test_its_structure_is_the_one_of_what_it_is_like():
    x = example(capacity=5)
    assert sf.convert_like(as_ragged(x), x).capacity == 5
    longer = oracle.build(sf.Ragged, strategies.truth_from([1, 7, 0, 2], "f8", (2,)))
    assert sf.convert_like(longer, x).capacity == 7
    padded = sf.convert(x, sf.Padded)
    oracle.assert_layout(sf.convert_like(x, padded), padded)


OPERATIONS = {
    "softmax": sf.softmax,
    "log_softmax": sf.log_softmax,
    "cumsum": sf.cumsum,
    "reverse": sf.reverse,
    "window": lambda x: sf.window(x, 1, 1),
    "slice": lambda x: sf.slice(x, [0] * 4, [1, 0, 2, 1]),
    "cut": lambda x: sf.cut(x, 1),
    "cut by steps": lambda x: sf.cut(x, step=-2),
    "truncate": lambda x: sf.truncate(x, 2, "middle"),
    "shift": lambda x: sf.shift(x, 1, fill=3),
    "select": lambda x: sf.select(x, [3, 0, 3]),
    "mask": lambda x: sf.select(x, [True, False, True, True]),
    "expand": lambda x: sf.repeat(x, [1, 2, 0, 1]),
    "concat": lambda x: sf.concat([x, x]),
    "reorder": lambda x: sf.reorder(x, [2, 0, 3, 1]),
    "join": lambda x: sf.join_batches([x, x]),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_keep_it(name):
    x = example()
    y = OPERATIONS[name](x)
    assert type(y) is Strided
    oracle.assert_same(as_ragged(y), OPERATIONS[name](as_ragged(x)))
    gap = sf.convert(y, Strided, fill=0).data
    assert np.array_equal(y.data, gap)  # what no row takes is zero


@pytest.mark.parametrize("name", ["sum", "mean", "sqrt", "max", "min", "first", "last", "logsumexp"])
def test_reductions(name):
    x, operation = example(), getattr(sf, f"reduce_{name}")
    oracle.assert_bits(operation(x), operation(as_ragged(x)))
    _, pullback = sf.vjp(operation, x)
    dx = pullback(np.ones((4, 2)))
    wanted = sf.vjp(operation, as_ragged(x))[1](np.ones((4, 2)))
    assert type(dx) is Strided
    assert dx.capacity == 5
    oracle.assert_same(as_ragged(dx), wanted)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (sf.softmax, ()),
        (sf.cumsum, ()),
        (sf.reverse, ()),
        (sf.window, (1, 1)),
        (sf.select, ([3, 0, 3],)),
        (sf.slice, ([0] * 4, [1, 0, 2, 1])),
        (sf.repeat, ([1, 2, 0, 1],)),
        (sf.cut, (1, -1)),
        (sf.truncate, (3, "middle")),
        (sf.shift, (-1,)),
    ],
)
def test_gradients(operation, arguments):
    x = example()
    y, pullback = sf.vjp(operation, x, *arguments)
    dx = pullback(y)
    z, other = sf.vjp(operation, as_ragged(x), *arguments)
    assert type(dx) is Strided
    assert dx.capacity == 5
    oracle.assert_same(as_ragged(dx), other(z))
    assert np.array_equal(dx.data, sf.convert(dx, Strided, fill=0).data)


@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded, sf.Packed, sf.Masked, sf.LoD, sf.List], ids=oracle.format_name)
def test_gradients_of_conversions(kind):
    x = example()
    y, pullback = sf.vjp(sf.convert, x, kind)
    oracle.assert_same(as_ragged(pullback(y)), as_ragged(x))
    z, back = sf.vjp(sf.convert, y, Strided, capacity=6)
    assert z.capacity == 6
    oracle.assert_same(back(z), y)


@pytest.mark.parametrize("seen", WRAPPERS, ids=oracle.format_name)
def test_wrappers(seen):
    x = example()
    y = WRAPPERS[seen](lambda z: sf.reverse(z))(x)
    assert type(y) is Strided
    assert y.capacity == 5
    oracle.assert_same(as_ragged(y), sf.reverse(as_ragged(x)))


def test_rows_alone():
    x = example()
    y = sf.with_array(lambda rows: rows * 2)(x)
    assert y.capacity == 5
    assert np.array_equal(y.data, x.data * 2)


def test_chosen_and_counted():
    x = example()
    truth = read(x)
    for index, places in (([3, 0], [3, 0]), (slice(1, 3), [1, 2]), (-1, [3]), ([True, False, True, False], [0, 2])):
        oracle.assert_truth(read(x[index]), truth.take(places))
    assert [len(part) for part in x] == [1] * 4
    assert sf.lengths(x).tolist() == LENGTHS
    assert (x.rows, x.max_length, x.item_shape, x.device) == (6, 3, (2,), "cpu")
    assert sf.equal(x, example())
    assert not sf.equal(x, x[[0, 1, 3, 2]])


def test_copied_and_kept():
    x = example()
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert sf.equal(x, y)
        assert y.capacity == x.capacity
    assert repr(x) == "Strided(shape (20, 2), float64, cpu, 4 sequences of lengths [2, 0, 3, 1])"
    with pytest.raises(sf.StructureError, match="do not fit a capacity of 2"):
        Strided(np.zeros((8, 2)), LENGTHS, 2)


def test_time_steps():
    x = example()
    y = sf.TensorArray.unpack(x).pack()
    assert type(y) is Strided
    oracle.assert_same(as_ragged(y), as_ragged(x))
