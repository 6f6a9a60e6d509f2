"""Reductions of rows of a table, against plain Python and against rows that are written out."""

import itertools

import numpy as np
import oracle
import pytest
import strategies
from checks import structure_of
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
every_mode = pytest.mark.parametrize("mode", ["sum", "mean", "max"])
LENGTHS = [3, 0, 1, 9, 2]
IDS = [4, 0, 4, 2, 1, 1, 3, 4, 0, 2, 2, 1, 0, 3, 3]
FLOATS = [np.dtype(code) for code in ("f4", "f8", "f2", ">f8")]


def bags(kind, lengths=LENGTHS, ids=IDS, dtype="i8"):
    ends = np.cumsum([0, *lengths]).tolist()
    parts = [np.array(ids[a:b], dtype) for a, b in itertools.pairwise(ends)]
    return oracle.build(kind, oracle.truth_of(parts, dtype, ()))


def expected(table, ids, weights, mode):
    """One bag in float64."""
    rows = [np.asarray(table[i], "f8") for i in ids]
    if not rows:
        return np.zeros(table.shape[1:])
    if mode == "max":
        return np.maximum.reduce(rows)
    factors = np.ones(len(rows)) if weights is None else np.asarray(weights, "f8")
    total = sum(factor * row for factor, row in zip(factors, rows, strict=True))
    mass = factors.sum() if mode == "mean" else 1.0
    return total / mass if mass else np.zeros_like(total)


