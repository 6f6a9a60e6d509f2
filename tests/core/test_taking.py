"""Operations that take items out of batches, with the extension and without; and what they leave behind."""

import copy
import gc
import pickle
import threading
import weakref

import leaks
import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from interrupts import interrupted
from test_fast_paths import same

import seqformats as sf
from seqformats import core
from seqformats.launch.kernel import kernel

pytestmark = [
    pytest.mark.skipif(core.extension is None, reason="the extension is not built here"),
    pytest.mark.passes("compiled", reason="it is about machine code"),
]


def outcome(call):
    """The result, or what is raised, in words."""
    try:
        return call()
    except (TypeError, IndexError, MemoryError, sf.StructureError, sf.ConversionError, sf.DeviceError) as error:
        return f"{type(error).__name__}: {error}"


def check(call):
    """The same result or error with the extension and without, three times: Python tells it of kernels."""
    with core.python_only():
        wanted = outcome(call)
    for _ in range(3):
        found = outcome(call)
        if isinstance(wanted, str):
            assert found == wanted
        else:
            assert same(found, wanted)
            one = found
            if isinstance(found, (tuple, sf.Pairs)):
                one, two = members(found)
                other, another = members(wanted)
                assert (one._structure is two._structure) == (other._structure is another._structure)
            for array in (one._structure.lengths, one._structure.offsets):
                assert not array.flags.writeable
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True


def members(pair):
    return (pair.one, pair.two) if isinstance(pair, sf.Pairs) else pair


def ragged(rng, n=8, item=(96,), dtype=np.float32):
    lengths = rng.integers(1, 30, n)
    return sf.Ragged((rng.standard_normal((lengths.sum(), *item)) * 50).astype(dtype), lengths)


RNG = np.random.default_rng(3)
R = ragged(RNG)
IDS = sf.Ragged(RNG.integers(0, 1000, R.rows), R.lengths)
KEEP = RNG.random(R.rows) < 0.5
PLACES = sf.Ragged((RNG.random(R.rows) * np.repeat(R.lengths, R.lengths)).astype(np.int64), R.lengths)
M, P, K = (sf.convert(R, kind) for kind in (sf.Masked, sf.Padded, sf.Packed))
INDEX = np.array([3, 1, -2, 0, 3])
ITEM = R.data[0].copy()
MARKS, BACK = sf.run_starts(R), R[::-1]

CALLS = {
    "array": lambda: R[INDEX],
    "list": lambda: R[[3, 1, -2]],
    "number": lambda: R[-1],
    "slice": lambda: R[1:5],
    "masked": lambda: M[INDEX],
    "masked list": lambda: M[[0, 7]],
    "masked number": lambda: M[2],
    "masked slice": lambda: M[:3],
    "select": lambda: sf.select(R, INDEX),
    "repeat": lambda: sf.repeat(R, 2),
    "repeat each": lambda: sf.repeat(R, np.arange(8)),
    "cut": lambda: sf.cut(R, 1, -1),
    "cut nothing": lambda: sf.cut(R, None, None),
    "cut by steps": lambda: sf.cut(R, None, None, -2),
    "truncate": lambda: sf.truncate(R, 4),
    "truncate left": lambda: sf.truncate(R, 4, "left"),
    "shift": lambda: sf.shift(R, 2),
    "shift masked": lambda: sf.shift(M, -2),
    "shift padded": lambda: sf.shift(P, 2),
    "shift packed": lambda: sf.shift(K, 2),
    "filter": lambda: sf.filter(R, KEEP),
    "filter by a batch": lambda: sf.filter(R, MARKS),
    "gather": lambda: sf.gather(R, PLACES),
    "cross": lambda: sf.cross(R, IDS),
    "shuffle": lambda: sf.shuffle(R, 3),
    "chunk": lambda: sf.chunk(R, 4, 1),
    "chunk, whole ones": lambda: sf.chunk(R, 4, 1, last="drop"),
    "chunk, from the end": lambda: sf.chunk(R, 4, 1, last="shift"),
    "concat": lambda: sf.concat([R, R]),
    "concat items": lambda: sf.concat([ITEM, R, ITEM]),
    "concat numbers": lambda: sf.concat((101, IDS, IDS, 102)),
    "interleave": lambda: sf.interleave([R, BACK]),
    "range": lambda: sf.slice(R, 0, 2),
    "pair": lambda: sf.truncate_pair(R, IDS, 9),
    "pair as it is": lambda: sf.truncate_pair(R, IDS, 99),
    "sort": lambda: sf.sort(IDS),
    "sort masked": lambda: sf.sort(M, descending=True),
    "sort padded": lambda: sf.sort(P),
    "argsort": lambda: sf.argsort(R),
    "argsort packed": lambda: sf.argsort(K),
    "topk": lambda: sf.topk(R, 3),
    "topk least": lambda: sf.topk(IDS, 30, largest=False),
    "unique": lambda: sf.unique(IDS),
    "run_starts": lambda: sf.run_starts(IDS),
}


