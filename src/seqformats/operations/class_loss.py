"""A loss of classes: its values, and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import NUMPY, Array, Library, library_of, to_host
from ..arrays.dtypes import HALF, differentiable, in_floats
from ..converters.convert import convert, relaid, restore, rows_of, without_padding
from ..errors import INDEX, SHAPE
from ..formats import Encoding, Ragged
from ..formats.annotations import Operands
from ..formats.leaves import calculate, without_data
from ..gradients.operation import Pullback
from ..launch.kernel import Work, kernel
from .calculation import in_one_array, layout_for, rows_like, scratch
from .choices import Ignored
from .companions import one_sequence
from .options import label, share
from .reduction import over_levels, rows_or_data
from .spread import spread, sum_items

check_targets = kernel("check_targets")
class_losses, class_losses_back = kernel("class_losses"), kernel("class_losses_back")

LOSS_OF_BATCH, LOSS_OF_SEQUENCE, LOSS_OF_ITEM = 0, 1, 2
"""What has a loss, as the kernels number it."""
LOSS_TOTAL = 3
"""All items together, as in `LOSS_OF_BATCH`, but added up."""


class ClassLoss(NamedTuple):
    """A loss whose targets are checked."""

    shape: Encoding  # of the scores, without data
    at: Encoding  # the same in one array
    library: Library
    name: str  # the dtype of the scores, and that of the kernels
    kind: str
    on: Library  # in whose arrays kernels write: NumPy's on the host, the quickest to make
    each: int  # LOSS_OF_BATCH, LOSS_OF_SEQUENCE or LOSS_OF_ITEM
    targets: Array  # int64, laid out as `at`
    scale: Array  # (n,) what the loss of an item is multiplied by, of each sequence
    factors: Array  # see the kernel
    ignored: Ignored

    def losses(self, x: Encoding) -> tuple[Encoding, Encoding, Array]:
        """The scores in one array, the losses of their items, and what the gradient needs."""
        z, at, made = in_one_array(x), self.at, self.on.dtype(self.kind)
        out = rows_like(self.on, at, (), made, z.data)
        kept = rows_like(self.on, at, (2,), made, z.data)
        structure = at._structure
        if structure.rows:
            inputs = (self.cast(z.data), self.targets, self.scale, self.factors)
            args, width = (at._layout(), self.ignored), int(z.item_shape[0])
            class_losses.start(self.library, inputs, (out, kept), args, width, structure, self.work())
        return z, at._with_data(out), kept

    def rows_of(self, losses: Encoding) -> Array:
        """The losses of items, sequence by sequence, as an array of the caller's library."""
        rows = rows_of(losses)
        return rows if self.on is self.library else self.library.import_array(rows, NUMPY)

    def cast(self, x: Array) -> Array:
        """In the dtype of the kernels."""
        return self.library.astype(x, self.kind)

    def to_caller(self, x: Array) -> Array:
        """Return results of kernels as an array of the caller's library, in the dtype of the scores if that is half."""
        y = x if self.on is self.library else self.library.import_array(x, NUMPY)
        return self.library.astype(y, self.name) if self.name in HALF else y

    def work(self) -> Work | None:
        """On a GPU an item is a unit."""
        rows = self.at._structure.rows
        return None if self.on is NUMPY else Work(rows, rows)

    def reduce(self, losses: Encoding) -> Any:
        """The result, of the losses of items."""
        if self.each == LOSS_OF_ITEM:
            return self.shape._with_data(self.to_caller(losses.data))
        y = sum_items(losses)
        if self.each == LOSS_OF_SEQUENCE:
            return over_levels(self.to_caller(y), self.shape)
        return self.to_caller(self.total(y))

    def total(self, sums: Array) -> Array:
        """The sum of those of all sequences, an array without an axis."""
        reshaped: Array = sum_items(Ragged._freeze(sums, one_sequence(self.at._structure.n))).reshape(())
        return reshaped

    def with_pullback(self, x: Encoding) -> tuple[Any, Pullback]:
        """The result and its pullback."""
        differentiable(self.name, "a cross entropy")
        z, losses, kept = self.losses(x)
        scores = self.library.alias(z.data)
        return self.reduce(losses), lambda dy: self.slopes_of(scores, kept, self.arrays_of(dy))

    def arrays_of(self, dy: Operands) -> Array:
        """The gradient of the result as the kernel takes it."""
        if self.each == LOSS_OF_ITEM:
            slopes: Array = relaid(convert(dy, Ragged) if dy.keeps_levels else dy, self.at).data
            return slopes
        return rows_or_data(dy)

    def slopes_of(self, scores: Array, kept: Array, slopes: Array) -> Any:
        """The gradient of the scores."""
        item = self.shape.item_shape
        out = rows_like(self.on, self.at, item, self.on.dtype(self.kind), kept)
        structure = self.at._structure
        if structure.rows:
            inputs = (self.cast(scores), self.targets, self.scale, self.factors, self.cast(slopes), kept)
            args = (self.at._layout(), self.each, self.ignored)
            class_losses_back.start(self.library, inputs, (out,), args, int(item[0]), structure, self.work())
        return self.shape._with_data(self.library.astype(self.to_caller(out), self.name))

    def second_order(self, x: Encoding, dy: Operands) -> Any:
        """The pullback, made of operations that have gradients themselves."""
        z = x if x._in_one_array else convert(x, Ragged)
        library, scores = self.library, z.data
        if not self.at.rows:
            return restore(z._with_data(scores * 0), self.shape)
        kept = self.to_caller(self.losses(self.at._with_data(library.alias(scores)))[2])
        if self.ignored.there:  # no infinity may come from items without a loss, since that times 0 is NaN
            counts = (self.targets != self.ignored.target)[..., None]
            scores = library.where(counts, scores, 0.0)
        powers = library.exp(scores - library.astype(kept[..., :1], self.name))
        own, _, share = self.factors.tolist()
        classes = library.from_host(np.arange(int(self.shape.item_shape[0])), scores)
        right = library.astype(self.targets[..., None] == classes, self.name)
        slopes = powers / powers.sum(-1)[..., None] - right * own - share
        if self.ignored.there:
            slopes = slopes * library.astype(counts, self.name)
        scale = library.astype(library.from_host(self.scale, scores), self.name)
        if self.each == LOSS_OF_ITEM:
            weights = self.arrays_of(dy)
        elif self.each == LOSS_OF_SEQUENCE:
            weights = spread(rows_or_data(dy) * scale, without_data(self.at)).data
        else:
            weights = dy * scale[0]
        return restore(without_padding(self.at._with_data(slopes * weights[..., None])), self.shape)


