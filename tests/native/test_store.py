"""Files of machine code: whose are read, what becomes of damaged ones, several processes at once, and the bundle."""

import concurrent.futures
import doctest
import logging
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import time

import pytest

from seqformats.native import store
from seqformats.native.store import Entry, Shipped

pytestmark = pytest.mark.passes("compiled", "interpreted", reason="no kernel runs")
unmeasured = pytest.mark.passes("compiled", reason="what is measured could not be written there")

KEY, OTHER = "0123456789abcdef" * 4, "fedcba9876543210" * 4
ENTRY = Entry(
    bytes(range(256)) * 100,
    {"entries": ["f", "g"], "symbols": {"PyErr_Occurred": 1}, "\N{GREEK SMALL LETTER PI}": 3.25},
)
TOLD = "kernels are not cached but compiled in each process: "

owned = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
SOMEBODY = 54321

# What chooses the folder.
CHOICES = ("SEQFORMATS_CACHE", "SEQFORMATS_CACHE_DIR", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Nothing has been looked at and nothing said yet, as in a new process; nobody has chosen a folder."""
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    as_new()


def as_new():
    store._ways.clear()
    store._said.clear()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder with one kernel in it."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(folder))
    assert store.write("sum", KEY, ENTRY)
    as_new()
    return folder


@pytest.fixture
def kernel(cache):
    (path,) = cache.iterdir()
    return path


def python(code, **environment):
    env = {key: value for key, value in os.environ.items() if key not in CHOICES}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env={**env, **environment}, capture_output=True, text=True, timeout=600, check=False)


def state(folder):
    return {path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


def told_once(caplog):
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("seqformats", logging.WARNING)
    return record.getMessage()


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read(cache, caplog):
    assert store.read("sum", KEY) == ENTRY
    assert store.why_not() == ""
    assert caplog.records == []


@pytest.mark.parametrize(("name", "key"), [("sum", OTHER), ("max", KEY), ("su", KEY), ("sum", KEY[:32] + OTHER[32:])])
def test_another_kernel_is_not_there(cache, caplog, name, key):
    """The last key differs in digits that the name of the file does not have."""
    assert store.read(name, key) is None
    assert caplog.records == []


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "<lambda>", "c:d", "CON ", "x" * 300, "\N{GREEK SMALL LETTER PI}", "", "a\0b", "."]
)
def test_any_name_is_a_name(cache, name):
    assert store.write(name, KEY, ENTRY)
    assert store.read(name, KEY) == ENTRY
    assert all(path.parent == cache and path.is_file() for path in cache.rglob("*"))
    assert len(list(cache.parent.iterdir())) == 1


def test_names_that_are_alike_are_kept_apart(cache):
    names = ["a/b", "a:b", "a_b", "y" * 200, "y" * 201]
    for number, name in enumerate(names):
        assert store.write(name, KEY, Entry(b"code", {"number": number}))
    assert [store.read(name, KEY).facts["number"] for name in names] == list(range(5))


def test_the_cache_can_be_turned_off(cache, monkeypatch, caplog):
    monkeypatch.setenv("SEQFORMATS_CACHE", "0")
    assert store.user_folder() is None
    assert store.read("sum", KEY) is None
    assert not store.write("max", KEY, ENTRY)
    assert store.why_not() == "SEQFORMATS_CACHE=0"
    assert len(list(cache.iterdir())) == 1
    assert caplog.records == []


def test_reading_loads_nothing_more(tmp_path):
    code = """
import sys
from seqformats.native import store
before = set(sys.modules)
assert store.read("sum", "0" * 64) is None
assert store.write("sum", "0" * 64, store.Entry(b"code", {}))
assert store.read("sum", "0" * 64) == (b"code", {})
print(sorted(set(sys.modules) - before), sorted({"numba", "llvmlite", "uuid", "hashlib", "pickle"} & (before - numpy)))
"""
    code = "import sys, numpy\nnumpy = set(sys.modules)" + code
    done = python(code, SEQFORMATS_CACHE_DIR=str(tmp_path))
    assert (done.stdout, done.stderr) == ("[] []\n", "")


def test_the_examples():
    assert doctest.testmod(store).failed == 0


# --- where it is -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="paths of other systems")
@pytest.mark.parametrize(
    ("system", "environment", "folder"),
    [
        ("linux", {}, "/h/.cache/seqformats"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/seqformats"),
        ("linux", {"XDG_CACHE_HOME": "x"}, "/h/.cache/seqformats"),  # a relative one does not count
        ("linux", {"XDG_CACHE_HOME": ""}, "/h/.cache/seqformats"),
        ("freebsd14", {}, "/h/.cache/seqformats"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/h/Library/Caches/seqformats"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/seqformats/Cache"),
        ("win32", {}, "/h/AppData/Local/seqformats/Cache"),
        ("linux", {"NUMBA_CACHE_DIR": "/n", "XDG_CACHE_HOME": "/x"}, "/n/seqformats"),
        ("linux", {"NUMBA_CACHE_DIR": "/n", "SEQFORMATS_CACHE_DIR": "/s/../t/"}, "/t"),
        ("linux", {"NUMBA_CACHE_DIR": "", "SEQFORMATS_CACHE_DIR": ""}, "/h/.cache/seqformats"),
        ("linux", {"SEQFORMATS_CACHE": "0", "SEQFORMATS_CACHE_DIR": "/s"}, None),
        ("linux", {"SEQFORMATS_CACHE": "1"}, "/h/.cache/seqformats"),
    ],
)
def test_where_the_cache_is(monkeypatch, system, environment, folder):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setenv("HOME", "/h")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert store.user_folder() == (folder and pathlib.Path(folder))


def test_a_relative_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", "here")
    assert store.write("sum", KEY, ENTRY)
    assert store.user_folder() == tmp_path / "here"
    assert store.read("sum", KEY) == ENTRY


def test_a_user_without_a_home(monkeypatch, caplog):
    """As in a container that was given a number for a user."""

    def home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(pathlib.Path, "home", home)
    assert store.user_folder() is None
    assert store.read("sum", KEY) is None
    assert caplog.records == []
    assert [store.write("sum", KEY, ENTRY) for _ in range(2)] == [False, False]
    assert "no home" in told_once(caplog)
    assert "no home" in store.why_not()


# --- damaged files ---------------------------------------------------------------------------------------------------


def changed(change):
    """Write the file anew, with other bytes."""

    def damage(path):
        path.write_bytes(change(path.read_bytes()))

    return damage


def long(path):
    """More than any kernel has, of which nothing is read."""
    with path.open("r+b") as file:
        file.truncate(1 << 40)


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


BYTES = {
    "cut": changed(lambda data: data[:-7]),
    "empty": changed(lambda _: b""),
    "garbage": changed(lambda _: b"\x80\x05not machine code" * 20),
    "flipped": changed(lambda data: bytes(255 - byte for byte in data)),
}
DAMAGES = {
    **BYTES,
    "huge": changed(lambda data: data[:12] + b"\xff" * 12 + data[24:]),  # so its head says
    "long": long,
    "another version": changed(lambda data: data[:8] + bytes([data[8] + 1]) + data[9:]),
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


def test_a_folder_in_place_of_a_file(cache, kernel, caplog):
    kernel.unlink()
    kernel.mkdir()
    assert store.read("sum", KEY) is None
    assert [store.write("sum", KEY, ENTRY) for _ in range(2)] == [False, False]
    assert told_once(caplog).startswith(TOLD)
    assert list(cache.iterdir()) == [kernel]


def test_heads_whose_digest_is_right(monkeypatch):
    """A file of another version may be whole, and mean something else; sizes may not be those of the file."""
    for facts, code in [(0, 4), (2, 5), (2, 3), (2**32 - 1, 2**64 - 1)]:
        sizes = store._IS, store._VERSION, facts, code
        digest = store._digest("sum", KEY, store._HEAD.pack(*sizes, b""), b"{}code")
        assert store._unpacked("sum", KEY, store._HEAD.pack(*sizes, digest) + b"{}code") is None
    data = store._packed("sum", KEY, ENTRY)
    monkeypatch.setattr(store, "_VERSION", store._VERSION - 1)
    assert store._unpacked("sum", KEY, data) is None


SMALL = Entry(b"some code", {"entry": "f"})


def test_every_bit_and_every_length():
    packed = store._packed("sum", KEY, SMALL)
    for where in range(len(packed) * 8):
        changed = bytearray(packed)
        changed[where // 8] ^= 1 << where % 8
        assert store._unpacked("sum", KEY, bytes(changed)) is None
    for length in range(len(packed)):
        assert store._unpacked("sum", KEY, packed[:length]) is None
        assert store._unpacked("sum", KEY, packed[length + 1 :]) is None
    assert store._unpacked("sum", KEY, packed) == SMALL


# --- whose files are read --------------------------------------------------------------------------------------------


def given_away(path, **how):
    """Give it to somebody else; what is said of it."""
    os.chown(path, SOMEBODY, SOMEBODY, **how)
    return f"{path} belongs to another user"


def opened(path, mode=0o777):
    path.chmod(mode)
    return f"others may write {path}"


def folder_above(cache, monkeypatch):
    """The cache, below a folder of its own."""
    place = cache.parent / "above" / "cache"
    place.parent.mkdir()
    cache.rename(place)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(place))
    return place


def linked_from_above(cache, monkeypatch):
    """Others could put another folder in the place of that to which a link leads."""
    place = folder_above(cache, monkeypatch)
    cache.symlink_to(place)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(cache))
    return place, opened(place.parent)


def link_that_goes_astray(cache, monkeypatch):
    """By way of another link, and up from there."""
    (cache.parent / "other" / "inner").mkdir(parents=True)
    place = cache.rename(cache.parent / "other" / "cache")
    (cache.parent / "through").symlink_to("other/inner")
    (cache.parent / "link").symlink_to("through/../cache")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(cache.parent / "link"))
    return place, "is a link that goes astray"


def link_of_another_user(cache, monkeypatch):
    """It leads to a folder of ours, but may lead elsewhere tomorrow."""
    link = cache.parent / "link"
    link.symlink_to(cache)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(link))
    return cache, given_away(link, follow_symlinks=False)


def above_is_open(cache, monkeypatch):
    """They could put another in the place of ours."""
    place = folder_above(cache, monkeypatch)
    return place, opened(place.parent)


def group_above(cache, monkeypatch):
    """The group of this user alone is no other; every other group is."""
    cache.parent.chmod(0o775)
    assert store.read("sum", KEY) == ENTRY
    os.chown(cache.parent, 0, SOMEBODY)
    return cache, f"others may write {cache.parent}"


def group_with_another_member(cache, monkeypatch):
    import grp

    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("root", "x", 0, ["root", "another"])))
    return cache, opened(cache.parent, 0o775)


def user_without_a_name(cache, monkeypatch):
    import pwd

    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    return cache, opened(cache.parent, 0o775)


def nobody_where_anybody_may_put_folders(cache, monkeypatch):
    """In a container that does not know root, a folder of nobody's may be anybody's there."""
    monkeypatch.setattr(store, "_unmapped", lambda: frozenset((SOMEBODY,)))
    place = folder_above(cache, monkeypatch)
    said = given_away(place.parent)
    assert store.read("sum", KEY) == ENTRY
    place.parent.parent.chmod(0o1777)
    return place, said


@pytest.mark.parametrize(
    "astray",
    [
        pytest.param(lambda cache, _: (cache, opened(cache)), marks=owned, id="0777"),
        pytest.param(lambda cache, _: (cache, opened(cache, 0o775)), marks=owned, id="0775"),
        pytest.param(lambda cache, _: (cache, opened(cache, 0o1777)), marks=owned, id="01777"),
        pytest.param(lambda cache, _: (cache, given_away(cache)), marks=as_root, id="given away"),
        pytest.param(lambda cache, _: (cache, given_away(cache.parent)), marks=as_root, id="above given away"),
        pytest.param(above_is_open, marks=owned),
        pytest.param(linked_from_above, marks=owned),
        pytest.param(link_that_goes_astray, marks=owned),
        *[
            pytest.param(scenario, marks=as_root)
            for scenario in [
                link_of_another_user,
                group_above,
                group_with_another_member,
                user_without_a_name,
                nobody_where_anybody_may_put_folders,
            ]
        ],
    ],
)
def test_a_folder_that_is_not_used(cache, monkeypatch, caplog, astray):
    """Nothing is read and nothing written; the reason is told once, and nothing in the folder changes."""
    folder, reason = astray(cache, monkeypatch)
    before = state(folder)
    as_new()
    for _ in range(2):
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, ENTRY)
    assert not store.write("max", KEY, ENTRY)
    assert state(folder) == before
    told = told_once(caplog)
    assert told.startswith(TOLD)
    assert reason in told
    assert "SEQFORMATS_CACHE_DIR" in told
    assert "SEQFORMATS_CACHE=0" in told
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
def test_a_file_that_is_not_used(cache, kernel, caplog, astray):
    reason = astray(kernel)
    before, content = state(cache), kernel.read_bytes()
    for _ in range(2):
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, SMALL)
    assert (state(cache), kernel.read_bytes()) == (before, content)
    assert reason in told_once(caplog)


@owned
def test_a_folder_that_others_may_write_from_now_on(cache, caplog):
    """What was seen once is looked at again."""
    assert store.read("sum", KEY) == ENTRY
    cache.chmod(0o777)
    assert store.read("sum", KEY) is None
    cache.rename(cache.parent / "old")
    cache.mkdir(0o777)
    cache.chmod(0o777)
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    cache.chmod(0o755)
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY


@owned
def test_a_folder_above_that_was_replaced(cache, monkeypatch, caplog):
    """The way to another folder of the same name is looked at anew."""
    above = cache.parent / "above"
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(above / "cache"))
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY
    above.rename(above.parent / "old")
    above.mkdir()
    reason = opened(above)
    cache.rename(above / "cache")
    assert store.read("sum", KEY) is None
    assert reason in told_once(caplog)


@owned
@pytest.mark.parametrize("link", ["link/cache", "link/../link/cache", "twice"])
def test_a_link_on_the_way_to_the_folder(cache, monkeypatch, link):
    """One of this user's is followed."""
    (cache.parent / "link").mkdir()
    (cache.parent / "link" / "cache").symlink_to(cache)
    (cache.parent / "twice").symlink_to("link/../link/cache")
    cache.parent.chmod(0o1777)  # entries belong to their owners there, as in the folder for temporary files
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(cache.parent / link))
    assert store.read("sum", KEY) == ENTRY
    assert store.write("max", KEY, ENTRY)
    assert len(list(cache.iterdir())) == 2


