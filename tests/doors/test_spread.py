"""Doors that run one kernel over sequences, `calculate` and `spread`, beside the general ways behind them."""

import functools
import gc

import leaks
import numpy as np
import pytest
import strategies
from closed_doors import closed_doors
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats import core
from seqformats.doors import door as doors
from seqformats.formats import Encoding
from seqformats.formats.structure import Structure
from seqformats.gradients.operation import NO_PATH
from seqformats.launch import threads
from seqformats.operations import class_loss, distance, expand, masking, rearrange, reduce, softmax, spread, windows

pytestmark = [
    pytest.mark.skipif(core.extension is None, reason="the extension is not built here"),
    pytest.mark.passes("compiled", reason="doors are machine code"),
    pytest.mark.usefixtures("without_limits"),
]

REDUCTIONS = [record for record in reduce.REDUCTIONS.values() if record.path is not NO_PATH]
WITH_GRADIENT = [getattr(sf, f"reduce_{record.name}") for record in REDUCTIONS if record.pullback is not None]
ALWAYS_CLOSED = ("mode", "nunique")  # which their general way never opens
KINDS = ["Ragged", "right", "left", "Padded", "Packed", "LoD", "levels", "List"]


def encoded(data, lengths, kind):
    """A batch in one of `KINDS`."""
    x = sf.Ragged(data, lengths)
    if kind in ("right", "left"):
        return sf.convert(x, sf.Masked, side=kind)
    if kind == "levels":
        return sf.LoD(x.data, [[0, len(lengths)], x.offsets])
    return sf.convert(x, getattr(sf, kind))


def outcome(call):
    try:
        return call()
    except (TypeError, IndexError, sf.StructureError, sf.ConversionError, sf.DeviceError) as error:
        return type(error), str(error)


def slots_of(x):
    return [name for base in type(x).__mro__ for name in vars(base).get("__slots__", ()) if name != "__weakref__"]


def flags_of(x):
    """All but whether it owns its memory."""
    return [x.flags[name] for name in ("C", "F", "W", "A", "X")]


def assert_same(x, y):
    """Equal in everything that can be seen, the structure being the very same."""
    assert type(x) is type(y)
    if isinstance(x, tuple):
        assert len(x) == len(y)
        for a, b in zip(x, y, strict=True):
            assert_same(a, b)
    elif isinstance(x, np.ndarray):
        assert (x.dtype, x.shape, x.strides, flags_of(x)) == (y.dtype, y.shape, y.strides, flags_of(y))
        assert x.tobytes() == y.tobytes()
    elif isinstance(x, Structure):
        assert x is y
    elif isinstance(x, Encoding):
        for name in slots_of(x):
            assert_same(getattr(x, name), getattr(y, name))
        assert sf.equal(x, y, equal_nan=True)
        assert gc.is_tracked(x)
    else:
        assert x == y


def compared(call):
    """What a call gives, after it has been learned, is what the general way gives."""
    outcome(call)
    there = outcome(call)
    with closed_doors():
        other = outcome(call)
    assert_same(there, other)
    return there


def calls(x, rows):
    """All that goes by doors of kernels, for a batch."""
    found = [functools.partial(record, x, record.default) for record in REDUCTIONS]
    found += [
        lambda: sf.softmax(x),
        lambda: sf.log_softmax(x),
        lambda: sf.cumsum(x),
        lambda: sf.reverse(x),
        lambda: sf.window(x, 1, 2),
        lambda: sf.window(x, 0, 0),
        lambda: sf.expand_as(rows, x),
        lambda: sf.expand(rows, x),
        lambda: sf.reduce_sum(x, weights=weights_for(x)),
        lambda: sf.reduce_mean(x, weights=weights_for(x)),
        lambda: sf.reduce_mean(x, weights=sf.Ragged(weights_for(x), x._structure.lengths)),
    ]
    return found


def weights_for(x):
    """One an item, some of them 0."""
    return (np.arange(x._structure.rows) % 5).astype(x._dtype if x._dtype in ("f4", "f8") else "f8")


batches = st.tuples(
    strategies.lengths(),
    strategies.item_shapes(),
    strategies.dtypes(),
    st.sampled_from(KINDS),
    st.booleans(),
)


@given(batches)
def test_every_batch_as_the_general_way(drawn):
    lengths, item, dtype, kind, special = drawn
    x = encoded(strategies.counting(dtype, (sum(lengths), *item), special), np.array(lengths, np.int64), kind)
    rows = strategies.counting(dtype, (len(lengths), *item), special)
    for call in calls(x, rows):
        with np.errstate(all="ignore"):
            compared(call)


