"""Softmax, running sums, windows, slices and the like along every sequence, against plain Python."""

import itertools
import math
import types

import numpy as np
import oracle
import pytest
import strategies
from checks import (
    assert_padding_is_zero,
    assert_result,
    assert_slopes,
    in_lists,
    mapped,
    noise,
    rows,
    structure_of,
    with_rows,
)
from hypothesis import given
from hypothesis import strategies as st
from libraries import NUMPY
from passes import INTERPRETED

import seqformats as sf

every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_softmax = pytest.mark.parametrize("op", [sf.softmax, sf.log_softmax], ids=lambda op: op.__name__)

HALF = [np.dtype("f2"), strategies.BFLOAT16]
SUMMED = [dtype for dtype in strategies.DTYPES if dtype.kind in "bfciu" or dtype in HALF]
ORDERED = [dtype for dtype in SUMMED if dtype.kind != "c"]
INTEGERS = [np.dtype(code) for code in ("i8", "u8", "i1", "u1", "i4", "u2", ">i8")]
DOUBLE = [np.dtype("f8")]
MULTIPLIED = [*DOUBLE, np.dtype("f4"), *HALF, np.dtype("i8")]
TRUTHS = st.sampled_from(oracle.FORMATS)
SHAPES = [*strategies.ITEM_SHAPES, (17,)]  # many columns go another way than few


# ------------------------------------------------------------------------------------------------ helpers


def column_by_column(function, dtype):
    """A function of items, made of one that takes and returns a list of Python numbers."""

    def over(items, _):
        if not items:
            return []
        out = np.empty((len(items), *items[0].shape), dtype)
        for place in np.ndindex(*items[0].shape):
            out[(slice(None), *place)] = function([item[place].item() for item in items])
        return oracle.items_of(out)

    return over


def assert_near(found, x, truth, size):
    """As `assert_result`, each number within a few roundings of numbers of that size."""
    wanted = oracle.infer(in_lists(truth, x)) if isinstance(x, (list, tuple)) else truth
    got = oracle.read(found)
    assert got.counts() == wanted.counts()
    assert got.item_shape == wanted.item_shape
    assert got.dtype == wanted.dtype or not truth.rows()
    assert_padding_is_zero(found)
    wide = "c16" if wanted.dtype.kind == "c" else "f8"
    a, b = got.data().astype(wide), wanted.data().astype(wide)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= 8 * max(epsilon(wanted.dtype), epsilon(truth.dtype)) * size
    assert np.all(near | (a == b) | (np.isnan(a) & np.isnan(b))), (a, b)


# ------------------------------------------------------------------------------------------------ softmax


def softmax_of(column):
    top = max(column)
    if any(math.isnan(value) for value in column) or math.isinf(top):
        return [math.nan] * len(column)
    powers = [math.exp(value - top) for value in column]
    return [power / math.fsum(powers) for power in powers]


def log_softmax_of(column):
    top = max(column)
    if any(math.isnan(value) for value in column) or math.isinf(top):
        return [math.nan] * len(column)
    total = math.log(math.fsum([math.exp(value - top) for value in column]))
    return [float(value) - top - total for value in column]


def epsilon(dtype):
    return 0 if dtype.kind in "biu" else 2**-7 if dtype == strategies.BFLOAT16 else float(np.finfo(dtype).eps)


def softmax_dtype(dtype):
    return dtype if dtype in HALF or dtype.kind == "f" else np.dtype("f8")


def expected_softmax(op, truth):
    dtype = softmax_dtype(truth.dtype).newbyteorder("=")
    return mapped(truth, column_by_column(softmax_of if op is sf.softmax else log_softmax_of, dtype), dtype=dtype)


def assert_softmax(op, x, truth, arrays=NUMPY):
    wanted = expected_softmax(op, truth)
    size = 1 if op is sf.softmax else 1 + np.abs(wanted.data().astype("f8"))
    assert_near(arrays.on(op)(x), x, wanted, size)


@every_softmax
@every_format
@given(data=st.data())
def test_softmax(arrays, kind, op, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(ORDERED), shapes=SHAPES))
    assert_softmax(op, x, truth, arrays)


@every_softmax
@pytest.mark.parametrize("dtype", ORDERED, ids=str)
def test_softmax_of_every_dtype(dtype, op):
    truth = strategies.truth_from([3, 0, 1, 40], dtype, (2,))
    for kind in oracle.ENCODINGS:
        assert_softmax(op, oracle.build(kind, truth), truth)


@every_softmax
@pytest.mark.parametrize("item", [(), (5,), (40,)], ids=str)
def test_softmax_of_lengths_around_its_blocks(op, item):
    """Items are added up 8 at a time, and 64 in a block."""
    truth = strategies.truth_from([7, 8, 9, 63, 64, 65, 72, 100, 127, 128, 129, 200], np.dtype("f4"), item)
    for kind in (sf.Ragged, sf.Packed):
        assert_softmax(op, oracle.build(kind, truth), truth)


