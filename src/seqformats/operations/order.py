"""Every sequence in order: its items, their places, the largest of them, the distinct ones."""

from __future__ import annotations

import math
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np

from .. import registry
from ..arrays import Array, freeze, library_of
from ..converters.convert import convert
from ..errors import ARGUMENT, SHAPE
from ..formats import Encoding, Ragged
from ..formats.annotations import Given
from ..formats.call_plans import by_plan
from ..formats.rows import move
from ..formats.structure import MAX_INT64, Structure, flag
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Operation, Pullback, operand, operands_of, with_rule
from ..launch.kernel import planning
from ..layout import Constants
from .annotations import B, Batch, Counts
from .attention import position_ids
from .calculation import flat_layout, in_one_array, name_of, settle
from .companions import batch_beside
from .filter import starts_of_equal
from .ordering import WANT_PLACES, WANT_VALUES, order
from .pick import in_kind_of, pick, pick_call, pullback_of
from .rearrange import per_sequence
from .runs import Kept
from .topk import largest_of

T = TypeVar("T")


_FEW, _NONE = 64, Constants(freeze(np.zeros(0, np.int64)))
"""Maximum k for which the largest items are found without sorting all, and an empty array for that kernel."""


def _first(x: Encoding, kept: Structure, falling: bool, nans: bool = False) -> tuple[Array, Array]:
    """Sort every sequence and return its first items and their places, flat; `kept` has how many of each sequence."""
    values, places = order(in_one_array(x), flat_layout(kept, x.item_shape, x.dtype), falling, nans)
    if values.dtype != x.dtype:  # of another order of bytes
        values = pick(convert(x, Ragged), places.reshape(-1), kept, by_column=True).data
    return values, places


def _few(x: Encoding, kept: Structure, k: int) -> tuple[Array, Array] | None:
    """Find and sort only the k largest items, on a GPU; None where that cannot be done."""
    z = in_one_array(x)
    library, item, name = library_of(z.data), z.item_shape, name_of(z)
    if library.kind(z.data) != "cuda" or name not in ("float32", "float64") or not 0 < k <= _FEW:
        return None
    if not getattr(z._dtype, "isnative", True):  # whose values would be of another dtype
        return None
    data = library.astype(library.alias(z.data), name)
    _, *found = largest_of(library, data, z._layout(), item, z._structure, (_NONE, k, True))
    room, width = kept.in_rooms(found[0].shape[1], "right"), math.prod(item)
    values, places = (library.empty((kept.rows, *item), part.dtype, data) for part in found)
    for part, out in zip(found, (values, places), strict=True):
        move(library, part, out, room, kept.flat, width * library.itemsize(out.dtype), kept)
    return values, places


def _largest(x: Encoding, kept: Structure, falling: bool, k: int) -> tuple[Array, Array]:
    """Return the k largest items of every sequence, or the k smallest, and their places, flat."""
    return (_few(x, kept, k) if falling else None) or _first(x, kept, falling, True)


def _shorten(structure: Structure, counts: Array | int) -> Structure:
    """Return the structure of the first `counts` items of every sequence; with plans it is kept for later calls."""
    key = "kept", counts
    known = planning and type(counts) is int
    kept: Structure | None = structure.calls.get(key) if known else None
    if kept is None:
        kept = Structure.of_lengths(np.minimum(structure.lengths, counts))
        if known:
            structure.calls[key] = kept
    return kept


def _sort(x: Encoding, falling: bool) -> Encoding:
    z = in_one_array(x)
    data = order(z, z, falling, wanted=WANT_VALUES)[0]
    if data.dtype != z._dtype:
        return _sort_rule(x, falling)[0]
    return x._with_data(data)


def _sort_rule(x: Encoding, falling: bool) -> tuple[Encoding, Pullback]:
    values, places = _first(x, x._structure, falling)
    back = pullback_of(x, places.reshape(-1), x._structure, once=True, by_column=True)
    return in_kind_of(values, x._structure, x), back


SORT = Operation(_sort, _sort_rule, check=lambda _, descending: (flag(descending, "descending"),), planned=True)


def _sorted_by(x: object, keys: Batch, falling: bool) -> Call[Any]:
    """Sort items by keys."""
    (own, result, gradient), given = operands_of(x, keys)
    beside = batch_beside(given.own, own, "by", item=None).own
    if beside.item_shape not in ((), (1,)):
        raise SHAPE(f"by must have one key per item, item shape () or (1,), but has {beside.item_shape}")
    at = flat_layout(own._structure, beside.item_shape, beside.dtype)
    places = order(in_one_array(beside), at, falling, wanted=WANT_PLACES)[1].reshape(-1)
    return Call(own, pick_call(own, places, own._structure), result, gradient)


