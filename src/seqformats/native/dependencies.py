"""Digest of everything that the code of a compiled function of the user depends on.

A function is its bytecode, its defaults, the values that it closes over and the globals that it names, which Numba
compiles in as constants; and all of that of each compiled function among these.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from . import cpu, store
from .code import compiler, stamp_of_parts
from .digest import digest

_DIGEST_FORMAT = 2
"""Version of what is kept beside such a digest, changed when it is to be read otherwise."""
_MOST = 1 << 20  # bytes of an array that is compiled in
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_KNOWN = {"builtins", "cmath", "math", "numba", "numpy", "operator"}
"""Packages whose functions and types are what their release says."""


Seen = dict[int, tuple[int, Any]]
"""The number of everything described so far, by its identity, which is its own as long as it is held here."""


def digest_of(function: Callable[..., Any]) -> str:
    """A digest of all that a function depends on, in hexadecimal digits; "" where that cannot be known.

    Not among it are overloads and types that the caller has registered with Numba for what the function names.
    """
    try:
        found = _describe(function, {}, top=True)
    except (LookupError, RecursionError, ValueError):  # an empty cell is a ValueError
        return ""
    makers = (compiler("numba"), compiler("llvmlite"), np.__version__, sys.version)
    parts = (_DIGEST_FORMAT, found, *cpu.flags(), cpu.host(), *makers, stamp_of_parts())
    return digest(repr(parts).encode()).hex()


def read(function: Callable[..., Any], kinds: str) -> bytes | None:
    """The code of a function for arguments of these types; None where none is kept of it as it is now."""
    place = _place(function, kinds)
    entry = None if place is None else store.read(*place)
    return None if entry is None else entry.code


def write(function: Callable[..., Any], kinds: str, code: bytes) -> None:
    """Keep such code, where it is known what it depends on."""
    place = _place(function, kinds)
    if place is not None:
        store.write(*place, store.Entry(code, {}))


def _place(function: Callable[..., Any], kinds: str) -> tuple[str, str] | None:
    """The name and the key of such code."""
    of = digest_of(function)
    name = f"own.{function.__name__}({kinds})"
    return (name, digest(f"{name}\0{of}".encode()).hex()) if of else None


def _describe(x: object, seen: Seen, top: bool = False) -> Any:
    """Whatever is compiled in, as tuples of plain values; what comes again by its number, since functions may recur."""
    if type(x) in _PLAIN:
        return type(x).__name__, repr(x)
    if id(x) in seen:
        return seen[id(x)][0]
    seen[id(x)] = len(seen), x
    if isinstance(x, enum.Enum):
        return "member", type(x).__qualname__, x.name, _describe(x.value, seen)
    if isinstance(x, np.generic):
        return "scalar", repr(x.dtype), x.tobytes()
    if isinstance(x, np.ndarray) and not x.dtype.hasobject and x.nbytes <= _MOST:
        return "array", type(x).__name__, repr(x.dtype), x.shape, x.flags.c_contiguous, digest(x.tobytes())
    if isinstance(x, tuple):
        fields = getattr(type(x), "_fields", ())  # of a named tuple, which says where each is
        return "tuple", type(x).__qualname__, fields, tuple(_describe(part, seen) for part in x)
    if isinstance(x, CodeType):
        return _of_code(x, seen)
    function = getattr(x, "py_func", x)
    if isinstance(function, FunctionType):
        return _of_function(x, function, seen, top)
    if isinstance(x, type) and issubclass(x, enum.Enum):
        members = x.__members__.items()  # with other names of a member, which an iteration leaves out
        return "members", x.__qualname__, tuple((name, _describe(member, seen)) for name, member in members)
    if _root(x) in _KNOWN and isinstance(x, (type, BuiltinFunctionType, np.ufunc, np.dtype)):
        return "known", _module(x), getattr(x, "__qualname__", None) or repr(x)
    raise LookupError("nobody can say whether this is what it was")


def _of_function(x: object, function: FunctionType, seen: Seen, top: bool) -> Any:
    root = _root(function)
    if root in _KNOWN or root == __name__.partition(".")[0]:
        return "function", function.__module__, function.__qualname__
    if x is function and not top:  # which Numba knows by an overload that nobody sees
        raise LookupError("nobody can say whether this is what it was")
    names = set(_names(function.__code__))
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    used = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    return (
        "compiled",
        repr(sorted(getattr(x, "targetoptions", {}).items())),
        _of_code(function.__code__, seen),
        tuple(_describe(part, seen) for part in (function.__defaults__ or ())),
        tuple((k, _describe(part, seen)) for k, part in (function.__kwdefaults__ or {}).items()),
        tuple(_describe(part, seen) for part in cells),
        tuple((name, _of_global(value, names, seen)) for name, value in used.items()),
    )


def _of_global(value: object, names: set[str], seen: Seen) -> Any:
    """A global; of a module the attributes that may be meant."""
    if not isinstance(value, ModuleType):
        return _describe(value, seen)
    if value.__name__.partition(".")[0] in _KNOWN:
        return value.__name__
    if "getattr" in names:  # by which a function may read more of a module than it names
        raise LookupError("nobody can say whether this is what it was")
    if id(value) in seen:
        return seen[id(value)][0]
    seen[id(value)] = len(seen), value
    there = vars(value)
    return value.__name__, tuple((name, _of_global(there[name], names, seen)) for name in sorted(names & there.keys()))


def _of_code(code: CodeType, seen: Seen) -> Any:
    """Bytecode without the file and the lines that it stands in."""
    constants = tuple(_describe(part, seen) for part in _constants(code))
    arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, code.co_exceptiontable, constants, names, arguments


def _constants(code: CodeType) -> Iterator[Any]:
    for part in code.co_consts:
        yield tuple(sorted(part, key=repr)) if isinstance(part, frozenset) else part


def _names(code: CodeType) -> Iterator[str]:
    """The globals and attributes that a function names, and the functions in it."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _module(x: object) -> str:
    return getattr(x, "__module__", None) or type(x).__module__


def _root(x: object) -> str:
    return _module(x).partition(".")[0]
