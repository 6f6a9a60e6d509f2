"""Files of machine code: whose are read, what becomes of damaged ones, several processes at once, and the bundle."""

import ast
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
from hypothesis import given
from hypothesis import strategies as st

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


def refused(caplog, folder):
    """Nothing is read and nothing written; the reason is told once, and nothing in the folder changes."""
    before = state(folder)
    as_new()
    caplog.clear()
    for _ in range(2):
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, ENTRY)
    assert not store.write("max", KEY, ENTRY)
    assert state(folder) == before
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("seqformats", logging.WARNING)
    told = record.getMessage()
    assert told.startswith(TOLD)
    assert "SEQFORMATS_CACHE_DIR" in told
    assert "SEQFORMATS_CACHE=0" in told
    return told


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
    (record,) = caplog.records
    assert "no home" in record.getMessage()
    assert "no home" in store.why_not()


# --- damaged files ---------------------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


def empty(path):
    path.write_bytes(b"")


def garbage(path):
    path.write_bytes(b"\x80\x05not machine code" * 20)


def flipped(path):
    """Every byte inverted, the length kept."""
    path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))


def huge(path):
    """Its head says that it is as long as can be."""
    data = bytearray(path.read_bytes())
    data[12:24] = b"\xff" * 12
    path.write_bytes(data)


def long(path):
    """More than any kernel has, of which nothing is read."""
    with path.open("r+b") as file:
        file.truncate(1 << 40)


def another_version(path):
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)


def of_another_kernel(path):
    store.write("max", KEY, ENTRY)
    (other,) = path.parent.glob("max-*")
    other.replace(path)


def of_another_key(path):
    store.write("sum", OTHER, ENTRY)
    (other,) = path.parent.glob(f"*{OTHER[:32]}*")
    other.replace(path)


DAMAGES = [cut, longer, empty, garbage, flipped, huge, long, another_version, of_another_kernel, of_another_key]


@pytest.mark.parametrize("damage", [*DAMAGES, pathlib.Path.unlink])
def test_a_damaged_file_is_written_anew(cache, kernel, caplog, damage):
    damage(kernel)
    assert store.read("sum", KEY) is None
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY
    assert list(cache.iterdir()) == [kernel]
    assert caplog.records == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_place_of_a_file(cache, kernel):
    """Nobody writes to it, and it is not waited for."""
    kernel.unlink()
    os.mkfifo(kernel)
    assert store.read("sum", KEY) is None
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY


def test_a_folder_in_place_of_a_file(cache, kernel, caplog):
    kernel.unlink()
    kernel.mkdir()
    assert store.read("sum", KEY) is None
    assert [store.write("sum", KEY, ENTRY) for _ in range(2)] == [False, False]
    (record,) = caplog.records
    assert record.getMessage().startswith(TOLD)
    assert list(cache.iterdir()) == [kernel]


def test_a_file_of_another_version(monkeypatch):
    """It may be whole, and mean something else."""
    monkeypatch.setattr(store, "_VERSION", 2)
    data = store._packed("sum", KEY, ENTRY)
    assert store._unpacked("sum", KEY, data) == ENTRY
    monkeypatch.setattr(store, "_VERSION", 1)
    assert store._unpacked("sum", KEY, data) is None


def test_sizes_that_are_not_those_of_the_file():
    for facts, code in [(0, 4), (2, 5), (2, 3), (2**32 - 1, 2**64 - 1)]:
        sizes = store._IS, store._VERSION, facts, code
        digest = store._digest("sum", KEY, store._HEAD.pack(*sizes, b""), b"{}code")
        assert store._unpacked("sum", KEY, store._HEAD.pack(*sizes, digest) + b"{}code") is None


SMALL = Entry(b"some code", {"entry": "f"})
PACKED = store._packed("sum", KEY, SMALL)


