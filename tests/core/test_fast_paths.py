"""Fast paths make what Python makes, bit for bit, or leave it alone; they add no reference and take no memory."""

import functools
import gc
import operator
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats import core
from seqformats.arrays import NUMPY
from seqformats.formats import Encoding
from seqformats.formats.chunks import Origin
from seqformats.formats.structure import Structure
from seqformats.launch.kernel import kernel
from seqformats.operations.companions import NO_MARKS

pytestmark = [
    pytest.mark.skipif(core.extension is None, reason="the extension is not built here"),
    pytest.mark.passes("compiled", reason="fast paths run machine code"),
]

KINDS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed)
_add_up = kernel("marked_sums")
DTYPES = ["f4", "f8", "i8", "i4", "u1", "?", "f2", "c8", "M8[ns]", "S5", ">f4", [("a", "i4"), ("b", "f8")]]


@st.composite
def batches(draw, items=((), (1,), (3,), (4,), (2, 5), (0,), (33,)), dtypes=DTYPES):
    """Data, lengths and a `Ragged` of them: all dtypes, items of every shape, empties."""
    lengths = draw(st.lists(st.integers(0, 7), max_size=8))
    item = draw(st.sampled_from(items))
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    count, width = sum(lengths), int(np.prod(item, dtype=int))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    junk = rng.integers(0, 2 if dtype.kind == "b" else 120, max(count * width, 1) * dtype.itemsize, np.uint8)
    data = np.frombuffer(junk.tobytes(), dtype, count=count * width).reshape(count, *item)
    return data, lengths, sf.Ragged(data, lengths)


