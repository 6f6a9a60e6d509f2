"""Tests are left out of the passes that they are not for."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import built
import numpy as np
import passes
import pytest
from passes import PASS, PASSES, passes_of

import seqformats as sf
from seqformats.native import code, store


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.passes(name, reason="it")) for name in PASSES])
def test_each_runs_in_its_own(name):
    assert name == PASS


@pytest.mark.passes("interpreted", "guarded", reason="it")
class TestAllOfThese:
    def test_here(self):
        assert PASS != "compiled"

    @pytest.mark.passes("compiled", reason="the nearest marker decides")
    def test_there(self):
        assert PASS == "compiled"


@pytest.mark.parametrize(
    "mark",
    [
        pytest.mark.passes(reason="no pass"),
        pytest.mark.passes("compiled"),
        pytest.mark.passes("compiled", "interpreted", "guarded", reason="all of them"),
        pytest.mark.passes("jit", reason="no such pass"),
    ],
)
def test_what_a_marker_must_say(mark):
    with pytest.raises(pytest.UsageError, match="compiled.*interpreted.*guarded.*reason"):
        passes_of(mark.mark)


def item(name, **params):
    return SimpleNamespace(nodeid=f"tests/{name}[{sorted(params)}]", callspec=SimpleNamespace(params=params))


def test_one_of_each_subject():
    """Encodings, dtypes and numbers are no subjects, but operations and options are."""
    kinds = [
        item("a.py::f", kind=kind, n=n, dtype=d)
        for kind in (sf.Ragged, sf.List)
        for n in (1, 2)
        for d in ("f4", np.int8)
    ]
    assert len(passes.one_of_each(kinds)) == 1
    named = [item("a.py::f", kind=sf.Ragged, operation=op) for op in (sf.softmax, sf.cumsum, "mean")]
    assert len(passes.one_of_each([*kinds, *named, item("a.py::g", kind=sf.List)])) == 5
    several = [item(f"a.py::f{k}", kind=kind) for k in range(40) for kind in (sf.Ragged, sf.List, sf.LoD)]
    found = passes.one_of_each(several)
    assert {x.callspec.params["kind"] for x in found} == {sf.Ragged, sf.List, sf.LoD}
    assert found == passes.one_of_each(several)
    assert len(passes.some_of_each([item("a.py::f", n=n) for n in range(99)])) == passes.MOST


def test_values_that_were_seen_least_come_first():
    several = [SimpleNamespace(nodeid=f"a.py::f[op{k}-{kind}]") for k in range(20) for kind in ("List", "LoD", "numba")]
    found = passes.some_of_each(several)
    assert len(found) == passes.MOST
    assert {word for one in found for word in passes.words(one)} == {
        word for one in several for word in passes.words(one)
    }
    assert found == passes.some_of_each(several[::-1])


@pytest.mark.passes("compiled", reason="it reads files")
def test_what_is_compiled_is_that_of_the_wheel(tmp_path):
    """Beside the sources lies nothing else, what is the same stays, and what is compiled all the same is noticed."""
    place = tmp_path / "native" / "shipped"
    place.mkdir(parents=True)
    (tmp_path / "core").mkdir()
    for name in ("native/shipped/old.so", "core/fast.abi3.so", "core/fast.pyx"):
        (tmp_path / name).write_text("old")
    with zipfile.ZipFile(tmp_path / "wheel.whl", "w") as file:
        for name in ("native/shipped/level.so", "native/shipped/level.table", "core/build.py"):
            file.writestr(f"seqformats/{name}", "new")
    nodes = set()
    for _ in range(2):
        built.put_beside(tmp_path / "wheel.whl", tmp_path)
        assert sorted(path.name for path in place.iterdir()) == ["level.so", "level.table"]
        assert [path.name for path in (tmp_path / "core").iterdir()] == ["fast.pyx"]
        nodes.add((place / "level.so").stat().st_ino)
    assert len(nodes) == 1
    names = [store._file(text, "0" * 32) for text in ("check_lengths", "check_lengths(i8,i8,i)", "check_lengths(f4)")]
    assert passes.shipped_anyway(names) == ([] if code.why_not_shipped() else names[:2])


def test_what_needs_jax_runs_where_it_is():
    """Files that are skipped without JAX have its mark, or no pass would run them."""
    found = [path for path in Path(__file__).parent.rglob("test_*.py") if 'importorskip("jax' in path.read_text()]
    assert found
    assert [path.name for path in found if "pytest.mark.jax" not in path.read_text()] == []
