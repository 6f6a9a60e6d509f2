"""The cross entropy of scores and classes against plain Python, finite differences and PyTorch."""

import functools
import itertools
import math

import masking_oracle
import numpy as np
import oracle
import pytest
import strategies
from checks import assert_padding_is_zero, assert_slopes, rows, with_rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
REDUCTIONS = ["none", "sequence", "mean", "sum"]
SHAPES = [(1,), (3,), (17,)]
HALF = [np.dtype("f2"), strategies.BFLOAT16]
ORDERED = [dtype for dtype in strategies.DTYPES if dtype.kind in "bfiu" or dtype in HALF]
# Numbers in the simulator, and Python's, warn of what has no end, where compiled code goes on.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def drawn_targets(draw, truth, ignore):
    """Classes for the items of a truth, some of them ignored: an array, and the same laid out in any way."""
    lengths, classes = truth.lengths(), truth.item_shape[0]
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    values = rng.integers(0, classes, sum(lengths))
    if ignore is not None:
        values = np.where(rng.integers(0, 3, values.size) == 0, ignore, values)
    name = draw(st.sampled_from(["i8", "i4", "u1", "u8"] if ignore is None or ignore >= 0 else ["i8", "i2"]))
    flat = values.astype(name)
    way = draw(st.sampled_from(["array", sf.Ragged, sf.Masked, sf.Padded, sf.Packed, sf.List]))
    return values, flat if way == "array" else sf.convert(sf.Ragged(flat, lengths), way)


def losses_of(truth, values, ignore, smoothing):
    """The loss of every item, None where it has none."""
    scores = truth.data().astype(float).tolist()
    return [
        None if target == ignore else masking_oracle.cross_entropy(x, target, smoothing)
        for x, target in zip(scores, values.tolist(), strict=True)
    ]


def mean(losses, weights):
    """Of those that are there; 0 where there is none."""
    counted = [(loss, weight) for loss, weight in zip(losses, weights, strict=True) if loss is not None]
    total = math.fsum(weight for _, weight in counted)
    return math.fsum(loss * weight for loss, weight in counted) / total if total else 0.0


def reduced(truth, losses, reduction, weights):
    """The truth of a reduction of losses, as an array."""
    weights = [1.0] * len(losses) if weights is None else weights.tolist()
    if reduction == "mean":
        return np.array(mean(losses, weights))
    if reduction in ("none", "sum"):
        each = [0.0 if loss is None else loss * weight for loss, weight in zip(losses, weights, strict=True)]
        return np.array(each if reduction == "none" else sum(each))
    ends = oracle.offsets_of(truth.lengths())
    return np.array([mean(losses[a:b], weights[a:b]) for a, b in itertools.pairwise(ends)])


def drawn_weights(draw, truth):
    """None, a float an item, or a mask or counts, and the same laid out in any way."""
    rng, rows = np.random.default_rng(draw(st.integers(0, 9))), truth.rows()
    kind = draw(st.sampled_from([None, "f4", "f8", "?", "i4"]))
    if kind is None:
        return None, None
    flat = rng.uniform(0.5, 2, rows).astype(kind) if kind[0] == "f" else rng.integers(0, 3, rows).astype(kind)
    way = draw(st.sampled_from([None, sf.Ragged, sf.Masked, sf.Padded, sf.Packed]))
    return flat, flat if way is None else sf.convert(sf.Ragged(flat, truth.lengths()), way)


