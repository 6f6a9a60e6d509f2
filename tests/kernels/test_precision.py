"""Long sums of float32: as exact as short ones, and the same whatever stands beside a sequence.

`oracle.roundings` says how exact.  A float32 total that is added up row by row loses 1 % at a million rows of 0.1.
"""

import os

import numpy as np
import oracle
import pytest
from conftest import INTERPRETED

import seqformats as sf
from seqformats.arrays import NUMPY
from seqformats.beam.plan import NO_LIMITS
from seqformats.launch.kernel import kernel
from seqformats.operations import pieces

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")
ROWS = 20_000 if INTERPRETED else 1_000_000
EXACT = 1e-6

# Around the ends of what is added up together: 4, 8, 16, 32 and 64 rows.
BORDERS = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 67, 127, 128, 129, 1023, 1024, 1025, 2080]
WIDTHS = [1, 4, 32, 63, 64, 65, 300]
if INTERPRETED:
    BORDERS, WIDTHS = [0, 1, 7, 8, 9, 16, 17, 31, 32, 33, 64, 65, 67, 129], [1, 4, 33, 65]


def tenths(rows, item=(), dtype="f4"):
    return sf.Ragged(np.full((rows, *item), 0.1, dtype), [rows])


def error(found, wanted):
    """The largest of the relative errors."""
    return float(np.abs(np.asarray(found, "f8") / wanted - 1).max())


def softmax_of(x):
    powers = np.exp(x - x.max(0))
    return powers / powers.sum(0)


# --------------------------------------------------------------------------------------- against float64


@pytest.mark.parametrize("item", [(), (3,), (40,), (70,)])
def test_sums_of_many_rows(item):
    rows = max(ROWS // max(int(np.prod(item)), 1), 5000)
    x = tenths(rows, item)
    each = float(np.float32(0.1))
    assert error(sf.reduce_sum(x), rows * each) < EXACT
    assert error(sf.reduce_mean(x), each) < EXACT
    assert error(sf.reduce_sqrt(x), rows**0.5 * each) < EXACT
    steps = np.arange(1, rows + 1).reshape(-1, *[1] * len(item))
    assert error(sf.cumsum(x).data, steps * each) < EXACT
    assert error(sf.vjp(sf.cumsum, x)[1](x).data, steps[::-1] * each) < EXACT


@pytest.mark.skipif(INTERPRETED, reason="ten million rows")
def test_sums_of_ten_million_rows():
    x = tenths(10_000_000)
    each = float(np.float32(0.1))
    assert error(sf.reduce_sum(x), 1e7 * each) < EXACT
    assert error(sf.reduce_mean(x), each) < EXACT
    assert error(sf.cumsum(x).data[-1], 1e7 * each) < EXACT
    z = sf.Ragged(np.where(np.arange(10_000_000) == 0, np.float32(0), np.float32(-0.1)), [10_000_000])
    assert abs(float(sf.reduce_logsumexp(z)[0]) - np.log(np.exp(z.data.astype("f8")).sum())) < 2e-6
    assert abs(float(sf.softmax(z).data.astype("f8").sum()) - 1) < EXACT


LONG = [1, 31, 32, 1023, 1024, 1025, 1056, 0, 2047, 2048, 2049, 2080, 3107]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "c8"])
@pytest.mark.parametrize("width", [1, 33] if INTERPRETED else [1, 4, 32, 70])
@pytest.mark.parametrize("kind", [sf.Ragged, sf.Masked, "left"])
def test_the_rule_number_by_number(kind, width, dtype):
    """What adds up by pieces on a GPU is on the host a plain statement of the rule."""
    lengths = LONG[::3] if INTERPRETED else LONG
    rng = np.random.default_rng(width)
    data = rng.normal(0, 1, (sum(lengths), width)) * 10.0 ** rng.integers(-3, 4, (sum(lengths), width))
    x = sf.Ragged(data.astype(dtype), lengths)
    x = sf.convert(x, sf.Masked, side="left") if kind == "left" else sf.convert(x, kind)
    reductions = (sf.reduce_sum, sf.reduce_mean, sf.reduce_sqrt)
    if INTERPRETED and dtype == "c8":  # NumPy divides complex numbers in other ways
        reductions = reductions[:1]
    for mode, reduction in enumerate(reductions):
        wanted = reduction(x)
        found = np.full_like(wanted, 7)
        args = (x._layout(), mode)
        rows, out = (y.view("f4") if dtype == "c8" else y for y in (x.data, found))
        width_of = width * (2 if dtype == "c8" else 1)
        pieces.sum_parts(pieces.Job(None, NUMPY, (rows,), out, args, width_of, x._structure))
        oracle.assert_bits(found, wanted)


