"""Compiled functions of the user over time: what is kept on disk, what stays in memory, what is loaded when."""

import gc
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numba import njit
from numba.core.runtime import _nrt_python, rtsys
from passes import FULL

import seqformats as sf
from seqformats.numba_types import numba_type

pytestmark = pytest.mark.passes("compiled", reason="the functions of users are compiled in no other pass")

KINDS = (sf.Ragged, sf.Masked, sf.Padded, sf.Packed, sf.LoD)


def run(*command, **environment):
    """What a fresh process prints."""
    found = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


# --- kept on disk ----------------------------------------------------------------------------------------------------

CACHED = """
import numpy as np, seqformats as sf
from numba import njit

@njit(cache=True)
def doubled(x):
    return sf.Ragged(2 * x.data, x.lengths)

@njit(cache=True)
def built(data):
    return sf.Masked(data, (1, 2), "left"), sf.List((data[0], data[1]))

y = doubled(sf.Ragged(np.arange(5.0), [2, 0, 3]))
z, parts = built(np.ones((2, 2)))
print(type(y).__name__, *y.data, *y.lengths, z.side, *z.lengths, *parts.items[1])
try:
    built(np.ones((3, 2)))
except sf.StructureError:
    print("refused")
print(sum(doubled.stats.cache_hits.values()), sum(doubled.stats.cache_misses.values()))
print(sum(built.stats.cache_hits.values()), sum(built.stats.cache_misses.values()))
"""


def test_functions_are_kept_on_disk(tmp_path):
    script = tmp_path / "kept.py"
    script.write_text(CACHED)
    found = [run(str(script), NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2)]
    expected = ["Ragged", "0.0", "2.0", "4.0", "6.0", "8.0", "2", "0", "3", "left", "1", "2", "1.0", "1.0", "refused"]
    assert found == [[*expected, "0", "1", "0", "1"], [*expected, "1", "0", "1", "0"]]


def test_a_type_is_another_one_once_values_hold_other_things(monkeypatch):
    """So that what is on disk for the old one is not used."""
    kind = numba_type(sf.Ragged(np.arange(3), [3]))
    kept = pickle.dumps(kind)
    assert pickle.loads(kept) == kind
    monkeypatch.setattr("seqformats.numba_types.types._STAMP", "newer")
    newer = type(kind)(kind.data)
    assert newer != kind
    assert pickle.loads(kept) == kind
    assert pickle.loads(pickle.dumps(newer)) == newer


# --- kept in memory --------------------------------------------------------------------------------------------------


@njit
def same(x):
    return x


@njit
def first(x):
    return x[0]


@njit
def left_early(x):
    for sequence in x:
        if sequence.size > 1:
            break
    for sequence in x:
        if sequence.size > 1:
            return sequence.size
    return 0


@njit
def raised(x):
    for sequence in x:
        if sequence.size > 1:
            raise ValueError("as it is to be")
    return 0


@njit
def rebuilt(x):
    return sf.Ragged(np.ones(x.rows), (2, 0, 3))


def memory():
    """Bytes in use; 0 where the system does not tell."""
    try:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


def held():
    """What Numba has allocated and not freed: blocks of memory, and what owns an array."""
    stats = rtsys.get_allocation_stats()
    return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free


@pytest.fixture
def counting():
    _nrt_python.memsys_enable_stats()
    yield
    _nrt_python.memsys_disable_stats()


FUNCTIONS = (same, first, left_early, raised, rebuilt)
# What goes in and out of every encoding, and each other function with one of them.
PAIRS = [
    (function, kind)
    for k, function in enumerate(FUNCTIONS)
    for kind in (KINDS if FULL or function is same else KINDS[k : k + 1])
]


