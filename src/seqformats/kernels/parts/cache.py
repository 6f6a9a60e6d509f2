"""The disk cache of kernels: Numba's, with a wider stamp, and only where nobody else may have written.

Numba stamps a kernel with its own file alone, so the cache here adds a digest of this package, of the named tuples
that kernels take and of the flags that change the code; and it never raises into a call.

Numba's files are pickles, which run what their author wants.  So they are read, and written, only in folders that
belong to this user or root and that neither a group nor others may write, and only if the same holds for the files.
The folders on the way there must be such that nobody else can put another one in their place: they may be written by
others only with a sticky bit, as folders for temporary files have it, where an entry is moved by its owner alone.  So
what has been looked at cannot be something else when it is opened.  Windows tells nothing of this kind; there every
folder is used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

_PACKAGE = Path(__file__).parents[2]
# what kernels take from other files: functions of this package, and the names of what comes in one argument
_SOURCES = (*sorted(Path(__file__).parent.glob("*.py")), _PACKAGE / "layout.py", _PACKAGE / "beam" / "rows.py")
_STAMP = (
    *(hashlib.sha256(path.read_bytes()).hexdigest() for path in _SOURCES),
    config.BOUNDSCHECK,
    config.OPT,
)
_OWNED = hasattr(os, "geteuid")  # do files have owners here, and modes?
_LINKS = 40  # on the way to a folder, as many as systems follow
_TEMPORARY = re.compile(r"\.nb[ic]\.tmp\.[0-9a-f]+$")  # a file that gets its name when it is complete
_OLD = 3600  # seconds after which nobody is writing it any more

_log = logging.getLogger("seqformats")
_folders: dict[str, str] = {}
"""Why each folder that was asked for is no place for a cache; "" where it is one."""
_refused: list[str] = []
"""Of which folders and files somebody else may have written."""


# --- who may have written it -----------------------------------------------------------------------------------------


def _foreign(path: Path, found: os.stat_result) -> str:
    return "" if found.st_uid in (0, os.geteuid()) else f"{path} belongs to another user"


def _open_to_others(path: Path, found: os.stat_result) -> str:
    return f"others may write {path}" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _lends(folder: Path, found: os.stat_result) -> str:
    """Why somebody else may put things in the place of others in a folder; "" if nobody may."""
    guarded = found.st_mode & stat.S_ISVTX or (not found.st_mode & stat.S_IWOTH and _alone(found))
    foreign = _foreign(folder, found) if found.st_uid not in _unmapped() else ""
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
        if above.st_mode & stat.S_ISVTX or found.st_uid not in _unmapped():
            reason = _foreign(entry, found)
        if not reason and stat.S_ISLNK(found.st_mode):
            target = Path(os.path.normpath(folder.resolve() / entry.readlink()))
            astray = links == 0 or target.resolve() != entry.resolve()
            reason = f"{entry} is a link that goes astray" if astray else _replaceable(target, links - 1)
        if reason:
            return reason
    return ""


def _touched(path: Path) -> str:
    """Why somebody else may have written a file, or ""; its folder has been looked at."""
    if not _OWNED:
        return ""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return ""
    if stat.S_ISLNK(found.st_mode):
        return f"{path} is a link"
    reason = _foreign(path, found) or _open_to_others(path, found)
    if not reason and not stat.S_ISREG(found.st_mode):
        raise OSError(f"{path} is no file")
    return reason


# --- the folders -----------------------------------------------------------------------------------------------------


def _absolute(folder: str) -> str:
    return os.path.normpath(Path(folder).absolute())


def _prepared(folder: str) -> str:
    """Make a folder that is not there, writable for nobody else; why it is no place for a cache, or ""."""
    if folder not in _folders:
        _folders[folder] = reason = _prepared_once(Path(folder))
        _refused.extend([reason] if reason else [])
    return _folders[folder]


def _prepared_once(folder: Path) -> str:
    reason = _replaceable(folder) if _OWNED else ""
    if reason:
        return reason
    for path in (*reversed(folder.parents), folder):
        if not path.exists():
            path.mkdir(0o755, exist_ok=True)
    if _OWNED:
        found = folder.stat()
        reason = _replaceable(folder) or _foreign(folder, found) or _open_to_others(folder, found)
    if not reason:
        _sweep(folder)
    return reason


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left half written."""
    for path in folder.iterdir():
        if _TEMPORARY.search(path.name):
            with contextlib.suppress(OSError):
                found = path.lstat()
                if found.st_mtime < time.time() - _OLD and (not _OWNED or found.st_uid == os.geteuid()):
                    path.unlink()


def _careful(locator: Any) -> Any:
    """One of Numba's ways to find a folder, which takes none that others may write.

    Then the next way is tried, but not where the user has chosen a folder.
    """

    class Careful(locator):
        def ensure_cache_path(self) -> None:
            reason = _prepared(_absolute(self.get_cache_path()))
            if reason:
                raise (RuntimeError if config.CACHE_DIR else PermissionError)(reason)
            super().ensure_cache_path()

    return Careful


class _Implementation(CompileResultCacheImpl):
    _locator_classes = tuple(map(_careful, CompileResultCacheImpl._locator_classes))


# --- the files -------------------------------------------------------------------------------------------------------


class _Files(IndexDataCacheFile):
    """The index and the kernels of one function."""

    touched = False
    """May somebody else have written one of them?  What may not be read is not written either."""

    def _load_index(self) -> Any:
        return super()._load_index() if self._is_ours(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if self._is_ours(self._data_path(name)) else None

    def _is_ours(self, path: str) -> bool:
        reason = _touched(Path(path))
        if reason:
            self.touched = True
            _refused.append(reason)
        return not self.touched

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        """As Numba has it, but with a mode that is not left to the process, and nothing left behind by an interrupt."""
        if self.touched:
            raise OSError("what may not be read is not written")
        unfinished = Path(f"{filepath}.tmp.{uuid.uuid4().hex[:16]}")
        try:
            with open(unfinished, "xb", opener=lambda path, flags: os.open(path, flags, 0o644)) as file:
                yield file
            unfinished.replace(filepath)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


class Cache(FunctionCache):
    """The cache of one kernel; a damaged, foreign or unwritable file means compiling, not an error.

    RuntimeError or OSError where there is no folder for it.
    """

    _impl_class = _Implementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        self._cache_path = _absolute(locator.get_cache_path())
        if reason := _prepared(self._cache_path):  # found in a way that the user has given to Numba
            raise RuntimeError(reason)
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, locator.get_source_stamp())

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), _STAMP)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for these types, None where there is none that may be read."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception:
            self._start_over()
            return None
        if self._cache_file.touched:
            not_cached(_refused[-1])
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code, if there is a place for it."""
        if self._cache_file.touched:
            return
        try:
            super().save_overload(sig, data)
        except Exception:
            self._start_over()

    def _start_over(self) -> None:
        """Empty the index, so that a damaged one is written anew instead of failing for ever."""
        try:
            self.flush()
        except Exception as error:
            _log.debug("kernel cache unusable: %s", error)


_said = False


def not_cached(reason: object) -> None:
    """Say once that kernels are compiled in each process, and why."""
    global _said
    if not _said and _refused:
        _log.warning(
            "kernels are not cached but compiled in each process: %s, and a cache could run what they wrote; give "
            "NUMBA_CACHE_DIR a folder that only you may write, or set SEQFORMATS_CACHE=0",
            _refused[-1],
        )
    elif not _said:
        _log.info("kernels are not cached: %s", reason)
    _said = True