# --- beside Python ----------------------------------------------------------------------------------------------------

KINDS = [sf.Ragged, sf.Masked, sf.Padded, sf.Packed, sf.LoD]
STRUCTURED = np.dtype([("a", "i4"), ("b", "f8")])
some_kinds = st.sampled_from([*KINDS, sf.Ragged, sf.Ragged, sf.Masked])
numbers = st.one_of(st.integers(-6, 6), st.sampled_from([None, 2**63 - 1, -(2**63), 2**70, True, 1.0, np.int64(2)]))


@st.composite
def drawn(draw):
    """A batch in some encoding."""
    _, x = draw(some_kinds.flatmap(lambda kind: strategies.encoded(kind, levels=1)))
    return x


@given(st.data())
def test_indices(data):
    x = data.draw(drawn())
    n = len(x)
    wild = st.lists(st.integers(-n - 1, n), max_size=6)
    index = data.draw(
        st.one_of(
            strategies.indices(n),
            wild,
            wild.map(np.array),
            wild.map(lambda places: np.repeat(np.array(places, np.int64), 2)[::2]),
            st.lists(st.one_of(numbers, st.integers(0, max(n - 1, 0))), max_size=4),
            st.integers(-n - 1, n),
            st.tuples(numbers, numbers, numbers).map(lambda bounds: slice(*bounds)),
        )
    )
    check(lambda: x[index])
    check(lambda: sf.select(x, index))


@given(st.data())
def test_repetitions(data):
    x = data.draw(drawn())
    counts = st.lists(st.integers(-1, 3), min_size=max(len(x) - 1, 0), max_size=len(x)).map(np.array)
    given = data.draw(st.one_of(st.integers(-1, 3), numbers, counts))
    if isinstance(given, int) and given > 100:
        return
    check(lambda: sf.repeat(x, given))


@given(st.data())
def test_cuts(data):
    x = data.draw(drawn())
    start, stop, step = data.draw(st.tuples(numbers, numbers, st.one_of(st.just(1), numbers)))
    check(lambda: sf.cut(x, start, stop, step))
    side = data.draw(st.sampled_from(["right", "left", "middle", "rig" + "ht", 3]))
    check(lambda: sf.truncate(x, start, side))
    check(lambda: sf.shift(x, start, data.draw(st.just(0))))
    check(lambda: sf.slice(x, start, stop))
    y = data.draw(st.sampled_from([x, x[::-1], x[:1]]))
    check(lambda: sf.truncate_pair(x, y, stop))


@given(st.data())
def test_marks(data):
    x = data.draw(drawn())
    marks = np.array(data.draw(st.lists(st.booleans(), min_size=x.rows, max_size=x.rows)), bool)
    shape = data.draw(st.sampled_from([(x.rows,), (x.rows, 1), (x.rows + 1,)]))
    form = data.draw(strategies.forms())
    keep = form(np.resize(marks, shape) if marks.size else np.zeros(shape, bool))
    lengths = x._structure.lengths
    check(lambda: sf.filter(x, keep))
    check(lambda: sf.filter(x, sf.Ragged(marks, lengths)))
    check(lambda: sf.filter(x, x._freeze(marks, x._structure) if type(x) is sf.Ragged else marks.astype(np.int8)))


