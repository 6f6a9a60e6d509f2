"""Lists of arrays in functions that the caller compiles: what they hold, one array, and those built there."""

import gc
import pathlib
import sys

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit, prange, typed
from numba.core.errors import TypingError
from numba.core.runtime import _nrt_python, rtsys

import seqformats as sf
from seqformats.numba_types.lists import built
from seqformats.numba_types.sequences import sequence_of
from seqformats.numba_types.types import numba_type

pytestmark = pytest.mark.passes("compiled", reason="the functions of users are compiled in no other pass")


def batch(lengths=(2, 0, 3), item=(), dtype=np.float64):
    return sf.List([np.arange(n * np.prod(item, dtype=int)).astype(dtype).reshape(n, *item) for n in lengths])


@njit
def same(x):
    return x


@njit
def one(x, i):
    return x[i]


@njit
def all_of_it(x):
    """What a `List` says of itself, and its sequences in each of the ways there are."""
    found, k = [sequence for sequence in x.sequences()], 0  # noqa: C416  Numba makes no list of them
    for i, (a, b) in enumerate(zip(found, x)):  # noqa: B905  Numba has no strict
        k += (a.size == b.size == x[i].size) and len(x[i - len(x)]) == x.lengths[i]
    return found, k, (len(x), x.lengths, x.rows, x.max_length, x.item_shape)


@njit
def pair(a, b):
    return sf.List((a, b))


@njit
def listed(items):
    return sf.List(items)


@njit
def listed_like(items, like):
    return sf.List(items, like=like)


def check(x):
    found, right, (n, lengths, rows, longest, item) = all_of_it(x)
    for sequence, expected in zip(found, x.sequences(), strict=True):
        assert (sequence.dtype, sequence.shape) == (x.dtype, expected.shape)
        np.testing.assert_array_equal(sequence, expected)
    assert (right, n, rows, longest, item) == (n, len(x), x.rows, x.max_length, x.item_shape)
    assert lengths.tolist() == [len(sequence) for sequence in x.sequences()]


# --- in --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), max_size=6))
def test_sequences_are_those_of_python(lengths):
    x = batch(lengths) if lengths else sf.List([], like=np.empty((3,)))
    check(x)
    for i in range(-len(x), len(x)):
        np.testing.assert_array_equal(one(x, i), x.sequences()[i])
    for i in (len(x), -len(x) - 1, np.uint64(2**63), -(2**63)):
        with pytest.raises(IndexError, match="not so many"):
            one(x, i)


@pytest.mark.parametrize(("item", "dtype"), [((3,), "f4"), ((2, 0, 3), "?")], ids=str)
def test_item_shapes(item, dtype):
    check(batch(item=item, dtype=dtype))
    check(sf.List([], like=np.empty((1, *item), dtype)))


@pytest.mark.parametrize("dtype", ["u1", "c8", "M8[s]", "S3", [("a", "u1"), ("b", "f4")]], ids=str)
def test_dtypes(dtype):
    x = batch(dtype=dtype) if isinstance(dtype, str) else sf.List([np.ones(n, dtype) for n in (2, 0, 3)])
    assert njit(lambda x: np.empty(0, x.dtype))(x).dtype == x.dtype
    for i in range(3):
        found = one(x, i)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x.items[i])


def test_sequences_are_views():
    x = batch()
    sequence = one(x, 2)
    assert np.shares_memory(sequence, x.items[2])
    sequence[0] = 7
    assert x.items[2][0] == 7


@njit
def write(x):
    x[0][0] = 7


def test_arrays_that_may_not_be_written():
    x = batch()
    write(x)
    for i in (0, 2):  # if it is one of them alone
        x = batch()
        x.items[i].flags.writeable = False
        assert not one(x, 2).flags.writeable
        check(x)
        with pytest.raises(Exception, match="readonly"):
            write(x)


def test_arrays_that_are_not_aligned():
    buffer = np.zeros(33, np.uint8)
    odd = buffer[1:].view(np.float64)
    odd[:] = range(4)
    x = sf.List([np.ones(2), odd])
    assert not numba_type(x).data.aligned
    np.testing.assert_array_equal(one(x, 1), odd)
    check(x)


