"""Importing without Numba, and the kernels' cache on disk: on, off, damaged, out of reach, and kept apart."""

import os
import pathlib
import pickle
import shutil
import stat
import subprocess
import sys
import time

import pytest

import seqformats as sf

compiled_only = pytest.mark.passes("compiled", reason="it runs in a process without checks of bounds")

# Uses one small kernel, and says how often it came from the cache.
USE = """
import numpy as np
import seqformats as sf
from seqformats.launch.kernel import kernel
assert sf.Ragged(np.zeros(3), [1, 2]).offsets.tolist() == [0, 1, 3]
print(sum(kernel("check_lengths").on("cpu").stats.cache_hits.values()))
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
    done = python("import seqformats, seqformats.kernels.parts" + UNWANTED)
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
@pytest.mark.parametrize("file", ["kernels/parts/common.py", "layout.py", "beam/rows.py"])
def test_an_edit_of_what_kernels_are_made_of_is_seen(tmp_path, file):
    """Numba stamps a kernel with its own file only; the cache here also with what kernels take from others."""
    source = copy_of_the_source(tmp_path)
    env = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    use = THERE.format(source) + USE
    cache = tmp_path / "cache"
    assert hits(cache, use, **env) == 0
    assert hits(cache, use, **env) == 1
    with (source / "seqformats" / file).open("a") as file:
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


# --- whose files are read --------------------------------------------------------------------------------------------

owned = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
SOMEBODY = 54321


class Evil:
    """Pickled, it makes a file when it is read."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return pathlib.Path.touch, (self.trace,)


@pytest.fixture
def trace(cache):
    """The file that is there when the code in the index of the cache has run."""
    path = cache.parent / "trace"
    for index in files(cache, ".nbi"):
        index.write_bytes(pickle.dumps(Evil(path)))
    return path


def index_in(cache):
    (index,) = files(cache, ".nbi")
    return index


def state(cache):
    return {path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in [cache, *cache.rglob("*")]}


def refused(folder, **environment):
    """Use the kernel, which is compiled; the reason is told once, and nothing in the folder changes."""
    before = state(folder)
    done = python(USE + USE, NUMBA_CACHE_DIR=str(folder), **environment)
    assert (done.returncode, done.stdout) == (0, "0\n0\n"), done.stderr
    assert state(folder) == before
    (told,) = done.stderr.splitlines()
    assert told.startswith("kernels are not cached but compiled in each process: ")
    return told


@compiled_only
def test_what_this_user_has_written_is_read(cache, trace):
    """The tests below can fail."""
    assert hits(cache) == 0
    assert trace.exists()


@owned
@compiled_only
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write(cache, trace, mode):
    index_in(cache).parent.chmod(mode)
    assert f"others may write {index_in(cache).parent}" in refused(cache)
    assert not trace.exists()


@owned
@compiled_only
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_an_index_that_others_may_write(cache, trace, mode):
    index_in(cache).chmod(mode)
    assert f"others may write {index_in(cache)}" in refused(cache)
    assert not trace.exists()


@owned
@compiled_only
def test_a_kernel_that_others_may_write(cache):
    """The index is ours, and the file of the kernel is not."""
    (kernel,) = files(cache, ".nbc")
    path = cache.parent / "trace"
    kernel.write_bytes(pickle.dumps(Evil(path)))
    assert hits(shutil.copytree(cache, cache.parent / "copy")) == 0
    assert path.exists()
    path.unlink()
    kernel.chmod(0o666)
    assert f"others may write {kernel}" in refused(cache)
    assert not path.exists()


@as_root
@compiled_only
@pytest.mark.parametrize("what", [lambda index: index, lambda index: index.parent, lambda index: index.parent.parent])
def test_what_belongs_to_another_user(cache, trace, what):
    path = what(index_in(cache))
    os.chown(path, SOMEBODY, SOMEBODY)
    assert f"{path} belongs to another user" in refused(cache)
    assert not trace.exists()


@owned
@compiled_only
def test_a_link_in_place_of_the_index(cache, trace):
    index = index_in(cache)
    elsewhere = index.rename(cache.parent / "elsewhere")
    index.symlink_to(elsewhere)
    assert f"{index} is a link" in refused(cache)
    assert not trace.exists()


@owned
@compiled_only
@pytest.mark.parametrize("link", ["link/cache", "link/../link/cache", "twice"])
def test_a_link_on_the_way_to_the_folder(cache, link):
    """One of this user's is followed."""
    (cache.parent / "link").mkdir()
    (cache.parent / "link" / "cache").symlink_to(cache)
    (cache.parent / "twice").symlink_to("link/../link/cache")
    assert hits(cache.parent / link) == 1


@as_root
@compiled_only
def test_a_link_of_another_user(cache, trace):
    """It leads to a folder of ours, but may lead elsewhere tomorrow."""
    link = cache.parent / "link"
    link.symlink_to(cache)
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    done = python(USE, NUMBA_CACHE_DIR=str(link))
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert f"{link} belongs to another user" in done.stderr
    assert not trace.exists()


@owned
@compiled_only
@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_above_that_others_may_write(cache, trace, linked):
    """They could put another in the place of ours, or of a folder that a link leads to."""
    above = cache.parent / "above"
    above.mkdir()
    place = cache.rename(above / "cache")
    if linked:
        cache.symlink_to(place)
    above.chmod(0o777)
    done = python(USE, NUMBA_CACHE_DIR=str(cache if linked else place))
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert f"others may write {above}" in done.stderr
    assert not trace.exists()


