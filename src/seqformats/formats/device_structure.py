"""The structure of a batch whose offsets are on a device, and come to the host when somebody there asks for them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..arrays import Array, Library, adopt, is_array, library_of
from ..errors import ARGUMENT, DTYPE, LENGTHS, LONG, ROWS, SHAPE, WHOLE
from ..launch.kernel import Work, kernel, launcher
from ..layout import Layout
from .annotations import Shaped
from .structure import Structure, integers, whole

add_lengths, count_true = kernel("add_lengths"), kernel("count_true")


class LateStructure(Structure):
    """A structure of which the host knows how many sequences there are and how long they are at most.

    Kernels on the device find the offsets there, by `flat`, whose arrays are memory of the host that nobody has filled
    yet.  Whoever asks for `lengths`, `offsets`, the order, or `rows` where nobody has said them, waits for the copy,
    which fills that memory.  It is checked then, and not before.
    """

    __slots__ = ("_arrived", "_rows", "_there", "bound", "late")

    _arrived: Structure
    bound: int  # the rows, or as many as there may be
    late: bool

    def __init__(self, library: Library, there: Array, longest: int, rows: int | None) -> None:
        host: Array = np.zeros(there.shape[0], np.int64)
        self.n, self.longest, self.stable = host.size - 1, longest, True
        self._rows, self.bound = rows, self.n * longest
        if rows is not None:
            self.rows = self.bound = rows
        host.setflags(False)
        self.flat = Layout(host, host, host, -1, 0, 1, 0)
        self._there = library, there
        self.late = True
        launcher(library.kind(there)).lend(library, self, host, there)

    def __getattr__(self, name: str) -> Any:
        """See `Structure`."""
        if name in ("lengths", "offsets", "rows"):
            return getattr(self.to_host(), name)
        if name == "order":
            self.order = self.to_host().order
            return self.order
        return super().__getattr__(name)

    def to_host(self) -> Structure:
        """Bring all of it to the host; StructureError where the offsets are none, or too long."""
        if not self.late:
            return self._arrived
        library, there = self._there
        found = Structure.of_offsets(library.to_numpy(there).astype(np.int64))
        if found.longest > self.longest:
            raise LONG(f"the longest sequence has {found.longest} rows, but longest is {self.longest}")
        if self._rows is not None and found.rows != self._rows:
            raise ROWS(f"offsets must end with {self._rows}, since data has so many rows, but end with {found.rows}")
        host = self.flat.cum
        # read-only for all others; threads that come at the same time write the same
        ctypes.memmove(host.ctypes.data, found.offsets.ctypes.data, host.nbytes)
        self._arrived, self.lengths, self.offsets, self.rows = found, found.lengths, host[:], found.rows
        self.late = False
        return found

    def serves(self, data: Shaped) -> bool:
        """Tell whether the host's side is still to come, and no encoding over such data wants it."""
        return self.late and (not is_array(data) or library_of(data).kind(data) == "cuda")


def structure_within(
    values: object, what: str, rows: int | None, longest: object, trusted: bool, cumulated: bool
) -> Structure:
    """Make a structure of offsets or lengths: late where they are trusted and on a device, else checked as a whole.

    StructureError for an impossible `longest`, and where what is trusted comes without one.
    """
    if longest is None and trusted:
        raise ARGUMENT("trusted=True needs longest=, as many rows as the longest sequence has, or more")
    limit = None if longest is None else whole(longest, "longest")
    if limit is not None and limit < 0:
        raise ARGUMENT(f"longest must not be negative, but is {limit}")
    if trusted and is_array(values):
        library, given = adopt(values, what)
        if library.kind(given) == "cuda":
            return LateStructure(library, _offsets_there(library, given, what, cumulated), limit or 0, rows)
    numbers = integers(values, what)
    structure = Structure.of_offsets(numbers, what) if cumulated else Structure.of_lengths(numbers, rows, what)
    if limit is not None and structure.longest > limit:
        raise LONG(f"the longest sequence has {structure.longest} rows, but longest is {limit}")
    return structure


def _offsets_there(library: Library, given: Array, what: str, cumulated: bool) -> Array:
    name, shape = library.dtype_name(given.dtype), tuple(given.shape)
    if not name.startswith(("int", "uint")):
        raise WHOLE(f"{what} must be integers, not {name}")
    if len(shape) != 1:
        raise SHAPE(f"{what} must have one axis, but have shape {shape}")
    if cumulated and shape[0] == 0:
        raise LENGTHS(f"{what} must begin with 0; no sequence at all is [0]")
    return library.astype(given, "int64") if cumulated else offsets_of(library, given)


def offsets_of(library: Library, lengths: Array) -> Array:
    """The offsets of lengths that are on a device, there."""
    n, dtype = lengths.shape[0], library.dtype("int64")
    if not n:
        return library.zeros((1,), dtype, lengths)
    if library.dtype_name(lengths.dtype) != "int32":
        lengths = library.astype(lengths, "int64")
    out: Array = library.empty((n + 1,), dtype, lengths)
    add_lengths.start(library, (lengths,), (out,), (), 1, None, Work(1, n))
    return out


def of_mask(library: Library, mask: Array) -> LateStructure:
    """Make the structure of a mask ``(n, width)`` on a device, whose rows have their ones at the same end."""
    n, width = mask.shape
    name, dtype = library.dtype_name(mask.dtype), library.dtype("int64")
    if name not in ("bool", "uint8", "int8", "int32", "int64"):
        raise DTYPE(f"mask must be bool (or 0 and 1), not {name}")
    if name == "int8":
        mask = library.astype(mask, "int32")
    lengths: Array = library.zeros((n,), dtype, mask)
    count_true.start(library, (mask,), (lengths,), (), width, None, Work(n, n))
    return LateStructure(library, offsets_of(library, lengths), width, None)
