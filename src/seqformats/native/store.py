"""Where machine code is kept: in the user's cache, what was compiled there, and in the package, what came with it.

A file of the cache is never a reason for an error: one that is damaged, or not there, means compiling.

Machine code does what its author wants.  So files are read, and written, only in a folder that belongs to this user
or root and that neither a group nor others may write, and only if the same holds for the files.  The folders on the
way there must be such that nobody else can put another one in their place: they may be written by others only with a
sticky bit, as folders for temporary files have it, where an entry is moved by its owner alone.  So what has been
looked at cannot be something else when it is opened.  Windows tells nothing of this kind; there every folder is used.

Every new process comes by here.  So little is imported, and nothing of Numba.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import time
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from .digest import digest


class Entry(NamedTuple):
    """A kernel as it is kept.

    Attributes
    ----------
    code : bytes
        An object file.
    facts : dict
        What has to be known to use it, in literals of Python: strings, numbers, lists, dicts.
    """

    code: bytes
    facts: dict[str, Any]


_HEAD = Struct("<8sIIQ32s")  # what it is, version, bytes of facts, bytes of code, digest of all the rest
_IS, _VERSION = b"seqcode\n", 2
_LARGEST = 1 << 26  # bytes; a kernel has some ten thousand
_KEPT = 8  # files of one kernel, for other processors, flags and versions
_DIGITS, _ENDING = 32, ".code"  # of the key, in the name of a file; what it ends with
_OWNED = hasattr(os, "geteuid")  # do files have owners here, and modes?
_LINKS = 40  # on the way to a folder, as many as systems follow
_OLD = 3600  # seconds after which nobody is writing a file any more that has no name yet

_ways: set[tuple[Path, int, int, int]] = set()
"""The folders to which nobody else can lead us astray: the path, this user, what was there."""
_said: set[str] = set()


def _warn(format: str, reason: object) -> None:
    """Say it, once in a process."""
    if format not in _said:
        _said.add(format)
        import logging

        logging.getLogger("seqformats").warning(format, reason)


_UNCACHED = (
    "kernels are not cached but compiled in each process: %s; give SEQFORMATS_CACHE_DIR a folder that you may write "
    "and nobody else, or set SEQFORMATS_CACHE=0"
)
_DAMAGED = "kernels that came with seqformats are damaged and are compiled instead: %s; install seqformats anew"


# --- who may have written it -----------------------------------------------------------------------------------------


def _foreign(path: Path, found: os.stat_result) -> str:
    return "" if found.st_uid in (0, os.geteuid()) else f"{path} belongs to another user"


def _open_to_others(path: Path, found: os.stat_result) -> str:
    return f"others may write {path}" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _touched(path: Path, found: os.stat_result) -> str:
    """Why somebody else may have written a file, or the entries of a folder; "" if nobody may."""
    return (_foreign(path, found) or _open_to_others(path, found)) if _OWNED else ""


def _lends(folder: Path, found: os.stat_result) -> str:
    """Why somebody else may put things in the place of others in a folder; "" if nobody may."""
    guarded = found.st_mode & stat.S_ISVTX or (not found.st_mode & stat.S_IWOTH and _alone(found))
    foreign = _foreign(folder, found)
    if foreign and found.st_uid in _unmapped():
        foreign = ""
    return foreign or ("" if guarded else _open_to_others(folder, found))


@functools.cache
def _unmapped() -> frozenset[int]:
    """Whose number stands for root's in a container that knows no number of root's, as that for this user alone."""
    try:
        users = Path("/proc/self/uid_map").read_text().split()
        nobody = int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):  # another system
        return frozenset()
    return frozenset() if users == ["0", "0", "4294967295"] else frozenset((nobody,))


def _alone(found: os.stat_result) -> bool:
    """Is what the group may write for a group of this user alone, which has the user's name and no other member?"""
    if not found.st_mode & stat.S_IWGRP:
        return True
    import grp
    import pwd

    try:
        name, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _replaceable(path: Path, links: int = _LINKS) -> str:
    """Why somebody else could put another thing where `path` leads to; "" if nobody can.  It may not be there yet."""
    for folder, entry in pairwise([*reversed(path.parents), path]):
        above = folder.stat()
        reason = _lends(folder, above)
        if reason:
            return reason
        try:
            found = entry.lstat()
        except FileNotFoundError:
            return ""
        reason = _foreign(entry, found)
        if reason and not above.st_mode & stat.S_ISVTX and found.st_uid in _unmapped():
            reason = ""
        if not reason and stat.S_ISLNK(found.st_mode):
            target = Path(os.path.normpath(folder.resolve() / entry.readlink()))
            astray = links == 0 or target.resolve() != entry.resolve()
            reason = f"{entry} is a link that goes astray" if astray else _replaceable(target, links - 1)
        if reason:
            return reason
    return ""


