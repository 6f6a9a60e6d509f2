"""Doors before conversions and constructors: each against the general way, and what it must leave alone."""

import contextlib
import copy
import gc
import pickle
import sys
import threading
import weakref

import leaks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import DTYPES

import seqformats as sf
from seqformats import registry
from seqformats.doors import lay, world
from seqformats.doors.door import same
from seqformats.formats.encoding import entrance_of_lengths, entrance_of_lists, not_entered
from seqformats.launch import threads
from seqformats.native import words

pytestmark = [
    pytest.mark.passes("compiled", reason="doors are machine code"),
    pytest.mark.usefixtures("without_limits"),
]

TARGETS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)
STRUCTURED = np.dtype([("a", "i4"), ("b", "f8", (2,))])
ENTRANCES = (entrance_of_lengths, entrance_of_lists)


@contextlib.contextmanager
def no_doors():
    """The general way alone."""
    learn, ways = registry.service("learn_conversion"), [(e, e.enter, e.learn) for e in ENTRANCES]
    doors = dict(registry.entrances)
    registry.entrances.clear()
    registry._services["learn_conversion"] = not_entered
    for entrance in ENTRANCES:
        entrance.enter = entrance.learn = not_entered
    try:
        yield
    finally:
        registry._services["learn_conversion"] = learn
        registry.entrances.update(doors)
        for entrance, enter, learns in ways:
            entrance.enter, entrance.learn = enter, learns


