"""Stands for the extension where there is none: nothing is known, and Python does everything.

`build_structure` and `make_object` do in Python what those of the extension do.
"""

from __future__ import annotations

import array
import ctypes
import operator
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

NAMES: tuple[str, ...] = ()
PROVIDES = (
    "Bags",
    "Calculate",
    "Conversion",
    "Entry",
    "Spread",
    "address_of",
    "asks_nothing",
    "concat",
    "data_alike",
    "interleave",
    "is_plain",
    "lay_out",
    "map_items",
    "move_by_kernel",
    "repeat",
    "scan_arrays",
    "start",
    "build_structure",
)
"""Names that an extension of these sources has."""


def nothing(*_: object) -> Any:
    """Leave it to Python."""
    return None


construct = fill_list = list_of = is_unchanged = pick = repeat = lay_out = move_by_kernel = nothing
concat = interleave = start = is_plain = data_alike = asks_nothing = map_items = address_of = nothing
scan_arrays = common_flags = read_numbers = write_numbers = nothing
use_kernel = use_at_most = use_torch = switch = nothing
_classes: dict[str, Any] = {}


def use_encodings(encodings: Sequence[type], structure: type, order: type) -> None:
    """Note the class of structures."""
    _classes["structure"] = structure


def build_structure(run: Callable[..., Any], n: int, extra: int, *args: Any) -> tuple[Any, np.ndarray, int]:
    """Have a kernel write n lengths, n + 1 offsets and so many more numbers into a table, which is its last argument.

    Returns the structure, None where the kernel returns a negative number; the other numbers; and what it returns, the
    greatest length.
    """
    table: np.ndarray = np.empty(2 * n + 1 + extra, np.int64)
    longest = int(run(*args, table))
    table.setflags(write=False)
    made = None if longest < 0 else _classes["structure"](table[:n], table[n : 2 * n + 1], longest)
    return made, table[2 * n + 1 :], longest


def make_object(kind: type[T], **slots: object) -> T:
    """Make an object of a frozen dataclass with these slots, without its constructor."""
    made = object.__new__(kind)
    for name, value in slots.items():
        object.__setattr__(made, name, value)
    return made


def knows_dtype(dtype: object) -> bool:
    """Tell that no fast path knows any dtype."""
    return False


class Entry:
    """A kernel as a function of arrays of NumPy, numbers and named tuples of these; see `native.code`.

    Parameters
    ----------
    address : int
        Where its machine code is.
    kinds : tuple of int
        What its arguments are, see `native.signature.kinds_of`.
    gives : int
        How many integers it gives; several come as a tuple.
    limit : int
        Bytes of arrays from which on other threads run meanwhile.
    """

    def __init__(self, address: int, kinds: tuple[int, ...], gives: int, limit: int) -> None:
        self.kinds, self.gives, self.limit = kinds, gives, limit
        kept, freely = (make(ctypes.c_int64, ctypes.c_void_p) for make in (ctypes.PYFUNCTYPE, ctypes.CFUNCTYPE))
        self._ways = kept(address), freely(address)

    def __call__(self, *args: Any) -> Any:
        """Run it; TypeError for what it was not compiled for."""
        words: list[int] = []
        size, left = 0, iter(self.kinds)
        for x in args:
            size += _put(x, left, words)
        if next(left, None) is not None:
            raise TypeError(_NOT_COMPILED)
        block = array.array("q", [*words, *[0] * self.gives])  # with room for what it gives
        found = self._ways[size >= self.limit](block.buffer_info()[0])
        ctypes.pythonapi.PyErr_Occurred()  # ctypes raises what a kernel that checks its indices has set
        if self.gives < 2:
            return found if self.gives else None
        return tuple(block[: self.gives])


_NOT_COMPILED = "a kernel was given what it was not compiled for"
_INTEGER, _REAL, _ARRAY = range(3)


def _put(x: Any, left: Iterator[int], words: list[int]) -> int:
    """Write an argument one word after the other; the bytes of its arrays."""
    kind = next(left, -1)
    what = kind & 3
    if kind < 0:
        raise TypeError(_NOT_COMPILED)
    if what == _ARRAY:
        facts = kind >> 18, kind >> 10 & 255, chr(kind >> 2 & 255)
        if type(x) is not np.ndarray or (x.ndim, x.itemsize, x.dtype.kind) != facts:
            raise TypeError(_NOT_COMPILED)
        words += [x.__array_interface__["data"][0], *x.shape]
        return x.nbytes
    if what == _REAL:
        words += struct.unpack("q", struct.pack("d", x))
    elif what == _INTEGER:
        words.append(operator.index(x))
    else:
        if not isinstance(x, tuple) or len(x) != kind >> 2:
            raise TypeError(_NOT_COMPILED)
        return sum([_put(part, left, words) for part in x])
    return 0


class Calculate:
    """Stands for an operation without a fast path."""

    twin: Callable[..., Any]
    """The operation in Python."""

    def __init__(self, numbers: object = (), **options: object) -> None:
        pass

    enter = add = forget = let_default = allow = convert = staticmethod(nothing)

    def run(self, *args: Any) -> Any:
        """Return the result of `twin`."""
        return self.twin(*args)

    @staticmethod
    def knows(*dtypes: object) -> bool:
        """Tell that there is nothing to be told."""
        return True


Spread = Conversion = Calculate


class Bags:
    """Stands for embedding bags without a fast path."""

    sums = largest = slopes = Calculate()
    enter = back = staticmethod(nothing)
