"""Thinc's `Ragged` and `Padded` as encodings: once Thinc is there, everything here takes them and gives them back.

Rows are shared.  Thinc's lengths are int32 that may be written, those of this library int64 that may not; so they are
copied, and on the way out they are again as Thinc's compiled code wants them.  Thinc's `Pairs`, a dataclass of two
batches, is a tree of columns like any other.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from thinc.types import Padded as ThincPadded
from thinc.types import Ragged as ThincRagged

from ..arrays import Array
from ..converters.convert import convert
from ..errors import ROWS
from ..formats import Encoding, Padded, Ragged
from ..formats.structure import Structure
from ..registry import conversion
from .structures import check_count, int32, keep_order, structure_of, structure_of_steps

Sequences: TypeAlias = Any
"""Batches between layers: Thinc's `Ragged` or `Padded`, a list of arrays, an array, or an encoding of this library."""


@conversion(ThincRagged, Ragged, shares=True)
def from_ragged(x: ThincRagged) -> Ragged:
    """Take the rows of Thinc's `Ragged` with all their axes, without a copy where they are contiguous."""
    structure = structure_of(x.lengths)
    return over_rows(rows_of_ragged(x, structure), structure)


@conversion(Ragged, ThincRagged, shares=True)
def to_ragged(x: Ragged) -> Any:
    """Give the rows to Thinc, with lengths that it may write."""
    check_count(x._structure)
    return ThincRagged(rows_for_thinc(x), int32(x._structure.lengths))


@conversion(ThincPadded, Padded, shares=True)
def from_padded(x: ThincPadded) -> Padded:
    """Take the rectangle of Thinc's `Padded` with its columns in their order."""
    return over_steps(x.data, structure_of_steps(x.size_at_t, x.lengths, x.indices))


@conversion(Padded, ThincPadded, shares=True)
def to_padded(
    x: Padded, *, fill: object = 0, width: int | None = None, multiple_of: int = 1, truncate: bool = False
) -> Any:
    """Give the rectangle to Thinc, with its structure in arrays that Thinc may write."""
    if width is not None or multiple_of != 1 or truncate or not (type(fill) is int and fill == 0):
        x = convert(x, Padded, fill=fill, width=width, multiple_of=multiple_of, truncate=truncate)
    check_count(x._structure)
    numbers = int32(x.size_at_t), int32(x.lengths), int32(x.indices)
    if x.size_at_t.size == x._structure.order.size_at_t.size:
        keep_order(numbers, x._structure)
    return ThincPadded(rows_for_thinc(x), *numbers)


def rows_of_ragged(x: ThincRagged, structure: Structure) -> Any:
    """The rows of Thinc's `Ragged`; it forgets how many there were where they have no items, lengths do not."""
    item = tuple(x.data_shape[1:])
    if x.data.size or (structure.rows and math.prod(item)):
        return x.dataXd
    return x.data.reshape((structure.rows, *item))


def over_rows(rows: Array, structure: Structure) -> Ragged:
    """A `Ragged` over rows; StructureError where they are not as many as the lengths say."""
    if type(rows) is not np.ndarray or not rows.flags.c_contiguous or rows.dtype.hasobject:
        return Ragged(rows, structure.lengths)
    if rows.shape[0] != structure.rows:
        raise ROWS(f"lengths add up to {structure.rows}, but data has {rows.shape[0]} rows")
    return Ragged._freeze(rows, structure)


def over_steps(data: Array, structure: Structure) -> Padded:
    """A `Padded` over a rectangle; StructureError where it is none for this structure."""
    order = structure.order
    plain = type(data) is np.ndarray and data.flags.c_contiguous and not data.dtype.hasobject and data.ndim >= 2
    if plain and data.shape[:2] == (order.size_at_t.size, structure.n):
        return Padded._freeze(data, structure, data.shape[0])
    return Padded(data, order.size_at_t, order.lengths, order.indices)


def rows_for_thinc(x: Encoding) -> Any:
    """The data of an encoding, after a look; of a bare ``[]``, float32 of width 0, as Thinc has it."""
    x._look()
    data: Any = x.data
    if not len(x) and not x.item_shape and type(data) is np.ndarray and data.dtype == np.float64:
        return np.zeros((*data.shape, 0), np.float32)
    return data
