"""Thinc: the same results as its `Ops` where those are well defined."""

import numpy as np
import pytest

import seqformats as sf

api = pytest.importorskip("thinc.api")

pytestmark = pytest.mark.peers

LENGTHS = [np.random.default_rng(seed).permutation(np.arange(1, size)) for seed, size in enumerate((2, 4, 12))]


@pytest.fixture(scope="module")
def ops():
    return api.NumpyOps()


def sequences(lengths, width=5):
    rng = np.random.default_rng(0)
    return [rng.random((length, width), dtype=np.float32) for length in lengths]


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
def test_list2padded_and_back(ops, lengths):
    # All lengths differ: Thinc orders equal ones by falling position, this library keeps their order.
    batch = sequences(lengths)
    mine, theirs = sf.convert(batch, sf.Padded), ops.list2padded(batch)
    np.testing.assert_array_equal(mine.data, theirs.data)
    for name in ("size_at_t", "lengths", "indices"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    given = sf.Padded(theirs.data, theirs.size_at_t, theirs.lengths, theirs.indices)
    for a, b in zip(sf.convert(given, sf.List).items, ops.padded2list(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_equal_lengths_come_back_in_the_caller_s_order(ops):
    batch = sequences([2, 3, 2, 3, 2])
    theirs = ops.list2padded(batch)
    given = sf.Padded(theirs.data, theirs.size_at_t, theirs.lengths, theirs.indices)
    for a, b in zip(sf.convert(given, sf.List).items, batch, strict=True):
        np.testing.assert_array_equal(a, b)
    assert sf.equal(given, sf.convert(batch, sf.Padded))


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
def test_flatten_and_unflatten(ops, lengths):
    batch = sequences(lengths)
    flat = sf.convert(batch, sf.Ragged)
    np.testing.assert_array_equal(flat.data, ops.flatten(batch))
    for a, b in zip(sf.convert(flat, sf.List).items, ops.unflatten(flat.data, flat.lengths), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
@pytest.mark.parametrize("multiple", [1, 4])
def test_pad_and_unpad(ops, lengths, multiple):
    batch = sequences(lengths)
    mine = sf.convert(batch, sf.Masked, multiple_of=multiple)
    np.testing.assert_array_equal(mine.data, ops.pad(batch, round_to=multiple))
    for a, b in zip(sf.convert(mine, sf.List).items, ops.unpad(mine.data, list(lengths)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
def test_sums_and_means_and_their_gradients(ops, lengths):
    x = sf.convert(sequences(lengths), sf.Ragged)
    short = x.lengths.astype(np.int32)
    for mine, theirs, back in (
        (sf.reduce_sum, ops.reduce_sum, ops.backprop_reduce_sum),
        (sf.reduce_mean, ops.reduce_mean, ops.backprop_reduce_mean),
    ):
        y, pullback = sf.vjp(mine, x)
        np.testing.assert_allclose(y, theirs(x.data, short), rtol=1e-5)
        np.testing.assert_allclose(pullback(y).data, back(y, short), rtol=1e-5)


def test_the_source_text_s_examples_of_the_thinc_layers(ops):
    batch = [ops.alloc2f(7, 5) + 1, ops.alloc2f(2, 5) + 2, ops.alloc2f(4, 5) + 3]
    ragged = api.list2ragged().predict(batch)
    mine = sf.Ragged(ragged.dataXd, ragged.lengths)
    assert sf.equal(mine, sf.convert(batch, sf.Ragged))
    padded = api.list2padded().predict(batch)
    assert sf.equal(
        sf.Padded(padded.data, padded.size_at_t, padded.lengths, padded.indices), sf.convert(batch, sf.Padded)
    )


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
def test_maxima_and_ends_and_their_gradients(ops, lengths):
    x = sf.convert(sequences(lengths), sf.Ragged)
    short = x.lengths.astype(np.int32)
    for mine, theirs, back in (
        (sf.reduce_max, ops.reduce_max, ops.backprop_reduce_max),
        (sf.reduce_first, ops.reduce_first, ops.backprop_reduce_first),
        (sf.reduce_last, ops.reduce_last, ops.backprop_reduce_last),
    ):
        y, pullback = sf.vjp(mine, x)
        their_y, memory = theirs(x.data, short)
        np.testing.assert_array_equal(y, their_y)
        given = (y, memory, short) if mine is sf.reduce_max else (y, memory)
        np.testing.assert_array_equal(pullback(y).data, back(*given))
    np.testing.assert_array_equal(sf.argmax(x), ops.reduce_max(x.data, short)[1])


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
@pytest.mark.parametrize("near", [0, 1, 2])
def test_window_is_seq2col(ops, lengths, near):
    x = sf.convert(sequences(lengths), sf.Ragged)
    short = x.lengths.astype(np.int32)
    y, pullback = sf.vjp(sf.window, x, near, near)
    np.testing.assert_array_equal(y.data, ops.seq2col(x.data, near, lengths=short))
    np.testing.assert_allclose(pullback(y).data, ops.backprop_seq2col(y.data, near, lengths=short), rtol=1e-5)


@pytest.mark.parametrize("lengths", LENGTHS, ids=len)
def test_softmax_is_softmax_sequences_where_that_does_not_clip(ops, lengths):
    x = sf.convert(sequences(lengths), sf.Ragged)
    theirs = ops.softmax_sequences(x.data, x.lengths.astype(np.int32))
    np.testing.assert_allclose(sf.softmax(x).data, theirs, rtol=1e-5)
