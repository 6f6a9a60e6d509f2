"""The machine code of a kernel for some types: shipped with the package, kept in the user's cache, or compiled now.

Numba is imported only for the last.  Whatever is found is checked: shipped code was made of the sources that are here,
and what is kept was made of them with these flags, by this Numba and this LLVM, for this CPU.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from .. import core
from ..errors import KERNEL, DeviceError
from ..lazy_import import import_now
from . import cpu, store
from .digest import digest
from .loading import ALWAYS, MIN_BYTES_WITHOUT_GIL, check_memory, load
from .signature import Signature, kinds_of, symbol_of, text_of

if TYPE_CHECKING:
    from .shipped_files import Shipped

_PACKAGE = Path(__file__).parents[1]
SHIPPED = Path(__file__).parent / "shipped"
_CODE_FORMAT = 4
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

    Whatever is wrong with code that was made before, it is made anew.  One thread at a time: a caller holds the lock
    of `launch.threads`.
    """
    text = f"{name}({text_of(signature)})"
    found = loaded.get(text)
    if found is None:
        symbol = symbol_of(name, signature)
        there = _find_code(name, text, [symbol], lambda: compile_now(name, signature))
        if there is None:
            return None
        (by_words,), facts, origin = there
        limits = MIN_BYTES_WITHOUT_GIL, ALWAYS
        run, freely = [core.Entry(by_words, kinds_of(signature), facts["gives"], limit) for limit in limits]
        found = loaded.setdefault(text, Code(run, freely, by_words, origin))
    return found


def _find_code(
    name: str, text: str, symbols: list[str], compile: Callable[[], store.Entry]
) -> tuple[list[int], dict[str, Any], str] | None:
    """The addresses of some functions of a kernel, what is known of it, and where it was found; None if nowhere."""
    if not in_use():
        return None
    stamp(name)  # an error where there is no such kernel
    facts = _find_shipped(name, text)
    if facts is not None and (addresses := _addresses(symbols)):
        return addresses, facts, "shipped"
    for origin in ("kept", "compiled"):
        try:
            entry = _find_kept(name, text) if origin == "kept" else _keep(name, text, compile())
            if entry is not None:
                path = store.path_of(text, key_of(name, text)) if entry.linked else None
                return load(path, entry.code, symbols), entry.facts, origin
        except DeviceError:  # nothing that is compiled now would find memory
            raise
        except Exception as error:
            _note(f"{origin} code of {text}", error)
    return None


def _note(what: str, error: Exception) -> None:
    import logging

    logging.getLogger("seqformats").info("no %s: %s: %s", what, type(error).__name__, error)


class Traits(NamedTuple):
    """Properties of a kernel that starting it needs; see `kernels.parts.record.KernelSpec`."""

    does: str
    threads_from: int
    several: bool
    """Does it work on the host, and do calls differ in the types of its arrays?"""
    over: str
    """What the grid of a GPU counts."""
    complexes: tuple[str, ...]
    """The complex dtypes that it takes as they are on a GPU."""
    short: bool
    """Is there another function on a GPU for short sequences?"""
    fours: bool
    """May an item be four numbers there?"""

    @classmethod
    def from_spec(cls, spec: Any) -> Traits:
        """Return the traits of a kernel whose file is imported."""
        complexes = tuple(sorted({kind for kinds in spec.takes for kind in kinds if kind[0] == "c"}))
        several = spec.does == "host" and len(spec.takes) > 1
        return cls(spec.does, spec.threads_from, several, spec.over, complexes, spec.short is not None, spec.fours)


def traits_of(name: str) -> Traits:
    """Return the traits of a kernel by name, shipped and kept as code is; DeviceError where there is no such kernel."""
    facts = None
    if in_use():
        facts = _find_shipped(name, name)
        if facts is None and (kept := _find_kept(name, name)) is not None:
            facts = kept.facts
    if facts is None:
        entry = entry_of_traits(name)
        facts = entry.facts
        if in_use():
            store.write(name, key_of(name, name), entry)
    return Traits(*facts["traits"])


def entry_of_traits(name: str) -> store.Entry:
    """They as they are kept, beside no code."""
    return store.Entry(b"", {"traits": list(Traits.from_spec(spec_of(name)))})


def spec_of(name: str) -> Any:
    """The record at the end of a kernel's file, which imports Numba; DeviceError where there is no such kernel."""
    check_memory()
    try:
        return import_now(f"..kernels.{name}", __package__).KERNEL
    except (ModuleNotFoundError, AttributeError):
        raise KERNEL(f"no kernel is called {name}") from None


loaded: dict[str, Code] = {}
"""What has been loaded, by kernel and types."""


def in_use() -> bool:
    """Tell whether machine code of files runs here.  It does not where the kernels are interpreted."""
    return not is_interpreted() and struct.calcsize("P") == 8


