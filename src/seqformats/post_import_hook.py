"""Functions that are called once another library has been imported.

Some libraries must be told of encodings before they meet one: PyTorch's compiler asks what a function means while it
reads it, Numba while it types it.  Importing them here would cost every user seconds, and a test in each call would
cost every call.  So what is to be told waits until the caller imports the library.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # which needs archives and temporary files, and so as long as all of this package
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec

_waiting: dict[str, list[str]] = {}


def when_imported(name: str, tell: str) -> None:
    """Import the module `tell`, of this package, right after the module `name`, or now if that is there already."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _tell(name, tell)
        return
    _waiting.setdefault(name, []).append(tell)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def _tell(name: str, tell: str) -> None:
    """Import the module that waits; a release that it does not know must not keep a caller from importing."""
    try:
        importlib.import_module(tell, __package__)
    except Exception as error:
        warnings.warn(f"{name} could not be told of seqformats: {error!r}", RuntimeWarning, stacklevel=3)


class _Finder:
    """Finds nothing by itself: it lets the others find, and has the loader of a module that is waited for told."""

    def __init__(self) -> None:
        self.asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that tells; None for what nobody waits for."""
        if fullname not in _waiting or fullname in self.asking:
            return None
        self.asking.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self.asking.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, fullname)  # type: ignore[assignment]  # it quacks
        return spec


class _Loader:
    """The loader of a module, and afterwards those who wait for it."""

    def __init__(self, loader: Loader, name: str) -> None:
        self.loader, self.name = loader, name

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)  # a loader of files has more than every loader: its path, its source

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module; then call the functions that wait for it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        for tell in _waiting.pop(self.name, ()):
            _tell(self.name, tell)
        if not _waiting and _FINDER in sys.meta_path:
            sys.meta_path.remove(_FINDER)


_FINDER = _Finder()
