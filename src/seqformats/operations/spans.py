"""Corruption that go around special items: which rows become inputs and which targets, worked out on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, freeze, to_host
from ..formats import Encoding
from ..formats.annotations import Given
from ..formats.structure import Structure
from ..launch.kernel import kernel
from .calculation import flat_layout
from .choices import Corruption
from .companions import marks_beside
from .rearrange import without_tokens

corrupt_items = kernel("corrupt_items")


class Parts(NamedTuple):
    """Rows of the inputs and of the targets; those behind the last row of the batch are sentinels, by their number."""

    rows: tuple[Array, Array]
    structures: tuple[Structure, Structure]
    sentinels: Array  # (n,) how many each sequence has, but for the last one of its targets


def special_rows(x: Encoding, special: Given) -> Array:
    """Bools ``(rows,)`` on the host: which items are special, by an array of ids, or where a batch of bools says so."""
    if type(special) is np.ndarray:
        return without_tokens(x, special, "corrupt_spans")[1] == 0 if x.rows else np.zeros(0, bool)
    at = flat_layout(x._structure, (), np.dtype(bool))
    marks: Array = to_host(marks_beside(special, x, at, "special")).astype(bool)
    return marks


def divide(lengths: Array, part: float, size: float) -> tuple[Array, Array]:
    """Return the numbers of items in spans, and of spans, of sequences."""
    masked = np.minimum(np.maximum(np.rint(lengths * part).astype(np.int64), 1), np.maximum(lengths - 1, 0))
    wanted = np.maximum(np.rint(masked / size).astype(np.int64), 1)
    return masked, freeze(np.minimum(wanted, np.minimum(masked, lengths - masked)))


def rows_in_spans(lengths: Array, part: float, size: float, key: int) -> Array:
    """The rows that are in spans, of sequences of these lengths one after the other; on the host."""
    masked, spans = divide(lengths, part, size)
    structure = Structure.of_lengths(lengths)
    into, aside = Structure.of_lengths(lengths - masked + spans), Structure.of_lengths(masked + spans + 1)
    inputs, targets = np.empty(into.rows, np.int64), np.empty(aside.rows, np.int64)
    if aside.rows:
        args = (
            structure.flat,
            Corruption(into.offsets, aside.offsets, spans, key, -1),
        )  # so that sentinels are below all rows
        corrupt_items.start(NUMPY, (np.arange(structure.rows),), (inputs, targets), args, 1, structure)
    return targets[targets >= 0]


def divide_around(special: Array, structure: Structure, divide: Callable[[Array], Array]) -> Parts:
    """Divide the sequences without their special items, and put these back.

    `divide` gives, of the lengths of sequences, the rows in spans, counted without special items.  A span that has a
    special item within is two, each with a sentinel.
    """
    rows, n, offsets = structure.rows, structure.n, structure.offsets
    ordinary = np.flatnonzero(~special)
    hidden = np.zeros(rows, bool)
    hidden[ordinary[divide(np.diff(np.searchsorted(ordinary, offsets)))]] = True
    begins = hidden.copy()
    begins[1:] &= ~hidden[:-1]
    firsts = offsets[:-1][structure.lengths > 0]
    begins[firsts] = hidden[firsts]
    before = _cumulate(begins)
    sentinels = np.diff(before[offsets])
    number = rows + before[:-1] - np.repeat(before[offsets[:-1]], structure.lengths)
    shown = ~hidden | begins
    inputs = np.where(hidden, number, np.arange(rows))[shown]
    ends = _cumulate(hidden.astype(np.int64) + begins)
    places = ends[:-1] + np.repeat(np.arange(n), structure.lengths)  # each sequence before has a last sentinel
    targets = np.empty(ends[-1] + n, np.int64)
    targets[places[begins]] = number[begins]
    targets[(places + begins)[hidden]] = np.flatnonzero(hidden)
    targets[ends[offsets[1:]] + np.arange(n)] = rows + sentinels
    structures = (
        Structure.of_lengths(np.diff(_cumulate(shown)[offsets])),
        Structure.of_lengths(np.diff(ends[offsets]) + 1),
    )
    return Parts((inputs, targets), structures, sentinels)


def _cumulate(counts: Array) -> Array:
    """The sums before each place, and of all."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
