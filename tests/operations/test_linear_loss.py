"""The cross entropy of a linear layer, beside that of its scores."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

WIDE, CLASSES = 4, 7


def drawn(rng, lengths, dtype, encoding):
    rows = sum(lengths)
    hidden = sf.convert(sf.Ragged(rng.normal(size=(rows, WIDE)).astype(dtype), lengths), encoding)
    weight, bias = rng.normal(size=(CLASSES, WIDE)).astype(dtype), rng.normal(size=CLASSES).astype(dtype)
    return hidden, weight, bias, rng.integers(-1, CLASSES, rows)


def over_scores(hidden, weight, bias, targets, **options):
    """The loss and the gradients of all three, over all scores at once."""
    rows = sf.convert(hidden, sf.Ragged)
    scores = sf.Ragged(rows.data @ weight.T + bias, rows.lengths)
    y, back = sf.vjp(sf.cross_entropy, scores, targets, ignore=-1, **options)

    def pullback(dy):
        found = back(dy)
        change, *others = found if isinstance(found, tuple) else [found]
        change = sf.convert(change, sf.Ragged).data
        return change @ weight, change.T @ rows.data, change.sum(0), *others

    return y, pullback


@given(
    seed=st.integers(0, 999),
    lengths=st.lists(st.integers(0, 5), max_size=5),
    encoding=st.sampled_from([sf.Ragged, sf.List, sf.Padded, sf.Packed, sf.Masked]),
    reduction=st.sampled_from(["mean", "sequence", "sum", "none"]),
    weighted=st.sampled_from([None, "f8", "?"]),
    dtype=st.sampled_from(["float32", "float64"]),
    smoothing=st.sampled_from([0.0, 0.1]),
    chunk=st.sampled_from([None, 1, 2, 5]),
)
def test_it_is_the_loss_of_the_scores(seed, lengths, encoding, reduction, weighted, dtype, smoothing, chunk):
    rng = np.random.default_rng(seed)
    hidden, weight, bias, targets = drawn(rng, lengths, dtype, encoding)
    options = {"label_smoothing": smoothing, "reduction": reduction}
    if weighted:
        options["weights"] = rng.integers(0, 3, sum(lengths)).astype(weighted)
    y, back = sf.vjp(sf.linear_cross_entropy, hidden, weight, targets, bias=bias, ignore=-1, chunk=chunk, **options)
    expected, way = over_scores(hidden, weight, bias, targets, **options)
    close = {"rtol": 0, "atol": 1e-5 if dtype == "float32" else 1e-12}
    if reduction == "none":
        assert type(y) is encoding
        slopes = rng.normal(size=sum(lengths)).astype(dtype)
        dy, flat = sf.convert(sf.Ragged(slopes, lengths), encoding), sf.Ragged(slopes, lengths)
        y, expected = (sf.convert(each, sf.Ragged).data for each in (y, expected))
    else:
        dy = flat = rng.normal(size=np.shape(y)).astype(dtype).reshape(np.shape(y))
    np.testing.assert_allclose(y, expected, **close)
    first, *others = back(dy)
    assert type(first) is encoding
    for got, right in zip([sf.convert(first, sf.Ragged).data, *others], way(flat), strict=True):
        assert (got is None) == (right is None)
        if got is not None:
            assert got.dtype == right.dtype
            np.testing.assert_allclose(got, right, **close)


@pytest.mark.passes("compiled", reason="interpreted it takes minutes, and memory is the same")
def test_scores_are_never_written_out():
    """Beside the gradient of the weight, less than a twentieth of the scores is in memory."""
    rng, rows, classes = np.random.default_rng(0), 1024, 16384
    hidden = sf.Ragged(rng.normal(size=(rows, 2)).astype("float32"), [rows // 4] * 4)
    weight = rng.normal(size=(classes, 2)).astype("float32")
    targets = rng.integers(0, classes, rows)
    tracemalloc.start()
    _, back = sf.vjp(sf.linear_cross_entropy, hidden, weight, targets, reduction="mean", chunk=16)
    back(np.array(1.0, "float32"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows * classes * 4 / 20


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"weight": np.zeros((CLASSES, 3))}, sf.StructureError, r"weight must have shape \(classes, 4\), not \(7, 3\)"),
        ({"weight": np.zeros(4)}, sf.StructureError, r"not \(4,\)"),
        ({"bias": np.zeros(3)}, sf.StructureError, r"bias must have shape \(7,\), not \(3,\)"),
        ({"weight": np.zeros((CLASSES, WIDE), "float32")}, sf.StructureError, "weight has dtype float32, but hidden"),
        ({"hidden": sf.Ragged(np.zeros(3), [2, 1])}, sf.StructureError, "items of one axis"),
        ({"targets": [[0, 7], [1]]}, IndexError, "the target of item 1 of sequence 0 is 7, but there are 7 classes"),
        ({"targets": [[0], [1]]}, sf.StructureError, "targets have sequences of lengths"),
        ({"targets": np.zeros(3)}, TypeError, "targets are integers"),
        ({"chunk": 0}, sf.ConversionError, "chunk"),
        ({"reduction": "max"}, sf.ConversionError, "reduction must be one of"),
        ({"label_smoothing": 2}, sf.ConversionError, "label_smoothing"),
        ({"hidden": np.zeros((3, 4))}, TypeError, "no single batch"),
    ],
)
def test_bad_calls(change, error, words):
    options = {
        "hidden": sf.Ragged(np.zeros((3, WIDE)), [2, 1]),
        "weight": np.zeros((CLASSES, WIDE)),
        "targets": [[0, 1], [2]],
    }
    with pytest.raises(error, match=words) as caught:
        sf.linear_cross_entropy(**{**options, **change})
    assert caught.value.code