def loss_of(own: Encoding, right: Encoding, each: int, ignore: object, smoothing: object) -> ClassLoss:
    """The loss, its targets checked, and laid out as the scores."""
    item, structure, sample = own.item_shape, own._structure, own._sample()
    if len(item) != 1:
        raise SHAPE(f"logits are items of one axis, the scores of all classes, but they have shape {item}")
    library = library_of(sample)
    if (
        not library.functional
    ):  # read once: another thread may change what is checked, and who asks for a gradient later
        right = right._with_data(library_of(right.data).copy(right.data))
    classes, name = int(item[0]), library.dtype_name(own._dtype)
    part = share(smoothing, "label_smoothing")
    ignored = Ignored(0, 0) if ignore is None else Ignored(label(ignore), 1)
    kind = in_floats(name, "a cross entropy")[0]
    counts = counts_of(right, classes, ignored)
    if type(counts) is not np.ndarray:
        scale = _scale_in_program(library, counts, each, kind)
    elif each == LOSS_OF_SEQUENCE:
        scale = (1.0 / np.maximum(counts, 1)).astype(kind)
    else:
        scale = np.empty(structure.n, kind)
        scale.fill(1.0 / max(int(np.add.reduce(counts)), 1) if each == LOSS_OF_BATCH else 1.0)
    factors = np.array([1 - part, part, part / max(classes, 1)], kind)
    shape = without_data(own)
    at = layout_for(shape, item, own._dtype)
    laid = library.astype(relaid(right, at).data, "int64")
    on = NUMPY if library.kind(sample) == "cpu" else library
    summed_up = LOSS_OF_BATCH if each == LOSS_TOTAL else each
    return ClassLoss(shape, at, library, name, kind, on, summed_up, laid, scale, factors, ignored)


def _scale_in_program(library: Library, counts: Array, each: int, kind: str) -> Array:
    """Return the factor of the loss of an item of each sequence, where counts are values of a program."""
    if each == LOSS_OF_BATCH:
        counts = counts * 0 + counts.sum()
    elif each in (LOSS_OF_ITEM, LOSS_TOTAL):
        counts = counts * 0
    return library.astype(1.0 / library.where(counts > 0, counts, 1), kind)


def counts_of(right: Encoding, classes: int, ignored: Ignored) -> Array:
    """Count the targets of each sequence that matter, on the host; IndexError where one is no class.

    Where a program is traced, nobody can look at targets, and how many count is a value of the program.
    """
    library, structure = library_of(right.data), right._structure
    if not structure.rows:
        return np.zeros(structure.n, np.int64)
    if library.functional and library.wants_grad((right.data,)):
        if not ignored.there:
            return structure.lengths
        kept: Array = calculate(sum_items, right._with_data(library.astype(right.data != ignored.target, "int32")))
        return kept
    out = scratch(library, (structure.n,), "int64", right.data)
    check_targets.start(library, (right.data,), (out,), (right._layout(), classes, *ignored), 1, structure)
    counts = out if type(out) is np.ndarray else library.to_numpy(out)
    if np.minimum.reduce(counts) < 0:
        i = int((counts < 0).argmax())
        t = -1 - int(counts[i])
        target = to_host(rows_of(right))[structure.offsets[i] + t]
        hint = "" if ignored.there else "; ignore=, if it stands for none"
        raise INDEX(f"the target of item {t} of sequence {i} is {target}, but there are {classes} classes{hint}")
    return counts
