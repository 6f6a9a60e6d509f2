"""Importing without Numba, and the kernels' cache on disk: on, off, damaged, out of reach, and kept apart."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import seqformats as sf

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")

# Uses one small kernel, and says how often it came from the cache.
USE = """
import numpy as np
import seqformats as sf
from seqformats import registry
assert sf.Ragged(np.zeros(3), [1, 2]).offsets.tolist() == [0, 1, 3]
print(sum(registry.kernel("check_lengths", "cpu").stats.cache_hits.values()))
"""


def python(code, **environment):
    env = {key: value for key, value in os.environ.items() if key not in ("SEQFORMATS_CACHE", "NUMBA_BOUNDSCHECK")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def hits(folder, code=USE, **environment):
    """Use the kernel with that cache folder; the result is right and nothing is said."""
    done = python(code, NUMBA_CACHE_DIR=str(folder), **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


THERE = "import seqformats; assert seqformats.__file__.startswith('{0}')\n"


def copy_of_the_source(tmp_path):
    source = tmp_path / "src"
    here = pathlib.Path(sf.__file__).parent
    shutil.copytree(here, source / "seqformats", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def files(folder, suffix):
    return sorted(pathlib.Path(folder).rglob(f"check_lengths*{suffix}"))


# --------------------------------------------------------------------------------------------- importing


UNWANTED = """
import sys
found = {'numba', 'llvmlite', 'torch', 'cupy', 'ml_dtypes'} & set(sys.modules)
sys.exit(', '.join(sorted(found)) or None)
"""


def test_importing_loads_no_numba():
    done = python("import seqformats" + UNWANTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_check_above_can_fail():
    done = python("import seqformats, seqformats._kernel" + UNWANTED)
    assert done.returncode == 1
    assert "numba" in done.stderr


def test_names_and_tables_load_no_numba():
    """Neither do help, the table of conversions, or the command that prints it need a kernel to be there."""
    done = python("import seqformats as sf; sf.conversions(); repr(sf.Ragged); sf.num_threads()" + UNWANTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --------------------------------------------------------------------------------------------- the cache


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A cache folder that holds the kernel."""
    folder = tmp_path_factory.mktemp("warm")
    assert hits(folder) == 0
    assert files(folder, ".nbi")
    assert files(folder, ".nbc")
    return folder


@pytest.fixture
def cache(warm, tmp_path):
    """A copy that a test may spoil."""
    return shutil.copytree(warm, tmp_path / "cache")


@compiled_only
def test_a_kernel_is_compiled_once(cache):
    assert hits(cache) == 1


@compiled_only
def test_the_cache_can_be_turned_off(tmp_path):
    assert hits(tmp_path, SEQFORMATS_CACHE="0") == 0
    assert list(tmp_path.rglob("*.nb?")) == []


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def empty(path):
    path.write_bytes(b"")


def garbage(path):
    path.write_bytes(b"\x80\x05not a pickle" * 20)


def flipped(path):
    """Every byte inverted, the length kept."""
    path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


def folder(path):
    path.unlink()
    path.mkdir()


def someone_elses(path):
    """A valid pickle of something else."""
    import pickle

    path.write_bytes(pickle.dumps(("0.0", {"key": "value"})))


@compiled_only
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [cut, empty, garbage, flipped, folder, someone_elses, pathlib.Path.unlink])
def test_a_damaged_cache_is_harmless(cache, suffix, damage):
    for path in files(cache, suffix):
        damage(path)
    assert hits(cache) == 0


@compiled_only
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_cache_is_written_anew(cache, suffix):
    for path in files(cache, suffix):
        garbage(path)
    assert hits(cache) == 0
    assert hits(cache) == 1


@compiled_only
def test_no_place_for_a_cache(tmp_path):
    """Files stand where every folder that Numba would use should be; the kernels are compiled in each process."""
    source = copy_of_the_source(tmp_path)
    for package in (source / "seqformats", source / "seqformats" / "kernels"):
        (package / "__pycache__").write_text("taken")
    taken = tmp_path / "taken"
    taken.write_text("here")
    env = {"PYTHONPATH": str(source), "HOME": str(taken), "XDG_CACHE_HOME": str(taken)}
    for place in (taken, taken / "below"):
        assert hits(place, THERE.format(source) + USE, **env) == 0
        assert list(tmp_path.rglob("*.nb?")) == []
    assert taken.read_text() == "here"


@compiled_only
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="this user may write everywhere")
@pytest.mark.parametrize("filled", [True, False])
def test_a_read_only_cache_folder(cache, tmp_path, filled):
    place = cache if filled else tmp_path / "bare"
    place.mkdir(exist_ok=True)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert hits(place) == int(filled) or filled
    finally:
        for path in [place, *place.rglob("*")]:
            path.chmod(0o755)


@compiled_only
def test_checks_of_bounds_are_kept_apart(cache):
    """A kernel compiled with NUMBA_BOUNDSCHECK is never used without, nor the other way round."""
    assert hits(cache, NUMBA_BOUNDSCHECK="1") == 0
    assert hits(cache, NUMBA_BOUNDSCHECK="1") == 1
    assert hits(cache) == 1


@compiled_only
def test_levels_of_optimisation_are_kept_apart(cache):
    assert hits(cache, NUMBA_OPT="0") == 0
    assert hits(cache) == 1


@compiled_only
def test_an_edit_of_the_house_options_is_seen(tmp_path):
    """Numba stamps a kernel with its own file only; the cache here also with all of `_kernel`."""
    source = copy_of_the_source(tmp_path)
    env = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    use = THERE.format(source) + USE
    cache = tmp_path / "cache"
    assert hits(cache, use, **env) == 0
    assert hits(cache, use, **env) == 1
    with (source / "seqformats" / "_kernel" / "common.py").open("a") as file:
        file.write("\n# an edit\n")
    assert hits(cache, use, **env) == 0


@compiled_only
def test_two_processes_at_once(tmp_path):
    """Both fill an empty cache, and both are right; what one took from the other is compiled once more."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    env.pop("SEQFORMATS_CACHE", None)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", USE], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in both:
        out, err = process.communicate(timeout=600)
        assert (process.returncode, err) == (0, "")
        assert out.strip() in ("0", "1")
    assert hits(tmp_path) in (0, 1)
    assert hits(tmp_path) == 1