def test_arrays_of_a_class_of_their_own():
    x = sf.List([np.ones(2), np.zeros(3).view(type("Own", (np.ndarray,), {}))])
    check(x)


def test_loops_in_threads():
    @njit(parallel=True)
    def sums(x):
        out = np.zeros(len(x))
        for i in prange(len(x)):
            out[i] = x[i].sum()
        return out

    x = batch(range(40))
    np.testing.assert_array_equal(sums(x), [item.sum() for item in x.items])


def test_an_array_that_has_changed_its_shape():
    data = np.arange(5.0)
    x = sf.List([np.ones(2), data])
    assert one(x, 1).size == 5
    data.resize(2, refcheck=False)
    references = sys.getrefcount(x)
    for _ in range(100):
        with pytest.raises(sf.StructureError, match="build a new one"):
            one(x, 1)
    gc.collect()
    assert sys.getrefcount(x) == references


def test_what_does_not_go_in():
    for items, message in [
        ([np.arange(5).astype(">i4")], "byte order of the machine"),
        ([np.zeros(5, np.longdouble)], "Numba has no type for data of dtype"),
    ]:
        with pytest.raises(TypeError, match=message) as error:
            same(sf.List(items))
        assert "\n" not in str(error.value)


@pytest.mark.peers
def test_tensors_do_not_go_in():
    torch = pytest.importorskip("torch")
    for items in ([torch.arange(5)], []):
        with pytest.raises(TypeError, match='sf.to\\(x, "numpy"\\)'):
            same(sf.List(items, like=torch.arange(5)))


# --- out -------------------------------------------------------------------------------------------------------------


def test_a_batch_comes_back():
    for x in (batch(), sf.List([], like=np.empty((2, 3)))):
        assert same(x) is x


@given(st.integers(0, 4), st.integers(0, 4))
def test_of_a_tuple(m, n):
    a, b = np.arange(m * 1.0), np.arange(n * 2.0)
    x = pair(a, b)
    oracle.assert_same(x, sf.List((a, b)))
    assert not b.size or np.shares_memory(x.items[1], b)
    oracle.assert_same(pair(a, b[::2]), sf.List((a, b[::2])))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_of_a_typed_list(lengths):
    items = [np.arange(n * 3.0).reshape(n, 3) for n in lengths]
    x = listed(typed.List(items))
    oracle.assert_same(x, sf.List(items))


def test_empty_lists():
    like = np.ones((2, 3), np.float32)
    oracle.assert_same(listed_like((), like), sf.List((), like))
    oracle.assert_same(listed_like((), None), sf.List(()))
    oracle.assert_same(listed_like((like,), like[:0]), sf.List((like,), like[:0]))
    items = typed.List([np.ones((2, 3))])
    items.pop()
    oracle.assert_same(listed_like(items, np.ones((1, 5))), sf.List((), np.ones((1, 5))))
    with pytest.raises(sf.StructureError, match="give like"):
        listed(items)


def test_item_shapes_are_checked():
    with pytest.raises(sf.StructureError, match="items\\[1\\] has item shape \\(4,\\), but items\\[0\\] has \\(3,\\)"):
        listed(typed.List([np.ones((2, 3)), np.ones((2, 4))]))
    with pytest.raises(sf.StructureError, match="items\\[0\\] has item shape \\(3,\\), but like has \\(5,\\)"):
        listed_like((np.ones((2, 3), np.float32),), np.ones((2, 5), np.float32))


def test_types_are_looked_at_when_a_function_is_compiled():
    for make, args, message in [
        (pair, (np.ones(2), np.ones(2, np.float32)), "holds arrays alike, not both"),
        (pair, (np.ones(2), np.ones((2, 2))), "holds arrays alike, not both"),
        (pair, (np.ones(2), 1.0), "holds arrays with the axes \\(length, \\*item\\), not float64"),
        (pair, (np.ones(2), sf.Ragged(np.ones(2), [2]).offsets.view(np.float64)), "all can be written, or none"),
        (listed, (np.ones((2, 2)),), "must be a tuple or list of arrays"),
        (listed_like, ((np.ones(2),), 3), "holds arrays with the axes"),
    ]:
        with pytest.raises(TypingError, match=message + ".*; sf.Ragged\\(data, lengths\\) takes"):
            make(*args)