def numbers_of(y):
    """All numbers of a result, in their order."""
    if isinstance(y, (list, tuple)) and not any(isinstance(part, np.ndarray) for part in y):
        return np.array([number for part in y for number in numbers_of(part)]) if y else np.zeros(0)
    return rows(y) if not isinstance(y, (np.ndarray, float)) else np.asarray(y).reshape(-1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@every_format
@given(data=st.data())
def test_cross_entropy(arrays, kind, reduction, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(ORDERED), shapes=SHAPES))
    ignore = data.draw(st.sampled_from([None, -100, 0]))
    smoothing = data.draw(st.sampled_from([0.0, 0.1, 1.0]))
    if len(truth.item_shape) != 1:  # of lists without items
        return
    values, targets = drawn_targets(data.draw, truth, ignore)
    weights, beside = drawn_weights(data.draw, truth)
    options = {"ignore": ignore, "label_smoothing": smoothing, "reduction": reduction, "weights": beside}
    losses = losses_of(truth, values, ignore, smoothing)
    if weights is not None and weights.dtype.kind != "f":
        losses = [loss if weight else None for loss, weight in zip(losses, weights.tolist(), strict=True)]
    wanted = reduced(truth, losses, reduction, weights)
    found = arrays.on(lambda x, y: sf.cross_entropy(x, y[0], **options))(x, [targets])
    if reduction == "none":
        dtype = truth.dtype.newbyteorder("=") if truth.dtype.kind == "f" or truth.dtype in HALF else np.dtype("f8")
        assert oracle.read(found).counts() == truth.counts()
        assert oracle.read(found).dtype == dtype or kind is list
        assert_padding_is_zero(found)
    close = {1: 3e-2, 2: 4e-3}.get(truth.dtype.itemsize, 2e-6) if truth.dtype in HALF else 2e-6
    close = 2e-2 if truth.dtype == strategies.BFLOAT16 else close
    with np.errstate(all="ignore"):
        size = np.abs(truth.data().astype(float))
    size = np.max(size[np.isfinite(size)], initial=1.0)
    got = numbers_of(found).astype(float)
    if truth.dtype in HALF or size > 1e30:  # what goes beyond the dtype
        finite = np.isfinite(wanted.reshape(-1)) & np.isfinite(got)
        got, wanted = got[finite], wanted.reshape(-1)[finite]
    many = truth.rows() if reduction == "sum" else 1
    np.testing.assert_allclose(got, wanted.reshape(-1), rtol=close, atol=close * size * max(many, 1))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@every_encoding
@given(data=st.data())
def test_its_gradient(arrays, kind, reduction, smoothing, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=[np.dtype("f8")], shapes=SHAPES))
    x = with_rows(x, np.random.default_rng(0).normal(size=truth.data().shape))
    _, targets = drawn_targets(data.draw, truth, -100)
    if isinstance(targets, np.ndarray):  # which would stay on the host
        targets = sf.Ragged(targets, truth.lengths())
    options = {"ignore": -100, "label_smoothing": smoothing, "reduction": reduction}
    assert_slopes(lambda z: arrays.vjp(sf.cross_entropy, z, targets, **options), [x], step=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Masked], ids=oracle.format_name)
def test_gradients_of_scores_and_weights(arrays, kind, reduction):
    rng = np.random.default_rng(1)
    x = sf.convert(sf.Ragged(rng.normal(size=(5, 3)), [2, 0, 3]), kind)
    weights, targets = sf.Ragged(rng.uniform(0.5, 2, 5), [2, 0, 3]), sf.Ragged(np.array([0, 2, -1, 1, 1]), [2, 0, 3])
    options = {"ignore": -1, "label_smoothing": 0.2, "reduction": reduction}

    def call(z, w):
        z, t, w = map(arrays.up, (z, targets, w))
        y, pullback = sf.vjp(sf.cross_entropy, z, t, weights=w, **options)
        return arrays.down(y), lambda dy: tuple([arrays.down(part) for part in pullback(arrays.up(dy))])

    assert_slopes(call, [x, weights], step=1e-5)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_mask_leaves_items_out(arrays, reduction):
    """Whatever their scores and targets are; it has no gradient."""
    x, targets = batch(dtype="f8")
    mask = np.array([True, False, True, True, False])
    x.data[1], targets = np.nan, np.where(mask, targets, 77)
    kept = sf.filter(x, mask), targets[mask]
    for weights in (mask, mask.astype("i4"), sf.convert(sf.Ragged(mask, x.lengths), sf.Masked)):
        loss = functools.partial(sf.cross_entropy, weights=weights, reduction=reduction)
        y = numbers_of(arrays.on(lambda z, t, loss=loss: loss(z, t[0]))(x, [sf.Ragged(targets, x.lengths)]))
        wanted = numbers_of(sf.cross_entropy(*kept, reduction=reduction))
        np.testing.assert_allclose(y[mask] if reduction == "none" else y, wanted, rtol=1e-12)
        y, pullback = sf.vjp(sf.cross_entropy, x, targets, weights=weights, reduction=reduction)
        dx, none = pullback(y)
        assert none is None
        assert not dx.data[~mask].any()
        assert dx.data[mask].all()


def batch(lengths=(3, 0, 2), classes=4, dtype="f4"):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(sum(lengths), classes)).astype(dtype)
    return sf.Ragged(scores, list(lengths)), rng.integers(0, classes, sum(lengths))