def _sort_call(x: Given, descending: object = False, by: Batch | None = None) -> Call[Any]:
    """Check the arguments of `sort`."""
    return SORT.prepare(x, descending) if by is None else _sorted_by(x, by, flag(descending, "descending"))


def sort(x: B, *, descending: bool = False, by: Batch | None = None, level: int = INNERMOST) -> B:
    """Every sequence in rising order, column by column.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape, each of whose columns is sorted on its own, as by ``np.sort(items, axis=0)``.
    descending : bool
        True for falling order.
    by : an encoding, a list of arrays or nested lists, optional
        Keys, one for each item of `x`, with item shape () or (1,).  Whole items are sorted by their keys, and may have
        any dtype.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.
    StructureError
        If `by` has other lengths than `x`.

    See Also
    --------
    argsort : The places of the items.
    topk : Only the largest.
    unique : Each item once.

    Notes
    -----
    The order is stable.  NaN comes last in both orders; NumPy has the rising one alone.  This is a merge sort; short
    sequences, and the runs that are merged, are sorted by insertion [1]_.  The gradient of an item goes back to its old
    place; keys have none.

    References
    ----------
    .. [1] D. E. Knuth, "The Art of Computer Programming", volume 3, sections 5.2.1 and 5.2.4.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([3, 1, 2, 5, 8]), [3, 2])
    >>> sf.sort(x).data
    array([1, 2, 3, 5, 8])
    >>> sf.sort(x, descending=True).data
    array([3, 2, 1, 8, 5])
    >>> sf.sort(x, by=[[0.3, 0.1, 0.2], [9.0, 1.0]]).data
    array([1, 2, 3, 8, 5])
    """
    if level is not INNERMOST:
        return at_level(sort, level, x, descending=descending, by=by)
    if by is not None:
        found: B = _sorted_by(x, by, flag(descending, "descending")).run()
        return found
    return SORT.run(x, descending)


with_rule(sort, _sort_call)
by_level(keeps=True, marks=("by",))(sort)


@by_level(keeps=True)
def argsort(x: B, *, descending: bool = False, level: int = INNERMOST) -> B:
    """The places of the items of every sequence in rising order, column by column.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    descending : bool
        True for falling order.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        int64: for each place in the result the place in the sequence that the item comes from.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.

    See Also
    --------
    sort : The items themselves.
    gather : Puts other batches into that order, if items are single numbers.

    Notes
    -----
    The order is that of `sort`.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([3, 1, 2, 5, 8]), [3, 2])
    >>> sf.argsort(x).data
    array([1, 2, 0, 0, 1])
    """
    if level is not INNERMOST:
        return at_level(argsort, level, x, descending=descending)
    own, result, _ = operand(x)
    falling = flag(descending, "descending")
    z = in_one_array(own)
    y = own._with_data(settle(library_of(z.data), order(z, z, falling, wanted=WANT_PLACES)[1]))
    found: B = y if result is None else result(y)
    return found


class TopK(NamedTuple, Generic[T]):
    """The largest items of every sequence, and their places; see `topk`.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.topk([[3.0, 5.0, 4.0]], 2).places
    [[1, 2]]
    """

    values: T
    places: T


def topk(x: B, k: Counts, *, largest: bool = True, level: int = INNERMOST) -> TopK[B]:
    """The k largest items of every sequence in falling order, column by column.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    k : int or n integers
        How many items, for all sequences or for each; not negative.  A shorter sequence gives all its items.
    largest : bool
        False for the smallest, in rising order.
    level : int
        See `reduce_sum`: the sequences of the result are those of this level, without the levels within.

    Returns
    -------
    TopK
        A named tuple of `values` and `places` (int64, in the sequence), both of the kind of `x`.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.
    StructureError
        If a k is negative, or if their number differs from that of the sequences.

    See Also
    --------
    topk_mean : The mean of the largest.
    argmax : Only the place of the largest.
    sort : All items.

    Notes
    -----
    NaN counts as the largest, and with ``largest=False`` as the smallest, as for `reduce_max` and `reduce_min`.  Equal
    items keep their order.  The values have a gradient; a pullback takes the gradient of the values, or a `TopK`, whose
    places it ignores.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> values, places = sf.topk(sf.Ragged(np.array([3.0, 5.0, 4.0, 1.0]), [3, 1]), 2)
    >>> values
    Ragged(shape (3,), float64, cpu, 2 sequences of lengths [2, 1])
    >>> values.data, places.data
    (array([5., 4., 1.]), array([1, 2, 0]))
    """
    if level is not INNERMOST:
        return at_level(topk, level, x, k, largest=largest)
    call, places = _topk(x, k, largest=largest)
    return TopK(call.run(), places)