@given(batches)
def test_every_gradient_as_the_general_way(drawn):
    lengths, item, dtype, kind, special = drawn
    x = encoded(strategies.counting(dtype, (sum(lengths), *item), special), np.array(lengths, np.int64), kind)

    def pulled(function):
        y, pullback = sf.vjp(function, x)
        return pullback(y)

    for function in (*WITH_GRADIENT, sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse):
        with np.errstate(all="ignore"):
            compared(functools.partial(pulled, function))


def batch(kind="Ragged", dtype=np.float32, width=5):
    lengths = np.array([3, 0, 7, 1, 20])
    return encoded(strategies.counting(dtype, (31, width)), lengths, kind)


HIDE = np.array([5, 1 << 31, 1 << 30, 3 << 29, 9, 7, -100])
"""The numbers of `mask_items`."""


def tokens(kind="Ragged", dtype=np.int64, lengths=(3, 0, 7, 1, 20)):
    return encoded((np.arange(sum(lengths)) * 7 % 5).astype(dtype), np.array(lengths), kind)


def opened():
    """Every door of these, opened for float32, with arguments that go through it."""
    x, rows = batch(), strategies.counting(np.float32, (5, 5))
    for call in calls(x, rows):
        call()
    alone = (softmax.SOFTMAX, softmax.LOG_SOFTMAX, softmax.CUMSUM, rearrange.REVERSE)
    found = [(record.path, (x, record.default)) for record in REDUCTIONS if record.name not in ALWAYS_CLOSED]
    found += [(record.path, (x,)) for record in alone]
    for weighted in (reduce.WEIGHTED_SUM, reduce.WEIGHTED_MEAN):
        found.append((weighted.door, (x, weights_for(x), weighted.record.default)))
        found.append((weighted.door, (x, x._sealed(weights_for(x), x._structure), weighted.record.default)))
    sf.levenshtein(tokens(), tokens())
    found.append((distance._DOOR, (tokens(), tokens())))
    targets = tokens()._with_data(tokens().data % 5)
    sf.cross_entropy(x, targets.data)
    for what in range(3):
        found.append((class_loss.LOSING, (x, targets.data, 3, what, class_loss.UNSMOOTHED)))
        found.append((class_loss.LOSING, (x, x._sealed(targets.data, x._structure), None, what, class_loss.UNSMOOTHED)))
    for what, reduction in enumerate(("mean", "sequence", "none")):
        y, pullback = sf.vjp(sf.cross_entropy, x, targets.data, ignore=3, reduction=reduction)
        pullback(y)
        args = (x, targets.data, 3, what, class_loss.UNSMOOTHED)
        found.append((class_loss.HOLDING, args))
        found.append((class_loss._SLOPING, (x, y, class_loss.HOLDING.enter(*args)[1])))
    hidden = sf.mask_tokens(tokens(), rate=0.5, mask_id=9, special=[2], vocabulary=7, seed=1)
    assert hidden.labels._structure is hidden.ids._structure
    found.append((masking.HIDING, (tokens(), np.array([2]), np.zeros(0, np.int64), HIDE)))
    found += [(windows.WINDOW.path, (x, 1, 2)), (spread.repeating, (x, rows)), (expand._repeating_flat, (x, rows))]
    for function in (*WITH_GRADIENT, sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse):
        y, pullback = sf.vjp(function, x)
        pullback(y)
        free = zip(pullback.__code__.co_freevars, pullback.__closure__, strict=True)
        known = {name: cell.cell_contents for name, cell in free}
        if "path" in known:
            found.append((known["path"], (known["shape"], y, *known["kept"])))
    assert [door.page for door, _ in found if not getattr(door, "known", True)] == []
    return found


def test_plain_batches_go_through():
    found = opened()
    assert len(found) > 25
    for door, args in found:
        assert door.enter(*args) is not None, (door, args)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("List", "levels")])
def test_every_layout_goes_through(kind):
    x = batch(kind)
    sf.reduce_sum(x), sf.softmax(x), sf.expand_as(np.ones((5, 2)), x)
    assert reduce.SUM.path.enter(x, reduce.SUM.default) is not None
    assert softmax.SOFTMAX.path.enter(x) is not None
    assert spread.repeating.enter(x, np.ones((5, 2))) is not None


class Own(np.ndarray):
    """An array of a subclass."""


class Subclass(sf.Ragged):
    """An encoding of a subclass."""


