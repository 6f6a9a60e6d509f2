"""Reductions of every sequence, and their gradients, against plain Python."""

import fractions
import math
import os

import numpy as np
import oracle
import pytest
import strategies
from checks import dot, rows, structure_of, with_rows
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.operations import reduce

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# ------------------------------------------------------------------------------------------- the slow truth


RECORDS = {getattr(sf, f"reduce_{name}"): record for name, record in reduce.REDUCTIONS.items()}
TRUTHS = {reduction: oracle.REDUCTIONS[record.name] for reduction, record in RECORDS.items()}
REDUCTIONS = [*TRUTHS]
PICKED = {reduction: truth.pick for reduction, truth in TRUTHS.items() if truth.pick}
ENDS = [reduction for reduction in PICKED if not TRUTHS[reduction].ordered]
ORDERED = [*[reduction for reduction in TRUTHS if TRUTHS[reduction].ordered], sf.argmax, sf.topk_mean]
ADDED = [reduction for reduction in TRUTHS if reduction not in [*ENDS, *ORDERED]]
REALS = [*ORDERED, *[reduction for reduction in TRUTHS if TRUTHS[reduction].real]]
WITH_GRADIENT = [*[reduction for reduction, record in RECORDS.items() if record.has_gradient], sf.topk_mean]
WITHOUT_GRADIENT = [reduction for reduction, record in RECORDS.items() if not record.has_gradient]
OPERATIONS = [*REDUCTIONS, sf.topk_mean, sf.argmax]
ARGS = {sf.topk_mean: ([2, 1, 5],)}


def operation_name(operation):
    return operation.__name__


every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_format = pytest.mark.parametrize("kind", oracle.FORMATS, ids=oracle.format_name)
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS, ids=operation_name)
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=operation_name)
every_gradient = pytest.mark.parametrize("operation", WITH_GRADIENT, ids=operation_name)
with_order = pytest.mark.parametrize("operation", ORDERED, ids=operation_name)
formats = st.sampled_from(oracle.FORMATS)
from_an_end = pytest.mark.parametrize("reduction", ENDS, ids=operation_name)

FLOAT = [np.dtype("f8")]
SHAPES = [*strategies.ITEM_SHAPES, (17,)]  # many columns go another way than few
HALF = [np.dtype("f2"), strategies.BFLOAT16]
REAL = [np.dtype(code) for code in ("f4", "f8", ">f4", "?", "i1", "i2", "i4", "i8", ">i8", "u1", "u2", "u4", "u8")]
REAL += HALF
SUMMED = [*REAL, np.dtype("c8"), np.dtype("c16")]


def mean_of_largest(k):
    return lambda column: sum(sorted(column, key=oracle.rank, reverse=True)[:k]) / k


def run(operation, x):
    return operation(x, *ARGS.get(operation, ()))


def dtypes_of(operation):
    return strategies.DTYPES if operation in ENDS else REAL if operation in REALS else SUMMED


def is_float(dtype):
    return dtype.kind in "fc" or dtype == strategies.BFLOAT16


def result_dtype(operation, dtype):
    if operation in ENDS:  # a move
        return dtype
    if operation in TRUTHS and TRUTHS[operation].made:
        return np.dtype(TRUTHS[operation].made)
    if is_float(dtype) or operation in PICKED:
        return dtype.newbyteorder("=")
    if operation in TRUTHS and TRUTHS[operation].whole:
        return np.dtype("u8" if dtype.kind == "u" else "i8")
    return np.dtype("f8")


def exact(value):
    """A number of any dtype as one of Python's, exactly."""
    value = value.item()
    if isinstance(value, complex) or not math.isfinite(value):
        return value
    return fractions.Fraction(value)


def columns_of(truth):
    """The numbers of every sequence, column by column: ``((i, *place), numbers)``."""
    for i, sequence in enumerate(truth.sequences()):
        for place in np.ndindex(*truth.item_shape):
            yield (i, *place), [item[place] for item in sequence]


def without_levels(found, truth, dtype, item_shape=None):
    """The array of a result, of which the levels were looked at; nested lists keep neither dtype nor item shape."""
    if isinstance(found, list):
        found = sf.LoD.from_nested(found, dtype, levels=truth.levels - 1)
        if not found.rows:
            found = sf.LoD(np.zeros((0, *(truth.item_shape if item_shape is None else item_shape)), dtype), found.lod)
    if truth.levels > 1:
        assert type(found) is sf.LoD
        assert found.lengths() == truth.counts()[:-1]
        found = found.data
    assert type(found) is np.ndarray
    return found


def assert_reduced(reduction, found, truth, empty=None):
    dtype = result_dtype(reduction, truth.dtype)
    found = without_levels(found, truth, dtype)
    if reduction in PICKED:
        assert_picked(found, PICKED[reduction], truth, dtype, 0 if empty is None else empty)
    else:
        empty = RECORDS[reduction].default if empty is None else empty
        assert_calculated(found, TRUTHS[reduction], truth, dtype, empty)


def assert_picked(found, pick, truth, dtype, empty):
    """The very items, bit for bit but for the bits of a NaN."""
    wanted = np.zeros((len(truth.sequences()), *truth.item_shape), dtype)
    for place, column in columns_of(truth):
        if column:
            numbers = column if truth.dtype.kind in "USMm" else [exact(number) for number in column]
            wanted[place] = column[pick(numbers)]
        elif empty != 0:
            wanted[place] = empty
    oracle.assert_bits(with_one_nan(found), with_one_nan(wanted))


def with_one_nan(array):
    return np.where(array != array, np.full((), np.nan, array.dtype), array) if is_float(array.dtype) else array


