"""Events and series of measurements: search, sets, counts, differences, the last known item, windows by time."""

import bisect
import math
import pickle

import numpy as np
import oracle
import pytest
import strategies
from checks import assert_result, assert_slopes, mapped, rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.formats.overlapping import in_place

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
NUMBERS = [np.dtype(code) for code in ("i8", "f4", "?", "u1", "i2", "u8", "f2", "f8", ">f4", ">i8")]
FLOATS = [np.dtype(code) for code in ("f4", "f8")]


def key(value):
    """The order of numbers, NaN being the last."""
    return (1, 0) if value != value else (0, value)


def beside(data, arrays, truth, x, rise=False, dtype=None):
    """As many sequences of some numbers as `truth` has, in any encoding; and their lists."""
    n, rng = len(truth.sequences()), np.random.default_rng(data.draw(st.integers(0, 99)))
    lengths = data.draw(st.lists(st.sampled_from([0, 1, 3, 40]), min_size=n, max_size=n))
    dtype = dtype or data.draw(st.sampled_from(arrays.of(NUMBERS)))
    values = np.array([0, 1, 2, 5, 9, 44] + ([math.nan, math.inf] if dtype.kind == "f" else []), dtype)
    parts = [rng.choice(values, k) for k in lengths]
    parts = [np.array(sorted(part, key=key) if rise else part, dtype) for part in parts]
    kind = data.draw(st.sampled_from(oracle.ENCODINGS))
    return sf.convert(sf.Ragged(np.concatenate([np.zeros(0, dtype), *parts]), lengths), kind), parts


def alone(items):
    return [np.asarray(item).reshape(-1)[0].item() for item in items]


def shaped(answers, truth, dtype="i8"):
    """Answers an item as items like those of the truth."""
    return mapped(
        truth,
        lambda items, i: [np.array(a, dtype).reshape(truth.item_shape) for a in answers(alone(items), i)],
        dtype=dtype,
    )


@every_format
@given(data=st.data())
def test_searchsorted_and_merge_asof(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(NUMBERS), shapes=[(), (1,)]))
    y, parts = beside(data, arrays, truth, x, rise=True)
    if not truth.sequences():
        return
    lists = [part.tolist() for part in parts]
    side, direction = (
        data.draw(st.sampled_from(["left", "right"])),
        data.draw(st.sampled_from(["backward", "forward", "nearest"])),
    )
    limit = data.draw(st.sampled_from([None, 0, 1, 3]))
    by = bisect.bisect_left if side == "left" else bisect.bisect_right
    wanted = shaped(lambda items, i: [by(lists[i], key(v), key=key) for v in items], truth)
    assert_result(arrays.on(lambda x, y: sf.searchsorted(y, x, side))(x, y), x, wanted)
    edges = np.arange(data.draw(st.sampled_from([0, 3, 50])))
    wanted = shaped(lambda items, i: [by(edges.tolist(), key(v), key=key) for v in items], truth)
    assert_result(arrays.on(lambda x: sf.searchsorted(edges, x, side))(x), x, wanted)

    def match(value, part):
        before = [t for t, other in enumerate(part) if other <= value]
        behind = [t for t, other in enumerate(part) if other >= value]
        found = {"backward": before[-1:], "forward": behind[:1], "nearest": before[-1:] + behind[:1]}[direction]
        apart = {t: 0 if part[t] == value else abs(float(value) - float(part[t])) for t in found}
        found = [t for t in found if limit is None or apart[t] <= limit]
        return min(found, key=apart.get) if found else -1

    wanted = shaped(lambda items, i: [match(v, lists[i]) for v in items], truth)
    assert_result(arrays.on(lambda x, y: sf.merge_asof(x, y, tolerance=limit, direction=direction))(x, y), x, wanted)


