"""Lists of arrays: read natively where the build allows it, else in plain Python, with equal results."""

from typing import cast

import numpy as np

from ..arrays import Array, frozen, library_of_type
from ..errors import BATCH
from ..launch.kernel import kernel
from . import objects
from .objects import HEAD, TUPLE

scan_flags = kernel("scan_flags")
scan_list = kernel("scan_list")

_works: bool | None = None


def _native_layout() -> bool:
    """Tell whether `scan_list` reads the objects of this build, tried with some known arrays."""
    if not objects.READABLE or np.ndarray.__basicsize__ < HEAD + 52:
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


def _scan(items: tuple[object, ...]) -> tuple[Array, Array] | None:
    found = _read(items)
    return None if found is None else (found[0], found[2])


def _read(items: tuple[object, ...]) -> tuple[Array, Array, Array, int] | None:
    n = len(items)
    table: Array = np.empty(3 * n + 1, np.int64)
    lengths, offsets, addresses = table[:n], table[n : 2 * n + 1], table[2 * n + 1 :]
    longest = scan_list.run(id(items) + TUPLE, HEAD, id(np.ndarray), lengths, offsets, addresses)
    table.setflags(False)
    return None if longest < 0 else (lengths, offsets, addresses, longest)


def read(items: tuple[object, ...]) -> tuple[Array, Array, Array, int] | None:
    """Lengths, offsets, addresses and the greatest length of plain arrays alike, where they can be read natively.

    They are C-contiguous, of one library, device, dtype and item shape, and want no gradient; None for others.
    """
    global _works
    if not items:
        return None
    first = items[0]
    if type(first) is not np.ndarray:
        library = library_of_type(type(first))
        found = None if library is None else library.read(items)
        if library is None or found is None:
            return None
        frozen(found[0])
        wanted = found[4] and library.wants_grad(cast("tuple[Array, ...]", items))
        return None if wanted else found[:4]
    if first.dtype.hasobject:
        return None
    if _works is None:
        _works = _native_layout()
    return _read(items) if _works else None


def scan(items: tuple[object, ...]) -> tuple[Array, Array] | None:
    """(lengths, addresses) of plain C-contiguous arrays of one library, device, dtype and item shape, else None."""
    if not items:
        return None
    if type(items[0]) is np.ndarray:
        found = read(items)
        return None if found is None else (found[0], found[2])
    library = library_of_type(type(items[0]))
    if library is None:
        return None
    native = library.read(items)
    return library.scan(items) if native is None else (native[0], native[2])


def common_flags(items: tuple[object, ...]) -> int:
    """The flags, as numbers in the C interface, that all of some NumPy arrays have; TypeError for others."""
    global _works
    if not items:
        return -1
    if _works is None:
        _works = _native_layout()
    if _works:
        found = int(scan_flags.run(id(items) + TUPLE, len(items), HEAD, id(np.ndarray)))
        if found >= 0:
            return found
    common = -1
    for item in items:
        if not isinstance(item, np.ndarray):
            raise BATCH(f"a {type(item).__name__} is no array of NumPy")
        common &= item.flags.num
    return common
