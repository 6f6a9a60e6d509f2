"""Functions of single items, of small batches with padding: calculated where the items lie.

To move the rows out of a batch and back takes several times as long as a function of a few numbers.  NumPy's universal
functions calculate at marked places alone.  Elsewhere padding is calculated with, and what it holds must neither reach
a result nor a slope: 0 times infinity is no number.  So the result is filled with zeros, or, where a slope depends on
the items, the operands with numbers of which the result is 0 and the slopes are finite; if there are no such numbers,
with 1, and the result too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .. import core
from ..arrays import NUMPY, Array, Library, freeze
from ..arrays.library import Operand
from ..converters.convert import relaid
from ..formats import Encoding, Ragged
from ..formats.arithmetic import NUMBER_TYPES, REFLECTED, fail
from ..formats.pairs import is_own
from ..memory_checks import remember

Function: TypeAlias = Callable[..., Any]

MAX_MARKED_NUMBERS = 1 << 14
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
_SMOOTH = frozenset(("add", "and", "clamp", "clamp_max", "clamp_min", "eq", "ge", "gt", "invert", "le", "lt"))
_SMOOTH |= {"maximum", "minimum", "ne", "neg", "or", "pos", "relu", "sub", "where", "xor"}
"""Names of functions that fail for no numbers, and whose slopes are finite whatever padding holds."""
_BY_NUMBER = frozenset(("floordiv", "mod", "truediv"))
"""Functions that are smooth beside a finite number that is not 0, which stands on the right."""
_SAFE = frozenset(("abs", "mul"))
"""Functions that fail for no whole numbers."""
_REAL = frozenset((bool, int, float))
_ROOTS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("abs", "atan", "erf", "expm1", "gelu", "log1p", "round", "silu", "sin"), (0,)),
    **dict.fromkeys(("square", "tan", "tanh"), (0,)),
    **dict.fromkeys(("log", "log2", "log10"), (1,)),
    **dict.fromkeys(("exp", "sigmoid"), (-math.inf,)),
    "mul": (0, 0),
    "truediv": (0, 1),
}
"""Floats of which functions are 0, with finite slopes."""
_dtypes: dict[tuple[object, ...], Any] = {}
"""Dtypes of NumPy's results, by the function, the dtype of the batch, and that of the other or the type of a number."""


def calculate(function: Function, first: Encoding, others: tuple[Any, ...]) -> Any:
    """``function(first, *others)`` with zeros for padding; None where rows alone are to be calculated with.

    `others` are what `go_beside` lets in.
    """
    shape, structure = first._shape, first._structure
    if not first._gapped or structure.late or not structure.rows or math.prod(shape) > MAX_MARKED_NUMBERS:
        return None
    data: Any = first.data
    library, arrays, batches = first._look(), [data], [0]
    for other in others:
        if is_own(other):
            if other is not first:
                other._look()
            if other._shape != shape or type(other.data) is not type(data) or other._unshaped != first._unshaped:
                return None
            batches.append(len(arrays))
            other = other.data
        arrays.append(other)
    try:
        if library is NUMPY:
            return _by_numpy(function, first, arrays)
        return _by_library(function, first, arrays, batches, library) if library.fills_places else None
    except (TypeError, RuntimeError) as error:
        fail(error, function, (first, *others))


def _by_numpy(function: Function, first: Encoding, arrays: list[Any]) -> Any:
    """By a universal function at the places of rows, once the dtype of its results is known."""
    if function == NUMPY.where:
        out: Any = np.where(*arrays)
        np.copyto(out, out.dtype.type(), where=~marks_of(first))
        return first._with_data(out) if out.shape == first._shape else None
    ufunc, swapped = _UFUNCS.get(function) or (function, False)
    if type(ufunc) is not np.ufunc:
        return None
    beside = arrays[-1]
    key = ufunc, swapped, first._dtype, beside.dtype if isinstance(beside, np.ndarray) else type(beside)
    dtype = _dtypes.get(key)
    if dtype is None:
        return None
    out = np.zeros(first._shape, dtype)
    ufunc(*(arrays[::-1] if swapped else arrays), out=out, where=marks_of(first))
    return first._with_data(out)


def go_beside(first: Encoding, others: tuple[Any, ...]) -> bool:
    """Tell whether these are numbers, batches over the same structure, or arrays that broadcast to each item."""
    data: Any = first._sample()
    for x in others:
        if type(x) in NUMBER_TYPES or (type(x) is type(first) and x._structure is first._structure):
            continue
        if type(data) is np.ndarray:
            if not isinstance(x, np.generic) and (type(x) is not np.ndarray or x.dtype.hasobject):
                return False
        elif not core.is_plain(x) or x.device != data.device:
            return False
        axes = len(x.shape)
        if axes > len(first.item_shape) or tuple(x.shape) != first.item_shape[len(first.item_shape) - axes :]:
            return False
    return True


