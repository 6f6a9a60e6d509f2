"""A column of Arrow as levels and items.

Nothing that a column says of itself is believed: offsets, sizes and the ends of buffers are looked at before anything
follows them, here and not in Arrow, most of whose functions trust them.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, DType, Shape, freeze
from ..errors import BROKEN, DTYPE, EXACT, NULLS, ConversionError, StructureError, quote
from ..formats.ragged import Ragged
from ..formats.rows import lay_out
from ..formats.structure import Structure
from ..layout import Layout
from ..memory_checks import allocate
from .buffers import (
    Some,
    bits_set,
    bytes_of,
    items_of,
    nulls,
    numbers,
    offsets_of,
    present_of,
    rows_of,
    single_bytes,
    storage_of,
)
from .kinds import (
    KIND_BYTE_VIEWS,
    KIND_BYTES,
    KIND_DICTIONARY,
    KIND_FIXED_BYTES,
    KIND_FIXED_LISTS,
    KIND_LIST_VIEWS,
    KIND_LISTS,
    KIND_NULLS,
    KIND_OTHER,
    KINDS_OF_ITEMS,
    Column,
    are_items,
    is_extension,
    kind_of,
    readable,
)

MISSING_RAISE, MISSING_EMPTY = "raise", "empty"


class Part(NamedTuple):
    """Contents of a column, or of a chunk of it."""

    levels: list[Structure]  # outermost first
    data: Array


class Reader:
    """One chunk on its way in: what has been read so far, and what null lists and items become."""

    def __init__(self, missing: str, items: object, before: int = 0, shaped: bool = False) -> None:
        self.missing = missing
        self.items = items
        self.before = before  # rows in the chunks before this one
        self.shaped = shaped  # is a list of one size a row with a shape, also where it is in no other list?
        self.levels: list[Structure] = []

    def read(self, array: Column) -> Part:
        """All levels, and the items."""
        some = Some(array, 0, len(array))
        while True:
            array = some.array
            what, dtype = kind_of(array.type)
            if what == KIND_LISTS:
                some = self.lists(some, array.values, dtype)
            elif what == KIND_NULLS and not self.levels:
                self.without_nulls(some)
                self.levels.append(Structure.of_lengths(np.zeros(some.size, np.int64)))
                return Part(self.levels, np.zeros(0))
            elif what in KINDS_OF_ITEMS or (
                what in (KIND_FIXED_LISTS, KIND_FIXED_BYTES, KIND_OTHER) and self.has_rows and are_items(array.type)
            ):
                return Part(self.levels, self.leaf(some))
            elif what == KIND_BYTES:
                return Part(self.levels, self.bytes(some, dtype))
            elif what == KIND_FIXED_LISTS:
                some = self.read_fixed_size(some, array.values, array.type.list_size)
            elif what == KIND_FIXED_BYTES:
                return Part(
                    self.levels, self.leaf(self.read_fixed_size(some, single_bytes(array), array.type.byte_width))
                )
            elif what == KIND_LIST_VIEWS:
                some = self.views(some, dtype)
            elif what == KIND_BYTE_VIEWS:
                return Part(self.levels, self.byte_views(some))
            elif what == KIND_DICTIONARY:
                some = self.entries(some)
            elif is_extension(array.type):
                some = some._replace(array=storage_of(array))
            else:
                raise DTYPE(f"items of {array.type} are not read here{readable(array.type, len(self.levels))}")

    @property
    def has_rows(self) -> bool:
        """Tell whether a row comes next, not a sequence."""
        return self.shaped or bool(self.levels)

    # --- levels ---

    def lists(self, some: Some, values: Column, dtype: DType) -> Some:
        """The items of lists by their offsets."""
        return self.take_within(some, values, len(values), offsets_of(some, dtype))

    def take_within(self, some: Some, values: Column, end: int, offsets: Array) -> Some:
        """Take what lies between offsets, one more than the entries, or than all entries of the array."""
        present = self.without_nulls(some)
        if some.in_one_piece:
            first, last = offsets.item(0), offsets.item(-1)
            if not 0 <= first <= last <= end:
                raise self.lying(offsets[:-1], offsets[1:], end)
            try:
                structure = Structure.of_offsets(np.subtract(offsets, first, dtype=np.int64), "offsets")
            except StructureError:
                raise self.lying(offsets[:-1], offsets[1:], end) from None
            if present is None or not structure.lengths[~present].any():
                self.levels.append(structure)
                return Some(values, first, structure.rows)
            starts, lengths = offsets[:-1].astype(np.int64), structure.lengths
        else:
            where = some.places()
            starts, ends = offsets[:-1][where], offsets[1:][where]
            if present is not None:
                starts, ends = np.where(present, starts, 0), np.where(present, ends, 0)
            if starts.size and not (starts.min() >= 0 and ends.max() <= end and (starts <= ends).all()):
                raise self.lying(starts, ends, end)
            starts, lengths = starts.astype(np.int64), (ends - starts).astype(np.int64)
        return self.in_runs(values, starts, lengths if present is None else np.where(present, lengths, 0))

    def in_runs(self, values: Column, starts: Array, lengths: Array) -> Some:
        """Lists that begin at `starts`, which have been looked at; side by side where they are."""
        structure = Structure.of_lengths(lengths, None, "lengths of lists")
        self.levels.append(structure)
        full = np.flatnonzero(lengths)
        if not full.size:
            return Some(values, 0, 0)
        first = starts.item(int(full[0]))
        if (starts[full] == structure.offsets[full] + first).all():
            return Some(values, first, structure.rows)
        return Some(values, 0, structure.rows, starts, structure)

    def views(self, some: Some, dtype: DType) -> Some:
        """The items of lists that each say where they begin and how long they are."""
        array = some.array
        present = self.without_nulls(some)
        place = some.places()
        starts, sizes = [
            numbers(buffer, dtype, array.offset, len(array), "offsets of views")[place].astype(np.int64)
            for buffer in array.buffers()[1:3]
        ]
        if present is not None:
            starts, sizes = np.where(present, starts, 0), np.where(present, sizes, 0)
        end = len(array.values)
        if ((starts < 0) | (sizes < 0) | (starts > end - sizes)).any():
            raise self.lying(starts, starts + np.minimum(sizes, np.iinfo(np.int64).max - np.maximum(starts, 0)), end)
        return self.in_runs(array.values, starts, sizes)

    def read_fixed_size(self, some: Some, values: Column, size: int) -> Some:
        """The items of lists that are all of one size."""
        array = some.array
        present = self.without_nulls(some)
        if (array.offset + len(array)) * size > len(values):
            raise BROKEN(f"{len(array)} lists of {size} items, from {array.offset} on, do not fit {len(values)} items")
        if some.in_one_piece and present is None:
            lengths = allocate(_sizes, (some.size,), np.int64, size)
            self.levels.append(Structure.of_lengths(lengths))
            return Some(values, (array.offset + some.first) * size, some.size * size)
        place = some.places()
        where = np.arange(place.start, place.stop) if isinstance(place, slice) else place
        lengths = np.full(where.size, size) if present is None else np.where(present, size, 0)
        return self.in_runs(values, (where + array.offset) * size, lengths)

    def bytes(self, some: Some, dtype: DType) -> Array:
        """The bytes of text and of binary values."""
        buffer = some.array.buffers()[2]
        values = bytes_of(buffer)
        some = self.take_within(some, values, values.size, offsets_of(some, dtype))
        return rows_of(some, values, ())

    def byte_views(self, some: Some) -> Array:
        """Read bytes where each value says in which buffer it is, or is short enough to be there itself."""
        array = some.array
        buffers = array.buffers()
        present = self.without_nulls(some)
        raw = numbers(buffers[1], np.dtype("V16"), array.offset, len(array), "views").view(np.int32).reshape(-1, 4)
        place = some.places()
        views = raw[place]
        lengths = views[:, 0].astype(np.int64)
        if present is not None:
            lengths = np.where(present, lengths, 0)
        where = np.arange(place.start, place.stop) if isinstance(place, slice) else place
        addresses = NUMPY.address(raw) + 16 * where + 4
        far = lengths > 12
        parts = [raw, *map(bytes_of, buffers[2:])]
        if far.any():
            number, begin = views[far, 2].astype(np.int64), views[far, 3].astype(np.int64)
            sizes = np.array([part.size for part in parts[1:]] or [0], np.int64)
            known = (number >= 0) & (number < len(parts) - 1)
            ends = np.where(known, sizes[np.where(known, number, 0)], -1)
            if ((begin < 0) | (begin > ends - lengths[far])).any():
                bad = np.flatnonzero(far)[(begin < 0) | (begin > ends - lengths[far])]
                raise BROKEN(f"{self.row(int(bad[0]))} is a view beyond the bytes that there are")
            begins = np.array([NUMPY.address(part) for part in parts[1:]], np.int64)
            addresses[far] = begins[number] + begin
        if (lengths < 0).any():
            raise BROKEN(f"{self.row(int(np.flatnonzero(lengths < 0)[0]))} has a negative length")
        structure = Structure.of_lengths(lengths)
        self.levels.append(structure)
        freeze(addresses)
        at = Layout(addresses, structure.offsets, structure.offsets, -1, 0, 1, 1)
        made = lay_out((NUMPY, tuple(parts), at, structure, np.empty(0, np.uint8), (), None), Ragged)
        data: Array = made.data
        return data

    def entries(self, some: Some) -> Some:
        """Take the entries of a column that says of each value which of a few it is."""
        array = some.array
        held, numbers = array.dictionary, array.indices
        present = present_of(some)
        where = rows_of(some, items_of(numbers, 0, len(numbers)), ())
        if present is not None:
            where = np.where(present, where, 0)
        bad = (where < 0) | (where >= len(held))
        if present is not None:
            bad &= present
        if bad.any():
            i = int(bad.argmax())
            raise BROKEN(f"{self.row(i)} is value {where[i]} of a dictionary of {len(held)}")
        if not len(held):
            held = nulls(held.type)
        return Some(held, 0, some.size, where=where.astype(np.int64), present=present)

    # --- items ---

    def leaf(self, some: Some) -> Array:
        """The items, with their shape."""
        array, present = some.array, some.present
        whole = some if some.in_one_piece else Some(array, 0, len(array))
        begin, count = whole.first, whole.size
        shape: list[int] = []
        known: list[tuple[Array, int]] = []
        as_bool = False
        while True:
            what = kind_of(array.type).what
            mask = bits_set(array, begin, count)
            if mask is not None:
                known.append((mask, len(shape)))
            if what not in (KIND_FIXED_LISTS, KIND_FIXED_BYTES):
                if not is_extension(array.type):
                    break
                as_bool = array.type.extension_name == "arrow.bool8"
                array = storage_of(array)
                continue
            size = array.type.list_size if what == KIND_FIXED_LISTS else array.type.byte_width
            inner = array.values if what == KIND_FIXED_LISTS else single_bytes(array)
            begin, count = (array.offset + begin) * size, count * size
            if begin + count > len(inner):
                raise BROKEN(f"{begin + count} items are needed, but there are {len(inner)}")
            array = inner
            shape.append(size)
        item = tuple(shape)
        if what == KIND_NULLS:
            return self.nothing(some, item)
        data = items_of(array, begin, count)
        if as_bool:
            data = data != 0
        data = rows_of(some, data.reshape(whole.size, *item), item)
        masks = [mask.reshape(whole.size, *item[:k], *(1,) * (len(item) - k)) for mask, k in known]
        masks = [rows_of(some, mask, mask.shape[1:]) for mask in masks]
        if present is not None:
            masks.append(present.reshape(-1, *(1,) * len(item)))
        return self.fill_nulls(data, masks)

    def fill_nulls(self, data: Array, masks: list[Array]) -> Array:
        """The items with something in the place of those that are null."""
        masks = [mask for mask in masks if not mask.all()]
        if not masks:
            return data
        in_rows = [mask.all(tuple(range(1, mask.ndim))) for mask in masks]
        self.has_no_nulls(functools.reduce(np.logical_and, in_rows))
        item = self.value(data.dtype, data.shape[1:])
        return np.where(functools.reduce(np.logical_and, masks), data, item)

    def value(self, dtype: DType, item: Shape) -> Array:
        """Give the value that null items become."""
        try:
            reshaped: Array = NUMPY.item(self.items, dtype, item).view(dtype).reshape(item)
            return reshaped
        except ConversionError as error:
            raise EXACT(str(error).replace("fill", "items", 1)) from None

    def has_no_nulls(self, there: Array) -> None:
        """StructureError where items are null and nothing has been given for them."""
        if isinstance(self.items, str) and self.items == MISSING_RAISE:
            i = int((~there).argmax())
            count = int((~there).sum())
            what = "items are" if count > 1 else "item is"
            raise NULLS(
                f"{count} {what} null, the first of them in {self.row(i)}; items=0, say, gives what they become"
            )

    def nothing(self, some: Some, item: Shape) -> Array:
        """Items of no type, all of which are null."""
        if some.size == 0:
            return np.zeros((0, *item))
        self.has_no_nulls(np.zeros(some.size, bool))
        try:
            value = np.asarray(self.items)
        except ValueError:
            value = np.empty((), object)
        if value.shape not in ((), item) or value.dtype.hasobject:
            raise EXACT(f"items must be one value or one item of shape {item}, not {quote(self.items)}")
        return allocate(_full, (some.size, *item), value.dtype, value)

    # --- what is null ---

    def without_nulls(self, some: Some) -> Array | None:
        """Tell which lists are there, None for all; StructureError where that is not what the caller takes."""
        present = present_of(some)
        if present is None or present.all():
            return None
        if self.missing == MISSING_RAISE:
            count = int((~present).sum())
            what = "sequences are" if count > 1 else "sequence is"
            raise NULLS(
                f'{count} {what} null, the first of them {self.row(int((~present).argmax()))}; missing="empty" makes '
                "them empty"
            )
        return present

    def row(self, i: int) -> str:
        """Entry i of what is inside the levels read so far, for a message: by the row of the column."""
        for structure in reversed(self.levels):
            i = int(np.searchsorted(structure.offsets, i, side="right")) - 1
        return f"row {self.before + i}"

    def lying(self, starts: Array, ends: Array, end: int) -> StructureError:
        """The error for lists that lie where no items are, or end before they begin."""
        bad = (starts < 0) | (ends > end) | (starts > ends)
        i = int(bad.argmax())
        where = f"from {starts[i]} to {ends[i]}"
        return BROKEN(f"{self.row(i)} goes {where}, but there are {end} items; offsets must never fall nor leave them")


def _sizes(shape: Shape, dtype: DType, size: Any) -> Array:
    return np.full(shape, size, dtype)


def _full(shape: Shape, dtype: DType, value: Any) -> Array:
    return np.full(shape, value, dtype)


def join_parts(parts: list[Part]) -> Part:
    """The chunks of a column as one part."""
    if len(parts) == 1:
        return parts[0]
    levels = [
        Structure.of_lengths(np.concatenate([part.levels[k].lengths for part in parts]))
        for k in range(len(parts[0].levels))
    ]
    return Part(levels, np.concatenate([part.data for part in parts]))