@owned
@pytest.mark.parametrize("target", ["round", "nowhere/below", "nowhere"])
def test_a_link_that_leads_nowhere(tmp_path, monkeypatch, target):
    """Round in a circle, or to what is not there."""
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "link").symlink_to(target)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(tmp_path / "link"))
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert isinstance(store.why_not(), str)
    assert len(list(tmp_path.iterdir())) == 2


@as_root
def test_a_container_that_does_not_know_root(cache, kernel, caplog, monkeypatch):
    """The folders above are nobody's there, as far as it knows; the cache itself must be this user's all the same."""
    monkeypatch.setattr(store, "_unmapped", lambda: frozenset((SOMEBODY,)))
    given_away(cache.parent)
    assert store.read("sum", KEY) == ENTRY
    assert store.write("max", KEY, ENTRY)
    for path in (cache, kernel):
        reason = given_away(path)
        as_new()
        caplog.clear()
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, ENTRY)
        assert reason in told_once(caplog)
        os.chown(path, 0, 0)


@pytest.mark.parametrize(("users", "whose"), [("0 0 4294967295", set()), ("0 1000 1", {7}), (None, set())])
def test_whose_number_stands_for_that_of_root(monkeypatch, users, whose):
    """None's where every user is known, or where the system tells nothing."""

    def told(path):
        if users is None:
            raise FileNotFoundError(path)
        return f"  {users}\n" if path.name == "uid_map" else "7\n"

    monkeypatch.setattr(pathlib.Path, "read_text", told)
    assert store._unmapped.__wrapped__() == whose


