"""The largest items: their places, and the means of some."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np

from ..arrays import NO_INTS, Array, Library, freeze, library_of
from ..arrays.dtypes import differentiable, in_floats
from ..errors import ARGUMENT
from ..formats import Encoding
from ..formats.annotations import Integers
from ..formats.leaves import calculate, without_data
from ..formats.structure import Pieces, Structure, integers
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Pullback, linear, to_be_summed, with_rule
from ..launch.kernel import kernel
from ..layout import Constants, Layout
from . import pieces
from .annotations import Batch, Flat, Nested, Reduced
from .calculation import Calculation, in_one_array, layout_for, name_of, settle
from .extremes import MAX, MIN
from .pieces import Job
from .reduction import Reduction, operand_of_reduction, over_levels, rows_or_data
from .spread import as_places, items_at, places_of

topk_rows, topk_back = kernel("topk_rows"), kernel("topk_back")


@overload
def topk_mean(x: Nested, topks: Integers | int, *, level: int = INNERMOST) -> Any: ...
@overload
def topk_mean(x: Flat, topks: Integers | int, *, level: int = INNERMOST) -> Array: ...
def topk_mean(x: Batch, topks: Integers | int, *, level: int = INNERMOST) -> Reduced:
    """The means of the k largest items of every sequence, column by column, for several k.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    topks : int or integers
        Each k, at least 1.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        An array ``(n, len(topks), *item)``: the sum of the k largest divided by k, also where the sequence is shorter
        (Paddle's sequence_topk_avg_pooling); of a `LoD` with more levels a `LoD` without its innermost, of nested lists
        with more levels nested lists.  Dtypes are those of `reduce_mean`.

    Raises
    ------
    StructureError
        If a k is below 1.
    TypeError
        If the dtype has no order.

    See Also
    --------
    reduce_max : The largest item alone.

    Notes
    -----
    NaN is the largest; of equal items the first gets the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.topk_mean(sf.Ragged(np.array([3.0, 5.0, 4.0, 1.0]), [3, 1]), [1, 2])
    array([[5. , 4.5],
           [1. , 0.5]])
    """
    if level is not INNERMOST:
        return at_level(topk_mean, level, x, topks)
    return _mean_of_largest(x, topks).run()


def _mean_of_largest(x: Batch, topks: Integers | int) -> Call[Reduced]:
    """`topk_mean` with its gradient."""
    own, result_of, gradient = to_be_summed(operand_of_reduction(x))
    name = name_of(own)
    floats, result = in_floats(name, "a mean of the largest")
    ks = integers(topks if not isinstance(topks, (int, np.integer)) else [topks], "topks")
    each: list[int] = ks.tolist()
    if each and min(each) < 1:
        raise ARGUMENT(f"topks must be at least 1, not {min(each)}")
    most, wanted = max(each, default=0), Constants(freeze(ks))

    def rule(z: Encoding, back: bool) -> tuple[Reduced, Pullback | None]:
        r = in_one_array(z)
        library, at = library_of(r.data), r._layout()
        n, item = r._structure.n, r.item_shape
        width = math.prod(item) if each else 0
        data = library.astype(r.data, floats)
        out, tops, places = largest_of(library, data, at, item, r._structure, (wanted, most, back))
        y = over_levels(library.astype(out, result), z)
        if not back:
            return y, None
        differentiable(name, "a mean of the largest")
        kept, shape = tops.shape[1], without_data(z)

        def spread_back(rows: Array) -> Encoding:
            slopes = library.astype(rows, floats)
            lead = layout_for(shape, item, data.dtype)
            dx = library.zeros((*lead._shape[: lead._lead], *item), data.dtype, data)
            topk_back.start(library, (slopes, places), (dx,), (at, wanted, kept), width, r._structure)
            y: Encoding = shape._with_data(library.astype(dx, name))
            return y

        def gather(dz: Encoding) -> Array:
            chosen = items_at(dz, places.reshape(n * kept, *item), np.repeat(np.arange(n), kept))
            chosen = chosen.reshape(n, kept, *item)
            parts = [chosen[:, : min(k, kept)].sum(1) / k for k in each]
            return library.stack(parts, chosen).swapaxes(0, 1)

        return y, lambda dy: linear(spread_back, gather, rows_or_data(dy))

    return Call(own, rule, result_of, gradient)


with_rule(topk_mean, _mean_of_largest)
by_level(keeps=False)(topk_mean)


def largest_of(
    library: Library,
    data: Array,
    at: Layout,
    item: tuple[int, ...],
    structure: Structure,
    wanted: tuple[Constants, int, bool],
) -> tuple[Array, Array, Array]:
    """The means of the first items of every sequence in falling order, for each k, those items, and their places.

    `wanted` are each k, how many items, and whether these and their places are needed, without which they are not
    always there; no sequence has more than its longest.
    """
    ks, most, needed = wanted
    n, kept, width = structure.n, min(most, max(structure.longest, 1)), math.prod(item)
    out = library.empty((n, ks.numbers.size, *item), data.dtype, data)
    long = kept * 4 <= Pieces.ROWS and pieces.are_long(library, structure, out)
    tops, places = out, NO_INTS
    bare = not needed and not long and library.kind(out) == "cuda"
    if not bare or kept > 4:
        tops = library.empty((n, kept, *item), data.dtype, data)
    if not bare:
        places = library.empty((n, kept, *item), library.dtype("int64"), data)
    results = (out, tops, places)
    if width and n and kept:
        if long:
            pieces.largest(Job(topk_rows, library, (data,), results, (at, ks, kept), width, structure))
        else:
            topk_rows.start(library, (data,), results, (at, ks, kept, int(needed)), width, structure)
    return results


@overload
def argmax(x: Nested, *, level: int = INNERMOST) -> Any: ...
@overload
def argmax(x: Flat, *, level: int = INNERMOST) -> Array: ...
@by_level(keeps=False)
def argmax(x: Batch, *, level: int = INNERMOST) -> Reduced:
    """The place in its sequence of the first of the largest items, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        int64 ``(n, *item)``, -1 for an empty sequence; of a `LoD` with more levels a `LoD` without its innermost, of
        nested lists with more levels nested lists.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.

    See Also
    --------
    reduce_max : The largest items themselves.
    argmin : The place of the smallest item.
    topk : The places of several.

    Notes
    -----
    NaN is the largest.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.argmax(sf.Ragged(np.array([3, 4, 4]), [3, 0]))
    array([ 1, -1])
    """
    if level is not INNERMOST:
        return at_level(argmax, level, x)
    return _place_of(MAX, x)


@overload
def argmin(x: Nested, *, level: int = INNERMOST) -> Any: ...
@overload
def argmin(x: Flat, *, level: int = INNERMOST) -> Array: ...
@by_level(keeps=False)
def argmin(x: Batch, *, level: int = INNERMOST) -> Reduced:
    """The place in its sequence of the first of the smallest items, column by column.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As of `argmax`: -1 for an empty sequence.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.

    See Also
    --------
    reduce_min : The smallest items themselves.
    argmax : The place of the largest.

    Notes
    -----
    NaN counts as the smallest.  There is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.argmin(sf.Ragged(np.array([4, 3, 3]), [3, 0]))
    array([ 1, -1])
    """
    if level is not INNERMOST:
        return at_level(argmin, level, x)
    return _place_of(MIN, x)


# A GPU reads the items once; on the host the second kernel finds them in the cache, and both compare many at once.
_IN_ONE_PASS = {MAX: Calculation("argmax_rows", as_places, 0), MIN: Calculation("argmax_rows", as_places, 1)}


def _places(record: Reduction, x: Encoding) -> Array:
    sample = x._sample()
    library = library_of(sample)
    if library.kind(sample) == "cuda" and not pieces.are_long(library, x._structure, sample):
        places: Array = _IN_ONE_PASS[record](x)
        return places
    return settle(library, places_of(x, record.values(x, finish=False)))


def _place_of(record: Reduction, x: Batch) -> Reduced:
    """Find the place of the first item that is as the reduction has it."""
    own, result, _ = operand_of_reduction(x)
    y: Reduced = calculate(lambda z: over_levels(_places(record, z), z), own)
    return y if result is None else result(y)