@njit
def halves(x):
    """Views, of which each needs its own array of Python no more."""
    parts = [sequence[: sequence.size // 2] for sequence in x]
    y = sf.List(parts)
    parts.pop()
    parts[0] = np.zeros(9)
    return y


@njit
def made_in_a_loop(n):
    y = sf.List([np.full(i, 1.0 * i) for i in range(n)])
    total = 0.0
    for sequence in y:
        total += sequence.sum()
    return y, y[-1], total + y.max_length


def test_what_is_built_holds_its_arrays():
    x = batch((4, 2, 6))
    y = halves(x)
    assert all(map(np.shares_memory, y.items, x.items))
    del x
    gc.collect()
    oracle.assert_same(y, sf.List([np.arange(n) * 1.0 for n in (2, 1, 3)]))
    y, last, total = made_in_a_loop(4)
    oracle.assert_same(y, sf.List([np.full(i, 1.0 * i) for i in range(4)]))
    assert np.shares_memory(last, y.items[-1])
    assert total == 1 + 4 + 9 + 3
    del y
    gc.collect()
    np.testing.assert_array_equal(last, [3, 3, 3])


def test_plain_twins_of_compiled_functions():
    oracle.assert_same(built([], (-1, 3), np.dtype("f4")), sf.List([], like=np.empty((0, 3), "f4")))
    assert sequence_of(batch(), 2).tolist() == [0, 1, 2]


def test_in_other_things():
    @njit
    def of_tuple(pair):
        return len(pair[0]) + len(pair[1]), pair

    x = batch()
    total, (a, b) = of_tuple((x, sf.convert(x, sf.Ragged)))
    assert total == 6
    assert a is x
    oracle.assert_same(b, sf.convert(x, sf.Ragged))


# --- kept in memory --------------------------------------------------------------------------------------------------


@njit
def left_early(x):
    for sequence in x:
        if sequence.size > 2:
            return sequence
    return x[0]


@njit
def raised(x):
    for sequence in x:
        if sequence.size > 2:
            raise ValueError("as it is to be")
    return x[0]


def call(function, x):
    try:
        function(x)
    except ValueError:
        assert function is raised


@pytest.mark.parametrize("function", [same, all_of_it, left_early, raised, halves], ids=lambda f: f.__name__)
def test_nothing_is_lost(function):
    x = batch()
    call(function, x)

    def counted():
        parts = (x, x.items, *x.items, x._structure, x._structure.lengths, x.dtype)
        return [sys.getrefcount(part) for part in parts]

    def held():
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free

    _nrt_python.memsys_enable_stats()
    try:
        call(function, x)
        gc.collect()
        references, before = counted(), held()
        for _ in range(500):
            call(function, x)
        gc.collect()
        assert counted() == references
        assert held() == before
    finally:
        _nrt_python.memsys_disable_stats()


def test_memory_does_not_grow():
    memory = pathlib.Path("/proc/self/statm")
    if not memory.exists():
        pytest.skip("the system does not tell how much memory is in use")
    x = batch()
    for _ in range(1000):
        one(x, 2)
        left_early(x)
    before = int(memory.read_text().split()[1])
    for _ in range(50_000):
        one(x, 2)
        left_early(x)
    assert int(memory.read_text().split()[1]) - before < 500  # pages, of 4096 bytes: 20 bytes a call


def test_a_sequence_outlives_its_batch():
    x = sf.List([np.arange(1000.0) + i for i in range(3)])
    sequence = one(x, 1)
    del x
    gc.collect()
    taken = [np.full(1000, -1.0) for _ in range(20)]  # what would lie where it lay
    np.testing.assert_array_equal(sequence, np.arange(1000.0) + 1)
    assert len(taken) == 20
