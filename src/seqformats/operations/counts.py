"""Reductions that count: items that are not zero, items that differ, items that are alike."""

from __future__ import annotations

from collections.abc import Callable

from ..arrays import Array, Library
from ..arrays.dtypes import HALF, SUMS_IN, Dtypes, same
from ..errors import DTYPE
from ..formats import Encoding
from ..formats.overlapping import separate
from ..gradients.levels import INNERMOST, at_level, by_level
from .annotations import Batch, Empty, Reduced
from .calculation import Calculation, allocate_workspace
from .ordering import in_order, wants_order
from .reduction import ONE, ZERO, Reduction
from .spread import as_places, extreme_pullback


def _count(made: str) -> Callable[[str], Dtypes]:
    """Any numbers; what comes of them has the dtype `made`."""

    def dtypes(name: str) -> Dtypes:
        if name not in SUMS_IN:
            raise DTYPE(f"items of dtype {name} cannot be counted; those that can: {', '.join(SUMS_IN)}")
        return Dtypes("float32" if name in HALF else name, made, made)

    return dtypes


COUNT = Reduction("count", Calculation("count_rows", _count("int64"), 0))
ANY = Reduction("any", Calculation("count_rows", _count("bool"), 1))
ALL = Reduction("all", Calculation("count_rows", _count("bool"), 2), default=ONE)


class Alike(Calculation):
    """A `Calculation` of `alike_rows`, which takes columns in order, or puts them in order itself."""

    def start(
        self, library: Library, inputs: tuple[Array, ...], out: Array, at: Encoding, width: int, variant: int | None
    ) -> None:
        """See `Calculation`."""
        (data,), structure, first = inputs, at._structure, wants_order(library, at)
        if first:
            at = separate(at)
            data = library.astype(in_order(at, places=False)[0], library.dtype_name(data.dtype))
        items = allocate_workspace(library, structure, width, data)
        args = (at._layout(), *self.numbers, int(first))
        self.kernel.start(library, (data,), (out, items), args, width, structure)


NUNIQUE = Reduction("nunique", Alike("alike_rows", as_places, 0))
MODE = Reduction("mode", Alike("alike_rows", same, 1), extreme_pullback, what="a mode")


@by_level(keeps=False)
@COUNT.register
def reduce_count(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """Count the items of every sequence that are not zero, column by column.

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
        As for `reduce_sum`, but int64: of bools how many are True.

    Raises
    ------
    TypeError
        For strings, dates and other dtypes without a zero.
    StructureError
        If a sequence is empty and ``empty="raise"``.
    ConversionError
        For an `empty` that int64 cannot hold.

    See Also
    --------
    lengths : How many items there are.
    reduce_nunique : How many different ones.

    Notes
    -----
    NaN is not zero, as in NumPy's `count_nonzero`.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_count(sf.Ragged(np.array([3, 0, 1, 0]), [3, 0, 1]))
    array([2, 0, 0])
    """
    if level is not INNERMOST:
        return at_level(reduce_count, level, x, empty=empty)
    return COUNT.run(x, empty)


@by_level(keeps=False)
@ANY.register
def reduce_any(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """Tell whether any item of every sequence is not zero, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    empty : number or "raise"
        The result for an empty sequence, False unless said otherwise.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_sum`, but bool.

    See Also
    --------
    reduce_count : What is raised, and what is not zero.
    reduce_all : Are all items so?

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_any(sf.Ragged(np.array([True, False, False]), [2, 0, 1]))
    array([ True, False, False])
    """
    if level is not INNERMOST:
        return at_level(reduce_any, level, x, empty=empty)
    return ANY.run(x, empty)


@by_level(keeps=False)
@ALL.register
def reduce_all(x: Batch, *, empty: Empty = ONE, level: int = INNERMOST) -> Reduced:
    """Tell whether no item of every sequence is zero, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    empty : number or "raise"
        The result for an empty sequence, True unless said otherwise.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_sum`, but bool.

    See Also
    --------
    reduce_count : What is raised, and what is not zero.
    reduce_any : Is one item so?

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_all(sf.Ragged(np.array([True, False, True]), [2, 0, 1]))
    array([False,  True,  True])
    """
    if level is not INNERMOST:
        return at_level(reduce_all, level, x, empty=empty)
    return ALL.run(x, empty)


@by_level(keeps=False)
@NUNIQUE.register
def reduce_nunique(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """Count the different items of every sequence, column by column.

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
        As for `reduce_sum`, but int64.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.
    StructureError
        If a sequence is empty and ``empty="raise"``.
    ConversionError
        For an `empty` that int64 cannot hold.

    See Also
    --------
    reduce_mode : The most frequent one.
    reduce_count : How many are not zero.

    Notes
    -----
    All NaN are equal, and so are zeros of either sign.  Each column is sorted in a copy; only on a GPU, where no
    sequence has more than 64 items, each is compared with all others.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_nunique(sf.Ragged(np.array([3, 7, 3, 5]), [3, 0, 1]))
    array([2, 0, 1])
    """
    if level is not INNERMOST:
        return at_level(reduce_nunique, level, x, empty=empty)
    return NUNIQUE.run(x, empty)


@by_level(keeps=False)
@MODE.register
def reduce_mode(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The most frequent item of every sequence, column by column; of several the smallest.

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

    See Also
    --------
    reduce_nunique : What is raised, which items are equal, and what it costs.

    Notes
    -----
    NaN is larger than every number, and so it is the mode where it is more frequent than each of them.  The gradient
    goes to the first of the items that are equal to the mode.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_mode(sf.Ragged(np.array([3, 7, 7, 5, 4]), [3, 2]))
    array([7, 4])
    """
    if level is not INNERMOST:
        return at_level(reduce_mode, level, x, empty=empty)
    return MODE.run(x, empty)
