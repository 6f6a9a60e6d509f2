"""Encodings in functions that the caller compiles with `numba.njit`: as arguments, as results, and built there.

In a compiled function an encoding has its fields, ``len(x)``, ``x[i]`` and ``for sequence in x``, both of which give
sequences as arrays, ``x.sequences()``, which gives them in Python too, and the constructors, which check what those of
Python check.  What the structure holds is read-only there as well.

This module is imported right after Numba, by this library's own kernels too, so it says only where the rest is.  That
is loaded when Numba first asks for the type of an encoding, or first reads a constructor in a function.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from numba.extending import overload

from .. import registry
from ..formats import Encoding, List, LoD, Masked, Packed, Padded, Ragged


@functools.cache
def _load_all() -> ModuleType:
    """Load what the constructors do, after Numba has been told of everything."""
    constructors = importlib.import_module(".constructors", __package__)
    target = importlib.import_module("numba.core.registry").cpu_target
    target.typing_context.refresh()  # a function may be half typed, and goes on with what is new
    target.target_context.refresh()
    return constructors


@registry.provides("numba_type")
def numba_type(x: Encoding[Any]) -> object:
    """The type of an encoding for Numba, which then knows all about it."""
    _load_all()
    return registry.service("numba_type")(x)  # another one by now


@overload(List, strict=False)
def _list(items: object, like: object = None) -> Callable[..., object]:
    made: Callable[..., object] = _load_all().compile_list(items, like)
    return made


@overload(Ragged, strict=False)
def _overload_ragged(data: object, lengths: object) -> Callable[..., object]:
    made: Callable[..., object] = _load_all().compile_ragged(data, lengths)
    return made


@overload(Masked, strict=False)
def _overload_masked(data: object, lengths: object, side: object = "right") -> Callable[..., object]:
    made: Callable[..., object] = _load_all().compile_masked(data, lengths, side)
    return made


@overload(Padded, strict=False)
def _overload_padded(data: object, size_at_t: object, lengths: object, indices: object) -> Callable[..., object]:
    made: Callable[..., object] = _load_all().compile_padded(data, size_at_t, lengths, indices)
    return made


@overload(Packed, strict=False)
def _overload_packed(data: object, size_at_t: object, lengths: object, indices: object) -> Callable[..., object]:
    made: Callable[..., object] = _load_all().compile_packed(data, size_at_t, lengths, indices)
    return made


@overload(LoD, strict=False)
def _lod(data: object, lod: object) -> Callable[..., object]:
    made: Callable[..., object] = _load_all().lod(data, lod)
    return made
