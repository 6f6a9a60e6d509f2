"""Fast paths that run one kernel over sequences, `Calculate` and `Spread`, beside Python."""

import functools
import gc

import leaks
import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats import core
from seqformats.formats import Encoding
from seqformats.formats.structure import Structure
from seqformats.launch import threads
from seqformats.operations import expand, rearrange, reduce, softmax, spread, windows

pytestmark = [
    pytest.mark.skipif(core.extension is None, reason="the extension is not built here"),
    pytest.mark.passes("compiled", reason="fast paths run machine code"),
]

REDUCTIONS = [record for record in reduce.REDUCTIONS.values() if record.path is not None]
WITH_GRADIENT = [getattr(sf, f"reduce_{record.name}") for record in REDUCTIONS if record.has_gradient]
IN_PYTHON = ("mode", "nunique")  # of which no path is told
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
    """Check that a call gives what Python gives, when fast paths know its kernels."""
    outcome(call)
    there = outcome(call)
    with core.python_only():
        other = outcome(call)
    assert_same(there, other)
    return there


def calls(x, rows):
    """Return all that is one kernel, for a batch."""
    found = [functools.partial(record.run, x, record.default) for record in REDUCTIONS]
    found += [
        lambda: sf.softmax(x),
        lambda: sf.log_softmax(x),
        lambda: sf.cumsum(x),
        lambda: sf.reverse(x),
        lambda: sf.window(x, 1, 2),
        lambda: sf.window(x, 0, 0),
        lambda: sf.expand_as(rows, x),
        lambda: sf.expand(rows, x),
    ]
    return found


batches = st.tuples(
    strategies.lengths(),
    strategies.item_shapes(),
    strategies.dtypes(),
    st.sampled_from(KINDS),
    st.booleans(),
)


@given(batches)
def test_every_batch_as_in_python(drawn):
    lengths, item, dtype, kind, special = drawn
    x = encoded(strategies.counting(dtype, (sum(lengths), *item), special), np.array(lengths, np.int64), kind)
    rows = strategies.counting(dtype, (len(lengths), *item), special)
    for call in calls(x, rows):
        with np.errstate(all="ignore"):
            compared(call)


@given(batches)
def test_every_gradient_as_in_python(drawn):
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


def opened():
    """List every path of these, told of float32, with arguments that it takes."""
    x, rows = batch(), strategies.counting(np.float32, (5, 5))
    for call in calls(x, rows):
        call()
    alone = (softmax.SOFTMAX, softmax.LOG_SOFTMAX, softmax.CUMSUM, rearrange.REVERSE)
    found = [(record.path, (x, record.default)) for record in REDUCTIONS if record.name not in IN_PYTHON]
    found += [(record.path, (x,)) for record in alone]
    found += [(windows.WINDOW.path, (x, 1, 2)), (spread.repeating, (x, rows)), (expand._repeating_flat, (x, rows))]
    for function in (*WITH_GRADIENT, sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse):
        y, pullback = sf.vjp(function, x)
        pullback(y)
        free = zip(pullback.__code__.co_freevars, pullback.__closure__, strict=True)
        known = {name: cell.cell_contents for name, cell in free}
        if "path" in known:
            found.append((known["path"], (known["shape"], y, *known["kept"])))
    return found


def test_plain_batches_are_taken():
    found = opened()
    assert len(found) > 25
    for path, args in found:
        assert path.enter(*args) is not None, (path, args)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("List", "levels")])
def test_every_layout_is_taken(kind):
    x = batch(kind)
    sf.reduce_sum(x), sf.softmax(x), sf.expand_as(np.ones((5, 2)), x)
    assert reduce.SUM.path.enter(x, reduce.SUM.default) is not None
    assert softmax.SOFTMAX.path.enter(x) is not None
    assert spread.repeating.enter(x, np.ones((5, 2))) is not None


class Own(np.ndarray):
    """An array of a subclass."""


class Subclass(sf.Ragged):
    """An encoding of a subclass."""


def test_what_is_not_plain_is_left_to_python():
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


def test_rows_that_are_not_plain_are_left_to_python():
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
    for path, args in found + refused:
        watched = [np.dtype(np.float32), sf.Ragged, x, None, True, *args]
        for z in args:
            if isinstance(z, sf.Ragged):
                watched += [z.data, z._structure, z.lengths, z._shape, z._dtype, z._structure.offsets]
        leaks.assert_nothing_is_left(functools.partial(path.enter, *args), watched)


def test_a_large_batch_is_left_to_python():
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