def note(function: Function, y: Encoding, first: Encoding, others: tuple[Operand, ...]) -> None:
    """Keep the dtype of a result, for the next call."""
    ufunc, swapped = _UFUNCS.get(function) or (function, False)
    if first._gapped and type(ufunc) is np.ufunc and type(y.data) is np.ndarray is type(first.data):
        beside: Any = others[0] if others else first
        kind = beside._dtype if is_own(beside) else beside.dtype if isinstance(beside, np.ndarray) else type(beside)
        if first._dtype.kind in "biufc" and y._dtype.kind in "biufc" and y._shape == first._shape:
            remember(_dtypes, (ufunc, swapped, first._dtype, kind), y._dtype)


def _by_library(function: Function, first: Encoding, arrays: list[Any], batches: list[int], library: Library) -> Any:
    """By a function of padding as well, of which nothing reaches results and slopes."""
    gaps, cases = marks_of(first, library), 0
    for at, x in enumerate(arrays[1:], 1):
        cases = 8 * cases + _case_of(x, at in batches, first)
    plans = [_plan(function, first, arrays, batches, quiet, library) for quiet in (False, True)]
    fills, clear = plans[not library.wants_grad([a for a in arrays if type(a) not in NUMBER_TYPES])]
    given = list(arrays)
    for at, value in zip(batches, fills, strict=False):
        given[at] = library.fill_places(given[at], gaps, value)
    made = function(*given)
    if made.shape != first._shape:
        return None
    alike = all(arrays[at].dtype == first._dtype for at in batches)
    kept = [(library.full(fills, first._sample()) if alike else fills, clear) for fills, clear in plans]
    key = function, type(first), first._shape, first._dtype, first._unshaped, cases
    zero = library.full((0,), made)[0]
    remember(first._structure.device, key, (gaps, ~gaps, zero, tuple(batches), *kept))
    return first._with_data(library.fill_places(made, gaps, 0) if clear else made)


def _case_of(x: Any, batch: bool, first: Encoding) -> int:
    """The digit by which `core.map_items` tells operands apart in the last part of its key."""
    if batch:
        return 5 if x.dtype == first._dtype else 7
    if type(x) not in NUMBER_TYPES:
        return 6
    if type(x) is complex:
        return 0
    return (2 if x < 0 else 3 if x < 1 else 4) if 0 < abs(x) < math.inf else 1


def _plan(
    function: Function, first: Encoding, arrays: list[Any], batches: list[int], quiet: bool, library: Library
) -> tuple[tuple[float, ...], bool]:
    """Numbers for the padding of all batches before the function, and whether to fill the result with zeros.

    With `quiet` no array asks for a gradient.
    """
    name = getattr(function, "__name__", "").strip("_")
    if name in _SMOOTH:
        return (), True
    count, beside = len(batches), arrays[-1]
    ones: tuple[float, ...] = (1,) * count
    if not library.dtype_name(first._dtype).startswith(("float", "bfloat")):
        return () if name in _SAFE else ones, True
    if count == len(arrays):
        roots = _ROOTS.get(name, ())
        if len(roots) == count and not (count == 2 and quiet):
            return roots, False
    elif count == 1 and type(beside) in _REAL and 0 < abs(beside) < math.inf:
        if name == "mul" or (name in _BY_NUMBER and function not in REFLECTED):
            return (), True
        if name == "truediv" and beside > 0:
            return (math.inf,), False
        if name == "pow" and beside >= 1 and function not in REFLECTED:
            return (0,), False
    return () if quiet else ones, True


def marks_of(x: Encoding, library: Library = NUMPY, axes: int | None = None) -> Array:
    """Bools that broadcast to data: for NumPy True where a row lies, for other libraries where none does.

    `axes` is how many those of an item are, if not those of `x`.
    """
    known, lead = x._structure.device, x._lead
    axes = len(x._shape) - lead if axes is None else axes
    key = type(x), x._unshaped, x._shape[:lead], axes, None if library is NUMPY else library.device(x._sample())
    found: Array | None = known.get(key)
    if found is None:
        structure = x._structure
        rows = Ragged._freeze(np.ones(structure.rows, bool), structure)
        marks: Any = relaid(rows, x._with_data(np.zeros(x._shape[:lead], bool))).data
        marks = marks.reshape(*marks.shape, *(1,) * axes)
        found = remember(known, key, freeze(marks) if library is NUMPY else library.from_host(~marks, x._sample()))
    return found
