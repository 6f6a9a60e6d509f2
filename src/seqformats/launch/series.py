"""Formulas of kernels over events and series, see `launch.formulas`: differences, gaps, search, counts."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .formulas import FORMULAS, Formula, Values
from .sequences import Sequences, Value

_BACKWARD, _FORWARD, _NEAREST = 2, 3, 4  # as in the kernel


def _value(x: Value) -> Value:
    """The value of a cell, or an array of the host as it is."""
    return getattr(x, "value", x)


def _write(out: Value, value: Value) -> None:
    out.write(value.astype(out.dtype).reshape(out.shape))


def _differences(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, _, back) = inputs, outputs, args
    s = Sequences(library, at)
    later = np.flatnonzero(s.times > 0)  # rows with one before them
    if back:
        given = _value(x).reshape(-1, width)
        found = library.numpy.zeros((s.rows, width), given.dtype).at[later].add(given)
        _write(out, found.at[later - 1].add(-given))
        return
    items = s.items(_value(x), width)
    _write(out, items[later] - items[later - 1])


def _fill(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at,) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    if not s.rows:
        return
    missing = numpy.isnan(items)
    own = np.arange(s.rows)[:, None]
    begins = np.repeat(s.offsets[:-1], s.lengths)[:, None]
    last = library.lax.cummax(numpy.where(missing, begins, own), 0)
    last = numpy.where(numpy.take_along_axis(missing, last, 0), own, last)
    _write(out, s.lay_out(numpy.take_along_axis(items, last, 0), out))


def _search(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, values, tolerance), (out,), (at_x, at, mode) = inputs, outputs, args
    numpy, one, two = library.numpy, Sequences(library, at_x), Sequences(library, at)
    wanted = two.items(_value(values), 1)
    if not one.rows or not two.rows:
        empty = numpy.zeros((two.rows, 1), out.dtype) - (1 if _BACKWARD <= mode <= _NEAREST else 0)
        _write(out, two.lay_out(empty, out))
        return
    items = one.items(_value(x), 1)
    inside = one.there[two.sequences]
    keys = one.side_by_side(one.keys(items), 0)[..., 0][two.sequences]
    key = two.keys(wanted)
    below, not_above = (found.sum(1) for found in ((keys < key) & inside, (keys <= key) & inside))
    if mode > _NEAREST:
        found = (not_above > below) & (wanted == wanted)[:, 0]
    elif mode < _BACKWARD:
        found = not_above if mode else below
    else:
        limit = _value(tolerance)
        found = _pick_nearest(numpy, one, two, (items, wanted), (below, not_above), mode, limit if limit.size else None)
    _write(out, two.lay_out(found[:, None], out))


def _pick_nearest(
    numpy: ModuleType, one: Sequences, two: Sequences, both: Values, counts: Values, mode: int, limit: Value
) -> Value:
    """Choose between the items around each value; see `near_place` of the kernel."""
    (items, wanted), (below, not_above) = both, counts
    value, lengths = wanted[:, 0], one.lengths[two.sequences]
    rows = one.side_by_side(items, 0)[..., 0][two.sequences]

    def item(place: Value) -> Value:
        return numpy.take_along_axis(rows, numpy.clip(place, 0, one.longest - 1)[:, None], 1)[:, 0]

    low, high = not_above - 1, below
    before, behind = (low >= 0) & (mode != _FORWARD), (high < lengths) & (mode != _BACKWARD)
    behind = behind & (item(high) == item(high))
    down = numpy.where(item(low) == value, 0, value - item(low))
    up = numpy.where(item(high) == value, 0, item(high) - value)
    first = before & (~behind | (down <= up))
    found = numpy.where(first, low, numpy.where(behind, high, -1))
    if limit is not None:
        found = numpy.where(numpy.where(first, down, up) <= limit[0], found, -1)
    return numpy.where(value == value, found, -1)


def _count(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, weights), (out, _), (at, weighted) = inputs, outputs, args
    s = Sequences(library, at)
    bins, _ = _bins(library, s, x, width)
    mass = s.items(_value(weights), 1)[:, 0] if weighted else 1
    _write(out, library.numpy.zeros(s.n * width, out.dtype).at[bins].add(mass, mode="drop"))


def _take(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, slopes), (out,), (at,) = inputs, outputs, args
    s = Sequences(library, at)
    bins, there = _bins(library, s, x, width)
    found = library.numpy.where(there, _value(slopes).reshape(-1)[bins], 0)
    _write(out, s.lay_out(found[:, None], out))


def _bins(library: ModuleType, s: Sequences, x: Value, width: int) -> Any:
    """The bin of each item among those of all sequences, and whether there is one."""
    numbers = s.items(_value(x), 1)[:, 0]
    there = (numbers >= 0) & (numbers < width)
    return library.numpy.where(there, s.sequences * width + numbers, s.n * width), there


FORMULAS_OF_SERIES: dict[str, Formula] = {
    "diff_rows": _differences,
    "fill_rows": _fill,
    "search_rows": _search,
    "count_bins": _count,
    "take_bins": _take,
}
FORMULAS.update(FORMULAS_OF_SERIES)
