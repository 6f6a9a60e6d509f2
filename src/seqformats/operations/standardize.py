"""Sequences, levels and whole batches around a mean of 0 and over their deviation."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, SupportsFloat

import numpy as np

from ..arrays import Array, Library, library_of
from ..arrays.dtypes import differentiable
from ..converters.convert import restore, rows_of
from ..errors import CHOICE, NO_GRADIENT, RANGE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Shaped
from ..formats.leaves import without_data
from ..formats.lod import level_index, structure_of
from ..gradients.operation import Call, Operand, Pullback, operand, operation, to_be_summed
from ..launch.kernel import kernel
from .annotations import B, Batch
from .calculation import flat_layout, in_one_array, layout_for, name_of, rows_like
from .choices import Scaling
from .companions import NO_FLOATS, copy_constant, floats_for, marks_beside, one_sequence, settled_like
from .options import number

standard_rows, standard_back = kernel("standard_rows"), kernel("standard_back")

Center = Literal["mean", "others"]


class Standard(NamedTuple):
    """Options of standardizing, checked."""

    others: bool
    scaled: bool
    how: Array  # ddof, eps

    @classmethod
    def from_options(cls, center: object, scale: object, ddof: object, eps: object) -> Standard:
        """Check the options that a caller has given."""
        if not isinstance(center, str) or center not in ("mean", "others"):
            raise CHOICE(f"center must be 'mean' or 'others', not {quote(center)}")
        if not (scale is None or (isinstance(scale, str) and scale == "std")):
            raise CHOICE(f"scale must be 'std' or None, not {quote(scale)}")
        less, more = number(ddof, "ddof"), number(eps, "eps")
        if not 0 <= less < math.inf:
            raise RANGE(f"ddof must not be negative, but is {quote(ddof)}")
        if not 0 <= more < math.inf:
            raise RANGE(f"eps must not be negative, but is {quote(eps)}")
        return cls(center == "others", scale == "std", np.array([less, more]))

    def forward(self, library: Library, x: Array, at: Encoding, marks: Array, moments: Array = NO_FLOATS) -> Array:
        """Data of the result, in the dtype of `x`, which has one of the kernel; both are laid out as `at`."""
        out = rows_like(library, at, tuple(x.shape[at._lead :]), x.dtype, x)
        width, structure = math.prod(x.shape[at._lead :]), at._structure
        args = (at._layout(), Scaling(int(self.others), int(self.scaled)))
        standard_rows.start(library, (x, moments, self.how, marks), (out,), args, width, structure)
        return out

    def backward(
        self, library: Library, dy: Array, x: Array, at: Encoding, marks: Array, moments: Array = NO_FLOATS
    ) -> Array:
        """The gradient for `x`, laid out as that."""
        out = rows_like(library, at, tuple(x.shape[at._lead :]), dy.dtype, dy)
        width, structure = math.prod(x.shape[at._lead :]), at._structure
        args = (at._layout(), Scaling(int(self.others), int(self.scaled)))
        standard_back.start(library, (dy, x, moments, self.how, marks), (out,), args, width, structure)
        return out


def standardize_call(
    x: Operand, standard: Standard, level: int | None, where: object, moments: Array | None = None
) -> Call[Any]:
    """The call for the sequences of a level, or the batch as one, or for given moments of it."""
    own: Encoding = x.own
    kind, name = floats_for("standardizing", name_of(own))
    shape: Encoding = without_data(own)
    item = own.item_shape
    inner = moments is not None or (level is not None and level_index(own, level) == len(own._levels) - 1)
    if inner:
        at = layout_for(shape, item, own._dtype)
        marks = marks_beside(where, own, at, "where")
    else:
        structure = one_sequence(own._structure.rows) if level is None else structure_of(own, level)
        marks = marks_beside(where, own, flat_layout(own._structure, item, own._dtype), "where")
        at = flat_layout(structure, item, own._dtype)
    given = NO_FLOATS if moments is None else moments

    def take(z: Encoding) -> Array:
        return library_of(z._sample()).astype(in_one_array(z).data if inner else rows_of(z), kind)

    def put(z: Array, dtype: str) -> Encoding:
        found = settled_like(library_of(z), z, dtype)
        if inner:
            return shape._with_data(found)
        return restore(Ragged._freeze(found, shape._structure), shape)

    def rule(z: Encoding, back: bool) -> tuple[Encoding, Pullback | None]:
        library, items = library_of(z._sample()), take(z)
        y = put(standard.forward(library, items, at, marks, given), name)
        if not back:
            return y, None
        differentiable(name_of(z), "standardizing")
        own_marks, fixed = copy_constant(marks), copy_constant(given)
        rows, theirs = library.alias(items), name_of(z)

        def pullback(dy: Encoding) -> Encoding:
            return put(standard.backward(library, take(dy), rows, at, own_marks, fixed), theirs)

        return y, pullback

    return Call(own, rule, x.result, x.gradient, second_order_of("standardizing"))


def second_order_of(what: str) -> Any:
    """Make the function that is called for a second derivative, where there is none."""

    def refuse(*_: object) -> Any:
        raise NO_GRADIENT(f"{what} has no second derivative; leave out create_graph=True")

    return refuse


@operation
def standardize(
    x: B,
    *,
    level: int | None = -1,
    where: Batch | Shaped | None = None,
    center: Center = "mean",
    scale: Literal["std"] | None = "std",
    ddof: SupportsFloat = 1,
    eps: SupportsFloat = 1e-6,
) -> Call[B]:
    """Bring every sequence to a mean of 0 and a deviation of 1, column by column: ``(x - mean) / (std + eps)``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    level : int or None
        The level of a `LoD` whose sequences are standardized, each with all its items; negative numbers count from the
        innermost level.  None: all items of the batch together.
    where : a batch or an array of bools, optional
        Which items count, one bool per item as for `filter`.  The others get 0, and may be NaN.
    center : "mean" or "others"
        What is taken away: the mean, or the mean of the other items (leave one out).
    scale : "std" or None
        What remains is divided by: the standard deviation, or nothing.
    ddof : float
        What is taken away from the number of items before the squares are divided by it.
    eps : float
        What is added to the deviation.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype (float16 and bfloat16 give float32 under ``torch.autocast``), integers and bools give
        float64.  Equal items, a lone one among them, get exactly 0; with `scale` as many as `ddof` get 0 too.

    Raises
    ------
    StructureError
        If `where` has other lengths.
    ConversionError
        If an option is none of these, or negative.
    IndexError
        If the level does not exist.
    TypeError
        If `where` does not hold bools, and for complex numbers.

    See Also
    --------
    reduce_mean, reduce_std : The numbers that it works with.
    rl.whiten : The same for all items of a batch on several ranks.

    Notes
    -----
    Mean and deviation are calculated in float64 in two passes, from the differences from the first item that counts.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, 2.0, 3.0, 7.0]), [3, 1])
    >>> sf.standardize(x, eps=0).data
    array([-1.,  0.,  1.,  0.])
    >>> sf.standardize(x, center="others", scale=None).data
    array([-1.5,  0. ,  1.5,  0. ])
    """
    if isinstance(x, (list, tuple)) and not x:
        level = -1  # no sequences, on whatever level
    return standardize_call(to_be_summed(operand(x)), Standard.from_options(center, scale, ddof, eps), level, where)