@every_encoding
@pytest.mark.parametrize("dtype", strategies.FLOATS, ids=str)
def test_softmax_is_stable(dtype, kind):
    nan, inf = math.nan, math.inf
    cases = {
        (100, 1000): [0, 1],
        (-60000, -60000): [0.5, 0.5],
        (-inf, 5): [0, 1],
        (7, -inf, 7): [0.5, 0, 0.5],
        (-inf,): [nan],
        (-inf, -inf): [nan] * 2,
        (1, nan, 2): [nan] * 3,
        (nan, -inf): [nan] * 2,
        (1, inf): [nan] * 2,
        (inf, -inf, inf): [nan] * 3,
        (-3,): [1],
        (): [],
    }
    x = sf.convert([np.array(case, float).astype(dtype) for case in cases], kind)
    found = oracle.read(sf.softmax(x))
    logarithms = oracle.read(sf.log_softmax(x))
    for i, wanted in enumerate(cases.values()):
        assert np.array_equal(found.array(found.sequences()[i]).astype(float), wanted, equal_nan=True)
        powers = np.exp(logarithms.array(logarithms.sequences()[i]).astype(float))
        assert np.allclose(powers, wanted, rtol=1e-2, equal_nan=True)
    assert logarithms.sequences()[0][0] == np.array(-900).astype(dtype)
    assert logarithms.sequences()[2][0] == -inf


def test_small_probabilities_keep_their_digits():
    x = sf.Ragged(np.array([0.0, -30.0, -700.0]), [3])
    assert np.allclose(sf.softmax(x).data, np.exp(x.data), rtol=1e-12, atol=0)


# -------------------------------------------------------------------------------------------- running sums


def cumsum_dtype(dtype):
    if dtype.kind in "fc" or dtype in HALF:
        return dtype
    return np.dtype("u8" if dtype.kind == "u" else "i8")


def sums_of(column):
    return list(itertools.accumulate(column))


def assert_cumsum(x, truth, arrays=NUMPY):
    dtype = cumsum_dtype(truth.dtype).newbyteorder("=")

    def whole_sums_of(column):
        """Sums that are too large begin again at the other end, as NumPy's do."""
        return np.array([int(total) % 2**64 for total in sums_of(column)], "u8").astype(dtype)

    if dtype.kind in "iu":
        assert_result(arrays.on(sf.cumsum)(x), x, mapped(truth, column_by_column(whole_sums_of, dtype), None, dtype))
    else:
        wanted = mapped(truth, column_by_column(sums_of, dtype), None, dtype)
        sizes = mapped(truth, column_by_column(lambda column: np.cumsum(np.abs(column)), "f8"), None, "f8").data()
        assert_near(arrays.on(sf.cumsum)(x), x, wanted, np.where(np.isfinite(sizes), sizes, 0) * (1 + truth.longest()))


@every_format
@given(data=st.data())
def test_cumsum(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(SUMMED), shapes=SHAPES))
    assert_cumsum(x, truth, arrays)


@pytest.mark.parametrize("dtype", SUMMED, ids=str)
def test_cumsum_of_every_dtype(dtype):
    truth = strategies.truth_from([3, 0, 1, 40], dtype, (2,))
    for kind in oracle.ENCODINGS:
        assert_cumsum(oracle.build(kind, truth), truth)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_added_up_in_single(dtype):
    x = sf.Ragged(np.ones(4096, dtype), [4096])
    oracle.assert_bits(sf.cumsum(x).data, np.arange(1, 4097).astype(dtype))


@pytest.mark.parametrize("op", [sf.softmax, sf.log_softmax, sf.cumsum], ids=lambda op: op.__name__)
@pytest.mark.parametrize("form", strategies.FORMS, ids=lambda form: form.__name__)
def test_arithmetic_gives_native_bytes(form, op):
    plain = strategies.counting("f4", (5, 2))
    x = op(sf.Ragged(form(plain.astype(">f4")), [2, 0, 3]))
    oracle.assert_layout(x, op(sf.Ragged(plain, [2, 0, 3])))


@pytest.mark.parametrize("dtype", ["U3", "S2", "M8[s]", "m8[s]", "V4"])
def test_dtypes_without_arithmetic(dtype):
    x = sf.Ragged(np.zeros(1, dtype), [1])
    for op in (sf.softmax, sf.log_softmax):
        with pytest.raises(TypeError, match="no order"):
            op(x)
    with pytest.raises(TypeError, match="cannot be added up"):
        sf.cumsum(x)


@every_softmax
def test_complex_numbers_have_no_order(op):
    with pytest.raises(TypeError, match="complex64 have no order"):
        op(sf.Ragged(np.ones(2, "c8"), [2]))


