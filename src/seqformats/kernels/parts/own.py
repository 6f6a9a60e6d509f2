"""Kernels of a user's own, and how Numba itself compiles one."""

from collections.abc import Callable
from typing import Any

from numba import njit

from .record import CALCULATES, COMPLEX, KernelSpec


def spec_of(cpu: Callable[..., Any], cuda: Callable[..., Any] | None, over: str) -> KernelSpec:
    """The record of a kernel of these functions, plain ones or decorated already; complex numbers stay what they are.

    One for CUDA is compiled where it is started, with the names of this package in it.
    """
    if not hasattr(cpu, "py_func"):
        cpu = by_numba(cpu)
    if cuda is None:
        return KernelSpec(cpu, None, CALCULATES)
    return KernelSpec(cpu, getattr(cuda, "py_func", None) or getattr(cuda, "fn", cuda), CALCULATES, over, (COMPLEX,))


def by_numba(function: Callable[..., Any], nogil: bool = True) -> Callable[..., Any]:
    """A function that Numba compiles in this process, for all types that it is called with."""
    made: Callable[..., Any] = njit(nogil=nogil, error_model="numpy")(function)
    return made
