"""The cross entropy of scores and classes, which training minimizes."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, frozen, is_array, library_of, to_host
from ..arrays.dtypes import HALF, differentiable, in_floats
from ..converters.convert import convert, relaid, restored, rows_of, without_padding
from ..doors.door import Losing, Plan
from ..errors import ConversionError, DeviceError, StructureError, said
from ..formats import Encoding, Ragged
from ..formats.annotations import Integers
from ..formats.encoding import shown
from ..formats.leaves import calculated, without_data
from ..formats.structure import Structure
from ..gradients.operation import Call, Pullback, operand, to_be_summed, with_rule
from ..launch.kernel import Work, kernel, variant_of
from .annotations import B, Batch, Flat, Nested
from .options import label, share
from .over import in_one_array, layout_for, rows_like, scratch
from .reduction import operand_of_reduction, over_levels, rows_or_data
from .spread import spread, summed, sums_of

check_targets = kernel("check_targets")
class_losses, class_losses_back = kernel("class_losses"), kernel("class_losses_back")

_ONE, _SEQUENCE, _ITEM = 0, 1, 2
_REDUCTIONS = {"mean": _ONE, "sequence": _SEQUENCE, "none": _ITEM}
"""What has a loss, as the kernels number it."""
_UNSMOOTHED = 0.0
_DOOR = Losing(())
_DOOR.default = (_UNSMOOTHED,)


@overload
def cross_entropy(
    logits: B,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["none"],
) -> B: ...
@overload
def cross_entropy(
    logits: Batch,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["mean"],
) -> Array: ...
@overload
def cross_entropy(
    logits: Nested,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["sequence"] = ...,
) -> Any: ...
@overload
def cross_entropy(
    logits: Flat,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["sequence"] = ...,
) -> Array: ...
def cross_entropy(
    logits: Batch,
    targets: Batch | Integers,
    *,
    ignore: int | None = None,
    label_smoothing: float = _UNSMOOTHED,
    reduction: Literal["sequence", "mean", "none"] = "sequence",
) -> Any:
    """The cross entropy of the scores of classes and the classes that are right: its logarithm of softmax, negative.

    Parameters
    ----------
    logits : an encoding, a list of arrays or nested lists
        Items of one axis, a score for each class.
    targets : an encoding, a list of arrays or nested lists, or an array ``(rows,)``
        Integers over the same sequences, laid out in any way; an array has one an item, in the caller's order.
    ignore : int, optional
        The target of items without a loss, -100 say.
    label_smoothing : float
        The part of a loss, from 0 to 1, that is the mean over all classes.
    reduction : "sequence", "mean" or "none"
        The mean over each (innermost) sequence, over all items, or the loss of each item.

    Returns
    -------
    array, encoding, LoD or list
        With "none" what `logits` is, of one number an item, and 0 where there is no loss.  With "sequence" an array
        ``(n,)``; of a `LoD` with more levels a `LoD` without its innermost, of nested lists with more levels nested
        lists.  With "mean" an array of one number and no axis.  Floats keep their dtype, float16 and bfloat16 are
        calculated as float32, and give that under ``torch.autocast``; others give float64.

    Raises
    ------
    IndexError
        For a target that is no class.
    StructureError
        For targets over other sequences, and items of another number of axes.
    DeviceError
        For targets on another device, or of another library.
    ConversionError
        For a smoothing or a reduction that cannot be.
    TypeError
        For scores without an order, and targets that are no integers.

    See Also
    --------
    mask_tokens : Targets of which most are ignored.
    log_softmax : Along sequences, not classes.

    Notes
    -----
    With "mean" it is PyTorch's ``cross_entropy(ignore_index=ignore)`` over all items.  A mean counts the items with a
    loss; where there is none it is 0, as is its gradient.  The scores are read once, and nothing of their size is
    written but the gradient, which the scores and two numbers an item are kept for.  A class with a score of -inf is no
    class; NaN and +inf give NaN, as does an item of -inf alone.

    How many targets of each sequence count, or which is no class, is copied to the host once.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> scores = sf.Ragged(np.log(np.array([[1.0, 3.0], [1.0, 1.0], [4.0, 1.0]])), [2, 1])
    >>> sf.cross_entropy(scores, [[1, 0], [0]]).round(4)
    array([0.4904, 0.2231])
    >>> sf.cross_entropy(scores, [[1, -100], [0]], ignore=-100, reduction="none").data.round(4)
    array([0.2877, 0.    , 0.2231])
    """
    each = _REDUCTIONS.get(reduction) if isinstance(reduction, str) else None
    found = _DOOR.enter(logits, targets, ignore, each, label_smoothing)
    return _prepared(logits, targets, ignore, label_smoothing, reduction).run() if found is None else found


def _prepared(
    logits: Batch, targets: Batch | Integers, ignore: int | None, label_smoothing: float, reduction: object
) -> Call[Any]:
    if not isinstance(reduction, str) or reduction not in _REDUCTIONS:
        raise ConversionError(f"reduction must be one of {', '.join(map(repr, _REDUCTIONS))}, not {said(reduction)}")
    each = _REDUCTIONS[reduction]
    own, result, gradient = to_be_summed(operand(logits) if each == _ITEM else operand_of_reduction(logits))
    right = _targets(targets, own)
    loss = _loss_of(own, right, each, ignore, label_smoothing)

    def rule(x: Encoding, back: bool) -> tuple[Any, Pullback | None]:
        if back:
            return loss.with_pullback(x)
        y = loss.reduced(loss.losses(x)[1])
        if label_smoothing is _UNSMOOTHED:
            loss.learn((x, right, ignore, each), y)
        return y, None

    return Call(own, rule, result, gradient, loss.second_order)


with_rule(cross_entropy, _prepared)


class _Loss(NamedTuple):
    """A loss whose targets are checked."""

    shape: Encoding  # of the scores, without data
    at: Encoding  # the same in one array
    library: Library
    name: str  # the dtype of the scores, and that of the kernels
    kind: str
    on: Library  # in whose arrays kernels write: NumPy's on the host, the quickest to make
    each: int
    targets: Array  # int64, laid out as `at`
    scale: Array  # (n,) what the loss of an item is multiplied by, of each sequence
    factors: Array  # see the kernel
    ignored: tuple[int, int]

    def losses(self, x: Encoding) -> tuple[Encoding, Encoding, Array]:
        """The scores in one array, the losses of their items, and what the gradient needs."""
        z, at, made = in_one_array(x), self.at, self.on.dtype(self.kind)
        out = rows_like(self.on, at, (), made, z.data)
        kept = rows_like(self.on, at, (2,), made, z.data)
        structure = at._structure
        if structure.rows:
            inputs = (self.cast(z.data), self.targets, self.scale, self.factors)
            args, width = (at._layout(), *self.ignored), int(z.item_shape[0])
            class_losses.start(self.library, inputs, (out, kept), args, width, structure, self.work())
        return z, at._with_data(out), kept

    def cast(self, x: Array) -> Array:
        """In the dtype of the kernels."""
        return self.library.astype(x, self.kind)

    def given(self, x: Array) -> Array:
        """What kernels have written as an array of the caller's library, in the dtype of the scores if that is half."""
        y = x if self.on is self.library else self.library.taken(x, NUMPY)
        return self.library.astype(y, self.name) if self.name in HALF else y

    def work(self) -> Work | None:
        """On a GPU an item is a unit."""
        rows = self.at._structure.rows
        return None if self.on is NUMPY else Work(rows, rows)

    def reduced(self, losses: Encoding) -> Any:
        """The result, of the losses of items."""
        if self.each == _ITEM:
            return self.shape._with_data(self.given(losses.data))
        y = summed(losses)
        if self.each == _SEQUENCE:
            return over_levels(self.given(y), self.shape)
        return self.given(self.total(y))

    def total(self, sums: Array) -> Array:
        """The sum of those of all sequences, an array without an axis."""
        return summed(Ragged._sealed(sums, _one_sequence(self.at._structure.n))).reshape(())

    def with_pullback(self, x: Encoding) -> tuple[Any, Pullback]:
        """The result and its pullback."""
        differentiable(self.name, "a cross entropy")
        z, losses, kept = self.losses(x)
        scores = self.library.alias(z.data)
        return self.reduced(losses), lambda dy: self.slopes_of(scores, kept, self.arrays_of(dy))

    def learn(self, args: tuple[Any, ...], result: Any) -> None:
        """Open the door for calls like this one, if nothing was cast."""
        dtypes = args[0]._dtype, args[1]._dtype
        plain = self.kind == self.name and self.library.dtype_name(dtypes[1]) == "int64"
        if self.library.has_doors and plain and not _DOOR.knows(*dtypes):
            losses = variant_of(self.name, "int64", *[self.name] * 4)
            others = (
                (check_targets, variant_of("int64", "int64")),
                (sums_of[0].kernel, variant_of(self.name, self.name)),
            )
            _DOOR.learn(args, result, Plan(dtypes, class_losses, losses, dtypes[0], others))

    def arrays_of(self, dy: Any) -> Array:
        """The gradient of the result as the kernel takes it."""
        if self.each == _ITEM:
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
            args = (self.at._layout(), self.each, *self.ignored)
            class_losses_back.start(self.library, inputs, (out,), args, int(item[0]), structure, self.work())
        return self.shape._with_data(self.library.astype(self.given(out), self.name))

    def second_order(self, x: Encoding, dy: Any) -> Any:
        """The pullback, made of operations that have gradients themselves."""
        z = x if x._in_one_array else convert(x, Ragged)
        library, scores = self.library, z.data
        if not self.at.rows:
            return restored(z._with_data(scores * 0), self.shape)
        kept = self.given(self.losses(self.at._with_data(library.alias(scores)))[2])
        if self.ignored[1]:  # no infinity may come from items without a loss, since that times 0 is NaN
            counts = (self.targets != self.ignored[0])[..., None]
            scores = library.where(counts, scores, 0.0)
        powers = library.exp(scores - library.astype(kept[..., :1], self.name))
        own, _, share = self.factors.tolist()
        classes = library.from_host(np.arange(int(self.shape.item_shape[0])), scores)
        right = library.astype(self.targets[..., None] == classes, self.name)
        slopes = powers / powers.sum(-1)[..., None] - right * own - share
        if self.ignored[1]:
            slopes = slopes * library.astype(counts, self.name)
        scale = library.astype(library.from_host(self.scale, scores), self.name)
        if self.each == _ITEM:
            weights = self.arrays_of(dy)
        elif self.each == _SEQUENCE:
            weights = spread(rows_or_data(dy) * scale, without_data(self.at)).data
        else:
            weights = dy * scale[0]
        return restored(without_padding(self.at._with_data(slopes * weights[..., None])), self.shape)


