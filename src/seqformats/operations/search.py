"""Values looked up in the sequence of the same number: places among sorted items, events before others, sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library, adopt, freeze, is_array, library_of, to_host
from ..arrays.dtypes import HALF
from ..errors import COUNTS, DTYPE, RANGE, SHAPE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Shaped
from ..formats.leaves import calculate
from ..formats.structure import Structure
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Operand, operands_of
from ..launch.kernel import kernel
from ..layout import Layout
from .annotations import B, Batch, Value
from .calculation import in_blocks, in_one_array, name_of, rows_like, settle
from .companions import check_beside, in_kind
from .filter import filter as keep_items
from .options import choice
from .order import sort, unique

search_rows = kernel("search_rows")

_SIDES = ("left", "right")
_DIRECTIONS = ("backward", "forward", "nearest")
_OF_DIRECTIONS, _EQUAL, _EQUAL_TO_ANY = (2, 3, 4), 5, 6
"""Modes of the kernel; those of sides are 0 and 1."""
_FEW = 32
"""Items of which each is looked at, since that takes no longer than their order."""
_WORDS = {
    **dict.fromkeys((*HALF, "float32"), "float32"),
    **dict.fromkeys(("bool", "int8", "int16", "int32", "uint8", "uint16"), "int32"),
    **{name: name for name in ("int64", "uint64", "float64")},
    "uint32": "int64",
}
"""In which dtype items are compared."""


class _Searched(NamedTuple):
    """Two batches of numbers, looked at and in one dtype."""

    library: Library
    name: str  # of that dtype
    items: Array  # those that are searched
    at: Layout  # where they lie
    values: Encoding  # whose items are looked up


@by_level(keeps=True, batch=1, marks=("sorted",))
def searchsorted(sorted: Batch | Shaped, values: B, side: str = "left", *, level: int = INNERMOST) -> B:
    """Find where values belong among the rising items of the sequence of the same number.

    Parameters
    ----------
    sorted : an encoding, a list of arrays, nested lists or an array of one axis
        Numbers with item shape () or (1,), which rise in each sequence; NaN is the last.  Or an array of any library,
        whose numbers are those of all sequences: the edges of bins, or the letters of an alphabet.
    values : an encoding, a list of arrays or nested lists
        Numbers, over as many sequences, of any lengths.
    side : "left" or "right"
        Before all items that are equal to the value, or behind them.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `values`
        int64, as long as `values`: how many items of `sorted` come before each, the place to insert it at.

    Raises
    ------
    StructureError
        For another number of sequences, or other item shapes.
    ConversionError
        For another `side`.
    TypeError
        For items that are no real numbers.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    merge_asof : The place of the item itself, none where it is too far.
    sort : Items in that order.
    isin : Whether there is such an item.

    Notes
    -----
    Like NumPy's `searchsorted` of each sequence.  Whether items rise is not checked.  Values that rise as well are
    found in a few steps each, from where the one before stands.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> times = sf.Ragged(np.array([1.0, 3.0, 3.0, 10.0]), [3, 1])
    >>> asked = sf.Ragged(np.array([3.0, 0.0, 99.0]), [2, 1])
    >>> sf.searchsorted(times, asked).data
    array([1, 0, 1])
    >>> sf.searchsorted(times, asked, side="right").data
    array([3, 0, 1])

    The same edges for all:

    >>> sf.searchsorted(np.array([0.0, 5.0]), asked, side="right").data
    array([1, 1, 2])
    """
    if level is not INNERMOST:
        return at_level(searchsorted, level, sorted, values, side)
    mode, at = choice(side, "side", _SIDES), None
    if is_array(sorted):
        (y,) = operands_of(values)
        x, at = _of_all(sorted, y, "sorted")
    else:
        x, y = operands_of(sorted, values)
    found: B = in_kind(y.result)(_search(x, y, ("sorted", "values"), mode, "int64", at=at))
    return found


@by_level(keeps=True, marks=("right",))
def merge_asof(
    left: B, right: Batch, *, tolerance: Value | None = None, direction: str = "backward", level: int = INNERMOST
) -> B:
    """Find, for each time of `left`, the event of `right` that was last, in the sequence of its number.

    Parameters
    ----------
    left : an encoding, a list of arrays or nested lists
        Numbers with item shape () or (1,), times say.
    right : an encoding, a list of arrays or nested lists
        Numbers that rise in each sequence, over as many sequences, of any lengths.
    tolerance : number, optional
        How far apart the two may be at most.
    direction : "backward", "forward" or "nearest"
        The last item that is not above, the first that is not below, or the nearer one, of two as near the former.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `left`
        int64, the place in the sequence of `right`, -1 where there is none.

    Raises
    ------
    StructureError
        For another number of sequences, or other item shapes.
    ConversionError
        For another `direction`, and for a `tolerance` that is negative.
    TypeError
        For items that are no real numbers.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    gather : The items at these places, once those of -1 are filtered out.
    searchsorted : The place to insert at.
    ffill : The last known item of one sequence.

    Notes
    -----
    The match of ``pandas.merge_asof`` and Polars' ``join_asof``, with sequences in the place of ``by=``.  NaN matches
    nothing.  Whether `right` rises is not checked; `left` need not, but is found faster where it does.  There is no
    gradient.  ``masked_scatter(nan, places >= 0, gather(x, filter(places, places >= 0)))`` has an item of `x`, which
    is as long as `right`, for each of `left`.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> trades = sf.Ragged(np.array([2, 5, 9, 1]), [3, 1])
    >>> quotes = sf.Ragged(np.array([1, 4, 5, 3]), [3, 1])
    >>> sf.merge_asof(trades, quotes).data
    array([ 0,  2,  2, -1])
    >>> sf.merge_asof(trades, quotes, tolerance=3).data
    array([ 0,  2, -1, -1])
    """
    if level is not INNERMOST:
        return at_level(merge_asof, level, left, right, tolerance=tolerance, direction=direction)
    x, y = operands_of(left, right)
    mode = 2 + choice(direction, "direction", _DIRECTIONS)
    _tolerance(tolerance, "float64")
    found: B = in_kind(x.result)(_search(y, x, ("right", "left"), mode, "int64", tolerance))
    return found


@by_level(keeps=True, marks=("y",))
def isin(x: B, y: Batch | Shaped, *, level: int = INNERMOST) -> B:
    """Tell of each item whether the sequence of the same number in `y` has an equal one.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Numbers with item shape () or (1,).
    y : an encoding, a list of arrays, nested lists or an array of one axis
        Numbers in any order, over as many sequences, of any lengths; or an array of any library that is
        one set for all sequences.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        Bools, as long as `x`.

    Raises
    ------
    StructureError
        For another number of sequences, or other item shapes.
    TypeError
        For items that are no real numbers.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    filter : The items of which this is so.
    intersect : The items that both have.
    erase : Sequences without some tokens.

    Notes
    -----
    NaN is equal to nothing, as in NumPy.  Where a sequence of `y` has more than 32 items all are sorted first.  There
    is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([3, 1, 2, 5, 8]), [3, 2])
    >>> sf.isin(x, [[1, 3, 9], [4]]).data
    array([ True,  True, False, False, False])
    >>> sf.isin(x, np.array([5, 3])).data
    array([ True, False, False,  True, False])
    """
    if level is not INNERMOST:
        return at_level(isin, level, x, y)
    at = None
    if is_array(y):
        (own,) = operands_of(x)
        other, at = _of_all(y, own, "y")
    else:
        own, other = operands_of(x, y)
    every = other.own._structure.longest
    if every > _FEW:
        other = other._replace(own=sort(_flat_numbers(other.own, "y")))
    mode = _EQUAL if every > _FEW else _EQUAL_TO_ANY
    found: B = in_kind(own.result)(_search(other, own, ("y", "x"), mode, "bool", at=at))
    return found


@by_level(keeps=False, marks=("y",))
def intersect(x: B, y: Batch, *, level: int = INNERMOST) -> B:
    """Find the distinct items that the sequences of the same number have in common, in rising order.

    Parameters
    ----------
    x, y : encodings, lists of arrays or nested lists
        Numbers with item shape () or (1,), over as many sequences, of any lengths and in any order.
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        With other lengths, in the dtype of `x`.

    Raises
    ------
    StructureError
        For another number of sequences, or other item shapes.
    TypeError
        For items that are no real numbers.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    isin : Which items of `x` are in `y`, in their places.
    unique : The distinct items of one batch.

    Notes
    -----
    NaN is equal to nothing.  The lengths are copied from a GPU to the host.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([3, 1, 3, 5, 8]), [3, 2])
    >>> sf.intersect(x, [[9, 3, 1], [4]]).data
    array([1, 3])
    """
    if level is not INNERMOST:
        return at_level(intersect, level, x, y)
    own, other = operands_of(x, y)
    _check(other.own, own.own, ("y", "x"))
    common = keep_items(own.own, isin(own.own, other.own))
    found: B = in_kind(own.result)(unique(common))
    return found


def _tolerance(given: object, name: str) -> Array:
    """Return the largest distance, an array of one number in the dtype of the items; none without a limit."""
    dtype = np.dtype(name)
    if given is None:
        return freeze(np.zeros(0, dtype))
    number: Any = given
    if (
        isinstance(given, (bool, np.bool_))
        or not isinstance(given, (int, float, np.integer, np.floating))
        or not number >= 0
    ):
        raise RANGE(f"tolerance must be a number that is not negative, not {quote(given)}")
    if dtype.kind in "iu":
        most = np.iinfo(dtype).max
        number = int(number) if number < most else most  # distances are whole, so what is behind the point is nothing
    return freeze(np.array([number], dtype))


def _flat_numbers(x: Encoding, what: str) -> Encoding:
    """Check that items are single numbers; they lie in blocks of one array."""
    if x.item_shape not in ((), (1,)):
        raise SHAPE(f"{what} must have one number per item, item shape () or (1,), but has {x.item_shape}")
    return in_blocks(x)


def _of_all(given: object, asked: Operand, name: str) -> tuple[Operand, Layout]:
    """Take an array of one axis as a sequence beside `asked`, and lay it out once as each sequence of a batch."""
    library, rows = adopt(given, name)
    if len(rows.shape) != 1:
        raise SHAPE(f"{name} must be a batch, or an array of one axis, but has shape {tuple(rows.shape)}")
    like, every, n = asked.own._sample(), rows.shape[0], asked.own._structure.n
    theirs = library_of(like)
    if library is not theirs or theirs.device(rows) != theirs.device(like):
        rows = theirs.from_host(to_host(rows), like)
    cum = freeze(np.arange(n + 1) * every)
    one = Ragged._freeze(rows, Structure.of_lengths(np.array([every])))
    return Operand(one), Layout(freeze(np.zeros(n, np.int64)), cum, cum, -1, 0, 1, 0)


def _check(x: Encoding, values: Encoding, names: tuple[str, str], both: bool = True, hint: str = "") -> None:
    """StructureError where the two have other numbers of sequences, or items that are no single numbers."""
    if both and x._structure.n != values._structure.n:
        hint = hint if x._structure.n == 1 else ""
        raise COUNTS(f"{names[0]} has {x._structure.n} sequences, but {names[1]} has {values._structure.n}{hint}")
    for z, what in zip((x, values), names, strict=True):
        if z.item_shape not in ((), (1,)):
            raise SHAPE(f"{what} must have one number per item, item shape () or (1,), but has {z.item_shape}")


def _look(x: Encoding, values: Encoding, names: tuple[str, str], at: Layout | None) -> _Searched:
    """Check two batches and bring them to one dtype; `at` says where the items of one set for all lie."""
    x, y = _flat_numbers(x, names[0]), in_one_array(values)
    library = library_of(y.data)
    if at is None:  # else it has been brought there
        check_beside(x.data, y, *names)
    kinds = [name_of(z) for z in (x, y)]
    for what, kind in zip(names, kinds, strict=True):
        if kind not in _WORDS:
            raise DTYPE(f"{what} has items of dtype {kind}; those that can be compared here: {', '.join(_WORDS)}")
    words = [_WORDS[kind] for kind in kinds]
    name = words[0] if words[0] == words[1] else _WORDS[np.result_type(*words).name]
    data = [library_of(z.data).astype(z.data, name) for z in (x, y)]
    return _Searched(library, name, data[0], x._layout() if at is None else at, y._with_data(data[1]))


def _search(
    searched: Operand,
    asked: Operand,
    names: tuple[str, str],
    mode: int,
    made: str,
    tolerance: object = None,
    at: Layout | None = None,
) -> Any:
    """Check two batches and start the kernel; the result is laid out as the values."""
    hint = "" if mode in _OF_DIRECTIONS else "; an array of one axis is the same for all sequences"
    _check(searched.own, asked.own, names, at is None, hint)

    def find(both: tuple[Encoding, Encoding]) -> Any:
        library, name, items, layout, y = _look(*both, names, at)
        out = rows_like(library, y, y.item_shape, library.dtype(made), y.data)
        if y._structure.rows:
            inputs = (items, y.data, _tolerance(tolerance, name))
            search_rows.start(library, inputs, (out,), (layout, y._layout(), mode), 1, y._structure)
        return both[1]._with_data(settle(library, out))

    return calculate(find, (searched.own, asked.own))