# --- the folder ------------------------------------------------------------------------------------------------------


def _is_off() -> bool:
    return os.environ.get("SEQFORMATS_CACHE", "1") == "0"


def user_folder() -> Path | None:
    """Where compiled kernels of this user are kept; None if nowhere.

    ``SEQFORMATS_CACHE_DIR``, or "seqformats" in ``NUMBA_CACHE_DIR``, or where the system has caches of the user.  The
    folder may not be there yet, and may not be one that is used (`why_not`).
    """
    if _is_off():
        return None
    chosen, beside_numba = os.environ.get("SEQFORMATS_CACHE_DIR"), os.environ.get("NUMBA_CACHE_DIR")
    if not chosen and beside_numba:
        chosen = f"{beside_numba}{os.sep}seqformats"
    place = Path(chosen) if chosen else _usual_folder()
    return place and Path(os.path.normpath(place.absolute()))


def _usual_folder() -> Path | None:
    """None for a user who has no home."""
    windows = sys.platform == "win32"
    named = os.environ.get("LOCALAPPDATA" if windows else "XDG_CACHE_HOME", "")
    place = Path(named) if named else None
    if place is None or not place.is_absolute() or sys.platform == "darwin":
        try:
            home = Path.home()
        except RuntimeError:
            return None
        place = home.joinpath(*_CACHES.get(sys.platform, (".cache",)))
    return place / "seqformats" / "Cache" if windows else place / "seqformats"


_CACHES = {"darwin": ("Library", "Caches"), "win32": ("AppData", "Local")}


def _refused(folder: Path) -> str:
    """Why files in a folder are not used; "" if they are.  FileNotFoundError where there is none."""
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is no folder"
    if _OWNED and (folder, os.geteuid(), found.st_dev, found.st_ino) not in _ways:
        reason = _replaceable(folder)
        if reason:
            return reason
        found = folder.stat()
        _ways.add((folder, os.geteuid(), found.st_dev, found.st_ino))
    return _touched(folder, found)


def _made(folder: Path) -> str:
    """Make a folder that is not there, writable for nobody else; why it is no place for a cache, or ""."""
    try:
        return _refused(folder)
    except FileNotFoundError:
        reason = _replaceable(folder) if _OWNED else ""
    if reason:
        return reason
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            path.mkdir(0o755, exist_ok=True)
    return _refused(folder)


def _no_folder() -> str:
    return "SEQFORMATS_CACHE=0" if _is_off() else "this user has no home folder"


def why_not() -> str:
    """Why there is no cache of compiled kernels; "" if there is one, or will be with the first that is compiled."""
    folder = user_folder()
    if folder is None:
        return _no_folder()
    try:
        try:
            reason = _refused(folder)
        except FileNotFoundError:
            reason = _replaceable(folder) if _OWNED else ""
        there = next(path for path in (folder, *folder.parents) if path.exists())
    except OSError as error:
        return str(error)
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return reason or ("" if usable else f"{there} is no folder that this user may write")


def _tidy(folder: Path, name: str) -> None:
    """Remove what killed processes have left half written, and the oldest of many files of one kernel."""
    kernel, same = name[: -len(_ENDING) - _DIGITS], []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            begun, _, digits = entry.name.rpartition(".tmp.")
            unfinished = begun.endswith(_ENDING) and len(digits) == 16 and not digits.strip("0123456789abcdef")
            of_kernel = entry.name.startswith(kernel) and len(entry.name) == len(name) and entry.name != name
            if not unfinished and not (of_kernel and entry.name.endswith(_ENDING)):
                continue
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                if _OWNED and found.st_uid != os.geteuid():
                    continue
                if of_kernel:
                    same.append((found.st_mtime, entry.path))
                elif found.st_mtime < time.time() - _OLD:
                    os.unlink(entry.path)  # noqa: PTH108
    for _, path in sorted(same, reverse=True)[_KEPT - 1 :]:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


