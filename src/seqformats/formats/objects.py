"""NumPy arrays of Python objects: how columns of arrays or lists come from files, frames and data sets."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from ..errors import LEVELS

_DEEP = 64  # in each other, as NumPy's axes


def is_array_of_objects(x: object) -> TypeGuard[np.ndarray]:
    """Tell whether this holds Python objects, along an axis."""
    return issubclass(type(x), np.ndarray) and isinstance(x, np.ndarray) and x.dtype.kind == "O" and x.ndim > 0


def as_list(x: np.ndarray, depth: int = 1) -> list[Any]:
    """A list of what an array of objects holds, and lists for such arrays in it."""
    if depth > _DEEP:
        raise LEVELS(f"arrays of objects lie in each other, more than {_DEEP} deep")
    found: list[Any] = x.tolist()
    if any(issubclass(kind, np.ndarray) for kind in set(map(type, found))):
        found = [as_list(part, depth + 1) if is_array_of_objects(part) else part for part in found]
    return found
