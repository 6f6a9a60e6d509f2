"""Items of one batch or of another, by a mask."""

from __future__ import annotations

from typing import Any

from .. import core
from ..arrays import NUMPY, is_array, library_of
from ..arrays.dtypes import differentiable
from ..converters.convert import restore, rows_of
from ..errors import DTYPE, KIND, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Operands, Shaped
from ..formats.bare import is_column
from ..formats.leaves import without_data
from ..formats.pairs import is_encoding, is_own
from ..gradients.operation import Call, Operand, Pullback, each_gradient, linear, operands_of, with_rule
from . import gaps
from .annotations import B, Batch, Value
from .calculation import name_of
from .elementwise import evaluate, operand_of


def where(mask: B, a: Batch | Shaped | Value, b: Batch | Shaped | Value) -> B:
    """Choose between the items of two batches: of `a` where the mask is true, else of `b`.

    Parameters
    ----------
    mask : an encoding, a list of arrays or nested lists
        Bools, item shape () or one that broadcasts with that of `a` and `b`.
    a, b : encodings, lists, numbers or arrays
        Batches have the lengths of `mask`, in whichever encoding; an array, of at most as many axes as an item, stands
        for every item.

    Returns
    -------
    same kind as `mask`
        Items of the shape and dtype to which those of `a` and `b` broadcast and promote in their library.

    Raises
    ------
    TypeError
        If the mask does not hold bools, and for arrays of different libraries.
    StructureError
        For other lengths, and for items or arrays whose shapes do not go together.

    See Also
    --------
    filter : Only the items where a mask is true.
    reduce_sum : Sums with ``weights=``, where a mask shall leave items out of a sum.

    Notes
    -----
    ``np.where(mask, a, b)`` and ``torch.where(mask, a, b)`` of batches do the same.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, -2, 3, -4]), [3, 1])
    >>> sf.where(x > 0, x, 0).to_nested()
    [[1, 0, 3], [0]]
    """
    quick: B | None = _quickly(mask, (a, b))
    if quick is not None:
        return quick
    marks, values = _operands(mask, a, b)
    y = _choose(marks.own, *[x.own for x in values])
    found: B = y if marks.result is None else marks.result(y)
    return found


def _quickly(mask: Any, values: tuple[Any, Any]) -> Any:
    """The result where the mask and all batches lie alike, and are small if there is padding; else None."""
    library: Any = library_of(mask._sample()) if is_own(mask) else None
    if library is None or mask._dtype != library.bool_dtype:
        return None
    found = core.map_items(library.where, mask, *values)
    if found is None and library is NUMPY and mask._gapped and gaps.go_beside(mask, values):
        found = gaps.calculate(library.where, mask, values)
    return found


def _prepare(mask: object, a: object, b: object) -> Call[Any]:
    """Make the `Call` by which `vjp` has the gradients of `a` and `b`, None for numbers."""
    marks, values = _operands(mask, a, b)
    owns = (values[0].own, values[1].own)
    shapes = [without_data(x) if is_own(x) or is_array(x) else None for x in owns]

    def forward(parts: tuple[Any, Any]) -> Any:
        return _choose(marks.own, *parts)

    def linear_part(parts: tuple[Any, Any]) -> Any:
        """Numbers have no share in a gradient."""
        return forward((0 if shapes[0] is None else parts[0], 0 if shapes[1] is None else parts[1]))

    def transpose(dy: Encoding) -> tuple[Any, Any]:
        sides = _choose(marks.own, dy, 0), _choose(marks.own, 0, dy)
        da, db = [None if x is None else _share(side, x) for side, x in zip(sides, shapes, strict=True)]
        return da, db

    def rule(parts: tuple[Any, Any], back: bool) -> tuple[Any, Pullback | None]:
        for x in parts if back else ():
            if is_own(x) or is_array(x):
                sample: Any = x._sample() if is_own(x) else x
                differentiable(library_of(sample).dtype_name(sample.dtype), "a choice")
        return forward(parts), lambda dy: linear(transpose, linear_part, dy)

    return Call(owns, rule, marks.result, each_gradient(values))


with_rule(where, _prepare)


def _operands(mask: object, a: object, b: object) -> tuple[Operand, list[Operand]]:
    """All three as they are in this library; TypeError for a mask without bools, or an object that is no operand."""
    given = (mask, a, b)
    batches = iter(operands_of(*[x for x in given if _is_batch(x)]))
    marks, *values = [next(batches) if _is_batch(x) else Operand(operand_of(x)) for x in given]
    own = marks.own
    if not is_own(own):
        raise KIND(f"mask must be a batch of bools, as x > 0 is, not {quote(mask)}; sf.Ragged(mask, x.lengths) is one")
    if name_of(own) != "bool":
        if own.rows or is_own(mask):
            raise DTYPE(f"mask must hold bools, not {name_of(own)}; mask != 0 does")
        marks = marks._replace(own=own.astype("bool"))  # lists without items have no dtype
    return marks, values


def _is_batch(x: object) -> bool:
    return isinstance(x, (list, tuple)) or is_column(x) or (is_encoding(x) and not is_array(x))


def _choose(marks: Encoding, a: Operands, b: Operands) -> Any:
    """The items of `a` or `b`, laid out as the marks."""
    return evaluate(library_of(marks._sample()).where, (marks, a, b), {})


def _share(dy: Encoding, x: Operands) -> Any:
    """The part of a gradient that belongs to a batch or an array, in its shape and dtype."""
    item = tuple(x.item_shape if is_own(x) else x.shape)
    wide = dy.item_shape
    item = (1,) * (len(wide) - len(item)) + item
    axes = [k - len(wide) for k, size in enumerate(item) if size != wide[k]]

    def add(rows: Operands) -> Any:
        for axis in axes:
            rows = rows.sum(axis).reshape(*rows.shape[:axis], 1, *(rows.shape[axis + 1 :] if axis < -1 else ()))
        return rows

    sums = add(rows_of(dy))
    library = library_of(sums)
    if not is_own(x):
        return library.astype(sums.sum(0).reshape(x.shape), x.dtype)
    rows = library.astype(sums.reshape(sums.shape[0], *x.item_shape), x.dtype)
    return restore(Ragged._freeze(rows, dy._structure), x)