@owned
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077, 0o000])
def test_what_is_made_is_for_this_user_to_write(tmp_path, monkeypatch, umask):
    """Whatever the process would leave open."""
    folder = tmp_path / "new" / "cache"
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(folder))
    before = os.umask(umask)
    try:
        assert store.why_not() == ""
        assert not folder.parent.exists()
        assert store.write("sum", KEY, ENTRY)
        assert store.read("sum", KEY) == ENTRY
    finally:
        os.umask(before)
    made = [folder.parent, folder, *folder.rglob("*")]
    assert len(made) == 3
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644) & ~umask, path


@owned
def test_nothing_is_made_where_others_may_write(tmp_path, monkeypatch, caplog):
    above = tmp_path / "above"
    above.mkdir()
    reason = opened(above)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(above / "cache"))
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert list(above.iterdir()) == []
    assert reason in told_once(caplog)
    assert reason in store.why_not()


def test_where_files_have_no_owners(cache, kernel, monkeypatch, caplog):
    """As on Windows, where a folder is used as it is."""
    monkeypatch.setattr(store, "_OWNED", False)
    monkeypatch.delattr(os, "geteuid", raising=False)
    for name in ("O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.delattr(os, name, raising=False)
    cache.chmod(0o777)
    kernel.chmod(0o666)
    assert store.read("sum", KEY) == ENTRY
    assert store.write("sum", KEY, ENTRY)
    assert store.write("max", KEY, ENTRY)
    assert store.why_not() == ""
    assert caplog.records == []


# --- no place for it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("below", ["", "below/deeper"])
def test_a_file_in_place_of_a_folder(tmp_path, monkeypatch, caplog, below):
    taken = tmp_path / "taken"
    taken.write_text("here")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(taken / below))
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert str(taken) in store.why_not()
    assert below or f"{taken} is no folder" in store.why_not()
    assert taken.read_text() == "here"
    assert told_once(caplog).startswith(TOLD)