@given(st.data())
def test_a_change_of_any_bit_is_seen(data):
    where = data.draw(st.integers(0, len(PACKED) * 8 - 1))
    changed = bytearray(PACKED)
    changed[where // 8] ^= 1 << where % 8
    assert store._unpacked("sum", KEY, bytes(changed)) is None


def test_every_bit_and_every_length():
    for where in range(len(PACKED) * 8):
        changed = bytearray(PACKED)
        changed[where // 8] ^= 1 << where % 8
        assert store._unpacked("sum", KEY, bytes(changed)) is None
    for length in range(len(PACKED)):
        assert store._unpacked("sum", KEY, PACKED[:length]) is None
        assert store._unpacked("sum", KEY, PACKED[length + 1 :]) is None
    assert store._unpacked("sum", KEY, PACKED) == SMALL


@given(
    st.binary(max_size=200)
    | st.builds(
        lambda sizes, rest: store._HEAD.pack(store._IS, store._VERSION, *sizes, bytes(32)) + rest,
        st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)),
        st.binary(max_size=50),
    )
)
def test_what_anybody_may_have_written_is_no_entry(data):
    assert store._unpacked("sum", KEY, data) is None


FACTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=4,
)


@given(st.binary(max_size=100), FACTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
def test_what_goes_in_comes_out(code, facts, name):
    entry = Entry(code, facts)
    assert store._unpacked(name, KEY, store._packed(name, KEY, entry)) == entry


# --- whose files are read --------------------------------------------------------------------------------------------


@owned
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_may_write(cache, caplog, mode):
    cache.chmod(mode)
    assert f"others may write {cache}" in refused(caplog, cache)
    assert f"others may write {cache}" in store.why_not()


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
    above.chmod(0o777)
    cache.rename(above / "cache")
    assert store.read("sum", KEY) is None
    (record,) = caplog.records
    assert f"others may write {above}" in record.getMessage()


@owned
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_may_write(cache, kernel, caplog, mode):
    kernel.chmod(mode)
    before = kernel.read_bytes()
    for _ in range(2):
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, SMALL)
    assert kernel.read_bytes() == before
    (record,) = caplog.records
    assert f"others may write {kernel}" in record.getMessage()


@as_root
@pytest.mark.parametrize("above", [0, 1])
def test_a_folder_that_belongs_to_another_user(cache, caplog, above):
    path = (cache, cache.parent)[above]
    os.chown(path, SOMEBODY, SOMEBODY)
    told = refused(caplog, cache)
    os.chown(path, 0, 0)
    assert f"{path} belongs to another user" in told


@as_root
def test_a_file_that_belongs_to_another_user(cache, kernel, caplog):
    os.chown(kernel, SOMEBODY, SOMEBODY)
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert kernel.stat().st_uid == SOMEBODY
    (record,) = caplog.records
    assert f"{kernel} belongs to another user" in record.getMessage()


@owned
def test_a_link_in_place_of_a_file(cache, kernel, caplog):
    elsewhere = kernel.rename(cache.parent / "elsewhere")
    kernel.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, SMALL)
    assert kernel.is_symlink()
    assert elsewhere.read_bytes() == before
    (record,) = caplog.records
    assert f"{kernel} is a link" in record.getMessage()


@owned
@pytest.mark.parametrize("link", ["link/cache", "link/../link/cache", "twice"])
def test_a_link_on_the_way_to_the_folder(cache, monkeypatch, link):
    """One of this user's is followed."""
    (cache.parent / "link").mkdir()
    (cache.parent / "link" / "cache").symlink_to(cache)
    (cache.parent / "twice").symlink_to("link/../link/cache")
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


@owned
def test_a_link_that_leads_elsewhere_than_it_reads(cache, monkeypatch, caplog):
    """By way of another link, and up from there; such a one is not followed."""
    (cache.parent / "other" / "inner").mkdir(parents=True)
    place = cache.rename(cache.parent / "other" / "cache")
    (cache.parent / "through").symlink_to("other/inner")
    (cache.parent / "link").symlink_to("through/../cache")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(cache.parent / "link"))
    assert "is a link that goes astray" in refused(caplog, place)


