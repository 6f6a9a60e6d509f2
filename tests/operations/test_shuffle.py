"""The items of every sequence in a random order, against plain Python, and the distribution of orders."""

import itertools
import math

import masking_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_result, assert_slopes, filled_like, mapped, rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.launch import threads

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
SEEDS = st.sampled_from([0, 1, 5, 2**32 - 1, 2**63 - 1])


def shuffled(truth, seed):
    return mapped(truth, lambda items, i: [items[k] for k in masking_oracle.order(len(items), seed, i)])


@every_format
@given(data=st.data())
def test_shuffle(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    seed = data.draw(SEEDS)
    assert_result(arrays.on(sf.shuffle)(x, seed), x, shuffled(truth, seed))


@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
@given(data=st.data())
def test_the_gradient_goes_back_where_items_came_from(arrays, kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=[np.dtype("f8")], shapes=[(), (2,)]))
    x = filled_like(x, 0)
    assert_slopes(lambda z: arrays.vjp(sf.shuffle, z, 3), [x])


def test_batches_of_the_same_lengths_keep_together():
    x = sf.Ragged(np.arange(30), [9, 0, 21])
    labels = sf.convert(sf.Ragged(np.arange(30) * 10.0, [9, 0, 21]), sf.Padded)
    assert np.array_equal(rows(sf.shuffle(labels, 8)), rows(sf.shuffle(x, 8)) * 10.0)
    assert not np.array_equal(rows(sf.shuffle(x, 8)), rows(sf.shuffle(x, 9)))


@pytest.mark.passes("compiled", reason="the threads are those of compiled kernels")
def test_threads_change_nothing(monkeypatch):
    lengths = np.random.default_rng(0).integers(0, 99, 40_000)
    x = sf.Ragged(np.arange(lengths.sum()), lengths)
    one = sf.shuffle(x, 4)
    monkeypatch.setattr(threads, "num_threads", lambda: 3)
    assert sf.equal(sf.shuffle(x, 4), one)


@pytest.mark.passes("compiled", reason="the other passes have the same numbers, one by one")
@pytest.mark.parametrize("length", [2, 3, 4])
def test_every_order_is_as_likely(length):
    n, count = 60_000, math.factorial(length)
    x = sf.Ragged(np.tile(np.arange(length), n), np.full(n, length))
    orders, counts = np.unique(sf.shuffle(x, 6).data.reshape(n, -1), axis=0, return_counts=True)
    assert list(map(tuple, orders.tolist())) == list(itertools.permutations(range(length)))
    statistic = float(((counts - n / count) ** 2 / (n / count)).sum())
    assert (statistic - (count - 1)) / math.sqrt(2 * (count - 1)) < 4


@pytest.mark.passes("compiled", reason="the other passes have the same numbers, one by one")
def test_every_item_comes_to_every_place_of_a_long_sequence():
    x = sf.Ragged(np.arange(1_000_000), [1_000_000])
    y = sf.shuffle(x, 2).data
    assert np.array_equal(np.sort(y), x.data)
    counts, _, _ = np.histogram2d(x.data, y, 16)
    assert abs(float(((counts - 1e6 / 256) ** 2 / (1e6 / 256)).sum()) - 225) < 4 * math.sqrt(450)


def test_items_without_bytes_go_nowhere():
    x = sf.Ragged(np.zeros((2**40, 0)), [2**40 - 1, 1])
    with pytest.raises(sf.StructureError, match="more places than random numbers"):
        sf.shuffle(x, 1)
    y = sf.shuffle(sf.Ragged(np.zeros((2**32, 0)), [2**32]), 1)
    assert y.lengths.tolist() == [2**32]


@pytest.mark.parametrize(
    ("error", "seed"), [(sf.ConversionError, -1), (sf.ConversionError, 2**63), (TypeError, 1.5), (TypeError, None)]
)
def test_seeds_that_cannot_be(error, seed):
    with pytest.raises(error, match="seed must"):
        sf.shuffle([[1, 2]], seed)