WRITE_AND_READ = """
from seqformats.native import store
entry = store.Entry(b"code", {})
print([store.write("max", "0" * 64, entry) for _ in range(2)], store.read("max", "0" * 64) == entry, store.why_not())
"""


@unmeasured
@as_root
@pytest.mark.parametrize("filled", [True, False])
def test_a_folder_of_another_who_may_write(filled):
    """A user finds what root has written; what is not there is compiled, which is said.  Root could write anywhere."""
    loaded = "import grp, logging, os, pwd, seqformats.native.store"  # whom Python belongs to is nothing of this test
    code = f"{loaded}\nos.setgid({SOMEBODY}); os.setuid({SOMEBODY})\n{WRITE_AND_READ}"
    with tempfile.TemporaryDirectory() as name:
        above = pathlib.Path(name)
        above.chmod(0o755)
        cache = above / "cache"
        if filled:
            assert python(WRITE_AND_READ, SEQFORMATS_CACHE_DIR=str(cache)).stdout == "[True, True] True \n"
        done = python(code, SEQFORMATS_CACHE_DIR=str(cache))
    where = cache if filled else above
    assert done.stdout == f"[{filled}, {filled}] {filled} {where} is no folder that this user may write\n"
    told = done.stderr.splitlines()
    assert len(told) == (not filled)
    assert all(line.startswith(TOLD) and "Permission denied" in line for line in told)