@as_root
def test_a_link_of_another_user(cache, monkeypatch, caplog):
    """It leads to a folder of ours, but may lead elsewhere tomorrow."""
    link = cache.parent / "link"
    link.symlink_to(cache)
    os.chown(link, SOMEBODY, SOMEBODY, follow_symlinks=False)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(link))
    assert f"{link} belongs to another user" in refused(caplog, cache)


@owned
@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_above_that_others_may_write(cache, monkeypatch, caplog, linked):
    """They could put another in the place of ours, or of a folder that a link leads to."""
    above = cache.parent / "above"
    above.mkdir()
    place = cache.rename(above / "cache")
    if linked:
        cache.symlink_to(place)
    above.chmod(0o777)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(cache if linked else place))
    assert f"others may write {above}" in refused(caplog, place)


@owned
def test_a_folder_above_where_entries_belong_to_their_owners(cache):
    """As in the folder for temporary files."""
    cache.parent.chmod(0o1777)
    assert store.read("sum", KEY) == ENTRY


@as_root
def test_a_group_that_may_write_a_folder_above(cache, caplog):
    """The group of this user alone is no other; every other group is."""
    cache.parent.chmod(0o775)
    assert store.read("sum", KEY) == ENTRY
    os.chown(cache.parent, 0, SOMEBODY)
    assert f"others may write {cache.parent}" in refused(caplog, cache)
    os.chown(cache.parent, 0, 0)


@as_root
def test_a_group_with_another_member(cache, caplog, monkeypatch):
    import grp

    cache.parent.chmod(0o775)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("root", "x", 0, ["root", "another"])))
    assert f"others may write {cache.parent}" in refused(caplog, cache)


@as_root
def test_a_user_without_a_name(cache, caplog, monkeypatch):
    import pwd

    cache.parent.chmod(0o775)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert f"others may write {cache.parent}" in refused(caplog, cache)


@as_root
def test_a_container_that_does_not_know_root(cache, kernel, caplog, monkeypatch):
    """The folders above are nobody's there, as far as it knows; the cache itself must be this user's all the same."""
    above = cache.parent
    os.chown(above, SOMEBODY, SOMEBODY)
    assert f"{above} belongs to another user" in refused(caplog, cache)
    monkeypatch.setattr(store, "_unmapped", lambda: frozenset((SOMEBODY,)))
    as_new()
    assert store.read("sum", KEY) == ENTRY
    assert store.write("max", KEY, ENTRY)
    for path in (cache, kernel):
        os.chown(path, SOMEBODY, SOMEBODY)
        as_new()
        caplog.clear()
        assert store.read("sum", KEY) is None
        assert not store.write("sum", KEY, ENTRY)
        (record,) = caplog.records
        assert f"{path} belongs to another user" in record.getMessage()
        os.chown(path, 0, 0)
    os.chown(above, 0, 0)


@as_root
def test_a_container_where_anybody_may_put_folders(cache, caplog, monkeypatch):
    """There a folder of nobody's may be anybody's."""
    monkeypatch.setattr(store, "_unmapped", lambda: frozenset((SOMEBODY,)))
    above, place = cache.parent, cache.parent / "middle" / "cache"
    place.parent.mkdir()
    cache.rename(place)
    os.chown(place.parent, SOMEBODY, SOMEBODY)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(place))
    assert store.read("sum", KEY) == ENTRY
    above.chmod(0o1777)
    assert f"{place.parent} belongs to another user" in refused(caplog, place)


def test_a_system_where_every_user_is_known():
    known = pathlib.Path("/proc/self/uid_map")
    whole = not known.exists() or known.read_text().split() == ["0", "0", "4294967295"]
    assert bool(store._unmapped()) != whole


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
    above.chmod(0o777)
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(above / "cache"))
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert list(above.iterdir()) == []
    (record,) = caplog.records
    assert f"others may write {above}" in record.getMessage()
    assert f"others may write {above}" in store.why_not()


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


