"""The seam to array libraries: which is asked, and a graph of one's own."""

import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import seqformats as sf
from seqformats import arrays
from seqformats.arrays import dtypes, lookup
from seqformats.formats import leaves


class Taped(np.ndarray):
    """An array that may ask for a gradient."""

    wanted = False


class Tape(arrays.NumPy):
    """A library of such arrays, whose graph is a list of the calls in it."""

    name = "tape"
    autograd = True

    def __init__(self):
        self.calls = []

    def adopt(self, x, what):
        return np.ascontiguousarray(x).view(Taped) if not x.flags.c_contiguous else x

    def empty(self, shape, dtype, like):
        return np.empty(shape, dtype).view(Taped)

    def zeros(self, shape, dtype, like):
        return np.zeros(shape, dtype).view(Taped)

    def native(self, x):
        return super().native(np.asarray(x))

    def result(self, x):
        return super().result(np.asarray(x))

    def wants_grad(self, arrays):
        return any(x.wanted for x in arrays)

    def connect(self, call, arrays):
        outputs = tuple(call.forward([x.view() for x in arrays]))
        self.calls.append((call, arrays, outputs))
        return outputs


@pytest.fixture
def tape(monkeypatch):
    library = Tape()
    monkeypatch.setitem(lookup._by_type, Taped, library)
    monkeypatch.setattr(lookup, "_array_types", {})
    arrays.with_autograd.append(library)
    yield library
    arrays.with_autograd.remove(library)


def batch(rows, wanted):
    data = np.array(rows, np.float32).view(Taped)
    data.wanted = wanted
    return sf.Ragged(data, [2, 0, 3])


ROWS = [[1, 2], [3, -4], [0, 5], [2, 2], [-1, 7]]
OPERATIONS = {
    "reduce_sum": (sf.reduce_sum,),
    "reduce_max": (sf.reduce_max,),
    "reduce_logsumexp": (sf.reduce_logsumexp,),
    "softmax": (sf.softmax,),
    "log_softmax": (sf.log_softmax,),
    "reverse": (sf.reverse,),
    "convert": (sf.convert, sf.Padded),
}
TWICE = ("reduce_logsumexp", "softmax", "log_softmax")  # whose gradients depend on what is put in


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_graph_belongs_to_its_library(tape, name):
    """Every operation goes through `connect`, which sees arrays alone; so a library with a graph is one class."""
    operation, *more = OPERATIONS[name]
    y = operation(batch(ROWS, True), *more)
    ((call, given, outputs),) = tape.calls
    assert [type(x) for x in (*given, *outputs)] == [Taped, Taped]
    assert (y if isinstance(y, Taped) else y.data) is outputs[0]

    dy = np.arange(1, outputs[0].size + 1, dtype=np.float32).reshape(outputs[0].shape).view(Taped)
    plain = batch(ROWS, False)
    _, pullback = sf.vjp(operation, plain, *more)
    expected = pullback(dy if isinstance(y, Taped) else leaves.rebuild(operation(plain, *more), [dy]))
    assert len(tape.calls) == 1
    (dx,) = call.backward([dy], [])
    np.testing.assert_array_equal(dx, expected.data)
    (again,) = call.backward([dy], [plain.data])
    np.testing.assert_allclose(again, expected.data, rtol=1e-5, atol=1e-6)
    assert call.twice == (name in TWICE)


def test_what_asks_for_nothing_is_in_no_graph(tape):
    sf.softmax(batch(ROWS, False))
    assert not tape.calls


def test_the_exponential_of_nothing_but_minus_infinity(tape):
    """Its sum has no slope, which the gradient that is differentiated again finds by `where`."""
    x = batch(ROWS, True)
    x.data[:2] = -np.inf
    sf.reduce_logsumexp(x)
    ((call, _, _),) = tape.calls
    (dx,) = call.backward([np.ones((3, 2), np.float32).view(Taped)], [x.data.view()])
    assert not dx[:2].any()
    np.testing.assert_allclose(dx[2:].sum(0), 1, rtol=1e-6)


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_a_library_that_is_still_being_imported(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    assert arrays.library_of_type(type("Unknown", (), {})) is None


def test_no_file_of_a_library_is_loaded_before_its_arrays():
    code = "import seqformats, sys; print(*sorted(m for m in sys.modules if m.startswith('seqformats.arrays.')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [f"seqformats.arrays.{name}" for name in ("library", "lookup", "numpy")]


def test_dtypes_go_by_name():
    assert arrays.NUMPY.has_dtype(np.dtype("f4"))
    assert not arrays.NUMPY.has_dtype("float32")
    assert dtypes.sums_in("bool") == "int64"
    for refused in (lambda: dtypes.sums_in("U3"), lambda: dtypes.in_floats("complex64", "maxima")):
        with pytest.raises(TypeError, match="those that (can|have one): float16, bfloat16, float32"):
            refused()


def test_threads_that_ask_at_once_get_one_library(monkeypatch):
    """`library is target` decides whether arrays are moved: a second object of a library would move its own."""

    class Slow:
        def __init__(self):
            time.sleep(0.05)  # until the other threads ask, too

    monkeypatch.setattr(lookup, "_made_of", {})
    monkeypatch.setattr(lookup, "part", lambda name: types.SimpleNamespace(Slow=Slow))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: lookup._import_library("math", "Slow"), range(8)))
    assert len(set(map(id, found))) == 1