@every_encoding
@given(data=st.data())
def test_bags(arrays, kind, data):
    lengths = data.draw(st.lists(st.one_of(st.integers(0, 5), st.sampled_from([33, 70])), max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    dtype = data.draw(st.sampled_from(arrays.of(FLOATS)))
    item = data.draw(st.sampled_from([(), (1,), (3,), (4,), (5,), (0,), (2, 3), (37,), (100,), (150,)]))
    rows, mode = data.draw(st.integers(1, 300)), data.draw(st.sampled_from(["sum", "mean", "max"]))
    table = rng.normal(size=(rows, *item)).astype(dtype)
    ids = rng.integers(0, rows, sum(lengths))
    x = bags(kind, lengths, ids, data.draw(st.sampled_from(["i8", "i4", "u2"])))
    weights = rng.normal(size=len(ids)).astype(dtype) if mode != "max" and data.draw(st.booleans()) else None
    given_ = weights
    if weights is not None and data.draw(st.booleans()):
        given_ = sf.convert(sf.Ragged(weights, lengths), data.draw(st.sampled_from(oracle.FLAT)))
    found = arrays.on(sf.embedding_bag)(table, x, given_, mode)
    assert found.shape == (len(lengths), *item)
    assert found.dtype == dtype.newbyteorder("=")
    ends = np.cumsum([0, *lengths])
    for i, (a, b) in enumerate(itertools.pairwise(ends)):
        mass = None if weights is None else weights[a:b]
        if mode == "mean" and mass is not None and abs(mass.astype("f8").sum()) < 0.5:
            continue  # of which nobody knows how many digits are right
        close = {"f2": 0.02, "f4": 1e-4, "f8": 1e-12}[dtype.newbyteorder("=").str[1:]]
        np.testing.assert_allclose(found[i], expected(table, ids[a:b], mass, mode), rtol=close, atol=close * 10)


@every_mode
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_gradients_are_those_of_rows_that_are_written_out(arrays, mode, weighted, dtype):
    """Also of a large table, of which the ids name few rows, and of ids that come often."""
    if weighted and mode == "max":
        return
    rng = np.random.default_rng(1)
    for rows, width in ((5, 3), (2000, 2), (1, 65)):
        table = rng.integers(-4, 5, (rows, width)).astype(dtype)
        ids = rng.integers(0, rows, sum(LENGTHS))
        weights = [rng.integers(1, 4, sum(LENGTHS)).astype(dtype)] if weighted else []
        x = sf.Ragged(ids, LENGTHS)
        mass = sf.Ragged(weights[0], LENGTHS) if weighted else None
        y, back = arrays.vjp(sf.embedding_bag, table, x, mass, mode)
        reduction = getattr(sf, f"reduce_{mode}")
        options = {"weights": mass} if weighted else {}
        right, pull = sf.vjp(reduction, sf.Ragged(table[ids], LENGTHS), **options)
        close = {"rtol": 2e-3 if dtype == "f2" else 1e-5, "atol": 2e-2 if dtype == "f2" else 1e-5}
        np.testing.assert_allclose(y, right, **close)
        dy = rng.integers(-3, 4, y.shape).astype(y.dtype)
        found, wanted = back(dy), pull(dy)
        slopes, of_weights = wanted if weighted else (wanted, None)
        dense = np.zeros(table.shape)
        np.add.at(dense, ids, slopes.data.astype("f8"))
        np.testing.assert_allclose(found[0] if weighted else found, dense, **close)
        assert (found[0] if weighted else found).dtype == table.dtype
        if weighted:
            np.testing.assert_allclose(found[1].data, of_weights.data, **close)


@every_encoding
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_in_each_encoding(arrays, kind, mode):
    """Those of `Ragged`; that of the weights is laid out as these are."""
    table = strategies.counting("f8", (5, 2))
    weights = sf.Ragged(strategies.counting("f8", (len(IDS),)), LENGTHS)
    y, back = sf.vjp(sf.embedding_bag, table, bags(sf.Ragged), weights, mode)
    found, pull = arrays.vjp(sf.embedding_bag, table, bags(kind), sf.convert(weights, kind), mode)
    np.testing.assert_array_equal(found, y)
    (of_table, of_weights), (wanted, slopes) = pull(y), back(y)
    np.testing.assert_array_equal(of_table, wanted)
    assert structure_of(of_weights) == structure_of(sf.convert(weights, kind))
    np.testing.assert_array_equal(sf.convert(of_weights, sf.Ragged).data, slopes.data)


def test_levels_and_lists():
    table = np.arange(6.0).reshape(3, 2)
    x = sf.LoD(np.array([0, 2, 1]), [[0, 1, 2], [0, 2, 3]])
    assert sf.embedding_bag(table, x).lod[0].tolist() == [0, 1, 2]
    y, back = sf.vjp(sf.embedding_bag, table, [[[0, 2]], [[1]]])
    assert [part[0].tolist() for part in y] == [[4, 6], [2, 3]]
    assert back(y).tolist() == [[4, 6], [2, 3], [4, 6]]
    assert sf.embedding_bag(table, [[], []]).tolist() == [[0, 0]] * 2
    assert sf.embedding_bag(table[:0], [[]]).tolist() == [[0, 0]]
    assert sf.embedding_bag(table, []).shape == (0, 2)


def test_special_values():
    table = np.array([[np.nan, 1.0], [np.inf, -1.0], [2.0, -0.0]])
    found = sf.embedding_bag(table, [[0, 1], [1, 2], [2]], mode="max")
    np.testing.assert_array_equal(found, [[np.nan, 1], [np.inf, 0], [2, 0]])
    _, back = sf.vjp(sf.embedding_bag, table, [[2, 0, 0]], None, "max")
    np.testing.assert_array_equal(back(np.ones((1, 2))), [[1, 1], [0, 0], [0, 0]])  # the first of equal ones
    np.testing.assert_array_equal(sf.embedding_bag(table, [[2, 2]], weights=[[1.0, -1.0]], mode="mean"), [[0, 0]])


def test_neither_batch_nor_threads_count():
    rng = np.random.default_rng(0)
    table, lengths = rng.normal(size=(500, 300)).astype("f4"), rng.integers(0, 90, 700)
    ids = rng.integers(0, 500, lengths.sum())
    x, weights = sf.Ragged(ids, lengths), rng.random(len(ids)).astype("f4")
    before = sf.num_threads()
    found = []
    try:
        for threads in (1, 4):
            sf.set_num_threads(threads)
            found.append(sf.embedding_bag(table, x, weights, "mean"))
    finally:
        sf.set_num_threads(before)
    np.testing.assert_array_equal(*found)
    alone = sf.embedding_bag(table, x[[5]], weights[x.offsets[5] : x.offsets[6]], "mean")
    np.testing.assert_array_equal(alone[0], found[0][5])


TABLE = np.zeros((3, 2))
ERRORS = {
    r"ids\[1\]\[0\] is 3, but table has 3 rows": lambda: sf.embedding_bag(TABLE, [[0], [3]]),
    r"ids\[0\]\[1\] is -1, but table": lambda: sf.embedding_bag(TABLE.astype("f4"), sf.Ragged(np.array([0, -1]), [2])),
    r"ids\[0\]\[0\] is 7": lambda: sf.embedding_bag(TABLE, [[7]], mode="max"),
    r"ids\[0\]\[0\] is 0, but table has 0 rows": lambda: sf.embedding_bag(TABLE[:0], [[0]]),
    r"ids\[0\]\[0\] is 9": lambda: sf.embedding_bag(np.zeros((3, 0)), [[9]]),
    r"ids\[0\]\[0\] is 5, but": lambda: sf.embedding_bag(TABLE.astype("f2"), [[5]]),
    "ids must be integers, not float64": lambda: sf.embedding_bag(TABLE, [[0.0]]),
    r"ids must be single integers, but have item shape \(2,\)": lambda: sf.embedding_bag(
        TABLE, sf.Ragged(np.zeros((1, 2), int), [1])
    ),
    "table has dtype int64": lambda: sf.embedding_bag(TABLE.astype(int), [[0]]),
    "is a single number": lambda: sf.embedding_bag(np.array(1.0), [[0]]),
    "table": lambda: sf.embedding_bag([[1.0]], [[0]]),
    'mode must be "sum", "mean" or "max"': lambda: sf.embedding_bag(TABLE, [[0]], mode="average"),
    "weights go with the modes": lambda: sf.embedding_bag(TABLE, [[0]], [[1.0]], "max"),
    "weights have sequences of lengths .2., but x has .1.": lambda: sf.embedding_bag(TABLE, [[0]], [[1.0, 2.0]]),
    "sparse gradients are those of PyTorch": lambda: sf.embedding_bag(TABLE, [[0]], sparse=True),
    "sparse must be True or False": lambda: sf.embedding_bag(TABLE, [[0]], sparse=1),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message):
    with pytest.raises((sf.SeqFormatError, TypeError, IndexError), match=message) as caught:
        ERRORS[message]()
    assert caught.value.code