@pytest.mark.parametrize("below", ["", "below", "below/deeper"])
def test_a_file_in_place_of_a_folder(tmp_path, monkeypatch, caplog, below):
    taken = tmp_path / "taken"
    taken.write_text("here")
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(taken / below))
    assert store.read("sum", KEY) is None
    assert not store.write("sum", KEY, ENTRY)
    assert str(taken) in store.why_not()
    assert below or f"{taken} is no folder" in store.why_not()
    assert taken.read_text() == "here"
    (record,) = caplog.records
    assert record.getMessage().startswith(TOLD)


def unprivileged(code, *folders, **environment):
    """Run it as another user, to whom the folders belong; root could write everywhere."""
    loaded = "import grp, logging, os, pwd, seqformats.native.store"  # whom Python belongs to is nothing of this test
    code = f"{loaded}\nos.setgid({SOMEBODY}); os.setuid({SOMEBODY})\n{code}"
    for folder in folders:
        os.chown(folder, SOMEBODY, SOMEBODY)
    return python(code, **environment)


WRITE_AND_READ = """
from seqformats.native import store
entry = store.Entry(b"code", {})
print([store.write("max", "0" * 64, entry) for _ in range(2)], store.read("max", "0" * 64) == entry, store.why_not())
"""


@pytest.fixture
def public():
    """A folder to which every user comes, and where each may put things of its own."""
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name).chmod(0o755)
        yield pathlib.Path(name)


