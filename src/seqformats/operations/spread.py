"""Rows to their sequences and back: what the gradients of reductions are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from .. import core
from ..arrays import Array, Library, library_of
from ..arrays.dtypes import Dtypes, means, same, sums
from ..converters.convert import convert
from ..formats import Encoding, Ragged
from ..formats.call_plans import by_plan
from ..formats.leaves import without_data
from ..gradients.operation import Back, Pullback, linear
from ..launch.kernel import Work, kernel
from . import pieces
from .annotations import E
from .calculation import Calculation, Spreading, in_one_array, layout_for, name_of
from .reduction import MODE_MEAN, MODE_SQRT, MODE_SUM

repeat_rows, end_rows = kernel("repeat_rows"), kernel("end_rows")

sums_of = [
    Calculation("sum_rows", sums if mode == MODE_SUM else means, mode, long=pieces.sum_parts)
    for mode in (MODE_SUM, MODE_MEAN, MODE_SQRT)
]
"""The sums, means and sums over the root of the length of an encoding, by their mode."""
_spread_rows = {mode: Spreading("spread_rows", mode) for mode in (MODE_MEAN, MODE_SQRT)}
_repeat = Spreading("repeat_rows", moves=True)

repeating = core.Spread(moves=True)
"""The fast path of `repeat_items`."""


def sum_items(x: Encoding, mode: int = MODE_SUM) -> Array:
    """``(n, *item)``: the sums (means, ...) of an encoding, outside of any autograd graph."""
    rows: Array = sums_of[mode](x)
    return rows


def spread(rows: Array, shape: Encoding, mode: int = MODE_SUM) -> Encoding:
    """Every row of a sequence gets the sequence's own row of `rows`, scaled; laid out as `shape`, and in the graph."""
    library = library_of(rows)
    if library.autograd and library.wants_grad((rows,)):
        return linear(lambda z: spread(z, shape, mode), lambda dz: sum_items(dz, mode), rows)
    return repeat_items(library, rows, shape) if mode == MODE_SUM else _spread_rows[mode](shape, rows)


def repeat_items(library: Library, rows: Array, shape: E, out: Array | None = None) -> E:
    """Row i of an array, to every item of sequence i, laid out as `shape`; any dtype."""
    if out is None:
        y: Any = _repeat(shape, rows)
        repeat_rows.teach(repeating, (rows.dtype,), rows.dtype)
        return cast(E, y)
    item = rows.shape[1:]
    _repeat.start(library, (rows,), out, layout_for(shape, item, rows.dtype), math.prod(item), None)
    return shape._with_data(out)


def as_places(name: str) -> Dtypes:
    """Compare items that have an order, and write int64."""
    return Dtypes(same(name).taken, "int64", "int64")


_find = Calculation("find_rows", as_places, long=pieces.find_parts)


def places_of(x: Encoding, values: Array) -> Array:
    """int64 ``(n, *item)``: where the first item stands that equals the sequence's own of `values`, -1 for none."""
    places: Array = _find(x, values, finish=False)
    return places


def items_at(x: Encoding, places: Array, sequences: Array) -> Array:
    """Row j, column by column: the item at ``places[j]`` of sequence ``sequences[j]``, zero where that is -1."""
    r = convert(x, Ragged)
    library, item = library_of(r.data), r.item_shape
    width = math.prod(item)
    where = library.to_numpy(places).reshape(len(sequences), width)
    if not r.rows or not where.size:
        return library.zeros((len(sequences), *item), r.dtype, r.data)
    flat = (r.offsets[sequences][:, None] + where) * width + np.arange(width)
    chosen = library.take(r.data.reshape(-1), np.where(where < 0, 0, flat).reshape(-1), 0)
    vacant = np.flatnonzero(where.reshape(-1) < 0)
    if vacant.size:
        library.overwrite(chosen, vacant, 0)
    reshaped: Array = chosen.reshape(len(sequences), *item)
    return reshaped


