"""Quantiles of a sequence, the median among them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, SupportsFloat, TypeAlias, overload

import numpy as np

from ..arrays import NO_INTS, Array, freeze, is_array, library_of, to_host
from ..arrays.dtypes import in_floats
from ..errors import CHOICE, KIND, RANGE, SHAPE, quote
from ..formats import Encoding
from ..formats.annotations import Shaped
from ..formats.call_plans import by_plan
from ..formats.leaves import without_data
from ..formats.overlapping import separate
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Pullback, linear, with_rule
from ..launch.kernel import kernel
from ..layout import Constants
from .annotations import Batch, Empty, Flat, Nested, Reduced
from .calculation import allocate_workspace, in_one_array, layout_for, name_of, settle
from .ordering import in_order, wants_order
from .reduction import ZERO, Reduction
from .spread import items_at

quantile_rows, ordered_quantiles = kernel("quantile_rows"), kernel("ordered_quantiles")
quantile_back = kernel("quantile_back")

Interpolation: TypeAlias = Literal["linear", "lower", "higher", "nearest", "midpoint"]
INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")
Levels: TypeAlias = SupportsFloat | Sequence[SupportsFloat] | Shaped


class _Quantiles:
    """Quantiles of some levels; where there are several, they are an axis of the result.

    Parameters
    ----------
    levels : float or tuple of floats
        From 0 to 1.
    interpolation : str
        What there is between two items.
    """

    def __init__(self, levels: float | tuple[float, ...], interpolation: str) -> None:
        self.levels, self.how = np.array(levels, np.float64), INTERPOLATIONS.index(interpolation)
        self.wanted = Constants(freeze(self.levels.reshape(-1)))

    def values(self, x: Encoding, finish: bool = True) -> Array:
        """The values, see `select`."""
        return self.select(x, finish)[0]

    def with_pullback(self, x: Encoding) -> tuple[Array, Pullback]:
        """The values in the dtype of the kernel, and the function that gives items their gradient."""
        values, places, shares = self.select(x, False, needed=True)
        name, shape, item, structure = name_of(x), without_data(x), x.item_shape, x._structure
        library, dtype, n, width = library_of(values), values.dtype, structure.n, math.prod(item)
        count = self.levels.size
        made = library.dtype_name(dtype)

        def place_slopes(rows: Array) -> Array:
            lead = layout_for(shape, item, dtype)
            dx = library.zeros((*lead._shape[: lead._lead], *item), dtype, rows)
            if width and n * count:
                slopes = library.astype(rows, made)
                quantile_back.start(library, (slopes, shares, places), (dx,), (lead._layout(),), width, structure)
            return library.astype(dx, name)

        def place(rows: Array) -> Encoding:
            key = "quantile_back", count, rows.shape, rows.dtype
            y: Encoding = shape._with_data(by_plan(shape, (rows, shares, places), key, place_slopes, rows))
            return y

        def gather(dz: Encoding) -> Array:
            chosen = items_at(dz, places.reshape(-1, *item), np.repeat(np.arange(n), 2 * count))
            chosen = chosen.reshape(n, count, 2, *item)
            above = shares.reshape(n, count, *[1] * len(item))
            parts = chosen[:, :, 0] * (1 - above) + chosen[:, :, 1] * above
            reshaped: Array = library.astype(parts, name).reshape(values.shape)
            return reshaped

        return values, lambda dy: linear(place, gather, dy)

    def select(self, given: Encoding, finish: bool, needed: bool = False) -> tuple[Array, Array, Array]:
        """The values ``(n, *levels, *item)``, in the dtype of the result if `finish`, else in that of the kernel.

        If `needed`, also the places of the two items between which each value lies, and the share ``(n * levels,)`` of
        the second one in it.
        """
        name = name_of(given)
        made, result = in_floats(name, "a quantile")
        x = in_one_array(given)
        library = library_of(x.data)
        dtype, first = library.dtype(made), wants_order(library, x)
        if first:
            x = separate(x)
        structure, item = x._structure, x._shape[x._lead :]
        data, n, width, count = x.data, structure.n, math.prod(item), self.levels.size
        out = library.empty((n, *self.levels.shape, *item), dtype, data)
        places: Array = NO_INTS
        shares = out  # an array that the kernel takes, and does not write unless they are needed
        if needed:
            places = library.empty((n, count, 2, *item), library.dtype("int64"), data)
            shares = library.empty((n * count,), dtype, data)
        if n and width and count:
            results, args = (out, places, shares), (x._layout(), self.wanted, self.how)
            if first:
                data, ids = in_order(x, places=needed)
            if name.endswith("float16"):
                data = library.astype(data, made)
            if first:
                ordered_quantiles.start(library, (data, ids), results, args, width, structure)
            else:
                items = allocate_workspace(library, structure, width, out)
                quantile_rows.start(library, (data,), (*results, items), args, width, structure)
        if finish:
            out = settle(library, library.astype(out, result))
        return out, places, shares


def _reduction(name: str, levels: float | tuple[float, ...], interpolation: str = "linear") -> Reduction:
    """Make the reduction to quantiles of these levels."""
    quantiles = _Quantiles(levels, interpolation)
    # an axis of levels stands before those of an item
    by_column = not quantiles.levels.ndim
    return Reduction(
        name, quantiles.values, with_pullback=quantiles.with_pullback, what="a quantile", by_column=by_column
    )


def _find_record(q: object, interpolation: object) -> Reduction:
    """The record of these levels; those that were asked for last are kept."""
    if not isinstance(interpolation, str):
        raise KIND(f"interpolation must be a name, not {quote(interpolation)}")
    if interpolation not in INTERPOLATIONS:
        raise CHOICE(f"interpolation must be one of {', '.join(INTERPOLATIONS)}, not {quote(interpolation)}")
    if is_array(q):
        q = to_host(q).tolist()
    several, levels = isinstance(q, (list, tuple)), []
    for value in q if isinstance(q, (list, tuple)) else [q]:
        if isinstance(value, (list, tuple)):
            raise SHAPE(f"q must be a number or have one axis, not {quote(q)}")
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise KIND(f"q must be a number from 0 to 1, or some, not {quote(value)}")
        if not 0 <= value <= 1:
            raise RANGE(f"q must be a number from 0 to 1, not {quote(value)}")
        levels.append(float(value))
    return _make_record(tuple(levels) if several else levels[0], interpolation)


@functools.lru_cache(maxsize=64)
def _make_record(levels: float | tuple[float, ...], interpolation: str) -> Reduction:
    return _reduction("quantile", levels, interpolation)


MEDIAN = _reduction("median", 0.5)


@by_level(keeps=False)
@MEDIAN.register
def reduce_median(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The median of every sequence, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_mean`.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.
    StructureError
        If a sequence is empty and ``empty="raise"``.
    ConversionError
        If the dtype of the result cannot represent `empty`.

    See Also
    --------
    reduce_quantile : Other levels than a half.

    Notes
    -----
    Of an even number of items the mean of the two in the middle, as in NumPy; PyTorch's median is the lower one.  A NaN
    in a sequence gives NaN.  The gradient goes to the one or two items that it is made of.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_median(sf.Ragged(np.array([3, 9, 5, 4, 1]), [3, 0, 2]))
    array([5. , 0. , 2.5])
    """
    if level is not INNERMOST:
        return at_level(reduce_median, level, x, empty=empty)
    return MEDIAN.run(x, empty)


