"""Weights of the items of a loss: how the losses of items become its result, and the way back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library, library_of, to_host
from ..arrays.dtypes import HALF
from ..converters.convert import restore, rows_of
from ..formats import Encoding, Ragged
from ..formats.annotations import Operands
from ..formats.leaves import without_data
from ..formats.structure import Structure
from ..gradients.operation import Operand, Pullback
from .annotations import Weights
from .class_loss import LOSS_OF_BATCH, LOSS_OF_ITEM, LOSS_OF_SEQUENCE
from .companions import one_sequence
from .options import label
from .reduction import over_levels, rows_or_data
from .weighted_sums import WITHOUT_SLOPES, WeightedSums, weights_of

_UNCOUNTED = -1
"""The target of items that a mask leaves out, where there is none for what is ignored."""


class ItemWeights(NamedTuple):
    """Weights that are checked, and what is summed up with them."""

    given: Operand
    shape: Encoding  # of the batch of the loss, without data
    each: int  # LOSS_OF_BATCH, LOSS_OF_SEQUENCE, LOSS_OF_ITEM or LOSS_TOTAL
    weighing: WeightedSums
    sums: Structure  # the items of each sum
    counted: Array | None  # bools (rows,): which items have a loss; None for all

    @classmethod
    def from_weights(
        cls, weights: Weights, own: Encoding, right: Encoding, each: int, ignore: int | None, kind: str
    ) -> tuple[ItemWeights, Encoding, int | None]:
        """The weights of the items of `own`; the targets, and which is ignored, after masks have left out some.

        An item with a weight of 0 in a mask, or among counts, has no loss, whatever its scores and its target are.
        """
        structure, sample = own._structure, own._sample()
        given = weights_of(weights, right)
        library, counted = library_of(sample), None
        ignore = None if ignore is None else label(ignore)
        if given.gradient is WITHOUT_SLOPES:
            ignore = _UNCOUNTED if ignore is None else ignore
            kept = _where(library, rows_of(given.own), rows_of(right), ignore)
            right = Ragged._freeze(kept, structure)
        if ignore is not None:
            counted = _differs(library, rows_of(right), ignore)
        mean = each in (LOSS_OF_BATCH, LOSS_OF_SEQUENCE)
        if each == LOSS_OF_ITEM:
            sums = Structure.of_lengths(np.ones(structure.rows, np.int64))
        else:
            sums = structure if each == LOSS_OF_SEQUENCE else one_sequence(structure.rows)
        made = cls(given, without_data(own), each, WeightedSums(None, int(mean), kind, False), sums, counted)
        return made, right, ignore

    def reduce(self, losses: Array, weights: Encoding, name: str, back: bool) -> tuple[Any, Pullback | None]:
        """The result of the losses ``(rows,)`` of items, in the dtype `name` if that is half, and its pullback.

        That gives the gradients of the losses, ``(rows,)``, and of the weights.
        """
        library = library_of(losses)
        factors = self._count(library, rows_of(weights))
        values, _, pull = self.weighing.calculate(
            Ragged._freeze(losses, self.sums), Ragged._freeze(factors, self.sums), back
        )
        y = self._result(library.astype(values, name) if name in HALF else values)
        if pull is None:
            return y, None
        shape = without_data(weights)

        def pullback(dy: object) -> tuple[Array, Encoding]:
            of_losses, of_weights = pull(self._slopes(dy))
            return rows_of(of_losses), self._of_weights(library, rows_of(of_weights), shape)

        return y, pullback

    def second_order(self, losses: Array, weights: Encoding, dy: object) -> tuple[Array, Encoding]:
        """The gradients of losses and weights, made of operations that have gradients themselves."""
        library = library_of(losses)
        factors = self._count(library, rows_of(weights))
        operands = Ragged._freeze(losses, self.sums), Ragged._freeze(factors, self.sums)
        of_losses, of_weights = self.weighing.second_order(operands, self._slopes(dy))
        return rows_of(of_losses), self._of_weights(library, rows_of(of_weights), without_data(weights))

    def _result(self, values: Array) -> Any:
        """Return the sums or means as the caller gets them."""
        if self.each == LOSS_OF_ITEM:
            return restore(Ragged._freeze(values, self.shape._structure), self.shape)
        return over_levels(values, self.shape) if self.each == LOSS_OF_SEQUENCE else values.reshape(())

    def _slopes(self, dy: Operands) -> Array:
        """The gradient of the result as that of the sums or means."""
        if self.each == LOSS_OF_ITEM:
            return rows_of(dy)
        slopes = rows_or_data(dy)
        return slopes if self.each == LOSS_OF_SEQUENCE else slopes.reshape(1)

    def _count(self, library: Library, rows: Array) -> Array:
        """Weights, or their gradients, with 0 for items without a loss."""
        if self.counted is None:
            return rows
        if library.arithmetic:
            return library.where(self.counted, rows, 0.0)
        return library.from_host(np.where(to_host(self.counted), to_host(rows), 0), rows)

    def _of_weights(self, library: Library, rows: Array, shape: Encoding) -> Encoding:
        """The gradient of the weights in their layout."""
        return restore(Ragged._freeze(self._count(library, rows), self.shape._structure), shape)


def _where(library: Library, marks: Array, targets: Array, ignore: int) -> Array:
    """The targets as int64, those without a mark ignored."""
    targets = library.astype(targets, "int64")
    if library.arithmetic:
        return library.where(marks != 0, targets, ignore)
    return library.from_host(np.where(to_host(marks) != 0, to_host(targets), ignore), targets)


def _differs(library: Library, targets: Array, ignore: int) -> Array:
    """Which targets are not the one that is ignored."""
    return targets != ignore if library.arithmetic else library.from_host(to_host(targets) != ignore, targets)
