"""Operators and functions of single items, against the array libraries' own answers for the rows."""

import copy
import functools
import operator
import pickle
import warnings

import expressions
import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import seqformats as sf
from seqformats.arrays import library_of
from seqformats.formats.leaves import leaves

every_encoding = pytest.mark.parametrize("kind", oracle.ENCODINGS, ids=oracle.format_name)
LENGTHS = [2, 0, 3]
ERRORS = (TypeError, ValueError, RuntimeError, OverflowError)


def example(kind=sf.Ragged, data=None):
    return sf.convert(sf.Ragged(np.array([1.0, 2, 4, 5, 8]) if data is None else data, LENGTHS), kind)


def outcome(function):
    """What a function gives, or the kind of error that it ends in, and what NumPy warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            made = function()
        except ERRORS as error:
            made = error
    return made, {str(one.message) for one in found if one.category is RuntimeWarning}


@every_encoding
@given(data=st.data())
def test_expressions(arrays, kind, data):
    """Operators and functions of batches are those of the library, on rows: results, dtypes, errors and warnings."""
    arrays.need_products()
    of_library = {"numpy": expressions.of_numpy, "torch": expressions.of_torch, "jax": expressions.of_jax}
    tree, batches, rows, items = data.draw(expressions.cases(kind))
    given, rows, items = arrays.up(batches), arrays.up(rows), arrays.up(items)
    name = library_of(rows[0]).name
    own = of_library[name]
    wanted, warned = outcome(lambda: expressions.of_rows(tree, rows, items, own))
    for _ in range(2):  # the second time the dtypes of results are known, and small batches are calculated in place
        found, also = outcome(lambda: expressions.calculate(tree, given, items, CALLED[name]))
        assert isinstance(found, Exception) == isinstance(wanted, Exception), (found, wanted)
        if isinstance(wanted, Exception):
            return
        assume(not str(wanted.dtype).endswith("complex32"))  # experimental: PyTorch warns of the first, NumPy has none
        assert also == warned
        like = given[0]
        assert type(found) is type(like)
        assert found._structure is like._structure
        whole = sf.convert_like(sf.Ragged(wanted, sf.lengths(like)), like)
        assert found.dtype == whole.dtype
        for a, b in zip(leaves(arrays.down(found)), leaves(arrays.down(whole)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2 if a.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("kind", [sf.Padded, sf.Masked])
@pytest.mark.parametrize("name", ["sub", "truediv", "floordiv", "mod", "pow"])
def test_a_number_on_the_left_of_padding(kind, name):
    rows, operate = np.array([1.5, 2.5, 3.5]), getattr(operator, name)
    x = sf.convert(sf.Ragged(rows, [1, 2]), kind)
    for _ in range(2):
        assert sf.convert(operate(10, x), sf.Ragged).data.tolist() == operate(10, rows).tolist()
        assert sf.convert(operate(x, 10), sf.Ragged).data.tolist() == operate(rows, 10).tolist()


def of_batches(name):
    """What batches are called with: NumPy's functions."""
    return sf.where if name == "where" else expressions.of_numpy(name)


def of_batches_of_tensors(name):
    """PyTorch's own, where it has one for numbers too."""
    return expressions.of_torch(name) if name in (*expressions.UFUNCS_OF_ONE, "where") else of_batches(name)


CALLED = {"numpy": of_batches, "torch": of_batches_of_tensors, "jax": of_batches}


# ------------------------------------------------------------------------------------------------------ where and @


@every_encoding
def test_gradient_of_where(arrays, kind):
    """Of two batches whose items broadcast, and of one beside an array or a number."""
    arrays.need_products()
    a = oracle.build(kind, oracle.truth_of([np.ones((k, 3)) for k in LENGTHS]))
    marks = sf.convert(sf.Ragged(np.array([True, False, True, False, True]), LENGTHS), sf.Padded)
    y, pullback = arrays.vjp(sf.where, marks, a, example(sf.Masked))
    da, db = pullback(y)
    kept = np.array([1.0, 0, 1, 0, 1])
    assert (type(y), type(da), type(db)) == (sf.Padded, kind, sf.Masked)
    np.testing.assert_array_equal(sf.convert(da, sf.Ragged).data, np.outer(kept, np.ones(3)))
    np.testing.assert_array_equal(sf.convert(db, sf.Ragged).data, 3 * (1 - kept) * [1, 2, 4, 5, 8])
    if arrays.first:
        y, pullback = sf.vjp(sf.where, marks, np.array([7.0, 8, 9]), a)
        np.testing.assert_array_equal(pullback(y)[0], [21, 24, 27])
        assert sf.vjp(sf.where, marks, 0, a)[1](y)[0] is None