@owned
@compiled_only
def test_a_folder_above_where_entries_belong_to_their_owners(cache):
    """As in the folder for temporary files."""
    cache.parent.chmod(0o1777)
    assert hits(cache) == 1
    cache.parent.chmod(0o755)


@as_root
@compiled_only
def test_a_group_that_may_write_a_folder_above(cache):
    """The group of this user alone is no other; every other group is."""
    cache.parent.chmod(0o775)
    assert hits(cache) == 1
    os.chown(cache.parent, 0, SOMEBODY)
    assert f"others may write {cache.parent}" in refused(cache)
    os.chown(cache.parent, 0, 0)


@as_root
@compiled_only
def test_a_container_that_does_not_know_root(cache, trace):
    """The folders above are nobody's there, as far as it knows; the cache itself must be this user's all the same."""
    use = f"""
from seqformats.kernels.parts import cache
cache._unmapped = lambda: {{{SOMEBODY}}}
"""
    index = index_in(cache)
    poison = index.read_bytes()
    os.chown(cache, SOMEBODY, SOMEBODY)
    assert "belongs to another user" in refused(cache)
    index.unlink()
    assert hits(cache, use + USE) == 0
    assert hits(cache, use + USE) == 1
    index.write_bytes(poison)
    for path in (index, index.parent):
        os.chown(path, SOMEBODY, SOMEBODY)
        done = python(use + USE, NUMBA_CACHE_DIR=str(cache))
        assert (done.returncode, done.stdout) == (0, "0\n")
        assert f"{path} belongs to another user" in done.stderr
        os.chown(path, 0, 0)
    assert not trace.exists()


def test_a_system_where_every_user_is_known():
    from seqformats.kernels.parts import cache

    known = pathlib.Path("/proc/self/uid_map")
    whole = not known.exists() or known.read_text().split() == ["0", "0", "4294967295"]
    assert bool(cache._unmapped()) != whole


@owned
@compiled_only
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_what_is_made_is_for_this_user_to_write(tmp_path, umask):
    """Whatever the process would leave open."""
    folder = tmp_path / "new" / "cache"
    use = f"import os; os.umask({umask})" + USE
    assert hits(folder, use) == 0
    made = [folder.parent, folder, *folder.rglob("*")]
    assert len(made) > 4
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644) & ~umask, path
    assert hits(folder, use) == 1


@owned
@compiled_only
def test_nothing_is_made_where_others_may_write(tmp_path):
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    done = python(USE, NUMBA_CACHE_DIR=str(above / "cache"))
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert list(above.iterdir()) == []


@owned
@compiled_only
def test_beside_the_source_others_may_write(tmp_path):
    """Where nobody has chosen a folder, the next one is taken, which is the user's."""
    source = copy_of_the_source(tmp_path)
    (source / "seqformats" / "kernels" / "__pycache__").mkdir()
    (source / "seqformats" / "kernels" / "__pycache__").chmod(0o775)
    home = tmp_path / "home"
    home.mkdir()
    env = {"PYTHONPATH": str(source), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "NUMBA_CACHE_DIR": ""}
    use = THERE.format(source) + USE
    assert [int(python(use, **env).stdout) for _ in range(2)] == [0, 1]
    assert files(home, ".nbi")
    assert not list(source.rglob("*.nb?"))


@compiled_only
def test_where_files_have_no_owners(cache):
    """As on Windows, where a folder is used as it is."""
    index_in(cache).parent.chmod(0o777)
    for path in files(cache, ""):
        path.chmod(0o666)
    assert hits(cache, "import os\nif hasattr(os, 'geteuid'): del os.geteuid" + USE) == 1


@compiled_only
def test_what_killed_processes_have_left(cache):
    folder = index_in(cache).parent
    names = ["a.nbi.tmp.0123456789abcdef", "a.1.nbc.tmp.0123456789abcdef"]
    other = ["a.nbi.tmp.txt", "a.txt.tmp.0123456789abcdef", "tmp"]
    for name in names + other:
        (folder / name).write_bytes(b"x")
        os.utime(folder / name, (time.time() - 4000,) * 2)
    (folder / "b.nbi.tmp.0123456789abcdef").write_bytes(b"x")  # somebody may be writing it
    (folder / "c.nbi.tmp.0123456789abcdef").mkdir()
    os.utime(folder / "c.nbi.tmp.0123456789abcdef", (time.time() - 4000,) * 2)
    assert hits(cache) == 1
    left = {path.name for path in folder.iterdir()}
    assert not left & set(names)
    assert left >= {*other, "b.nbi.tmp.0123456789abcdef", "c.nbi.tmp.0123456789abcdef"}


@as_root
@compiled_only
def test_what_processes_of_others_have_left(cache):
    left = index_in(cache).parent / "a.nbi.tmp.0123456789abcdef"
    left.write_bytes(b"x")
    os.utime(left, (time.time() - 4000,) * 2)
    os.chown(left, SOMEBODY, SOMEBODY)
    assert hits(cache) == 1
    assert left.exists()


@compiled_only
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    use = """
import pytest
from seqformats.kernels.parts.cache import _Files
files = _Files({0!r}, "name", "stamp")
with pytest.raises(KeyboardInterrupt), files._open_for_write({0!r} + "/name.nbi") as file:
    file.write(b"half")
    raise KeyboardInterrupt
"""
    done = python(use.format(str(tmp_path)))
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