@every_format
@given(data=st.data())
def test_isin_and_intersect(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(NUMBERS), shapes=[(), (1,)]))
    y, parts = beside(data, arrays, truth, x)
    if not truth.sequences():
        return
    lists = [part.tolist() for part in parts]
    wanted = shaped(lambda items, i: [v in set(lists[i]) - {math.nan} and v == v for v in items], truth, "?")
    assert_result(arrays.on(sf.isin)(x, y), x, wanted)
    every = np.arange(data.draw(st.sampled_from([0, 3, 50])))
    wanted = shaped(lambda items, i: [v == v and v in set(every.tolist()) for v in items], truth, "?")
    assert_result(arrays.on(lambda x: sf.isin(x, every))(x), x, wanted)
    common = mapped(
        truth,
        lambda items, i: [
            np.array(v, truth.dtype).reshape(truth.item_shape)
            for v in sorted({v for v in alone(items) if v == v and v in lists[i]})
        ],
    )
    found = arrays.on(sf.intersect)(x, y)
    if not isinstance(x, list):
        assert type(found) is type(x)
        assert rows(found).tolist() == common.data().tolist()


@every_format
@given(data=st.data())
def test_bincount(arrays, kind, data):
    truth, x = data.draw(
        strategies.encoded(
            kind, kinds=arrays.of([np.dtype(c) for c in ("i8", "u1", "i4", "?", ">i8")]), shapes=[(), (1,)]
        )
    )
    lists = [alone(items) for items in truth.sequences()]
    size = 1 + max((int(v) for part in lists for v in part), default=0)
    if min((int(v) for part in lists for v in part), default=0) < 0 or size > 500:
        return
    weights = np.random.default_rng(0).integers(-9, 9, truth.rows()).astype("f4")
    counts, sums, r = np.zeros((len(lists), size), "i8"), np.zeros((len(lists), size), "f4"), 0
    marked = np.zeros((len(lists), size), "i8")
    for i, part in enumerate(lists):
        for v in part:
            counts[i, int(v)] += 1
            sums[i, int(v)] += weights[r]
            marked[i, int(v)] += weights[r] > 0
            r += 1
    for found, wanted in (
        (arrays.on(sf.bincount)(x, size), counts),
        (arrays.on(lambda x: sf.bincount(x, size, weights=arrays.beside(x, weights)))(x), sums),
        (arrays.on(lambda x: sf.bincount(x, size, weights=weights > 0))(x), marked),  # a mask of NumPy
    ):
        flat = found.data if isinstance(found, sf.LoD) else rows(found) if isinstance(found, list) else found
        np.testing.assert_array_equal(flat, wanted)
        assert isinstance(found, list) or flat.dtype == wanted.dtype


@every_format
@given(data=st.data())
def test_diff(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([*NUMBERS, np.dtype("c8")])))
    n = data.draw(st.integers(0, 3))
    with np.errstate(all="ignore"):
        wanted = mapped(truth, lambda items, _: list(np.diff(truth.array(items), n, axis=0)) if len(items) else [])
    if truth.dtype == np.dtype("f2") or n == 0:
        return  # rounded once here, in each step there; and no difference is the batch itself
    found = arrays.on(sf.diff)(x, n)
    if not isinstance(x, list):
        assert type(found) is type(x)
        np.testing.assert_array_equal(rows(found), wanted.data())
        assert oracle.read(found).counts() == wanted.counts()


@every_format
@given(data=st.data())
def test_ffill(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([*FLOATS, np.dtype("f2"), np.dtype("i8")])))
    marks = np.random.default_rng(data.draw(st.integers(0, 9))).random(truth.rows()) < 0.5
    begins = np.cumsum([0, *map(len, truth.sequences())])

    def filled(items, i):
        out = [np.array(item) for item in items]
        for t in range(1, len(out)):
            out[t] = np.where(out[t] == out[t], out[t], out[t - 1]).astype(truth.dtype)
        return out

    def by_marks(items, i):
        out = list(items)
        last = None
        for t in range(len(out)):
            last = t if marks[begins[i] + t] else last
            out[t] = items[t if last is None else last]
        return out

    assert_result(arrays.on(sf.ffill)(x), x, mapped(truth, filled))
    assert_result(arrays.on(sf.ffill)(x, marks), x, mapped(truth, by_marks))