def test_what_is_not_finite():
    inf, nan = math.inf, math.nan
    scores = [[0.0, -inf, 0.0], [0.0, -inf, 0.0], [nan, 0.0, 0.0], [inf, 0.0, 0.0], [-inf, -inf, -inf]]
    for dtype in ("f4", "f8"):
        x = sf.Ragged(np.array(scores, dtype), [5])
        found = sf.cross_entropy(x, np.array([0, 1, 1, 0, 0]), reduction="none").data
        np.testing.assert_allclose(found, np.array([math.log(2), inf, nan, nan, nan]), rtol=1e-6)
        y, pullback = sf.vjp(sf.cross_entropy, x, np.array([0, -1, 0, 0, 0]), ignore=-1, reduction="none")
        dx = pullback(np.ones(5, dtype)).data
        np.testing.assert_allclose(dx[0], [-0.5, 0, 0.5], rtol=1e-6)
        assert not dx[1].any()
        assert np.isnan(dx[2:]).all()
        assert y.data[1] == 0


def test_large_scores_keep_their_differences():
    x = sf.Ragged(np.array([[1e4, 1e4 + 1], [-1e4, -1e4 - 1]], "f4"), [2])
    found = sf.cross_entropy(x, np.array([0, 0]), reduction="none").data
    np.testing.assert_allclose(found, [math.log(1 + math.e), math.log(1 + 1 / math.e)], rtol=1e-6)


def test_many_classes_and_few(arrays):
    """Rows go other ways by their width; all agree with float64."""
    rng = np.random.default_rng(1)
    for classes in (1, 2, 15, 16, 17, 127, 128, 129, 1100) if arrays.first else (1, 130):
        x = sf.Ragged(rng.normal(size=(5, classes)).astype("f4"), [2, 3])
        targets = sf.Ragged(rng.integers(0, classes, 5), [2, 3])
        wide = sf.Ragged(x.data.astype("f8"), x.lengths)
        for smoothing in (0.0, 0.2):
            loss = arrays.on(functools.partial(sf.cross_entropy, label_smoothing=smoothing))
            np.testing.assert_allclose(loss(x, targets), loss(wide, targets), rtol=3e-6, atol=3e-6)


def test_a_batch_where_nothing_counts_has_no_loss():
    x, targets = batch()
    for reduction, zero in (("mean", 0.0), ("sequence", np.zeros(3))):
        y, pullback = sf.vjp(sf.cross_entropy, x, np.full_like(targets, -1), ignore=-1, reduction=reduction)
        assert np.array_equal(y, zero)
        assert not pullback(np.ones_like(y)).data.any()


def test_masked_tokens_are_what_it_takes():
    ids = sf.convert(sf.Ragged(np.arange(5, 30), [9, 0, 16]), sf.Masked)
    masked = sf.mask_tokens(ids, rate=0.5, mask_id=4, vocabulary=30, seed=1)
    scores = sf.Ragged(np.random.default_rng(0).normal(size=(25, 30)), [9, 0, 16])
    found = sf.cross_entropy(sf.convert(scores, sf.Packed), masked.labels, ignore=-100, reduction="none")
    assert np.array_equal(rows(found) != 0, rows(masked.chosen))


def test_levels_of_a_lod_are_left():
    x, targets = batch((2, 1, 3))
    y = sf.cross_entropy(sf.LoD(x.data, [[0, 2, 3], x.offsets]), targets)
    assert isinstance(y, sf.LoD)
    np.testing.assert_array_equal(y.data, sf.cross_entropy(x, targets))


@pytest.mark.parametrize(
    ("error", "match", "change"),
    [
        (IndexError, "item 1 of sequence 2 is 4, but there are 4 classes", {"targets": [0, 1, 2, 3, 4]}),
        (IndexError, "item 0 of sequence 0 is -100, .*; ignore=", {"targets": [-100, 1, 2, 3, 4]}),
        (IndexError, "item 2 of sequence 0 is -1", {"targets": [0, -2, -1, 3, 0], "ignore": -2}),
        (sf.StructureError, r"targets have shape \(4,\), but there are 5 items", {"targets": [0, 1, 2, 3]}),
        (sf.StructureError, r"targets have shape \(5, 1\)", {"targets": [[0], [1], [2], [3], [0]]}),
        (TypeError, "targets are integers", {"targets": [0.5, 1, 2, 3, 3]}),
        (sf.ConversionError, "reduction must be one of", {"reduction": "max"}),
        (sf.ConversionError, "label_smoothing must be from 0 to 1", {"label_smoothing": 1.5}),
        (TypeError, "label_smoothing must be a number", {"label_smoothing": "some"}),
        (TypeError, "ignore must be an integer", {"ignore": 0.5}),
        (TypeError, "ignore must be an integer", {"ignore": 0.5, "weights": np.ones(5)}),
        (sf.StructureError, r"weights have shape \(4,\), but there are 5 items", {"weights": np.ones(4)}),
        (sf.StructureError, r"weights have item shape \(4,\), but must have \(\) \[", {"weights": np.ones((5, 4))}),
        (TypeError, "weights have dtype complex128", {"weights": np.ones(5, complex)}),
        (sf.ConversionError, "reduction must be one of", {"reduction": "max", "weights": np.ones(5)}),
        (sf.ConversionError, "does not fit int64", {"ignore": 2**64}),
    ],
)
def test_losses_that_cannot_be(error, match, change):
    x, targets = batch()
    given_targets = np.array(change.pop("targets", targets))
    with pytest.raises(error, match=match):
        sf.cross_entropy(x, given_targets, **change)