def test_a_disk_that_is_full_from_some_moment_on(cache, kernel, monkeypatch, caplog):
    """What was there stays."""

    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "replace", full)
    assert not store.write("sum", KEY, SMALL)
    assert not store.write("max", KEY, SMALL)
    assert store.write("sum", KEY, ENTRY)  # it is there
    assert list(cache.iterdir()) == [kernel]
    assert "No space left" in told_once(caplog)


def test_a_folder_that_vanishes(cache, caplog, monkeypatch):
    assert store.read("sum", KEY) == ENTRY
    shutil.rmtree(cache)
    assert store.read("sum", KEY) is None
    monkeypatch.setattr(pathlib.Path, "exists", lambda path: False)  # another process makes it meanwhile
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY
    assert caplog.records == []
    made = store._made
    monkeypatch.setattr(store, "_made", lambda folder: (made(folder), shutil.rmtree(folder))[0])
    assert not store.write("sum", KEY, ENTRY)


@pytest.mark.parametrize("moment", ["open", "replace"])
def test_an_interrupt_leaves_nothing_behind(cache, kernel, monkeypatch, moment):
    begin = os.open

    def opened(path, flags, *mode):
        file = begin(path, flags, *mode)
        if ".tmp." in str(path):
            os.close(file)
            interrupted()
        return file

    def interrupted(*args):
        raise KeyboardInterrupt

    if moment == "open":
        monkeypatch.setattr(os, "open", opened)
    else:
        monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write("max", KEY, ENTRY)
    monkeypatch.undo()
    assert list(cache.iterdir()) == [kernel]


