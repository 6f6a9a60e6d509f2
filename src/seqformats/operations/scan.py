"""Parts of a linear recurrence: how it goes, its decay, and its kernels forwards and backwards."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, is_array, library_of
from ..converters.convert import restore, rows_of
from ..errors import DTYPE, KIND, SHAPE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Given, Operands
from ..formats.structure import Structure
from ..gradients.operation import Pullback
from ..launch.kernel import kernel
from .calculation import name_of, rows_like
from .companions import (
    NO_FLOATS,
    batch_beside,
    check_beside,
    data_beside,
    floats_for,
    is_number,
    total_of,
)
from .options import number
from .spread import sum_items

recurrence_rows, recurrence_back = kernel("recurrence_rows"), kernel("recurrence_back")

ROWS_PER_SCAN = 1024
"""Rows that go one after the other; what is behind them is found by what they make of zero, see the kernel."""


class Scan(NamedTuple):
    """A recurrence whose arguments are checked: all that is the same forwards and backwards."""

    shape: Encoding  # of the items, without data
    at: Encoding  # the same in one array
    kind: str  # the dtype of the kernel
    name: str  # that of the result
    marks: Array
    ends: Array
    strides: tuple[int, int, int]  # of the decay: by row, by column, by sequence
    back: bool = False
    exclusive: bool = False
    blank: bool = False

    @property
    def item(self) -> tuple[int, ...]:
        """The shape of an item."""
        return self.shape.item_shape

    def numbers(self) -> tuple[Any, ...]:
        """Return the arguments of the kernels between the arrays and the width."""
        return (self.at._layout(), *self.strides, int(self.back), int(self.exclusive), int(self.blank), ROWS_PER_SCAN)

    def forward(self, library: Library, x: Array, decay: Array, initial: Array) -> tuple[Array, Array]:
        """Data of the result in the dtype of the kernel, and the states behind all items, float64."""
        structure, width = self.at._structure, math.prod(self.item)
        out = rows_like(library, self.at, self.item, library.dtype(self.kind), x)
        final = library.empty((structure.n, *self.item), library.dtype("float64"), x)
        given = (x, decay, initial, self.marks, self.ends)
        recurrence_rows.start(library, given, (out, final), self.numbers(), width, structure)
        return out, final

    def backward(
        self, library: Library, dy: Array, dfinal: Array, y: Array, decay: Array, initial: Array, slopes: str
    ) -> tuple[Array, Array, Array]:
        """The gradients of items, of each number's decay in the dtype `slopes`, "" for none, and of initial states."""
        structure, width = self.at._structure, math.prod(self.item)
        dx = rows_like(library, self.at, self.item, library.dtype(self.kind), dy)
        found = NO_FLOATS
        if slopes:
            found = rows_like(library, self.at, self.item, library.dtype(slopes), dy)
        dinitial = library.empty((structure.n, *self.item), library.dtype("float64"), dy)
        given = (dy, y, decay, initial, dfinal, self.marks, self.ends)
        empty = found if slopes else library.empty((0,), library.dtype("float64"), dy)
        made = (dx, empty, dinitial)
        recurrence_back.start(library, given, made, self.numbers(), width, structure)
        return dx, found, dinitial


# --- decays -----------------------------------------------------------------------------------------------------------


class Decay(NamedTuple):
    """A decay as it was given."""

    form: Literal["number", "item", "column", "full"]
    own: Any  # a batch, or an array of shape () or (1, *item); or a number
    gradient: Pullback | None = None
    is_operand: bool = True  # may it have a gradient?

    def strides(self, width: int) -> tuple[int, int, int]:
        """Return how far the decay moves on for a row, a column and a sequence."""
        row, column = {"number": (0, 0), "item": (1, 0), "column": (0, 1), "full": (width, 1)}[self.form]
        return row, column, 0

    def data(self, library: Library, at: Encoding, own: Operands, kind: str) -> Array:
        """Return what a kernel takes, of this decay or of another that is like it."""
        if not self.is_operand:
            return np.array([float(own)])
        name = name_of(own) if isinstance(own, Encoding) else library.dtype_name(own.dtype)
        wanted = "float32" if kind == "float32" and name in ("float16", "bfloat16", "float32") else "float64"
        if isinstance(own, Encoding):
            return data_beside(own, at, wanted)
        return library.astype(own.reshape(-1), wanted)

    def slopes(self, kind: str, width: int) -> str:
        """Find the dtype in which slopes are written, number by number."""
        return kind if self.form == "full" or (self.form == "item" and width == 1) else "float64"

    def collect(self, library: Library, at: Encoding, slopes: Array) -> Any:
        """Make the gradient of the slopes of all numbers."""
        own, item = self.own, tuple(slopes.shape[at._lead :])
        if isinstance(own, Encoding):
            if self.form == "item" and item != own.item_shape:
                slopes = _sums_of_rows(library, slopes, at._lead, math.prod(item))
            rows = slopes.reshape(*slopes.shape[: at._lead], *own.item_shape)
            found = at._with_data(library.astype(rows, library.dtype_name(own._dtype)))
            return restore(found, own)
        width = math.prod(item)
        if not width or not at._structure.n:
            return library.zeros(tuple(own.shape), own.dtype, slopes)
        sums = total_of(sum_items(at._with_data(slopes)))
        if self.form == "number":
            sums = total_of(sums.reshape(width))
        return library.astype(sums.reshape(tuple(own.shape)), library.dtype_name(own.dtype))


