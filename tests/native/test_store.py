"""Files of machine code: whose are read, what becomes of damaged ones, and several processes at once."""

import logging
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time

import pytest

from seqformats.native import store
from seqformats.native.store import Entry

pytestmark = pytest.mark.passes("compiled", "interpreted", reason="no kernel runs")

KEY, OTHER = "0123456789abcdef" * 4, "fedcba9876543210" * 4
ENTRY = Entry(b"object" * 100, {"wanted": ["f", "g"], "\N{GREEK SMALL LETTER PI}": 3.25}, bytes(range(256)) * 100)
SMALL = Entry(b"some code", {"wanted": []})
TOLD = "kernels are not cached but compiled in each process: "
SOMEBODY = 54321
owned = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")

# What chooses the folder.
CHOICES = ("SEQFORMATS_CACHE", "SEQFORMATS_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing has been said yet, as in a new process; nobody has chosen a folder."""
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    store._said.clear()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder with one kernel in it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(folder))
    assert store.write("sum", KEY, ENTRY)
    return folder


@pytest.fixture
def kernel(cache):
    (path,) = cache.iterdir()
    return path


def python(code, **environment):
    env = {key: value for key, value in os.environ.items() if key not in CHOICES}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env={**env, **environment}, capture_output=True, text=True, timeout=600, check=False)


def told_once(caplog):
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("seqformats", logging.WARNING)
    return record.getMessage()


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read(cache, kernel, monkeypatch, caplog):
    """A file begins with the shared object, and no other kernel is taken for it, nor another key."""
    assert store.read("sum", KEY) == ENTRY
    assert store.path_of("sum", KEY) == kernel
    assert kernel.read_bytes().startswith(ENTRY.linked)
    for name, key in [("sum", OTHER), ("max", KEY), ("su", KEY), ("sum", KEY[:32] + OTHER[32:])]:
        assert store.read(name, key) is None
    assert store.why_not() == ""
    monkeypatch.setenv("SEQFORMATS_CACHE", "0")
    assert store.user_folder() is store.read("sum", KEY) is None
    assert not store.write("max", KEY, ENTRY)
    assert store.why_not() == "SEQFORMATS_CACHE=0"
    assert list(cache.iterdir()) == [kernel]
    assert caplog.records == []


def test_any_name_is_a_name(cache):
    """Names that are alike are kept apart."""
    names = ["../up", "a/b", "a:b", "a_b", "<lambda>", "CON ", "y" * 300, "y" * 301, "\N{GREEK SMALL LETTER PI}", ""]
    for number, name in enumerate([*names, "a\0b", "."]):
        assert store.write(name, KEY, Entry(b"code", {"number": number}))
        assert store.read(name, KEY).facts["number"] == number
    assert [store.read(name, KEY).facts["number"] for name in names] == list(range(len(names)))
    assert all(path.parent == cache and path.is_file() for path in cache.rglob("*"))
    assert len(list(cache.parent.iterdir())) == 1


def test_reading_loads_nothing_more(tmp_path):
    code = """
import sys, numpy
numpy = set(sys.modules)
from seqformats.native import store
before = set(sys.modules)
assert store.read("sum", "0" * 64) is None
assert store.write("sum", "0" * 64, store.Entry(b"code", {}))
assert store.read("sum", "0" * 64) == (b"code", {}, b"")
print(sorted(set(sys.modules) - before), sorted({"numba", "llvmlite", "shutil", "hashlib"} & (before - numpy)))
"""
    done = python(code, SEQFORMATS_CACHE_DIR=str(tmp_path))
    assert (done.stdout, done.stderr) == ("[] []\n", "")


