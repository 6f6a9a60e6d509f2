"""The order of the items of every sequence, column by column: what sorting and its relatives are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, DType, Library, library_of
from ..arrays.dtypes import same
from ..formats import Encoding
from ..launch.kernel import kernel
from ..layout import SHORT
from ..memory_checks import remember
from .calculation import rows_like, scratch
from .choices import Order
from .pieces import Job, are_long, order_parts

order_rows = kernel("order_rows")

_INFINITY = {
    "float16": (0x7FFF, 0x7C00),
    "bfloat16": (0x7FFF, 0x7F80),
    "float32": (0x7FFFFFFF, 0x7F800000),
    "float64": (0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
}
"""Of floats: the bits that are no sign, and those of infinity, beyond which NaN are."""
_WITHOUT_SIGN = (-1 << 63, 0)
"""Of uint64: what makes a signed integer of it that has the same order."""
WANT_VALUES, WANT_PLACES, WANT_BOTH = 1, 2, 3
"""What is wanted of the kernel."""


def order(x: Encoding, to: Encoding, falling: bool, nans: bool = False, wanted: int = WANT_BOTH) -> tuple[Array, Array]:
    """The items of every sequence in order, column by column, and their places, int64, laid out as `to`.

    `to` has as many of them as it has rows; its data need not be there, but it is in blocks, or by the steps of `x`.
    NaN comes last, or with `nans` first; of equal items the first comes first.  What is not wanted has no items.
    """
    kind, structure, item = type(x.data), x._structure, x._shape[x._lead :]
    library = NUMPY if kind is np.ndarray else library_of(x.data)
    plan = plans.get((kind, x._dtype)) or prepare(library, kind, x._dtype)
    cast, signed, form = plan
    data = library.alias(x.data)
    if cast is not None:
        data = library.astype(data, cast)
    ints = data if signed is None else library.align(data).view(signed)
    width = math.prod(item)
    rows = structure.bound if structure.late else structure.rows
    size = 2 * rows * width
    room = scratch(library, (2 * size,), "int64", data)
    keys, none = room[:size], (0, *item)
    values = (
        rows_like(library, to, item, ints.dtype, data)
        if wanted & WANT_VALUES
        else library.empty(none, ints.dtype, data)
    )
    places = rows_like(library, to, item, library.dtype("int64"), data) if wanted & WANT_PLACES else keys[:0]
    if width and structure.n and (to._structure.late or to._structure.rows):
        made = values, places, keys, room[size:]
        args = (x._layout(), to._layout(), Order(*form, falling + 2 * nans, wanted))
        if are_long(library, structure, ints):
            order_parts(Job(order_rows, library, (ints,), made, args, width, structure), to._structure)
        else:
            order_rows.start(library, (ints,), made, args, width, structure)
    return values if signed is None else values.view(data.dtype), places


def wants_order(library: Library, x: Encoding) -> bool:
    """Tell whether `in_order` is quicker than a kernel that compares each item with all others."""
    return x._structure.longest > SHORT and library.kind(x.data) == "cuda"


def in_order(x: Encoding, places: bool) -> tuple[Array, Array]:
    """The items of every sequence in order, NaN last, and if they are wanted their places, both laid out as `x`."""
    return order(x, x, False, wanted=WANT_BOTH if places else WANT_VALUES)


plans: dict[Any, tuple[str | None, Any, tuple[int, int]]] = {}


def prepare(library: Library, kind: type, dtype: DType) -> tuple[str | None, Any, tuple[int, int]]:
    """For a dtype: into which it is cast first, as which integers the kernel takes it, None for bools, and its form."""
    name = library.dtype_name(dtype)
    same(name)
    cast = None if getattr(dtype, "isnative", True) else name
    size, signed = library.itemsize(dtype), None
    if name != "bool":
        signed = library.dtype(f"int{8 * size}" if name[0] != "u" or size == 8 else name)
    form = _INFINITY.get(name) or (_WITHOUT_SIGN if name == "uint64" else (0, 0))
    return remember(plans, (kind, dtype), (cast, signed, form))