def _sums_of_rows(library: Library, x: Array, lead: int, width: int) -> Array:
    """The sums of the numbers of each row, of an array whose first `lead` axes are those of rows."""
    shape = tuple(x.shape[:lead])
    rows = math.prod(shape)
    if not rows or not width:
        return library.zeros(shape, x.dtype, x)
    structure = Structure.of_lengths(np.full(rows, width))
    sums: Array = sum_items(Ragged._freeze(x.reshape(rows * width), structure)).reshape(shape)
    return sums


def decay_of(given: Given, x: Encoding) -> Decay:
    """The decay for items of `x`, checked."""
    if is_number(given):
        return Decay("number", number(given, "decay"), is_operand=False)
    structure, item = x._structure, x.item_shape
    ones = tuple([1] * len(item))
    if is_array(given):
        library, rows = adopt(given, "decay")
        if library is NUMPY and library_of(x._sample()) is not NUMPY:
            rows = library_of(x._sample()).from_host(rows, x._sample())
        else:
            check_beside(rows, x, "decay", "x")
        _check_real(library_of(rows).dtype_name(rows.dtype))
        shape = tuple(rows.shape)
        if shape == ():
            return Decay("number", rows)
        flat: Encoding = Ragged._freeze(rows, structure)
        if shape in ((structure.rows,), (structure.rows, *ones)):
            return Decay("item", flat, rows_of)
        if shape == (structure.rows, *item):
            return Decay("full", flat, rows_of)
        if shape == (1, *item):
            return Decay("column", rows)
        rows_there = structure.rows
        raise SHAPE(
            f"decay has shape {shape}, but must be a number, ({rows_there},) or {(rows_there, *item)} with a row an "
            f"item, or {(1, *item)} for one a column"
        )
    if isinstance(given, (bool, str, bytes)) or given is None:
        raise KIND(f"decay must be a number, an array or a batch, not {quote(given)}")
    found = batch_beside(given, x, "decay", item=None)
    _check_real(name_of(found.own))
    if found.own.item_shape in ((), ones):
        return Decay("item", found.own, found.gradient)
    if found.own.item_shape == item:
        return Decay("full", found.own, found.gradient)
    raise SHAPE(f"decay has items of shape {found.own.item_shape}, which must be () or {item}, that of x")


def _check_real(name: str) -> None:
    if not name.startswith(("float", "bfloat", "int", "uint")):
        raise DTYPE(f"decay must hold real numbers, not {name}")


def initial_of(given: Given, x: Encoding) -> tuple[Any, bool]:
    """The states before all items: an array ``(n, *item)``, or a number; and whether it may have a gradient."""
    if given is None or is_number(given):
        return None if given is None else number(given, "initial"), False
    if not is_array(given):
        raise KIND(f"initial must be a number or an array {(x._structure.n, *x.item_shape)}, not {quote(given)}")
    library, rows = adopt(given, "initial")
    wanted = (x._structure.n, *x.item_shape)
    if tuple(rows.shape) != wanted:
        raise SHAPE(f"initial has shape {tuple(rows.shape)}, but must be a number, or {wanted}, a state per sequence")
    floats_for("initial", library.dtype_name(rows.dtype))
    if library is NUMPY and library_of(x._sample()) is not NUMPY:
        rows = library_of(x._sample()).from_host(rows, x._sample())
    else:
        check_beside(rows, x, "initial", "x")
    return rows, True


def start_of(library: Library, given: Given, x: Encoding) -> Array:
    """Return the initial states as kernels take them; empty for zeros."""
    if given is None:
        return NO_FLOATS
    if is_number(given):
        shape = (x._structure.n * math.prod(x.item_shape),)
        return np.full(shape, float(given)) if given or given != given else NO_FLOATS
    return library.astype(given, "float64")