# ---------------------------------------------------------------------------------- moves within a sequence


@every_format
@given(data=st.data())
def test_reverse(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    assert_result(arrays.on(sf.reverse)(x), x, mapped(truth, lambda items, _: items[::-1]))


@st.composite
def ranges(draw, lengths):
    """A start and a length within each sequence, or one for all."""
    if not lengths or draw(st.booleans()):
        shortest = min(lengths, default=3)
        start = draw(st.integers(0, shortest))
        return start, draw(st.integers(0, shortest - start))
    starts = [draw(st.integers(0, length)) for length in lengths]
    counts = [draw(st.integers(0, length - start)) for length, start in zip(lengths, starts, strict=True)]
    wrap = draw(st.sampled_from([list, np.array, lambda found: np.array(found, "i4")[:, None]]))
    return wrap(starts), draw(st.sampled_from([list, np.array]))(counts)


def numbers(value, n):
    """One integer per sequence."""
    return [int(value)] * n if np.ndim(value) == 0 else [int(one) for one in np.ravel(value)]


@every_format
@given(data=st.data())
def test_slice(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    lengths = truth.lengths()
    start, count = data.draw(ranges(lengths))
    starts, counts = numbers(start, len(lengths)), numbers(count, len(lengths))
    wanted = mapped(truth, lambda items, i: items[starts[i] : starts[i] + counts[i]])
    assert_result(arrays.on(sf.slice)(x, start, count), x, wanted)


def test_a_slice_of_a_list_is_views():
    x = oracle.build(sf.List, strategies.truth_from([3, 2], "f8"))
    assert oracle.shares(sf.slice(x, 1, 1), x)


def joined(items, width, dtype):
    """The numbers of these items in rows of `width`."""
    flat = [number for item in items for number in item.reshape(-1)]
    out = np.empty((len(flat) // width, width), dtype)
    for k, number in enumerate(flat):
        out[k // width, k % width] = number
    return oracle.items_of(out)


@every_format
@given(data=st.data())
def test_reshape(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes, shapes=[(6,), (), (1,), (0,), (4,)]))
    size = math.prod(truth.item_shape)
    per_sequence = [length * size for length in truth.lengths()]
    width = data.draw(st.sampled_from([k for k in (1, 2, 3, 5, 6, 12) if not any(n % k for n in per_sequence)]))
    wanted = mapped(truth, lambda items, _: joined(items, width, truth.dtype), (width,))
    assert_result(arrays.on(sf.reshape)(x, width), x, wanted)


@pytest.mark.parametrize("kind", [sf.Ragged, sf.LoD], ids=oracle.format_name)
def test_reshape_is_a_view(kind):
    x = oracle.build(kind, strategies.truth_from([3, 2], "f8", (4,)))
    assert oracle.shares(sf.reshape(x, 2), x)


def cast(value, dtype):
    return np.array(value, dtype) if dtype not in HALF else np.array(value, float).astype(dtype)


@every_format
@given(data=st.data())
def test_erase(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(INTEGERS), shapes=[(), (1,)]))
    values = st.sampled_from([*range(6), 127, 255, -1, -(2**63), 2**63 - 1, *truth.data().reshape(-1).tolist()[:9]])
    tokens = data.draw(st.lists(values.filter(lambda value: value < 2**63), max_size=5))
    wanted = mapped(truth, lambda items, _: [item for item in items if item.item() not in tokens])
    found = arrays.on(sf.erase)(x, tokens if data.draw(st.booleans()) else np.array(tokens, np.int64))
    if kind is list and not truth.rows():  # bare lists without items have no dtype
        assert repr(found) == repr(x)
    else:
        assert_result(found, x, wanted)


def test_tokens_are_compared_exactly():
    large = np.array([2**53, 2**53 + 1, 2**64 - 1], "u8")
    assert sf.erase(sf.Ragged(large, [3]), [2**53, -1]).data.tolist() == [2**53 + 1, 2**64 - 1]
    assert sf.erase(sf.Ragged(np.array([-1, 1], "i1"), [2]), [255, 257]).data.tolist() == [-1, 1]


# ------------------------------------------------------------------------------------------------ scatter


@st.composite
def scatters(draw, kinds):
    """``(base, index, updates)`` and the truths of the last two."""
    dtype = draw(st.sampled_from(kinds))
    item_shape = draw(st.sampled_from([(), (2,), (0,), (2, 3)]))
    room = draw(st.integers(1, 4))
    lengths = draw(strategies.lengths(5))
    updates = strategies.truth_from(lengths, dtype, item_shape)
    places = [[draw(st.integers(0, room - 1)) for _ in range(length)] for length in lengths]
    arrays = [np.array(found, draw(st.sampled_from(["i8", "i4", "u1"]))) for found in places[:1]]
    index_dtype = arrays[0].dtype if arrays else np.dtype("i8")
    index = oracle.Truth([[np.array(one, index_dtype) for one in found] for found in places], index_dtype)
    base = strategies.counting(dtype, (len(lengths), room, *item_shape))
    build = [oracle.build(draw(st.sampled_from(oracle.ENCODINGS)), truth) for truth in (index, updates)]
    return base, *build, index, updates


@given(data=st.data())
def test_scatter(arrays, data):
    base, index, updates, places, items = data.draw(
        scatters(arrays.of([*HALF, *[np.dtype(c) for c in ("f4", "f8", "i8", "c8", "u1")]]))
    )
    before = base.copy()
    wanted = base.astype("f4" if base.dtype in HALF else base.dtype)
    with np.errstate(over="ignore"):
        for i, sequence in enumerate(items.nest):
            for place, item in zip(places.nest[i], sequence, strict=True):
                wanted[i, int(place)] += item.astype(wanted.dtype)
    found = arrays.on(sf.scatter)(base, index, updates)
    oracle.assert_bits(found, wanted.astype(base.dtype))
    oracle.assert_bits(base, before, "the base stays as it was")
    assert not np.shares_memory(found, base)


def test_scatter_of_bare_lists():
    base = np.zeros((2, 3), np.int64)
    assert sf.scatter(base, [[0, 2, 0], []], [[1, 2, 3], []]).tolist() == [[4, 0, 2], [0, 0, 0]]
    column = sf.Ragged(np.array([[1], [2]]), [0, 2])
    assert sf.scatter(base, column, sf.Packed(np.array([5, 6]), [1, 1], [2, 0], [1, 0])).tolist() == [
        [0] * 3,
        [0, 5, 6],
    ]


# ------------------------------------------------------------------------------------------------ windows


def windows(items, before, after, truth, fill=None):
    """Every item with its neighbours side by side."""
    outside = np.zeros(truth.item_shape, truth.dtype) if fill is None else np.broadcast_to(fill, truth.item_shape)
    found = []
    for t in range(len(items)):
        near = [items[s] if 0 <= s < len(items) else outside for s in range(t - before, t + after + 1)]
        wide = np.empty((len(near), *truth.item_shape), truth.dtype)
        for k, item in enumerate(near):
            wide[k, ...] = item
        found.append(wide.reshape(wide_shape(truth.item_shape, len(near))))
    return found


def wide_shape(item_shape, count):
    return (count * item_shape[0], *item_shape[1:]) if item_shape else (count,)


@every_format
@given(data=st.data())
def test_window(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    before, after = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
    shape = wide_shape(truth.item_shape, before + 1 + after)
    found = arrays.on(sf.window)(x, before, after)
    assert_result(found, x, mapped(truth, lambda items, _: windows(items, before, after, truth), shape))


@every_format
@given(data=st.data())
def test_ngrams(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    size = data.draw(st.integers(1, 5))
    fill = data.draw(st.one_of(st.none(), strategies.fills(truth)))
    options = {} if fill is None else {"fill": fill}
    zero = fill is None or (type(fill) is int and fill == 0)
    outside = None if zero else np.array(fill).astype(truth.dtype)
    wanted = mapped(
        truth, lambda items, _: windows(items, 0, size - 1, truth, outside), wide_shape(truth.item_shape, size)
    )
    assert_result(arrays.on(sf.ngrams)(x, size, **options), x, wanted)


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c8"])
@pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
def test_rows_of_every_width(kind, dtype):
    """Moves and sums have ways of their own for rows of few bytes, of many, and for what is left over."""
    lengths = [1, 0, 40, 2, 5]
    offsets = np.cumsum([0, *lengths])
    for width in [*range(1, 10), 13, 16, 17, 31, 33, 65, 100]:
        data = (np.arange(sum(lengths) * width) % 101 - 50).astype(dtype).reshape(-1, width)
        x = sf.Ragged(data, lengths)
        parts = np.split(data, offsets[1:-1])
        y = sf.convert(x, kind)
        np.testing.assert_array_equal(rows(sf.reverse(y)), np.concatenate([part[::-1] for part in parts]))
        ones = data[: len(lengths)]
        np.testing.assert_array_equal(rows(sf.expand_as(ones, y)), np.repeat(ones, lengths, 0))
        for before, after in ((1, 1), (3, 1)):
            count = before + 1 + after
            slopes = (np.arange(len(data) * count * width) % 17).astype(dtype).reshape(len(data), count, width)
            near, back = np.zeros_like(slopes), np.zeros_like(data)
            for q in range(count):
                for begin, end in itertools.pairwise(offsets):
                    here = slice(max(begin, begin + before - q), max(begin, min(end, end + before - q)))
                    there = slice(here.start - before + q, here.stop - before + q)
                    if here.start < here.stop:
                        near[here, q] = data[there]
                        back[there] += slopes[here, q]
            found = sf.window(y, before, after)
            np.testing.assert_array_equal(rows(found), near.reshape(len(data), -1))
            if dtype != "u1":
                _, pullback = sf.vjp(sf.window, y, before, after)
                given = with_rows(found, slopes.reshape(len(data), -1))
                np.testing.assert_array_equal(rows(pullback(given)), back)


@every_format
@given(data=st.data())
def test_conv(arrays, kind, data):
    arrays.need_products()
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.multiplied(MULTIPLIED), shapes=[(), (1,), (3,), (0,)]))
    truth = filled_truth(truth)
    x = with_rows(x, truth.data())
    before, after, out = (data.draw(st.integers(0, 2)) for _ in range(3))
    dtype = oracle.read(x).dtype
    high = (before + 1 + after) * math.prod(truth.item_shape)
    weight = (np.arange(high * out).reshape(high, out) % 7 - 3).astype(dtype)

    def product(items, _):
        near = windows(items, before, after, truth)
        return [(item.astype("f8").reshape(-1) @ weight.astype("f8")).astype(dtype) for item in near]

    wanted = mapped(truth, product, (out,), dtype)
    assert_near(arrays.on(sf.conv)(x, arrays.beside(x, weight), before, after), x, wanted, 1 + 9 * 3 * high)


def filled_truth(truth):
    """Small whole numbers for items, exact in every dtype."""
    data = (np.arange(truth.data().size) % 5 - 2).reshape(-1, *truth.item_shape) if truth.data().size else truth.data()
    return oracle.cut(data.astype(truth.dtype), [oracle.offsets_of(level) for level in truth.counts()])


# --------------------------------------------------------------- odd shapes, structure, neighbours, threads


def thirds(lengths):
    """Ranges within the sequences."""
    return [length // 3 for length in lengths], [(length + 1) // 2 for length in lengths]


ARGUMENTS = {
    sf.softmax: lambda lengths: (),
    sf.log_softmax: lambda lengths: (),
    sf.cumsum: lambda lengths: (),
    sf.reverse: lambda lengths: (),
    sf.slice: thirds,
    sf.reshape: lambda lengths: (1,),
    sf.window: lambda lengths: (1, 2),
    sf.ngrams: lambda lengths: (3,),
}
MOVES = (sf.reverse, sf.slice, sf.reshape)
KEEP_LENGTHS = (sf.softmax, sf.log_softmax, sf.cumsum, sf.reverse, sf.window, sf.ngrams)
every_operation = pytest.mark.parametrize("op", ARGUMENTS, ids=lambda op: op.__name__)


def arguments(op, x):
    return ARGUMENTS[op](oracle.read(x).lengths())


def shapes_of(op):
    """Item shapes that the operation takes."""
    return [shape for shape in SHAPES if len(shape) < 2] if op is sf.reshape else SHAPES


@every_operation
@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [2, 0]])
def test_odd_shapes(op, lengths):
    """All encodings hold the same, and keep dtype and item shape where there is no item."""
    for item_shape in shapes_of(op):
        truth = strategies.truth_from(lengths, "f4", item_shape)
        wanted = oracle.read(op(oracle.build(sf.Ragged, truth), *ARGUMENTS[op](lengths)))
        assert wanted.dtype == np.float32
        assert len(wanted.item_shape) == max(len(item_shape), op in (sf.reshape, sf.window, sf.ngrams))
        for kind in oracle.ENCODINGS:
            x = oracle.build(kind, truth)
            assert_result(op(x, *ARGUMENTS[op](lengths)), x, wanted)


@every_operation
@given(data=st.data())
def test_the_structure_is_the_callers(arrays, op, data):
    """The place of each sequence, the width and side of the padding, all levels; the input stays as it was."""
    shapes = shapes_of(op)
    _, x = data.draw(data.draw(TRUTHS.map(lambda kind: strategies.encoded(kind, kinds=DOUBLE, shapes=shapes))))
    old = [array.tobytes() for array in oracle.arrays_of(x)]
    y = arrays.on(op)(x, *arguments(op, x))
    assert [array.tobytes() for array in oracle.arrays_of(x)] == old
    if op in KEEP_LENGTHS and oracle.read(x).rows():
        assert structure_of(y) == structure_of(x)


@pytest.mark.parametrize("item_shape", [(), (3,), (20,)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("op", [sf.softmax, sf.log_softmax, sf.cumsum], ids=lambda op: op.__name__)
def test_neighbours_do_not_matter(op, dtype, item_shape):
    """Bit for bit the same alone, among others, and in every encoding."""
    rng = np.random.default_rng(0)
    items = [rng.normal(size=(length, *item_shape)).astype(dtype) for length in (7, 0, 301, 1, 64)]
    alone = [op([item])[0] for item in items]
    for kind in oracle.ENCODINGS:
        oracle.assert_nested(list(sf.convert(op(sf.convert(items, kind)), sf.List).items), alone)


@pytest.mark.parametrize("op", [op for op in ARGUMENTS if op is not sf.reshape], ids=lambda op: op.__name__)
@pytest.mark.usefixtures("threads_for_all")
def test_threads_do_not_matter(op):
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 7 if INTERPRETED else 700, 400)
    lengths[7] = 2_000 if INTERPRETED else 200_000
    x = sf.Ragged(rng.normal(size=(int(lengths.sum()), 4)).astype("f4"), lengths)
    found = []
    for threads in (1, 2, 8):
        sf.set_num_threads(threads)
        found.append(op(x, *ARGUMENTS[op](lengths.tolist())).data)
    for other in found[1:]:
        oracle.assert_bits(other, found[0])


# ---------------------------------------------------------------------------------------------- gradients


@every_operation
@given(data=st.data())
def test_slopes(arrays, op, data):
    shapes = shapes_of(op)
    truth, x = data.draw(data.draw(TRUTHS.map(lambda kind: strategies.encoded(kind, kinds=DOUBLE, shapes=shapes))))
    if isinstance(x, list) and not truth.rows():
        return  # bare lists without items have no item shape
    args = arguments(op, x)
    x = noise(x, 0)
    assert_slopes(lambda z: arrays.vjp(op, z, *args), (x,), 1e-4 if op in (sf.softmax, sf.log_softmax) else 1.0)


@given(data=st.data())
def test_slopes_of_scatter(arrays, data):
    base, index, updates, _, _ = data.draw(scatters(DOUBLE))
    assert_slopes(lambda b, u: arrays.vjp(sf.scatter, b, index, u), (base, updates))


@every_format
@given(data=st.data())
def test_slopes_of_conv(arrays, kind, data):
    arrays.need_products()
    truth, x = data.draw(strategies.encoded(kind, kinds=DOUBLE, shapes=[(), (1,), (3,), (0,)]))
    if isinstance(x, list) and not truth.rows():
        return
    before, after, out = (data.draw(st.integers(0, 2)) for _ in range(3))
    weight = np.ones(((before + 1 + after) * math.prod(truth.item_shape), out))
    assert_slopes(
        lambda z, w: arrays.vjp(sf.conv, z, arrays.beside(z, w), before, after), (noise(x, 0), noise(weight, 0))
    )


@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
def test_arithmetic_on_integers_has_no_gradient(dtype):
    x = sf.Ragged(np.zeros((3, 2), dtype), [1, 2])
    calls = [(op, x, *ARGUMENTS[op]([1, 2])) for op in ARGUMENTS if op not in MOVES]
    calls.append((sf.conv, x, np.zeros((2, 1), dtype), 0, 0))
    if dtype != "?":
        calls.append((sf.scatter, np.zeros((2, 3, 2), dtype), [[0], [1, 2]], x))
    for op, *args in calls:
        op(*args)
        with pytest.raises(TypeError, match="no gradient.*float"):
            sf.vjp(op, *args)


def test_erase_has_no_gradient():
    with pytest.raises(TypeError, match="no gradient rule"):
        sf.vjp(sf.erase, sf.Ragged(np.arange(3), [3]), [1])


@every_operation
@pytest.mark.parametrize("dtype", ["f2", "f4", "bfloat16"])
def test_gradients_keep_the_dtype(arrays, dtype, op):
    dtype = strategies.BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    x = sf.Ragged(np.ones((5, 3), dtype), [2, 3])
    y, pullback = arrays.vjp(op, x, *ARGUMENTS[op]([2, 3]))
    dx = pullback(np.ones(y.data.shape))  # of float64
    assert dx.dtype == dtype
    wanted = sf.vjp(op, sf.Ragged(np.ones((5, 3)), [2, 3]), *ARGUMENTS[op]([2, 3]))[1](np.ones(y.data.shape))
    assert np.allclose(dx.data.astype(float), wanted.data, atol=0.02)


@every_operation
def test_a_gradient_that_does_not_fit(op):
    x = sf.Ragged(np.ones((5, 3)), [2, 3])
    _, pullback = sf.vjp(op, x, *ARGUMENTS[op]([2, 3]))
    for dy in (np.zeros((9, 2)), np.zeros(5), np.zeros(()), sf.Ragged(np.zeros((7, 3)), [3, 4]), [np.zeros((1, 3))]):
        with pytest.raises(sf.StructureError, match="gradient"):
            pullback(dy)


# ------------------------------------------------------------------------------------------------- errors


def ragged(*lengths, dtype="f8", item_shape=()):
    return oracle.build(sf.Ragged, strategies.truth_from(list(lengths), dtype, item_shape))


LEVELS = sf.LoD(np.zeros(3), [[0, 2], [0, 1, 3]])
OTHER_LEVELS = sf.LoD(np.zeros(3), [[0, 1, 2], [0, 1, 3]])
PLACES = sf.Ragged(np.array([0, 1, 2]), [1, 2])
ERRORS = {
    sf.StructureError: {
        "concat: part 1 has 1 sequences.* 2": lambda: sf.concat([ragged(1, 2), ragged(3)]),
        "concat: part 1 .*float32.*float64": lambda: sf.concat([ragged(1), ragged(1, dtype="f4")]),
        "concat: part 1 has item shape": lambda: sf.concat([ragged(1), ragged(1, item_shape=(2,))]),
        "concat: part 1 has other outer levels": lambda: sf.concat([LEVELS, OTHER_LEVELS]),
        "concat: at least one": lambda: sf.concat([]),
        "slice: sequence 1 has 2 .*start 1 .*length 2": lambda: sf.slice(ragged(4, 2), 1, 2),
        "slice: sequence 1 has 2 .*start 3": lambda: sf.slice(ragged(4, 2), [0, 3], 0),
        "slice: sequence 0 has 4 .*start -1": lambda: sf.slice(ragged(4), -1, 1),
        "slice: sequence 0 has 4 .*length -1": lambda: sf.slice(ragged(4), 1, -1),
        "slice: sequence 0 has 4": lambda: sf.slice(ragged(4), 2**62, 2**62),
        "slice: int64": lambda: sf.slice(ragged(4), 2**64, 0),
        "slice: start has 1 .* 2 sequences": lambda: sf.slice(ragged(4, 2), [1], 1),
        "slice: length has 3 .* 2 sequences": lambda: sf.slice(ragged(4, 2), 0, [1, 1, 1]),
        "reshape: sequence 1 has 3 .*rows of 2": lambda: sf.reshape(ragged(2, 3), 2),
        "reshape: one axis": lambda: sf.reshape(ragged(2, item_shape=(2, 3)), 3),
        "erase: items of shape": lambda: sf.erase(ragged(2, dtype="i8", item_shape=(2,)), [1]),
        r"conv: \(3, out\).*\(2, 1\)": lambda: sf.conv(ragged(2), np.zeros((2, 1)), 1, 1),
        r"conv: \(3, out\).*\(3,\)": lambda: sf.conv(ragged(2), np.zeros(3), 1, 1),
        "conv: float32.*float64": lambda: sf.conv(ragged(2), np.zeros((3, 1), "f4"), 1, 1),
        "conv: one axis": lambda: sf.conv(ragged(2, item_shape=(2, 3)), np.zeros((6, 1)), 0, 0),
        "scatter: 2 sequences.* 3 rows": lambda: sf.scatter(np.zeros((3, 2)), PLACES, ragged(1, 2)),
        "scatter: lengths": lambda: sf.scatter(np.zeros((2, 9)), PLACES, ragged(2, 1)),
        "scatter: item shape": lambda: sf.scatter(np.zeros((2, 9, 1)), PLACES, ragged(1, 2)),
        "scatter: one integer per item": lambda: sf.scatter(np.zeros((1, 2)), ragged(1, item_shape=(2,)), ragged(1)),
        "scatter: float64.*float32": lambda: sf.scatter(np.zeros((2, 9), "f4"), PLACES, ragged(1, 2)),
        "scatter: axes": lambda: sf.scatter(np.zeros(2), PLACES, ragged(1, 2)),
    },
    sf.ConversionError: {
        "reshape: width must be at least 1": lambda: sf.reshape(ragged(2), 0),
        "window: before must be at least 0": lambda: sf.window(ragged(2), -1, 0),
        "window: after must be at least 0": lambda: sf.window(ragged(2), 0, -1),
        "ngrams: size must be at least 1": lambda: sf.ngrams(ragged(2), 0),
        "ngrams: fill": lambda: sf.ngrams(ragged(2, dtype="i8"), 2, fill=0.5),
        "conv: before must be at least 0": lambda: sf.conv(ragged(2), np.zeros((1, 1)), -1, 0),
        "conv: after must be at least 0": lambda: sf.conv(ragged(2), np.zeros((1, 1)), 0, -1),
    },
    IndexError: {
        "scatter: place 2 for row 1.* 2 places": lambda: sf.scatter(np.zeros((2, 2)), PLACES, ragged(1, 2)),
        "scatter: place -1 for row 0": lambda: sf.scatter(np.zeros((1, 2)), [[-1]], ragged(1)),
    },
    TypeError: {
        "concat: a list of batches, not Ragged": lambda: sf.concat(ragged(1)),
        "concat: give it lengths": lambda: sf.concat([np.zeros(3)]),
        "slice: length must be a sequence of integers": lambda: sf.slice(ragged(4), 0, 1.0),
        "slice: start must be integers": lambda: sf.slice(ragged(4), [0.0], 1),
        "slice: start must be an integer": lambda: sf.slice(ragged(4), True, 1),
        "reshape: width must be an integer": lambda: sf.reshape(ragged(2), 1.0),
        "erase: tokens are integers.*float64": lambda: sf.erase(ragged(2), [1]),
        "erase: tokens are integers.*bool": lambda: sf.erase(ragged(2, dtype="?"), [1]),
        "erase: tokens must be integers": lambda: sf.erase(ragged(2, dtype="i8"), [1.0]),
        "erase: tokens must be a sequence": lambda: sf.erase(ragged(2, dtype="i8"), 1.5),
        "window: before must be an integer": lambda: sf.window(ragged(2), 0.0, 0),
        "conv: weight": lambda: sf.conv(ragged(2), [[1.0]], 0, 0),
        "scatter: index must hold integers": lambda: sf.scatter(np.zeros((1, 2)), [[0.0]], ragged(1)),
        "scatter: no single batch": lambda: sf.scatter(0.0, [[0]], ragged(1)),
        "scatter: added up": lambda: sf.scatter(np.zeros((1, 2), "U1"), [[0]], ragged(1, dtype="U1")),
        "scatter: bools": lambda: sf.scatter(np.zeros((1, 2), "?"), [[0]], ragged(1, dtype="?")),
    },
}
ERRORS = [(error, name, call) for error, calls in ERRORS.items() for name, call in calls.items()]


@pytest.mark.parametrize(("error", "name", "call"), ERRORS, ids=[name for _, name, _ in ERRORS])
def test_errors(error, name, call):
    with pytest.raises(error, match=name.partition(": ")[2]):
        call()


@pytest.mark.parametrize("x", [np.zeros(3), 3, None, "text", object()])
@every_operation
def test_what_is_no_encoding(op, x):
    with pytest.raises(TypeError, match="give it lengths|sf.from_text"):
        op(x, *ARGUMENTS[op]([3]))


def test_different_libraries(monkeypatch):
    """Arrays of two libraries are not mixed; float32 stands for the other one here."""
    from seqformats.operations import join, scatter, windows

    known = join.library_of
    other = types.SimpleNamespace(name="other")
    for module in (join, scatter, windows):
        monkeypatch.setattr(module, "library_of", lambda array: other if array.dtype == "f4" else known(array))
    for call in (
        lambda: sf.concat([ragged(1), ragged(1, dtype="f4")]),
        lambda: sf.conv(ragged(1, dtype="f4"), np.zeros((1, 1)), 0, 0),
        lambda: sf.scatter(np.zeros((1, 2)), [[0]], ragged(1, dtype="f4")),
    ):
        with pytest.raises(sf.DeviceError, match="numpy|other"):
            call()


def test_scatter_leaves_its_base_alone():
    """Whatever NumPy thinks of two dtypes that are the same."""
    index = sf.Ragged(np.array([0, 2, 1]), [2, 1])
    for dtype in (np.dtype(np.longlong), np.dtype(np.float64, metadata={"unit": "m"}), np.dtype(">f8")):
        base = np.zeros((2, 3), dtype)
        found = sf.scatter(base, index, sf.Ragged(np.array([1, 2, 3], dtype), [2, 1]))
        assert not base.any()
        assert found.tolist() == [[1, 0, 2], [0, 3, 0]]


def test_erase_takes_one_token_or_a_set():
    x = sf.Ragged(np.array([1, 2, 3, 2]), [3, 1])
    assert sf.erase(x, 2).data.tolist() == sf.erase(x, {2}).data.tolist() == [1, 3]


@every_softmax
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Padded, sf.Packed, sf.Masked], ids=oracle.format_name)
@pytest.mark.parametrize("width", [7, 109, 300])
def test_slopes_of_every_width(op, kind, width):
    """Wide rows are worked on in another order than narrow ones."""
    rng = np.random.default_rng(3)
    lengths = [3, 0, 1, 18]
    data, dy = (rng.normal(size=(sum(lengths), width)) for _ in range(2))
    found = sf.vjp(op, sf.convert(sf.Ragged(data, lengths), kind))[1](sf.convert(sf.Ragged(dy, lengths), kind))
    found = sf.convert(found, sf.Ragged).data
    y = op(sf.Ragged(data, lengths)).data
    for a, b in ((0, 3), (3, 4), (4, 22)):
        if op is sf.softmax:
            wanted = y[a:b] * (dy[a:b] - (dy[a:b] * y[a:b]).sum(0))
        else:
            wanted = dy[a:b] - np.exp(y[a:b]) * dy[a:b].sum(0)
        np.testing.assert_allclose(found[a:b], wanted, rtol=1e-9, atol=1e-12)