@every_format
@given(data=st.data())
def test_sort_by_and_window_with_a_filling(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([np.dtype(c) for c in ("f4", "i8", "u1")])))
    lengths = truth.lengths()
    keys = np.random.default_rng(data.draw(st.integers(0, 9))).choice([math.nan, 1, 2, 3], sum(lengths)).astype("f4")
    parts = np.split(keys, np.cumsum(lengths)[:-1]) if lengths else []
    falling = data.draw(st.booleans())

    def ordered(items, i):
        own = [(key(v.item())[0], (-1 if falling else 1) * key(v.item())[1], t) for t, v in enumerate(parts[i])]
        return [items[t] for *_, t in sorted(own)]

    by = sf.convert(sf.Ragged(keys, lengths), data.draw(st.sampled_from(oracle.ENCODINGS)))
    if lengths:
        found = arrays.on(lambda x, by: sf.sort(x, by=by, descending=falling))(x, by)
        assert_result(found, x, mapped(truth, ordered))
    before, after = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))

    def windows(items, _):
        fill = [np.full(truth.item_shape, 7, truth.dtype)]
        wide = fill * before + [np.asarray(item) for item in items] + fill * after
        many = [wide[t : t + before + 1 + after] for t in range(len(items))]
        return [np.concatenate(own) if truth.item_shape else np.array(own, truth.dtype) for own in many]

    item = truth.item_shape
    count = before + 1 + after
    wanted = mapped(truth, windows, (count * item[0], *item[1:]) if item else (count,))
    assert_result(arrays.on(lambda x: sf.window(x, before, after, fill=7))(x), x, wanted)


@every_encoding
def test_gradients(arrays, kind):
    x = oracle.build(kind, strategies.truth_from([3, 0, 1, 5], np.dtype("f8"), (2,)))
    marks = np.array([0, 1, 0, 1, 0, 0, 1, 1, 0], bool)
    assert_slopes(lambda x: arrays.vjp(sf.diff, x, 2), [x])
    assert_slopes(lambda x: arrays.vjp(sf.ffill, x, marks), [x])
    assert_slopes(lambda x: arrays.vjp(sf.window, x, 1, 2, fill=-1), [x])
    keys = sf.Ragged(np.array([3, 1, 2, 0, 5, 5, 1, 0, 9]), [3, 0, 1, 5])
    assert_slopes(lambda x: arrays.vjp(sf.sort, x, by=arrays.up(keys) if not arrays.first else keys), [x])
    times = sf.Ragged(np.array([0, 1, 5, 0, 0, 2, 3, 3, 9]), [3, 0, 1, 5])
    assert_slopes(lambda x: arrays.vjp(sf.window_by, x, times, 1, 2), [x])
    data = np.where(marks[:, None], np.arange(18.0).reshape(9, 2), np.nan)
    data[:, 0] = np.nan
    holes = sf.convert(sf.Ragged(data, [3, 0, 1, 5]), kind)
    _, pullback = arrays.vjp(sf.ffill, holes)
    dx = rows(pullback(sf.convert(sf.Ragged(np.ones((9, 2)), [3, 0, 1, 5]), kind)))
    assert dx.T.tolist() == [[1.0] * 9, [1, 2, 0, 1, 1, 1, 1, 2, 0]]


