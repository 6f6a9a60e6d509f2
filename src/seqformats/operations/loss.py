"""The cross entropy of scores and classes, which training minimizes."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

from ..arrays import NUMPY, Array, adopt, is_array, library_of
from ..arrays.dtypes import differentiable, in_floats
from ..converters.convert import convert, rows_of
from ..errors import DEVICES, SHAPE, UNLIKE, WHOLE
from ..formats import Encoding, Ragged
from ..formats.annotations import Given, Integers, Operands
from ..formats.encoding import abridge
from ..formats.leaves import Rule, connect
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import (
    Call,
    Operand,
    Pullback,
    each_gradient,
    operand,
    operand_beside,
    to_be_summed,
    with_rule,
)
from .annotations import B, Batch, Flat, Nested, Weights
from .calculation import name_of
from .class_loss import LOSS_OF_ITEM, ClassLoss, loss_of
from .item_weights import ItemWeights
from .options import choice
from .reduction import operand_of_reduction

LOSS_REDUCTIONS = ("mean", "sequence", "none", "sum")
"""Public names of `LOSS_OF_BATCH`, `LOSS_OF_SEQUENCE`, `LOSS_OF_ITEM` and `LOSS_TOTAL`, in their order."""


@overload
def cross_entropy(
    logits: B,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["none"],
    weights: Weights | None = ...,
    level: int = ...,
) -> B: ...
@overload
def cross_entropy(
    logits: Batch,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["mean", "sum"],
    weights: Weights | None = ...,
    level: int = ...,
) -> Array: ...
@overload
def cross_entropy(
    logits: Nested,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["sequence"] = ...,
    weights: Weights | None = ...,
    level: int = ...,
) -> Any: ...
@overload
def cross_entropy(
    logits: Flat,
    targets: Batch | Integers,
    *,
    ignore: int | None = ...,
    label_smoothing: float = ...,
    reduction: Literal["sequence"] = ...,
    weights: Weights | None = ...,
    level: int = ...,
) -> Array: ...
def cross_entropy(
    logits: Batch,
    targets: Batch | Integers,
    *,
    ignore: int | None = None,
    label_smoothing: float = 0.0,
    reduction: Literal["sequence", "mean", "sum", "none"] = "sequence",
    weights: Weights | None = None,
    level: int = INNERMOST,
) -> Any:
    """The cross entropy of the scores of classes and the classes that are right: its logarithm of softmax, negative.

    Parameters
    ----------
    logits : an encoding, a list of arrays or nested lists
        Items of one axis, a score for each class.
    targets : an encoding, a list of arrays or nested lists, or an array ``(rows,)``
        Integers over the same sequences, laid out in any way; an array has one per item, in the caller's order.
    ignore : int, optional
        The target of items without a loss, -100 say.
    label_smoothing : float
        The part of a loss, from 0 to 1, that is the mean over all classes.
    reduction : "sequence", "mean", "sum" or "none"
        The mean over each sequence, over all items, their sum, or the loss of each item.
    weights : encoding, list of arrays, nested lists or array, optional
        A number per item, by which its loss is multiplied; means are divided by the sum of the weights.  Bools and
        integers are a mask, or counts: an item with 0 has no loss, whatever its scores and its target are.
    level : int
        See `reduce_sum`.  The losses of items, which are of no sequence, keep all levels.

    Returns
    -------
    array, encoding, LoD or list
        With "none" what `logits` is, of one number per item, and 0 where there is no loss.  With "sequence" an array
        ``(n,)``; of a `LoD` with more levels a `LoD` without its innermost, of nested lists with more levels nested
        lists.  With "mean" and "sum" an array of one number and no axis.  Floats keep their dtype, float16 and bfloat16
        are calculated as float32, and give that under ``torch.autocast``; others give float64.

    Raises
    ------
    IndexError
        For a target that is no class.
    StructureError
        For targets or weights over other sequences, and items of another number of axes.
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
    written but the gradient, for which the scores and two numbers per item are kept.  A class with a score of -inf does
    not count; NaN and +inf give NaN, as does an item of -inf alone.

    With `weights` the pullback gives a tuple: the gradients of the scores and of the weights, None for a mask.

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
    >>> float(sf.cross_entropy(scores, [[1, 0], [0]], reduction="sum", weights=np.array([1, 0, 2])).round(4))
    0.734
    """
    if level is not INNERMOST:
        options: Any = {"ignore": ignore, "label_smoothing": label_smoothing, "reduction": reduction}
        return at_level(cross_entropy, level, logits, targets, weights=weights, **options)
    return _prepare(logits, targets, ignore, label_smoothing, reduction, weights).run()


def _prepare(
    logits: Batch,
    targets: Batch | Integers,
    ignore: int | None,
    label_smoothing: float,
    reduction: object,
    weights: Weights | None,
) -> Call[Any]:
    each = choice(reduction, "reduction", LOSS_REDUCTIONS)
    if weights is not None:
        return _prepare_weighted(logits, targets, ignore, label_smoothing, each, weights)
    own, result, gradient = to_be_summed(operand(logits) if each == LOSS_OF_ITEM else operand_of_reduction(logits))
    right = targets_of(targets, own)
    loss = loss_of(own, right, each, ignore, label_smoothing)

    def rule(x: Encoding, back: bool) -> tuple[Any, Pullback | None]:
        return loss.with_pullback(x) if back else (loss.reduce(loss.losses(x)[1]), None)

    return Call(own, rule, result, gradient, loss.second_order)


by_level(keeps=lambda given: given.get("reduction") == "none", beside=("weights",), marks=("targets",))(
    with_rule(cross_entropy, _prepare)
)


def _prepare_weighted(
    logits: Batch, targets: Batch | Integers, ignore: int | None, smoothing: float, each: int, weights: Weights
) -> Call[Any]:
    """`cross_entropy` with weights, of the losses of items."""
    own, result, gradient = to_be_summed(operand(logits) if each == LOSS_OF_ITEM else operand_of_reduction(logits))
    kind = in_floats(name_of(own), "a cross entropy")[0]
    mass, right, ignore = ItemWeights.from_weights(weights, own, targets_of(targets, own), each, ignore, kind)
    loss = loss_of(own, right, LOSS_OF_ITEM, ignore, smoothing)

    def rule(operands: tuple[Encoding, Encoding], back: bool) -> tuple[Any, Pullback | None]:
        if back:
            differentiable(loss.name, "a cross entropy")
        x, factors = operands
        z, losses, kept = loss.losses(x)
        y, pull = mass.reduce(loss.rows_of(losses), factors, loss.name, back)
        scores = loss.library.alias(z.data)

        def pullback(dy: Operands) -> tuple[Any, Any]:
            assert pull is not None
            of_losses, of_weights = pull(dy)
            slopes = loss.arrays_of(Ragged._freeze(of_losses, own_structure))
            return loss.slopes_of(scores, kept, slopes), of_weights

        return y, pullback if back else None

    own_structure = own._structure

    def second_order(operands: tuple[Encoding, Encoding], dy: Operands) -> tuple[Any, Any]:
        x, factors = operands
        losses = connect(items_of(loss), x, loss.second_order)
        of_losses, of_weights = mass.second_order(rows_of(losses), factors, dy)
        return loss.second_order(x, Ragged._freeze(of_losses, own_structure)), of_weights

    return Call(
        (own, mass.given.own), rule, result, each_gradient([Operand(own, None, gradient), mass.given]), second_order
    )


def items_of(loss: ClassLoss) -> Rule:
    """The rule of the losses of items, in the dtype of the kernels."""

    def rule(x: Encoding, back: bool) -> tuple[Any, Pullback | None]:
        z, losses, kept = loss.losses(x)
        y = Ragged._freeze(loss.rows_of(losses), loss.at._structure)
        scores = loss.library.alias(z.data)
        return y, (lambda dy: loss.slopes_of(scores, kept, loss.arrays_of(dy))) if back else None

    return rule


def targets_of(given: Given, own: Encoding) -> Encoding:
    """The targets as an encoding in one array, with one level, of integers that are no uint64."""
    structure, sample = own._structure, own._sample()
    if is_array(given):
        library, flat = adopt(given, "targets")
        if tuple(flat.shape) != (structure.rows,):
            raise SHAPE(
                f"targets have shape {tuple(flat.shape)}, but there are {structure.rows} items; an array of targets "
                "has one of each, without padding"
            )
        right: Encoding = Ragged._freeze(flat, structure)
    else:
        right = operand_beside(given, sample).own
        if not right._structure.same_lengths(structure):
            raise UNLIKE(
                f"targets have sequences of lengths {abridge(right._structure.lengths)}, but logits "
                f"{abridge(structure.lengths)}"
            )
        if right.keeps_levels or not right._in_one_array:
            right = convert(right, Ragged)
        library, flat = right._look(), right._sample()
        if math.prod(right.item_shape) != 1 or len(right.item_shape) > 1:
            raise SHAPE(f"targets hold one class per item, but have item shape {right.item_shape}")
    name = library.dtype_name(flat.dtype)
    if not name.startswith(("int", "uint")):
        if right.rows:
            raise WHOLE(f"targets are integers, but have dtype {name}")
        return Ragged._freeze(library_of(sample).zeros((0,), library_of(sample).dtype("int64"), sample), structure)
    beside = library is library_of(sample)
    if not beside or (library is not NUMPY and library.device(flat) != library.device(sample)):
        raise DEVICES(
            f"targets are on {library.device(flat)}, {library.name}; logits are on {own.device}, "
            f"{library_of(sample).name}"
        )
    if name == "uint64":  # no class is over int64, which there is below 0
        right = right._with_data(library.astype(right.data, name).view(library.dtype("int64")))
    if len(right._shape) > right._lead:
        right = right._with_data(right.data.reshape(right._shape[: right._lead]))
    return right