# --- the files of the user -------------------------------------------------------------------------------------------


def _file(name: str, key: str) -> str:
    """The name of a file, which every system takes."""
    plain = "".join(c if (c.isascii() and c.isalnum()) or c in "_." else "_" for c in name)[:100]
    if plain != name:
        plain = f"{plain}.{digest(name.encode()).hex()[:8]}"
    return f"{plain}-{key[:_DIGITS]}{_ENDING}"


def _text(facts: dict[str, Any]) -> bytes:
    """The same for the same facts."""
    return repr(dict(sorted(facts.items()))).encode()


def _facts(text: str) -> Any:
    """What `_text` was made of."""
    import ast  # which is there with NumPy; what reads JSON takes a millisecond to load

    return ast.literal_eval(text)


def _digest(name: str, key: str, *parts: bytes) -> bytes:
    """Of an entry, and of whose it is: one that was given another name is damaged."""
    return digest(b"\0".join((name.encode(), key.encode(), *parts)))


def _packed(name: str, key: str, entry: Entry) -> bytes:
    facts = _text(entry.facts)
    sizes = _IS, _VERSION, len(facts), len(entry.code)
    rest = facts + entry.code
    return _HEAD.pack(*sizes, _digest(name, key, _HEAD.pack(*sizes, b""), rest)) + rest


def _unpacked(name: str, key: str, data: bytes) -> Entry | None:
    """What `_packed` has made; None for anything else."""
    if len(data) < _HEAD.size:
        return None
    *sizes, digest = _HEAD.unpack_from(data)
    rest = data[_HEAD.size :]
    if sizes[:2] != [_IS, _VERSION] or sizes[2] + sizes[3] != len(rest):
        return None
    if _digest(name, key, _HEAD.pack(*sizes, b""), rest) != digest:
        return None
    return Entry(rest[sizes[2] :], _facts(rest[: sizes[2]].decode()))


def _content(path: Path) -> tuple[bytes, str]:
    """What is in a file, and why somebody else may have written it, or ""."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe is no file, and nobody writes to it
    try:
        with open(path, "rb", buffering=0, opener=lambda path, usual: os.open(path, usual | flags)) as file:
            found = os.fstat(file.fileno())
            reason = _touched(path, found)
            size = 0 if reason or found.st_size > _LARGEST else found.st_size
            return file.read(size), reason
    except OSError:
        if path.is_symlink():
            return b"", f"{path} is a link"
        raise


def _put(path: Path, data: bytes) -> None:
    """Write a file, which is there when it is complete; its mode is not left to the process."""
    unfinished = path.with_name(f"{path.name}.tmp.{os.urandom(8).hex()}")
    try:
        with open(unfinished, "xb", opener=lambda path, flags: os.open(path, flags, 0o644)) as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def read(name: str, key: str) -> Entry | None:
    """A kernel from the user's cache.

    Parameters
    ----------
    name : str
        The kernel, and for which types it was compiled.
    key : str
        A digest of everything that the code depends on, as at least 32 hexadecimal digits.

    Returns
    -------
    Entry or None
        None where there is none that may be used.
    """
    folder = user_folder()
    if folder is None:
        return None
    try:
        reason, data = _refused(folder), b""
        if not reason:
            data, reason = _content(folder / _file(name, key))
    except OSError:  # not there, or out of reach
        return None
    if reason:
        _warn(_UNCACHED, reason)
        return None
    return _unpacked(name, key, data)


def write(name: str, key: str, entry: Entry) -> bool:
    """Keep a kernel in the user's cache; a warning says, once, why that cannot be done.

    Parameters
    ----------
    name, key : str
        As `read` will be given them.
    entry : Entry
        The code.

    Returns
    -------
    bool
        Is it there now?
    """
    data, folder = _packed(name, key, entry), user_folder()
    if folder is None:
        if not _is_off():
            _warn(_UNCACHED, _no_folder())
        return False
    path = folder / _file(name, key)
    try:
        reason = _made(folder) or _taken(path)
        if not reason:
            _put(path, data)
    except OSError as error:  # on Windows also while another process reads the file that it has written meanwhile
        if read(name, key) == entry:
            return True
        reason = str(error)
    if reason:
        _warn(_UNCACHED, reason)
        return False
    _tidy(folder, path.name)
    return True


def _taken(path: Path) -> str:
    """Why a file is not written anew: what may not be read is not written either."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    return f"{path} is a link" if _OWNED and stat.S_ISLNK(found.st_mode) else _touched(path, found)


