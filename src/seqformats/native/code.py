"""The machine code of a kernel for some types: shipped with the package, kept in the user's cache, or compiled now.

Numba is imported only for the last.  Whatever is found is checked: shipped code was made of the sources that are here,
and what is kept was made of them with these flags, by this LLVM, for this CPU.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DeviceError
from . import cpu, store
from .loading import ALWAYS, NEVER, SMALL, USABLE, Unloadable, function_at, load, world_of_entries
from .signature import Signature, text_of

_PACKAGE = Path(__file__).parents[1]
SHIPPED = Path(__file__).parent / "shipped"
FORMAT = 1
"""Of what a file holds, changed when it is to be read otherwise."""


class Code(NamedTuple):
    """Machine code in this process."""

    run: Callable[..., Any]
    """Runs it; other threads run meanwhile where there are many bytes of arrays."""
    freely: Callable[..., Any]
    """The same, and other threads always run meanwhile, if it may be."""
    by_words: int
    """The address of its function for other machine code, which takes all arguments as words in memory."""
    origin: str
    """"shipped", "kept" or "compiled"."""


def code_of(name: str, signature: Signature) -> Code | None:
    """The code of a kernel for arguments of these types; None where Python functions or Numba's own have to do.

    One thread at a time: a caller holds the lock of `launch.threads`.
    """
    text = f"{name}({text_of(signature)})"
    found = _loaded(name, text, lambda: compiled(name, text, signature))
    if found is None:
        return None
    (entry, by_words), facts, origin = found
    least, often = (NEVER, NEVER) if facts["keeps_gil"] else (SMALL, ALWAYS)
    calls = [function_at(entry, name, world_of_entries(limit)) for limit in (least, often)]
    loaded[text] = code = Code(*calls, by_words, origin)
    return code


def door_of(name: str) -> int | None:
    """The address of a door of `kernels.doors`, where machine code is in use; one thread at a time."""
    name = f"doors/{name}"
    found = _loaded(name, name, lambda: compiled_door(name))
    return None if found is None else found[0][0]


def _loaded(name: str, text: str, compile: Callable[[], store.Entry]) -> tuple[list[int], dict[str, Any], str] | None:
    """The addresses of the functions of some code, what is known of it, and where it was found; None if nowhere."""
    if not in_use():
        return None
    for origin in ("shipped", "kept", "compiled"):
        if origin == "compiled":
            entry: store.Entry | None = compile()
            store.write(text, key_of(name, text), entry)
        else:
            entry = (_shipped if origin == "shipped" else _kept)(name, text)
        if entry is not None:
            try:
                return load(entry.code, entry.facts["names"], entry.facts["wanted"]), entry.facts, origin
            except Unloadable:
                continue
    return None


class Traits(NamedTuple):
    """What one has to know of a kernel to start it on the host; see `kernels.parts.record.KernelSpec`."""

    does: str
    threads_from: int
    several: bool
    """Does it work on the host, and do calls differ in the types of its arrays?"""

    @classmethod
    def of(cls, spec: Any) -> Traits:
        """Those of a kernel whose file is imported."""
        return cls(spec.does, spec.threads_from, spec.does == "host" and len(spec.takes) > 1)


def traits_of(name: str) -> Traits:
    """Those of a kernel by name, which are shipped and kept as code is; DeviceError where there is no such kernel."""
    found = _shipped(name, name) or _kept(name, name) if in_use() else None
    if found is None:
        found = entry_of_traits(name)
        if in_use():
            store.write(name, key_of(name, name), found)
    return Traits(*found.facts["traits"])


def entry_of_traits(name: str) -> store.Entry:
    """They as they are kept, beside no code."""
    return store.Entry(b"", {"traits": list(Traits.of(spec_of(name))), "stamp": stamp(name)})


def spec_of(name: str) -> Any:
    """The record at the end of a kernel's file, which imports Numba; DeviceError where there is no such kernel."""
    try:
        return importlib.import_module(f"..kernels.{name}", __package__).KERNEL
    except (ModuleNotFoundError, AttributeError):
        raise DeviceError(f"no kernel is called {name}") from None


loaded: dict[str, Code] = {}
"""What has been loaded, by kernel and types."""


def in_use() -> bool:
    """Does machine code of files run here?  Not where the kernels are to be interpreted."""
    return USABLE and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def why_not_shipped() -> str:
    """Why shipped code is not used; "" where it is."""
    if os.environ.get("SEQFORMATS_JIT", "0") not in ("", "0"):
        return "SEQFORMATS_JIT is set"
    if cpu.flags():
        return f"{', '.join(cpu.flags())} is set"
    if not SHIPPED.is_dir():
        return "none was shipped with this installation"
    if not cpu.level():
        return "none is made for this CPU"
    return "" if _bundle() is not None else f"none is there for {cpu.level()}, or it is damaged"


@functools.cache
def _bundle() -> store.Shipped | None:
    return store.Shipped.open(SHIPPED, cpu.level())


def _shipped(name: str, text: str) -> store.Entry | None:
    if why_not_shipped():
        return None
    bundle = _bundle()
    found = None if bundle is None else bundle.read(text)
    return found if found is not None and found.facts.get("stamp") == stamp(name) else None


def _kept(name: str, text: str) -> store.Entry | None:
    return store.read(text, key_of(name, text))


def compiled(name: str, text: str, signature: Signature) -> store.Entry:
    """Compile a kernel now, which imports Numba."""
    spec = spec_of(name)
    building = importlib.import_module("..kernels.parts.building", __package__)
    built = building.build(spec.cpu, signature, text)
    return _entry_of(name, built, keeps_gil=spec.cpu.keeps_gil)


def compiled_door(name: str) -> store.Entry:
    """The same of a door."""
    function = importlib.import_module(f"..kernels.{name.replace('/', '.')}", __package__).door
    building = importlib.import_module("..kernels.parts.building", __package__)
    return _entry_of(name, building.build(function, ("i", "i", "i"), name, door=True))


def _entry_of(name: str, built: Any, **facts: object) -> store.Entry:
    return store.Entry(built.code, {"names": built.names, "wanted": built.wanted, "stamp": stamp(name), **facts})


def key_of(name: str, text: str) -> str:
    """What code depends on, as a number in hexadecimal digits."""
    parts = (str(FORMAT), text, stamp(name), *cpu.flags(), cpu.host())
    return store.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def stamp(name: str) -> str:
    """A digest of the sources of a kernel."""
    try:
        own = (_PACKAGE / "kernels" / f"{name}.py").read_bytes()
    except FileNotFoundError:
        raise DeviceError(f"no kernel is called {name}") from None
    return store.sha256(_stamp_of_parts() + own).hexdigest()


@functools.cache
def _stamp_of_parts() -> bytes:
    """The same of what kernels are made of, and of the names of what comes in one argument."""
    parts = sorted((_PACKAGE / "kernels" / "parts").glob("*.py"))
    others = ("layout.py", "beam/rows.py", "native/words.py", "kernels/doors/language.py", "kernels/doors/taking.py")
    digest = store.sha256()
    for path in (*parts, *[_PACKAGE / other for other in others]):
        digest.update(path.read_bytes())
    return digest.digest()
