"""Formulas of what kernels calculate, over all sequences at once, for programs of JAX.

Each takes what its kernel takes, see there, arrays being cells or of the host.  Gradients are JAX's own, so a formula
is written such that they are those of the kernels: the first of equal items has all of it, and what is no item none.
The order of arithmetic is that of the kernels too, wherever infinities, NaN or the ends of a dtype tell two apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..arrays.library import Array, DType
from ..errors import NO_GRADIENT
from ..layout import Layout
from .sequences import Sequences, Value

Values = tuple[Any, ...]


def _value(x: Value) -> Value:
    """The value of a cell, or an array of the host as it is."""
    return getattr(x, "value", x)


Formula = Callable[[ModuleType, Values, Values, Values, int], None]
FORMULAS: dict[str, Formula] = {}
NAMED = ("ctc_losses",)
"""Names of formulas that take named tuples, as their kernels do."""


def _register_formulas(*names: str) -> Callable[[Formula], Formula]:
    def register(formula: Formula) -> Formula:
        for name in names:
            FORMULAS[name] = formula
        return formula

    return register


def _write(out: Value, value: Value) -> None:
    out.write(value.astype(out.dtype).reshape(out.shape))


def _scale(s: Sequences, mode: int, dtype: DType) -> Array:
    """Give the divisor of a sum: 1, the length, its root."""
    lengths = np.maximum(s.lengths, 1)[:, None]
    return (lengths if mode == 1 else np.sqrt(lengths)).astype(dtype)


@_register_formulas("sum_rows")
def _sum(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, mode) = inputs, outputs, args
    s = Sequences(library, at)
    found = s.total(s.items(_value(x), width).astype(out.dtype))
    _write(out, found / _scale(s, mode, found.real.dtype) if mode else found)


@_register_formulas("spread_rows")
def _spread(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, mode) = inputs, outputs, args
    s = Sequences(library, at)
    rows = _value(x).reshape(s.n, width)
    _write(out, s.lay_out(s.spread(rows / _scale(s, mode, rows.real.dtype) if mode else rows), out))


@_register_formulas("max_rows")
def _max(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, least) = inputs, outputs, args
    s = Sequences(library, at)
    items = s.items(_value(x), width)
    _write(out, s.take(items, _first_last(s, s.keys(items, least))))


def _first_last(s: Sequences, keys: Value) -> Value:
    """The place of the first item of each sequence that is last in order, by column."""
    return s.first(keys == s.spread(s.last_key(keys)))


@_register_formulas("find_rows")
def _find(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, wanted), (out,), (at,) = inputs, outputs, args
    s = Sequences(library, at)
    places = s.first(s.keys(s.items(_value(x), width)) == s.spread(s.keys(_value(wanted).reshape(s.n, width))))
    _write(out, library.numpy.where((s.lengths > 0)[:, None], places, -1))


@_register_formulas("prod_rows")
def _prod(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at,) = inputs, outputs, args
    s = Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    _write(out, s.side_by_side(items, 1).prod(1) if s.rows else library.numpy.ones(out.shape))


@_register_formulas("norm_rows")
def _norm(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at,) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    top = library.lax.stop_gradient(s.largest(numpy.abs(items)))
    normal = numpy.isfinite(top) & (top >= numpy.finfo(out.dtype).tiny)
    top = numpy.where(normal, top, 1)  # squares of shares of it do not overflow
    shares = items / s.spread(top)
    total = s.total(shares * shares)
    nothing = total == 0  # of zeros alone, or no items: without a gradient
    found = top * numpy.sqrt(numpy.where(nothing, 1, total))
    beyond = numpy.isinf(found) & numpy.isfinite(total)  # of which no item has a slope
    _write(out, numpy.where(nothing, 0, numpy.where(beyond, math.inf, found)))


@_register_formulas("logsumexp_rows")
def _logsumexp(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at,) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    top = s.largest(items)
    infinite = top == math.inf  # the gradient beside +inf is NaN, as that of softmax is, and so is the total
    top = numpy.where(top == -math.inf, 0, top)
    total = s.total(numpy.exp(items - s.spread(top)))
    nothing = total == 0  # of -inf alone, or no items: without a gradient
    found = numpy.log(numpy.where(nothing, 1, total)) + top
    _write(out, numpy.where(infinite, math.inf, numpy.where(nothing, -math.inf, found)))


@_register_formulas("softmax_rows")
def _softmax(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, log) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    beside = items - s.spread(s.largest(items))
    powers = numpy.exp(beside)
    total = s.spread(s.total(powers))
    _write(out, s.lay_out(beside - numpy.log(total) if log else powers / total, out))


@_register_formulas("cumsum_rows")
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

        def join(a: Value, b: Value) -> Value:
            return a[0] | b[0], numpy.where(b[0], b[1], a[1] + b[1])

        begins = numpy.broadcast_to(ends[:, None], items.shape)
        found = library.lax.associative_scan(join, (begins, items), reverse=bool(back))[1]
    _write(out, s.lay_out(found, out))


@_register_formulas("var_rows")
def _var(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, deviation, ddof) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    divisor = np.maximum(s.lengths - ddof, 1)[:, None].astype(items.dtype)
    enough = (s.lengths > ddof)[:, None]
    lengths = _scale(s, 1, items.dtype)

    def parts(items: Value) -> tuple[Value, Value, Value]:
        """A unit, how far each item is from the mean in it, and the mean of the squares of that.

        In units no sum or square is too large or too small.  Before the mean the first item is taken away, so that of
        equal ones nothing is left.  The mean is rounded; what it leaves over is a second one.
        """
        unit = _power_of_two(s, items)
        shares = items / s.spread(unit)
        one = library.lax.stop_gradient(s.take(shares, np.zeros((s.n, width), np.int32)))
        away = shares - s.spread(numpy.where(numpy.isfinite(one), one, 0))
        away = away - s.spread(s.total(away) / lengths)
        rest = s.total(away) / lengths
        away = away - s.spread(numpy.where(numpy.isfinite(rest), rest, 0))
        return unit, away, numpy.where(enough, s.total(away * away) / divisor, 0)

    def value_of(items: Value) -> Value:
        unit, _, squares = parts(items)
        return numpy.sqrt(squares) * unit if deviation else squares * unit * unit

    def slope_of(given: Values, slopes: Values) -> Values:
        # the mean has no part in it, since the distances from it add up to zero
        value, (unit, away, squares) = found(*given), parts(*given)
        some, factor = numpy.asarray(enough), numpy.asarray(4 / divisor)
        if deviation:
            some = some & (squares != 0) & (value != math.inf)  # a root has no slope at zero
            factor = 1 / numpy.sqrt(numpy.where(some, squares, 1)) / divisor
        else:
            away = away * 0.5 * s.spread(unit)
        return value, s.total(numpy.where(s.spread(some), away, 0) * slopes[0]) * factor

    found = library.custom_jvp(value_of)
    found.defjvp(slope_of)
    _write(out, found(items))


def _power_of_two(s: Sequences, items: Value) -> Value:
    """``(n, width)``: the largest that no item is below, without a gradient; 1 where there is no such number."""
    bits = s.last_key(s.keys(abs(items)))
    count = s.numpy.finfo(items.dtype).nmant
    powers = s.library.lax.bitcast_convert_type(bits >> count << count, items.dtype)
    return s.numpy.where((powers > 0) & (powers < math.inf), powers, 1)


@_register_formulas("weigh_rows")
def _weigh(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, weights), (out, totals), (at, mode, own) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width).astype(out.dtype)
    factors = _value(weights).reshape(s.rows, width if own else 1)
    if not mode:
        _write(out, s.total(items * factors))
        return
    mass = s.total(factors)
    totals.write(mass.astype(totals.dtype).reshape(totals.shape))

    def by_mass(sums: Value, factors: Value) -> Value:
        mass = s.total(factors)
        return numpy.where(mass == 0, 0, sums / numpy.where(mass == 0, 1, mass))

    def value_of(items: Value, factors: Value) -> Value:
        return by_mass(s.total(items * factors), factors)

    def slope_of(given: Values, slopes: Values) -> Values:
        value = found(*given)
        lines = given[1] * slopes[0] + (given[0] - s.spread(value)) * slopes[1]
        return value, by_mass(s.total(lines), given[1])

    found = library.custom_jvp(value_of)
    found.defjvp(slope_of)
    _write(out, found(items, factors))


@_register_formulas("count_rows")
def _count(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, mode) = inputs, outputs, args
    s = Sequences(library, at)
    items = s.items(_value(x), width)
    parts = [items.real, items.imag] if library.numpy.iscomplexobj(items) else [items]
    found = s.total(sum(s.keys(part) != 0 for part in parts).astype(bool).astype(np.int32))
    _write(out, found if mode == 0 else found > 0 if mode == 1 else found == s.lengths[:, None])


_LINEAR, _LOWER, _HIGHER, _NEAREST, _MIDPOINT = range(5)  # as in the kernel


@_register_formulas("quantile_rows")
def _quantile(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out, places, _, _), (at, wanted, how) = inputs, outputs, args
    if places.size:
        raise NO_GRADIENT("quantiles have no pullback of this library where JAX traces a program; jax.vjp has one")
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    if not s.rows:
        return
    keys = s.keys(items)
    last = np.maximum(s.lengths - 1, 0)[:, None]
    low, share = _ranks(last * wanted.numbers, how)
    high = np.where(share == 0, low, np.minimum(low + 1, last))
    order, each = s.in_order(keys), np.arange(s.n)[:, None]
    one, two = (s.take(items, _or_nan(s, items, order[each, rank])).astype(out.dtype) for rank in (low, high))
    share = share[..., None].astype(out.dtype)
    between = one * (1 - share) + two * share
    _write(out, s.slope(numpy.where((one == two) | (share == 0), one, between), between))


def _or_nan(s: Sequences, items: Value, places: Value) -> Value:
    """The places ``(n, q, width)`` of items, or that of the first NaN, where a sequence has one."""
    if not s.numpy.issubdtype(items.dtype, np.inexact):
        return places
    missing = s.first(s.numpy.isnan(items))[:, None]
    return s.numpy.where(missing < s.lengths[:, None, None], missing, places)


def _ranks(place: Array, how: int) -> tuple[Array, Array]:
    """The `rank_of_level` of the kernel, for many."""
    if how in (_HIGHER, _NEAREST):
        place = np.ceil(place) if how == _HIGHER else np.rint(place)
    low = np.floor(place)
    share = place - low
    if how != _LINEAR:
        share = np.where(share != 0, 0.5 if how == _MIDPOINT else 0.0, 0.0)
    return low.astype(np.int64), share


@_register_formulas("topk_rows")
def _topk(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out, _, _), (at, wanted, most, needed) = inputs, outputs, args
    if needed:
        raise NO_GRADIENT("topk_mean has no pullback of this library where JAX traces a program; jax.vjp has one")
    numpy, s = library.numpy, Sequences(library, at)
    items = s.items(_value(x), width)
    if not s.rows:
        return
    order = s.in_order(~s.keys(items))[:, :most]
    tops = s.take(items, numpy.where(np.arange(order.shape[1])[:, None] < s.lengths[:, None, None], order, -1))
    sums = tops.cumsum(1)
    ends = np.minimum(wanted.numbers, order.shape[1]) - 1
    _write(out, sums[:, ends] / wanted.numbers[:, None].astype(out.dtype))


@_register_formulas("scatter_rows")
def _scatter(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, index), (out, _), (cum, room) = inputs, outputs, args
    lengths = np.diff(np.asarray(cum))
    rows = np.repeat(np.arange(lengths.size), lengths) * room + _value(index)
    start = out.value.reshape(-1, width)
    _write(out, start.at[rows].add(_value(x).reshape(-1, width)))


@_register_formulas("add_rows")
def _add(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,), (at, cum, places) = inputs, outputs, args
    lengths = np.diff(np.asarray(cum))
    s = Sequences(library, at)
    begins = np.zeros(s.n, np.int64)
    some = s.lengths > 0
    begins[some] = s.places[s.offsets[:-1][some]]
    rows = np.repeat(begins, lengths) + np.asarray(places)
    _write(out, out.value.reshape(-1, width).at[rows].add(_value(x).reshape(-1, width).astype(out.dtype)))


@_register_formulas("class_losses")
def _losses(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, y, scale, factors), (out, _), (at, (ignore, ignores)) = inputs, outputs, args
    numpy, s = library.numpy, Sequences(library, at)
    items, right = s.items(_value(x), width), s.items(_value(y), 1)
    counts = right != ignore if ignores else numpy.ones(right.shape, bool)
    items = numpy.where(counts, items, 0)  # no infinity may come from items without a loss
    own, smoothing, share = (float(part) for part in np.asarray(factors))
    top = library.lax.stop_gradient(items.max(1, keepdims=True))
    logarithm = numpy.log(numpy.exp(items - top).sum(1, keepdims=True))
    known = (right >= 0) & (right < width)
    chosen = numpy.take_along_axis(items, numpy.where(known, right, 0), 1)
    loss = own * ((top - numpy.where(known, chosen, math.nan)) + logarithm)
    if smoothing:
        loss = loss + ((share * (top - items)).sum(1, keepdims=True) + smoothing * logarithm)
    _write(out, s.lay_out(numpy.where(counts, loss, 0) * s.spread(_value(scale))[:, None], out))


@_register_formulas("ctc_losses")
def _paths(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    """In logarithms, where -1e30 stands for -inf, so that no gradient is a difference of infinities."""
    (x, goals), (out, _), (at,) = inputs, outputs, args
    numpy, s, none = library.numpy, Sequences(library, at), -1e30
    cum, labels = np.asarray(goals.cum), np.asarray(goals.cum).size - 1
    sequence = np.repeat(np.arange(s.n), np.diff(goals.first))
    counts, lengths = np.diff(cum), s.lengths[sequence]
    if not labels:
        return
    # the blanks and tokens of each label, and where a path can come from the token before
    states = np.full((labels, 2 * int(counts.max()) + 1), goals.blank)
    own = np.repeat(np.arange(labels), counts)
    place = np.arange(own.size) - cum[own]
    states[own, 2 * place + 1] = goals.targets[: own.size]
    skips = np.zeros(states.shape, bool)
    skips[:, 2:] = (states[:, 2:] != states[:, :-2]) & (states[:, 2:] != goals.blank)
    rows = s.offsets[sequence][:, None] + np.minimum(np.arange(s.longest), np.maximum(lengths[:, None] - 1, 0))
    items = s.items(_value(x), width).astype(out.losses.dtype)
    wrong = s.total((numpy.isnan(items) | (items == math.inf)).any(1, keepdims=True).astype(items.dtype)) > 0
    if goals.logits:
        empty = (items == -math.inf).all(1, keepdims=True)
        items = numpy.where(empty, none, library.nn.log_softmax(numpy.where(empty, 0, items), 1))
    logs = numpy.maximum(items, none) * numpy.where(s.spread(wrong), math.nan, 1).astype(items.dtype)

    def step(before: Value, frame: tuple[Value, Value]) -> tuple[Value, None]:
        row, there = frame
        one = numpy.pad(before[:, :-1], ((0, 0), (1, 0)), constant_values=none)
        two = numpy.where(skips, numpy.pad(before[:, :-2], ((0, 0), (2, 0)), constant_values=none), none)
        now = numpy.logaddexp(numpy.logaddexp(before, one), two) if states.shape[1] > 1 else before
        now = now + numpy.take_along_axis(logs[row], states, 1)
        return numpy.where(there[:, None], numpy.maximum(now, none), before), None

    paths = numpy.full(states.shape, none, logs.dtype).at[:, 0].set(0)  # as if a blank had been before
    if s.rows:
        paths, _ = library.lax.scan(step, paths, (rows.T.astype(np.int32), np.arange(s.longest)[:, None] < lengths))
    ends = numpy.take_along_axis(paths, np.stack([2 * counts, np.maximum(2 * counts - 1, 0)], 1), 1)
    total = numpy.where(counts > 0, numpy.logaddexp(ends[:, 0], ends[:, 1]), ends[:, 0])
    never = total < none / 2
    loss = numpy.where(never, 0 if goals.zero else math.inf, -numpy.where(never, 0, total))
    _write(out.losses, loss * _value(goals.factors).astype(loss.dtype))


@_register_formulas("number_rows")
def _number(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    assert not inputs
    (out,), (at, first, segments) = outputs, args
    s = Sequences(library, at)
    found = s.sequences if segments else np.asarray(first)[s.sequences] + s.times
    _write(out, s.lay_out(library.numpy.asarray(found).reshape(-1, width), out))


def _of_chunks(library: ModuleType, x: Value, args: Values, width: int) -> tuple[Sequences, Value]:
    """Gather what the chunks have for each row of their sequences, as a sequence of its own."""
    cum, first, counts, shifts = (np.asarray(array) for array in args[:4])
    lengths = np.diff(cum)
    rows = np.arange(int(cum[-1]))
    each = np.repeat(counts, lengths)
    ends = np.cumsum([0, *each])
    chunk = np.repeat(np.repeat(first, lengths), each) + np.arange(ends[-1]) - np.repeat(ends[:-1], each)
    at = Layout(ends, ends, ends, -1, 0, 1, 0)
    return Sequences(library, at), _value(x).reshape(-1, width)[np.repeat(rows, each) + shifts[chunk]]


@_register_formulas("fold_chunks")
def _fold(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out,) = inputs, outputs
    s, items = _of_chunks(library, x, args, width)
    found = s.total(items.astype(out.dtype))
    _write(out, found / _scale(s, 1, found.dtype) if args[4] else found)


@_register_formulas("max_chunks")
def _max_of_chunks(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x,), (out, _) = inputs, outputs
    s, items = _of_chunks(library, x, args, width)
    _write(out, s.take(items, _first_last(s, s.keys(items))))