def test_what_is_not_plain_is_left_to_the_general_way():
    opened()
    x, default = batch(), reduce.SUM.default
    total, repeat, widen = reduce.SUM.path.enter, spread.repeating.enter, windows.WINDOW.path.enter
    odd = [None, 3, [1.0], x.data, object(), batch("List"), Subclass(x.data, x.lengths)]
    for other in (*odd, batch(dtype=">f4"), batch(width=0), batch("levels")):
        assert total(other, default) is None
    for other in odd:
        assert softmax.SOFTMAX.path.enter(other) is None
        assert repeat(other, np.ones((5, 5), np.float32)) is None
    for wrong in ((), (x,), (x, 1e-300), (x, default, 1)):
        assert total(*wrong) is None
    for wrong in ((), (x,), (x, 1), (x, 1, 2, 3)):
        assert widen(*wrong) is None
    for count in (-1, 2**62, 2**100, -(2**100), True, np.int64(1), 1.0, "1", None, 2**29):
        assert widen(x, count, 1) is None
        assert widen(x, 1, count) is None


def test_rows_that_are_not_plain_are_left_to_the_general_way():
    opened()
    x, repeat = batch(), spread.repeating.enter
    rows = strategies.counting(np.float32, (5, 6))
    unaligned = np.zeros(101, np.uint8)[1:].view(np.float32).reshape(5, 5)
    odd = [rows[:4], rows[:, ::2], rows.T, unaligned, rows.view(Own), rows.astype(">f4"), rows[0, 0], rows[:0], x]
    for other in (None, 3, [rows], rows.tolist(), *odd):
        assert repeat(x, other) is None
    for wrong in ((), (x,), (x, rows, rows)):
        assert repeat(*wrong) is None
    for other in odd:
        compared(lambda other=other: sf.expand_as(other, x))
        if other is not x:  # whose copies have a structure of their own
            compared(lambda other=other: sf.expand(other, x))


@given(
    strategies.lengths(),
    st.randoms(use_true_random=False),
    st.sampled_from(["i8", "i4", "u8", "u1", "?", "f4"]),
    st.sampled_from(["i8", "i4", ">i8"]),
    st.sampled_from(KINDS),
    st.sampled_from(KINDS),
)
def test_distances_as_the_general_way(lengths, random, dtype, other, kind, other_kind):
    others = [random.randint(0, 70) for _ in lengths] if random.random() < 0.8 else lengths[1:]
    x, y = tokens(kind, dtype, tuple(lengths)), tokens(other_kind, other, tuple(others))
    compared(lambda: sf.levenshtein(x, y))


@given(
    strategies.lengths(),
    st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", "?", "f4"]),
    st.sampled_from(KINDS),
    st.sampled_from([(), (1,), (1, 1), (2,), (0,)]),
    st.integers(0, 2**63 - 1),
)
def test_hidden_items_as_the_general_way(lengths, dtype, kind, item, seed):
    x = tokens(kind, dtype, tuple(lengths))
    x = encoded(np.resize(sf.convert(x, sf.Ragged).data, (sum(lengths), *item)), np.array(lengths, np.int64), kind)
    marks = sf.Ragged(np.arange(sum(lengths)) % 3 == 0, lengths)
    for options in (
        {"mask_id": 9, "vocabulary": 7},
        {"mask_id": 9, "vocabulary": [3, 4], "special": {1, 2}, "rate": 1},
        {"mask_id": 9, "split": (1, 0, 0), "special": np.array([4]), "ignore": 3},
        {"mask_id": 9, "vocabulary": 7, "special": marks},
        {"mask_id": 9, "vocabulary": 7, "whole": marks},
        {"mask_id": 300, "vocabulary": 7},
        {"mask_id": 9},
    ):
        compared(lambda options=options: sf.mask_tokens(x, seed=seed, **options))