@every_encoding
def test_gradient_of_weights(arrays, kind):
    x = sf.convert(sf.Ragged(np.array([0, 2, 2, 1, 3]), [3, 0, 2]), sf.Padded)
    w = sf.convert(sf.Ragged(np.arange(5.0), [3, 0, 2]), kind)
    assert_slopes(lambda w: arrays.vjp(sf.bincount, arrays.up(x) if not arrays.first else x, 4, w), [w])
    with pytest.raises(TypeError, match="a count has no gradient"):
        sf.vjp(sf.bincount, x, 4)


# ------------------------------------------------------------------------------------------------ windows by time

REDUCTIONS = [getattr(sf, name) for name in sf.__all__ if name.startswith("reduce_") and name != "reduce_quantile"]


@every_format
@given(data=st.data())
def test_windows_by_time(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of([np.dtype(c) for c in ("f8", "i8", "f4")])))
    lengths = truth.lengths()
    whole = data.draw(st.booleans())
    gaps = np.random.default_rng(data.draw(st.integers(0, 9))).choice([0, 1, 2] if whole else [0, 0.5, 2], sum(lengths))
    parts = [np.cumsum(part) for part in (np.split(gaps, np.cumsum(lengths)[:-1]) if lengths else [])]
    closed, before, after = data.draw(
        st.tuples(
            st.sampled_from(["both", "left", "right", "neither"]), st.sampled_from([0, 1, 2.5]), st.sampled_from([0, 2])
        )
    )

    def near(here, there):
        low = there >= here - before if closed in ("both", "left") else there > here - before
        return low and (there <= here + after if closed in ("both", "right") else there < here + after)

    flat = [
        [[item for item, there in zip(items, parts[i], strict=True) if near(here, there)] for here in parts[i]]
        for i, items in enumerate(truth.sequences())
    ]
    keys = sf.Ragged(np.concatenate([gaps[:0], *parts]), lengths)
    found = arrays.on(lambda x: sf.window_by(x, keys, before, after, closed=closed))(x)
    counts = [len(window) for windows in flat for window in windows]
    assert sf.lengths(found).tolist() == counts
    assert sf.lengths(found, level=-2).tolist() == [len(items) for items in truth.sequences()] or not lengths
    wanted = [item for windows in flat for window in windows for item in window]
    np.testing.assert_array_equal(found.data, truth.array(wanted).reshape(found.data.shape))


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda function: function.__name__)
@every_encoding
def test_reductions_write_no_rows(arrays, kind, reduction):
    rng = np.random.default_rng(0)
    data, times = rng.standard_normal((30, 2)).round(1), np.sort(rng.random(30) * 10)
    data[7] = np.nan
    lengths = [12, 0, 1, 17]
    x, keys = sf.convert(sf.Ragged(data, lengths), kind), sf.Ragged(times, lengths)

    def run(x):
        windows = sf.window_by(x, keys, 0.5, 1.5, closed="neither")
        found = [reduction(windows), reduction(windows, empty=1)]
        assert in_place(windows) is not None
        assert "LoD(shape" in repr(windows)
        assert windows.device == x.device
        return found

    windows = sf.window_by(sf.Ragged(data, lengths), keys, 0.5, 1.5, closed="neither")
    written = sf.LoD(windows.data, windows.lod)
    assert in_place(windows) is None
    for found, wanted in zip(arrays.on(run)(x), (reduction(written), reduction(written, empty=1)), strict=True):
        np.testing.assert_allclose(found.data, wanted.data, rtol=1e-12)
    again = pickle.loads(pickle.dumps(sf.window_by(sf.Ragged(data, lengths), keys, 0.5, 1.5, closed="neither")))
    assert sf.equal(again, written, equal_nan=True)


def test_keys_at_the_ends_of_int64():
    ends = np.array([-(2**63), -1, 2**63 - 1])
    x = sf.Ragged(np.arange(3), [3])
    assert sf.window_by(x, sf.Ragged(ends, [3]), 2**63, 5).to_nested() == [[[0], [0, 1], [2]]]
    y = sf.Ragged(np.array([-(2**63), 2**63 - 1]), [2])
    found = [
        sf.merge_asof(sf.Ragged(ends, [3]), y, tolerance=10, direction=d).data.tolist() for d in ("backward", "nearest")
    ]
    assert found == [[0, -1, 1], [0, -1, 1]]


