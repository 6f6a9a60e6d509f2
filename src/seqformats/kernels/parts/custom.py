"""Kernels of a user's own, and how Numba itself compiles one."""

from collections.abc import Callable
from typing import Any

from numba import njit

from .record import CALCULATES, COMPLEX, KernelSpec, group, kinds_of


def spec_of(cpu: Callable[..., Any], cuda: Callable[..., Any] | None, over: str) -> KernelSpec:
    """The record of a kernel of these functions, plain ones or decorated already; complex numbers stay what they are.

    One for CUDA is compiled where it is started, with the names of this package in it.
    """
    if not hasattr(cpu, "py_func"):
        cpu = by_numba(cpu)
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
