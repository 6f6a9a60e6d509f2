"""Where machine code finds things in objects of CPython and NumPy, and whether they are there in this process."""

from __future__ import annotations

import ctypes
import functools
import sys

import numpy as np

TYPE = 8  # bytes from the address of an object to the address of its type
FLAGS, TUPLE_SUBCLASS = 168, 1 << 26  # in a type object, `tp_flags` and one of them
TUPLE_SIZE = 16
DATA, AXES, DIMENSIONS, DESCR = 16, 24, 32, 56  # in an array
KIND, SIZE = 24, 40  # in its dtype


def tuple_items() -> int:
    """Bytes from the address of a tuple to that of its first item: 24, and 32 from Python 3.14 on, which keeps a hash.

    Code that is the same for all versions of Python is told of it.
    """
    return tuple.__basicsize__


@functools.cache
def as_known() -> bool:
    """Do some objects that are known look as code reads them?

    Without a GIL, or on 32 bits, objects begin otherwise; NumPy had other dtypes before 2.0.
    """
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or object.__basicsize__ != 16:
        return False
    good = [_word(id(x) + TYPE) == id(type(x)) for x in (1, None, (), _ARRAY)]
    good += [_word(id(kind) + FLAGS) == kind.__flags__ for kind in (int, tuple, np.ndarray)]
    good += [bool(kind.__flags__ & TUPLE_SUBCLASS) == (kind is tuple) for kind in (int, tuple, np.ndarray)]
    items = (1, "b", None)
    good += [TUPLE_SIZE < tuple_items() <= tuple.__basicsize__, _word(id(items) + TUPLE_SIZE) == len(items)]
    first = tuple_items()
    return all(good) and all(_word(id(items) + first + 8 * k) == id(x) for k, x in enumerate(items)) and _arrays()


_ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)


def _arrays() -> bool:
    """The same of arrays, which are long enough to be looked at."""
    if np.ndarray.__basicsize__ < DESCR + 8 or np.dtype.__basicsize__ < SIZE + 8:
        return False
    for array in (_ARRAY, _ARRAY[1], _ARRAY[2:]):
        at, dimensions = id(array), _word(id(array) + DIMENSIONS)
        if _word(at + DATA) != array.__array_interface__["data"][0] or _word(at + DESCR) != id(array.dtype):
            return False
        if ctypes.c_int.from_address(at + AXES).value != array.ndim:
            return False
        if _word(at + DIMENSIONS + 8) != dimensions + 8 * array.ndim:  # the strides; else that may be no address
            return False
        if [_word(dimensions + 8 * k) for k in range(array.ndim)] != list(array.shape):
            return False
    kinds = [np.dtype(name) for name in ("f4", "f8", "i1", "u2", "i8", "c16", "bool")]
    letters = [ctypes.c_char.from_address(id(kind) + KIND).value for kind in kinds]
    sizes = [_word(id(kind) + SIZE) for kind in kinds]
    return letters == [kind.kind.encode() for kind in kinds] and sizes == [kind.itemsize for kind in kinds]


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
