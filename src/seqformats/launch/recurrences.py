"""Formulas of kernels that go along the steps of sequences, see `launch.formulas`: recurrences, advantages, losses."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .formulas import FORMULAS, Formula, Values
from .sequences import Sequences, Value


def _value(x: Value) -> Value:
    """The value of a cell, or an array of the host as it is."""
    return getattr(x, "value", x)


def _write(out: Value, value: Value) -> None:
    out.write(value.astype(out.dtype).reshape(out.shape))


class _Steps:
    """The items of a batch, and which of them are steps, from the beginnings of sequences on or from their ends."""

    def __init__(self, library: ModuleType, at: Any, marks: Value, back: bool = False, ends: Value = ()) -> None:
        self.library, self.numpy, self.back = library, library.numpy, back
        self.s = s = Sequences(library, at)
        self.first = (s.times == (s.lengths[s.sequences] - 1 if back else 0))[:, None]
        self.marks, self.ends = self._flags(marks), self._flags(ends)

    def _flags(self, given: Value) -> Value:
        """A column of bools; None where nothing is given."""
        x = _value(given)
        return self.s.items(x.reshape(-1), 1).astype(bool) if len(x) else None

    def of_steps(self, x: Value, other: float | Value) -> Value:
        """Items of steps, and something else for the others."""
        return x if self.marks is None else self.numpy.where(self.marks, x, other)

    def column(self, x: Value, dtype: Any) -> Value:
        """Numbers of items; of one for all, or one per sequence, the same."""
        x = _value(x).astype(dtype).reshape(-1)
        return x[:, None] if x.size == 1 else self.s.spread(x[:, None])

    def take_previous(self, x: Value) -> Value:
        """Return what the item before has, in the order of the way; something of another sequence where one begins."""
        return self.numpy.roll(x, -1 if self.back else 1, 0) if self.s.rows else x

    def scan(self, begins: Value, factors: Value, addends: Value) -> Value:
        """The states after all items of ``state = factor * state + addend``, where they begin just ``addend``."""
        numpy = self.numpy
        if not self.s.rows:
            return addends

        def join(a: Value, b: Value) -> Value:
            return a[0] | b[0], numpy.where(b[0], 0, b[1] * a[1]), numpy.where(b[0], b[2], b[1] * a[2] + b[2])

        given = [numpy.broadcast_to(x, addends.shape) for x in (begins, factors, addends)]
        return self.library.lax.associative_scan(join, tuple(given), reverse=self.back)[2]


def _recurrence(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, decay, initial, marks, ends), (out, final) = inputs, outputs
    at, by_row, by_column, by_sequence, back, exclusive, blank, _ = args
    numpy, steps = library.numpy, _Steps(library, at, marks, bool(back), ends)
    s, dtype = steps.s, out.dtype
    given, start = _value(decay).astype(dtype), _value(initial).astype(dtype)
    if by_row:
        given = s.items(given.reshape(-1), width if by_column else 1)
    else:
        given = s.spread(given.reshape(s.n, 1)) if by_sequence else given.reshape(1, -1)
    factors = steps.of_steps(given, 1)
    items = steps.of_steps(s.items(_value(x), width).astype(dtype), 0)
    rows = start.reshape(s.n, width) if start.size else numpy.zeros((s.n, width), dtype)
    begins, ended = steps.first, np.zeros_like(steps.first)
    if steps.ends is not None:
        ended = steps.take_previous(steps.ends) & ~steps.first
        begins = begins | ended
    states = steps.scan(begins, factors, numpy.where(steps.first, factors * s.spread(rows) + items, items))
    before = numpy.where(ended, 0, numpy.where(steps.first, s.spread(rows), steps.take_previous(states)))
    written = before if exclusive else states
    _write(out, s.lay_out(steps.of_steps(written, 0) if blank else written, out))
    behind = states if steps.ends is None else numpy.where(steps.ends, 0, states)
    places = np.broadcast_to(np.zeros(s.n, np.int32) if back else s.lengths.astype(np.int32) - 1, (width, s.n)).T
    _write(final, numpy.where((s.lengths > 0)[:, None], s.take(behind, places), rows))


def _average(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, marks, ranks, weights), (out,), (at, back, _) = inputs, outputs, args
    numpy, steps = library.numpy, _Steps(library, at, marks, bool(back))
    s, dtype = steps.s, out.dtype
    rank = s.items(_value(ranks).reshape(-1, 1), 1)[:, 0] if _value(ranks).size else s.times + 1
    tables = np.asarray(weights[1:]).reshape(2, -1)
    before, behind = numpy.asarray(tables, dtype)[:, numpy.minimum(rank, tables.shape[1] - 1), None]
    factors = steps.of_steps(numpy.full((s.rows, 1), weights[0], dtype), 1)
    items = s.items(_value(x), width).astype(dtype)
    items = before * (items if back else steps.of_steps(items, 0))
    states = behind * steps.scan(steps.first, steps.take_previous(factors) if back else factors, items)
    _write(out, s.lay_out(steps.of_steps(states, 0) if back else states, out))


def _advantages(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (rewards, values, gamma, lam, marks, ends, after), (advantages, returns), (at, by_row) = inputs, outputs, args
    numpy, steps = library.numpy, _Steps(library, at, marks, True, ends)
    s, dtype = steps.s, advantages.dtype
    earned, follows = s.items(_value(rewards), 1).astype(dtype), numpy.zeros((s.rows, 1), dtype)
    worth = s.items(_value(values), 1).astype(dtype) if _value(values).size else follows
    is_end = steps.first if steps.ends is None else steps.first | steps.ends
    if _value(after).size:
        own = _value(after).astype(dtype).reshape(-1, 1)
        follows = numpy.where(is_end, s.items(own, 1), 0) if by_row else numpy.where(steps.first, s.spread(own), 0)
    discount = steps.column(gamma, dtype)
    decay = discount * steps.column(lam, dtype)
    others = steps.of_steps(numpy.zeros((s.rows, 1), dtype), 1)  # 1 where an item hands on what comes from behind
    worth = steps.of_steps(worth, 0)

    def shift_behind(addends: Value) -> Value:
        """Return what comes from behind an item, of what steps say and others hand on."""
        return numpy.where(is_end, 0, steps.take_previous(steps.scan(is_end, others, addends)))

    following = follows + shift_behind(worth + others * follows)
    strays = shift_behind(others * earned)
    gains = steps.of_steps((earned + strays + discount * following - worth), 0)
    found = steps.of_steps(steps.scan(is_end, steps.of_steps(decay + 0 * gains, 1), gains), 0)
    _write(advantages, s.lay_out(found, advantages))
    if _value(values).size:
        _write(returns, s.lay_out(steps.of_steps(found + worth, 0), returns))


def _rewards(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (outcome, kl, scale, marks), (out,), (at,) = inputs, outputs, args
    numpy, steps = library.numpy, _Steps(library, at, marks, True)
    s = steps.s
    ones = numpy.ones((s.rows, 1), np.int32)
    later = steps.scan(steps.first, ones, steps.of_steps(ones, 0))  # steps from each item on
    found = numpy.where(later == 1, s.spread(_value(outcome).astype(out.dtype).reshape(s.n, 1)), 0)
    if _value(kl).size:
        found = found + _value(scale).astype(out.dtype)[0] * steps.of_steps(s.items(_value(kl), 1), 0)
    _write(out, s.lay_out(steps.of_steps(found, 0), out))


def _standard(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, moments, how, marks), (out,), (at, (others, scaled)) = inputs, outputs, args
    numpy, steps = library.numpy, _Steps(library, at, marks)
    s, dtype = steps.s, out.dtype
    items = steps.of_steps(s.items(_value(x), width).astype(dtype), 0)
    ddof, eps = (float(number) for number in np.asarray(how))
    given = _value(moments).astype(dtype)
    counts = steps.of_steps(numpy.ones((s.rows, 1), dtype), 0)
    if given.size:
        number = numpy.broadcast_to(given[0], (s.n, 1))
        mean = given[1] / numpy.maximum(number, 1)
        squares = numpy.maximum(given[2] - given[1] * mean, 0)
        away = steps.of_steps(items - s.spread(mean), 0)
    else:
        number = s.total(counts)
        first = s.first(counts > 0) if s.rows else number.astype(np.int32)
        start = library.lax.stop_gradient(s.take(items, numpy.broadcast_to(first, (s.n, width))))
        away = steps.of_steps(items - s.spread(start), 0)
        away = steps.of_steps(away - s.spread(s.total(away) / numpy.maximum(number, 1)), 0)
        squares = s.total(away * away)
    factor = numpy.ones((s.n, 1), dtype)
    if others:
        factor = numpy.where(number > 1, number / numpy.maximum(number - 1, 1), 0)
    if scaled:
        spread = squares / numpy.where(number > ddof, number - ddof, 1)
        some = spread != 0  # a root has no slope at zero
        over = numpy.where(some, numpy.sqrt(numpy.where(some, spread, 1)), 0) + eps
        some = (number > ddof) & (over != 0)
        factor = numpy.where(some, factor / numpy.where(some, over, 1), 0)
    _write(out, s.lay_out(away * s.spread(numpy.broadcast_to(factor, (s.n, factor.shape[1]))), out))


def _policy(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (logp, old, advantages, how, marks), (out, _), (at, by_row, mean) = inputs, outputs, args
    numpy, steps = library.numpy, _Steps(library, at, marks)
    s, dtype = steps.s, out.dtype
    least, most, dual, limit = (float(number) for number in np.asarray(how))
    before, own = (library.lax.stop_gradient(_value(x)) for x in (old, advantages))  # constants
    away = steps.of_steps((s.items(_value(logp), 1) - s.items(before, 1)).astype(dtype), 0)
    if mean:
        number = s.total(steps.of_steps(numpy.ones((s.rows, 1), dtype), 0))
        away = steps.of_steps(s.spread(s.total(away) / numpy.maximum(number, 1)), 0)
    beyond = abs(away) > limit
    near = numpy.where(beyond, library.lax.stop_gradient(numpy.clip(away, -limit, limit)), away)
    ratio = numpy.exp(near)
    if not own.size:
        _write(out, s.lay_out(steps.of_steps(ratio, 1), out))
        return
    worth = (s.items(own, 1) if by_row else s.spread(own.reshape(s.n, 1))).astype(dtype)
    loss = -worth * ratio
    clipped = library.lax.stop_gradient(-worth * numpy.clip(ratio, least, most))
    loss = numpy.where(clipped > loss, clipped, loss)
    if dual > 0:
        loss = numpy.where((worth < 0) & (-dual * worth < loss), -dual * worth, loss)
    _write(out, s.lay_out(steps.of_steps(loss, 0), out))


def _sums(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (x, marks), (out,), (at,) = inputs, outputs, args
    numpy, steps = library.numpy, _Steps(library, at, marks)
    s = steps.s
    items = steps.of_steps(s.items(_value(x), 1), 0)
    counts = steps.of_steps(numpy.ones((s.rows, 1), items.dtype), 0)
    _write(out, s.total(numpy.concatenate([counts, items, items * items], 1)))


def _mean(library: ModuleType, inputs: Values, outputs: Values, args: Values, width: int) -> None:
    (sums, how), (out, weights), (each,) = inputs, outputs, args
    numpy, rows = library.numpy, _value(sums).reshape(-1, 3)
    length, whole, factor = (float(number) for number in np.asarray(how))
    number, total = library.lax.stop_gradient(rows[:, 0]), rows[:, 1]
    found = (numpy.where(number > 0, 1, 0) if each else number).sum() if whole < 0 else number.dtype.type(whole)
    weight = factor / numpy.where(number > 0, found, 1)
    if each:
        weight = weight / (length or numpy.maximum(number, 1))
    weight = numpy.where(number > 0, weight, 0)
    _write(weights, weight)
    _write(out, numpy.where(number > 0, total * weight, 0).sum())


FORMULAS_OF_STEPS: dict[str, Formula] = {
    "recurrence_rows": _recurrence,
    "average_rows": _average,
    "advantage_rows": _advantages,
    "reward_rows": _rewards,
    "standard_rows": _standard,
    "policy_rows": _policy,
    "marked_sums": _sums,
    "mean_sums": _mean,
}
FORMULAS.update(FORMULAS_OF_STEPS)