# --- what is left behind ---------------------------------------------------------------------------------------------

BEGUN = "sum-0123456789abcdef0123456789abcdef.code.tmp.0123456789abcdef"


def aged(path, seconds=4000):
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_what_killed_processes_have_left(cache):
    names = [BEGUN, BEGUN.replace("sum", "max")]
    other = [BEGUN[:-1] + "g", BEGUN[:-1], "a.code.tmp.txt", "a.txt.tmp.0123456789abcdef", "tmp", "a.nbi", "a.1.nbc"]
    of_another = BEGUN.replace("sum", "var")
    for name in [*names, *other, of_another]:
        (cache / name).write_bytes(b"x")
        aged(cache / name)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        given_away(cache / of_another)
        other.append(of_another)
    (cache / BEGUN.replace("sum", "min")).write_bytes(b"x")  # somebody may be writing it
    (cache / BEGUN.replace("sum", "abs")).mkdir()
    aged(cache / BEGUN.replace("sum", "abs"))
    assert store.write("mean", KEY, ENTRY)
    left = {path.name for path in cache.iterdir()}
    assert not left & set(names)
    assert left >= {*other, BEGUN.replace("sum", "min"), BEGUN.replace("sum", "abs")}


def test_old_versions_of_a_kernel_go(cache):
    """The eight newest stay, and everything of other kernels."""
    keys = [f"{number:02}" * 32 for number in range(12)]
    for name in ("mean", "mean-x", "mea", "mean_x"):
        assert store.write(name, KEY, ENTRY)
    others = set(cache.iterdir())
    foreign = [cache / "mean-0123.nbi", cache / "mean-notes.code", cache / f"mean-{KEY[:32]}.html"]
    for path in foreign:
        path.write_bytes(b"x")
    for number, key in enumerate(keys):
        assert store.write("mean", key, ENTRY)
        (written,) = cache.glob(f"mean-{key[:32]}*")
        aged(written, 2000 - number)
    there = [key for key in [KEY, *keys] if store.read("mean", key)]
    assert there == [KEY, *keys[5:]]
    assert {*others, *foreign} <= set(cache.iterdir())


def test_what_was_just_written_stays(cache):
    """Even where the clock of another machine is ahead."""
    for number in range(9):
        assert store.write("mean", f"{number:02}" * 32, ENTRY)
    for path in cache.glob("mean-*"):
        aged(path, -4000)
    assert store.write("mean", KEY, ENTRY)
    assert store.read("mean", KEY) == ENTRY
    assert len(list(cache.glob("mean-*"))) == 8


# --- several at once -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_that_write_and_read_the_same(tmp_path):
    """What is read is whole, whoever writes; one of them damages the file in between.

    Forked, they share what was looked at, not the names of what they begin.
    """
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
            for path in store.user_folder().glob("sum-*.code"):  # none, before anybody has written
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


def test_threads_that_write_and_read_the_same(cache):
    def turn(number):
        assert store.write("sum", KEY, ENTRY)
        return store.read("sum", KEY) == ENTRY

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(turn, range(100)))
    assert len(list(cache.iterdir())) == 1


# --- what comes with the package -------------------------------------------------------------------------------------

LEVEL = "x86-64-v3"
ENTRIES = {"sum": ENTRY, "max": SMALL, "none": Entry(b"", {})}


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "shipped"
    Shipped.write(folder, LEVEL, ENTRIES, stamp="5eed", llvm="20.1")
    return folder


