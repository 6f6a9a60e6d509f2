"""Lists of arrays: read natively where the build allows it, else in plain Python with the same results."""

import struct
import sys
import sysconfig
from typing import Any

import numpy as np

from . import registry
from .arrays import Array, library_of_type

_HEAD = object.__basicsize__
_TUPLE = tuple.__basicsize__
_works: bool | None = None


def _native_layout() -> bool:
    """Is this a build whose objects look as `scan_list` reads them, and does it read some known arrays right?"""
    if (
        sys.implementation.name != "cpython"
        or sysconfig.get_config_var("Py_GIL_DISABLED")
        or struct.calcsize("P") != 8
        or np.ndarray.__basicsize__ < _HEAD + 52
    ):
        return False
    block = np.arange(24, dtype=np.float32).reshape(6, 4)
    good = (block, block[1:3], block[5:], block[2:2], block[::3][1:2])
    bad = (block[:, :2], block.astype(np.float64), block.reshape(6, 2, 2), block.reshape(8, 3), 1.0)
    found = _scan(good)
    if found is None:
        return False
    lengths, addresses = found
    right = lengths.tolist() == [a.shape[0] for a in good]
    right &= addresses.tolist() == [a.__array_interface__["data"][0] for a in good]
    return right and all(_scan((block, other)) is None for other in bad)


def _scan(items: tuple[Any, ...]) -> tuple[Array, Array] | None:
    lengths, addresses = np.empty((2, len(items)), np.int64)
    fault = registry.kernel("scan_list", "cpu")(id(items) + _TUPLE, _HEAD, id(np.ndarray), lengths, addresses)
    return None if fault else (lengths, addresses)


def scan(items: tuple[Any, ...]) -> tuple[Array, Array] | None:
    """(lengths, addresses) of plain C-contiguous arrays of one library, device, dtype and item shape, else None."""
    global _works
    if not items:
        return None
    if type(items[0]) is not np.ndarray:
        library = library_of_type(type(items[0]))
        return None if library is None else library.scan(items)
    if items[0].dtype.hasobject:
        return None
    if _works is None:
        _works = _native_layout()
    return _scan(items) if _works else None
