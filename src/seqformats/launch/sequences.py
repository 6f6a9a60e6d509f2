"""The sequences of a batch in a program of JAX: their items, and what formulas ask of each sequence.

Where that is not much more than the items themselves, sequences are laid side by side in a rectangle, which is added up
along an axis; else by the number of the sequence of each item.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays.library import Array, Operand
from ..layout import Layout
from ..once import once

Value = Any  # an array of JAX, or what a cell holds
_ROOM = 4  # times the items that a rectangle may have


class Sequences:
    """The items that lie as a layout says, one sequence after the other, and what is calculated over each sequence."""

    def __init__(self, library: ModuleType, at: Layout) -> None:
        self.library, self.numpy = library, library.numpy
        self.offsets = np.asarray(at.cum)
        self.lengths = np.diff(self.offsets)
        self.n, self.rows = self.lengths.size, int(self.offsets[-1] - self.offsets[0])
        self.longest = int(self.lengths.max(initial=0))
        self.sequences = np.repeat(np.arange(self.n), self.lengths)
        self.times = np.arange(self.rows) - np.repeat(self.offsets[:-1], self.lengths)
        self.places = self._places(at)

    def _places(self, at: Layout) -> Array:
        """The row in data of each item."""
        where, t = self.sequences, self.times
        found: Array
        if at.step != 1:
            column = np.empty(self.n, np.int64)
            column[np.asarray(at.starts)[: self.n]] = np.arange(self.n)
            found = column[where] + (np.asarray(at.steps)[t] if at.step == 0 else t * at.step)
        elif at.stride < 0:
            found = np.asarray(at.starts)[where] + t
        else:
            found = where * at.stride + at.left * (at.stride - self.lengths[where]) + t
        return found

    def items(self, x: Value, width: int) -> Value:
        """The items ``(rows, width)`` of data."""
        rows = x.reshape(-1, width)
        if len(rows) == self.rows and (self.places == np.arange(self.rows)).all():
            return rows
        return rows[self.places.astype(np.int32)]

    def lay_out(self, items: Value, out: Value) -> Value:
        """Items as data of the shape of `out`; its padding is zero."""
        if not self.rows:
            return self.numpy.zeros(out.shape, items.dtype)
        rows = math.prod(out.shape) // max(1, items.shape[1])
        back = np.full(rows, -1, np.int32)
        back[self.places] = np.arange(self.rows)
        if (back < 0).any():
            items = self.numpy.where((back >= 0)[:, None], items[np.maximum(back, 0)], 0)
        elif not (back == np.arange(self.rows)).all():
            items = items[back]
        return items.reshape(out.shape)

    @once
    def square(self) -> bool:
        """Tell whether the rectangle of all sequences is small enough."""
        return self.n * self.longest <= _ROOM * self.rows + 1024

    @once
    def there(self) -> Array:
        """Mark the places of the rectangle that hold an item."""
        return np.arange(self.longest) < self.lengths[:, None]

    def side_by_side(self, items: Value, fill: Operand) -> Value:
        """``(n, longest, width)``, filled up at the end of each sequence."""
        index = np.where(self.there, self.offsets[:-1, None] + np.arange(self.longest), 0).astype(np.int32)
        return self.numpy.where(self.there[..., None], items[index], fill)

    def in_turn(self, square: Value) -> Value:
        """The way back from a rectangle."""
        return square[self.sequences.astype(np.int32), self.times.astype(np.int32)]

    def spread(self, rows: Value) -> Value:
        """Each item has the row of its sequence."""
        return rows[self.sequences.astype(np.int32)]

    def total(self, items: Value) -> Value:
        """``(n, width)``: the sums."""
        if self.square:
            return self.side_by_side(items, 0).sum(1)
        return self.library.ops.segment_sum(items, self.sequences, self.n, indices_are_sorted=True)

    def keys(self, items: Value, least: int = 0) -> Value:
        """Integers in the order of the items, or against it, without a gradient: NaN comes last either way.

        A device that takes subnormal numbers for zero compares these right; 0.0 and -0.0 are equal.
        """
        items = self.library.lax.stop_gradient(items)
        if items.dtype == np.bool_:
            items = items.astype(np.uint8)
        if not self.numpy.issubdtype(items.dtype, np.inexact):
            return ~items if least else items
        bits = self.library.lax.bitcast_convert_type(items, f"int{8 * items.dtype.itemsize}")
        last = np.iinfo(bits.dtype).max
        size = bits & last
        keys = self.numpy.where((bits < 0) != bool(least), -size, size)
        return self.numpy.where(size > np.array(math.inf, items.dtype).view(bits.dtype), last, keys)

    def last_key(self, keys: Value) -> Value:
        """``(n, width)``: the last in order; for empty sequences any."""
        if not self.rows:
            return self.numpy.zeros((self.n, keys.shape[1]), keys.dtype)
        if self.square:
            return self.side_by_side(keys, np.iinfo(keys.dtype).min).max(1)
        return self.library.ops.segment_max(keys, self.sequences, self.n, indices_are_sorted=True)

    def largest(self, items: Value) -> Value:
        """The largest of floats, without a gradient; NaN where there is one, and for empty sequences zero."""
        keys = self.last_key(self.keys(items))
        lowest = np.iinfo(keys.dtype).min
        return self.library.lax.bitcast_convert_type(self.numpy.where(keys < 0, lowest | -keys, keys), items.dtype)

    def first(self, found: Value) -> Value:
        """``(n, width)``: the first place of an item for which this holds, that of the end where there is none."""
        times = self.numpy.where(found, self.times.astype(np.int32)[:, None], self.longest)
        return self.numpy.minimum(~self.last_key(~times), self.longest)

    def take(self, items: Value, places: Value) -> Value:
        """The items at these places ``(n, ..., width)`` of each sequence, zeros where there is no such place."""
        if not self.rows:
            return self.numpy.zeros(places.shape, items.dtype)
        each = (self.n, *[1] * (places.ndim - 1))
        inside = (places >= 0) & (places < self.lengths.astype(np.int32).reshape(each))
        rows = self.offsets[:-1].astype(np.int32).reshape(each) + self.numpy.where(inside, places, 0)
        rows = self.numpy.minimum(rows, self.rows - 1)
        found = self.numpy.take_along_axis(items, rows.reshape(-1, rows.shape[-1]), 0)
        return self.numpy.where(inside, found.reshape(rows.shape), 0)

    def in_order(self, keys: Value) -> Value:
        """A rectangle of the places of all columns in rising order of these keys, what is no item at the end."""
        return self.numpy.argsort(self.side_by_side(keys, np.iinfo(keys.dtype).max), axis=1, stable=True)

    def slope(self, value: Value, line: Value) -> Value:
        """A value with the gradient of another one, whatever the two are."""
        found = self.library.custom_jvp(lambda one, _: one)
        found.defjvp(lambda given, slopes: (given[0], slopes[1]))
        return found(value, line)