def test_scores_that_cannot_be():
    with pytest.raises(sf.StructureError, match="items of one axis"):
        sf.cross_entropy(sf.Ragged(np.zeros(2), [2]), np.zeros(2, int))
    with pytest.raises(TypeError, match="no order"):
        sf.cross_entropy(sf.Ragged(np.zeros((2, 3), complex), [2]), np.zeros(2, int))
    with pytest.raises(sf.StructureError, match=r"targets have sequences of lengths \[1, 1\]"):
        sf.cross_entropy(sf.Ragged(np.zeros((2, 3)), [2]), [[0], [0]])
    with pytest.raises(IndexError, match="there are 0 classes"):
        sf.cross_entropy(sf.Ragged(np.zeros((2, 0)), [2]), np.zeros(2, int))
    with pytest.raises(TypeError, match="no gradient"):
        sf.vjp(sf.cross_entropy, sf.Ragged(np.zeros((2, 3), int), [2]), np.zeros(2, int))


@pytest.mark.peers
class TestBesideTorch:
    @pytest.mark.parametrize("smoothing", [0.0, 0.1])
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("classes", [1, 5, 300, 5000])
    def test_values_and_gradients(self, classes, reduction, smoothing):
        torch = pytest.importorskip("torch")
        torch.manual_seed(classes)
        lengths, ignore = [4, 0, 9, 1], -100
        targets = torch.randint(0, classes, (14,))
        targets[[3, 5]] = ignore
        scores = 5 * torch.randn(14, classes)
        mine, theirs = scores.clone().requires_grad_(), scores.double().requires_grad_()
        options = {"label_smoothing": smoothing, "reduction": reduction}
        wanted = torch.nn.functional.cross_entropy(theirs, targets, ignore_index=ignore, **options)
        x = sf.convert(sf.Ragged(mine, lengths), sf.Masked)
        found = sf.cross_entropy(x, targets, ignore=ignore, **options)
        found = found if reduction != "none" else sf.convert(found, sf.Ragged).data
        torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-5)
        slopes = torch.randn_like(wanted)
        wanted.backward(slopes)
        found.backward(slopes.float())
        torch.testing.assert_close(mine.grad, theirs.grad.float(), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("kind", [sf.List, sf.Masked, sf.Padded, sf.LoD], ids=oracle.format_name)
    @pytest.mark.parametrize("reduction", REDUCTIONS)
    def test_second_derivatives(self, kind, reduction):
        torch = pytest.importorskip("torch")
        targets = torch.tensor([1, 0, -100, 3, 2, 1])

        def loss(scores, weights=None):
            x = sf.convert(sf.Ragged(scores, [3, 0, 1, 2]), kind)
            y = sf.cross_entropy(x, targets, ignore=-100, label_smoothing=0.2, reduction=reduction, weights=weights)
            return y if isinstance(y, torch.Tensor) else sf.convert(y, sf.Ragged).data

        scores = torch.randn(6, 4, dtype=torch.float64)
        scores[2] = 1000.0  # of the item that is ignored, whose powers have no end
        scores.requires_grad_()
        weights = torch.rand(6, dtype=torch.float64, requires_grad=True)
        for inputs in ((scores,), (scores, weights)):
            assert torch.autograd.gradcheck(loss, inputs)
            assert torch.autograd.gradgradcheck(loss, inputs)

    def test_half_precision(self):
        torch = pytest.importorskip("torch")
        scores, targets = torch.randn(6, 50).bfloat16(), torch.randint(0, 50, (6,))
        found = sf.cross_entropy(sf.Ragged(scores, [4, 2]), targets, reduction="mean")
        assert found.dtype is torch.bfloat16
        torch.testing.assert_close(found, torch.nn.functional.cross_entropy(scores, targets), rtol=1e-2, atol=1e-2)