@given(
    strategies.lengths(),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.sampled_from(["f4", "f8", "f4", "f8", "f2", ">f4", "i4"]),
    st.sampled_from(["i8", "i8", "i8", "i4", "u1", ">i8", "f4"]),
    st.sampled_from(KINDS),
)
def test_losses_as_the_general_way(lengths, seed, classes, dtype, whole, kind):
    rng, rows = np.random.default_rng(seed), sum(lengths)
    x = encoded((rng.standard_normal((rows, classes)) * 3).astype(dtype), np.array(lengths, np.int64), kind)
    targets = rng.integers(0, classes + (seed % 7 == 0), rows).astype(whole)
    for given_ in (
        targets,
        targets[:, None],
        x._sealed(targets, x._structure) if kind == "Ragged" else sf.Ragged(targets, lengths),
        sf.convert(sf.Ragged(targets, lengths), sf.Masked),
    ):
        for ignore in (None, 0, -100, classes, 2**70, np.int64(1), True):
            for reduction in ("mean", "sequence", "none"):
                compared(lambda g=given_, i=ignore, r=reduction: sf.cross_entropy(x, g, ignore=i, reduction=r))
    compared(lambda: sf.cross_entropy(x, targets, label_smoothing=0.1))
    compared(lambda: sf.cross_entropy(x, targets, label_smoothing=0.0, reduction="sum"))
    compared(lambda: sf.cross_entropy(x, targets, reduction=[]))


@given(
    strategies.lengths(),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 5, 8, 33, 70]),
    st.sampled_from(["f4", "f8", "f4", "f8", "f2", ">f4"]),
    st.sampled_from(["i8", "i8", "i4", "u1"]),
    st.sampled_from(KINDS),
)
def test_gradients_of_losses_as_the_general_way(lengths, seed, classes, dtype, whole, kind):
    rng, rows = np.random.default_rng(seed), sum(lengths)
    x = encoded((rng.standard_normal((rows, classes)) * 3).astype(dtype), np.array(lengths, np.int64), kind)
    targets = rng.integers(0, classes + (seed % 7 == 0), rows).astype(whole)

    def gradient(given_, each, **options):
        y, pullback = sf.vjp(sf.cross_entropy, x, given_, **options)
        return y, pullback(y if each is None else each(y))

    odd = [None, lambda y: np.float32(2) * y if isinstance(y, np.ndarray) else sf.convert(y, sf.Padded)]
    for given_ in (
        targets,
        sf.Ragged(targets, lengths),
        x._sealed(targets, x._structure) if kind == "Ragged" else targets,
    ):
        for ignore in (None, 0, classes):
            for reduction in ("mean", "sequence", "none"):
                for each in odd:
                    compared(lambda g=given_, i=ignore, r=reduction, e=each: gradient(g, e, ignore=i, reduction=r))
    compared(lambda: gradient(targets, None, label_smoothing=0.1))


def test_what_is_held_is_what_was_checked():
    """Targets that are changed before the gradient are not looked at again."""
    x, targets = batch(), tokens().data % 5
    for other in (x, sf.convert(x, sf.Masked)):
        for _ in range(3):
            changed = targets.copy()
            y, pullback = sf.vjp(sf.cross_entropy, other, changed)
            wanted = pullback(y)
            changed[:] = 1 << 40
            assert sf.equal(pullback(y), wanted)


def test_gradients_that_are_not_plain_are_left_to_the_general_way():
    opened()
    x, targets = batch(), tokens().data % 5
    for what, reduction in enumerate(("mean", "sequence", "none")):
        y = sf.cross_entropy(x, targets, reduction=reduction)
        held = class_loss.HOLDING.enter(x, targets, None, what, class_loss.UNSMOOTHED)[1]
        enter = class_loss._SLOPING.enter
        assert held.shape == (3 * 31 + 5 + 6,)
        assert enter(x, y, held) is not None
        for other in (held[:-1], held.astype("f8"), held.tolist(), held.reshape(1, -1), held[::-1], None):
            assert enter(x, y, other) is None
        plain = y.data if reduction == "none" else y
        for dy in (plain[..., None], plain.astype("f8"), plain.tolist(), plain[:0] if plain.ndim else None, x, None):
            assert enter(x, dy, held) is None
        for other in (batch(dtype="f8"), batch("Masked"), batch(dtype=">f4"), tokens()):
            assert enter(other, y, held) is None
        assert enter(x, y) is None
        assert enter(x, y, held, held) is None


@pytest.mark.parametrize("dtype", ["i4", "u1", "i2"])
def test_losses_of_other_targets_teach_nothing(monkeypatch, dtype):
    """Whose bytes would be read as those of int64."""
    learned = []
    for door in (class_loss.LOSING, class_loss.HOLDING):
        monkeypatch.setattr(door, "enter", doors.closed)
        monkeypatch.setattr(door, "knows", lambda *_: False)
        monkeypatch.setattr(door, "learn", lambda args, *_: learned.append(args[1]._dtype))
    for targets in (np.zeros(31, dtype), np.zeros(31, np.int64)):
        sf.cross_entropy(batch(), targets)
    assert learned == [np.int64]