def assert_calculated(found, wished, truth, dtype, empty):
    assert found.dtype == dtype
    assert found.shape == (len(truth.sequences()), *truth.item_shape)
    for place, column in columns_of(truth):
        numbers = [exact(number) for number in column]
        wanted = wished.calculate(numbers) if column else empty
        if dtype.kind in "biu":
            assert int(found[place]) == np.array(int(wanted) % 2**64, "u8").astype(dtype)  # wraps round, as in NumPy
        elif all(part == 0 or 1e3 * tiny(dtype) < part < largest(dtype) for part in wished.passes(numbers)):
            measure = wished.scale or (lambda column: wished.calculate([abs(number) for number in column]))
            scale = measure(numbers) if column else 0
            assert_close(complex(found[place]), complex(wanted), scale, len(column), dtype, wished.rounds)


def assert_close(found, wanted, scale, length, dtype, rounds):
    """Rounding errors of a sum, or a product, and of the result's own dtype."""
    if not np.isfinite(wanted) or abs(wanted) > largest(dtype):
        assert np.array_equal(found, wanted if not np.isfinite(wanted) else math.copysign(math.inf, wanted.real), True)
    else:
        calculated_in = np.dtype("f4") if dtype in HALF else dtype
        rounded = rounds(length, calculated_in) + 2
        bound = 2 * rounded * epsilon(calculated_in) * float(scale) + epsilon(dtype) * abs(wanted) + tiny(dtype)
        assert abs(found - wanted) <= bound, (found, wanted)


def epsilon(dtype):
    return 2.0**-8 if dtype == strategies.BFLOAT16 else float(np.finfo(dtype).eps)


def largest(dtype):
    return 3.38e38 if dtype == strategies.BFLOAT16 else float(np.finfo(dtype).max)


def tiny(dtype):
    return 1e-40 if dtype == strategies.BFLOAT16 else float(np.finfo(dtype).tiny)


# ---------------------------------------------------------------------------------------------- values


def reduced(operation, x, *args, **options):
    """NumPy warns where a half or an infinity overflows."""
    with np.errstate(all="ignore"):
        return operation(x, *args, **options)


@every_format
@every_reduction
@given(data=st.data())
def test_against_plain_python(arrays, kind, reduction, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(dtypes_of(reduction)), shapes=SHAPES))
    if truth.dtype.kind == "c" and not np.isfinite(truth.data()).all():
        return  # Python divides complex infinities in its own way
    assert_reduced(reduction, reduced(arrays.on(reduction), x), truth)


@every_format
@given(data=st.data())
def test_argmax_against_plain_python(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(REAL), shapes=SHAPES))
    found = without_levels(arrays.on(sf.argmax)(x), truth, np.int64)
    wanted = np.full((len(truth.sequences()), *truth.item_shape), -1)
    for place, column in columns_of(truth):
        if column:
            wanted[place] = oracle.first_largest([exact(number) for number in column])
    oracle.assert_bits(found, wanted)


@every_format
@given(data=st.data())
def test_topk_mean_against_plain_python(arrays, kind, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.of(REAL), shapes=SHAPES))
    topks = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 100]), max_size=3))
    dtype = result_dtype(sf.topk_mean, truth.dtype)
    found = without_levels(reduced(arrays.on(sf.topk_mean), x, topks), truth, dtype, (len(topks), *truth.item_shape))
    assert found.dtype == dtype
    assert found.shape == (len(truth.sequences()), len(topks), *truth.item_shape)
    for q, k in enumerate(topks):
        assert_calculated(found[:, q], oracle.Reduction(mean_of_largest(k)), truth, dtype, 0)


@pytest.mark.parametrize("dtype", SUMMED, ids=str)
@every_reduction
def test_every_dtype(dtype, reduction):
    truth = strategies.truth_from([3, 0, 1, 40], dtype, (2,))
    for kind in oracle.ENCODINGS:
        if dtype in dtypes_of(reduction):
            assert_reduced(reduction, reduction(oracle.build(kind, truth)), truth)


@every_reduction
@pytest.mark.parametrize("item_shape", [(), (1,), (2, 3), (0,), (2, 0)])
def test_odd_shapes(reduction, item_shape):
    for lengths in ([], [0], [0, 0], [1], [2, 0]):
        truth = strategies.truth_from(lengths, "f4", item_shape)
        for kind in oracle.ENCODINGS:
            x = oracle.build(kind, truth)
            assert_reduced(reduction, reduction(x), truth)
            assert sf.argmax(x).shape == (len(lengths), *item_shape)
            assert sf.topk_mean(x, [1, 2]).shape == (len(lengths), 2, *item_shape)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_added_up_in_single(dtype):
    """4096 ones do not get stuck where the half-precision sum would."""
    x = sf.Ragged(np.ones(5000, dtype), [4096, 904])
    assert sf.reduce_sum(x).astype(float).tolist() == [4096, np.array(904).astype(dtype).astype(float)]
    assert sf.reduce_mean(x).astype(float).tolist() == [1, 1]
    assert sf.reduce_sqrt(x)[0] == 64
    many = 300 if INTERPRETED else 4096  # each of them is compared with all
    assert sf.topk_mean(sf.Ragged(np.ones(many, dtype), [many]), [many])[0] == 1
    assert abs(float(sf.reduce_logsumexp(x)[0]) - 1 - math.log(4096)) < 10 * epsilon(dtype)


def test_integers_do_not_overflow_their_own_dtype():
    assert sf.reduce_sum(sf.Ragged(np.full(4, 127, "i1"), [4])).tolist() == [508]
    assert sf.reduce_sum(sf.Ragged(np.full(4, 255, "u1"), [4])).tolist() == [1020]
    assert sf.reduce_sum(sf.Ragged(np.ones(300, bool), [300])).tolist() == [300]
    assert sf.reduce_sum(sf.Ragged(np.array([2**63, 2**62], "u8"), [2])).tolist() == [2**63 + 2**62]
    assert sf.reduce_mean(sf.Ragged(np.array([1, 2]), [2])).tolist() == [1.5]


@pytest.mark.parametrize("code", ["i8", "u8"])
def test_the_mean_of_large_integers_does_not_overflow(code):
    assert sf.reduce_mean(sf.Ragged(np.full(4, 2**62, code), [4])).tolist() == [2.0**62]