# --- what comes with the package -------------------------------------------------------------------------------------


class Shipped:
    """The kernels that came with the package, for processors of one level: a table of contents, and the code.

    Attributes
    ----------
    stamp : str
        What they were made of, as a digest.
    llvm : str
        The version of LLVM that made them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> Shipped.write(folder, "x86-64-v3", {"sum": Entry(b"code", {"entry": "f"})}, stamp="5eed", llvm="20")
    >>> Shipped.open(folder, "x86-64-v3").read("sum")
    Entry(code=b'code', facts={'entry': 'f'})
    """

    def __init__(self, code: Path, stamp: str, llvm: str, table: str) -> None:
        self.stamp, self.llvm = stamp, llvm
        self._code, self._table = code, table

    @classmethod
    def open(cls, folder: Path, level: str) -> Shipped | None:
        """The kernels in a folder for a level; None where there are none.

        The table has a line with the digest of the level and of all else; one with `stamp` and `llvm`; and one for each
        kernel: its name, where its code begins, how many bytes that has, the digest, and the facts, with tabs between.
        """
        path = folder / f"{level}.table"
        try:
            said, _, rest = path.read_bytes().partition(b"\n")
            head, _, table = rest.decode().partition("\n")
            stamp, llvm = head.split("\t")
            if digest(level.encode(), rest).hex().encode() == said:
                return cls(folder / f"{level}.bin", stamp, llvm, f"\n{table}")
            problem = "not what it was"
        except OSError:
            return None
        except ValueError as error:
            problem = str(error)
        _warn(_DAMAGED, f"{path} ({problem})")
        return None

    def read(self, name: str) -> Entry | None:
        """One of them; None if it is not among them, or damaged."""
        place = self._table.find(f"\n{name}\t") + 1
        if not place:
            return None
        try:
            _, offset, size, found, text = self._table[place : self._table.index("\n", place)].split("\t")
            with self._code.open("rb", buffering=0) as file:
                file.seek(int(offset))
                code = file.read(int(size)) if 0 <= int(size) <= _LARGEST else b""
            problem = "" if _digest(name, "", text.encode(), code).hex() == found else "not what it was"
        except (OSError, ValueError, OverflowError) as error:
            problem = str(error)
        if problem:
            _warn(_DAMAGED, f"{name} in {self._code} ({problem})")
            return None
        return Entry(code, _facts(text))

    @staticmethod
    def write(folder: Path, level: str, entries: dict[str, Entry], *, stamp: str, llvm: str) -> None:
        """Make the files of a level, the same ones of the same kernels.

        Parameters
        ----------
        folder : Path
            Where to; made if it is not there.
        level : str
            The processors, as the files are called.
        entries : dict
            The kernels by name.
        stamp, llvm : str
            What they were made of, and by what.
        """
        lines: list[tuple[str, ...]] = [(stamp, llvm)]
        codes = bytearray()
        for name, (code, facts) in sorted(entries.items()):
            text = _text(facts)
            lines.append((name, str(len(codes)), str(len(code)), _digest(name, "", text, code).hex(), text.decode()))
            codes += code
        table = "".join(["\t".join(line) + "\n" for line in lines]).encode()
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / f"{level}.bin", bytes(codes))
        _put(folder / f"{level}.table", digest(level.encode(), table).hex().encode() + b"\n" + table)
