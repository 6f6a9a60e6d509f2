"""Lengths as Thinc passes them from layer to layer, as structures of this library.

Thinc's batches hold bare arrays that anybody may write, and every layer gets new batches over the same lengths.  So the
structures of small batches are kept by what the arrays hold: a stack of layers checks and sorts its lengths once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array
from ..errors import EMPTY, LENGTHS, RANGE, ROWS
from ..formats.structure import Structure, integers
from ..memory_checks import remember

_SMALL = 1 << 13
"""Bytes of lengths, up to which a structure is kept."""
_MAX_INT32 = 2**31 - 1
"""What Thinc's lengths and offsets, int32, can count."""

_by_lengths: dict[tuple[str, bytes], Structure] = {}
_by_order: dict[tuple[bytes | str, ...], Structure] = {}


def structure_of(lengths: Array | Sequence[int]) -> Structure:
    """The structure of lengths; ValueError where one is negative, as Thinc has it."""
    if type(lengths) is not np.ndarray:
        lengths = integers(lengths, "lengths")
    key = lengths.dtype.char, lengths.tobytes()
    found = _by_lengths.get(key)
    if found is None:
        numbers = integers(lengths, "lengths")
        if numbers.size and numbers.min() < 0:
            raise LENGTHS(f"all sequence lengths must be >= 0, got {numbers.min()}")
        found = Structure.of_lengths(numbers)
        if lengths.nbytes <= _SMALL:
            remember(_by_lengths, key, found)
    return found


def structure_within(lengths: Array | Sequence[int], rows: int, positive: bool = False) -> Structure:
    """Make a structure of so many rows or more; errors are Thinc's: IndexError, ValueError for impossible lengths."""
    structure = structure_of(lengths)
    if positive and not structure.lengths.all():
        raise EMPTY.as_error(ValueError, "all sequence lengths must be > 0, but one of them is 0")
    if structure.rows > rows:
        raise ROWS.as_error(
            IndexError, f"lengths must sum up to the number of rows, {rows}, but sum up to {structure.rows}"
        )
    return structure


def structure_of_steps(size_at_t: Array, lengths: Array, indices: Array) -> Structure:
    """The structure of a time-major batch, its columns in their order; StructureError where its arrays do not fit."""
    arrays = np.asarray(size_at_t), np.asarray(lengths), np.asarray(indices)
    key = order_key(arrays)
    found = _by_order.get(key)
    if found is None:
        sizes, falling, places = [integers(array, name) for array, name in zip(arrays, _NAMES, strict=True)]
        found = Structure.of_order(falling, places, sizes)
        keep_order(arrays, found)
    return found


def keep_order(arrays: tuple[Array, Array, Array], structure: Structure) -> None:
    """Know a time-major batch by what its arrays hold, when it comes back."""
    key = order_key(arrays)
    if sum(map(len, key)) <= 4 * _SMALL:
        remember(_by_order, key, structure)


def order_key(arrays: tuple[Array, Array, Array]) -> tuple[bytes | str, ...]:
    """Make a key of what the arrays of a time-major batch hold."""
    sizes, lengths, indices = arrays
    kinds = sizes.dtype.char + lengths.dtype.char + indices.dtype.char
    return kinds, sizes.tobytes(), lengths.tobytes(), indices.tobytes()


_NAMES = ("size_at_t", "lengths", "indices")


def int32(numbers: Array) -> Array:
    """Numbers of a structure as Thinc's compiled code takes them: int32, and a copy that it may write."""
    return numbers.astype(np.int32)


def check_count(structure: Structure) -> None:
    """ConversionError for more rows than Thinc's int32 can count."""
    if structure.rows > _MAX_INT32:
        raise RANGE(f"Thinc counts rows in int32, up to {_MAX_INT32}, but there are {structure.rows}")