@pytest.mark.parametrize("dtype", ["f2", "bfloat16"])
def test_half_precision_of_many_rows(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = tenths(ROWS, dtype=dtype)
    each, epsilon = float(x.data[0]), 2.0**-7
    assert error(sf.reduce_mean(x), each) == 0
    assert error(sf.reduce_sqrt(x), ROWS**0.5 * each) < epsilon
    assert error(sf.cumsum(sf.slice(x, 0, 5000)).data, each * np.arange(1, 5001)) < epsilon
    assert abs(float(sf.reduce_logsumexp(x)[0]) - each - np.log(ROWS)) < 16 * epsilon
    assert sf.reduce_sum(sf.Ragged(np.ones(ROWS, dtype) / 1024, [ROWS])).astype(float)[0] == pytest.approx(
        ROWS / 1024, rel=epsilon
    )


@pytest.mark.parametrize("item", [(), (8,), (33,)])
def test_exponentials_of_many_rows(item):
    """One of them is the largest by far, and what the others are worth is added to it."""
    rows = max(ROWS // max(int(np.prod(item)), 1), 5000)
    z = np.full((rows, *item), -0.1, "f4")
    z[0] = 0
    x, exact = sf.Ragged(z, [rows]), z.astype("f8")
    wanted = softmax_of(exact)
    assert error(np.exp(sf.reduce_logsumexp(x).astype("f8")), np.exp(exact).sum(0)) < 4e-6  # of a logarithm of 14
    assert error(sf.softmax(x).data, wanted) < EXACT
    assert np.abs(sf.log_softmax(x).data - np.log(wanted)).max() < 2e-6
    assert abs(sf.softmax(x).data.sum(0, "f8") - 1).max() < EXACT


@pytest.mark.parametrize("item", [(), (8,), (33,), (300,)])
def test_gradients_of_a_softmax_of_many_rows(item):
    rng = np.random.default_rng(0)
    rows = max(ROWS // max(int(np.prod(item)), 1), 3000)
    x = sf.Ragged(rng.random((rows, *item), np.float32), [rows])
    dy = rng.random((rows, *item), np.float32)
    slopes, y = dy.astype("f8"), softmax_of(x.data.astype("f8"))
    found = sf.vjp(sf.softmax, x)[1](sf.Ragged(dy, [rows])).data
    wanted = y * (slopes - (y * slopes).sum(0))
    assert np.abs(found - wanted).max() < EXACT * np.abs(wanted).max()
    found = sf.vjp(sf.log_softmax, x)[1](sf.Ragged(dy, [rows])).data
    wanted = slopes - y * slopes.sum(0)  # y is known by its logarithm around -10, which is rounded too
    assert np.abs(found - wanted).max() < 3 * EXACT * np.abs(wanted).max()


@pytest.mark.parametrize("item", [(), (5,), (70,)])
def test_copies_and_updates(item):
    """The gradient of a choice that takes a sequence many times, and updates that meet at one place."""
    rows = max(ROWS // 10 // max(int(np.prod(item)), 1), 3000)
    each = float(np.float32(0.1))
    dy = np.full((2 * rows, *item), 0.1, "f4")
    back = sf.vjp(sf.select, sf.Ragged(dy[:2], [2]), np.zeros(rows, int))[1]
    assert error(back(sf.Ragged(dy, np.full(rows, 2))).data, rows * each) < EXACT
    index = sf.Ragged(np.zeros(2 * rows, int), [2 * rows])
    found = sf.scatter(np.zeros((1, 2, *item), "f4"), index, sf.Ragged(dy, [2 * rows]))
    assert error(found[0, 0], 2 * rows * each) < EXACT
    assert not found[0, 1].any()


def test_updates_of_a_sequence_do_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    lengths = [3, 16, 0, 17, 500]
    x = sf.Ragged(rng.random((sum(lengths), 3), np.float32), lengths)
    index = sf.Ragged(rng.integers(0, 2, sum(lengths)), lengths)
    base = rng.random((len(lengths), 2, 3), np.float32)
    found = sf.scatter(base, index, x)
    for i in range(len(lengths)):
        oracle.assert_bits(found[i : i + 1], sf.scatter(base[i : i + 1], index[i], x[i]))


def test_means_of_many_of_the_largest():
    many = 300 if INTERPRETED else 5000
    assert error(sf.topk_mean(tenths(many, (3,)), [many]), float(np.float32(0.1))) < EXACT


@pytest.mark.parametrize("width", [1000, 100_000])
def test_log_probabilities_of_a_large_vocabulary(width):
    """A row of scores is added up 128 at a time."""
    scores = np.full(width, -0.1, "f4")
    scores[0] = 0
    out = np.empty_like(scores)
    kernel("log_probabilities").run(scores, out, NO_LIMITS, width, 0, 1)
    assert np.abs(out - (scores - np.log(np.exp(scores.astype("f8")).sum()))).max() < 2e-6


def test_infinity_and_nan_in_long_sequences():
    x = np.ones((100, 70), "f4")
    x[3, 1] = x[50, 2] = np.inf
    x[3, 3], x[90, 3] = np.inf, -np.inf
    x[64, 4] = np.nan
    with np.errstate(invalid="ignore"):
        for operation in (sf.reduce_sum, sf.reduce_mean, sf.reduce_sqrt):
            found = operation(sf.Ragged(x, [100]))[0]
            assert found[1] == found[2] == np.inf
            assert np.isnan(found[3:5]).all()
            assert np.isfinite(found[5:]).all()
        found = sf.cumsum(sf.Ragged(x, [100])).data[-1]
        assert found[1] == found[2] == np.inf
        assert np.isnan(found[3:5]).all()


@pytest.mark.parametrize("dtype", ["f8", "c8", "c16", "i8", "u4"])
def test_other_dtypes(dtype):
    rng = np.random.default_rng(1)
    x = (100 * rng.random((5000, 3))).astype(dtype)
    wanted = x.astype("c16" if dtype[0] == "c" else "f8").sum(0)
    found = sf.reduce_sum(sf.Ragged(x, [5000]))[0]
    assert np.abs(found / wanted - 1).max() < (EXACT if dtype == "c8" else 1e-14)
    assert np.abs(sf.cumsum(sf.Ragged(x, [5000])).data[-1] / wanted - 1).max() < (EXACT if dtype == "c8" else 1e-12)


# ------------------------------------------------------------------------------------------ the same bits

SUMS = [sf.reduce_sum, sf.reduce_mean, sf.reduce_sqrt, sf.reduce_logsumexp]
ITEMS = [sf.softmax, sf.log_softmax, sf.cumsum]


def gradient(op):
    return lambda x: sf.vjp(op, x)[1](x)


ALONG = {op.__name__: op for op in ITEMS} | {f"{op.__name__} back": gradient(op) for op in ITEMS}


def at_borders(width, dtype="f4"):
    rng = np.random.default_rng(width)
    shape = (sum(BORDERS), width)
    return sf.Ragged((rng.random(shape) if dtype != "c8" else rng.random(shape) * 1j).astype(dtype), BORDERS)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", SUMS, ids=lambda op: op.__name__)
@pytest.mark.usefixtures("threads_for_all")
def test_one_item_a_sequence_at_the_borders(op, width):
    """Alone, among others, in every encoding, with threads, and a column alone."""
    x = at_borders(width)
    sf.set_num_threads(1)
    alone = np.concatenate([op(x[i]) for i in range(len(BORDERS))])
    sf.set_num_threads(3)
    try:
        for kind in oracle.ENCODINGS:
            oracle.assert_bits(op(sf.convert(x, kind)), alone)
    finally:
        sf.set_num_threads(None)
    oracle.assert_bits(op(x[::-1])[::-1], alone)
    oracle.assert_bits(op(sf.Ragged(np.ascontiguousarray(x.data[:, -1]), BORDERS)), alone[:, -1])
    truth = {sf.reduce_sum: lambda a: a.sum(0), sf.reduce_mean: lambda a: a.mean(0)}.get(op)
    for i, length in enumerate(BORDERS):
        if truth is not None and length:
            assert error(alone[i], truth(x[i].data.astype("f8"))) < EXACT


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", ALONG)
@pytest.mark.usefixtures("threads_for_all")
def test_one_item_an_item_at_the_borders(op, width):
    op, x = ALONG[op], at_borders(width)
    sf.set_num_threads(1)
    alone = np.concatenate([op(x[i]).data for i in range(len(BORDERS))])
    sf.set_num_threads(3)
    try:
        for kind in oracle.ENCODINGS:
            oracle.assert_bits(sf.convert(op(sf.convert(x, kind)), sf.Ragged).data, alone)
    finally:
        sf.set_num_threads(None)
    column = sf.Ragged(np.ascontiguousarray(x.data[:, -1]), BORDERS)
    oracle.assert_bits(op(column).data, alone[:, -1])


# ------------------------------------------------------------------------------------------------- on CUDA


@pytest.mark.skipif(not SIMULATED, reason="the simulator of CUDA")
@pytest.mark.parametrize("item", [(), (3,)])
def test_sums_on_cuda(item):
    rows = 9000 if item == () else 3000
    each = float(np.float32(0.1))
    x = sf.to_device(tenths(rows, item), "cuda")

    def host(y):
        return sf.to_device(y, "cpu") if isinstance(y, sf.Ragged) else y.copy_to_host()

    assert error(host(sf.reduce_sum(x)), rows * each) < EXACT
    assert error(host(sf.reduce_mean(x)), each) < EXACT
    steps = np.arange(1, rows + 1).reshape(-1, *[1] * len(item))
    assert error(host(sf.cumsum(x)).data, steps * each) < EXACT
    z = np.full((rows, *item), -0.1, "f4")
    z[0] = 0
    z = sf.Ragged(z, [rows])
    y = host(sf.softmax(sf.to_device(z, "cuda"))).data
    assert error(y, softmax_of(z.data.astype("f8"))) < EXACT
    back = sf.vjp(sf.log_softmax, sf.to_device(z, "cuda"))[1](x)
    wanted = each - softmax_of(z.data.astype("f8")) * rows * each
    assert np.abs(host(back).data - wanted).max() < EXACT


@pytest.mark.skipif(not SIMULATED, reason="the simulator of CUDA")
def test_copies_and_updates_on_cuda():
    rows, each = 2000, float(np.float32(0.1))
    dy = sf.to_device(sf.Ragged(np.full(rows, 0.1, "f4"), np.ones(rows, int)), "cuda")
    x = sf.to_device(sf.Ragged(np.ones(1, "f4"), [1]), "cuda")
    found = sf.vjp(sf.select, x, np.zeros(rows, int))[1](dy)
    assert error(sf.to_device(found, "cpu").data, rows * each) < EXACT
    base = sf.to_device(sf.Ragged(np.zeros((1, 2), "f4"), [1]), "cuda").data
    index, new = (sf.to_device(sf.Ragged(a, [rows]), "cuda") for a in (np.zeros(rows, int), np.full(rows, 0.1, "f4")))
    assert error(sf.scatter(base, index, new).copy_to_host()[0, 0], rows * each) < EXACT
