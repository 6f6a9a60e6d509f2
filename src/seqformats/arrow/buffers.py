"""Contents of the buffers of an array of Arrow, after a look at whether they can lie there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, DType, Shape
from ..errors import BROKEN, DTYPE, ITEMS
from ..formats.ragged import gather_rows
from ..formats.structure import Structure
from ..memory_checks import NO_ROOM, no_room
from .kinds import KIND_BITS, KIND_NULLS, Column, DataType, as_numpy, kind_of, library

_UINT8 = np.dtype(np.uint8)


class Some(NamedTuple):
    """Entries of an array: `size` of them from `first` on; or runs that begin at `starts`; or single ones at `where`.

    Those that are not `present` are null, whatever the array says of them.
    """

    array: Column
    first: int
    size: int
    starts: Array | None = None
    runs: Structure | None = None
    where: Array | None = None
    present: Array | None = None

    @property
    def in_one_piece(self) -> bool:
        """Tell whether they lie side by side."""
        return self.runs is None and self.where is None

    def places(self) -> Array | slice:
        """The places of the entries."""
        if self.where is not None:
            return self.where
        if self.runs is None or self.starts is None:
            return slice(self.first, self.first + self.size)
        runs = self.runs
        try:
            return np.repeat(self.starts - runs.offsets[:-1], runs.lengths) + np.arange(runs.rows)
        except NO_ROOM as error:
            raise no_room((runs.rows,), error) from None


def numbers(buffer: Any, dtype: DType, first: int, count: int, what: str) -> Array:
    """Numbers of a buffer, over its memory, after a look at whether it has so many."""
    size = 0 if buffer is None else buffer.size
    if first < 0 or count < 0 or (first + count) * dtype.itemsize > size:
        if count == 0:
            return np.empty(0, dtype)
        raise BROKEN(
            f"the buffer of the {what} has {size} bytes, but {count} of {dtype.itemsize} bytes from {first} on need "
            f"{(first + count) * dtype.itemsize}"
        )
    if count == 0:
        return np.empty(0, dtype)
    data = np.frombuffer(buffer, dtype, count, first * dtype.itemsize)
    if data.flags.writeable:
        data.flags.writeable = False
    return data


def offsets_of(some: Some, dtype: DType) -> Array:
    """One offset more than there are entries: of those in one piece, else of the whole array."""
    array = some.array
    first, count = (some.first, some.size) if some.in_one_piece else (0, len(array))
    if count == 0:
        return np.zeros(1, dtype)
    return numbers(array.buffers()[1], dtype, array.offset + first, count + 1, "offsets")


def bytes_of(buffer: Any) -> Array:
    """The bytes of a buffer, over its memory."""
    return numbers(buffer, _UINT8, 0, 0 if buffer is None else buffer.size, "bytes")


def bits(buffer: Any, first: int, count: int, what: str) -> Array:
    """Bits as bools."""
    begin, shift = divmod(first, 8)
    packed = numbers(buffer, _UINT8, begin, -(-(shift + count) // 8), what)
    return np.unpackbits(packed, count=shift + count, bitorder="little")[shift:].view(bool)


def bits_set(array: Column, first: int, count: int) -> Array | None:
    """Tell which of some entries are there, by the array itself; None where all are."""
    buffers = array.buffers()
    if not count or not buffers or buffers[0] is None:
        return None
    there = bits(buffers[0], array.offset + first, count, "validity")
    return None if there.all() else there


def present_of(some: Some) -> Array | None:
    """Tell which entries are there; None where all are."""
    array = some.array
    if kind_of(array.type).what == KIND_NULLS:
        return np.zeros(some.size, bool)
    if some.in_one_piece:
        there = bits_set(array, some.first, some.size)
    else:
        there = bits_set(array, 0, len(array))
        there = None if there is None else there[some.places()]
    if some.present is None:
        return there
    return some.present if there is None else some.present & there


def items_of(array: Column, first: int, count: int) -> Array:
    """Plain items as an array of NumPy, over their memory where they lie as they do there."""
    what, dtype = kind_of(array.type)
    buffer = array.buffers()[1]
    if what == KIND_BITS:
        return bits(buffer, array.offset + first, count, "items")
    return as_numpy(numbers(buffer, dtype, array.offset + first, count, "items"), array.type)


def rows_of(some: Some, data: Array, item: Shape) -> Array:
    """The rows of an array that stand for some entries: those of the entries alone, or of the whole array."""
    if some.in_one_piece:
        return data if len(data) == some.size else data[some.first : some.first + some.size]
    if some.where is not None:
        return np.take(data, some.where, 0)
    assert some.runs is not None
    assert some.starts is not None
    rows: Array = gather_rows(NUMPY, np.ascontiguousarray(data), item, some.runs, some.starts).data
    return rows


def nulls(type: DataType) -> Column:
    """One entry that is null; TypeError for a type of which Arrow makes none."""
    pa = library()
    try:
        return pa.nulls(1, type)
    except pa.ArrowException as error:
        raise DTYPE(f"an empty dictionary of {type} is not read here: {error}") from None


def single_bytes(array: Column) -> Column:
    """The bytes of binary values of one size, as an array of their own."""
    pa = library()
    buffer = array.buffers()[1]
    return pa.Array.from_buffers(pa.uint8(), 0 if buffer is None else buffer.size, [None, buffer])


def storage_of(array: Column) -> Column:
    """Return the array in which an extension type keeps its data; of fixed-shape tensors as lists, a level an axis."""
    storage = array.storage
    if array.type.extension_name != "arrow.fixed_shape_tensor":
        return storage
    pa, shape = library(), array.type.shape
    order = array.type.permutation
    if order is not None and list(order) != sorted(order):
        raise ITEMS(f"tensors whose axes are permuted, {order}, are not read here; permute them after reading")
    _check_fixed(storage)
    made, counts = storage.values, [storage.offset + len(storage)]
    for k in shape[:-1]:
        counts.append(counts[-1] * k)
    for k, count in zip(reversed(shape[1:]), reversed(counts[1:]), strict=True):
        made = pa.Array.from_buffers(pa.list_(made.type, k), count, [None], children=[made])
    buffers = storage.buffers()
    return pa.Array.from_buffers(
        pa.list_(made.type, shape[0]), len(storage), buffers[:1], offset=storage.offset, children=[made]
    )


def _check_fixed(array: Column) -> None:
    """StructureError where a fixed-size list array is shorter than its lists need."""
    need = (array.offset + len(array)) * array.type.list_size
    if need > len(array.values):
        raise BROKEN(f"{need} items are needed, but there are {len(array.values)}")