def is_interpreted() -> bool:
    """Tell whether kernels run as the Python functions that they are."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def by_numba(name: str) -> Callable[..., Any]:
    """A kernel as a function that Numba compiles for all types, in this process alone: where there is no other way."""
    own = import_now("..kernels.parts.custom", __package__)
    made: Callable[..., Any] = own.by_numba_in_groups(spec_of(name).cpu)
    return made


def whence() -> str:
    """Return where the code of kernels comes from in this process, and why, in words."""
    if is_interpreted():
        return "interpreted: NUMBA_DISABLE_JIT is set"
    if not in_use():
        return "compiled in each process: addresses have no 64 bits here"
    reason, unkept = why_not_shipped(), store.why_not()
    if not reason:
        return f"shipped for {cpu.level()}"
    if unkept:
        return f"compiled in each process and not cached: {unkept} ({reason})"
    return f"compiled at first use, kept in {store.user_folder()} ({reason})"


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
    bundle = _bundle()
    if bundle is None:
        return f"none is there for {cpu.level()}, or it is damaged"
    return "" if bundle.made_by.partition(" ")[0] == cpu.system() else f"it was made for {bundle.made_by}"


def made_by() -> str:
    """Versions of the compilers, as a bundle names them."""
    import llvmlite

    return f"{cpu.system()} llvmlite {llvmlite.__version__}"


@functools.cache
def _bundle() -> Shipped | None:
    found: Shipped | None = import_now(".shipped_files", __package__).Shipped.open(SHIPPED, cpu.level())
    return found


def _find_shipped(name: str, text: str) -> dict[str, Any] | None:
    """Return what is known of a kernel that was shipped for some types, if it was made of the sources that are here."""
    bundle = None if why_not_shipped() else _bundle()
    if bundle is None or bundle.facts(text) is None:
        return None
    facts = bundle.facts(name)
    return facts if facts is not None and facts.get("stamp") == stamp(name) else None


def _addresses(symbols: list[str]) -> list[int]:
    """Find the addresses of shipped functions; none where one of them was not shipped."""
    bundle = _bundle()
    found = [] if bundle is None else [bundle.address(symbol) for symbol in symbols]
    return found if all(found) else []


def _find_kept(name: str, text: str) -> store.Entry | None:
    return store.read(text, key_of(name, text))


def _keep(name: str, text: str, entry: store.Entry) -> store.Entry:
    """Keep code, linked where there is a linker; as it is kept, or as it was where there is no cache."""
    if store.user_folder():
        entry = entry._replace(linked=import_now(".linking", __package__).link_object(entry.code))
    return entry if store.write(text, key_of(name, text), entry) else entry._replace(linked=b"")


def list_outdated() -> list[str]:
    """The kernels of which no shipped code is that of the sources that are here, where shipped code is used."""
    return [name for name in names() if _find_shipped(name, name) is None]


def names() -> list[str]:
    """List all kernels, sorted."""
    return sorted(path.stem for path in (_PACKAGE / "kernels").glob("*.py") if path.stem != "__init__")


def damage() -> str:
    """Why shipped code is not what it was; "" where it is, or is not used."""
    bundle = None if why_not_shipped() else _bundle()
    return "" if bundle is None else bundle.damage()


def is_there(name: str, text: str) -> bool:
    """Tell whether the code of a kernel is shipped, or kept by this user.  Its name is `text`."""
    return (_find_shipped(name, text) or _find_kept(name, text)) is not None


def compile_now(name: str, signature: Signature) -> store.Entry:
    """Compile a kernel now, which imports Numba."""
    spec = spec_of(name)
    building = import_now("..kernels.parts.building", __package__)
    made = building.build(spec.cpu, signature, symbol_of(name, signature))
    return store.Entry(made, facts_of(spec))


def facts_of(spec: Any) -> dict[str, Any]:
    """Return how many integers the code of a kernel returns: several come as a tuple, None of those that give none."""
    returned = spec.cpu.__annotations__["return"]
    gives = len(get_args(returned)) or int(returned is not None)
    return {"gives": gives}


def key_of(name: str, text: str) -> str:
    """Return the digest of all that code depends on, in hexadecimal digits."""
    parts = (str(_CODE_FORMAT), text, stamp(name), *cpu.flags(), cpu.host(), compiler("numba"), compiler("llvmlite"))
    return digest("\0".join(parts).encode()).hex()


@functools.cache
def compiler(package: str) -> str:
    """The version of Numba, or of its package for CUDA, as a digest of the file that says it: it takes long to import.

    "" where it is not there.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return ""
    try:
        return digest(Path(found.origin).with_name(_VERSIONS[package]).read_bytes()).hex()
    except OSError:
        name = package.replace("_", "-")
        made: str = importlib.import_module("importlib.metadata").version(name)
        return made


_VERSIONS = {"numba": "_version.py", "llvmlite": "_version.py", "numba_cuda": "VERSION"}


@functools.cache
def stamp(name: str) -> str:
    """Digest the sources of a kernel."""
    try:
        own = (_PACKAGE / "kernels" / f"{name}.py").read_bytes()
    except FileNotFoundError:
        raise KERNEL(f"no kernel is called {name}") from None
    return digest(stamp_of_parts(), own).hex()


@functools.cache
def stamp_of_parts() -> bytes:
    """Return the stamp of the parts of kernels, and of the names of what comes in one argument."""
    parts = sorted((_PACKAGE / "kernels" / "parts").glob("*.py"))
    paths = (*parts, *[_PACKAGE / other for other in _OTHER_PARTS])
    return digest(*[path.read_bytes() for path in paths])


_OTHER_PARTS = (
    "layout.py",
    "beam/rows.py",
    "ctc/rows.py",
    "operations/attention_rows.py",
    "native/signature.py",
)