def test_odd_scores_as_the_general_way():
    data = np.array([[np.nan, 0], [np.inf, 0], [-np.inf, 0], [-np.inf, -np.inf], [1e30, -1e30]])
    for dtype in ("f4", "f8"):
        x = sf.Ragged(data.astype(dtype), [1, 1, 1, 1, 1])
        for reduction in ("mean", "sequence", "none"):
            for targets in (np.zeros(5, np.int64), np.ones(5, np.int64)):
                with np.errstate(all="ignore"):
                    compared(lambda x=x, t=targets, r=reduction: sf.cross_entropy(x, t, reduction=r))


def test_distances_of_much_work_are_left_to_the_general_way():
    opened()
    x, y = tokens(lengths=(1 << 12,)), tokens(lengths=(64 * 63,))
    assert distance._DOOR.enter(x, y) is None
    compared(lambda: sf.levenshtein(x, y))
    assert distance._DOOR.enter(tokens(lengths=(1 << 11,)), y) is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "f2"])
def test_weights_as_the_general_way(kind, dtype):
    x = batch(kind, dtype)
    rows = sf.convert(x, sf.Ragged)
    for made in ("f4", "f8", "f2", ">f4", "i4"):
        flat = np.linspace(0, 1, 31).astype(made)
        for weights in (
            flat,
            flat[:, None],
            flat[::2],
            rows._sealed(flat, x._structure),
            sf.Ragged(flat, rows.lengths),
            sf.convert(sf.Ragged(flat, rows.lengths), sf.Masked),
            np.repeat(flat, 5).reshape(31, 5),
            flat.tolist(),
            None,
        ):
            for empty in (0.0, 1.5, "raise"):
                compared(lambda weights=weights, empty=empty: sf.reduce_sum(x, weights=weights, empty=empty))
                compared(lambda weights=weights, empty=empty: sf.reduce_mean(x, weights=weights, empty=empty))


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
def test_data_that_has_changed():
    x = sf.Ragged(np.ones((6, 2), np.float32), [2, 4])
    sf.reduce_sum(x)
    x.data.shape = (12, 1)
    assert reduce.SUM.path.enter(x, reduce.SUM.default) is None
    with pytest.raises(sf.StructureError, match="data was"):
        sf.reduce_sum(x)
    x.data.shape = (6, 2)
    assert sf.reduce_sum(x).tolist() == [[2, 2], [4, 4]]
    x.data.dtype = np.int32
    with pytest.raises(sf.StructureError, match="data was"):
        sf.softmax(x)


def test_gradients_that_do_not_fit():
    x = batch()
    y, pullback = sf.vjp(sf.reduce_sum, x)
    pullback(y)
    with pytest.raises(sf.StructureError):
        pullback(y[:, :4].copy())
    with pytest.raises(sf.StructureError):
        pullback(y[:4])
    assert pullback(y.astype(np.float64)).dtype == np.float32
    y, pullback = sf.vjp(sf.softmax, x)
    pullback(y)
    other = sf.Ragged(y.data, np.array([3, 0, 7, 2, 19]))
    with pytest.raises(sf.StructureError):
        pullback(other)
    assert_same(pullback(y), pullback(y.data))
    assert_same(pullback(y), pullback(sf.convert(y, sf.Padded)))


def test_reference_counts_and_memory():
    found = opened()
    x = batch()
    refused = [(reduce.SUM.path, (x,)), (reduce.SUM.path, (None, 1)), (softmax.SOFTMAX.path, (3,))]
    for door, args in found + refused:
        watched = [np.dtype(np.float32), sf.Ragged, x, None, True, *args]
        for z in args:
            if isinstance(z, sf.Ragged):
                watched += [z.data, z._structure, z.lengths, z._shape, z._dtype, z._structure.offsets]
        leaks.assert_nothing_is_left(functools.partial(door.enter, *args), watched)


def test_a_large_batch_is_left_to_the_general_way():
    x = batch()
    first, wanted = spread.items_at_end[0].path, sf.reduce_first(x)
    sf.reduce_sum(x)
    try:
        core.use_at_most(x.data.nbytes, 0)
        assert reduce.SUM.path.enter(x, reduce.SUM.default) is not None
        core.use_at_most(x.data.nbytes - 1, 0)
        assert reduce.SUM.path.enter(x, reduce.SUM.default) is None
        assert first.enter(x, reduce.FIRST.default) is not None  # which is not large
        core.use_at_most(wanted.nbytes - 1, 0)
        assert first.enter(x, reduce.FIRST.default) is None
    finally:
        core.with_threads(threads.num_threads())
