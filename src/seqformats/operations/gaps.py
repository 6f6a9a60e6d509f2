"""Functions of single items, of small batches with padding: calculated where the items lie.

To move the rows out of a batch and back takes several times as long as a function of a few numbers.  NumPy's universal
functions calculate at marked places alone.  Elsewhere padding is calculated with, of numbers that neither warn nor have
an infinite slope, and is filled with zeros afterwards.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..arrays import NUMPY, Array, Library, frozen
from ..arrays.library import Operand
from ..converters.convert import relaid
from ..formats import Encoding, Ragged
from ..formats.arithmetic import NUMBERS, REFLECTED, fail
from ..formats.pairs import is_own
from ..limits import remember

Function: TypeAlias = Callable[..., Any]

SMALL = 1 << 14
"""Numbers in a batch up to which marks are kept."""
_UFUNCS: dict[Function, tuple[np.ufunc, bool]] = {
    operator.abs: (np.absolute, False),
    operator.add: (np.add, False),
    operator.and_: (np.bitwise_and, False),
    operator.eq: (np.equal, False),
    operator.floordiv: (np.floor_divide, False),
    operator.ge: (np.greater_equal, False),
    operator.gt: (np.greater, False),
    operator.invert: (np.invert, False),
    operator.le: (np.less_equal, False),
    operator.lt: (np.less, False),
    operator.mod: (np.remainder, False),
    operator.mul: (np.multiply, False),
    operator.ne: (np.not_equal, False),
    operator.neg: (np.negative, False),
    operator.or_: (np.bitwise_or, False),
    operator.pos: (np.positive, False),
    operator.sub: (np.subtract, False),
    operator.truediv: (np.true_divide, False),
    operator.xor: (np.bitwise_xor, False),
}
"""NumPy's functions for operators, and whether operands are exchanged; powers are calculated in several ways."""
_UFUNCS |= {function: (_UFUNCS[own][0], True) for function, own in REFLECTED.items() if own in _UFUNCS}
_SMOOTH = {operator.add, operator.sub, operator.neg, operator.pos, operator.invert, operator.and_, operator.or_}
_SMOOTH |= {operator.xor, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}
_SMOOTH |= {function for function, own in REFLECTED.items() if own in _SMOOTH}
"""Operators that fail for no numbers, and whose slopes are finite whatever padding holds."""
_dtypes: dict[tuple[object, ...], Any] = {}
"""Dtypes of NumPy's results, by the function, the dtype of the batch, and that of the other or the type of a number."""
_floats: dict[Any, bool] = {}
"""Whether dtypes are those of floats, with which functions do not fail."""


def calculate(function: Function, first: Encoding, others: tuple[Operand, ...]) -> Any:
    """``function(first, *others)`` with zeros for padding; None where rows alone are to be calculated with.

    `others` is nothing, a number, or a batch of the same class over the same structure.
    """
    if not first._gapped or first._structure.late or not first._structure.rows:
        return None
    data: Any = first.data
    library, arrays = first._look(), [data]
    for other in others:
        if type(other) in NUMBERS:
            arrays.append(other)
        else:
            if other is not first:
                other._look()
            if other._shape != first._shape or type(other.data) is not type(data):
                return None
            arrays.append(other.data)
    try:
        if library is NUMPY:
            return _by_numpy(function, first, arrays)
        return _by_library(function, first, arrays, library) if library.fills_places else None
    except (TypeError, RuntimeError) as error:
        fail(error, function, (first, *others))


def _by_numpy(function: Function, first: Encoding, arrays: list[Any]) -> Any:
    """By a universal function at the places of rows, once the dtype of its results is known."""
    ufunc, swapped = _UFUNCS.get(function) or (function, False)
    if type(ufunc) is not np.ufunc or arrays[0].size > SMALL:
        return None
    beside = arrays[-1]
    key = ufunc, swapped, first._dtype, beside.dtype if isinstance(beside, np.ndarray) else type(beside)
    dtype = _dtypes.get(key)
    if dtype is None:
        return None
    out: Array = np.zeros(first._shape, dtype)
    ufunc(*(arrays[::-1] if swapped else arrays), out=out, where=marks_of(first))
    return first._with_data(out)


def note(function: Function, y: Encoding, first: Encoding, others: tuple[Operand, ...]) -> None:
    """Keep the dtype of a result, for the next call."""
    ufunc, swapped = _UFUNCS.get(function) or (function, False)
    if first._gapped and type(ufunc) is np.ufunc and type(y.data) is np.ndarray is type(first.data):
        beside: Any = others[0] if others else first
        kind = beside._dtype if is_own(beside) else type(beside)
        if first._dtype.kind in "biufc" and y._dtype.kind in "biufc" and y._shape == first._shape:
            remember(_dtypes, (ufunc, swapped, first._dtype, kind), y._dtype)


def _by_library(function: Function, first: Encoding, arrays: list[Any], library: Library) -> Any:
    """By a function of padding as well, which is 1 where something else could fail or have an infinite slope."""
    shape = first._shape
    if math.prod(shape) > SMALL:
        return None
    gaps = marks_of(first, library)
    if function not in _SMOOTH:
        float_items = _floats.get(first._dtype)
        if float_items is None:
            name = library.dtype_name(first._dtype)
            float_items = remember(_floats, first._dtype, name.startswith(("float", "bfloat")))
        if not float_items or library.wants_grad([a for a in arrays if type(a) not in NUMBERS]):
            arrays = [a if type(a) in NUMBERS else library.fill_places(a, gaps, 1) for a in arrays]
    made = function(*arrays)
    return first._with_data(library.fill_places(made, gaps, 0)) if made.shape == shape else None


def marks_of(x: Encoding, library: Library = NUMPY, axes: int | None = None) -> Array:
    """Bools that broadcast to data: for NumPy True where a row lies, for other libraries where none does.

    `axes` is how many those of an item are, if not those of `x`.
    """
    known, lead = x._structure.device, x._lead
    axes = len(x._shape) - lead if axes is None else axes
    key = type(x), x._form(), axes, None if library is NUMPY else library.device(x._sample())
    found: Array | None = known.get(key)
    if found is None:
        structure = x._structure
        rows = Ragged._freeze(np.ones(structure.rows, bool), structure)
        marks: Any = relaid(rows, x._with_data(np.zeros(x._shape[:lead], bool))).data
        marks = marks.reshape(*marks.shape, *(1,) * axes)
        found = remember(known, key, frozen(marks) if library is NUMPY else library.from_host(~marks, x._sample()))
    return found
