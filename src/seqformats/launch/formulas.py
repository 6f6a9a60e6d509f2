"""What kernels calculate, as formulas over all sequences at once, for programs of JAX.

Each takes what its kernel takes, see there, arrays being cells or of the host.  Gradients are JAX's own, so a formula
is written such that they are those of the kernels: the first of equal items has all of it, and what is no item none.

Where that is not much more than the items themselves, sequences are laid side by side in a rectangle, which is added up
along an axis; else by the number of the sequence of each item.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays.library import Array, DType, Operand
from ..errors import NO_GRADIENT
from ..layout import Layout
from ..once import once

Value = Any  # an array of JAX, or what a cell holds
Values = tuple[Any, ...]
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

    def laid(self, items: Value, out: Value) -> Value:
        """Items as data of the shape of `out`; its padding is zero."""
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
        """Is the rectangle of all sequences small enough?"""
        return self.n * self.longest <= _ROOM * self.rows + 1024

    @once
    def there(self) -> Array:
        """Where the rectangle holds an item."""
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

    def largest(self, items: Value, least: int = 0) -> Value:
        """The largest items, or the least, without a gradient; NaN where there is one, and for empty sequences any."""
        items = self.library.lax.stop_gradient(items)
        if items.dtype == np.bool_:
            items = items.astype(np.uint8)
        if not self.rows:
            return self.numpy.zeros((self.n, items.shape[1]), items.dtype)
        floats = self.numpy.issubdtype(items.dtype, np.inexact)
        bound = self.numpy.finfo(items.dtype) if floats else self.numpy.iinfo(items.dtype)
        fill = (math.inf if least else -math.inf) if floats else (bound.max if least else bound.min)
        if self.square:
            block = self.side_by_side(items, fill)
            return block.min(1) if least else block.max(1)
        over = self.library.ops.segment_min if least else self.library.ops.segment_max
        found = over(items, self.sequences, self.n, indices_are_sorted=True)
        if floats:
            lost = self.total(self.numpy.isnan(items).astype(np.int32)) > 0
            found = self.numpy.where(lost, math.nan, found).astype(items.dtype)
        return found

    def first(self, found: Value) -> Value:
        """``(n, width)``: the first place of an item for which this holds, that of the end where there is none."""
        times = self.numpy.where(found, self.times.astype(np.int32)[:, None], self.longest)
        return self.numpy.minimum(self.largest(times, 1), self.longest)

    def at(self, items: Value, places: Value) -> Value:
        """The items at these places ``(n, width)`` of each sequence, zeros where there is no such place."""
        if not self.rows:
            return self.numpy.zeros((self.n, items.shape[1]), items.dtype)
        inside = (places >= 0) & (places < self.lengths.astype(np.int32)[:, None])
        rows = self.offsets[:-1, None].astype(np.int32) + self.numpy.where(inside, places, 0)
        rows = self.numpy.minimum(rows, self.rows - 1)
        return self.numpy.where(inside, self.numpy.take_along_axis(items, rows, 0), 0)

    def sorted(self, items: Value) -> Value:
        """A rectangle of all columns in rising order, what is no item at the end."""
        floats = self.numpy.issubdtype(items.dtype, np.inexact)
        fill = math.nan if floats else self.numpy.iinfo(items.dtype).max
        return self.numpy.sort(self.side_by_side(items, fill), axis=1, stable=True)


def _value(x: Value) -> Value:
    """The value of a cell, or an array of the host as it is."""
    return getattr(x, "value", x)


Formula = Callable[[ModuleType, Values, Values, Values, int], None]
FORMULAS: dict[str, Formula] = {}


def _for(*names: str) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        for name in names:
            FORMULAS[name] = formula
        return formula

    return register


def _write(out: Value, value: Value) -> None:
    out.write(value.astype(out.dtype).reshape(out.shape))


def _scale(s: Sequences, mode: int, dtype: DType) -> Array:
    """What a sum is divided by: 1, the length, its root."""
    lengths = np.maximum(s.lengths, 1)[:, None]
    return (lengths if mode == 1 else np.sqrt(lengths)).astype(dtype)


@_for("sum_rows")
def _sum(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, mode) = inputs, outputs, args
    s = Sequences(library, at)
    found = s.total(s.items(_value(x), width).astype(out.dtype))
    _write(out, found / _scale(s, mode, found.real.dtype) if mode else found)


@_for("spread_rows")
def _spread(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, mode) = inputs, outputs, args
    s = Sequences(library, at)
    rows = _value(x).reshape(s.n, width)
    _write(out, s.laid(s.spread(rows / _scale(s, mode, rows.real.dtype) if mode else rows), out))


@_for("max_rows")
def _max(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, least) = inputs, outputs, args
    s = Sequences(library, at)
    items = s.items(_value(x), width)
    _write(out, s.at(items, _first_of(s, items, s.largest(items, least))))


def _first_of(s: Sequences, items: Value, wanted: Value) -> Value:
    """Where each sequence first has an item, by column; that of a NaN where NaN is wanted."""
    items = s.library.lax.stop_gradient(items)
    found = s.spread(wanted)
    return s.first((items == found) | ((items != items) & (found != found)))


@_for("find_rows")
def _find(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, wanted), (out,), (at,) = inputs, outputs, args
    s = Sequences(library, at)
    items = s.items(_value(x), width)
    places = _first_of(s, items, library.lax.stop_gradient(_value(wanted)).reshape(s.n, width))
    _write(out, library.numpy.where((s.lengths > 0)[:, None], places, -1))


@_for("prod_rows")
def _prod(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at,) = inputs, outputs, args
    s = Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    _write(out, s.side_by_side(items, 1).prod(1) if s.rows else library.numpy.ones(out.shape))


@_for("logsumexp_rows")
def _logsumexp(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at,) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    top = s.largest(items)
    top = numpy.where(numpy.isfinite(top), top, 0)
    total = s.total(numpy.exp(items - s.spread(top)))
    empty = (s.lengths == 0)[:, None]
    _write(out, numpy.where(empty, -math.inf, numpy.log(numpy.where(empty, 1, total)) + top))


@_for("softmax_rows")
def _softmax(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, log) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    beside = items - s.spread(s.largest(items))
    powers = numpy.exp(beside)
    total = s.spread(s.total(powers))
    _write(out, s.laid(beside - numpy.log(total) if log else powers / total, out))


@_for("cumsum_rows")
def _cumsum(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, back) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    if not s.rows:
        return
    if s.square:
        block = s.side_by_side(items, 0)
        if back:
            block = numpy.flip(numpy.flip(block, 1).cumsum(1), 1)
        else:
            block = block.cumsum(1)
        found = s.in_turn(block)
    else:
        ends = s.times == 0 if not back else s.times == s.lengths[s.sequences] - 1

        def joined(a: Value, b: Value) -> Value:
            return a[0] | b[0], numpy.where(b[0], b[1], a[1] + b[1])

        begins = numpy.broadcast_to(ends[:, None], items.shape)
        found = library.lax.associative_scan(joined, (begins, items), reverse=bool(back))[1]
    _write(out, s.laid(found, out))


@_for("var_rows")
def _var(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, deviation, ddof) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    beside = items - s.spread(s.total(items) / _scale(s, 1, items.dtype))
    found = s.total(beside * beside) / np.maximum(s.lengths - ddof, 1)[:, None].astype(items.dtype)
    found = numpy.where((s.lengths > ddof)[:, None], found, 0)
    if deviation:
        some = found != 0  # a root has no slope at zero
        found = numpy.where(some, numpy.sqrt(numpy.where(some, found, 1)), 0)
    _write(out, found)


@_for("weigh_rows")
def _weigh(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, weights), (out, totals), (at, mode, own) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    factors = _value(weights).reshape(s.rows, width if own else 1)
    found = s.total(items * factors)
    if mode:
        mass = s.total(factors)
        totals.write(mass.astype(totals.dtype).reshape(totals.shape))
        found = numpy.where(mass == 0, 0, found / numpy.where(mass == 0, 1, mass))
    _write(out, found)


@_for("count_rows")
def _count(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, mode) = inputs, outputs, args
    s = Sequences(library, at)
    found = s.total((s.items(_value(x), width) != 0).astype(np.int32))
    _write(out, found if mode == 0 else found > 0 if mode == 1 else found == s.lengths[:, None])


_LINEAR, _LOWER, _HIGHER, _NEAREST, _MIDPOINT = range(5)  # as in the kernel


@_for("quantile_rows")
def _quantile(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out, places, _, _), (at, wanted, how) = inputs, outputs, args
    if places.size:
        raise NO_GRADIENT("quantiles have no pullback of this library where JAX traces a program; jax.vjp has one")
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    if not s.rows:
        return
    block = s.sorted(items)
    last = np.maximum(s.lengths - 1, 0)[:, None]
    low, part = _ranks(last * wanted.numbers, how)
    high = np.minimum(low + 1, last)
    part = part[..., None].astype(out.dtype)
    each = np.arange(s.n)[:, None]
    one, two = block[each, low], block[each, high]
    found = numpy.where(part == 0, one, one + (two - one) * part)
    found = numpy.where((s.lengths > 0)[:, None, None], found, 0)
    if numpy.issubdtype(items.dtype, np.inexact):
        lost = s.total(numpy.isnan(items).astype(np.int32)) > 0
        found = numpy.where(lost[:, None], math.nan, found)
    _write(out, found)


def _ranks(place: Array, how: int) -> tuple[Array, Array]:
    """The `rank_of_level` of the kernel, for many."""
    if how in (_HIGHER, _NEAREST):
        place = np.ceil(place) if how == _HIGHER else np.rint(place)
    low = np.floor(place)
    share = place - low
    if how != _LINEAR:
        share = np.where(share != 0, 0.5 if how == _MIDPOINT else 0.0, 0.0)
    return low.astype(np.int64), share


@_for("topk_rows")
def _topk(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out, _, _), (at, wanted, most, needed) = inputs, outputs, args
    if needed:
        raise NO_GRADIENT("topk_mean has no pullback of this library where JAX traces a program; jax.vjp has one")
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    if not s.rows:
        return
    order = numpy.sort(s.side_by_side(-items, math.inf), axis=1, stable=True)[:, :most]
    lost = numpy.isnan(items)
    order = numpy.where(np.arange(order.shape[1])[:, None] < s.lengths[:, None, None], -order, 0)
    sums = order.cumsum(1)
    ends = np.minimum(wanted.numbers, order.shape[1]) - 1
    found = sums[:, ends] / wanted.numbers[:, None].astype(out.dtype)
    found = numpy.where((s.total(lost.astype(np.int32)) > 0)[:, None], math.nan, found)
    _write(out, found)


@_for("scatter_rows")
def _scatter(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:  # noqa: ARG001  as all have it
    (x, index), (out, _), (cum, room) = inputs, outputs, args
    lengths = np.diff(np.asarray(cum))
    rows = np.repeat(np.arange(lengths.size), lengths) * room + _value(index)
    start = out.value.reshape(-1, width)
    _write(out, start.at[rows].add(_value(x).reshape(-1, width)))


@_for("add_rows")
def _add(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, cum, places) = inputs, outputs, args
    lengths = np.diff(np.asarray(cum))
    s = Sequences(library, at)
    begins = np.zeros(s.n, np.int64)
    some = s.lengths > 0
    begins[some] = s.places[s.offsets[:-1][some]]
    rows = np.repeat(begins, lengths) + np.asarray(places)
    _write(out, out.value.reshape(-1, width).at[rows].add(_value(x).reshape(-1, width).astype(out.dtype)))


@_for("class_losses")
def _losses(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, y, scale, factors), (out, _), (at, ignore, ignores) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items, right = s.items(_value(x), width), s.items(_value(y), 1)
    counts = right != ignore if ignores else numpy.ones(right.shape, bool)
    items = numpy.where(counts, items, 0)  # no infinity may come from items without a loss
    own, smoothing, share = (float(part) for part in np.asarray(factors))
    top = library.lax.stop_gradient(items.max(1, keepdims=True))
    top = numpy.where(numpy.isfinite(top), top, 0)
    logarithm = numpy.log(numpy.exp(items - top).sum(1, keepdims=True)) + top
    known = (right >= 0) & (right < width)
    chosen = numpy.take_along_axis(items, numpy.where(known, right, 0), 1)
    loss = own * (logarithm - numpy.where(known, chosen, math.nan))
    if smoothing:
        loss = loss + smoothing * logarithm - share * items.sum(1, keepdims=True)
    _write(out, s.laid(numpy.where(counts, loss, 0) * s.spread(_value(scale))[:, None], out))


@_for("number_rows")
def _number(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    assert not inputs
    (out,), (at, first, segments) = outputs, args
    s = Sequences(library, at)
    found = s.sequences if segments else np.asarray(first)[s.sequences] + s.times
    _write(out, s.laid(library.numpy.asarray(found).reshape(-1, width), out))


def _of_chunks(library: ModuleType, x: Value, args: Values, width: int) -> tuple[Sequences, Value]:
    """What the chunks have for each row of the sequences that they are of, as a sequence of its own."""
    cum, first, counts, shifts = (np.asarray(array) for array in args[:4])
    lengths = np.diff(cum)
    rows = np.arange(int(cum[-1]))
    each = np.repeat(counts, lengths)
    ends = np.cumsum([0, *each])
    chunk = np.repeat(np.repeat(first, lengths), each) + np.arange(ends[-1]) - np.repeat(ends[:-1], each)
    at = Layout(ends, ends, ends, -1, 0, 1, 0)
    return Sequences(library, at), _value(x).reshape(-1, width)[np.repeat(rows, each) + shifts[chunk]]


@_for("fold_chunks")
def _fold(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,) = inputs, outputs
    s, items = _of_chunks(library, x, args, width)
    found = s.total(items.astype(out.dtype))
    _write(out, found / _scale(s, 1, found.dtype) if args[4] else found)


@_for("max_chunks")
def _max_of_chunks(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out, _) = inputs, outputs
    s, items = _of_chunks(library, x, args, width)
    _write(out, s.at(items, _first_of(s, items, s.largest(items))))