@every_encoding
def test_where_of_lists(kind):
    assert sf.where([[True], [], [False, True]], [[1], [], [2, 3]], 0) == [[1], [], [0, 3]]
    assert sf.equal(sf.where(example(kind) > 2, [[1, 2], [], [3, 4, 5]], 9), example(kind, np.array([9, 9, 3, 4, 5])))


@every_encoding
def test_products_with_matrices(arrays, kind):
    arrays.need_products()
    rng = np.random.default_rng(0)
    matrix, vectors, matrices = (rng.integers(-3, 3, shape).astype("f8") for shape in [(3, 2), (5, 3), (5, 4, 3)])
    for call, data, other, wanted in [
        (operator.matmul, vectors, matrix, vectors @ matrix),
        (operator.matmul, vectors, matrix[:, 0], vectors @ matrix[:, 0]),
        (operator.matmul, matrices, matrix, matrices @ matrix),
        (np.matmul, vectors, matrix, vectors @ matrix),
        (lambda x, w: w @ x, vectors, matrix.T, vectors @ matrix),
        (lambda x, w: w @ x, matrices, np.ones((2, 4)), np.ones((2, 4)) @ matrices),
    ]:
        found = arrays.down(call(arrays.up(example(kind, data)), arrays.up(other)))
        assert sf.equal(found, example(kind, np.ascontiguousarray(wanted)))


# ----------------------------------------------------------------------------------------------- what is refused


