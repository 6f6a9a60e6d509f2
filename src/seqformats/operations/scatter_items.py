"""Updates at chosen places of every sequence of a batch: the inverse, and the transpose, of `gather`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, freeze, library_of
from ..arrays.dtypes import differentiable, sums_in
from ..converters.convert import restore, rows_of
from ..errors import COUNTS, DTYPE, UNLIKE
from ..formats import Encoding, Ragged
from ..formats.encoding import abridge
from ..formats.leaves import without_data
from ..formats.structure import Structure
from ..gradients.operation import Call, Operand, each_gradient, linear_call
from .calculation import name_of
from .join import check_alike
from .pick import pick, place, places_in


def scatter_call(given: list[Operand], index: object, adds: bool) -> Call[Any]:
    """The call of `scatter` for a batch and updates, which are added to its items or replace them."""
    base, updates = given[0].own, given[1].own
    check_alike((base, updates), "", ("base", "updates"))
    places, structure = places_in(base, index, "base")
    found = updates._structure
    if found.n != structure.n:
        raise COUNTS(f"updates has {found.n} sequences, but base has {structure.n}")
    if not found.same_lengths(structure):
        raise UNLIKE(
            f"index has sequences of lengths {abridge(structure.lengths)}, but updates {abridge(found.lengths)}"
        )
    name = name_of(base)
    if adds and sums_in(name) and name == "bool":
        raise DTYPE('bools cannot be added up in place; give integers, or mode="put"')
    own = _Scattered(without_data(base), without_data(updates), places, structure)
    call, gradient = own if adds else _Puts.from_updates(own), each_gradient(given)
    check = (lambda: differentiable(name, "a sum")) if adds else None
    return linear_call((base, updates), call.forward, call.back, given[0].result, gradient, check=check)


class _Scattered(NamedTuple):
    """Updates that are added, checked."""

    base: Encoding
    updates: Encoding
    places: Array  # int64 (updates,), from the beginning of each sequence
    structure: Structure  # of the updates

    def forward(self, operands: tuple[Encoding, Encoding]) -> Any:
        """The sums."""
        base, updates = operands
        return place(updates, self.places, self.base, start=rows_of(base))

    def back(self, dy: Encoding) -> tuple[Any, Any]:
        """The gradients of both."""
        taken = pick(Ragged._freeze(rows_of(dy), self.base._structure), self.places, self.structure)
        return dy, restore(taken, self.updates)


class _Puts(NamedTuple):
    """Updates that replace items: of those for one place the last."""

    own: _Scattered
    last: Array  # which updates stay, by their places in their sequences
    places: Array  # where these go
    kept: Structure

    @classmethod
    def from_updates(cls, own: _Scattered) -> _Puts:
        """Find the last update of each place."""
        offsets, rows = own.structure.offsets, own.structure.rows
        flat = own.places + np.repeat(own.base._structure.offsets[:-1], own.structure.lengths)
        newest = np.full(own.base._structure.rows, -1, np.int64)
        newest[flat] = np.arange(rows)  # NumPy writes them in order
        stays = newest[flat] == np.arange(rows)
        counts = np.diff(np.concatenate([[0], np.cumsum(stays)])[offsets])
        last = np.arange(rows) - np.repeat(offsets[:-1], own.structure.lengths)
        return cls(own, freeze(last[stays]), freeze(own.places[stays]), Structure.of_lengths(counts))

    def forward(self, operands: tuple[Encoding, Encoding]) -> Any:
        """The updates over the items."""
        base, updates = operands
        new = pick(Ragged._freeze(rows_of(updates), self.own.structure), self.last, self.kept)
        return place(new, self.places, self.own.base, once=True, start=rows_of(base))

    def back(self, dy: Encoding) -> tuple[Any, Any]:
        """The gradients of both: zeros where an item is replaced, and where an update is."""
        rows = rows_of(dy)
        taken = pick(Ragged._freeze(rows, self.own.base._structure), self.places, self.kept)
        zeros = library_of(rows).zeros((self.kept.rows, *rows.shape[1:]), rows.dtype, rows)
        left = place(Ragged._freeze(zeros, self.kept), self.places, self.own.base, once=True, start=rows)
        return left, place(taken, self.last, self.own.updates, once=True)
