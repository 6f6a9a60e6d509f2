"""The loss of labels and its gradient, against all paths and against plain Python."""

import importlib
import itertools
import math

import numpy as np
import oracle
import pytest
from ctc_oracle import all_labels, loss_of_label
from hypothesis import given
from hypothesis import strategies as st
from test_ctc_align import batches
from test_ctc_greedy import FLOATS, laid_out
from test_ctc_search import frames_in, logs_of

import seqformats as sf
from seqformats.ctc import loss as loss_module

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
REDUCTIONS = ["none", "sum", "mean"]
compiled = pytest.mark.passes("compiled", reason="long sequences take Python too long")


def wanted_of(x, labels, blank, options):
    """The losses of all labels, of lists of them for each sequence, and the gradient of each in the frames."""
    many = max(sum(map(len, labels)), 1)
    losses, slopes = [], []
    for frames, own in zip(frames_in(x), labels, strict=True):
        for label in own:
            loss, slope = loss_of_label(frames, label, blank, not options["normalised"])
            share = 1 / max(len(label), 1) / many if options["reduction"] == "mean" else 1.0
            losses.append(0.0 if options["zero_infinity"] and loss == math.inf else loss * share)
            slopes.append(np.reshape(slope, (len(frames), x.data.shape[1])) * share)
    return np.array(losses), slopes


def total_of(x, labels, slopes, dy):
    """The gradient of all frames."""
    found, one = np.zeros(x.data.shape), iter(zip(slopes, dy, strict=True))
    for begin, end, own in zip(sf.cu_seqlens(x)[:-1], sf.cu_seqlens(x)[1:], labels, strict=True):
        for _ in own:
            slope, factor = next(one)
            found[begin:end] += slope * factor
    return found


def nested(labels):
    """Several labels of each sequence, where lists might not say how deep they are."""
    each = [label for own in labels for label in own]
    tokens = np.array([token for label in each for token in label], np.int64)
    return sf.LoD.from_lengths(tokens, [[len(own) for own in labels], [len(label) for label in each]])


@every_encoding
@given(data=st.data())
def test_against_plain_python(arrays, kind, data):
    x, labels, blank = data.draw(batches(arrays.of(FLOATS)))
    several = kind is not sf.LoD and data.draw(st.booleans())
    options = {
        "normalised": data.draw(st.booleans()),
        "reduction": data.draw(st.sampled_from(REDUCTIONS)),
        "zero_infinity": data.draw(st.booleans()),
    }
    own = [[label] for label in labels]
    if several:
        own = [[label, labels[0], label[:1]][: data.draw(st.integers(0, 3))] for label in labels]
    losses, slopes = wanted_of(x, own, blank, options)
    y, given_labels = laid_out(data.draw, x, kind), nested(own) if several else labels
    wide = x.data.dtype.itemsize == 8
    near = {"rtol": 1e-9, "atol": 1e-9} if wide else {"rtol": 3e-5, "atol": 3e-5}
    whole = options["reduction"] != "none"
    wanted = losses.sum() if whole else losses
    loss = arrays.on(lambda y: sf.ctc_loss(y, given_labels, blank=blank, **options))
    found = loss(y)
    assert found.shape == wanted.shape
    assert found.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(found, wanted, **near)
    again, back = arrays.vjp(sf.ctc_loss, y, given_labels, blank=blank, **options)
    np.testing.assert_allclose(again, wanted, **near)
    dy = np.asarray(np.random.default_rng(0).choice([1.0, -0.5, 2.0], wanted.shape), found.dtype)
    grad = total_of(x, own, slopes, np.full(losses.shape, dy) if whole else dy)
    half = x.data.dtype.itemsize == 2
    for _ in range(2):  # once more after the caller has had the first
        dx = back(dy)
        assert type(dx) is type(y)
        found = sf.convert(dx, sf.Ragged).data
        assert found.dtype == x.data.dtype.newbyteorder("=")
        np.testing.assert_allclose(
            found.astype(np.float64), grad, **({"rtol": 1e-2, "atol": 1e-2} if half else near | {"rtol": 1e-4})
        )


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("seed", range(4))
def test_against_all_paths(seed, blank):
    """Every label of some frames, and some that no path has; numbers beside the gradient."""
    x = logs_of(np.random.default_rng(seed), 5, 3, 2.0)
    totals, _ = all_labels(x.tolist(), blank)
    every = itertools.chain(*(itertools.product(range(3), repeat=k) for k in range(6)))
    labels = [[list(label) for label in every if blank not in label]]
    losses = sf.ctc_loss([x], labels, blank=blank, reduction="none")
    np.testing.assert_allclose(losses, [-totals.get(tuple(label), -math.inf) for label in labels[0]])
    assert math.isclose(np.exp(-losses).sum(), 1)
    for label, normalised in itertools.product([[], [1, 1], labels[0][9]], [True, False]):
        _, back = sf.vjp(sf.ctc_loss, [x], [label], blank=blank, normalised=normalised, reduction="sum")
        (slope,) = back(np.array(1.0))
        small = 1e-6
        for t, c in itertools.product(range(5), range(3)):
            two = []
            for step in (-small, small):
                moved = x.copy()
                moved[t, c] += step
                two.append(sf.ctc_loss([moved], [label], blank=blank, normalised=normalised, reduction="sum"))
            assert math.isclose(slope[t, c], (two[1] - two[0]) / (2 * small), abs_tol=1e-6)


