"""Products of all pairs of items and scores by their maxima, against plain Python."""

import tracemalloc

import numpy as np
import oracle
import pytest
from checks import assert_slopes, structure_of
from hypothesis import given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.operations import pairwise

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
ONE, TWO = [3, 0, 1, 2], [2, 1, 0, 4]


def whole(lengths, deep=3, seed=0, dtype="f8"):
    """A batch of small whole numbers, of which products are exact."""
    rows = np.random.default_rng(seed).integers(-4, 5, (sum(lengths), deep))
    return sf.Ragged(rows.astype(dtype), lengths)


def score(query, document):
    return sum(max((float(q @ d) for d in document), default=-np.inf) for q in query)


@pytest.fixture(params=[0, 1 << 40], ids=["large", "small"])
def way(request, monkeypatch):
    """Both ways of the rule."""
    monkeypatch.setattr(pairwise, "MIN_PRODUCTS_FOR_MATMUL", request.param)


@every_encoding
@given(data=st.data())
def test_values(arrays, kind, data):
    lengths = st.lists(st.integers(0, 4), max_size=5)
    one = data.draw(lengths)
    two = data.draw(st.lists(st.integers(0, 4), min_size=len(one), max_size=len(one)))
    deep, dtype = data.draw(st.sampled_from([0, 1, 5, 17])), data.draw(st.sampled_from(["f4", "f8", "f2"]))
    x, y = whole(one, deep, 1, dtype), whole(two, deep, 2, dtype)
    xs, ys = x.sequences(), y.sequences()
    for limit in (0, 1 << 40) if arrays.first else (1 << 40,):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pairwise, "MIN_PRODUCTS_FOR_MATMUL", limit)
            patch.setattr(pairwise, "MAX_PRODUCTS_AT_ONCE", data.draw(st.sampled_from([1, 20])))
            found = arrays.on(sf.pairwise_dot)(sf.convert(x, kind), y)
            assert found.dtype == dtype
            assert sf.equal(found, sf.LoD.from_lengths(found.data, [one, np.repeat(two, one)]))
            wanted = [float(a @ b) for q, d in zip(xs, ys, strict=True) for a in q for b in d]
            np.testing.assert_array_equal(found.data, np.array(wanted, dtype))
            scores = arrays.on(sf.maxsim)(x, sf.convert(y, kind))
            np.testing.assert_array_equal(scores, [score(q, d) for q, d in zip(xs, ys, strict=True)])
            if two:
                counts = data.draw(st.lists(st.integers(0, 3), min_size=len(one), max_size=len(one)))
                places = np.random.default_rng(0).integers(0, len(two), sum(counts))
                candidates = sf.convert(sf.Ragged(places, counts), kind)
                found = arrays.on(sf.maxsim)(x, y, candidates)
                assert structure_of(found) == structure_of(candidates)
                owners = np.repeat(np.arange(len(one)), counts)
                wanted = [score(xs[i], ys[j]) for i, j in zip(owners, places, strict=True)]
                np.testing.assert_array_equal(sf.convert(found, sf.Ragged).data, wanted)


@every_encoding
def test_gradients(arrays, way, kind):
    x, y = sf.convert(whole(ONE), kind), whole(TWO, seed=1)
    assert_slopes(lambda x, y: arrays.vjp(sf.pairwise_dot, x, y), [x, y])
    q, d = sf.convert(sf.Ragged(np.random.default_rng(3).random((6, 3)), ONE), kind), whole([2, 1, 3], seed=4)
    d = sf.Ragged(d.data + np.random.default_rng(5).random(d.data.shape), d.lengths)
    candidates = sf.Ragged(np.array([0, 2, 1, 2, 2, 0]), [2, 0, 1, 3])
    assert_slopes(lambda q, d: arrays.vjp(sf.maxsim, q, d, candidates), [q, d], 1e-7)


@pytest.mark.passes("compiled", reason="interpreted it takes minutes, and memory is the same")
def test_memory_of_maxsim():
    """A hundredth of all products."""
    q, d = whole([1000] * 40, 2, dtype="f4"), whole([1000] * 40, 2, dtype="f4")
    tracemalloc.start()
    sf.maxsim(q, d)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 1000 * 1000 * 4 / 4


X, Y = whole([2, 1]), whole([1, 1])
ERRORS = {
    "y has 1 sequences, but x has 2": lambda: sf.pairwise_dot(X, whole([1])),
    r"y has item shape \(2,\), but x has \(3,\)": lambda: sf.pairwise_dot(X, whole([1, 1], 2)),
    "y has dtype float32, but x has float64": lambda: sf.pairwise_dot(X, whole([1, 1], dtype="f4")),
    "x has dtype int64": lambda: sf.pairwise_dot(sf.astype(X, "int64"), sf.astype(Y, "int64")),
    r"items of shape \(d,\), but they have \(\)": lambda: sf.pairwise_dot([[1.0]], [[1.0]]),
    "y has other outer levels than x": lambda: sf.pairwise_dot(sf.nest(X, [1, 1]), sf.nest(Y, [2, 0])),
    "documents has 1 sequences, but queries has 2; give candidates": lambda: sf.maxsim(X, whole([1])),
    r"candidates\[1\]\[0\] is 2, but there are 2 documents": lambda: sf.maxsim(X, Y, [[0], [2]]),
    "candidates has 1 sequences, but queries has 2": lambda: sf.maxsim(X, Y, [[0]]),
    "candidates must be integers, not float64": lambda: sf.maxsim(X, Y, [[0.0], [1.0]]),
    "candidates must have single integers": lambda: sf.maxsim(X, Y, X),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message):
    with pytest.raises((sf.SeqFormatError, TypeError, IndexError), match=message) as caught:
        ERRORS[message]()
    assert caught.value.code
