"""The user's cache of machine code: a folder of one's own, in which a file holds the code of one kernel.

Machine code does what its author wants.  So the folder and its files are used only where they belong to this user or
root and neither a group nor others may write them; a folder that is made here is for this user alone.  Windows tells
nothing of this kind; there every folder is used.

A file begins with a shared object, if there is one, so that the system loads the file as it is; the object file that
was linked and some facts about it follow, and a digest of all.  A file that is damaged or not there means compiling,
and is never a reason for an error.

Every new process comes by here.  So little is imported, and nothing of Numba.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from .digest import digest


class Entry(NamedTuple):
    """A kernel as it is kept."""

    code: bytes
    """An object file."""
    facts: dict[str, Any]
    """Facts to be known of the kernel, in literals of Python."""
    linked: bytes = b""
    """A shared object of the same code; nothing where there was no linker."""


_END = Struct("<QQQ32s8s")  # the bytes of each part, a digest of all before it, what it is
_IS = b"seqcode3"
_LARGEST = 1 << 26  # bytes; a kernel has some ten thousand
_KEPT = 8  # files of one kernel, for other processors, flags and versions
_DIGITS, _ENDING, _UNFINISHED = 32, ".so", ".tmp"  # of the key in the name of a file; what names end with
_OWNED = hasattr(os, "geteuid")  # do files have owners here, and modes?
_OLD = 3600  # seconds after which nobody is writing an unfinished file any more
_CACHES = {"darwin": ("Library", "Caches"), "win32": ("AppData", "Local")}
_UNCACHED = (
    "kernels are not cached but compiled in each process: %s; give SEQFORMATS_CACHE_DIR a folder that you may write "
    "and nobody else, or set SEQFORMATS_CACHE=0"
)
_said: set[str] = set()


def warn(text: str, reason: object) -> None:
    """Say it, once in a process."""
    if text not in _said:
        _said.add(text)
        import logging

        logging.getLogger("seqformats").warning(text, reason)


# --- the folder ------------------------------------------------------------------------------------------------------


def _is_off() -> bool:
    return os.environ.get("SEQFORMATS_CACHE", "1") == "0"


def user_folder() -> Path | None:
    """Return the folder of this user's compiled kernels; None if there is none.

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


def _explain_writable(path: Path, found: os.stat_result) -> str:
    """Why somebody else may have written a file, or the entries of a folder; "" if nobody may."""
    if not _OWNED:
        return ""
    if found.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user"
    return f"others may write {path}" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _open_above(folder: Path) -> str:
    """Why others may put another folder in the place of this one, or of a folder above; "" if nobody may."""
    for above in folder.parents if _OWNED else ():
        with contextlib.suppress(FileNotFoundError):
            mode = above.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:  # with it an entry is moved by its owner alone
                return f"others may write {above}"
    return ""


def _explain_refusal(folder: Path) -> str:
    """Why files in a folder are not used; "" if they are.  FileNotFoundError where there is none."""
    way, found = folder.lstat(), folder.stat()
    if stat.S_ISLNK(way.st_mode) and _OWNED and way.st_uid not in (0, os.geteuid()):
        return f"{folder} is a link of another user"
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is no folder"
    return _explain_writable(folder, found) or _open_above(folder.resolve()) or _open_above(folder)


def _make_folder(folder: Path) -> str:
    """Make a folder that is not there, for this user alone; why it is no place for a cache, or ""."""
    with contextlib.suppress(FileNotFoundError):
        return _explain_refusal(folder)
    if reason := _open_above(folder):
        return reason
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return _explain_refusal(folder)


def why_not() -> str:
    """Why there is no cache of compiled kernels; "" if there is one, or will be with the first that is compiled."""
    folder = user_folder()
    if folder is None:
        return "SEQFORMATS_CACHE=0" if _is_off() else "this user has no home folder"
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        reason = _explain_refusal(folder) if there == folder else _open_above(folder)
    except OSError as error:
        return str(error)
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return reason or ("" if usable else f"{there} is no folder that this user may write")


# --- its files -------------------------------------------------------------------------------------------------------