@pytest.mark.skipif(os.name == "nt", reason="paths of other systems")
@pytest.mark.parametrize(
    ("system", "environment", "folder"),
    [
        ("linux", {}, "/h/.cache/seqformats"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/seqformats"),
        ("linux", {"XDG_CACHE_HOME": "x"}, "/h/.cache/seqformats"),  # a relative one does not count
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/h/Library/Caches/seqformats"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/seqformats/Cache"),
        ("win32", {}, "/h/AppData/Local/seqformats/Cache"),
        ("linux", {"NUMBA_CACHE_DIR": "/n", "XDG_CACHE_HOME": "/x"}, "/n/seqformats"),
        ("linux", {"NUMBA_CACHE_DIR": "/n", "SEQFORMATS_CACHE_DIR": "/s/../t/"}, "/t"),
        ("linux", {"NUMBA_CACHE_DIR": "", "SEQFORMATS_CACHE_DIR": ""}, "/h/.cache/seqformats"),
        ("linux", {"SEQFORMATS_CACHE": "0", "SEQFORMATS_CACHE_DIR": "/s"}, None),
    ],
)
def test_where_the_cache_is(monkeypatch, system, environment, folder):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv("HOME", "/h")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert store.user_folder() == (folder and pathlib.Path(folder))


def test_a_user_without_a_home(monkeypatch, caplog):
    """As in a container that was given a number for a user."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", home)
    assert store.user_folder() is store.read("sum", KEY) is None
    assert [store.write("sum", KEY, ENTRY) for _ in range(2)] == [False, False]
    assert "no home" in told_once(caplog)
    assert "no home" in store.why_not()


# --- damaged files ---------------------------------------------------------------------------------------------------


def changed(change):
    """Write the file anew, with other bytes."""
    return lambda path: path.write_bytes(change(path.read_bytes()))


def of_another(name, key):
    def damage(path):
        store.write(name, key, ENTRY)
        (other,) = set(path.parent.iterdir()) - {path}
        other.replace(path)

    return damage


def pipe(path):
    """Nobody writes to it, and it is not waited for."""
    path.unlink()
    os.mkfifo(path)


DAMAGES = {
    "cut": changed(lambda data: data[:-7]),
    "empty": changed(lambda _: b""),
    "garbage": changed(lambda _: b"\x80\x05not machine code" * 20),
    "flipped": changed(lambda data: bytes(255 - byte for byte in data)),
    "huge": changed(lambda data: data[: -store._END.size] + b"\xff" * 24 + data[24 - store._END.size :]),
    "long": lambda path: os.truncate(path, 1 << 40),  # of which nothing is read
    "another kernel": of_another("max", KEY),
    "another key": of_another("sum", OTHER),
    "unlink": pathlib.Path.unlink,
    **({"pipe": pipe} if hasattr(os, "mkfifo") else {}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_written_anew(cache, kernel, caplog, damage):
    DAMAGES[damage](kernel)
    assert store.read("sum", KEY) is None
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY
    assert list(cache.iterdir()) == [kernel]
    assert caplog.records == []


def test_every_bit_and_every_length():
    packed = store._pack("sum", KEY, SMALL)
    for where in range(len(packed) * 8):
        changed = bytearray(packed)
        changed[where // 8] ^= 1 << where % 8
        assert store._unpack("sum", KEY, bytes(changed)) is None
    for length in range(len(packed)):
        assert store._unpack("sum", KEY, packed[:length]) is None
        assert store._unpack("sum", KEY, packed[length + 1 :]) is None
    assert store._unpack("sum", KEY, packed) == SMALL


# --- whose files are read --------------------------------------------------------------------------------------------


def given_away(path, **how):
    """Give it to somebody else; what is said of it."""
    os.chown(path, SOMEBODY, SOMEBODY, **how)
    return f"{path} belongs to another user"


def opened(path, mode=0o777):
    path.chmod(mode)
    return f"others may write {path}"


def link_of_another_user(cache):
    """It leads to a folder of ours, but may lead elsewhere tomorrow."""
    cache.symlink_to(cache.rename(cache.parent / "place"))
    given_away(cache, follow_symlinks=False)
    return f"{cache} is a link of another user"


@pytest.mark.parametrize(
    "astray",
    [
        *[pytest.param(lambda cache, m=m: opened(cache, m), marks=owned, id=oct(m)) for m in (0o777, 0o775, 0o1777)],
        pytest.param(lambda cache: opened(cache.parent), marks=owned, id="above"),
        pytest.param(given_away, marks=as_root),
        pytest.param(link_of_another_user, marks=as_root),
    ],
)
def test_a_folder_that_is_not_used(cache, kernel, caplog, astray):
    """Nothing is read and nothing written; the reason is told once, and nothing in the folder changes."""
    before = kernel.read_bytes(), kernel.stat().st_mtime_ns
    reason = astray(cache)
    for _ in range(2):
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, SMALL)
    assert not store.write("max", KEY, ENTRY)
    assert (kernel.read_bytes(), kernel.stat().st_mtime_ns) == before
    told = told_once(caplog)
    assert told.startswith(TOLD)
    assert all(part in told for part in (reason, "SEQFORMATS_CACHE_DIR", "SEQFORMATS_CACHE=0"))
    assert reason in store.why_not()


def linked(kernel):
    kernel.symlink_to(kernel.rename(kernel.parent.parent / "elsewhere"))
    return f"{kernel} is a link"


@pytest.mark.parametrize(
    "astray",
    [
        pytest.param(lambda kernel: opened(kernel, 0o664), marks=owned, id="0664"),
        pytest.param(lambda kernel: opened(kernel, 0o646), marks=owned, id="0646"),
        pytest.param(linked, marks=owned),
        pytest.param(given_away, marks=as_root),
    ],
)
def test_a_file_that_is_not_used(kernel, caplog, astray):
    reason, content = astray(kernel), kernel.read_bytes()
    for _ in range(2):
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, SMALL)
    assert kernel.read_bytes() == content
    assert reason in told_once(caplog)


@owned
def test_a_folder_is_looked_at_each_time(cache, caplog):
    assert store.read("sum", KEY) == ENTRY
    cache.chmod(0o777)
    assert store.read("sum", KEY) is None
    cache.chmod(0o755)
    assert store.read("sum", KEY) == ENTRY
    (cache.parent / "link").symlink_to(cache)  # of this user
    os.environ["SEQFORMATS_CACHE_DIR"] = str(cache.parent / "link")
    assert store.read("sum", KEY) == ENTRY


@owned
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_what_is_made_is_for_this_user_alone(tmp_path, monkeypatch, caplog, umask):
    """Whatever the process would leave open; and nothing is made where others may write."""
    folder = tmp_path / "new" / "cache"
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(folder))
    before = os.umask(umask)
    try:
        assert store.why_not() == ""
        assert not folder.parent.exists()
        if umask:
            assert store.write("sum", KEY, ENTRY)
            assert store.read("sum", KEY) == ENTRY
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE(store.path_of("sum", KEY).stat().st_mode) == 0o644 & ~umask
        else:  # the folder above is made as the process has it
            assert not store.write("sum", KEY, ENTRY)
            assert f"others may write {folder.parent}" in told_once(caplog)
    finally:
        os.umask(before)


def test_where_files_have_no_owners(cache, kernel, monkeypatch, caplog):
    """As on Windows, where a folder is used as it is."""
    monkeypatch.setattr(store, "_OWNED", False)
    monkeypatch.delattr(os, "geteuid", raising=False)
    cache.chmod(0o777)
    kernel.chmod(0o666)
    assert store.read("sum", KEY) == ENTRY
    assert store.write("sum", KEY, ENTRY)
    assert store.why_not() == ""
    assert caplog.records == []


# --- no place for it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "below/deeper"])
def test_a_file_in_place_of_a_folder(tmp_path, monkeypatch, caplog, below):
    (tmp_path / "taken").write_text("here")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(tmp_path / "taken" / below))
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert str(tmp_path / "taken") in store.why_not()
    assert told_once(caplog).startswith(TOLD)


WRITE_AND_READ = """
from seqformats.native import store
entry = store.Entry(b"code", {})
print([store.write("max", "0" * 64, entry) for _ in range(2)], store.read("max", "0" * 64) == entry, store.why_not())
"""


@pytest.mark.passes("compiled", reason="what is measured could not be written there")
@as_root
@pytest.mark.parametrize("filled", [True, False])
def test_a_folder_that_this_user_may_not_write(filled):
    """A user finds what root has written for all; what is not there is compiled, which is said."""
    loaded = "import logging, os, seqformats.native.store"  # whom Python belongs to is nothing of this test
    code = f"{loaded}\nos.setgid({SOMEBODY}); os.setuid({SOMEBODY})\n{WRITE_AND_READ}"
    with tempfile.TemporaryDirectory() as name:
        above = pathlib.Path(name)
        above.chmod(0o755)
        cache = above / "cache"
        if filled:
            assert python(WRITE_AND_READ, SEQFORMATS_CACHE_DIR=str(cache)).stdout == "[True, True] True \n"
            cache.chmod(0o755)
        done = python(code, SEQFORMATS_CACHE_DIR=str(cache))
    where = cache if filled else above
    assert done.stdout == f"[{filled}, {filled}] {filled} {where} is no folder that this user may write\n"
    told = done.stderr.splitlines()
    assert len(told) == (not filled)
    assert all(line.startswith(TOLD) and "Permission denied" in line for line in told)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "stop"])
def test_a_file_that_is_not_completed(cache, kernel, monkeypatch, caplog, error):
    """Check that what was there stays, and nothing else."""

    def fails(path, target):
        raise error

    monkeypatch.setattr(pathlib.Path, "replace", fails)
    if isinstance(error, OSError):
        assert not store.write("max", KEY, SMALL)
        assert store.write("sum", KEY, ENTRY)  # it is there
        assert "No space left" in told_once(caplog)
    else:
        with pytest.raises(KeyboardInterrupt):
            store.write("max", KEY, SMALL)
    assert list(cache.iterdir()) == [kernel]
    assert store.read("sum", KEY) == ENTRY


def test_what_is_left_behind_goes(cache):
    """Check that what killed processes began goes, and all but a kernel's eight newest files; nothing of others."""
    begun = "sum-0123456789abcdef0123456789abcdef.so.0123456789abcdef.tmp"
    other = [cache / name for name in ("a.tmp", "a.nbi", "mean-notes.so", "min.so.1.tmp")]
    for path in [cache / begun, *other]:
        path.write_bytes(b"x")
        os.utime(path, (time.time() - 4000 * (path.name != "min.so.1.tmp"),) * 2)
    for name in ("mean-x", "mea"):
        assert store.write(name, KEY, ENTRY)
    for number in range(12):
        assert store.write("mean", f"{number:02}" * 32, ENTRY)
        os.utime(store.path_of("mean", f"{number:02}" * 32), (time.time() - 2000 + number,) * 2)
    assert store.write("mean", KEY, ENTRY)
    there = [number for number in range(12) if store.read("mean", f"{number:02}" * 32)]
    assert there == [5, 6, 7, 8, 9, 10, 11]
    assert all(store.read(name, KEY) for name in ("sum", "mean", "mean-x", "mea"))
    assert not (cache / begun).exists()
    assert all(path.exists() for path in other)


# --- several at once -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_that_write_and_read_the_same(tmp_path):
    """Check that what is read is whole, whoever writes; one damages the file in between.  They are forks of one."""
    code = """
import os, random
from seqformats.native import store

def turns(number):
    found = 0
    for turn in range(150):
        if random.random() < 0.5:
            code = bytes([number]) * random.randrange(1, 60000)
            assert store.write("sum", "0" * 64, store.Entry(code, {"size": len(code), "by": number}))
        elif number == 0 and random.random() < 0.2:
            for path in store.user_folder().glob("sum-*.so"):  # none, before anybody has written
                path.write_bytes(b"damaged")
        entry = store.read("sum", "0" * 64)
        if entry is not None:
            found += 1
            assert entry.code == bytes([entry.facts["by"]]) * entry.facts["size"]
    assert found

assert store.write("sum", "0" * 64, store.Entry(b"0", {"size": 1, "by": 48}))
children = []
for number in range(4):
    child = os.fork()
    if not child:
        random.seed(number)
        try:
            turns(number)
        except BaseException:
            os._exit(1)
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
"""
    done = python(code, SEQFORMATS_CACHE_DIR=str(tmp_path / "new" / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((tmp_path / "new" / "cache").iterdir())) == 1
