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

from .record import CALCULATES, COMPLEX, KernelSpec, group, kinds_of


def spec_of(cpu: Callable[..., Any], cuda: Callable[..., Any] | None, over: str, keeper: Any) -> KernelSpec:
    """The record of a kernel of these functions, plain ones or decorated already; complex numbers stay what they are.

    One for CUDA is compiled where it is started, with the names of this package in it.  `keeper` is the module
    `native.dependencies`, which finds and keeps the code of others.
    """
    if not hasattr(cpu, "py_func"):
        cpu = compile_and_keep(cpu, keeper)
    if cuda is None:
        return KernelSpec(cpu, None, CALCULATES)
    return KernelSpec(cpu, getattr(cuda, "py_func", None) or getattr(cuda, "fn", cuda), CALCULATES, over, (COMPLEX,))


def by_numba(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that Numba compiles in this process, for all types that it is called with."""
    made: Callable[..., Any] = njit(nogil=True, error_model="numpy")(function)
    return made


def by_numba_in_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel of the house, and take the arguments of its groups one by one."""
    made = by_numba(function)
    if len(list(kinds_of(function))) == function.__code__.co_argcount:
        return made
    return lambda *args: made(*group(function, args, lambda parts, kind: kind(*parts)))


def compile_and_keep(function: Callable[..., Any], keeper: Any) -> Callable[..., Any]:
    """Compile a function of the user as `by_numba` does, and keep the code for other processes.

    Numba names machine code by the name of a function and a count, which another process gives to another function; so
    the name that is compiled has the digest of the function in it.
    """
    made: Any = by_numba(function)
    if not isinstance(function, FunctionType) or made is function or not (of := keeper.digest_of(function)):
        return made
    named = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    named.__kwdefaults__, named.__annotations__ = function.__kwdefaults__, function.__annotations__
    named.__module__, named.__doc__ = function.__module__, function.__doc__
    named.__qualname__ = f"{function.__qualname__}.{of[:16]}"
    made = by_numba(named)
    made._cache = _Kept(function, keeper)
    return made


class _Kept(NullCache):
    """Numba's way to find and keep compiled code, in the folder and under the rules of `native.store`."""

    def __init__(self, function: FunctionType, keeper: Any) -> None:
        self.function, self.keeper = function, keeper

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code that is kept for these types; None where there is none."""
        target_context.refresh()
        code = self.keeper.read(self.function, str(sig))
        if code is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(code))
        except Exception as error:
            _note(self.function, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code, unless addresses of this process are in it."""
        if data.lifted or data.library.has_dynamic_globals:
            return
        try:
            code = serialize.dumps(data._reduce())
        except Exception as error:
            _note(self.function, error)
            return
        self.keeper.write(self.function, str(sig), code)


def _note(function: FunctionType, error: Exception) -> None:
    logging.getLogger("seqformats").info("%s is not kept: %s: %s", function.__name__, type(error).__name__, error)
