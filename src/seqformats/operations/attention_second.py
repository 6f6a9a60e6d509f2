"""The gradients of attention made of operations that have gradients themselves, one sequence after the other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library, library_of
from ..converters.convert import restore, rows_of
from ..formats import Encoding, Ragged
from .attention_call import AttentionCall, Choices, kept_weights
from .attention_rows import SLOPES, TABLE


def second_order(call: AttentionCall, operands: tuple[Any, ...], dy: Encoding) -> tuple[Any, ...]:
    """The gradients of all operands, which keep all scores of a sequence at a time."""
    rows = [rows_of(x) for x in (*operands[:3], dy)]
    library = library_of(rows[0])
    heads, groups = call.heads, call.groups
    widths = (heads, call.deep), (groups, call.deep), (groups, call.wide), (heads, call.wide)
    q, k, v, slopes = (
        library.astype(x, call.kind).reshape(x.shape[0], *width) for x, width in zip(rows, widths, strict=True)
    )
    extras = [library.astype(x, call.kind) for x in operands[3:]]
    begins, ends = call.shapes[0]._structure.offsets.tolist(), call.shapes[1]._structure.offsets.tolist()
    found: list[list[Array]] = [[], [], []]
    sums = [x * 0 for x in extras]
    for i in range(len(begins) - 1):
        queries, keys = slice(*begins[i : i + 2]), slice(*ends[i : i + 2])
        one = _Sequence(call, library, i, extras)
        *each, added = one.gradients(q[queries], k[keys], v[keys], slopes[queries])
        for parts, part in zip(found, each, strict=True):
            parts.append(part)
        sums = [total + part for total, part in zip(sums, added, strict=True)]
    made = [library.concatenate(parts) if parts else x * 0 for parts, x in zip(found, (q, k, v), strict=True)]
    batches = [
        restore(
            Ragged._freeze(
                library.astype(d, call.name).reshape(shape._structure.rows, *shape.item_shape), shape._structure
            ),
            shape,
        )
        for d, shape in zip(made, call.shapes, strict=True)
    ]
    return (*batches, *[library.astype(x, name) for x, name in zip(sums, call.extras, strict=True)])


class _Sequence(NamedTuple):
    """One sequence of a call."""

    call: AttentionCall
    library: Library
    i: int
    extras: list[Array]

    def product(self, a: Array, b: Array) -> Array:
        """A product of matrices, which a library may be told to take in less."""
        return self.library.astype(a @ b, self.call.kind)

    def gradients(self, q: Array, k: Array, v: Array, slopes: Array) -> tuple[Any, ...]:
        """The gradients of queries, keys and values, ``(rows, heads, width)`` each, and a list of those of others."""
        call = self.call
        choices, groups, product = call.choices, call.groups, self.product
        t, m = q.shape[0], k.shape[0]
        share = call.heads // max(groups, 1)
        shape = (groups, share * t, m)
        queries = q.swapaxes(0, 1).reshape(groups, share * t, call.deep) * choices.scale
        slopes = slopes.swapaxes(0, 1).reshape(groups, share * t, call.wide)
        keys, values = k.swapaxes(0, 1), v.swapaxes(0, 1)
        scores = product(queries, keys.swapaxes(1, 2))
        bend: Any = 1.0
        if choices.cap:
            bent = self.tanh(scores / choices.cap)
            scores, bend = bent * choices.cap, 1 - bent * bent
        away = self.from_host(np.abs(np.arange(t)[:, None] + (m - t) - np.arange(m)), scores)
        if choices.form == TABLE:
            scores = scores + self.extras[0][:, :t, :m].reshape(*shape)
        elif choices.form == SLOPES:
            scores = scores - (self.extras[0][:, None, None] * away).reshape(*shape)
        shares, of_sinks = self.weights(scores, t, m)
        change = product(slopes, values.swapaxes(1, 2))
        weights = shares
        if choices.drop:
            kept = self.from_host(kept_weights(choices, call.heads, self.i, t, m).reshape(*shape), scores)
            change, weights = change * kept, shares * kept
        mean = (shares * change).sum(-1)[..., None]
        change = shares * (change - mean)
        added: list[Array] = []
        if choices.form:
            by_head = change.reshape(call.heads, t, m)
            added.append(self.in_table(by_head) if choices.form == TABLE else -(by_head * away).sum(-1).sum(-1))
        if of_sinks is not None:
            added.append(-(of_sinks * mean).reshape(call.heads, t).sum(-1))
        change = change * bend
        dq = (product(change, keys) * choices.scale).reshape(call.heads, t, call.deep).swapaxes(0, 1)
        dk, dv = product(change.swapaxes(1, 2), queries), product(weights.swapaxes(1, 2), slopes)
        return dq, dk.swapaxes(0, 1), dv.swapaxes(0, 1), added

    def weights(self, scores: Array, t: int, m: int) -> tuple[Array, Array | None]:
        """The softmax of what is seen of scores ``(groups, share * t, m)``, and the part of the sinks."""
        library, choices = self.library, self.call.choices
        seen = np.tile(_find_seen(choices, self.i, t, m), (scores.shape[1] // max(t, 1), 1))
        host = library.to_numpy(library.alias(scores))
        top = np.where(seen, host, -np.inf).max(-1, keepdims=True, initial=-np.inf)
        sinks = None
        if choices.sunk:
            sinks = self.extras[-1].reshape(scores.shape[0], -1, 1, 1) + library.from_host(
                np.zeros((1, 1, t, 1), self.call.kind), scores
            )
            sinks = sinks.reshape(*scores.shape[:2], 1)
            host = library.to_numpy(library.alias(sinks))
            top = np.where(np.isneginf(top), top, np.maximum(top, host))
        nothing = np.isneginf(top)
        top = library.from_host(np.where(nothing, 0, top).astype(self.call.kind), scores)
        shifted = library.where(library.from_host(seen, scores), scores - top, -math.inf)
        powers = library.exp(shifted)
        total = powers.sum(-1)[..., None]
        sunk = None
        if sinks is not None:
            sunk = library.where(library.from_host(nothing, scores), 0.0, library.exp(sinks - top))
            total = total + sunk
        total = library.where(total == 0, 1.0, total)
        return powers / total, None if sunk is None else sunk / total

    def tanh(self, x: Array) -> Array:
        """The hyperbolic tangent."""
        power = self.library.exp(self.library.where(x < 0, x, -x) * 2)
        ratio = (1 - power) / (1 + power)
        return self.library.where(x < 0, -ratio, ratio)

    def from_host(self, numbers: Array, like: Array) -> Array:
        """Numbers of the host as an array of the library."""
        return self.library.from_host(numbers.astype(self.call.kind), like)

    def in_table(self, x: Array) -> Array:
        """The slopes ``(heads, t, m)`` of a sequence, in the corner of a table of zeros."""
        heads, t, m = x.shape
        rows, columns = self.extras[0].shape[1:]
        library = self.library

        def zeros(*shape: int) -> Array:
            return self.from_host(np.zeros(shape), x)

        wide = library.concatenate([x.swapaxes(0, 2), zeros(columns - m, t, heads)]).swapaxes(0, 2)
        return library.concatenate([wide.swapaxes(0, 1), zeros(rows - t, heads, columns)]).swapaxes(0, 1)


def _find_seen(choices: Choices, i: int, t: int, m: int) -> Array:
    """The keys ``(t, m)`` that the queries of a sequence see."""
    stands, places = np.arange(t)[:, None] + (m - t), np.arange(m)
    seen = (places >= stands - choices.left) & (places <= stands + choices.right)
    if choices.chunk:
        seen &= stands // choices.chunk == places // choices.chunk
    if choices.prefixes.size:
        seen |= places < choices.prefixes[i]
    return np.asarray(seen)