@given(st.data())
def test_places(data):
    x = data.draw(drawn())
    lengths = x._structure.lengths.tolist()
    far = data.draw(st.integers(0, 1))
    index = [data.draw(st.lists(st.integers(-k - far, k - 1 + far), max_size=4)) if k else [] for k in lengths]
    flat = np.array([place for places in index for place in places], data.draw(st.sampled_from(["i8", "i4", ">i8"])))
    asked = sf.Ragged(flat, list(map(len, index)))
    check(lambda: sf.gather(x, asked))
    if type(x) is sf.Ragged and not far and flat.dtype == np.int64:
        assert sf.gather(x, asked)._structure is asked._structure


@given(st.data())
def test_parts(data):
    x = data.draw(drawn())
    y = data.draw(st.sampled_from([x, x[::-1], x[:1], x[0:0]])) if len(x) else x
    item = data.draw(st.sampled_from([7, 2**63, True, 0.5, strategies.counting(x.dtype, x.item_shape), np.zeros(2)]))
    for parts in ([x, x], (x, y, x), [item, x, item], (x, item, y), [], [item], x):
        check(lambda parts=parts: sf.concat(parts))
        check(lambda parts=parts: sf.interleave(parts))


@given(st.data())
def test_pairs(data):
    x, y = data.draw(drawn()), data.draw(drawn())
    check(lambda: sf.cross(x, y))
    check(lambda: sf.cross(x, x[::-1]))
    check(lambda: sf.cross(y, y[:0]))


@given(st.data())
def test_random_orders(data):
    x = data.draw(drawn())
    check(lambda: sf.shuffle(x, data.draw(st.just(5))))
    seed = data.draw(st.one_of(numbers, st.integers(0, 2**63 - 1)))
    check(lambda: sf.shuffle(x, seed))


@given(st.data())
def test_chunks(data):
    x = data.draw(drawn())
    last = data.draw(st.sampled_from(["keep", "drop", "shift", "pad", "ke" + "ep"[:2], "other"]))
    size = data.draw(st.one_of(st.integers(0, 5), numbers))
    overlap = data.draw(st.one_of(st.integers(0, 3), numbers))
    check(lambda: sf.chunk(x, size, overlap, last=last))
    check(lambda: sf.chunk(x, 2, last=last, fill=data.draw(st.just(0))))


def test_chunks_are_what_they_were():
    """Their gradient, the way back, and what is made of them without the extension."""
    sf.chunk(R, 4, 1)
    found = sf.chunk(R, 4, 1)
    with core.python_only():
        wanted = sf.chunk(R, 4, 1)
    for how in ("first", "mean", "max", "last"):
        assert same(sf.unchunk(found, how), sf.unchunk(wanted, how))
    assert same(found[1:3], wanted[1:3])
    assert same(pickle.loads(pickle.dumps(found)), wanted)
    assert found._sequence_lengths is R._lengths


@given(st.data())
def test_orders(data):
    x = data.draw(drawn())
    falling = data.draw(st.sampled_from([True, False, True, False, np.True_, 1, None]))
    check(lambda: sf.sort(x, descending=falling))
    check(lambda: sf.argsort(x, descending=falling))
    check(lambda: sf.unique(x))
    check(lambda: sf.unique(x, counts=True))
    check(lambda: sf.run_starts(x))
    k = data.draw(st.one_of(numbers, st.integers(0, 5)))
    check(lambda: sf.topk(x, k, largest=falling))


@pytest.mark.parametrize("dtype", [*strategies.FLOATS, "i1", "u8", "?"])
def test_orders_of_dtypes(dtype):
    if np.dtype(dtype).kind not in "iufb" or np.dtype(dtype).itemsize == 2:
        pytest.importorskip("numba")  # no code is shipped for rare ones
    x = sf.Ragged((RNG.standard_normal(9) * 3).astype(dtype), [3, 0, 2, 4])
    for call in (lambda: sf.sort(x), lambda: sf.argsort(x), lambda: sf.unique(x), lambda: sf.topk(x, 2)):
        call()
        check(call)
    check(lambda: sf.run_starts(x))