@pytest.mark.parametrize(("function", "kind"), PAIRS, ids=lambda x: x.__name__)
def test_nothing_is_lost(function, kind, counting):
    """References to the arrays, and what Numba allocates."""

    def call(x):
        try:
            function(x)
        except ValueError:
            assert function is raised

    def counted(x):
        structure = x._structure
        return [sys.getrefcount(part) for part in (x, x.data, structure, structure.lengths, structure.offsets)]

    x = sf.convert(sf.Ragged(np.arange(5.0), [2, 0, 3]), kind)
    for _ in range(2):
        call(x)
    gc.collect()
    references, before = counted(x), held()
    for _ in range(500):
        call(x)
    gc.collect()
    assert counted(x) == references
    assert held() == before


def test_memory_does_not_grow():
    """In 100,000 calls."""
    x = sf.Ragged(np.arange(5.0), [2, 0, 3])
    for _ in range(500):
        same(x)
        first(x)
    before = memory()
    for _ in range(50_000):
        same(x)
        first(x)
    assert memory() - before < 1_000_000  # 10 bytes a call; an array takes 100 and more


def test_nothing_is_lost_where_a_batch_does_not_come_in():
    """Its arrays are given back one by one."""

    class Broken:
        """What says it is a batch and has not all that one has."""

        def __init__(self, x):
            self.data, self._numba_type_ = x.data, x._numba_type_
            self._structure = type("Part", (), {"lengths": x.lengths})()

    x = sf.Ragged(np.arange(5.0), [2, 3])
    broken = Broken(x)
    same(x)
    references = sys.getrefcount(x.data), sys.getrefcount(x.lengths)
    for _ in range(100):
        with pytest.raises(AttributeError, match="offsets"):
            same(broken)
    assert (sys.getrefcount(x.data), sys.getrefcount(x.lengths)) == references


def test_what_is_returned_outlives_what_was_given():
    x = sf.Ragged(np.arange(5.0) + 100, [2, 3])
    y, part = same(x), first(x)
    del x
    gc.collect()
    assert y.data.tolist() == [100, 101, 102, 103, 104]
    assert part.tolist() == [100, 101]


# --- loaded ----------------------------------------------------------------------------------------------------------


def test_nothing_is_loaded_before_it_is_needed():
    code = """
import sys, numpy as np, seqformats as sf
def loaded(): return sorted(name[23:] for name in sys.modules if name.startswith("seqformats.numba_types"))
print("numba" in sys.modules, loaded() == [])
import numba
print(loaded())
x = sf.Ragged(np.arange(5.0), [2, 3])
numba.njit(lambda x: x.size)(x.data)
print(loaded())
print(numba.njit(lambda x: len(x))(x))
print(len(loaded()) > 2)
"""
    assert run("-c", code) == ["False", "True", "['']", "['']", "2", "True"]


def test_a_constructor_alone_loads_the_rest():
    code = """
import numpy as np, numba, seqformats as sf
@numba.njit
def build(data):
    x = sf.Ragged(data, (1, 2))
    return x[1].sum() + x.lengths[0] + x.sequences()[0].size
print(build(np.arange(3)))
"""
    for order in (code, code.replace("numba, seqformats as sf", "seqformats as sf, numba")):
        assert run("-c", order) == ["5"]


def test_numba_is_not_loaded_by_a_question():
    code = """
import sys, numpy as np, seqformats as sf
print(hasattr(object.__new__(sf.Ragged), "_numba_type_"), "numba" in sys.modules)
"""
    assert run("-c", code) == ["False", "False"]


def test_the_same_function_runs_in_plain_python():
    code = """
import numpy as np, seqformats as sf
from numba import njit
@njit
def doubled(x):
    out, lengths, k = np.empty(x.rows, x.dtype), np.zeros(len(x), np.int64), 0
    for i, sequence in enumerate(x.sequences()):
        for value in sequence:
            out[k] = 2 * value
            lengths[i] += 1
            k += 1
    return sf.Ragged(out, lengths)
y = doubled(sf.convert(sf.Ragged(np.arange(3), [1, 2]), sf.Masked))
print(*y.data, *y.lengths)
"""
    found = [run("-c", code, NUMBA_DISABLE_JIT=flag) for flag in ("0", "1")]
    assert found == [["0", "2", "4", "1", "2"]] * 2