@functools.lru_cache(maxsize=64)
def _one_sequence(n: int) -> Structure:
    """Of so many items."""
    return Structure(frozen(np.array([n])), frozen(np.array([0, n])), n)


def _loss_of(own: Encoding, right: Encoding, each: int, ignore: object, smoothing: object) -> _Loss:
    """The loss, its targets checked, and laid out as the scores."""
    item, structure, sample = own.item_shape, own._structure, own._sample()
    if len(item) != 1:
        raise StructureError(f"logits are items of one axis, the scores of all classes, but they have shape {item}")
    library = library_of(sample)
    classes, name = int(item[0]), library.dtype_name(own._dtype)
    part = share(smoothing, "label_smoothing")
    ignored = (0, 0) if ignore is None else (label(ignore), 1)
    kind = in_floats(name, "a cross entropy")[0]
    counts = _counts(right, classes, ignored)
    if type(counts) is not np.ndarray:
        scale = _scale_in_program(library, counts, each, kind)
    elif each == _SEQUENCE:
        scale = (1.0 / np.maximum(counts, 1)).astype(kind)
    else:
        scale = np.empty(structure.n, kind)
        scale.fill(1.0 / max(int(np.add.reduce(counts)), 1) if each == _ONE else 1.0)
    factors = np.array([1 - part, part, part / max(classes, 1)], kind)
    shape = without_data(own)
    at = layout_for(shape, item, own._dtype)
    laid = library.astype(relaid(right, at).data, "int64")
    on = NUMPY if library.kind(sample) == "cpu" else library
    return _Loss(shape, at, library, name, kind, on, each, laid, scale, factors, ignored)