class _AtEnd:
    """The first (last) item of every sequence, zeros for an empty one."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.path = core.Calculate((last, 0), moves=True)
        self.back = core.Spread((last, 1), moves=True, cleared=True, alike=True)
        """That of `placed_at_end`."""

    def __call__(self, x: Encoding, finish: bool = True) -> Array:
        """``(n, *item)``."""
        library, data, at, structure, sample, item, _ = x._read()
        n, dtype = structure.n, sample.dtype
        out: Array = library.empty((n, *item), dtype, sample)
        row = math.prod(item) * dtype.itemsize
        end_rows.start(library, (data,), (out,), (at, self.last, 0), row, structure, Work(n, n))
        end_rows.teach(self.path, (dtype,), dtype)
        return out


items_at_end = _AtEnd(0), _AtEnd(1)


def placed_at_end(rows: Array, shape: Encoding, last: int) -> Encoding:
    """The way back: zeros but for the first (last) item of every sequence."""
    y: Encoding = shape._with_data(
        by_plan(shape, (rows,), ("end", last, rows.dtype, rows.shape), _placed_at_end, rows, shape, last)
    )
    end_rows.teach(items_at_end[last].back, (rows.dtype,), rows.dtype)
    return y


def _placed_at_end(rows: Array, shape: Encoding, last: int) -> Array:
    """The data of `placed_at_end`."""
    library, item, structure = library_of(rows), rows.shape[1:], shape._structure
    at = layout_for(shape, item, rows.dtype)
    out = library.zeros((*at._shape[: at._lead], *item), rows.dtype, rows)
    row, n = library.itemsize(rows.dtype) * math.prod(item), structure.n
    end_rows.start(library, (rows,), (out,), (at._layout(), last, 1), row, structure, Work(n, n))
    return out


# --- the gradients of reductions --------------------------------------------------------------------------------------


def sum_pullback(mode: int) -> Callable[[Encoding, Array], Pullback]:
    """For sums, means and what else the kernel of sums has as a mode."""

    def pullback(x: Encoding, _: Array) -> Pullback:
        shape = without_data(x)
        return Back(lambda rows: spread(rows, shape, mode), path, shape)

    path = (_repeat if mode == MODE_SUM else _spread_rows[mode]).path
    return pullback


spread_places = Spreading("spread_places", laid=[False, False])


def extreme_pullback(x: Encoding, values: Array) -> Pullback:
    """For the largest or the least: the first of equal items gets all."""
    places, shape = places_of(x, values), without_data(x)
    each = np.arange(x._structure.n)

    def place(rows: Array) -> Encoding:
        return spread_places(shape, rows, places)

    def pullback(dy: Array) -> Any:
        return linear(place, lambda dz: items_at(dz, places, each), dy)

    return Back(pullback, spread_places.path, shape, places)


def end_pullback(last: int) -> Callable[[Encoding, Array], Pullback]:
    """For the first or the last item."""

    def pullback(x: Encoding, _: Array) -> Pullback:
        shape = without_data(x)
        return Back(lambda dy: linear(lambda rows: placed_at_end(rows, shape, last), taken, dy), taken.back, shape)

    taken = items_at_end[last]
    return pullback


def slopes_pullback(back: Spreading) -> Callable[[Encoding, Array], Pullback]:
    """For a kernel that takes the gradients of rows, the items, and perhaps what was made of them."""

    def pullback(x: Encoding, values: Array) -> Pullback:
        library, shape = library_of(values), without_data(x)
        made, name = library.dtype_name(values.dtype), name_of(x)
        kept = [library.astype(in_one_array(x).data, made)]
        if len(back.laid) > 2:
            kept.append(library.alias(values))
        return Back(lambda rows: back(shape, library.astype(rows, made), *kept, dtype=name), back.path, shape, *kept)

    return pullback
