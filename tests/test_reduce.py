"""Sum and mean of every sequence, against plain Python."""

import fractions

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_reduction = pytest.mark.parametrize("reduction", [sf.reduce_sum, sf.reduce_mean], ids=lambda f: f.__name__)

HALF = [np.dtype("f2"), *([strategies.BFLOAT16] if strategies.BFLOAT16 else [])]
SUMMED = [
    np.dtype(code) for code in ("f4", "f8", "c8", "c16", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
] + HALF


def result_dtype(reduction, dtype):
    if dtype.kind in "fc" or dtype == strategies.BFLOAT16:
        return dtype
    if reduction is sf.reduce_mean:
        return np.dtype("f8")
    return np.dtype("u8" if dtype.kind == "u" else "i8")


def exact(value):
    """An item as an exact number."""
    value = value.item() if hasattr(value, "item") else value
    return complex(value) if isinstance(value, complex) else fractions.Fraction(value)


def expected(reduction, sequence, item_shape, empty=0):
    """Sum or mean by exact arithmetic, item by item."""
    out = np.empty(item_shape, object)
    for place in np.ndindex(*item_shape):
        found = [exact(item[place]) for item in sequence]
        total = sum(found) if found else empty
        out[place] = total / len(found) if found and reduction is sf.reduce_mean else total
    return out


def assert_reduced(reduction, found, truth, empty=0):
    dtype = result_dtype(reduction, truth.dtype)
    assert found.dtype == dtype
    assert found.shape == (len(truth), *truth.item_shape)
    for i, sequence in enumerate(truth.sequences()):
        wanted = expected(reduction, sequence, truth.item_shape, empty)
        for place in np.ndindex(*truth.item_shape):
            got, want = found[(i, *place)], wanted[place]
            if dtype.kind in "iu":
                assert int(got) == int(want)
            else:
                size = sum(abs(complex(item[place])) for item in sequence) + abs(complex(want))
                bound = 4 * (len(sequence) + 1) * float(epsilon(dtype)) * size + 1e-30
                assert abs(complex(got) - complex(want)) <= bound, (i, place, got, want)


def epsilon(dtype):
    return 2**-7 if dtype == strategies.BFLOAT16 else np.finfo(dtype).eps


# ---------------------------------------------------------------------------------------------- values


@every_encoding
@every_reduction
@given(data=st.data())
def test_against_exact_arithmetic(kind, reduction, data):
    truth, x = data.draw(strategies.encoded(kind, kinds=SUMMED, levels=1))
    if np.any(~np.isfinite(truth.data().astype("c16"))):
        return
    with np.errstate(all="ignore"):
        found = reduction(x)
    if truth.dtype.kind in "iu" and any(abs(v) >= 2**31 for v in truth.data().reshape(-1).tolist()):
        return  # extreme values wrap around, as NumPy's do
    assert_reduced(reduction, found, truth)


@every_encoding
@pytest.mark.parametrize("dtype", SUMMED, ids=str)
@every_reduction
def test_every_dtype(kind, reduction, dtype):
    truth = strategies.truth_from([3, 0, 1, 40], dtype, (2,))
    assert_reduced(reduction, reduction(oracle.build(kind, truth)), truth)


@every_reduction
@pytest.mark.parametrize("item_shape", [(), (1,), (2, 3), (0,), (2, 0)])
@pytest.mark.parametrize("lengths", [[], [0], [0, 0], [1], [2, 0]])
def test_odd_shapes(reduction, item_shape, lengths):
    truth = strategies.truth_from(lengths, "f4", item_shape)
    for kind in oracle.ENCODINGS:
        assert_reduced(reduction, reduction(oracle.build(kind, truth)), truth)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_is_added_up_in_single(dtype):
    """4096 ones do not get stuck where the half-precision sum would."""
    x = sf.Ragged(np.ones(5000, dtype), [4096, 904])
    assert sf.reduce_sum(x).astype(float).tolist() == [4096, np.array(904).astype(dtype).astype(float)]
    assert sf.reduce_mean(x).astype(float).tolist() == [1, 1]


def test_integers_do_not_overflow_their_own_dtype():
    assert sf.reduce_sum(sf.Ragged(np.full(4, 127, "i1"), [4])).tolist() == [508]
    assert sf.reduce_sum(sf.Ragged(np.full(4, 255, "u1"), [4])).tolist() == [1020]
    assert sf.reduce_sum(sf.Ragged(np.ones(300, bool), [300])).tolist() == [300]
    assert sf.reduce_sum(sf.Ragged(np.array([2**63, 2**62], "u8"), [2])).tolist() == [2**63 + 2**62]
    assert sf.reduce_mean(sf.Ragged(np.array([1, 2]), [2])).tolist() == [1.5]


@pytest.mark.parametrize("form", strategies.FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("dtype", ["f8", ">f8", ">i4", ">c16", ">f2"])
def test_any_memory_and_byte_order(form, dtype):
    truth = strategies.truth_from([2, 0, 3], np.dtype(dtype), (2,))
    x = sf.Ragged(form(truth.data()), truth.lengths())
    found = sf.reduce_sum(x)
    assert found.dtype.isnative
    wanted = [[sum(item[k] for item in sequence) for k in range(2)] for sequence in truth.sequences()]
    assert found.tolist() == np.array(wanted).astype(found.dtype).tolist()


@every_encoding
@every_reduction
def test_nan_and_infinity(kind, reduction):
    items = [np.array(v) for v in ([1.0, np.nan], [np.inf, 1.0], [np.inf, -np.inf], [2.0, 4.0], [np.nan])]
    found = reduction(sf.convert(items, kind))
    wanted = [np.nan, np.inf, np.nan, 6.0 if reduction is sf.reduce_sum else 3.0, np.nan]
    assert np.array_equal(found, wanted, equal_nan=True)


@every_encoding
@every_reduction
def test_padding_is_never_added(kind, reduction):
    truth = strategies.truth_from([2, 0, 1], "f8")
    options = {"width": 6, "fill": np.nan} if kind in oracle.PADDED else {}
    found = reduction(oracle.build(kind, truth, **options))
    assert found.tolist() == ([3, 0, 3] if reduction is sf.reduce_sum else [1.5, 0, 3])


# --------------------------------------------------------------------------------------------- empties


@every_encoding
@every_reduction
def test_empty_sequences(kind, reduction):
    x = sf.convert([np.ones(2), np.empty(0), np.ones(1)], kind)
    assert reduction(x)[1] == 0
    assert reduction(x, empty=7.5)[1] == 7.5
    assert np.isnan(reduction(x, empty=np.nan)[1])
    assert reduction(x, empty=-np.inf)[1] == -np.inf
    with pytest.raises(sf.StructureError, match="sequence 1 is empty"):
        reduction(x, empty="raise")
    full = sf.convert([np.ones(2), np.ones(1)], kind)
    assert reduction(full, empty="raise").tolist() == reduction(full).tolist()


@every_reduction
def test_the_empty_value_has_the_items_shape(reduction):
    found = reduction(sf.Ragged(np.ones((1, 2)), [0, 1]), empty=3.0)
    assert found.tolist() == [[3, 3], [1, 1]]


@pytest.mark.parametrize("empty", ["zero", "", b"x", None, [], [1, 2, 3], np.zeros(3), object(), 1j, {}])
@every_reduction
def test_an_impossible_empty_value(reduction, empty):
    """Whether or not a sequence is empty: what is wrong is wrong."""
    for lengths in ([0, 2], [2]):
        with pytest.raises((sf.StructureError, sf.ConversionError, TypeError), match="empty"):
            reduction(sf.Ragged(np.ones((2, 2)), lengths), empty=empty)


@pytest.mark.parametrize(("dtype", "empty"), [("i8", 0.5), ("i8", np.nan), ("f4", 1e300), ("u1", -1), ("f8", 1j)])
def test_an_empty_value_that_the_result_cannot_hold(dtype, empty):
    with pytest.raises((sf.StructureError, sf.ConversionError, TypeError), match="empty"):
        sf.reduce_sum(sf.Ragged(np.ones(1, dtype), [0, 1]), empty=empty)


# ---------------------------------------------------------------------------------------------- levels


@given(data=st.data())
def test_level_by_level(data):
    """A LoD without its innermost level, until an array is left."""
    levels = data.draw(st.integers(2, 4))
    truth = strategies.truth_from(data.draw(strategies.nestings(levels)), "f8", (2,), levels=levels)
    x = oracle.build(sf.LoD, truth)
    for level in range(levels - 1, 0, -1):
        x = sf.reduce_sum(x)
        assert type(x) is sf.LoD
        assert x.lengths() == truth.counts()[:level]
        assert x.item_shape == (2,)
    assert np.array_equal(sf.reduce_sum(x), sf.reduce_sum(sf.convert(oracle.build(sf.LoD, truth), sf.Ragged, level=0)))


def test_the_mean_of_means():
    x = sf.LoD(np.array([1.0, 3.0, 5.0, 9.0]), [[0, 2, 3, 3], [0, 2, 3, 4]])
    means = sf.reduce_mean(x)
    assert means.data.tolist() == [2, 5, 9]
    assert sf.reduce_mean(means).tolist() == [3.5, 9, 0]
    assert sf.reduce_mean([[[1, 3], [5]], [[9]], []]).to_nested() == [[2, 5], [9], []]


@every_reduction
def test_bare_lists(reduction):
    assert reduction([]).shape == (0,)
    assert reduction([[1.0, 2.0], []]).tolist() == ([3, 0] if reduction is sf.reduce_sum else [1.5, 0])
    assert reduction([np.array([1, 2]), np.array([4])]).tolist() == ([3, 4] if reduction is sf.reduce_sum else [1.5, 4])


# --------------------------------------------------------------------------- neighbours and threads


@every_reduction
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8"])
def test_neighbours_do_not_matter(reduction, dtype):
    """Bit for bit the same alone, among others, and in every encoding."""
    rng = np.random.default_rng(0)
    items = [rng.normal(size=(length, 3)).astype(dtype) for length in (7, 0, 301, 1, 64)]
    alone = np.concatenate([reduction([item]) for item in items])
    for kind in oracle.ENCODINGS:
        oracle.assert_bits(reduction(sf.convert(items, kind)), alone)
    oracle.assert_bits(reduction(items[::-1])[::-1], alone)
    oracle.assert_bits(reduction(sf.convert([items, items], sf.LoD)).data, np.concatenate([alone, alone]))


@every_reduction
def test_threads_do_not_matter(reduction):
    """Bit for bit the same with any number of threads, on a batch large enough to use them."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 4000, 400)
    lengths[7] = 200_000
    x = sf.Ragged(rng.normal(size=int(lengths.sum())).astype("f4"), lengths)
    found = []
    try:
        for threads in (1, 2, 3, 8):
            sf.set_num_threads(threads)
            found.append(reduction(x))
    finally:
        sf.set_num_threads(None)
    for other in found[1:]:
        oracle.assert_bits(other, found[0])
    assert np.allclose(
        found[0][7], x[7].data.astype(float).sum() / (200_000 if reduction is sf.reduce_mean else 1), atol=0.5
    )


# --------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("dtype", ["U3", "S2", "M8[s]", "m8[s]", "V4"])
@every_reduction
def test_dtypes_without_a_sum(reduction, dtype):
    with pytest.raises(TypeError, match=r"cannot be added up; those that can: .*float32"):
        reduction(sf.Ragged(np.zeros(1, dtype), [1]))


@pytest.mark.parametrize("x", [np.zeros(3), 3, None, "text", object()])
@every_reduction
def test_what_is_no_encoding(reduction, x):
    with pytest.raises(TypeError, match="give it lengths"):
        reduction(x)


@every_reduction
def test_the_input_stays_as_it_was(reduction):
    x = sf.Ragged(np.arange(5.0), [2, 3])
    reduction(x, empty=5)[...] = -1
    assert x.data.tolist() == [0, 1, 2, 3, 4]
    integers = sf.Ragged(np.arange(5), [1] * 5)
    reduction(integers)[...] = -1
    assert integers.data.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("code", ["i8", "u8"])
def test_the_mean_of_large_integers_does_not_overflow(code):
    assert sf.reduce_mean(sf.Ragged(np.full(4, 2**62, code), [4])).tolist() == [2.0**62]
