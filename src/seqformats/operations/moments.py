"""The variance of the items of a sequence, and its root."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, SupportsIndex, overload

import numpy as np

from ..arrays import Array, library_of
from ..arrays.dtypes import Dtypes, means
from ..converters.convert import restore, rows_of
from ..converters.layouts import check_at_least
from ..errors import DTYPE
from ..formats import Encoding, Ragged
from ..formats.leaves import without_data
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, linear, with_rule
from .annotations import Batch, Empty, Flat, Nested, Reduced
from .calculation import Calculation, Spreading, flat_layout
from .pieces import vary_parts
from .reduction import MODE_MEAN, ZERO, Reduction, rows_or_data
from .spread import slopes_pullback, spread, sum_items

VARIANCE, DEVIATION = 0, 1
_NAMES = ("var", "std")
_WORDS = ("a variance", "a standard deviation")


def _real(name: str) -> Dtypes:
    """Find the dtype in which variances are calculated: as means are."""
    found = means(name)
    if name.startswith("complex"):
        raise DTYPE(f"items of dtype {name} have no variance here; add up those of their real and imaginary parts")
    return found


@functools.lru_cache(maxsize=64)
def moment(deviation: int, ddof: int) -> Reduction:
    """The variance, or its root, of sequences with more than `ddof` items, as a record."""
    return Reduction(
        _NAMES[deviation],
        Calculation("var_rows", _real, deviation, ddof, long=vary_parts),
        slopes_pullback(Spreading("var_back", deviation, ddof, laid=[False, True, False])),
        what=_WORDS[deviation],
        few=ddof,
        second_order=functools.partial(_second_order, deviation, ddof),
        sums=True,
    )


def _second_order(deviation: int, ddof: int, x: Encoding, dy: Reduced) -> Encoding:
    """The gradient, made of operations that have gradients themselves."""
    rows, structure, shape = rows_of(x), x._structure, without_data(x)
    library, item = library_of(rows), x.item_shape
    flat = flat_layout(structure, item, rows.dtype)
    items: Encoding = Ragged._freeze(rows, structure)
    mean = linear(lambda z: sum_items(z, MODE_MEAN), lambda dz: spread(dz, flat, MODE_MEAN), items)
    factor = (2.0 - deviation) / np.maximum(structure.lengths - ddof, 1) * (structure.lengths > ddof)
    by = library.from_host(factor.reshape(-1, *[1] * len(item)), rows)
    slopes = rows_or_data(dy) * library.astype(by, library.dtype_name(rows.dtype))
    if deviation:
        values = rows_or_data(moment(deviation, ddof).run(x, ZERO))
        still = values == 0
        slopes = library.where(still, 0.0, slopes / library.where(still, 1.0, values))
    beside: Array = rows - spread(mean, flat).data
    return restore(Ragged._freeze(beside * spread(slopes, flat).data, structure), shape)


VAR, STD = moment(VARIANCE, 0), moment(DEVIATION, 0)


def _prepare(deviation: int) -> Callable[..., Call[Any]]:
    return lambda x, ddof, empty: moment(deviation, check_at_least(ddof, "ddof", 0)).prepare(x, empty)


@overload
def reduce_var(x: Nested, *, ddof: SupportsIndex = 0, empty: Empty = ZERO, level: int = INNERMOST) -> Any: ...
@overload
def reduce_var(x: Flat, *, ddof: SupportsIndex = 0, empty: Empty = ZERO, level: int = INNERMOST) -> Array: ...
def reduce_var(x: Batch, *, ddof: SupportsIndex = 0, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The variance of every sequence, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    ddof : int
        The squares are divided by the length less this: 0 for all that there is, 1 for a sample.
    empty : number or "raise"
        The result for a sequence of no more than `ddof` items, for which there is no variance; NumPy gives NaN.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_mean`.

    Raises
    ------
    TypeError
        For complex numbers and other dtypes without a variance.
    StructureError
        For a sequence of no more than `ddof` items with ``empty="raise"``.
    ConversionError
        For a `ddof` below 0, or an `empty` that the dtype of the result cannot hold.

    See Also
    --------
    reduce_std : Its square root.
    reduce_mean : What the items are compared with.

    Notes
    -----
    First the mean is calculated, then the squares of what is beside it; what the mean, which is rounded, leaves over is
    taken from these (Chan, Golub and LeVeque, 1983).  On the CPU it is all float64, so that items far from zero lose
    nothing.  On a GPU items are read once, float32 are compared in float32 with the mean of the first eight of their
    block of 64, and blocks are added up in float64: the variance is wrong by some 3e-7 of itself, or by up to some 3e-6
    where these eight lie far from all others.  A NaN in a sequence gives NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_var(sf.Ragged(np.array([1.0, 3.0, 5.0]), [2, 0, 1]))
    array([1., 0., 0.])
    >>> sf.reduce_var(sf.Ragged(np.array([1.0, 3.0, 5.0]), [2, 0, 1]), ddof=1, empty=-1.0)
    array([ 2., -1., -1.])
    """
    if level is not INNERMOST:
        return at_level(reduce_var, level, x, ddof=ddof, empty=empty)
    return moment(VARIANCE, check_at_least(ddof, "ddof", 0)).run(x, empty)


@overload
def reduce_std(x: Nested, *, ddof: SupportsIndex = 0, empty: Empty = ZERO, level: int = INNERMOST) -> Any: ...
@overload
def reduce_std(x: Flat, *, ddof: SupportsIndex = 0, empty: Empty = ZERO, level: int = INNERMOST) -> Array: ...
def reduce_std(x: Batch, *, ddof: SupportsIndex = 0, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The standard deviation of every sequence, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    ddof : int
        See `reduce_var`.
    empty : number or "raise"
        The result for a sequence of no more than `ddof` items.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_mean`.

    See Also
    --------
    reduce_var : Its square, what is raised, and how it is calculated.

    Notes
    -----
    Where it is zero, so is its gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_std(sf.Ragged(np.array([1.0, 3.0, 5.0]), [2, 0, 1]))
    array([1., 0., 0.])
    """
    if level is not INNERMOST:
        return at_level(reduce_std, level, x, ddof=ddof, empty=empty)
    return moment(DEVIATION, check_at_least(ddof, "ddof", 0)).run(x, empty)


for _public, _deviation in ((reduce_var, VARIANCE), (reduce_std, DEVIATION)):
    with_rule(_public, _prepare(_deviation))
    by_level(keeps=False)(_public)
