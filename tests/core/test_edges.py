"""Cases that fast paths see or leave alone: odd arrays, changes of what is shared, threads, what users register."""

import copy
import gc
import pickle
import sys
import threading
import weakref

import leaks
import numpy as np
import pytest
from test_fast_paths import check

import seqformats as sf
from seqformats import core, registry
from seqformats.launch import threads
from seqformats.launch.kernel import add_kernel, kernel

pytestmark = [
    pytest.mark.skipif(core.extension is None, reason="the extension is not built here"),
    pytest.mark.passes("compiled", reason="fast paths run machine code"),
]

TARGETS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)


def arrays(lengths, item=(), dtype="f4"):
    rows = np.arange(sum(lengths) * int(np.prod(item, dtype=int))).astype(np.uint8)
    data = np.resize(rows, (sum(lengths), *item)) if rows.size else np.zeros((sum(lengths), *item), np.uint8)
    data = data.astype(dtype) if np.dtype(dtype).names is None else np.zeros(data.shape, dtype)
    return [part.copy() for part in np.split(data, np.cumsum(lengths)[:-1])] if lengths else []


def opened():
    """Have fast paths told of all kernels that plain batches take."""
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
    for name in core.NAMES:
        kernel(name).forget()  # a test before may have met it where its machine code was out of reach
    opened()


def test_plain_calls_go_by_them():
    """So that the tests below compare what they mean to compare."""
    opened()
    seqs = arrays([2, 0, 3], (3,))
    for target in TARGETS:
        assert registry.entrances[target].convert(seqs) is not None
        for source in (sf.List, *TARGETS):
            assert registry.entrances[target].convert(sf.convert(seqs, source)) is not None
    assert core.list_of(seqs) is not None
    assert core.construct(sf.Ragged(np.zeros(2), [2]))


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
    check(lambda: sf.convert(seqs, target))
    check(lambda: sf.List(seqs))


@pytest.mark.parametrize("target", TARGETS)
def test_a_list_of_a_kind_of_its_own_is_left_alone(target):
    class Rows(list):
        def __iter__(self):
            return iter(self[::-1])

    seqs = Rows(arrays([2, 1], (3,)))
    assert registry.entrances[target].convert(seqs) is None
    check(lambda: sf.convert(seqs, target))


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
    assert registry.entrances[target].convert(x) is None


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
    assert y._indices is z._indices
    assert type(x._structure.order).__name__ == "Order"
    assert x._structure.by_steps.starts is y._indices
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        y._indices.setflags(write=True)


# --- what fast paths are told ----------------------------------------------------------------------------------------


def test_a_conversion_of_a_user_takes_its_place():
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
    path = registry.entrances[sf.Ragged].convert
    before = threads._chosen
    try:
        sf.set_num_threads(1)
        assert path(x) is not None
        sf.set_num_threads(2)
        assert path(x) is None
        assert path(x[:1]) is not None
        sf.set_num_threads(1)
        assert path([x[0]] * 11) is None
    finally:
        sf.set_num_threads(before)


# --- references, memory, threads -------------------------------------------------------------------------------------


def calls():
    seqs = arrays([2, 0, 3], (3,))
    data, lengths = np.concatenate(seqs), np.array([2, 0, 3])
    found = {"Ragged": lambda: sf.Ragged(data, lengths), "Ragged of a list": lambda: sf.Ragged(data, [2, 0, 3])}
    found["wrong lengths"] = lambda: core.construct(object.__new__(sf.Ragged))
    found["List"] = lambda: sf.List(seqs)
    batch = sf.List(seqs)
    found["look"] = batch._look
    for target in TARGETS:
        path = registry.entrances[target].convert
        found[f"list, {target.__name__}"] = lambda path=path: path(seqs)
        found[f"no list, {target.__name__}"] = lambda path=path: (path([seqs[0], 1]), path(3), path([]), path(data))
        found[f"List, {target.__name__}"] = lambda path=path: path(batch)
        for source in TARGETS:
            x = sf.convert(seqs, source)
            found[f"{source.__name__}, {target.__name__}"] = lambda path=path, x=x: path(x)
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


FAMILIES = {
    "check_lengths": lambda x: sf.Ragged(x.data, [2, 3]),
    "copy_blocks": lambda x: sf.convert(x, sf.Masked),
    "pad_blocks": lambda x: sf.convert(x, sf.Padded),
    "sort_lengths": lambda x: sf.convert(
        x._freeze(x.data, x._structure.__class__.of_lengths(np.array([2, 3]))), sf.Packed
    ),
    "sum_rows": sf.reduce_sum,
    "softmax_rows": sf.softmax,
    "reverse_rows": sf.reverse,
    "repeat_rows": lambda x: sf.expand_as(x.data[:2], x),
    "pick_sequences": lambda x: x[[1, 0]],
    "join_rows": lambda x: sf.concat([x, x]),
    "interleave_rows": lambda x: sf.interleave([x, x]),
    "join_lengths": lambda x: sf.concat([x, x]),
    "bag_rows": lambda x: sf.embedding_bag(x.data, sf.Ragged(np.arange(5), [2, 3])),
    "shift_rows": lambda x: sf.shift(x, 1),
    "policy_rows": lambda x: sf.rl.ratios(*[x._with_data(x.data[:, 0].copy())] * 2),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_kernel_of_a_user_is_called(name, monkeypatch):
    pytest.importorskip("numba")
    x = sf.Ragged(np.arange(10.0).reshape(5, 2), [2, 3])
    for _ in range(3):
        FAMILIES[name](x)
    called, own = [], kernel(name)
    body = own.load().cpu
    from seqformats.native.code import by_numba

    compiled = by_numba(name)

    def mine(*args):
        called.append(name)
        return compiled(*args)

    assert body is not None
    with monkeypatch.context() as patched:
        patched.setattr(own, "functions", dict(own.functions))
        add_kernel(name, "cpu", mine)
        for _ in range(3):
            FAMILIES[name](x)
        assert len(called) == 3
    own.forget()
    for _ in range(3):
        FAMILIES[name](x)
    assert len(called) == 3


def test_nobody_can_write_to_the_memory_of_a_structure():
    x = sf.convert([np.ones((2, 3), np.float32)] * 2, sf.Ragged)
    for array in (x.lengths, x.offsets):
        while isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
            array = array.base