@overload
def reduce_quantile(
    x: Nested, q: Levels, *, interpolation: Interpolation = "linear", empty: Empty = ZERO, level: int = INNERMOST
) -> Any: ...
@overload
def reduce_quantile(
    x: Flat, q: Levels, *, interpolation: Interpolation = "linear", empty: Empty = ZERO, level: int = INNERMOST
) -> Array: ...
def reduce_quantile(
    x: Batch, q: Levels, *, interpolation: Interpolation = "linear", empty: Empty = ZERO, level: int = INNERMOST
) -> Reduced:
    """Quantiles of every sequence, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    q : number or numbers
        From 0, the smallest item, to 1, the largest.
    interpolation : "linear", "lower", "higher", "nearest" or "midpoint"
        What a quantile is that lies between two items, as in NumPy and PyTorch.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        An array ``(n, *item)``, or of several levels ``(n, len(q), *item)``; of a `LoD` with more levels a `LoD`
        without its innermost, of nested lists with more levels nested lists.  Integers give float64.

    Raises
    ------
    ConversionError
        For a `q` that is not from 0 to 1, for an unknown interpolation, and for an `empty` that the dtype of the result
        cannot hold.
    TypeError
        For complex numbers and other dtypes without an order, and for a `q` that is no number.
    StructureError
        If a sequence is empty and ``empty="raise"``, and for levels with more axes than one.

    See Also
    --------
    reduce_median : The level of a half.

    Notes
    -----
    On the CPU the items of a column are told apart in a copy, by quickselect (Hoare, 1961), which takes time in
    proportion to their number; on a GPU they are put in order as by `sort`, or where no sequence has more than 64 each
    is compared with all others.  A NaN in a sequence gives NaN.  The gradient goes to the one or two items that a
    quantile is made of, of equal ones in their order.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([3.0, 9.0, 5.0, 4.0, 1.0]), [3, 2])
    >>> sf.reduce_quantile(x, 0.25)
    array([4.  , 1.75])
    >>> sf.reduce_quantile(x, [0, 1])
    array([[3., 9.],
           [1., 4.]])
    """
    if level is not INNERMOST:
        return at_level(reduce_quantile, level, x, q, interpolation=interpolation, empty=empty)
    return _find_record(q, interpolation).run(x, empty)


def _prepare(x: Batch, q: Levels, interpolation: Interpolation, empty: Empty) -> Call[Any]:
    return _find_record(q, interpolation).prepare(x, empty)


with_rule(reduce_quantile, _prepare)
by_level(keeps=False)(reduce_quantile)