SURE = [(300, 40, 25.0), (300, 0, 40.0), (1000, 130, 12.0)]


@compiled
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize(("length", "count", "peak"), SURE)
def test_models_that_are_sure(length, count, peak, normalised, dtype):
    """Probabilities of labels that they find absurd are below all that float64 holds."""
    rng = np.random.default_rng(length + count)
    x = logs_of(rng, length, 9, peak).astype(dtype)
    x[rng.random(x.shape) < 0.001] = -np.inf if length == 300 else -1e4
    own = [[rng.integers(1, 9, count).tolist(), rng.integers(1, 3, count // 2).tolist()]]
    y, options = sf.Ragged(x, [length]), {"normalised": normalised, "reduction": "none", "zero_infinity": False}
    losses, slopes = wanted_of(y, own, 0, options)
    found = sf.ctc_loss(y, own, **options)
    np.testing.assert_allclose(found, losses, 1e-5 if dtype == "f4" else 1e-10)
    again, back = sf.vjp(sf.ctc_loss, y, own, **options | {"reduction": "sum"})
    np.testing.assert_allclose(again, losses.sum(), 1e-5 if dtype == "f4" else 1e-10)
    near = {"rtol": 1e-2, "atol": 1e-3} if dtype == "f4" else {"rtol": 1e-6, "atol": 1e-8}
    np.testing.assert_allclose(back(np.array(1.0, dtype)).data, slopes[0] + slopes[1], **near)


@compiled
def test_long_sequences():
    rng = np.random.default_rng(0)
    x = sf.Ragged(logs_of(rng, 10_000, 4, 1.0), [10_000])
    label = rng.integers(1, 4, 60).tolist()
    loss, slope = loss_of_label(x.data.tolist(), label, 0)
    found, back = sf.vjp(sf.ctc_loss, x, [label], reduction="sum")
    np.testing.assert_allclose(found, loss, 1e-12)
    np.testing.assert_allclose(back(np.array(1.0)).data, slope, 1e-6, 1e-9)


@pytest.mark.passes("interpreted", reason="it looks into the kernel")
@pytest.mark.parametrize("far", [1, 1e4, 1e60])
def test_sums_with_exponents(far, monkeypatch):
    """They alone are right, for several labels of a sequence, numbers far from each other and -inf among them."""
    page = importlib.import_module("seqformats.kernels.ctc_losses")
    monkeypatch.setattr(page, "by_powers", lambda *_: (-math.inf, False))
    rng = np.random.default_rng(3)
    x = sf.Ragged(np.concatenate([rng.normal(size=(60, 4)), np.zeros((90, 4)), rng.normal(size=(9, 4))]), [60, 90, 9])
    x.data[:150][rng.random((150, 4)) < 0.1] *= far
    x.data[:150, 1:][rng.random((150, 3)) < 0.1] = -np.inf
    x.data[150:] *= far
    labels = [[[1, 2, 2, 3]], [[1, 3, 1], [], [2] * 9], [[1, 1, 1, 1], []]]
    for normalised in (False, True):
        options = {"normalised": normalised, "reduction": "sum", "zero_infinity": False}
        found, back = sf.vjp(sf.ctc_loss, x, labels, **options)
        slope = back(np.array(1.0)).data
        assert np.isfinite(found)
        assert np.isfinite(slope).all()
        if far < 1e60:  # where logarithms still tell probabilities apart
            losses, slopes = wanted_of(x, labels, 0, options)
            np.testing.assert_allclose([found, sf.ctc_loss(x, labels, **options)], losses.sum(), 1e-12)
            np.testing.assert_allclose(
                slope, np.concatenate([slopes[0], sum(slopes[1:4]), sum(slopes[4:])]), 1e-8, 1e-8
            )


@compiled
@pytest.mark.parametrize("deviation", [1.0, 3.0, 30.0, 1e30])
def test_frames_that_tell_nothing(deviation):
    """A long label is a small part of all that goes over frames of noise."""
    rng = np.random.default_rng(2)
    x = sf.Ragged(rng.normal(size=(2_500, 8)).astype("f4") * np.float32(deviation), [2_000, 500])
    labels = [rng.integers(1, 8, 100).tolist(), [1]]
    options = {"normalised": False, "reduction": "sum", "zero_infinity": False}
    losses, slopes = wanted_of(x, [labels[:1], labels[1:]], 0, options)
    found, back = sf.vjp(sf.ctc_loss, x, labels, **options)
    np.testing.assert_allclose([found, sf.ctc_loss(x, labels, **options)], losses.sum(), 1e-6)
    slope = back(np.array(1.0, "f4")).data
    assert np.isfinite(slope).all()
    if deviation < 1e30:
        np.testing.assert_allclose(slope, np.concatenate(slopes), 1e-3, 1e-5)


@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.passes("compiled", reason="kernels that are interpreted run in one thread")
@every_encoding
def test_a_sequence_depends_on_itself_alone(kind, monkeypatch):
    """Bit for bit: not on threads, on its neighbours, among them NaN, and on its encoding."""
    monkeypatch.setattr(loss_module, "MIN_CELLS_FOR_THREADS", 1)
    rng = np.random.default_rng(5)
    lengths = [4, 0, 9, 1, 70, 7, 30, 2] * 3
    x = sf.Ragged(logs_of(rng, sum(lengths), 40, 2.0).astype("f4"), lengths)
    labels = [rng.integers(1, 40, length // 2).tolist() for length in lengths]
    for normalised in (True, False):
        options = {"normalised": normalised, "reduction": "none"}
        y = sf.Ragged(x.data.copy(), lengths)
        y.data[5] = np.nan
        losses, back = sf.vjp(sf.ctc_loss, sf.convert(y, kind), labels, **options)
        slopes = sf.convert(back(np.ones_like(losses)), sf.List).items
        for i, (frames, label) in enumerate(zip(sf.convert(y, sf.List).items, labels, strict=True)):
            loss, back = sf.vjp(sf.ctc_loss, [frames], [label], **options)
            np.testing.assert_array_equal(losses[i : i + 1], loss)
            np.testing.assert_array_equal(slopes[i], back(np.ones_like(loss))[0])
            assert np.isnan(loss[0]) == (i == 2)


@pytest.mark.parametrize("counts", [[0, 0], [0, 3], [7, 1], [1, 64], [40, 3]])
def test_many_targets_and_few(arrays, counts):
    """More and fewer than threads of a block share, the same token again and again, and too few frames for some."""
    rng = np.random.default_rng(sum(counts))
    x = sf.Ragged(logs_of(rng, 75, 5, 2.0).astype("f4"), [70, 5])
    options = {"normalised": False, "reduction": "sum", "zero_infinity": True}
    for labels in ([rng.integers(1, 5, c).tolist() for c in counts], [[1] * (c // 2) for c in counts]):
        losses, slopes = wanted_of(x, [[label] for label in labels], 0, options)
        found, back = arrays.vjp(sf.ctc_loss, x, labels, **options)
        np.testing.assert_allclose(found, losses.sum(), 1e-5)
        np.testing.assert_allclose(back(np.array(2.0, "f4")).data, 2 * np.concatenate(slopes), 1e-4, 1e-5)


X = sf.Ragged(np.log(np.full((5, 3), 1 / 3)), [3, 2])


def test_labels_as_they_come():
    one = sf.ctc_loss(X, [[1, 2], [1]], reduction="none")
    tokens = sf.Ragged(np.array([1, 2, 1], "i4"), [2, 1])
    block = sf.ctc_loss(sf.Ragged(X.data, [3, 2]), np.array([[1], [2]]), reduction="none")
    assert np.array_equal(block, sf.ctc_loss(X, [[1], [2]], reduction="none"))
    for kind in (*oracle.ENCODINGS, list):
        labels = sf.convert(tokens, kind) if kind is not sf.LoD else tokens
        assert np.array_equal(sf.ctc_loss(X, labels, reduction="none"), one)
        frames = sf.nest(X, [1, 1]) if kind is sf.LoD else sf.convert(X, kind if kind is not list else sf.List)
        assert np.array_equal(sf.ctc_loss(frames, [[1, 2], [1]], reduction="none"), one)
    deep = sf.nest(X, [1, 1])
    for labels in ([[[1, 2]], [[1]]], sf.nest(tokens, [1, 1])):
        assert np.array_equal(sf.ctc_loss(deep, labels, reduction="none"), one)
    assert sf.ctc_loss(deep, [[[[1], [2]]], [[]]], reduction="none").shape == (2,)
    assert sf.ctc_loss(X, [np.array([1, 2]), (1,)]) == sf.ctc_loss(X, tokens)
    assert sf.ctc_loss(X, [[[]], []], reduction="none").tolist() == [-math.log(1 / 27)]
    empty = sf.Ragged(np.zeros((0, 3)), [])
    assert sf.ctc_loss(empty, []) == 0
    assert sf.ctc_loss(empty, [], reduction="none").shape == (0,)
    none = sf.ctc_loss(sf.Ragged(np.zeros((0, 3)), [0, 0]), [[], [1]], reduction="none")
    assert [str(loss) for loss in none.tolist()] == ["0.0", "inf"]


@pytest.mark.parametrize(
    ("x", "labels", "options", "error", "words"),
    [
        (X, [[1, 0], [1]], {}, sf.StructureError, "token 1 of label 0 is 0, which is the blank"),
        (X, [[1], [2, 3]], {}, sf.StructureError, "token 1 of label 1 is 3, but there are the tokens 0 to 2"),
        (X, [[[1], [2]], [[1], [-1]]], {}, sf.StructureError, "token 0 of label 3 is -1, but"),
        (X, [[1]], {}, sf.StructureError, "labels for 1 sequences, but 2 sequences of frames"),
        (X, [[[1]], [[1]], [[1]]], {}, sf.StructureError, "labels for 3 sequences"),
        (X, [[[[1]]], [[1]]], {}, sf.StructureError, "labels are in 3 lists or more"),
        (X, [[[1], 2], [[1]]], {}, TypeError, "integers"),
        (X, [[[1]], np.array([1])], {}, TypeError, "same depth"),
        (X, sf.nest(sf.nest(sf.Ragged(np.ones(2, int), [1, 1]), [1, 1]), [1, 1]), {}, sf.StructureError, "3 levels"),
        (X, [[1.5], [1]], {}, TypeError, "integers"),
        (X, sf.Ragged(np.ones(2), [1, 1]), {}, TypeError, "labels must be integers, not float64"),
        (X, sf.Ragged(np.ones((2, 2), int), [1, 1]), {}, sf.StructureError, "labels must have one axis"),
        (X, "ab", {}, TypeError, "str"),
        (X, None, {}, TypeError, "NoneType|None"),
        (sf.Ragged(np.ones((5, 3), int), [3, 2]), [[1], [1]], {}, TypeError, "log_probs must be floats"),
        (sf.Ragged(np.ones(5), [3, 2]), [[1], [1]], {}, sf.StructureError, "items of one axis"),
        (X, [[1], [1]], {"blank": 3}, sf.StructureError, "blank is 3"),
        (X, [[1], [1]], {"blank": -1}, sf.StructureError, "blank is -1"),
        (X, [[1], [1]], {"reduction": "average"}, sf.ConversionError, "reduction must be one of 'none', 'sum', 'mean'"),
        (X, [[1], [1]], {"normalised": 1}, TypeError, "normalised must be True or False"),
        (X, [[1], [1]], {"zero_infinity": None}, TypeError, "zero_infinity"),
        (sf.Pairs(X, X), [[1], [1]], {}, TypeError, "Pairs"),
        (3, [[1]], {}, TypeError, "int"),
    ],
)
def test_what_does_not_fit(x, labels, options, error, words):
    for call in (sf.ctc_loss, lambda *args, **options: sf.vjp(sf.ctc_loss, *args, **options)):
        with pytest.raises(error, match=words):
            call(x, labels, **options)


def test_lists_that_contain_themselves():
    loop = []
    loop.append(loop)
    with pytest.raises(sf.StructureError):
        sf.ctc_loss(X, loop)