def same(a, b):
    """Are both equal to the bit, frozen flags included?"""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        flags = [(x.flags.c_contiguous, x.flags.aligned, x.flags.writeable) for x in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and flags[0] == flags[1] and a.tobytes() == b.tobytes()
    if isinstance(a, Structure):
        parts = ("lengths", "offsets", "n", "rows", "longest", "stable")
        return all(same(getattr(a, name), getattr(b, name)) for name in parts)
    if isinstance(a, (Encoding, sf.Pairs, Origin)):
        slots = {name for base in type(a).__mro__ for name in vars(base).get("__slots__", ())} - {"__weakref__"}
        return all(same(getattr(a, name), getattr(b, name)) for name in slots)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if hasattr(a, "untyped_storage"):
        facts = [(x.dtype, x.shape, x.device, x.requires_grad, x.is_contiguous()) for x in (a, b)]
        return facts[0] == facts[1] and bytes_of(a) == bytes_of(b)
    return a == b


def bytes_of(tensor):
    torch = sys.modules["torch"]
    flat = tensor.detach().contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def outcome(call):
    try:
        return call()
    except Exception as error:  # of any kind: the message is compared
        return f"{type(error).__name__}: {error}"


def check(call):
    """Check that fast paths change no outcome; twice, since Python tells them of kernels and dtypes."""
    with core.python_only(), np.errstate(all="ignore"):
        expected = outcome(call)
    for _ in range(2):
        with np.errstate(all="ignore"):
            found = outcome(call)
        assert same(found, expected)


def fresh(x):
    """Make the same batch over a structure of which no order is known."""
    return x._freeze(x.data, Structure(x._structure.lengths, x._structure.offsets, x._structure.longest), *x._form())


def lod_of(x):
    return sf.LoD(x.data, [x.offsets])


@given(batches(), st.integers(0, 10))
def test_constructors(batch, odd):
    data, lengths, x = batch
    given = [
        *(lengths, tuple(lengths), np.array(lengths, np.int64), np.array(lengths, np.int32), [*lengths, 0]),
        *([k + 1 for k in lengths], [-1, *lengths], [float(k) for k in lengths], np.array(lengths * 2, np.int64)[::2]),
        *(list(map(np.int64, lengths)), np.array([lengths], np.int64)),
    ][odd]
    check(lambda: sf.Ragged(data, given))
    wide = sf.convert(x, sf.Masked).data
    for side in ("right", "left", "up"):
        check(lambda side=side: sf.Masked(wide, given, side))
    arrays = np.split(data, np.cumsum(lengths)[:-1]) if lengths else []
    odd_arrays = [arrays, tuple(arrays), [*arrays, np.zeros((1, 9))], [*arrays, None], [*arrays, data[:, None]]]
    check(lambda: sf.List(odd_arrays[odd % 5]))
    check(lambda: sf.List(odd_arrays[odd % 5], data))


@given(batches(), st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_conversions(batch, source, target):
    data, lengths, x = batch
    y = sf.convert(x, source)
    for made in (y, fresh(y), fresh(sf.convert(x, sf.Masked, side="left", width=9))):
        check(lambda made=made: sf.convert(made, target))
        if target in (sf.Masked, sf.Padded):
            for fill in (1, -0.0, 2.5, x.data[0] if x.rows else 3):
                check(lambda made=made, fill=fill: sf.convert(made, target, fill=fill))
    arrays = np.split(data, np.cumsum(lengths)[:-1]) if lengths else []
    for bare in (arrays, tuple(arrays), [*arrays, data[:0]], [*arrays, 1], sf.List(arrays, data)):
        check(lambda bare=bare: sf.convert(bare, target))


CALCULATIONS = {
    **{
        name: getattr(sf, f"reduce_{name}")
        for name in ("sum", "mean", "max", "min", "prod", "logsumexp", "first", "last")
    },
    **{name: getattr(sf, name) for name in ("softmax", "log_softmax", "cumsum", "reverse", "run_starts")},
    "windows": lambda x: sf.window(x, 1, 2),
    "none else": lambda x: sf.reduce_max(x, empty=0.0),
    "wrong": lambda x: sf.window(x, -1, 2),
}


@pytest.mark.parametrize("name", CALCULATIONS)
@given(batches(), st.sampled_from(KINDS))
def test_calculations(name, batch, kind):
    _, _, x = batch
    for y in (sf.convert(x, kind), sf.convert(x, sf.Masked, side="left", width=9), lod_of(x)):
        check(lambda y=y: CALCULATIONS[name](y))


GRADIENTS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_first", "reduce_last", "softmax", "log_softmax")


@pytest.mark.parametrize("name", [*GRADIENTS, "cumsum", "reverse", "reduce_logsumexp", "reduce_prod"])
@given(batches(), st.sampled_from(KINDS))
def test_gradients(name, batch, kind):
    lengths = batch[1]
    rows = np.random.default_rng(0).standard_normal((sum(lengths), 3)).astype("f4")
    for y in (sf.convert(sf.Ragged(rows, lengths), kind), lod_of(sf.Ragged(rows, lengths))):
        z, pullback = sf.vjp(getattr(sf, name), y)
        check(lambda z=z, pullback=pullback: pullback(z))


@given(batches(), st.sampled_from(KINDS))
def test_spreading(batch, kind):
    data, lengths, x = batch
    y = sf.convert(x, kind)
    for rows in (data[:1].repeat(len(lengths), 0), np.ones((len(lengths), 2)), np.ones(len(lengths) + 1), data):
        check(lambda rows=rows: sf.expand_as(rows, y))
        check(lambda rows=rows: sf.expand_as(rows, lod_of(x)))
        check(lambda rows=rows: sf.expand(rows, y))


@given(batches(), st.data())
def test_indexing(batch, data):
    _, lengths, x = batch
    n = len(lengths)
    bounds = st.none() | st.integers(-n - 2, n + 2)
    numbers = st.lists(st.integers(-n - 1, n), max_size=5)
    arrays = numbers.map(lambda found: np.array(found, np.int64))
    odd = st.sampled_from([[True] * n, np.array([True] * n), [1.0], 1.0, None, "a", [2**70], 2**70, True])
    slices = st.builds(slice, bounds, bounds, bounds)
    index = data.draw(numbers | arrays | st.integers(-n - 2, n + 1) | slices | odd)
    counts = data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n).map(np.array) | st.integers(-1, 3) | odd)
    for y in (x, sf.convert(x, sf.Masked), sf.convert(x, sf.Padded)):
        check(lambda y=y: y[index])
        check(lambda y=y: sf.repeat(y, counts))