def _file(name: str, key: str) -> str:
    """The name of a file, which every system takes."""
    plain = "".join(c if (c.isascii() and c.isalnum()) or c in "_." else "_" for c in name)[:100]
    if plain != name:
        plain = f"{plain}.{digest(name.encode()).hex()[:8]}"
    return f"{plain}-{key[:_DIGITS]}{_ENDING}"


def _pack(name: str, key: str, entry: Entry) -> bytes:
    """The bytes of a file; the digest is of whose it is, too, so that one that was given another name is damaged."""
    parts = entry.linked, entry.code, repr(dict(sorted(entry.facts.items()))).encode()
    own = digest(name.encode(), b"\0", key.encode(), b"\0", *parts)
    return b"".join(parts) + _END.pack(*map(len, parts), own, _IS)


def _unpack(name: str, key: str, data: bytes) -> Entry | None:
    """Read the result of `_pack`; None for anything else."""
    if len(data) < _END.size:
        return None
    linked, code, facts, own, what = _END.unpack_from(data, len(data) - _END.size)
    if what != _IS or linked + code + facts + _END.size != len(data):
        return None
    if digest(name.encode(), b"\0", key.encode(), b"\0", data[: -_END.size]) != own:
        return None
    import ast  # which is there with NumPy; what reads JSON takes a millisecond to load

    text = data[linked + code : -_END.size].decode()
    return Entry(data[linked : linked + code], ast.literal_eval(text), data[:linked])


def read(name: str, key: str) -> Entry | None:
    """A kernel from the user's cache; None where there is none that may be used.

    `name` is the kernel, and for which types it was compiled, `key` a digest of all that the code depends on, as at
    least 32 hexadecimal digits.
    """
    path = path_of(name, key)
    if path is None:
        return None
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe is no file, and nobody writes to it
    try:
        reason, data = _explain_refusal(path.parent), b""
        if not reason:
            with open(path, "rb", buffering=0, opener=lambda path, usual: os.open(path, usual | flags)) as file:
                found = os.fstat(file.fileno())
                reason = _explain_writable(path, found)
                data = b"" if reason or found.st_size > _LARGEST else file.read(found.st_size)
    except OSError:  # not there, or out of reach
        if not path.is_symlink():
            return None
        reason = f"{path} is a link"
    if reason:
        warn(_UNCACHED, reason)
        return None
    return _unpack(name, key, data)


def path_of(name: str, key: str) -> Path | None:
    """Find the path where a kernel is, or would be; None where there is no cache."""
    folder = user_folder()
    return None if folder is None else folder / _file(name, key)


def write(name: str, key: str, entry: Entry) -> bool:
    """Keep a kernel in the user's cache for `read`; tell whether it is there now.  One warning says why not."""
    path = path_of(name, key)
    if path is None:
        if not _is_off():
            warn(_UNCACHED, why_not())
        return False
    try:
        reason = _make_folder(path.parent) or _explain_unreadable(path)
        if not reason:
            put(path, _pack(name, key, entry))
    except OSError as error:  # on Windows also while another process reads the file that it has written meanwhile
        if read(name, key) == entry:
            return True
        reason = str(error)
    if reason:
        warn(_UNCACHED, reason)
        return False
    _tidy(path)
    return True


def _explain_unreadable(path: Path) -> str:
    """Why a file is not written anew: what may not be read is not written either."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    return f"{path} is a link" if stat.S_ISLNK(found.st_mode) else _explain_writable(path, found)


def put(path: Path, data: bytes) -> None:
    """Write a file, which is there when it is complete; its mode is not left to the process."""
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}{_UNFINISHED}")
    try:
        with open(unfinished, "xb", opener=lambda path, flags: os.open(path, flags, 0o644)) as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def _tidy(path: Path) -> None:
    """Remove what killed processes have left half written, and the oldest of many files of one kernel."""
    kernel = path.name[: -len(_ENDING) - _DIGITS]
    with contextlib.suppress(OSError):
        same = [other for other in path.parent.glob(f"{kernel}{'?' * _DIGITS}{_ENDING}") if other != path]
        same.sort(key=lambda other: other.lstat().st_mtime, reverse=True)
        begun, unfinished = time.time() - _OLD, path.parent.glob(f"*{_ENDING}.*{_UNFINISHED}")
        for other in [*same[_KEPT - 1 :], *[other for other in unfinished if other.lstat().st_mtime < begun]]:
            other.unlink()