@pytest.mark.parametrize("dtype", [STRUCTURED, ">f4", "?", "M8[s]", "c16", "f2", "V3", "S5"])
def test_dtypes(dtype):
    lengths = [3, 0, 2, 4]
    data = np.frombuffer(RNG.bytes(9 * np.dtype(dtype).itemsize), dtype).copy()
    if np.dtype(dtype) == bool:
        data = RNG.random(9) < 0.5
    x = sf.Ragged(data, lengths)
    places = sf.Ragged(np.array([2, -1, 0]), [1, 0, 1, 1])
    for call in (
        lambda: x[[3, 0, 3]],
        lambda: sf.cut(x, 1, None),
        lambda: sf.filter(x, RNG.random(9) < 2),
        lambda: sf.gather(x, places),
        lambda: sf.concat([x, x]),
        lambda: sf.interleave([x, x]),
        lambda: sf.shift(x, 1),
        lambda: sf.shuffle(x, 1),
        lambda: sf.repeat(x, 2),
    ):
        check(call)


class Mine(np.ndarray):
    """An array of a user's own type."""


class Batch(sf.Ragged):
    """An encoding of a user's own type."""


def test_other_types_take_the_python_way():
    mine = sf.Ragged(R.data.view(Mine), R.lengths)
    batch = Batch(R.data, R.lengths)
    assert type(mine.data) is np.ndarray
    assert core.pick(batch, INDEX) is None
    for x in (mine, batch):
        check(lambda x=x: x[INDEX])
        check(lambda x=x: sf.cut(x, 1, 2))
    for index in (INDEX.view(Mine), INDEX.astype("i4"), INDEX[::2], (1, 2), True, np.True_, "a", None, 1.5):
        assert core.pick(R, index) is None
    for args in ((), (R,), (R, INDEX, 0), (3, INDEX), (None, None)):
        assert core.pick(*args) is None


def test_data_that_was_changed_is_seen():
    """It is no longer what was validated."""
    x = sf.Ragged(np.arange(10.0), [4, 6])
    check(lambda: x[[1, 0]])
    x.data.resize(5, refcheck=False)
    check(lambda: x[[1, 0]])
    check(lambda: sf.cut(x, 1))
    check(lambda: sf.filter(x, np.ones(10, bool)))
    check(lambda: sf.concat([x, x]))
    check(lambda: sf.shift(x, 1))


def test_results_are_as_any_batch():
    for call in CALLS.values():
        call()
        y = call()
        assert gc.is_tracked(y)
        if isinstance(y, tuple):
            assert type(y) is (sf.TopK if hasattr(y, "places") else tuple)
            y = y[1]
        if isinstance(y, sf.Pairs):
            assert sf.equal(pickle.loads(pickle.dumps(y)).two, y.two)
            y = y.one
        assert sf.equal(pickle.loads(pickle.dumps(y)), y)
        assert sf.equal(copy.copy(y), y)
        died = weakref.ref(y)
        del y
        if died() is not None:
            gc.collect()
        assert any(died() is x for x in (None, R, IDS))


def test_views_keep_what_they_show():
    x = sf.Ragged(np.arange(10), [4, 6])
    for y in (x[1], x[0:2], x[1:1]):
        assert np.shares_memory(y.data, x.data) or not y.rows
        assert y.data.base is x.data
        y.data[...] = 7
    x.data.flags.writeable = False
    assert not x[1].data.flags.writeable


def test_large_batches_take_the_python_way():
    x = sf.Ragged(np.zeros((1 << 17, 48)), [1 << 17])
    assert core.pick(x, [0]) is None
    check(lambda: x[[0]])


# --- what calls leave behind ------------------------------------------------------------------------------------------


def spans(size):
    """Build a structure of lengths up to `size`; with a negative number the kernel makes none."""
    return core.build_structure(_spans, len(R), 1, R._structure.lengths, size)


def _spans(lengths, size, table):
    n = lengths.size
    table[:n] = np.minimum(lengths, abs(size))
    table[n] = 0
    np.cumsum(table[:n], out=table[n + 1 : 2 * n + 1])
    table[-1] = 7
    return int(table[:n].max()) if size > 0 else -1