@given(batches(), st.sampled_from(["add", "mul", "truediv", "lt", "neg"]), st.sampled_from(KINDS))
def test_functions_of_items(batch, name, kind):
    """Functions of items take fast paths with numbers, arrays and batches, and none with what does not fit."""
    data, lengths, x = batch
    y, operate = sf.convert(x, kind), getattr(operator, name)
    row, other = np.ones(x.item_shape), sf.convert(sf.Ragged(data[::-1].copy(), lengths), kind)
    beside = [2, -0.5, 10**400, True, np.float32(3), row, row[..., None], row.astype(object), y, other, x]
    for one in [*beside, y._with_data(other.data), lod_of(x), None, "a"]:
        check(lambda one=one: operate(y) if name == "neg" else operate(y, one))
        check(lambda one=one: sf.where(run_of(y), y, one))


def run_of(x):
    """Bools in the layout of a batch."""
    return x._with_data(np.arange(np.prod(x.data.shape[: x._lead], dtype=int)).reshape(x.data.shape[: x._lead]) % 3 > 0)


@given(batches(), st.sampled_from(["sum", "mean", "max", "none"]), st.integers(-1, 3), st.booleans())
def test_bags(batch, mode, beyond, weighted):
    """Also of ids that are no rows, and of what is no table."""
    data, lengths, _ = batch
    ids = np.arange(sum(lengths)) * 7 % max(len(data), 1)
    ids[-1:] += (beyond > 0) * beyond - len(ids) * (beyond < 0)
    weights = data.reshape(-1)[: len(ids)].copy() if weighted else None
    for x in (sf.Ragged(ids, lengths), sf.Ragged(ids.astype("i4"), lengths), lod_of(sf.Ragged(ids, lengths))):
        check(lambda x=x: sf.embedding_bag(data, x, weights, mode))


def companions(x, y):
    """Calls of kernels that take several batches, of one with its companions in another encoding or the same."""
    marks = y._with_data(y.data > 60)
    rows = x.data.reshape(-1)[: len(x)].copy()
    return [
        lambda: sf.rl.ratios(x, y, where=marks),
        lambda: sf.rl.policy_loss(x, y, y, where=marks, level="sequence"),
        lambda: sf.rl.policy_loss(x, y, rows, clip=None),
        lambda: sf.rl.mean_loss(x, where=marks),
        lambda: sf.rl.gae(x, y, gamma=0.5, lam=0.9, where=marks, done=marks),
        lambda: sf.recurrence(x, 0.5, where=marks),
        lambda: sf.standardize(x, where=marks),
        lambda: sf.reduce_sum(x, weights=y),
        lambda: sf.filter(x, marks),
    ]


LEAVES = [
    st.floats(width=64),
    st.integers(-9, 9),
    st.sampled_from([2**63 - 1, -(2**63), -1, 2**63]),
    st.booleans(),
    st.sampled_from([0, 1.5, True, None, "a", np.float64(2), (1,)]),
]


@given(st.data(), st.integers(0, 3))
def test_nested_numbers(data, depth):
    """And back again: plain ones, tuples among them, leaves of several types, lists that lie less deep."""
    tree = st.lists(data.draw(st.sampled_from(LEAVES)), max_size=4)
    for _ in range(depth):
        tree = st.lists(tree | tree.map(tuple), max_size=3)
    found = data.draw(tree)
    for kind in (sf.Ragged, sf.LoD):
        check(lambda kind=kind: sf.convert(found, kind))
        check(lambda kind=kind: repr(sf.convert(sf.convert(found, kind), list)))


@given(batches(), batches(), st.sampled_from(KINDS), st.data())
def test_joining(batch, another, kind, data):
    """Also batches that do not fit each other, single items, and what is no list."""
    x, z = batch[2], another[2]
    others = [x, x[::-1], x._with_data(x.data.copy()), sf.convert(x, kind), lod_of(x), z, x.data[:0], 1, list(x.data)]
    parts = [x, *[others[k] for k in data.draw(st.lists(st.integers(0, len(others) - 1), max_size=3))]]
    for found in (parts, tuple(parts), parts[1:], x):
        check(lambda found=found: sf.concat(found))
        check(lambda found=found: sf.interleave(found))


