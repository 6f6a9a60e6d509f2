"""Kernels of a user's own, and how Numba itself compiles one."""

import logging
import pickle
from collections.abc import Callable
from types import FunctionType
from typing import Any

from numba import njit
from numba.core import serialize
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult

from ...native import store
from ...native.dependencies import digest_of
from ...native.digest import digest
from .record import CALCULATES, COMPLEX, KernelSpec


def spec_of(cpu: Callable[..., Any], cuda: Callable[..., Any] | None, over: str) -> KernelSpec:
    """The record of a kernel of these functions, plain ones or decorated already; complex numbers stay what they are.

    One for CUDA is compiled where it is started, with the names of this package in it.
    """
    if not hasattr(cpu, "py_func"):
        cpu = kept(cpu)
    if cuda is None:
        return KernelSpec(cpu, None, CALCULATES)
    return KernelSpec(cpu, getattr(cuda, "py_func", None) or getattr(cuda, "fn", cuda), CALCULATES, over, (COMPLEX,))


def by_numba(function: Callable[..., Any], nogil: bool = True) -> Callable[..., Any]:
    """A function that Numba compiles in this process, for all types that it is called with."""
    made: Callable[..., Any] = njit(nogil=nogil, error_model="numpy")(function)
    return made


def kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of the user as `by_numba` does, and keep the code for other processes.

    Numba names machine code by the name of a function and a count, which another process gives to another function; so
    the name that is compiled has the digest of the function in it.
    """
    made: Any = by_numba(function)
    if not isinstance(function, FunctionType) or made is function or not (of := digest_of(function)):
        return made
    named = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    named.__kwdefaults__, named.__annotations__ = function.__kwdefaults__, function.__annotations__
    named.__module__, named.__doc__ = function.__module__, function.__doc__
    named.__qualname__ = f"{function.__qualname__}.{of[:16]}"
    made = by_numba(named)
    made._cache = _Kept(function)
    return made


class _Kept(NullCache):
    """Numba's way to find and keep compiled code, in the folder and under the rules of `native.store`."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def place(self, kinds: Any) -> tuple[str, str] | None:
        """The name and the key of the code for these types; None where it cannot be kept."""
        of = digest_of(self.function)
        if not of:
            return None
        name = f"own.{self.function.__name__}({kinds})"
        return name, digest(f"{name}\0{of}".encode()).hex()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code that is kept for these types; None where there is none."""
        target_context.refresh()
        place = self.place(sig)
        entry = None if place is None else store.read(*place)
        if entry is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(entry.code))
        except Exception as error:
            _note(self.function, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code, unless addresses of this process are in it."""
        place = None if data.lifted or data.library.has_dynamic_globals else self.place(sig)
        if place is None:
            return
        try:
            code = serialize.dumps(data._reduce())
        except Exception as error:
            _note(self.function, error)
            return
        store.write(*place, store.Entry(code, {}))


def _note(function: FunctionType, error: Exception) -> None:
    logging.getLogger("seqformats").info("%s is not kept: %s: %s", function.__name__, type(error).__name__, error)
