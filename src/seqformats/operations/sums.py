"""Sums of sequences, their means, and sums over the root of the length; with weights or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..arrays import Array
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, with_rule
from .annotations import Batch, Empty, Flat, Nested, Reduced, Weights
from .reduction import ZERO, Reduction
from .spread import sum_pullback, sums_of
from .weighted_sums import prepare_weighted

__all__ = ["reduce_mean", "reduce_sqrt", "reduce_sum"]
"""The public names, in the order of the alphabet."""

SUM = Reduction("sum", sums_of[0], sum_pullback(0), what="a sum", sums=True)
MEAN = Reduction("mean", sums_of[1], sum_pullback(1), what="a sum", synonyms=("average",), sums=True)
SQRT = Reduction("sqrt", sums_of[2], sum_pullback(2), what="a sum", sums=True)


def _sum_call(record: Reduction, mode: int) -> Callable[..., Call[Any]]:
    """Make a function that checks the arguments of a sum or a mean, in their order, and returns the `Call`."""

    def prepare(x: Batch, weights: Weights | None, empty: Empty) -> Call[Any]:
        if weights is None:
            return record.prepare(x, empty)
        return prepare_weighted(record, mode, x, weights, empty)

    return prepare


@overload
def reduce_sum(x: Nested, *, weights: Weights | None = None, empty: Empty = ZERO, level: int = INNERMOST) -> Any: ...
@overload
def reduce_sum(x: Flat, *, weights: Weights | None = None, empty: Empty = ZERO, level: int = INNERMOST) -> Array: ...
def reduce_sum(x: Batch, *, weights: Weights | None = None, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The sum of every sequence.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    weights : encoding, list of arrays, nested lists or array, optional
        Numbers by which the items are multiplied first, or bools, a mask.  A batch with the same lengths, or an array
        with a row for each item in the caller's order; each item has one weight, or one for each of its numbers.
        Weights of NumPy go with items of any library.
    empty : number or "raise"
        The result for an empty sequence, or "raise" for an error.
    level : int
        The level of a `LoD` or of nested lists whose sequences are reduced, each with all its rows, as in `convert`;
        negative numbers count from the innermost level.

    Returns
    -------
    array, LoD or list
        An array ``(n, *item)`` in the library of `x`.  A `LoD` of several levels gives a `LoD` without the innermost
        one, and nested lists of several levels give nested lists.  Floats keep their dtype (float16 and bfloat16 are
        added up in float32, and give float32 under ``torch.autocast``).  Integers and bools give int64, unsigned ones
        uint64, and with weights float64.

    Raises
    ------
    TypeError
        If the dtype has no sum, weights are no real numbers or bools, or items are complex and have weights.
    StructureError
        If a sequence is empty and ``empty="raise"``, or if weights do not fit.
    DeviceError
        If weights are of another library or device.
    ConversionError
        If the dtype of the result cannot represent `empty`.

    See Also
    --------
    reduce : Reductions by name.
    cumsum : The running sum.

    Notes
    -----
    Items are added in blocks by their place in the sequence, and blocks of float32 in float64: a sum of positive items
    is right to 1e-6 at any length, and no neighbour, thread or encoding changes a bit of it.  A NaN in a sequence gives
    NaN.

    With weights the products are added up in the same way, and are not kept.  The pullback then returns a tuple, with
    None for weights that are no floats.  NaN times a weight of 0 is NaN; `filter` leaves items out.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 0, 1])
    >>> sf.reduce_sum(x)
    array([3., 0., 3.])
    >>> sf.reduce_sum(x, weights=np.array([1.0, 0.5, 2.0]))
    array([2., 0., 6.])
    """
    if level is not INNERMOST:
        return at_level(reduce_sum, level, x, weights=weights, empty=empty)
    if weights is not None:
        return prepare_weighted(SUM, 0, x, weights, empty).run()
    return SUM.run(x, empty)


with_rule(reduce_sum, _sum_call(SUM, 0))
by_level(keeps=False, beside=("weights",))(reduce_sum)


@overload
def reduce_mean(x: Nested, *, weights: Weights | None = None, empty: Empty = ZERO, level: int = INNERMOST) -> Any: ...
@overload
def reduce_mean(x: Flat, *, weights: Weights | None = None, empty: Empty = ZERO, level: int = INNERMOST) -> Array: ...
def reduce_mean(x: Batch, *, weights: Weights | None = None, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The mean of every sequence.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    weights : encoding, list of arrays, nested lists or array, optional
        See `reduce_sum`: the weighted sum is divided by the sum of the weights.
    empty : number or "raise"
        The result for an empty sequence, and for weights that add up to 0.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_sum`, but integers and bools give float64.

    See Also
    --------
    reduce_sum : The errors, and how items are added up.
    reduce_var : The variance.

    Notes
    -----
    With weights on a GPU and an `empty` other than the default, the sums of weights are copied to the host once.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.array([[1.0], [3.0], [5.0]]), [[0, 2], [0, 2, 3]])
    >>> sf.reduce_mean(x).to_nested()[0]
    array([[2.],
           [5.]])
    """
    if level is not INNERMOST:
        return at_level(reduce_mean, level, x, weights=weights, empty=empty)
    if weights is not None:
        return prepare_weighted(MEAN, 1, x, weights, empty).run()
    return MEAN.run(x, empty)


with_rule(reduce_mean, _sum_call(MEAN, 1))
by_level(keeps=False, beside=("weights",))(reduce_mean)


@by_level(keeps=False)
@SQRT.register
def reduce_sqrt(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The sum of every sequence, divided by the square root of its length.

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

    See Also
    --------
    reduce_sum : The errors, and how items are added up.
    reduce_mean : The sum, divided by the length.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_sqrt(sf.Ragged(np.array([1.0, 2.0, 3.0, 2.0]), [4]))
    array([4.])
    """
    if level is not INNERMOST:
        return at_level(reduce_sqrt, level, x, empty=empty)
    return SQRT.run(x, empty)
