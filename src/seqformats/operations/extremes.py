"""Reductions that pick one of the items: the largest, the smallest, the first, the last."""

from __future__ import annotations

from ..arrays.dtypes import same
from ..gradients.levels import INNERMOST, at_level, by_level
from .annotations import Batch, Empty, Reduced
from .calculation import Calculation
from .pieces import twice
from .reduction import ZERO, Reduction
from .spread import end_pullback, extreme_pullback, items_at_end

MAX = Reduction("max", Calculation("max_rows", same, 0, long=twice), extreme_pullback, what="a maximum")
MIN = Reduction("min", Calculation("max_rows", same, 1, long=twice), extreme_pullback, what="a minimum")
FIRST = Reduction("first", items_at_end[0], end_pullback(0))
LAST = Reduction("last", items_at_end[1], end_pullback(1))


@by_level(keeps=False)
@MAX.register
def reduce_max(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The largest item of every sequence, column by column.

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
        As for `reduce_sum`, but the dtype is kept.

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
    argmax : Where it stands.
    topk_mean : The means of the largest items.

    Notes
    -----
    A NaN in a sequence gives NaN.  The gradient goes to the first of equal items.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_max(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 4, -1])
    """
    if level is not INNERMOST:
        return at_level(reduce_max, level, x, empty=empty)
    return MAX.run(x, empty)


@by_level(keeps=False)
@MIN.register
def reduce_min(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The smallest item of every sequence, column by column.

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
        As of `reduce_max`.

    See Also
    --------
    reduce_max : The errors, and the rules for NaN and equal items.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_min(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 3, -1])
    """
    if level is not INNERMOST:
        return at_level(reduce_min, level, x, empty=empty)
    return MIN.run(x, empty)


@by_level(keeps=False)
@FIRST.register
def reduce_first(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The first item of every sequence.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape and dtype.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_sum`, but the dtype is kept.

    See Also
    --------
    reduce_sum : What is raised.
    reduce_last : The last item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_first(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 3, -1])
    """
    if level is not INNERMOST:
        return at_level(reduce_first, level, x, empty=empty)
    return FIRST.run(x, empty)


@by_level(keeps=False)
@LAST.register
def reduce_last(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The last item of every sequence.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape and dtype.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As of `reduce_first`.

    See Also
    --------
    reduce_sum : What is raised.
    reduce_first : The first item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_last(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 4, -1])
    """
    if level is not INNERMOST:
        return at_level(reduce_last, level, x, empty=empty)
    return LAST.run(x, empty)