def _scale_in_program(library: Library, counts: Array, each: int, kind: str) -> Array:
    """What the loss of an item is multiplied by, of each sequence, where counts are values of a program."""
    if each == _ONE:
        counts = counts * 0 + counts.sum()
    elif each == _ITEM:
        counts = counts * 0
    return library.astype(1.0 / library.where(counts > 0, counts, 1), kind)


def _targets(given: Any, own: Encoding) -> Encoding:
    """The targets as an encoding in one array, with one level, of integers that are no uint64."""
    structure, sample = own._structure, own._sample()
    if is_array(given):
        library, flat = adopt(given, "targets")
        if tuple(flat.shape) != (structure.rows,):
            raise StructureError(
                f"targets have shape {tuple(flat.shape)}, but there are {structure.rows} items; an array of targets "
                "has one of each, without padding"
            )
        right: Encoding = Ragged._sealed(flat, structure)
    else:
        right = operand(given).own
        if not right._structure.same_lengths(structure):
            raise StructureError(
                f"targets have sequences of lengths {shown(right._structure.lengths)}, but logits "
                f"{shown(structure.lengths)}"
            )
        if right.keeps_levels or not right._in_one_array:
            right = convert(right, Ragged)
        library, flat = right._look(), right._sample()
        if math.prod(right.item_shape) != 1 or len(right.item_shape) > 1:
            raise StructureError(f"targets hold one class an item, but have item shape {right.item_shape}")
    name = library.dtype_name(flat.dtype)
    if not name.startswith(("int", "uint")):
        if right.rows:
            raise TypeError(f"targets are integers, but have dtype {name}")
        return Ragged._sealed(library_of(sample).zeros((0,), library_of(sample).dtype("int64"), sample), structure)
    beside = library is library_of(sample)
    if not beside or (library is not NUMPY and library.device(flat) != library.device(sample)):
        raise DeviceError(
            f"targets are on {library.device(flat)}, {library.name}; logits are on {own.device}, "
            f"{library_of(sample).name}"
        )
    if name == "uint64":  # no class is over int64, which there is below 0
        right = right._with_data(library.astype(right.data, name).view(library.dtype("int64")))
    if len(right._shape) > right._lead:
        right = right._with_data(right.data.reshape(right._shape[: right._lead]))
    return right


def _counts(right: Encoding, classes: int, ignored: tuple[int, int]) -> Array:
    """How many targets of each sequence count, on the host; IndexError where one is no class.

    Where a program is traced, nobody can look at targets, and how many count is a value of the program.
    """
    library, structure = library_of(right.data), right._structure
    if not structure.rows:
        return np.zeros(structure.n, np.int64)
    if library.functional and library.wants_grad((right.data,)):
        if not ignored[1]:
            return structure.lengths
        kept: Array = calculated(summed, right._with_data(library.astype(right.data != ignored[0], "int32")))
        return kept
    out = scratch(library, (structure.n,), "int64", right.data)
    check_targets.start(library, (right.data,), (out,), (right._layout(), classes, *ignored), 1, structure)
    counts = out if type(out) is np.ndarray else library.to_numpy(out)
    if np.minimum.reduce(counts) < 0:
        i = int((counts < 0).argmax())
        t = -1 - int(counts[i])
        target = to_host(rows_of(right))[structure.offsets[i] + t]
        hint = "" if ignored[1] else "; ignore=, if it stands for none"
        raise IndexError(f"the target of item {t} of sequence {i} is {target}, but there are {classes} classes{hint}")
    return counts
