"""`SequenceOps` beside Thinc's `NumpyOps`, method by method, and what sets it."""

import inspect
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytestmark = [pytest.mark.peers, pytest.mark.bridges]
api = pytest.importorskip("thinc.api")

from thinc.types import Padded  # noqa: E402

import seqformats as sf  # noqa: E402

THEIRS = api.NumpyOps()
MINE = sf.thinc.SequenceOps()
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@st.composite
def batches(draw, least=0):
    """Rows, and lengths in Thinc's int32."""
    lengths = draw(st.lists(st.integers(least, 5), max_size=6))
    width, dtype = draw(st.integers(1, 3)), draw(st.sampled_from(["f4", "f8"]))
    values = st.floats(-4, 4, width=32)
    return draw(arrays(dtype, (sum(lengths), width), elements=values)), np.array(lengths, "i")


def alike(mine, theirs):
    """Equal results, of the same types and dtypes."""
    if isinstance(theirs, (list, tuple)):
        assert type(mine) is type(theirs)
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            alike(a, b)
        return
    assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(mine, theirs, **CLOSE)


@given(batches())
def test_sums_and_means(batch):
    X, lengths = batch
    for name in ("reduce_sum", "reduce_mean"):
        if not len(X):  # there Thinc's memory ends
            continue
        y = getattr(THEIRS, name)(X, lengths)
        alike(getattr(MINE, name)(X, lengths), y)
        back = f"backprop_{name}"
        alike(getattr(MINE, back)(y, lengths), getattr(THEIRS, back)(y, lengths))


@given(batches(least=1))
def test_maxima_and_ends(batch):
    X, lengths = batch
    alike(MINE.reduce_max(X, lengths), THEIRS.reduce_max(X, lengths))
    y, which = MINE.reduce_max(X, lengths)
    alike(MINE.backprop_reduce_max(y, which, lengths), THEIRS.backprop_reduce_max(y, which, lengths))
    for name in ("reduce_first", "reduce_last"):
        (y, memory), (z, other) = (getattr(ops, name)(X, lengths) for ops in (MINE, THEIRS))
        alike(memory, other)
        np.testing.assert_array_equal(y, z)
        alike(getattr(MINE, f"backprop_{name}")(y, memory), getattr(THEIRS, f"backprop_{name}")(y, memory))


@given(batches(), st.integers(0, 2))
def test_windows_and_softmax(batch, near):
    X, lengths = batch
    y = THEIRS.seq2col(X, near, lengths=lengths)
    alike(MINE.seq2col(X, near, lengths=lengths), y)
    alike(MINE.backprop_seq2col(y, near, lengths=lengths), THEIRS.backprop_seq2col(y, near, lengths=lengths))
    alike(MINE.seq2col(X, near), THEIRS.seq2col(X, near))
    if len(X):
        y = THEIRS.softmax_sequences(10 * X, lengths)
        alike(MINE.softmax_sequences(10 * X, lengths), y)
        alike(MINE.backprop_softmax_sequences(X, y, lengths), THEIRS.backprop_softmax_sequences(X, y, lengths))


@given(batches(), st.integers(0, 2))
def test_lists(batch, pad):
    X, lengths = batch
    xs = THEIRS.unflatten(X, lengths)
    alike(MINE.unflatten(X, lengths), xs)
    flat = THEIRS.flatten(xs, pad=pad)
    alike(MINE.flatten(xs, pad=pad), flat)
    alike(MINE.flatten(xs, dtype="f8", ndim_if_empty=3), THEIRS.flatten(xs, dtype="f8", ndim_if_empty=3))
    if len(X):
        alike(MINE.unflatten(flat, lengths, pad=pad), THEIRS.unflatten(flat, lengths, pad=pad))
    if not xs:
        return
    for multiple in (1, 3):
        alike(MINE.pad(xs, multiple), THEIRS.pad(xs, multiple))
    mine, theirs = MINE.list2padded(xs), THEIRS.list2padded(xs)
    for name in ("data", "size_at_t", "lengths", "indices"):
        assert getattr(mine, name).shape == getattr(theirs, name).shape
        assert getattr(mine, name).dtype == getattr(theirs, name).dtype
    assert mine.lengths.tolist() == theirs.lengths.tolist()
    assert mine.size_at_t.tolist() == theirs.size_at_t.tolist()
    for padded in (mine, theirs):
        for ops in (MINE, THEIRS):
            alike(ops.padded2list(padded), xs)


def test_arguments_are_thincs():
    for name, method in vars(sf.thinc.SequenceOps).items():
        if callable(method):
            assert inspect.signature(method) == inspect.signature(getattr(api.Ops, name)), name


def test_what_thinc_refuses_or_reads_beyond():
    X = np.arange(12, dtype="f").reshape(6, 2)
    frozen = X.copy()
    frozen.flags.writeable = False
    lengths = sf.lengths(sf.Ragged(X, [2, 4]))  # int64, read-only
    np.testing.assert_array_equal(MINE.reduce_sum(frozen, lengths), [[2, 4], [28, 32]])
    np.testing.assert_array_equal(MINE.reduce_sum(X[:, ::-1], [2, 4]), [[4, 2], [32, 28]])
    assert MINE.reduce_sum(np.zeros((0, 3), "f"), np.array([0, 0], "i")).tolist() == [[0, 0, 0]] * 2
    with pytest.raises(ValueError, match="the gradient has shape"):
        MINE.backprop_reduce_sum(X, np.array([2, 4], "i"))
    with pytest.raises(IndexError):
        MINE.backprop_reduce_max(X[:2], np.array([[0, -1], [0, 0]]), np.array([2, 4], "i"))
    with pytest.raises(IndexError, match="must sum up"):
        MINE.unflatten(X, [4, 4])
    with pytest.raises(ValueError, match="must divide"):
        MINE.backprop_seq2col(X, 1)
    for wrong in ([2, 3], [2, 5]):
        with pytest.raises(IndexError, match="must sum up"):
            MINE.seq2col(X, 1, lengths=np.array(wrong, "i"))
    odd = Padded(np.zeros((2, 1, 3), "f"), np.array([9, 9]), np.array([2]), np.array([0]))
    assert [x.shape for x in MINE.padded2list(odd)] == [(2, 3)]  # what is let pass there is let pass


def test_use():
    before = api.get_current_ops()
    with sf.thinc.use():
        assert type(api.get_current_ops()) is sf.thinc.SequenceOps
        inside = api.with_padded(api.LSTM(3, 4))
        found = []
        thread = threading.Thread(target=lambda: found.append(type(api.get_current_ops())))
        thread.start()
        thread.join()
    assert api.get_current_ops() is before
    assert found[0] is not sf.thinc.SequenceOps  # a context of its own
    assert type(inside.ops) is type(inside.layers[0].ops) is sf.thinc.SequenceOps
    xs = [np.ones((2, 4), "f"), np.ones((3, 4), "f")]
    inside.initialize()
    assert [y.shape for y in inside.predict(xs)] == [(2, 3), (3, 3)]
    try:
        sf.thinc.use()
        assert api.get_current_ops().name == "seqformats"
    finally:
        api.set_current_ops(before)
    assert type(api.get_ops("seqformats")) is sf.thinc.SequenceOps
    with pytest.raises(RuntimeError), sf.thinc.use():
        raise RuntimeError
    assert api.get_current_ops() is before