def outcome(function):
    """What a call gives: a result, or its error in words."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def alike(function):
    """A call three times, with doors that learn meanwhile, and by the general way: the same each time."""
    with no_doors():
        expected = outcome(function)
    for _ in range(3):
        found = outcome(function)
        assert found == expected if isinstance(expected, tuple) else same(found, expected)
    return found


def arrays(lengths, item=(), dtype="f4"):
    rows = np.arange(sum(lengths) * int(np.prod(item, dtype=int))).astype(np.uint8)
    data = np.resize(rows, (sum(lengths), *item)) if rows.size else np.zeros((sum(lengths), *item), np.uint8)
    data = data.astype(dtype) if np.dtype(dtype).names is None else np.zeros(data.shape, dtype)
    return [part.copy() for part in np.split(data, np.cumsum(lengths)[:-1])] if lengths else []


def opened():
    """All ways of all doors that a plain batch takes."""
    for item in ((), (3,)):
        for lengths in ([2, 0, 3], [2, 2]):
            seqs = arrays(lengths, item)
            for target in TARGETS:
                for _ in range(2):
                    sf.convert(seqs, target)
                    sf.convert(sf.List(seqs), target)
                    for source in TARGETS:
                        x = sf.convert(sf.Ragged(np.concatenate(seqs), lengths), source)
                        sf.convert(x, target)
    sf.Masked(np.zeros((2, 3)), [1, 3])


@pytest.fixture(autouse=True, scope="module")
def all_open():
    opened()


lengths_of = st.lists(st.integers(0, 6), max_size=7)
every_dtype = st.sampled_from([*DTYPES, STRUCTURED])
every_item = st.sampled_from([(), (1,), (3,), (2, 2), (0,), (5, 0), (33,)])


def test_doors_are_open():
    """So that the tests below compare what they mean to compare."""
    seqs = arrays([2, 0, 3], (3,))
    for target in TARGETS:
        assert registry.entrances[target](seqs) is not None
        for source in (sf.List, *TARGETS):
            assert registry.entrances[target](sf.convert(seqs, source)) is not None
        assert not lay._doors[target].wrong
    assert entrance_of_lists.enter(seqs) is not None
    assert entrance_of_lengths.enter(sf.Ragged(np.zeros(2), [2]))


# --- against the general way -----------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(lengths_of, every_item, every_dtype, st.sampled_from(TARGETS), st.sampled_from([list, tuple]))
def test_lists(lengths, item, dtype, target, kind):
    seqs = kind(arrays(lengths, item, dtype))
    made = alike(lambda: sf.convert(seqs, target))
    if lengths:
        assert made._structure.lengths.tolist() == lengths
        assert [a.tobytes() for a in sf.convert(made, sf.List).items] == [a.tobytes() for a in seqs]


@settings(max_examples=250, deadline=None)
@given(
    lengths_of,
    every_item,
    every_dtype,
    st.sampled_from((sf.List, *TARGETS, "left", "wide")),
    st.sampled_from(TARGETS),
    st.booleans(),
)
def test_layouts(lengths, item, dtype, source, target, ordered):
    seqs = arrays(lengths, item, dtype)

    def made():
        if source == "left":
            x = sf.convert(seqs, sf.Masked, side="left", width=7)
        elif source == "wide":
            x = sf.convert(seqs, sf.Padded, width=7)
        else:
            x = sf.convert(seqs, source)
        if ordered:
            assert x._structure.order is not None
        y = sf.convert(x, target)
        assert y._structure is x._structure or not x._structure.stable
        if target in (sf.Padded, sf.Packed):
            assert y.indices is y._structure.order.indices
        return y

    alike(made)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(-1, 6) | st.sampled_from([2**70, True, 1.5, np.int32(2)]), max_size=6),
    st.integers(0, 12),
    every_item,
    every_dtype,
    st.sampled_from(["list", "tuple", "int64", "int32", "strided", "object"]),
    st.sampled_from([sf.Ragged, sf.Masked]),
    st.booleans(),
)
def test_constructors(lengths, rows, item, dtype, how, kind, fits):
    if fits:
        lengths = [length for length in lengths if type(length) is int and 0 <= length < 7]
        rows = sum(lengths)
    given = tuple(lengths) if how == "tuple" else lengths
    try:
        if how in ("int64", "int32", "object"):
            given = np.array(lengths, how)
        elif how == "strided":
            given = np.repeat(np.array(lengths, np.int64), 2)[::2]
    except (OverflowError, TypeError):
        return
    lead = (rows,) if kind is sf.Ragged else (len(lengths), 6)
    data = np.zeros((*lead, *item), dtype)
    x = alike(lambda: kind(data, given))
    if isinstance(x, kind):
        assert x.data is data
        if isinstance(given, np.ndarray) and given.size:
            given[0] += 1
            assert not x.lengths.flags.writeable
            assert x.lengths[0] == int(lengths[0])


@settings(max_examples=100, deadline=None)
@given(lengths_of, every_item, every_dtype, st.sampled_from([list, tuple]))
def test_lists_of_arrays(lengths, item, dtype, kind):
    seqs = kind(arrays(lengths, item, dtype))
    x = alike(lambda: sf.List(seqs))
    assert x.items == tuple(seqs)
    alike(lambda: sf.softmax(sf.convert(seqs, sf.List)) if np.dtype(dtype).kind == "f" else x)


class Own(np.ndarray):
    pass


def odd_lists():
    plain = np.arange(6.0, dtype="f4").reshape(3, 2)
    unaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view("f4").reshape(3, 2)
    frozen = plain.copy()
    frozen.setflags(False)
    return {
        "a subclass": [plain, plain.view(Own)],
        "a subclass first": [plain.view(Own), plain],
        "masked": [np.ma.array(plain)],
        "unaligned": [unaligned, plain],
        "read-only": [frozen, plain],
        "not contiguous": [plain, np.zeros((2, 4), "f4")[:, ::2]],
        "Fortran": [np.asfortranarray(np.ones((3, 2), "f4"))],
        "another dtype": [plain, plain.astype("f8")],
        "other byte order": [plain, plain.astype(">f4")],
        "another item": [plain, np.zeros((2, 3), "f4")],
        "another rank": [plain, np.zeros(2, "f4")],
        "no axis": [np.array(1.0)],
        "objects": [np.array([1, None], object)],
        "objects within": [np.zeros(2, [("a", "O"), ("b", "i4")])],
        "no bytes": [np.zeros((2, 0), "f4"), np.zeros((1, 0), "f4")],
        "empty text": [np.zeros(2, "S0")],
        "None": [plain, None],
        "numbers": [1, 2],
        "lists": [[1.0], [2.0, 3.0]],
        "nothing": [],
        "twice the same": [plain, plain],
        "all empty": [plain[:0], plain[:0]],
    }


@pytest.mark.parametrize("what", odd_lists())
@pytest.mark.parametrize("target", TARGETS)
def test_odd_lists(what, target):
    seqs = odd_lists()[what]
    alike(lambda: sf.convert(seqs, target))
    alike(lambda: sf.List(seqs))


@pytest.mark.parametrize("target", TARGETS)
def test_a_list_of_a_kind_of_its_own_is_left_alone(target):
    class Rows(list):
        def __iter__(self):
            return iter(self[::-1])

    seqs = Rows(arrays([2, 1], (3,)))
    assert registry.entrances[target](seqs) is None
    alike(lambda: sf.convert(seqs, target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", [*TARGETS, sf.List])
def test_changed_arrays_are_seen(source, target):
    x = sf.convert(arrays([2, 0, 3]), source)
    part = x.items[2] if source is sf.List else x.data
    part.resize((part.shape[0] + 1, *part.shape[1:]), refcheck=False)
    if source is not target:
        with pytest.raises(sf.StructureError, match="build a new one"):
            sf.convert(x, target)


@pytest.mark.parametrize("target", TARGETS)
def test_subclasses_of_encodings_are_left_alone(target):
    class Own(sf.Ragged):
        __slots__ = ()

    x = Own(np.zeros(5, "f4"), [2, 3])
    assert type(x) is Own
    assert registry.entrances[target](x) is None


def test_constructing_again_replaces_what_is_there():
    x = sf.Ragged(np.zeros(5), [2, 3])
    old = x._structure
    before = sys.getrefcount(old)
    x.__init__(np.ones(4), [4])
    assert x.lengths.tolist() == [4]
    assert x._shape == (4,)
    assert sys.getrefcount(old) == before - 1


def test_an_order_is_made_once():
    x = sf.Ragged(np.arange(5), [2, 3])
    y, z = sf.convert(x, sf.Padded), sf.convert(x, sf.Packed)
    assert y.indices is z.indices
    assert type(x._structure.order).__name__ == "Order"
    assert x._structure.by_steps.starts is y.indices
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        y.indices.setflags(write=True)


# --- what is told of doors -------------------------------------------------------------------------------------------


def test_a_new_conversion_closes_the_doors():
    x = sf.Ragged(np.zeros(2), [2])
    table = dict(registry._conversions)
    try:
        sf.conversion(sf.Ragged, sf.Packed)(lambda x: "mine")
        assert sf.convert(x, sf.Packed) == "mine"
        for _ in range(3):
            sf.convert([np.zeros(2)], sf.Packed)
        assert sf.convert(x, sf.Packed) == "mine"
    finally:
        registry._conversions.update(table)
        registry.entrances.clear()
    opened()


def test_work_for_several_threads_is_left_to_them(monkeypatch):
    x = [np.zeros((3 << 20) // 4, "f4")] * 2
    door = registry.entrances[sf.Ragged]
    before = threads._chosen
    try:
        sf.set_num_threads(1)
        assert door(x) is not None
        assert world.common()[words.MOST] == 1 << 25
        sf.set_num_threads(2)
        assert door(x) is None
        assert door(x[:1]) is not None
        sf.set_num_threads(1)
        assert door([x[0]] * 11) is None
    finally:
        sf.set_num_threads(before)


# --- references, memory, threads -------------------------------------------------------------------------------------


def calls():
    seqs = arrays([2, 0, 3], (3,))
    data, lengths = np.concatenate(seqs), np.array([2, 0, 3])
    found = {"Ragged": lambda: sf.Ragged(data, lengths), "Ragged of a list": lambda: sf.Ragged(data, [2, 0, 3])}
    found["wrong lengths"] = lambda: entrance_of_lengths.enter(object.__new__(sf.Ragged))
    found["List"] = lambda: sf.List(seqs)
    batch = sf.List(seqs)
    found["look"] = batch._look
    for target in TARGETS:
        door = registry.entrances[target]
        found[f"list, {target.__name__}"] = lambda door=door: door(seqs)
        found[f"no list, {target.__name__}"] = lambda door=door: (door([seqs[0], 1]), door(3), door([]), door(data))
        found[f"List, {target.__name__}"] = lambda door=door: door(batch)
        for source in TARGETS:
            x = sf.convert(seqs, source)
            found[f"{source.__name__}, {target.__name__}"] = lambda door=door, x=x: door(x)
    return found, [
        seqs[0],
        seqs[1],
        data,
        lengths,
        batch,
        batch._structure,
        batch.items,
        data.dtype,
        None,
        True,
        sf.Ragged,
    ]


def test_no_call_keeps_or_loses_a_reference():
    found, watched = calls()
    watched = [*watched, *TARGETS, np.dtype("i8"), type(sf.Ragged(np.zeros(1), [1])._structure), "left", "right"]
    for name, call in found.items():
        leaks.assert_nothing_is_left(call, watched, name)


@pytest.mark.parametrize("target", TARGETS)
def test_results_are_like_any_other(target):
    x = sf.convert(arrays([2, 0, 3], (3,)), target)
    y = sf.convert(sf.convert(x, sf.Ragged), target)
    assert gc.is_tracked(x)
    assert sf.equal(pickle.loads(pickle.dumps(x)), x)
    assert sf.equal(copy.copy(x), x)
    assert sf.equal(copy.deepcopy(y), x)
    assert repr(x) == repr(y)
    there = weakref.ref(x)
    del x, y
    assert there() is None


def test_a_list_may_change_while_it_is_read():
    parts = [np.full((300, 300), k, "f4") for k in range(4)]
    shared = list(parts)
    done = threading.Event()

    def change():
        while not done.is_set():
            shared[:] = [part.copy() for part in parts]

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(300):
            assert sf.convert(shared, sf.Ragged).data[::300, 0].tolist() == [0, 1, 2, 3]
    finally:
        done.set()
        other.join()
