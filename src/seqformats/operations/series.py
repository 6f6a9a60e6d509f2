"""Sequences as series of measurements: the differences between neighbours, the last known item."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..arrays import Array, library_of
from ..arrays.dtypes import HALF, SUMS_IN, differentiable, exponentials
from ..converters.convert import convert, restore
from ..converters.layouts import check_at_least
from ..converters.like import convert_like
from ..errors import DTYPE
from ..formats import Encoding, Ragged
from ..formats.annotations import Shaped
from ..formats.leaves import without_data
from ..formats.structure import Structure
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Operation, Pullback, linear, operand, with_rule
from ..launch.kernel import kernel
from .annotations import B, Batch
from .calculation import Calculation, flat_layout, in_blocks, name_of
from .companions import NO_MARKS, marks_beside
from .pick import in_kind_of, pick, pullback_of

diff_rows, last_places = kernel("diff_rows"), kernel("last_places")


# --- differences ------------------------------------------------------------------------------------------------------


def _structures(structure: Structure, n: int) -> list[Structure]:
    """Lengths before, between and after `n` differences; once all sequences are empty nothing changes any more."""
    found = [structure]
    for _ in range(min(n, structure.longest)):
        found.append(Structure.of_lengths(np.maximum(found[-1].lengths - 1, 0)))
    return found


def _differ(x: Encoding, to: Structure, whole: Structure, kept: Structure, back: int) -> Array:
    """Differences of `x`, or with `back` their transpose: the rows of sequences like `to`, one after the other."""
    library, item = library_of(x.data), x.item_shape
    name = library.dtype_name(x._dtype)
    taken = "uint8" if name == "bool" else "float32" if name in HALF else name
    data = library.astype(x.data, taken)
    out = library.empty((to.rows, *item), library.dtype(taken), data)
    at, width = whole.flat if back else x._layout(), math.prod(item)
    if width and whole.rows:
        diff_rows.start(library, (data,), (out,), (at, kept.offsets, back), width, whole)
    return library.astype(out, name)


def _diff(x: Encoding, n: int) -> Any:
    name = name_of(x)
    if name not in SUMS_IN:
        raise DTYPE(f"items of dtype {name} have no differences; those that have: {', '.join(SUMS_IN)}")
    steps = _structures(x._structure, n)
    if len(steps) == 1:
        return x
    z = in_blocks(x)
    for whole, kept in itertools.pairwise(steps):
        z = Ragged._freeze(_differ(z, kept, whole, kept, 0), kept)
    return in_kind_of(library_of(z.data).settle(z.data), steps[-1], x)


def _diff_back(dy: Encoding, shape: Encoding, n: int) -> Any:
    """Give differences back to the items that they are of."""
    steps = _structures(shape._structure, n)[::-1]
    z = in_blocks(convert(dy, Ragged))
    for kept, whole in itertools.pairwise(steps):
        z = Ragged._freeze(_differ(z, whole, whole, kept, 1), whole)
    return restore(z, shape)


def _diff_rule(x: Encoding, n: int) -> tuple[Encoding, Pullback]:
    y = _diff(x, n)
    differentiable(name_of(x), "a difference")
    shape = without_data(x)
    return y, lambda dy: linear(lambda d: _diff_back(d, shape, n), lambda d: _diff(d, n), dy)


DIFF = Operation(_diff, _diff_rule, check=lambda _, n: (check_at_least(n, "n", 0),))


@by_level(keeps=False)
@DIFF.register
def diff(x: B, n: int = 1, *, level: int = INNERMOST) -> B:
    """Subtract from every item of each sequence the one before it, `n` times.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Numbers, items of any shape.
    n : int
        How many times, not negative.
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        Sequences shorter by `n`, at least empty, in the dtype of `x`; bools tell whether neighbours differ.

    Raises
    ------
    ConversionError
        If `n` is negative.
    TypeError
        For items without a difference.

    See Also
    --------
    cumsum : The way back, from the first item on.
    shift : Items beside their neighbours, in sequences as long as they were.

    Notes
    -----
    NumPy's `diff` of each sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, 4, 9, 16, 5]), [4, 1])
    >>> sf.diff(x)
    Ragged(shape (3,), int64, cpu, 2 sequences of lengths [3, 0])
    >>> sf.diff(x).data
    array([3, 5, 7])
    >>> sf.diff(x, 2).data
    array([2, 2])
    """
    if level is not INNERMOST:
        return at_level(diff, level, x, n)
    return DIFF.run(x, n)


# --- the last known item ----------------------------------------------------------------------------------------------


def _places(x: Encoding, marks: Array) -> Array:
    """Find the last valid number of each column, see the kernel; of marks where there are some."""
    z = flat_layout(x._structure, (), x._dtype)._with_data(marks) if marks is not NO_MARKS else in_blocks(x)
    library, structure, width = library_of(z.data), x._structure, math.prod(z.item_shape)
    out = library.empty((structure.rows * width,), library.dtype("int64"), z.data)
    name = library.dtype_name(z._dtype if marks is NO_MARKS else marks.dtype)
    data = library.astype(z.data, "float32") if name in HALF else z.data
    if width and structure.rows:
        last_places.start(library, (data,), (out,), (z._layout(), int(marks is not NO_MARKS)), width, structure)
    return out


_filled = Calculation("fill_rows", exponentials("a gap that is filled"), by_item=True)


def _by_number(x: Encoding) -> Ragged[Any]:
    """Make each number an item, row by row."""
    r = convert(x, Ragged)
    width = math.prod(x.item_shape)
    return Ragged._freeze(r.data.reshape(-1), Structure.of_lengths(x._structure.lengths * width))


def _of_numbers(y: Encoding, like: Encoding) -> Ragged[Any]:
    """Undo `_by_number`."""
    rows = convert(y, Ragged).data.reshape((like._structure.rows, *like.item_shape))
    return Ragged._freeze(rows, like._structure)


def _fills(z: Encoding) -> bool:
    """Tell whether there may be NaN."""
    return bool(z._structure.rows and math.prod(z.item_shape)) and name_of(z).startswith(("float", "bfloat"))


def _fill(z: Encoding) -> Any:
    return _filled(z) if _fills(z) else z


def _fill_rule(z: Encoding) -> tuple[Any, Pullback]:
    if not _fills(z):
        return z, lambda dy: dy
    places, structure, shape = _places(z, NO_MARKS), z._structure, without_data(z)
    if math.prod(z.item_shape) == 1:
        return pick(z, places, structure), pullback_of(z, places, structure)
    flat = _by_number(z)
    gather = pullback_of(flat, places, flat._structure)
    y = convert_like(_of_numbers(pick(flat, places, flat._structure), shape), shape)
    return y, lambda dy: restore(_of_numbers(gather(_by_number(dy)), shape), shape)


FILL = Operation(_fill, _fill_rule, path=_filled.path)


def ffill(x: B, valid: Batch | Shaped | None = None, *, level: int = INNERMOST) -> B:
    """Put, for every item that is not valid, the last valid one before it in its sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype and shape.
    valid : a batch or an array of bools, optional
        Which items are valid, one bool per item as for `filter`.  Without it all that are not NaN, column by column.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        As long as `x`; items before the first valid one stay as they are.

    Raises
    ------
    StructureError
        If `valid` has other lengths.
    TypeError
        If `valid` does not hold bools.

    See Also
    --------
    reverse : The same from behind: ``reverse(ffill(reverse(x)))`` takes the next valid item.
    merge_asof : The last item of another batch.
    ema : An average that passes over items.

    Notes
    -----
    Integers and bools are all valid, unless `valid` says otherwise.  The gradient adds up what comes from one item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1.0, np.nan, np.nan, np.nan, 5.0]), [3, 2])
    >>> sf.ffill(x).data
    array([ 1.,  1.,  1., nan,  5.])
    >>> sf.ffill(sf.Ragged(np.array([7, 0, 8]), [3]), np.array([True, False, True])).data
    array([7, 7, 8])
    """
    if level is not INNERMOST:
        return at_level(ffill, level, x, valid)
    return FILL.run(x) if valid is None else _prepare_ffill(x, valid).run()


def _prepare_ffill(x: B, valid: Batch | Shaped | None) -> Call[B]:
    """Make the `Call` of `ffill`."""
    if valid is None:
        return FILL.prepare(x)
    own, result, gradient = operand(x)
    structure = own._structure
    marks = marks_beside(valid, own, flat_layout(structure, (), own._dtype), "valid")
    kept = library_of(marks).copy(marks)

    def rule(z: Encoding, back: bool) -> tuple[Any, Pullback | None]:
        if not structure.rows or not math.prod(z.item_shape):
            return z, lambda dy: dy
        places = _places(z, kept)
        return pick(z, places, structure), pullback_of(z, places, structure) if back else None

    return Call(own, rule, result, gradient)


by_level(keeps=True, marks=("valid",))(with_rule(ffill, _prepare_ffill))