def test_items_in_no_bin():
    for kind in oracle.ENCODINGS:
        x = sf.convert(sf.Ragged(np.array([0, 1, 3, -1]), [2, 0, 2]), kind)
        with pytest.raises(sf.StructureError, match="sequence 2 of x has the item 3, but the 3 bins"):
            sf.bincount(x, 3)
    assert sf.bincount(sf.Ragged(np.zeros(0, "i8"), [0, 0]), 0).shape == (2, 0)


x = sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 1])
ids = sf.Ragged(np.array([1, 2, 3]), [2, 1])
ERRORS = {
    "sorted has 1 sequences, but values has 2": (sf.StructureError, lambda: sf.searchsorted([[1.0]], x)),
    "y has 1 sequences, but x has 2; an array of one axis is the same for all sequences": (
        sf.StructureError,
        lambda: sf.isin(x, [[1.0]]),
    ),
    r"right has 1 sequences, but left has 2 \[SF103\]": (sf.StructureError, lambda: sf.merge_asof(x, [[1.0]])),
    "sorted must be a batch, or an array of one axis": (
        sf.StructureError,
        lambda: sf.searchsorted(np.zeros((2, 2)), x),
    ),
    "side must be one of 'left', 'right', not 'middle'": (sf.ConversionError, lambda: sf.searchsorted(x, x, "middle")),
    "direction must be one of": (sf.ConversionError, lambda: sf.merge_asof(x, x, direction=1)),
    "tolerance must be a number that is not negative, not -1": (
        sf.ConversionError,
        lambda: sf.merge_asof(x, x, tolerance=-1),
    ),
    r"values must have one number per item, .* but has \(2,\)": (
        sf.StructureError,
        lambda: sf.searchsorted(x, sf.Ragged(np.zeros((3, 2)), [2, 1])),
    ),
    "x has items of dtype complex128": (TypeError, lambda: sf.isin(sf.astype(x, complex), x)),
    "y must be a batch, or an array of one axis": (sf.StructureError, lambda: sf.isin(x, np.zeros((2, 2)))),
    "bins are for integers, but x has dtype float64": (TypeError, lambda: sf.bincount(x, 3)),
    r"weights must have one number per item, shape \(3,\)": (
        sf.StructureError,
        lambda: sf.bincount(ids, 4, np.ones(2)),
    ),
    "weights has sequences of lengths": (sf.StructureError, lambda: sf.bincount(ids, 4, [[1.0], [1.0, 2.0]])),
    "size must be at least 0": (sf.ConversionError, lambda: sf.bincount(ids, -1)),
    "n must be at least 0": (sf.ConversionError, lambda: sf.diff(x, -1)),
    "have no differences": (TypeError, lambda: sf.diff(sf.Ragged(np.array(["a"]), [1]))),
    "valid must hold bools": (TypeError, lambda: sf.ffill(x, ids)),
    "by has sequences of lengths": (sf.StructureError, lambda: sf.sort(x, by=[[1], [2, 3]])),
    "by must have one key per item": (sf.StructureError, lambda: sf.sort(x, by=sf.Ragged(np.zeros((3, 2)), [2, 1]))),
    "keys has sequences of lengths": (sf.StructureError, lambda: sf.window_by(x, [[1], [2, 3]], 1, 1)),
    "before must be a number that is not negative, not nan": (
        sf.ConversionError,
        lambda: sf.window_by(x, x, math.nan, 1),
    ),
    "closed must be one of": (sf.ConversionError, lambda: sf.window_by(x, x, 1, 1, closed="open")),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message):
    kind, call = ERRORS[message]
    with pytest.raises(kind, match=message):
        call()