@registry.gradient(topk)
def _topk_vjp(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[TopK[Any], Pullback]:
    call, places = _topk(*args, **options)
    values, pullback = call.vjp()
    return TopK(values, places), lambda dy: pullback(dy.values if isinstance(dy, TopK) else dy)


by_level(keeps=False)(topk)


def _topk(x: B, k: Counts, *, largest: bool = True) -> tuple[Call[B], B]:
    """Return the call that makes the values, and their places."""
    own, result, gradient = operand(x)
    falling = flag(largest, "largest")
    structure = own._structure
    counts: Any = k if type(k) is int and 0 <= k <= MAX_INT64 else per_sequence(k, structure.n, "k")
    if counts is not k and (counts < 0).any():
        i = int((counts < 0).argmax())
        raise ARGUMENT(f"k must not be negative, but is {counts[i]} for sequence {i}")
    kept = _shorten(structure, counts)
    sample = own._sample()
    if counts is k:
        chosen, places = by_plan(own, (sample,), ("topk", k, falling), _largest, own, kept, falling, k)
    else:
        chosen, places = _first(own, kept, falling, True)
    there = in_kind_of(settle(library_of(places), places), kept, own)

    def rule(z: Encoding, wanted: bool) -> tuple[Any, Pullback | None]:
        values, at = (chosen, places) if z is own else _first(z, kept, falling, True)
        back = pullback_of(z, at.reshape(-1), kept, once=True, by_column=True) if wanted else None
        return in_kind_of(values, kept, z), back

    call: Call[B] = Call(own, rule, result, gradient)
    return call, there if result is None else result(there)


class Unique(NamedTuple, Generic[T]):
    """The distinct items of every sequence, and how often each occurs; see `unique`.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.unique([[3, 5, 3]], counts=True)
    Unique(values=[[3, 5]], counts=[[2, 1]])
    """

    values: T
    counts: T


@overload
def unique(x: B, *, counts: Literal[False] = ..., level: int = INNERMOST) -> B: ...
@overload
def unique(x: B, *, counts: Literal[True], level: int = INNERMOST) -> Unique[B]: ...
@by_level(keeps=False)
def unique(x: B, *, counts: bool = False, level: int = INNERMOST) -> B | Unique[B]:
    """The distinct items of every sequence in rising order.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of shape () or (1,).
    counts : bool
        True to return also how often each item occurs.
    level : int
        See `topk`.

    Returns
    -------
    what `x` is, or Unique
        The distinct items; with `counts` a named tuple of `values` and `counts` (int64), both of the kind of `x`.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.
    StructureError
        If the item shape is not allowed.

    See Also
    --------
    run_starts : Runs of equal items, without sorting.
    sort : All items.

    Notes
    -----
    All NaN are one item, which comes last; 0.0 and -0.0 are one, the one that comes first in the sequence.  From a GPU
    the lengths of the result are copied to the host, and with `counts` the positions of the items.  There is no
    gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([3, 1, 3, 5, 5]), [3, 2])
    >>> sf.unique(x).data
    array([1, 3, 5])
    >>> sf.unique(x, counts=True).counts.data
    array([1, 2, 2])
    """
    if level is not INNERMOST:
        return at_level(unique, level, x, counts=counts)
    own, result, _ = operand(x)
    wanted = flag(counts, "counts")
    if math.prod(own.item_shape) != 1 or len(own.item_shape) > 1:
        raise SHAPE(f"unique is for items of shape () or (1,), but they have shape {own.item_shape}")
    structure = own._structure
    at = flat_layout(structure, own.item_shape, own.dtype)
    values = order(in_one_array(own), at, False, wanted=WANT_VALUES)[0]
    z = Ragged._freeze(values if values.dtype == own.dtype else _first(own, structure, False)[0], structure)
    parts = Kept.from_marks(starts_of_equal(z).data, structure)
    lengths = parts.kept
    found = in_kind_of(parts.take(z).data, lengths, own)
    distinct: B = found if result is None else result(found)
    if not wanted:
        return distinct
    library = library_of(z.data)
    begins = library.to_numpy(parts.take(z._with_data(position_ids(z))).data)
    ends = np.append(begins[1:], 0)
    some = lengths.lengths > 0
    ends[lengths.offsets[1:][some] - 1] = structure.lengths[some]
    many = library.from_host((ends - begins).reshape(-1, *own.item_shape), z.data)
    often = in_kind_of(many, lengths, own)
    return Unique(distinct, often if result is None else result(often))