@unmeasured
@as_root
@pytest.mark.parametrize("filled", [True, False])
def test_a_read_only_folder(public, filled):
    """What is in it is read; what is not is compiled, which is said."""
    home = public / "home"
    home.mkdir()
    if filled:
        done = unprivileged(WRITE_AND_READ, home, HOME=str(home))
        assert (done.stdout, done.stderr) == ("[True, True] True \n", "")
    for path in [home, *home.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    done = unprivileged(WRITE_AND_READ, home, HOME=str(home))
    where = home / ".cache" / "seqformats" if filled else home
    assert done.stdout == f"[{filled}, {filled}] {filled} {where} is no folder that this user may write\n"
    told = done.stderr.splitlines()
    assert len(told) == (not filled)
    assert all(line.startswith(TOLD) and "Permission denied" in line for line in told)


@unmeasured
@as_root
def test_a_user_finds_what_root_has_written(public):
    """In a folder of root's, where the user may not write."""
    folder = str(public / "cache")
    assert python(WRITE_AND_READ, SEQFORMATS_CACHE_DIR=folder).stdout == "[True, True] True \n"
    done = unprivileged(WRITE_AND_READ, SEQFORMATS_CACHE_DIR=folder)
    assert done.stdout == f"[True, True] True {folder} is no folder that this user may write\n"
    assert done.stderr == ""


@unmeasured
@as_root
def test_a_process_that_becomes_another_user_looks_again(public):
    code = f"""
import os
from seqformats.native import store
entry = store.Entry(b"code", {{}})
assert store.write("max", "0" * 64, entry)
os.chown(store.user_folder(), {SOMEBODY}, {SOMEBODY})
os.setuid({SOMEBODY})
print(store.read("max", "0" * 64) == entry)
"""
    (public / "mine").mkdir()
    done = python(code, SEQFORMATS_CACHE_DIR=str(public / "mine" / "cache"))
    assert (done.stdout, done.stderr) == ("True\n", "")


@unmeasured
@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files here")
def test_a_full_disk(cache, kernel):
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
from seqformats.native import store
big, small = store.Entry(bytes(30000), {}), store.Entry(b"code", {})
print([store.write("max", "0" * 64, big) for _ in range(2)], store.read("max", "0" * 64))
print(store.write("max", "0" * 64, small), store.read("max", "0" * 64) == small)
"""
    done = python(code, SEQFORMATS_CACHE_DIR=str(cache))
    assert done.stdout == "[False, False] None\nTrue True\n"
    (told,) = done.stderr.splitlines()
    assert told.startswith(TOLD)
    assert len(list(cache.iterdir())) == 2


def test_a_disk_that_is_full_from_some_moment_on(cache, kernel, monkeypatch, caplog):
    """What was there stays."""

    def full(path, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "replace", full)
    assert not store.write("sum", KEY, SMALL)
    assert not store.write("max", KEY, SMALL)
    assert store.write("sum", KEY, ENTRY)  # it is there
    monkeypatch.undo()
    assert list(cache.iterdir()) == [kernel]
    (record,) = caplog.records
    assert "No space left" in record.getMessage()


def test_a_folder_that_another_process_makes_meanwhile(cache, monkeypatch):
    """It was not there a moment ago."""
    monkeypatch.setenv("SEQFORMATS_CACHE_DIR", str(cache / "new" / "folder"))
    monkeypatch.setattr(pathlib.Path, "exists", lambda path: False)
    assert store.write("sum", KEY, ENTRY)


def test_a_folder_that_vanishes(cache, caplog):
    assert store.read("sum", KEY) == ENTRY
    shutil.rmtree(cache)
    assert store.read("sum", KEY) is None
    assert store.write("sum", KEY, ENTRY)
    assert store.read("sum", KEY) == ENTRY
    assert caplog.records == []


def test_a_folder_that_vanishes_while_a_file_is_written(cache, monkeypatch):
    made = store._made

    def vanishing(folder):
        reason = made(folder)
        shutil.rmtree(folder)
        return reason

    monkeypatch.setattr(store, "_made", vanishing)
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
    other = [
        BEGUN[:-1] + "g",
        BEGUN[:-1],
        "a.code.tmp.txt",
        "a.txt.tmp.0123456789abcdef",
        "tmp",
        "a.nbi",
        "a.1.nbc",
        "a.nbi.tmp.0123456789abcdef",
    ]
    for name in names + other:
        (cache / name).write_bytes(b"x")
        aged(cache / name)
    (cache / BEGUN.replace("sum", "min")).write_bytes(b"x")  # somebody may be writing it
    (cache / BEGUN.replace("sum", "abs")).mkdir()
    aged(cache / BEGUN.replace("sum", "abs"))
    assert store.write("mean", KEY, ENTRY)
    left = {path.name for path in cache.iterdir()}
    assert not left & set(names)
    assert left >= {*other, BEGUN.replace("sum", "min"), BEGUN.replace("sum", "abs")}


@as_root
def test_what_processes_of_others_have_left(cache):
    (cache / BEGUN).write_bytes(b"x")
    os.chown(aged(cache / BEGUN), SOMEBODY, SOMEBODY)
    assert store.write("mean", KEY, ENTRY)
    assert (cache / BEGUN).exists()


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
    assert others <= set(cache.iterdir())
    assert all(path.exists() for path in foreign)


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


def test_processes_that_write_and_read_the_same(tmp_path):
    """What is read is whole, whoever writes; one of them damages the file in between."""
    code = """
import random, sys
from seqformats.native import store
number = int(sys.argv[1])
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
"""
    env = {key: value for key, value in os.environ.items() if key not in CHOICES}
    env["SEQFORMATS_CACHE_DIR"] = str(tmp_path / "new" / "cache")
    all_of_them = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], env=env, stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    for process in all_of_them:
        _, err = process.communicate(timeout=600)
        assert (process.returncode, err) == (0, "")
    assert len(list((tmp_path / "new" / "cache").iterdir())) == 1


def test_threads_that_write_and_read_the_same(cache):
    import concurrent.futures

    def turn(number):
        assert store.write("sum", KEY, ENTRY)
        return store.read("sum", KEY) == ENTRY

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(turn, range(100)))
    assert len(list(cache.iterdir())) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_processes(tmp_path):
    """They share what was looked at, not the names of what they begin."""
    code = """
import os
from seqformats.native import store
entry = store.Entry(bytes(30000), {"a": 1})
assert store.write("sum", "0" * 64, entry)
children = []
for number in range(4):
    child = os.fork()
    if not child:
        good = all(
            store.read("sum", "0" * 64) == entry and store.write("sum", "0" * 64, entry)
            and store.write(f"of{number}", "0" * 64, entry) for _ in range(50)
        )
        os._exit(not good)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
assert all(store.read(f"of{number}", "0" * 64) == entry for number in range(4))
"""
    done = python(code, SEQFORMATS_CACHE_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(tmp_path.iterdir())) == 5


# --- what comes with the package -------------------------------------------------------------------------------------

LEVEL = "x86-64-v3"
ENTRIES = {"sum": ENTRY, "max": SMALL, "none": Entry(b"", {})}


@pytest.fixture
def bundle(tmp_path):
    folder = tmp_path / "shipped"
    Shipped.write(folder, LEVEL, ENTRIES, stamp="5eed", llvm="20.1")
    return folder


def test_what_is_shipped(bundle, caplog):
    found = Shipped.open(bundle, LEVEL)
    assert (found.stamp, found.llvm) == ("5eed", "20.1")
    assert {name: found.read(name) for name in ENTRIES} == ENTRIES
    assert found.read("min") is None
    assert Shipped.open(bundle, "x86-64-v4") is None
    assert Shipped.open(bundle / "nowhere", LEVEL) is None
    assert caplog.records == []


def test_the_same_kernels_make_the_same_files(bundle, tmp_path):
    """In whatever order they come, and their facts."""
    turned = {name: Entry(code, dict(reversed(facts.items()))) for name, (code, facts) in reversed(ENTRIES.items())}
    Shipped.write(tmp_path / "again", LEVEL, turned, stamp="5eed", llvm="20.1")
    Shipped.write(tmp_path / "again", LEVEL, turned, stamp="5eed", llvm="20.1")
    names = [f"{LEVEL}.bin", f"{LEVEL}.table"]
    for folder in (bundle, tmp_path / "again"):
        assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:
        assert (bundle / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def lines_of(bundle):
    """The table, line by line, without the digest of all."""
    return [line.split("\t") for line in (bundle / f"{LEVEL}.table").read_text().splitlines()[1:]]


def put_lines(bundle, lines):
    """Another table, whose digest is right."""
    table = "".join("\t".join(map(str, line)) + "\n" for line in lines).encode()
    (bundle / f"{LEVEL}.table").write_bytes(store.digest(LEVEL.encode(), table).hex().encode() + b"\n" + table)


def test_the_table_can_be_read_by_others(bundle):
    code = (bundle / f"{LEVEL}.bin").read_bytes()
    head, *lines = lines_of(bundle)
    assert head == ["5eed", "20.1"]
    assert [line[0] for line in lines] == sorted(ENTRIES)
    for name, offset, size, _, facts in lines:
        assert Entry(code[int(offset) : int(offset) + int(size)], ast.literal_eval(facts)) == ENTRIES[name]


def test_a_bundle_that_is_interrupted(bundle, monkeypatch):
    """The old one is there as it was."""

    def interrupted(*args):
        raise KeyboardInterrupt

    before = {path: path.read_bytes() for path in bundle.iterdir()}
    monkeypatch.setattr(pathlib.Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Shipped.write(bundle, LEVEL, {"sum": SMALL}, stamp="5eed", llvm="20.1")
    assert {path: path.read_bytes() for path in bundle.iterdir()} == before


def damaged(caplog, bundle):
    """Is what can be read right, and is it said once that something cannot be read?"""
    found = Shipped.open(bundle, LEVEL)
    for _ in range(2):
        read = {name: found.read(name) for name in ENTRIES} if found else {}
        assert all(entry in (None, ENTRIES[name]) for name, entry in read.items())
    (record,) = caplog.records
    assert "install seqformats anew" in record.getMessage()
    assert LEVEL in record.getMessage()
    return [name for name, entry in read.items() if entry]


def test_damaged_code(bundle, caplog):
    """Another kernel is read all the same."""
    path = bundle / f"{LEVEL}.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert damaged(caplog, bundle) == ["max", "none"]


@pytest.mark.parametrize("damage", [cut, garbage, flipped, empty, pathlib.Path.unlink])
def test_a_damaged_bundle(bundle, caplog, damage):
    damage(bundle / f"{LEVEL}.bin")
    damaged(caplog, bundle)


@pytest.mark.parametrize("damage", [cut, garbage, flipped, empty])
def test_a_damaged_table(bundle, caplog, damage):
    damage(bundle / f"{LEVEL}.table")
    assert damaged(caplog, bundle) == []


@pytest.mark.parametrize("head", [[], [""], ["5eed"], ["5eed", "20.1", "more"]])
def test_a_wrong_table(bundle, caplog, head):
    put_lines(bundle, [head, *lines_of(bundle)[1:]])
    assert damaged(caplog, bundle) == []


DIGEST = store._digest("sum", "", store._text(ENTRY.facts), ENTRY.code).hex()


@pytest.mark.parametrize(
    "place",
    [
        [1],
        [0, 1, DIGEST],
        [-1, 1, DIGEST, {}],
        [0, -1, DIGEST, {}],
        [0, 1 << 70, DIGEST, {}],
        [1 << 70, 1, DIGEST, {}],
        [0, 1 << 40, DIGEST, {}],
        [0.5, 1, DIGEST, {}],
        [0, 1, None, {}],
        [0, 1, DIGEST, "{"],
        [0, 1, DIGEST, "f()"],
        [0, 1, DIGEST, "1"],
        [0, 1, DIGEST, "[" * 5000],
        [0, len(ENTRY.code), DIGEST, {}],
    ],
)
def test_a_wrong_line_in_the_table(bundle, caplog, place):
    put_lines(bundle, [["sum", *place] if line[0] == "sum" else line for line in lines_of(bundle)])
    assert damaged(caplog, bundle) == ["max", "none"]


@given(st.data())
def test_a_table_with_any_bit_changed(tmp_path_factory, data):
    """Nothing wrong is read, and nothing is raised."""
    folder = tmp_path_factory.mktemp("shipped")
    Shipped.write(folder, LEVEL, ENTRIES, stamp="5eed", llvm="20.1")
    path = folder / f"{LEVEL}.table"
    text = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(text) * 8 - 1))
    text[where // 8] ^= 1 << where % 8
    path.write_bytes(text)
    found = Shipped.open(folder, LEVEL)
    if found:
        assert all(found.read(name) in (None, entry) for name, entry in ENTRIES.items())


def test_a_package_that_is_replaced_meanwhile(bundle, caplog):
    """The code is another one than the table says."""
    found = Shipped.open(bundle, LEVEL)
    Shipped.write(bundle, LEVEL, {"max": ENTRY, "sum": SMALL}, stamp="1", llvm="21")
    assert found.read("sum") is None
    assert Shipped.open(bundle, LEVEL).read("sum") == SMALL
    assert len(caplog.records) == 1


def test_files_of_another_level(tmp_path):
    """Its code may have instructions that this processor lacks."""
    Shipped.write(tmp_path, "x86-64-v4", {"sum": ENTRY}, stamp="5eed", llvm="20")
    for kind in ("table", "bin"):
        (tmp_path / f"x86-64-v4.{kind}").rename(tmp_path / f"x86-64-v3.{kind}")
    assert Shipped.open(tmp_path, "x86-64-v3") is None
