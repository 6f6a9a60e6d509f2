"""Expanding and repeating, against plain lists and the worked examples of Paddle's sequence_expand."""

import numpy as np
import oracle
import pytest
import strategies
from checks import dot, filled_like, rows, structure_of
from conftest import INTERPRETED
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
into_rows = pytest.mark.parametrize("kind", [np.ndarray, sf.Ragged, sf.LoD], ids=oracle.format_name)

FLOAT = [np.dtype("f8")]
HALF = [np.dtype("f2"), strategies.BFLOAT16]

# ------------------------------------------------------------------------------------------- the slow truth


def repeated(parts, counts):
    return [part for part, count in zip(parts, counts, strict=True) for _ in range(count)]


def truth_repeated(truth, counts):
    return oracle.Truth(repeated(truth.nest, counts), truth.dtype, truth.item_shape, truth.levels)


def bare_repeated(x, truth, counts):
    """A list of arrays keeps them; nested lists have scalars where they can."""
    if all(isinstance(part, np.ndarray) for part in x):
        return repeated(x, counts)
    return oracle.nested(truth_repeated(truth, counts))


def counts_of(n):
    return st.lists(st.integers(0, 3), min_size=n, max_size=n)


@st.composite
def likes(draw, n):
    """What says how often: ``(counts, like, level)``, with levels further out and further in."""
    counts = draw(counts_of(n))
    levels, level = [counts], 0
    if draw(st.booleans()):
        cuts = [0, *sorted(draw(st.lists(st.integers(0, n), max_size=3))), n]
        levels.insert(0, [cuts[i + 1] - cuts[i] for i in range(len(cuts) - 1)])
        level = 1
    if draw(st.booleans()):
        levels.append(draw(st.lists(st.integers(0, 2), min_size=sum(counts), max_size=sum(counts))))
    like = sf.LoD.from_lengths(np.zeros(sum(levels[-1]), "i1"), levels)
    if len(levels) == 1:
        like = sf.convert(like, draw(st.sampled_from(oracle.FORMATS)))
    if len(levels) > 1 and draw(st.booleans()):
        level -= len(levels)
    elif level == len(levels) - 1 and draw(st.booleans()):
        level = -1
    return counts, like, level


@st.composite
def some_rows(draw, n=None, kinds=None):
    """An array of rows in any form of memory."""
    n = draw(st.integers(0, 5)) if n is None else n
    dtype = draw(strategies.dtypes() if kinds is None else st.sampled_from(kinds))
    array = strategies.counting(dtype, (n, *draw(strategies.item_shapes())), draw(st.booleans()))
    return draw(strategies.forms())(array)


def rows_of(x):
    return x if isinstance(x, np.ndarray) else rows(x)


def assert_same(a, b):
    (oracle.assert_bits if isinstance(a, np.ndarray) else oracle.assert_same)(a, b)


# ------------------------------------------------------------------------------------------------ examples


# -------------------------------------------------------------------------------------------------- values


