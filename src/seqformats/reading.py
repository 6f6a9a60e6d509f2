"""Lists of arrays, of tensors, of numbers, read by the extension where it knows them, else in plain Python."""

from typing import Any

import numpy as np

from . import core
from .arrays import NUMPY, Array, library_of_type
from .errors import BATCH

WIDE = dict.fromkeys(("float16", "float32", "float64"), "float64")
"""Dtypes of Python's floats and ints, for the dtypes whose items these hold."""
WIDE |= dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "int64")


def read(items: tuple[object, ...]) -> tuple[Array, Array, Array, int] | None:
    """Lengths, offsets, addresses and the greatest length of plain arrays alike, which want no gradient.

    They are C-contiguous, of one library, device, dtype and item shape.  None for others, and without the extension.
    """
    found: tuple[Array, Array, Array, int] | None = core.scan_arrays(items, False)
    return found


def scan(items: tuple[object, ...]) -> tuple[Array, Array] | None:
    """Lengths and addresses of plain C-contiguous arrays of one library, device, dtype and item shape, else None."""
    if not items:
        return None
    found = core.scan_arrays(items, True)
    if found is not None:
        return found[0], found[2]
    library = library_of_type(type(items[0]))
    return None if library is None else library.scan(items)


def common_flags(items: tuple[object, ...]) -> int:
    """The flags, as numbers in the C interface, that all of some NumPy arrays have; TypeError for others."""
    found: int | None = core.common_flags(items)
    if found is not None:
        return found
    common = -1
    for item in items:
        if not isinstance(item, np.ndarray):
            raise BATCH(f"a {type(item).__name__} is no array of NumPy")
        common &= item.flags.num
    return common


def read_numbers(items: tuple[object, ...]) -> tuple[Array, list[Array]] | None:
    """The leaves of nested lists, and the lengths of the lists on each level.

    None for all but plain lists and tuples, equally deep, of Python's own floats alone, of ints of 64 bits or of bools;
    and without the extension.
    """
    found: tuple[Array, list[Array]] | None = core.read_numbers(items, True)
    return found


def are_numbers(items: tuple[object, ...]) -> bool:
    """Tell whether `read_numbers` could read these.  They are looked at alone, in a part of the time."""
    return core.read_numbers(items, False) is not None


def write_numbers(x: Array, lod: tuple[Array, ...]) -> list[Any] | None:
    """float64 or int64 as nested lists, their levels cut at the offsets `lod`; None without the extension."""
    found: list[Any] | None = core.write_numbers(NUMPY.operand(x), lod)
    return found