ONE = np.ones(1, np.int64)
PRIMITIVES = {
    "structured": lambda: spans(4),
    "structured, refused": lambda: spans(-4),
    "lay_out": lambda: core.lay_out(R._read(), sf.Masked, (40, "left"), ()),
    "lay_out by steps": lambda: core.lay_out(P._read(), sf.Packed, (), ()),
    "over": lambda: shift_rows.move_rows(R, None, ONE, 0, 0),
    "over to others": lambda: move_kept.move_rows(R, KEPT._structure, KEPT._structure.offsets, KEEP.view(np.uint8), 0),
    "filled": lambda: core.make_object(sf.Pairs, one=R, two=IDS),
}
KEPT = sf.filter(R, KEEP)
shift_rows, move_kept = kernel("shift_rows"), kernel("move_kept")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_primitives_do_what_their_twins_do(name):
    """Those that Python would do give None where they are off; the others have twins."""
    sf.shift(R, 1)
    found = PRIMITIVES[name]()
    with core.python_only():
        twin = PRIMITIVES[name]()
    if name.startswith(("structured", "filled")):
        assert same(found, twin)
    else:
        assert found is not None
        assert twin is None


def test_what_is_not_plain_is_left_to_python():
    fields = R._read()
    late = (*fields[:3], None, *fields[4:])
    for args in ((fields, sf.LoD, (), ()), (fields, sf.List, (), ()), (fields, sf.Masked, (2, "left"), ())):
        assert core.lay_out(*args) is None
    for source, padding in ((fields, np.zeros(1, "u1")), (fields[:-1], ()), (late, ())):
        args = source, sf.Ragged, (), padding
        assert core.lay_out(*args) is None
    for x in (sf.List([R.data]), R.data, Batch(R.data, R.lengths)):
        assert shift_rows.move_rows(x, None, ONE, 0, 0) is None
    assert move_kept.move_rows(P, KEPT._structure, KEPT._structure.offsets, KEEP.view(np.uint8), 0) is None


def watched():
    """What the calls take, and what they are made of."""
    found = (R, R.data, R._structure, R.lengths, R.data.dtype, M, M._structure, P, IDS, KEEP, PLACES)
    return (*found, PLACES._structure, INDEX, ITEM, None, True, np.dtype(np.int64), sf.Ragged, sf.Masked)


def refused(operation, *args):
    with pytest.raises((TypeError, IndexError, sf.StructureError, sf.ConversionError)):
        operation(*args)


REFUSED = {
    "an index that is too large": lambda: core.pick(R, [1, 99]),
    "no index": lambda: core.pick(R, [1, "a"]),
    "another dtype": lambda: refused(sf.gather, R, R),
    "a place that is none": lambda: refused(sf.gather, R, WRONG),
    "a part of other lengths": lambda: refused(sf.concat, [R, R, IDS]),
    "a step of 0": lambda: refused(sf.cut, R, 0, 1, 0),
}
WRONG = sf.Ragged(np.full(8, 99), [1] * 8)


@pytest.mark.parametrize("name", [*CALLS, *PRIMITIVES, *REFUSED])
def test_nothing_is_left_behind(name):
    leaks.assert_nothing_is_left((CALLS | PRIMITIVES | REFUSED)[name], watched())


def test_eight_threads():
    wide = sf.Ragged(np.arange(300_000.0).reshape(-1, 100), [1000, 500, 1500])
    wanted = wide[[2, 0]].data.tobytes()
    wrong = []

    def work():
        for _ in range(20):
            for name, call in CALLS.items():
                if not same(call(), results[name]):
                    wrong.append(name)
            if wide[[2, 0]].data.tobytes() != wanted:
                wrong.append("wide")

    results = {name: call() for name, call in CALLS.items()}
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_interrupts():
    """They come up behind a call, and leave nothing half done."""
    results = {name: call() for name, call in CALLS.items()}
    before, _, _ = leaks.counted(watched())

    def work():
        for name, call in CALLS.items():
            assert same(call(), results[name])

    assert interrupted(work, 200, after=0.0002) == 200
    results.clear()
    after, _, _ = leaks.counted(watched())
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) <= 200