@every_format
@given(data=st.data())
def test_expand_against_plain_lists(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    counts, like, level = data.draw(likes(len(truth)))
    found = arrays.on(sf.expand)(x, like, level=level)
    assert type(found) is type(x)
    if kind is list:
        oracle.assert_nested(found, bare_repeated(x, truth, counts))
    else:
        oracle.assert_holds(found, truth_repeated(truth, counts))
        assert getattr(found, "side", None) == getattr(x, "side", None)
        assert not oracle.shares(found, x) or kind is sf.List


@every_format
@given(data=st.data())
def test_repeat_against_plain_lists(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    counts = data.draw(counts_of(len(truth)))
    given_as = data.draw(st.sampled_from([list, tuple, np.array, lambda c: np.array(c, "u1").reshape(-1, 1)]))
    found = arrays.on(sf.repeat)(x, given_as(counts) if counts else [])
    if kind is list:
        oracle.assert_nested(found, bare_repeated(x, truth, counts))
    else:
        oracle.assert_holds(found, truth_repeated(truth, counts))
    for once in (2, np.int8(2), np.array(2)):
        oracle.assert_same(sf.repeat(x, once), sf.repeat(x, [2] * len(truth)))


@given(data=st.data())
def test_rows_against_plain_lists(arrays, data):
    x = data.draw(some_rows(kinds=arrays.dtypes))
    before = x.copy()
    counts, like, level = data.draw(likes(len(x)))
    wanted = np.repeat(x, counts, axis=0)
    for found in (arrays.on(sf.expand)(x, like, level=level), arrays.on(sf.repeat)(x, counts)):
        oracle.assert_bits(found, wanted)
        assert not np.shares_memory(found, x)
    oracle.assert_bits(x, before)


@every_format
@given(data=st.data())
def test_expand_as_against_plain_lists(arrays, kind, data):
    """Row i over innermost sequence i, whatever holds the rows."""
    like_truth, like = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    x = data.draw(some_rows(len(like_truth.sequences()), kinds=arrays.dtypes))
    wanted = np.repeat(x, like_truth.lengths(), axis=0)
    found = arrays.on(sf.expand_as)(x, like)
    assert type(found) is type(like)
    if kind is list:  # which keeps neither dtype nor item shape
        assert oracle.read(found).counts() == like_truth.counts() or not like_truth.rows()
        assert repr(rows(found).tolist()) == repr(wanted.tolist()) or not wanted.size
        return
    assert structure_of(found) == structure_of(like)
    oracle.assert_bits(rows(found), wanted)
    if isinstance(found, oracle.PADDED):
        assert np.count_nonzero(found.data) == np.count_nonzero(rows(found)), "padding is zero"
    cut = data.draw(st.integers(0, len(x)))
    for source in oracle.ENCODINGS:
        y = sf.convert(sf.Ragged(x, [cut, len(x) - cut]), source)
        oracle.assert_layout(arrays.on(sf.expand_as)(y, like), found)


@every_format
def test_odd_shapes(kind):
    for item_shape in ((), (0,), (2, 0)):
        x = np.zeros((2, *item_shape), "f4")
        like = oracle.build(kind, strategies.truth_from([0, 0], "f8"))
        assert sf.expand(x, like).shape == (0, *item_shape)
        assert sf.repeat(x, 3).shape == (6, *item_shape)
        for found in (sf.expand_as(x, like), sf.expand(sf.Ragged(x, [1, 1]), like)):
            assert oracle.read(found).rows() == 0
            if not isinstance(found, list):
                assert (found.dtype, found.item_shape) == (x.dtype, item_shape)
    nothing = oracle.build(kind, strategies.truth_from([], "f8"))
    assert sf.expand(np.zeros((0, 2), "i1"), nothing).shape == (0, 2)
    assert len(sf.expand(nothing, nothing)) == len(sf.repeat(nothing, [])) == 0
    assert len(sf.expand_as(np.zeros((0, 2), "i1"), nothing)) == 0


def test_bare_lists_stay_what_they_are():
    arrays = (np.array([1, 2], ">i2"), np.array([3], ">i2"))
    found = sf.repeat(arrays, [1, 2])
    assert type(found) is tuple
    oracle.assert_nested(found, (arrays[0], arrays[1], arrays[1]))
    assert sf.repeat([], []) == []
    assert sf.expand_as(np.array([1, 2]), [[[0, 0]], [], [[0]]]) == [[[1, 1]], [], [[2]]]


def test_pairs_say_how_often_too():
    like = sf.Pairs(np.zeros(2), sf.Ragged(np.zeros(3), [1, 2]))
    assert sf.expand(np.array([5, 6]), like).tolist() == [5, 6, 6]


@pytest.mark.parametrize("item_shape", [(), (3,), (64,)])
@pytest.mark.usefixtures("threads_for_all")
def test_threads_do_not_matter(item_shape):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 60, 100 if INTERPRETED or item_shape == (64,) else 8000)
    counts[3] = 1_000 if INTERPRETED else 10_000
    x = rng.normal(size=(len(counts), *item_shape))
    ragged = sf.Ragged(x, np.ones(len(x), int))
    wanted, found = np.repeat(x, counts, axis=0), []
    gradient = rng.integers(-9, 9, wanted.shape).astype(float)
    sums = np.array([part.sum(0) for part in np.split(gradient, np.cumsum(counts)[:-1])])
    for threads in (1, 2, 3, 8):
        sf.set_num_threads(threads)
        y, pullback = sf.vjp(sf.repeat, x, counts)
        z, ragged_pullback = sf.vjp(sf.repeat, ragged, counts)
        found.append((y, z.data, pullback(gradient), ragged_pullback(gradient).data))
    for first, second, third, fourth in found:
        oracle.assert_bits(first, wanted)
        oracle.assert_bits(second, wanted)
        assert np.array_equal(third, sums)
        assert np.array_equal(fourth, sums)


# --------------------------------------------------------------------------------------------------- out=


def rows_in(kind, array):
    """The rows of an array, one per sequence."""
    return array if kind is np.ndarray else sf.convert(sf.Ragged(array, [1] * len(array)), kind)


@into_rows
@pytest.mark.parametrize("dtype", strategies.DTYPES, ids=str)
def test_out_takes_the_rows(kind, dtype):
    """The result is the first rows of the buffer, which can be used again; what lies behind them stays."""
    data = strategies.counting(dtype, (3, 2))
    x = rows_in(kind, data)
    like = sf.Ragged(np.zeros(3), [2, 0, 1])
    buffer = strategies.counting(dtype, (7, 2))
    untouched = buffer.copy()
    for counts in ([2, 0, 1], [0, 1, 2], [0, 0, 0], [2, 2, 3]):
        found = sf.repeat(x, counts, out=buffer)
        array = oracle.arrays_of(found)[0]
        assert array.ctypes.data == buffer.ctypes.data
        oracle.assert_bits(array, np.repeat(data, counts, axis=0))
        oracle.assert_bits(buffer[max(3, sum(counts)) :], untouched[max(3, sum(counts)) :])
        assert_same(found, sf.repeat(x, counts))
    assert_same(sf.expand(x, like, out=buffer), sf.expand(x, like))
    for kind_of_like in (sf.Ragged, sf.LoD):
        found = sf.expand_as(x, sf.convert(like, kind_of_like), out=buffer)
        assert type(found) is kind_of_like
        assert np.shares_memory(found.data, buffer)
        oracle.assert_bits(found.data, data[[0, 0, 2]])


def test_out_keeps_the_levels():
    x = sf.LoD.from_nested([[[1], [2, 3]], [], [[4]]])
    buffer = np.zeros(9, int)
    found = sf.repeat(x, [2, 1, 1], out=buffer)
    assert found.to_nested() == [[[1], [2, 3]], [[1], [2, 3]], [], [[4]]]
    assert buffer.tolist() == [1, 2, 3, 1, 2, 3, 4, 0, 0]


def unaligned(shape):
    return np.ndarray(shape, "f4", np.zeros(4 * int(np.prod(shape)) + 1, "u1").data, offset=1)


OUT = {
    "too small": (np.zeros((2, 2), "f4"), sf.StructureError),
    "another item shape": (np.zeros((9, 3), "f4"), sf.StructureError),
    "no item shape": (np.zeros(9, "f4"), sf.StructureError),
    "too many axes": (np.zeros((9, 2, 1), "f4"), sf.StructureError),
    "a number": (np.zeros((), "f4"), sf.StructureError),
    "another dtype": (np.zeros((9, 2)), TypeError),
    "another byte order": (np.zeros((9, 2), ">f4"), TypeError),
    "read-only": (strategies.read_only(np.zeros((9, 2), "f4")), TypeError),
    "strided": (np.zeros((18, 2), "f4")[::2], TypeError),
    "transposed": (np.zeros((2, 9), "f4").T, TypeError),
    "a list": ([[0.0, 0.0]] * 9, TypeError),
    "an encoding": (sf.Ragged(np.zeros((9, 2), "f4"), [9]), TypeError),
    "no array": (9, TypeError),
    "bytes": (bytearray(72), TypeError),
}


@into_rows
@pytest.mark.parametrize("what", OUT)
def test_an_out_that_cannot_be(kind, what):
    out, error = OUT[what]
    x = rows_in(kind, np.ones((2, 2), "f4"))
    like = sf.Ragged(np.zeros(3), [1, 2])
    for op, other in ((sf.expand, like), (sf.repeat, [1, 2]), (sf.expand_as, like)):
        with pytest.raises(error, match="out"):
            op(x, other, out=out)
    if isinstance(out, np.ndarray):
        assert not out.any(), "nothing is half done"


@into_rows
def test_an_out_in_the_same_memory(kind):
    memory = np.zeros((8, 2), "f4")
    x = rows_in(kind, memory[:2])
    assert oracle.shares(x, memory)
    for out in (memory, memory[1:]):
        for op, other in ((sf.repeat, [1, 2]), (sf.expand_as, sf.Ragged(np.zeros(3), [1, 2]))):
            with pytest.raises(sf.StructureError, match="same memory"):
                op(x, other, out=out)
    found = sf.repeat(x, [1, 2], out=memory[2:])
    assert oracle.shares(found, memory[2:])


def test_an_unaligned_out_is_written_or_refused():
    """Never half: a machine may not be able to write there."""
    out = unaligned((3, 2))
    x = np.ones((2, 2), "f4")
    try:
        assert sf.repeat(x, [1, 2], out=out).tolist() == [[1, 1]] * 3
    except TypeError:
        assert not out.any()


@pytest.mark.parametrize("kind", [sf.List, sf.Padded, sf.Packed, sf.Masked], ids=oracle.format_name)
def test_encodings_without_an_out(kind):
    x = oracle.build(kind, strategies.truth_from([1, 1], "f8"))
    buffer = np.zeros(9)
    for op, other in ((sf.repeat, 2), (sf.expand, sf.Ragged(np.zeros(3), [1, 2]))):
        with pytest.raises(TypeError, match=f"out=.*{kind.__name__}"):
            op(x, other, out=buffer)
    with pytest.raises(TypeError, match=f"out=.*{kind.__name__}"):
        sf.expand_as(np.ones(2), x, out=buffer)
    assert not buffer.any()


# ----------------------------------------------------------------------------------------------- gradients


def assert_transposes(x, y, pullback):
    """<dy, f(x)> == <pullback(dy), x>, exactly, and the gradient has the structure of x."""
    dy = with_numbers(y, 1)
    dx = pullback(dy)
    if isinstance(x, np.ndarray):
        assert (type(dx), dx.dtype, dx.shape) == (np.ndarray, x.dtype, x.shape)
    else:
        assert structure_of(dx) == structure_of(x)
    assert dot(rows_of(dy), rows_of(y)) == dot(rows_of(dx), rows_of(x))


def with_numbers(x, seed):
    if isinstance(x, np.ndarray):
        return np.random.default_rng(seed).integers(-9, 9, x.shape).astype(x.dtype)
    return filled_like(x, seed)


@pytest.mark.parametrize("kind", [*oracle.FORMATS, np.ndarray], ids=oracle.format_name)
@given(data=st.data())
def test_expand_and_repeat_are_transposed(arrays, kind, data):
    x = data.draw(some_rows(kinds=FLOAT)) if kind is np.ndarray else data.draw(strategies.encoded(kind, kinds=FLOAT))[1]
    x = with_numbers(x, 2)
    counts, like, level = data.draw(likes(len(x)))
    if kind is list and not len(rows(sf.repeat(x, counts))):
        return  # lists without rows do not keep their levels
    assert_transposes(x, *arrays.vjp(sf.expand, x, like, level=level))
    assert_transposes(x, *arrays.vjp(sf.repeat, x, counts))


@every_format
@given(data=st.data())
def test_expand_as_is_transposed(arrays, kind, data):
    like_truth, like = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    n = len(like_truth.sequences())
    x = with_numbers(data.draw(some_rows(n, kinds=FLOAT)), 3)
    if kind is not list or (arrays.first and like_truth.rows() and x.ndim == 1):
        assert_transposes(x, *arrays.vjp(sf.expand_as, x, like))
        source = data.draw(st.sampled_from(oracle.ENCODINGS))
        z = sf.convert(sf.Ragged(x, [n]), source)
        assert_transposes(z, *arrays.vjp(sf.expand_as, z, like))


@every_encoding
def test_dy_may_be_any_encoding(kind):
    x = sf.LoD(np.arange(6.0).reshape(3, 2), [[0, 1, 3]])
    y, pullback = sf.vjp(sf.repeat, x, [1, 2])
    dy = filled_like(y, 4)
    wanted = pullback(dy.data)
    oracle.assert_layout(pullback(sf.convert(dy, kind)), wanted)
    y, pullback = sf.vjp(sf.expand_as, x.data, sf.convert(sf.LoD(np.zeros(4), [[0, 2, 2, 4]]), kind))
    dy = filled_like(y, 5)
    for other in oracle.ENCODINGS:
        oracle.assert_bits(pullback(sf.convert(dy, other)), pullback(dy))


def with_ones(y):
    return sf.Ragged(np.ones_like(rows(y)), sf.lengths(y))


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_copies_of_half_precision_are_added_up_in_single(dtype):
    x = np.ones((2, 1), dtype)
    like = sf.Ragged(np.zeros(4106), [4096, 10])
    for given_as in (x, sf.Ragged(x, [1, 1]), sf.Masked(x.reshape(2, 1, 1), [1, 1])):
        for op, other in ((sf.expand, like), (sf.repeat, [4096, 10]), (sf.expand_as, like)):
            y, pullback = sf.vjp(op, given_as, other)
            dx = pullback(np.ones_like(y) if isinstance(y, np.ndarray) else with_ones(y))
            assert rows_of(dx).dtype == dtype
            assert rows_of(dx).astype(float).tolist() == [[4096], [10]]


@pytest.mark.parametrize("dtype", ["i8", "u1", "?", "<U3", "M8[s]"])
def test_what_cannot_be_added_up_has_no_gradient(dtype):
    x = np.zeros(2, dtype)
    like = sf.Ragged(np.zeros(3), [1, 2])
    for given_as in (x, sf.Ragged(x, [1, 1])):
        for op, other in ((sf.expand, like), (sf.repeat, [1, 2]), (sf.expand_as, like)):
            with pytest.raises(TypeError, match="no gradient|cannot be added up"):
                sf.vjp(op, given_as, other)


@pytest.mark.parametrize(
    "unfit",
    [np.zeros((2, 2)), np.zeros((3, 1)), np.zeros(3), np.zeros(()), sf.Ragged(np.zeros((3, 2)), [2, 1, 0])],
    ids=lambda dy: f"{type(dy).__name__} {getattr(dy, 'shape', '')}",
)
def test_a_gradient_that_does_not_fit(unfit):
    x = np.ones((2, 2))
    like = sf.Ragged(np.zeros(3), [1, 2])
    for given_as in (x, sf.Ragged(x, [1, 1])):
        for op, other in ((sf.expand, like), (sf.repeat, [1, 2]), (sf.expand_as, like)):
            with pytest.raises(sf.StructureError, match="gradient"):
                sf.vjp(op, given_as, other)[1](unfit)


# -------------------------------------------------------------------------------------------------- errors


ONE, PAIR = sf.Ragged(np.zeros(1), [1]), sf.Pairs(sf.Ragged(np.ones(1), [1]), np.ones(1))
DEEP, FLAT = sf.LoD(np.zeros(3), [[0, 1, 2], [0, 1, 3]]), sf.Padded(np.zeros((1, 2)), [2], [1, 1], [0, 1])


@pytest.mark.parametrize("kind", [*oracle.FORMATS, np.ndarray], ids=oracle.format_name)
def test_another_number_of_sequences(kind):
    x = np.ones(2) if kind is np.ndarray else oracle.build(kind, strategies.truth_from([1, 1], "f8"))
    for n in (0, 1, 3):
        like = sf.Ragged(np.zeros(n), [1] * n)
        for op, other, message in (
            (sf.expand, like, f"2 (rows|sequences).*{n}"),
            (sf.repeat, [1] * n, f"{n} numbers.*2 sequences"),
            (sf.expand_as, like, f"2 rows.*{n}"),
            (sf.expand_as, sf.LoD(np.zeros(n), [[0, n], range(n + 1)]), f"2 rows.*{n}"),
        ):
            with pytest.raises(sf.StructureError, match=message):
                op(x, other)


@pytest.mark.parametrize(
    ("error", "message", "calls"),
    [
        *[
            (IndexError, f"level {level}", lambda like=like, level=level: sf.expand(np.ones(2), like, level=level))
            for like, level in [(DEEP, 2), (DEEP, -3), (DEEP, 10), (FLAT, 1), (FLAT, -2)]
        ],
        *[
            (TypeError, "level", lambda level=level: sf.expand(np.ones(2), DEEP, level=level))
            for level in (0.0, "0", None)
        ],
        *[
            (error, message, lambda op=op, other=other, x=x, options=options: op(x, other, **options))
            for op, other in [(sf.expand, ONE), (sf.repeat, [1]), (sf.expand_as, ONE)]
            for error, message, x, options in [
                *[(TypeError, "is no single batch|array", x, {}) for x in (3, None, "text", object(), {})],
                (TypeError, "x.one and x.two", PAIR, {}),
                (sf.StructureError, "single number", np.array(3.0), {}),
                (TypeError, "axis", np.ones(1), {"axis": 0}),
                (TypeError, "object|dtype", np.array([None]), {}),
            ]
        ],
        *[
            (TypeError, "encoding|batch", lambda op=op, like=like: op(np.ones(1), like))
            for op in (sf.expand, sf.expand_as)
            for like in (np.zeros(1), 3, None, "text", object())
        ],
        (TypeError, "x.one and x.two", lambda: sf.expand_as(ONE, PAIR)),
        (sf.StructureError, "single number", lambda: sf.repeat(np.array(3.0), 1)),
    ],
)
def test_errors(error, message, calls):
    with pytest.raises(error, match=message):
        calls()


@pytest.mark.parametrize(
    ("counts", "error"),
    [
        ([1, -1], sf.StructureError),
        (-1, sf.StructureError),
        ([1, 2**63], sf.StructureError),
        ([1.0, 2.0], TypeError),
        (np.ones(2), TypeError),
        (1.0, TypeError),
        ([True, False], TypeError),
        (True, TypeError),
        (np.array([True, False]), TypeError),
        ([[1], [2]], (TypeError, sf.StructureError)),
        (np.ones((1, 2), int), (TypeError, sf.StructureError)),
        ("12", TypeError),
        (None, TypeError),
        ({1, 2}, TypeError),
    ],
    ids=str,
)
def test_counts_that_cannot_be(counts, error):
    for x in (np.ones(2), sf.Ragged(np.ones(2), [1, 1]), [[1], [2]]):
        with pytest.raises(error, match="counts"):
            sf.repeat(x, counts)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 12, 16, 24, 32, 33, 64])
@pytest.mark.parametrize("most", [0, 1, 2, 9, 100])
def test_rows_of_few_bytes(width, most):
    """Narrow rows are repeated in vectors, which must not write beyond the last one."""
    rng = np.random.default_rng(width + most)
    for n in (1, 2, 7, 40):
        counts = rng.integers(0, most + 1, n)
        x = rng.integers(0, 256, (n, width), np.uint8)
        room = np.full((counts.sum() + 70, width), 7, np.uint8)
        found = sf.expand_as(x, sf.Ragged(np.zeros(counts.sum()), counts), out=room)
        oracle.assert_bits(found.data, np.repeat(x, counts, 0))
        assert (room[counts.sum() :] == 7).all()
        oracle.assert_bits(sf.repeat(x, counts), np.repeat(x, counts, 0))


def test_gradients_in_another_byte_order():
    x = sf.Ragged(np.array([1.0, 2.0, 3.0], ">f8"), [2, 1])
    assert sf.vjp(sf.repeat, x, 2)[1](np.ones(6, ">f8")).data.tolist() == [2, 2, 2]
    assert sf.vjp(sf.select, x, [0, 0, 1])[1](np.ones(5, ">f8")).data.tolist() == [2, 2, 1]
