"""Lazy imports, and hooks that make a fork wait for imports and compilations in progress.

What a thread holds while another forks stays held in the child for ever: the lock of a module that is being imported,
the compiler's.  So whoever forks waits until no thread is importing a part of this package or compiling, here or in
the caller's own code.

No module takes `loading` while a statement imports it: the thread that holds `loading` may wait for that module.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .post_import_hook import when_imported

loading = threading.RLock()
"""Held while a part of this package is imported and while a kernel is called for the first time."""


def import_now(name: str, package: str | None) -> ModuleType:
    """A module of this package, relative to `package`, or of Python, imported now if nobody has needed it yet."""
    with loading:
        return importlib.import_module(name, package)


_held: list[Any] = []
_latest: object = None  # what was registered last


def _before_fork() -> None:
    compiler = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    for lock in (loading, compiler):
        if lock is not None:
            lock.acquire()
            _held.append(lock)


def _after_fork() -> None:
    held = _held[:]
    _held.clear()  # before the first release, which lets another thread fork
    for lock in reversed(held):
        lock.release()


def register_hooks() -> None:
    """Have a fork wait for the locks above before all that others have registered until now.

    Hooks run before a fork in the reverse order of registration.  `logging` has one that takes its lock, which a
    compiling thread may want: so ours, registered later, waits for that thread first, with no lock held.  Nothing that
    is registered can be taken back; what was registered earlier does nothing from now on.
    """
    global _latest
    if not hasattr(os, "register_at_fork"):
        return
    own = _latest = object()

    def if_latest(hook: Callable[[], None]) -> Callable[[], None]:
        return lambda: hook() if own is _latest else None

    hooks = {"before": _before_fork, "after_in_parent": _after_fork, "after_in_child": _after_fork}
    os.register_at_fork(**{when: if_latest(hook) for when, hook in hooks.items()})


register_hooks()
when_imported("logging", ".after_logging")  # which takes as long to load as a tenth of this package
