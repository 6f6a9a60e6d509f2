"""Items by a mark: those to be kept, and those that begin a run."""

from __future__ import annotations

import math
from typing import Any

from ..arrays import NUMPY, Array, adopt, is_array, library_of, to_host
from ..arrays.dtypes import HALF, Dtypes, sums_in
from ..converters.convert import rows_of
from ..errors import COUNTS, DTYPE, SHAPE, UNLIKE
from ..formats import Encoding
from ..formats.annotations import Shaped
from ..formats.structure import Structure
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Operation, Pullback, operand
from .annotations import B, Batch
from .calculation import Calculation, name_of
from .runs import Kept, rule_of_parts, take


def marks_for(own: Encoding, keep: object, what: str = "keep") -> Array:
    """A bool for each item of `own`, flat in the caller's order, beside the items; checked."""
    structure, sample = own._structure, own._sample()
    if is_array(keep):
        library, marks = adopt(keep, what)
        if tuple(marks.shape) not in ((structure.rows,), (structure.rows, 1)):
            if what == "keep" and tuple(marks.shape) == (structure.n,):
                raise SHAPE(f"{what} has a bool for each sequence; sf.select(x, bools, level=-1) keeps whole sequences")
            raise SHAPE(f"{what} must have one bool per item, shape ({structure.rows},), not {marks.shape}")
        name = library.dtype_name(marks.dtype)
    else:
        given = operand(keep).own
        if math.prod(given.item_shape) != 1 or len(given.item_shape) > 1:
            raise SHAPE(f"{what} must hold one bool per item, but has item shape {given.item_shape}")
        check_lengths(given._structure, structure, what)
        marks, name = rows_of(given), name_of(given)
        library = library_of(marks)
        if not structure.rows and not isinstance(keep, Encoding):  # lists without items have no dtype
            marks, name = library.astype(marks, "bool"), "bool"
    if name != "bool":
        raise DTYPE(f"{what} must hold bools, not {name}; give {what} != 0, or another comparison")
    flat: Array = marks.reshape(-1)
    beside = library_of(sample)
    if library is beside and (library is NUMPY or library.device(flat) == library.device(sample)):
        return flat
    return beside.from_host(to_host(flat), sample)


def check_lengths(found: Structure, wanted: Structure, what: str = "keep") -> None:
    """StructureError where a mask, or what goes with it, has other lengths than the batch."""
    if found.n != wanted.n:
        if what == "keep" and found.rows == wanted.n:
            raise COUNTS(f"{what} has a bool for each sequence; sf.select(x, bools, level=-1) keeps whole sequences")
        raise COUNTS(f"{what} has {found.n} sequences, but x has {wanted.n}")
    if not found.same_lengths(wanted):
        i = int((found.lengths != wanted.lengths).argmax())
        raise UNLIKE(f"sequence {i} of {what} has {found.lengths[i]} items, but that of x has {wanted.lengths[i]}")


def _keep(own: Encoding, keep: object) -> tuple[Kept]:
    return (Kept.from_marks(marks_for(own, keep), own._structure),)


def _filter_rule(x: Encoding, parts: Kept) -> tuple[Any, Pullback]:
    """The marks are the caller's, who may write others before the gradient comes."""
    own = parts._replace(marks=library_of(parts.marks).copy(parts.marks))
    return rule_of_parts(x, own)


FILTER = Operation(take, _filter_rule, check=_keep)


@by_level(keeps=False, marks=("keep",))
@FILTER.register
def filter(x: B, keep: Batch | Shaped, *, level: int = INNERMOST) -> B:
    """Keep some items of every sequence, and drop the others.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    keep : an encoding, a list of arrays, nested lists or an array
        Bools, item shape () or (1,): in sequences as long as those of `x`, in whichever encoding, or in an array with
        one for each item, sequence by sequence in the caller's order.
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        With other lengths; a sequence may become empty, and stays.

    Raises
    ------
    StructureError
        If `keep` has other lengths.
    TypeError
        If `keep` does not hold bools.

    See Also
    --------
    run_starts : Which items differ from the one before.
    gather : Items by their places.
    erase : Sequences without some tokens.
    select : Whole sequences.

    Notes
    -----
    How many items each sequence keeps is copied from a GPU to the host once, since the lengths depend on it; a `keep`
    that is elsewhere is copied to where `x` is.  Items that are left out have a gradient of zero.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([5, 7, 7, 9]), [3, 1])
    >>> sf.filter(x, [[True, False, True], [False]])
    Ragged(shape (2,), int64, cpu, 2 sequences of lengths [2, 0])
    >>> sf.filter(x, x.data < 8).data
    array([5, 7, 7])
    """
    if level is not INNERMOST:
        return at_level(filter, level, x, keep)
    return FILTER.run(x, keep)


@by_level(keeps=True)
def run_starts(x: B, *, level: int = INNERMOST) -> B:
    """Mark the items that differ from the one before them in their sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Numbers or bools, in items of any shape; items differ if any of their numbers does.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        Bools, item shape (); the first item of a sequence is True, and padding False.

    Raises
    ------
    TypeError
        For dtypes that are no numbers.

    See Also
    --------
    filter : The items themselves: ``sf.filter(x, sf.run_starts(x))`` has each run once.
    split : Each run as a sequence of its own: ``sf.split(x, sf.run_starts(x), keep="start")``.
    unique : The distinct items, wherever they stand.

    Notes
    -----
    Numbers are compared by value: 0.0 equals -0.0, and NaN nothing.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.run_starts(sf.Ragged(np.array([4, 4, 5, 5, 5]), [3, 2])).data
    array([ True, False,  True,  True, False])
    """
    if level is not INNERMOST:
        return at_level(run_starts, level, x)
    return _STARTS.run(x)


def _marks_of(name: str) -> Dtypes:
    """Compare numbers; half precision in float32."""
    sums_in(name)
    return Dtypes("float32" if name in HALF else name, "bool", "bool")


starts, starts_of_equal = [
    Calculation("start_rows", _marks_of, nans, by_item=True, narrow=True)
    for nans in (0, 1)  # if 1 NaN equals NaN
]
_STARTS = Operation(starts, None, has_gradient=False)