def test_what_is_shipped(bundle, tmp_path, caplog):
    found = Shipped.open(bundle, LEVEL)
    assert (found.stamp, found.llvm) == ("5eed", "20.1")
    assert {name: found.read(name) for name in ENTRIES} == ENTRIES
    assert found.read("min") is None
    assert Shipped.open(bundle, "x86-64-v4") is None
    assert Shipped.open(bundle / "nowhere", LEVEL) is None
    assert caplog.records == []
    # The same kernels make the same files, in whatever order they come, and their facts.
    turned = {name: Entry(code, dict(reversed(facts.items()))) for name, (code, facts) in reversed(ENTRIES.items())}
    Shipped.write(tmp_path / "again", LEVEL, turned, stamp="5eed", llvm="20.1")
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (bundle, tmp_path / "again")]
    assert files[0] == files[1]


def test_a_bundle_that_is_interrupted(bundle, monkeypatch):
    """The old one is there as it was."""

    def interrupted(*args):
        raise KeyboardInterrupt

    before = {path: path.read_bytes() for path in bundle.iterdir()}
    monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Shipped.write(bundle, LEVEL, {"sum": SMALL}, stamp="5eed", llvm="20.1")
    assert {path: path.read_bytes() for path in bundle.iterdir()} == before


def last_bit(path):
    """Another kernel is read all the same."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def lines(change):
    """Another table, whose digest is right."""

    def damage(path):
        lines = change([line.split("\t") for line in path.read_text().splitlines()[1:]])
        table = "".join("\t".join(map(str, line)) + "\n" for line in lines).encode()
        path.write_bytes(store.digest(table).hex().encode() + b"\n" + table)

    return damage


def of_sum(*place):
    return lines(lambda lines: [["sum", *place] if line[0] == "sum" else line for line in lines])


DIGEST = store._digest("sum", "", store._text(ENTRY.facts), ENTRY.code).hex()
OTHERS = ["max", "none"]


@pytest.mark.parametrize(
    ("file", "damage", "left"),
    [
        ("bin", last_bit, OTHERS),
        *[("bin", damage, None) for damage in [*BYTES.values(), pathlib.Path.unlink]],
        *[("table", damage, []) for damage in [*BYTES.values(), last_bit]],
        *[("table", lines(lambda lines, head=head: [head, *lines[1:]]), []) for head in ([], ["5eed"], ["5eed"] * 3)],
        ("table", of_sum(1), OTHERS),
        *[("table", of_sum(*place, DIGEST, {}), OTHERS) for place in [(-1, 1), (0, -1), (0, 1 << 70), (1 << 70, 1)]],
        *[("table", of_sum(*place, DIGEST, {}), OTHERS) for place in [(0, 1 << 40), (0.5, 1), (0, len(ENTRY.code))]],
        *[("table", of_sum(0, 1, DIGEST, facts), OTHERS) for facts in ["{", "f()", "1", "[" * 5000]],
        ("table", of_sum(0, 1, None, {}), OTHERS),
    ],
)
def test_a_damaged_bundle(bundle, caplog, file, damage, left):
    """What can be read is right, and it is said once that something cannot be read."""
    damage(bundle / f"{LEVEL}.{file}")
    found = Shipped.open(bundle, LEVEL)
    for _ in range(2):
        read = {name: found.read(name) for name in ENTRIES} if found else {}
        assert all(entry in (None, ENTRIES[name]) for name, entry in read.items())
    told = told_once(caplog)
    assert "install seqformats anew" in told
    assert LEVEL in told
    assert left is None or left == [name for name, entry in read.items() if entry]


def test_a_package_that_is_replaced_meanwhile(bundle, caplog):
    """The code is another one than the table says."""
    found = Shipped.open(bundle, LEVEL)
    Shipped.write(bundle, LEVEL, {"max": ENTRY, "sum": SMALL}, stamp="1", llvm="21")
    assert found.read("sum") is None
    assert Shipped.open(bundle, LEVEL).read("sum") == SMALL
    assert len(caplog.records) == 1