x, bools, wide = example(), example() > 2, example(data=np.ones((5, 3)))
levels = [sf.LoD.from_lengths(np.ones(3), [*outer, [1, 1, 1]]) for outer in ([[2, 1]], [[1, 2]], [])]
REFUSED = {
    "truth": (lambda: bool(bools), TypeError, "sf.reduce_all.*sf.equal.*len"),
    "in": (lambda: x in [example(sf.Masked)], TypeError, "neither true nor false"),
    "list": (lambda: operator.add(x, [1, 2]), TypeError, "sf.convert"),
    "str": (lambda: x == "a", TypeError, "a number, an array or a batch, not 'a'"),
    "object": (lambda: x != object(), TypeError, "a number, an array or a batch"),
    "pairs": (lambda: x + sf.Pairs(x, x), TypeError, "x.one or x.two"),
    "rank": (lambda: x * np.ones(5), sf.StructureError, "sf.expand_as"),
    "rank, reflected": (lambda: np.ones((5, 3)) * wide, sf.StructureError, "sf.expand_as"),
    "shape": (lambda: wide * np.ones(2), sf.StructureError, "cannot be broadcast"),
    "count": (lambda: x < x[:2], sf.StructureError, "3 sequences, the other 2"),
    "lengths": (lambda: x == sf.Ragged(x.data, [3, 0, 2]), sf.StructureError, r"\[2, 0, 3\], the other \[3, 0, 2\]"),
    "levels": (lambda: levels[0] + levels[1], sf.StructureError, r"\[2, 1\], the other \[1, 2\]"),
    "sum": (lambda: sum(x), sf.StructureError, "sf.reduce_sum"),
    "dtype": (lambda: x & x, TypeError, "no and of items of float64"),
    "out": (lambda: np.add(x, 1, out=np.ones(5)), TypeError, "takes no out="),
    "in place": (lambda: operator.iadd(np.ones(5), x), TypeError, "takes no out="),
    "where": (lambda: np.add(x, 1, where=False), TypeError, r"sf.where\(mask, a, b\)"),
    "two results": (lambda: np.modf(x), TypeError, "2 results"),
    "reduce": (lambda: np.add.reduce(x), TypeError, "sf.reduce_sum"),
    "mean": (lambda: np.mean(x), TypeError, "sf.reduce_mean.*x.data"),
    "diff": (lambda: np.diff(x), TypeError, "sf.diff.*x.data"),
    "concatenate": (lambda: np.concatenate([x, x]), TypeError, "sf.concat.*x.data"),
    "stack": (lambda: np.stack([x, x]), TypeError, "sf.join_batches.*x.data"),
    "repeat": (lambda: np.repeat(x, 2), TypeError, "sf.repeat.*x.data"),
    "norm": (lambda: np.linalg.norm(x), TypeError, "np.linalg.norm .*x.data"),
    "vecdot": (lambda: np.matvec(x, x), TypeError, "np.matvec .*x.data"),
    "@ of numbers": (lambda: x @ np.ones((3, 2)), sf.StructureError, "items with an axis"),
    "@ of a number": (lambda: wide @ 2, sf.StructureError, "not for items of shape"),
    "@ of batches": (lambda: wide @ wide, TypeError, "sf.reduce_sum"),
    "@ that does not fit": (lambda: wide @ np.ones((2, 3)), sf.StructureError, "have no product"),
    "mask": (lambda: sf.where(x, x, 0), TypeError, "must hold bools"),
    "mask of rows": (lambda: sf.where(x.data > 0, x, 0), TypeError, "batch of bools"),
    "mean()": (lambda: x.mean(), AttributeError, r"sf.reduce_mean\(x\)"),
    "shape ": (lambda: x.shape, AttributeError, "x.data.shape"),
    "requires_grad": (lambda: x.requires_grad, AttributeError, "x.data.requires_grad"),
    "tolist": (lambda: x.tolist(), AttributeError, "x.to_nested"),
    "values": (lambda: x.values, AttributeError, "x.data"),
    "reshape": (lambda: x.reshape(1), AttributeError, r"sf.reshape\(x\)"),
    "fillna": (lambda: x.fillna(0), AttributeError, r"sf.ffill\(x\)"),
    "masked_select": (lambda: x.masked_select(bools), AttributeError, r"sf.filter\(x\)"),
    "x[bools]": (lambda: x[x > 2], TypeError, r"sf.filter\(x, bools\).* sf.gather\(x, places\)"),
    "to a library": (lambda: x.to("torch"), TypeError, r"sf.to\(x, 'torch'\)"),
    "number put back": (lambda: sf.masked_scatter(x, x > 2, 0.0), TypeError, r"sf.where\(mask, number, base\)"),
    "from_mask": (lambda: sf.Masked(np.ones((1, 2)), mask=np.ones((1, 2))), TypeError, "Masked.from_mask"),
    "x[0][1]": (lambda: x[0][1], IndexError, "x.data"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, kind, words = REFUSED[what]
    with pytest.raises(kind, match=words):
        call()


def test_levels_that_one_batch_does_not_have():
    assert type(levels[0] + levels[2]) is type(levels[2] + levels[1]) is sf.LoD
    assert (levels[0] + levels[2]).to_nested() == [[[2], [2]], [[2]]]


# -------------------------------------------------------------------------------------- equality, and what is no number


@every_encoding
def test_equality(kind):
    y = example(kind)
    assert (y == y).dtype == bool
    assert (y == None) is False  # noqa: E711
    assert (y != None) is True  # noqa: E711
    assert hash(y) == hash(y)
    assert functools.lru_cache(id)(y) == id(y)
    assert y in [y]
    assert len({y, example(kind)}) == 2
    assert bool(y)
    assert not y[:0]
    assert pickle.loads(pickle.dumps(y + 1)).dtype == copy.deepcopy(y).dtype


@every_encoding
def test_other_items(kind):
    """Texts, dates and what other functions of single numbers give."""
    texts = example(kind, np.array(["a", "b", "a", "c", "a"]))
    assert (texts == "a").to_nested() == [[True, False], [], [True, False, True]]
    days = example(kind, np.arange(5).astype("M8[D]"))
    assert (days - np.datetime64(1, "D")).dtype == (days - days).dtype == "m8[D]"
    y = example(kind)
    assert np.clip(y, 2, 4).to_nested() == np.clip(y, a_min=2, a_max=4).to_nested() == [[2, 2], [], [4, 4, 4]]
    assert np.clip(y, 2, a_max=y).to_nested() == y.to_nested()
    both = example(kind, np.arange(5) * (1 + 2j))  # whose parts are views, which operations do not take
    assert sf.convert(sf.cumsum(np.real(both)), sf.Ragged).data.tolist() == [0, 1, 2, 5, 9]
    assert sf.convert(sf.cumsum(np.imag(both)), sf.Ragged).data.tolist() == [0, 2, 4, 10, 18]
    assert np.where(y > 2, y, -1).to_nested() == sf.where(y > 2, y, -1).to_nested()
    assert np.full_like(y, 7).to_nested() == [[7, 7], [], [7, 7, 7]]
    assert np.exp(y, dtype="f4").dtype == y.astype("f4").dtype == np.float32


def test_results_share_the_structure():
    y = sf.LoD.from_lengths(np.ones(3), [[2, 1], [1, 0, 2]])
    assert (1 + y)._levels is y._levels
    chunks = sf.chunk(example(), 2, 1)
    assert type(chunks * 2) is sf.Chunks