@pytest.mark.parametrize("code", ["i8", "u8"])
def test_large_integers_are_compared_exactly(code):
    """Neighbours that are one float64."""
    top = np.iinfo(code).max
    x = sf.Ragged(np.array([top - 2, top - 1, top, top - 1], code), [1, 3])
    assert sf.reduce_max(x).tolist() == [top - 2, top]
    assert sf.reduce_min(x).tolist() == [top - 2, top - 1]
    assert sf.argmax(x).tolist() == [0, 1]


@pytest.mark.parametrize("form", strategies.FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("dtype", ["f8", ">f8", ">i4", ">c16", ">f2", ">u8"])
@every_reduction
def test_any_memory_and_byte_order(form, dtype, reduction):
    truth = strategies.truth_from([2, 0, 3], np.dtype(dtype), (2,))
    if truth.dtype.kind == "c" and reduction in REALS:
        return
    for kind in (sf.Ragged, sf.List, sf.Masked):
        assert_reduced(reduction, reduction(oracle.build(kind, truth, form=form)), truth)


@every_encoding
@pytest.mark.parametrize(
    ("reduction", "wanted"),
    [
        (sf.reduce_sum, [np.nan, np.inf, np.nan, 6, np.nan]),
        (sf.reduce_mean, [np.nan, np.inf, np.nan, 3, np.nan]),
        (sf.reduce_sqrt, [np.nan, np.inf, np.nan, 6 / 2**0.5, np.nan]),
        (sf.reduce_prod, [np.nan, np.inf, -np.inf, 8, np.nan]),
        (sf.reduce_norm, [np.nan, np.inf, np.inf, 20**0.5, np.nan]),
        (sf.reduce_max, [np.nan, np.inf, np.inf, 4, np.nan]),
        (sf.reduce_min, [np.nan, 1, -np.inf, 2, np.nan]),
        (sf.reduce_logsumexp, [np.nan, np.inf, np.inf, 4 + np.log1p(np.exp(-2)), np.nan]),
        (sf.argmax, [1, 0, 0, 1, 0]),
        (sf.reduce_var, [np.nan, np.nan, np.nan, 1, np.nan]),
        (sf.reduce_std, [np.nan, np.nan, np.nan, 1, np.nan]),
        (sf.reduce_median, [np.nan, np.inf, np.nan, 3, np.nan]),
        (sf.reduce_mode, [1, 1, -np.inf, 2, np.nan]),
        (sf.reduce_nunique, [2, 2, 2, 2, 1]),
        (sf.reduce_count, [2, 2, 2, 2, 1]),
        (sf.reduce_any, [True] * 5),
        (sf.reduce_all, [True] * 5),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nan_and_infinity(arrays, kind, reduction, wanted):
    items = [np.array(v) for v in ([1.0, np.nan], [np.inf, 1.0], [np.inf, -np.inf], [2.0, 4.0], [np.nan])]
    found = arrays.on(reduction)(sf.convert(items, kind))
    assert np.allclose(found, wanted, rtol=1e-15, atol=0, equal_nan=True)


@pytest.mark.parametrize("width", [1, 4, 40])
def test_logarithms_of_every_size(width):
    """Of float32 they are taken in vectors, by a polynomial."""
    lengths = np.array([1, 2, 3, 5, 10, 1000, 4097])
    found = sf.reduce_logsumexp(sf.Ragged(np.zeros((lengths.sum(), width), "f4"), lengths))
    wanted = np.repeat(np.log(lengths.astype("f4")), width).reshape(-1, width)
    np.testing.assert_array_max_ulp(found, wanted, 2)


def test_logsumexp_neither_overflows_nor_vanishes():
    x = sf.Ragged(np.array([1e4, 1e4, -1e4, -1e4, -np.inf, -np.inf, 0.0, -np.inf]), [2, 2, 2, 2])
    assert sf.reduce_logsumexp(x).tolist() == [1e4 + math.log(2), -1e4 + math.log(2), -np.inf, 0]


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 32, 33, 40, 70])
@pytest.mark.parametrize("reduce", [sf.reduce_sum, sf.reduce_mean], ids=lambda reduce: reduce.__name__)
def test_sums_of_negative_zeros_are_zero_at_any_width(reduce, length):
    for width in (1, 4, 64) if INTERPRETED else (1, 4, 33, 64, 100, 1200):
        x = sf.Ragged(np.full((length + 1, width), -0.0, np.float32), [length, 1])
        assert not np.signbit(reduce(x)).any()


@every_encoding
def test_of_equal_items_the_first(arrays, kind):
    """Zeros of either sign are equal."""
    x = sf.convert([np.array([-0.0, 0.0]), np.array([0.0, -0.0]), np.array([1.0, 3.0, 3.0, 1.0])], kind)
    oracle.assert_bits(arrays.on(sf.reduce_max)(x), np.array([-0.0, 0.0, 3.0]))
    oracle.assert_bits(arrays.on(sf.reduce_min)(x), np.array([-0.0, 0.0, 1.0]))
    assert arrays.on(sf.argmax)(x).tolist() == [0, 0, 1]


def test_every_reduction_has_its_function():
    found = {name for name in dir(sf) if name.startswith("reduce_")}
    assert found == {f"reduce_{name}" for name in reduce.REDUCTIONS} | {"reduce_quantile"}  # which wants to know which
    for reduction, record in RECORDS.items():
        x = sf.Ragged(np.array([3.0, 2.0]), [2])
        assert reduction(x) == record.run(x, record.default)


def test_by_name():
    x = sf.LoD(np.array([1.0, 4.0, 2.0]), [[0, 1, 3], [0, 2, 2, 3]])
    for reduction in REDUCTIONS:
        name = reduction.__name__.removeprefix("reduce_")
        for spelling in (name, name.upper()):
            oracle.assert_same(sf.reduce(x, spelling), reduction(x))
            oracle.assert_same(sf.reduce(x, spelling, empty=1), reduction(x, empty=1))
        with pytest.raises(sf.StructureError, match="sequence 1 is empty"):
            sf.reduce(x, name, empty="raise")
    oracle.assert_same(sf.reduce(x, "average"), sf.reduce_mean(x))
    names = [name for record in RECORDS.values() for name in (record.name, *record.synonyms)]
    with pytest.raises(sf.ConversionError, match=f"xyz.*there are: {', '.join(names)} .SF203.$"):
        sf.reduce(x, "xyz")
    for wrong in (None, 3, max, sf.reduce_max):
        with pytest.raises(TypeError, match="name"):
            sf.reduce(x, wrong)


# ---------------------------------------------------------------------------------------------- empties


@every_encoding
@every_reduction
def test_empty_sequences(arrays, kind, reduction):
    here = arrays.on(reduction)
    x = sf.convert([np.ones(2), np.empty(0), np.ones(1)], kind)
    assert here(x)[1] == RECORDS[reduction].default
    assert [here(x, empty=value)[1] for value in (0, 1)] == [0, 1]
    if TRUTHS[reduction].made is None:
        assert here(x, empty=7.5)[1] == 7.5
        assert np.isnan(here(x, empty=np.nan)[1])
        assert here(x, empty=-np.inf)[1] == -np.inf
        assert math.copysign(1, here(x, empty=0.0)[1]) == 1
        assert math.copysign(1, here(x, empty=-0.0)[1]) == -1
    else:
        with pytest.raises(sf.ConversionError, match=r"empty=7.5 does not fit (int64|bool)"):
            here(x, empty=7.5)
    with pytest.raises(sf.StructureError, match="sequence 1 is empty"):
        here(x, empty="raise")
    full = sf.convert([np.ones(2), np.ones(1)], kind)
    assert here(full, empty="raise").tolist() == here(full).tolist()


@pytest.mark.parametrize("dtype", SUMMED, ids=str)
@every_reduction
def test_the_empty_value_in_every_dtype(dtype, reduction):
    if dtype in dtypes_of(reduction):
        truth = strategies.truth_from([0, 2], dtype, (2,))
        for empty in (0, 1, True, np.float32(1), np.int8(1)):
            assert_reduced(reduction, reduction(oracle.build(sf.Ragged, truth), empty=empty), truth, empty)


@pytest.mark.parametrize(
    "empty",
    ["zero", "", b"x", None, [], [1, 2, 3], np.zeros(3), object(), 1j, {}, np.timedelta64(1, "s"), 10**400],
    ids=lambda value: str(value)[:9],
)
@every_reduction
def test_an_impossible_empty_value(reduction, empty):
    """Whether or not a sequence is empty: what is wrong is wrong."""
    for lengths in ([0, 2], [2]):
        with pytest.raises((sf.StructureError, sf.ConversionError, TypeError), match="empty"):
            reduction(sf.Ragged(np.ones((2, 2)), lengths), empty=empty)


@pytest.mark.parametrize("reduction", [sf.reduce_sum, sf.reduce_max, sf.reduce_last], ids=operation_name)
@pytest.mark.parametrize(
    ("dtype", "empty"),
    [("i8", 0.5), ("i8", np.nan), ("i8", 2**63), ("u8", -1), ("f4", 1e300), ("f2", 1e5), ("f8", 1j), ("f8", 10**400)],
    ids=lambda value: str(value)[:9],
)
def test_an_empty_value_that_the_result_cannot_hold(reduction, dtype, empty):
    with pytest.raises((sf.StructureError, sf.ConversionError, TypeError), match="empty"):
        reduction(sf.Ragged(np.ones(1, dtype), [0, 1]), empty=empty)


def test_complex_empty_values():
    x = sf.Ragged(np.ones(1, "c8"), [0, 1])
    assert sf.reduce_sum(x, empty=2 - 1j).tolist() == [2 - 1j, 1]
    for empty in (1e300, 10**400, 1e300j):
        with pytest.raises(sf.ConversionError, match="empty"):
            sf.reduce_sum(x, empty=empty)


@from_an_end
@pytest.mark.parametrize("dtype", ["<U3", "S2", "M8[s]", "m8[s]", "V4"])
def test_of_dates_and_strings_zero_alone_can_stand_for_none(reduction, dtype):
    x = sf.Ragged(np.zeros(1, dtype), [0, 1])
    oracle.assert_bits(reduction(x), np.zeros(2, dtype))
    with pytest.raises(sf.ConversionError, match="empty=1 does not fit"):
        reduction(x, empty=1)
    with pytest.raises(sf.StructureError, match="sequence 0 is empty"):
        reduction(x, empty="raise")


# ---------------------------------------------------------------------------------------------- levels


@given(data=st.data())
def test_level_by_level(arrays, data):
    """A LoD without its innermost level, until an array is left."""
    levels = data.draw(st.integers(2, 4))
    truth = strategies.truth_from(data.draw(strategies.nestings(levels)), "f8", (2,), levels=levels)
    x = oracle.build(sf.LoD, truth)
    for level in range(levels - 1, 0, -1):
        x = arrays.on(sf.reduce_sum)(x)
        assert type(x) is sf.LoD
        assert x.lengths() == truth.counts()[:level]
        assert x.item_shape == (2,)
    assert np.array_equal(sf.reduce_sum(x), sf.reduce_sum(sf.convert(oracle.build(sf.LoD, truth), sf.Ragged, level=0)))


@every_reduction
def test_bare_lists(reduction):
    assert reduction([]).shape == (0,)
    for x in ([[1.0, 2.0], []], ([1.0, 2.0], []), [np.array([1.0, 2.0]), np.zeros(0)]):
        oracle.assert_bits(reduction(x), reduction(sf.Ragged(np.array([1.0, 2.0]), [2, 0])))
    oracle.assert_bits(reduction([[1, 2], [4]]), reduction(sf.Ragged(np.array([1, 2, 4]), [2, 1])))


# --------------------------------------------------------------------------- neighbours and threads


@every_operation
@pytest.mark.parametrize("item_shape", [(), (3,), (20,)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8"])
def test_neighbours_do_not_matter(operation, item_shape, dtype):
    """Bit for bit the same alone, among others, and in every encoding."""
    if dtype == "c8" and operation in REALS:
        return
    rng = np.random.default_rng(0)
    items = [rng.normal(size=(length, *item_shape)).astype(dtype) for length in (7, 0, 301, 1, 64)]
    alone = np.concatenate([run(operation, [item]) for item in items])
    for kind in oracle.ENCODINGS:
        oracle.assert_bits(run(operation, sf.convert(items, kind)), alone)
    oracle.assert_bits(run(operation, sf.convert(items, sf.Masked, side="left", width=350)), alone)
    oracle.assert_bits(run(operation, items[::-1])[::-1], alone)
    twice = run(operation, sf.convert([items, items], sf.LoD))
    oracle.assert_bits(twice.data, np.concatenate([alone, alone]))


@pytest.mark.passes("compiled", "guarded", reason="the batch is large")
@pytest.mark.parametrize("reduction", [sf.reduce_sum, sf.reduce_mean, sf.reduce_max, sf.reduce_min, sf.argmax])
@pytest.mark.parametrize("width", [64, 77, 1100])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
def test_a_batch_too_large_for_the_cache(reduction, width, dtype):
    """Its rows are read one after the other, and not four at a time; nothing else is different."""
    if dtype == "c8" and reduction in (sf.reduce_max, sf.reduce_min, sf.argmax):
        return
    rng = np.random.default_rng(0)
    lengths = (7, 0, 301, 1, 64, 32, 33, 4_200_000 // width // np.dtype(dtype).itemsize)
    items = [(rng.normal(size=(length, width)) * 100).astype(dtype) for length in lengths]
    alone = np.concatenate([run(reduction, [item]) for item in items[:-1]])
    for kind in (sf.Ragged, sf.Masked if width == 64 else sf.LoD):
        oracle.assert_bits(run(reduction, sf.convert(items, kind))[:-1], alone)


@every_operation
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
@pytest.mark.parametrize("width", [7, 109, 300])
def test_columns_do_not_matter(operation, dtype, width):
    """Bit for bit the same for a column alone and among others, however many of them are worked on at once."""
    if dtype == "c8" and operation in REALS:
        return
    rng = np.random.default_rng(2)
    lengths = [3, 0, 1, 18]
    data = (30 * rng.normal(size=(sum(lengths), width))).astype(dtype)
    if dtype != "i4":
        data[rng.random(data.shape) < 0.02] = np.nan
        data[rng.random(data.shape) < 0.02] = np.inf
        data[rng.random(data.shape) < 0.02] = -np.inf
    some = [*range(0, width, 23), width - 2, width - 1]
    with np.errstate(invalid="ignore", over="ignore"):
        for kind in oracle.FLAT:
            x, columns = (sf.convert(sf.Ragged(part, lengths), kind) for part in (data, data[:, some]))
            oracle.assert_bits(run(operation, x)[..., some], run(operation, columns))
            if dtype != "i4" and operation in WITH_GRADIENT:
                dy = rng.normal(size=run(operation, x).shape).astype(dtype)
                slopes = (
                    sf.convert(sf.vjp(operation, part, *ARGS.get(operation, ()))[1](wanted), sf.Ragged).data
                    for part, wanted in ((x, dy), (columns, np.ascontiguousarray(dy[..., some])))
                )
                whole, alone = slopes
                oracle.assert_bits(with_one_nan(whole[:, some]), with_one_nan(alone))


def with_threads(compute):
    """The results with one, two, three and eight threads."""
    try:
        for threads in (1, 2, 3, 8):
            sf.set_num_threads(threads)
            yield compute()
    finally:
        sf.set_num_threads(None)


def large_batch(kind, width=12):
    """One sequence is longer than a thread's part."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 50, 20) if INTERPRETED else rng.integers(0, 400, 400)
    lengths[7] = 500 if INTERPRETED else 20_000
    x = sf.Ragged(rng.normal(size=(int(lengths.sum()), width)).astype("f4"), lengths)
    return sf.convert(x if kind is not sf.Masked else x[8:], kind)


@every_operation
@pytest.mark.parametrize("width", [12, 18])
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Packed, sf.Masked], ids=oracle.format_name)
@pytest.mark.usefixtures("threads_for_all")
@pytest.mark.passes("compiled", "guarded", reason="threads of Python take turns")
def test_threads_do_not_matter(operation, width, kind):
    """Bit for bit the same with any number of threads."""
    x = large_batch(kind, width)
    first, *others = with_threads(lambda: run(operation, x))
    for other in others:
        oracle.assert_bits(other, first)
    for i in (0, 7, len(x) - 1):
        oracle.assert_bits(first[i], run(operation, x[i])[0])


# --------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("dtype", ["U3", "S2", "M8[s]", "m8[s]", "V4"])
@pytest.mark.parametrize("reduction", ADDED, ids=operation_name)
def test_dtypes_without_a_sum(reduction, dtype):
    with pytest.raises(TypeError, match=r"cannot be (added up|multiplied|counted); those that can: .*float32"):
        reduction(sf.Ragged(np.zeros(1, dtype), [1]))


@pytest.mark.parametrize("dtype", ["c8", "c16", "U3", "S2", "M8[s]", "m8[s]", "V4"])
@with_order
def test_dtypes_without_an_order(arrays, operation, dtype):
    if np.dtype(dtype) not in arrays.dtypes:
        pytest.skip(f"no arrays of {dtype}")
    for lengths in ([1], [1, 0], [0, 1]):
        with pytest.raises(TypeError, match=r"no order.*float32"):
            run(operation, arrays.up(sf.Ragged(np.zeros(1, dtype), lengths)))


@every_operation
def test_what_is_no_encoding(operation):
    for x in (np.zeros(3), 3, None, object()):
        with pytest.raises(TypeError, match="give it lengths"):
            run(operation, x)
    with pytest.raises(TypeError, match=r"sf\.from_text"):
        run(operation, "text")


@every_operation
def test_pairs(operation):
    one = sf.Ragged(np.ones(1), [1])
    with pytest.raises(TypeError, match="reduce x.one and x.two"):
        run(operation, sf.Pairs(one, one))


@pytest.mark.parametrize("topks", [0, -1, [0], [2, -1], [1.0], 2.5, "2", None, [True], [[1]], ["a"]])
def test_topks_that_cannot_be(topks):
    with pytest.raises((sf.StructureError, TypeError), match="topks"):
        sf.topk_mean(sf.Ragged(np.ones(3), [2, 1]), topks)


def test_topks_of_every_kind():
    x = sf.Ragged(np.array([3, 1, 2]), [3])
    for topks in (2, np.uint8(2), [2], (2,), np.array([2], "u1")):
        assert sf.topk_mean(x, topks).tolist() == [[2.5]]
    assert sf.topk_mean(x, [2**40, 1, 1]).tolist() == [[6 / 2**40, 3, 3]]


@every_operation
def test_options_that_there_are_not(operation):
    with pytest.raises(TypeError, match="axis"):
        operation(sf.Ragged(np.ones(3), [3]), *ARGS.get(operation, ()), axis=0)


@every_operation
def test_the_input_stays_as_it_was(operation):
    for dtype in ("f8", "i8", "f2"):
        for lengths in ([2, 3, 0], [1] * 5):  # of one item each: the result could be a view
            x = sf.Ragged(np.arange(5).astype(dtype), lengths)
            run(operation, x)[...] = -1
            assert x.data.tolist() == [0, 1, 2, 3, 4]


# ------------------------------------------------------------------------------------------- gradients


def distinct(x, seed):
    """`x` with other numbers, no two of them close to each other."""
    old = rows(x)
    return with_rows(x, (np.random.default_rng(seed).permutation(old.size) / 7).reshape(old.shape) - 2)


def values(y):
    return y if isinstance(y, np.ndarray) else sf.convert(y, sf.Ragged).data


def slope(operation, x, direction, dy, **options):
    """Of ``<dy, operation(x)>`` in that direction, by central differences."""
    args, step = ARGS.get(operation, ()), 1e-4
    up, down = (values(operation(with_rows(x, rows(x) + way * direction), *args, **options)) for way in (step, -step))
    return ((up - down) * dy).sum() / (2 * step)


def assert_gradient_in(dx, x):
    """It has the encoding, the structure and the dtype of `x`, and nothing in the padding."""
    assert structure_of(dx) == structure_of(x)
    if not isinstance(x, (list, tuple)):
        assert dx.dtype.newbyteorder("=") == x.dtype.newbyteorder("=")
        assert oracle.read(dx).item_shape == oracle.read(x).item_shape
    if isinstance(x, oracle.PADDED):
        assert np.count_nonzero(dx.data) == np.count_nonzero(rows(dx))


@every_gradient
@given(kind=formats, data=st.data())
def test_gradients_against_finite_differences(arrays, operation, kind, data):
    _, x = data.draw(strategies.encoded(kind, kinds=FLOAT, shapes=SHAPES))
    x = distinct(x, 0)
    options = {} if operation is sf.topk_mean else {"empty": 3.0}
    y, pullback = arrays.vjp(operation, x, *ARGS.get(operation, ()), **options)
    rng = np.random.default_rng(1)
    dy = rng.uniform(1, 2, values(y).shape)
    if isinstance(y, list) and not dy.size:
        return  # nested lists without items keep no item shape
    dx = pullback(dy)
    assert_gradient_in(dx, x)
    direction = rng.uniform(-1, 1, rows(x).shape)
    found, wanted = dot(dx, direction), slope(operation, x, direction, dy, **options)
    assert abs(found - wanted) <= 1e-5 * (1 + abs(dy).sum() + abs(rows(dx) * direction).sum())


@every_encoding
def test_of_equal_items_the_first_gets_the_gradient(arrays, kind):
    x = sf.convert([np.array([1.0, 3.0, 3.0]), np.zeros(0), np.array([1.0, 1.0, 2.0])], kind)
    dy = np.array([5.0, 100.0, 7.0])
    assert rows(arrays.vjp(sf.reduce_max, x)[1](dy)).tolist() == [0, 5, 0, 0, 0, 7]
    assert rows(arrays.vjp(sf.reduce_min, x)[1](dy)).tolist() == [5, 0, 0, 7, 0, 0]
    dy = np.array([[2.0, 4.0], [100.0, 100.0], [6.0, 8.0]])
    assert rows(arrays.vjp(sf.topk_mean, x, [1, 2])[1](dy)).tolist() == [0, 4, 2, 4, 0, 10]


@pytest.mark.parametrize("width", [1, 5, 40])
def test_of_equal_items_the_first_are_among_the_largest(arrays, width):
    """Also where a larger one comes later and takes the place of one of them."""
    column = np.array([2.0, 2.0, 1.0, 3.0, 2.0, np.nan, np.nan, 3.0])
    x = sf.Ragged(np.repeat(column[:, None], width, 1), [5, 3])
    dx = arrays.vjp(sf.topk_mean, x, [2, 3])[1](np.repeat([[[6.0], [6.0]]] * 2, width, 2)).data
    assert np.array_equal(dx, np.repeat(np.array([5.0, 2, 0, 5, 0, 5, 5, 2])[:, None], width, 1))


@from_an_end
@given(kind=formats, data=st.data())
def test_the_ends_have_a_gradient_in_every_dtype(arrays, reduction, kind, data):
    """They are moves: the gradient goes to the one place, zeros to all others."""
    truth, x = data.draw(strategies.encoded(kind, kinds=arrays.dtypes))
    y, pullback = arrays.vjp(reduction, x)
    dx = pullback(y)
    assert_gradient_in(dx, x)
    wanted = np.zeros((truth.rows(), *truth.item_shape), truth.dtype)
    start = 0
    for sequence in truth.sequences():
        if sequence:
            place = start + PICKED[reduction](sequence)
            wanted[place] = truth.data()[place]
        start += len(sequence)
    if kind is list:  # which does not keep the dtype
        assert repr(rows(dx).tolist()) == repr(wanted.tolist())
    else:
        oracle.assert_bits(rows(dx), wanted)


@pytest.mark.parametrize("dtype", [dtype for dtype in SUMMED if is_float(dtype)], ids=str)
@every_gradient
def test_gradients_keep_the_dtype(arrays, operation, dtype):
    if dtype not in arrays.of(dtypes_of(operation)):
        return
    truth = strategies.truth_from([2, 0, 3], dtype, (2,))
    args = ARGS.get(operation, ())
    exactly = sf.Ragged(truth.data().astype("c16" if dtype.kind == "c" else "f8"), truth.lengths())
    x = oracle.build(sf.Padded, truth)
    y, pullback = arrays.vjp(operation, x, *args)
    wanted = rows(sf.vjp(operation, exactly, *args)[1](np.ones(y.shape)))
    for dy in (np.ones_like(y), np.ones(y.shape, "f8"), np.ones(y.shape, "i4")):
        dx = pullback(dy)
        assert_gradient_in(dx, x)
        assert np.allclose(rows(dx).astype(wanted.dtype), wanted, rtol=8 * epsilon(dtype))


@every_gradient
def test_gradients_level_by_level(operation):
    """The result of several levels is a LoD, and dy may be any encoding of it."""
    x = distinct(oracle.build(sf.LoD, strategies.truth_from([[2, 0], [], [3]], "f8", (2,), levels=2)), 3)
    y, pullback = sf.vjp(operation, x, *ARGS.get(operation, ()))
    assert y.lengths() == [[2, 0, 1]]
    dy = sf.Ragged(np.arange(1.0, 1 + y.data.size).reshape(y.data.shape), [2, 0, 1])
    dx = pullback(dy.data)
    assert_gradient_in(dx, x)
    assert np.count_nonzero(rows(dx))
    for kind in oracle.ENCODINGS:
        oracle.assert_layout(pullback(sf.convert(dy, kind)), dx)
    with pytest.raises(sf.StructureError, match="gradient"):
        pullback(sf.Ragged(dy.data, [1, 1, 1]))


@every_gradient
def test_bare_lists_get_bare_lists(operation):
    args = ARGS.get(operation, ())
    wanted = rows(sf.vjp(operation, sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 1]), *args)[1](ones(operation)))
    for x in ([np.array([1.0, 2.0]), np.array([3.0])], (np.array([1.0, 2.0]), np.array([3.0]))):
        dx = sf.vjp(operation, x, *args)[1](ones(operation))
        assert type(dx) is type(x)
        assert [item.tolist() for item in dx] == [wanted[:2].tolist(), wanted[2:].tolist()]
    assert sf.vjp(operation, [[1.0, 2.0], [3.0]], *args)[1](ones(operation)) == [wanted[:2].tolist(), [wanted[2]]]
    nested = sf.vjp(operation, [[[1.0, 2.0]], [[3.0]], []], *args)[1](ones(operation))
    assert nested == [[wanted[:2].tolist()], [[wanted[2]]], []]


def ones(operation):
    return np.ones((2, 3) if operation is sf.topk_mean else 2)


@every_gradient
def test_an_empty_sequence_gets_nothing_and_gives_nothing(operation):
    x = sf.Ragged(np.arange(3.0), [0, 3, 0])
    y, pullback = sf.vjp(operation, x, *ARGS.get(operation, ()))
    dy = np.ones(y.shape)
    wanted = pullback(dy).data.tolist()
    dy[[0, 2]] = np.nan
    assert pullback(dy).data.tolist() == wanted
    y, pullback = sf.vjp(operation, sf.Ragged(np.zeros((0, 2)), [0, 0]), *ARGS.get(operation, ()))
    assert pullback(np.ones(y.shape)).data.shape == (0, 2)


@every_encoding
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("width", [1, 5, 40])
def test_the_gradient_of_a_logsumexp_is_the_softmax(kind, width, dtype):
    """However large the items are beside their differences; with a NaN or +inf among them it is NaN, as that is."""
    lengths = [4, 0, 1, 9, 70, 3, 3]
    data = np.random.default_rng(2).normal(size=(sum(lengths), width))
    data[:4] = data[:4].round() + {"f4": 1e7, "f8": 1e15}[dtype]
    data[5:14] += 1e4
    data[84], data[89] = np.inf, np.nan
    x = sf.convert(sf.Ragged(data.astype(dtype), lengths), kind)
    dy = np.random.default_rng(3).normal(size=(len(lengths), width)).astype(dtype)
    dx = sf.vjp(sf.reduce_logsumexp, x)[1](dy)
    assert_gradient_in(dx, x)
    np.testing.assert_allclose(rows(dx), rows(sf.softmax(x)) * np.repeat(dy, lengths, 0), rtol=2e-5, atol=1e-10)


@pytest.mark.parametrize("size", [1e5, 1e8, -1e8])
def test_the_gradient_of_a_logsumexp_adds_up_to_one(arrays, size):
    x = sf.Ragged(np.full((7, 2), size, "f4"), [4, 0, 3])
    dx = arrays.vjp(sf.reduce_logsumexp, x)[1](np.ones((3, 2), "f4"))
    np.testing.assert_allclose(dx.data[:, 0], [0.25] * 4 + [1 / 3] * 3, rtol=1e-6)


def test_the_gradient_of_a_logsumexp_of_nothing_but_minus_infinity():
    _, pullback = sf.vjp(sf.reduce_logsumexp, sf.Ragged(np.array([-np.inf, -np.inf, 0.0, -np.inf]), [2, 2]))
    assert pullback(np.ones(2)).data.tolist() == [0, 0, 1, 0]


@every_encoding
@pytest.mark.parametrize("width", [1, 5, 40])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_the_gradient_of_a_product_with_zeros(kind, width, dtype):
    """Each item gets the product of all others, whether one of them is zero, two, or itself."""
    rng = np.random.default_rng(4)
    lengths = [4, 0, 3, 1, 1, 6]
    data = rng.integers(1, 4, (sum(lengths), width)).astype(dtype)
    if data.dtype.kind == "c":
        data *= np.exp(1j * np.arange(len(data)))[:, None].astype(dtype)
    data[[1, 4, 6, 8]] = 0
    x = sf.convert(sf.Ragged(data, lengths), kind)
    y, pullback = sf.vjp(sf.reduce_prod, x)
    dy = rng.normal(size=y.shape).astype(dtype)
    dx = pullback(dy)
    assert_gradient_in(dx, x)
    found, end = rows(dx), 0
    for i, length in enumerate(lengths):
        begin, end = end, end + length
        for t in range(begin, end):
            others = np.delete(data[begin:end], t - begin, 0).prod(0)
            assert np.allclose(found[t], dy[i] * np.conj(others), rtol=1e-5)


@every_encoding
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_norm_and_its_gradient(arrays, kind, dtype):
    """Norms of items whose squares a float32 does not hold, of zeros, and of none."""
    small, large = (1e-3, 2e4) if dtype == "f2" else (1e-30, 1e30)
    data = np.array([[2 * large, 0], [0, 0], [small, -small], [5, 0]]).astype(dtype)
    x = sf.convert(sf.Ragged(data, [1, 0, 1, 2]), kind)
    wanted = np.array([[2 * large, 0], [0, 0], [0, 0], [5, small]])
    y, pullback = sf.vjp(sf.reduce_norm, x)
    np.testing.assert_allclose(y, wanted, rtol=2e-3 if dtype == "f2" else 1e-6)
    dx = pullback(np.ones_like(y))
    assert_gradient_in(dx, x)
    np.testing.assert_allclose(rows(dx), [[1, 0], [0, 0], [small / 5, -1], [1, 0]], rtol=2e-3, atol=1e-7)


@every_encoding
def test_the_gradient_of_a_norm_next_to_zero(arrays, kind):
    """A gradient divided by such a norm would be infinite, and NaN times a zero."""
    x = sf.convert(sf.Ragged(np.array([3e-44, 0, -4e-44], "f4"), [3]), kind)
    y, pullback = sf.vjp(sf.reduce_norm, x)
    np.testing.assert_allclose(rows(pullback(np.ones_like(y))), [0.6, 0, -0.8], rtol=0.05)


@every_gradient
@pytest.mark.usefixtures("threads_for_all")
def test_gradients_with_threads(operation):
    x = large_batch(sf.Packed)
    y, pullback = sf.vjp(operation, x, *ARGS.get(operation, ()))
    dy = np.random.default_rng(3).normal(size=y.shape).astype("f4")
    first, *others = with_threads(lambda: pullback(dy))
    for other in others:
        oracle.assert_bits(other.data, first.data)


@every_gradient
def test_the_gradient_by_name(operation):
    if operation is not sf.topk_mean:
        x = sf.Ragged(np.array([1.0, 3.0, 2.0]), [2, 1])
        y, pullback = sf.vjp(sf.reduce, x, operation.__name__.removeprefix("reduce_"))
        wanted, wanted_pullback = sf.vjp(operation, x)
        oracle.assert_bits(y, wanted)
        oracle.assert_same(pullback(np.ones(2)), wanted_pullback(np.ones(2)))


@pytest.mark.parametrize("dtype", ["i8", "u1", "?", ">i8"])
@every_gradient
def test_arithmetic_on_integers_has_no_gradient(operation, dtype):
    if operation not in ENDS:
        with pytest.raises(TypeError, match="no gradient.*float"):
            sf.vjp(operation, sf.Ragged(np.ones(3, dtype), [1, 2]), *ARGS.get(operation, ()))


@pytest.mark.parametrize("operation", [sf.argmax, *WITHOUT_GRADIENT], ids=operation_name)
def test_places_and_counts_have_no_gradient(operation):
    x = sf.Ragged(np.ones(3), [1, 2])
    with pytest.raises(TypeError, match=f"{operation.__name__} has no gradient"):
        sf.vjp(operation, x)
    if operation is not sf.argmax:
        with pytest.raises(TypeError, match=f"{operation.__name__} has no gradient"):
            sf.vjp(sf.reduce, x, operation.__name__.removeprefix("reduce_"))


UNFIT = [
    np.zeros(()),
    np.zeros(3),
    np.zeros((2, 2)),
    np.zeros((3, 3)),
    np.zeros((3, 2, 1)),
    sf.Ragged(np.zeros((3, 2)), [1, 1, 1]),
    sf.Ragged(np.zeros((3, 2)), [3, 0, 0]),
    [np.zeros((3, 2))],
]


@every_gradient
def test_a_gradient_that_does_not_fit(operation):
    _, pullback = sf.vjp(operation, sf.Ragged(np.ones((3, 2)), [2, 0, 1]), *ARGS.get(operation, ()))
    for unfit in UNFIT:
        with pytest.raises(sf.StructureError, match="gradient"):
            pullback(unfit)


@every_gradient
def test_a_gradient_of_a_wrong_kind(operation):
    _, pullback = sf.vjp(operation, sf.Ragged(np.ones(3), [2, 1]), *ARGS.get(operation, ()))
    for dy in (None, 3, "text", object(), {}):
        with pytest.raises(TypeError, match="gradient"):
            pullback(dy)


@pytest.mark.parametrize("dtype", ["V3", "S3", "U2", [("a", "i4")]])
@pytest.mark.parametrize("empty", [0, False, -0.0])
def test_zero_for_empty_sequences_of_no_numbers(dtype, empty):
    """Zero bytes are left, and no zero is written out as text."""
    found = sf.reduce_first(sf.Ragged(np.zeros(2, dtype), [2, 0]), empty=empty)
    assert found.tobytes() == bytes(found.nbytes)