@given(batches(items=[(), (), (2,)], dtypes=["f4", "f4", "f8", "f2", "i8", "?"]), *[st.sampled_from(KINDS)] * 2)
def test_companions(batch, kind, other):
    """Also those of other lengths, widths and sides."""
    data, lengths, x = batch
    y = sf.convert(sf.Ragged(data[::-1].copy(), lengths), other)
    x = sf.convert(x, kind)
    wide, left = [sf.convert(x, sf.Masked, width=9, side=side) for side in ("right", "left")]
    pairs = (x, y), (x, x._with_data(x.data.copy())), (x, y[::-1]), (wide, left), (wide, sf.convert(y, sf.Masked))
    for one, two in pairs:
        for call in companions(one, two):
            check(call)


# --- what may not change ----------------------------------------------------------------------------------------------


def calls_of(data):
    """List some calls of every family, plain ones and mistakes."""
    x = sf.Ragged(data, [15] * 8)
    arrays = [x.data[15 * i : 15 * i + 15] for i in range(8)]
    padded, rows = sf.convert(x, sf.Padded), x.data[:8]
    deep, ids = sf.LoD(data, [x.offsets]), sf.Ragged(np.arange(120), [15] * 8)
    twin, one, sums = sf.Ragged(ids.data, [15] * 8), np.zeros(120, np.float32), np.zeros((8, 3))
    numbers = [[[1.5, 2.5], (3.5,)], [[4.5]]]
    calls = [
        *[lambda to=to: sf.convert(arrays, to) for to in KINDS],
        *[lambda to=to: sf.convert(padded, to) for to in KINDS],
        *[lambda to=to: sf.convert(sf.List(arrays), to) for to in KINDS],
        *[functools.partial(f, y) for f in (sf.reduce_sum, sf.softmax, sf.reverse) for y in (x, padded, deep)],
        lambda: sf.Ragged(data, [15] * 8),
        lambda: sf.window(x, 1, 1),
        lambda: sf.expand_as(rows, padded),
        lambda: sf.expand(rows, x),
        *[lambda i=i: x[i] for i in ([1, 3], 2, slice(1, 3))],
        lambda: sf.repeat(x, 2),
        *[lambda mode=mode: sf.embedding_bag(data, ids, None, mode) for mode in ("sum", "mean", "max")],
        lambda: sf.convert(numbers, sf.LoD),
        lambda: core.read_numbers(([1.0, 2.0], [3]), True),
        lambda: core.write_numbers(ids.data, (ids.offsets,)),
        lambda: core.scan_arrays((data, data), True),
        lambda: core.common_flags((data, x)),
        lambda: sf.concat([x, x]),
        lambda: core.interleave([x, ids]),
        lambda: core.asks_nothing((x, data)),
        lambda: core.data_alike(ids, twin, ids.data),
        lambda: core.data_alike(ids, x, data),
        lambda: core.is_plain(data),
        lambda: core.start({}, None, (data, (data, 1)), (data,), (1,), 1, 1, 1, 1 << 30),
        lambda: _add_up.start(NUMPY, (one, NO_MARKS), (sums,), (ids._layout(),), 1, ids._structure),
        lambda: core.construct(x),
        lambda: core.pick(x, [99]),
        lambda: core.list_of([data, 1]),
        *[lambda one=one: core.map_items(operator.add, x, one) for one in (2, data[0], x, data)],
    ]
    facts = [
        x,
        data,
        x._structure,
        x._dtype,
        x._structure.lengths,
        arrays[0],
        padded._structure.order,
        rows,
        ids.data,
        one,
        sums,
    ]
    return calls, facts


def test_references_and_memory():
    calls, watched = calls_of(np.zeros((120, 16), np.float32))
    counts, sizes = [], []
    tracemalloc.start()
    try:
        for repeats in (50, 3000):  # 10^5 calls
            for call in calls:
                for _ in range(repeats):
                    call()
            gc.collect()
            counts.append([sys.getrefcount(thing) for thing in watched])
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert counts[0] == counts[1]
    assert sizes[1] - sizes[0] < 10000  # fewer bytes than calls
