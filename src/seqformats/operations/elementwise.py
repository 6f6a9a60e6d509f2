"""Functions of single items, of batches and of what goes with each item, and the functions of NumPy that are none.

The arrays of all operands are brought to one layout, the function is called on them once, and its result is laid out
as the first batch.  Where that has padding, the rows alone are brought there, so padding is never calculated with.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from .. import hints
from ..arrays import NUMPY, Array, Library, Shape, adopt, is_array, library_of
from ..arrays.library import Operand
from ..converters.convert import as_own, convert, relaid, rows_of
from ..errors import COUNTS, DEVICES, KIND, LIBRARY, SHAPE, UNLIKE, quote
from ..formats import Encoding, Ragged
from ..formats.arithmetic import NUMBER_TYPES, fail
from ..formats.bare import read_column
from ..formats.encoding import abridge
from ..formats.pairs import Pairs, is_encoding, is_own
from ..lazy_import import import_now
from . import gaps
from .library import astype as astype  # of encodings, too

Function: TypeAlias = Callable[..., Any]
_TEXT = ("<U", ">U", "|S")
"""How NumPy's dtypes of text begin."""
_CHOICES = {*NUMBER_TYPES, type(None), str, type}
"""Types of what stands beside a batch that is no batch and no array, the types of NumPy's dtypes among them."""


def elementwise(function: Function, operands: Sequence[Operand]) -> Any:
    """``function`` of numbers, arrays and batches, one of these at least; TypeError for other operands."""
    text = (str, bytes) if any(is_own(x) and str(x._dtype)[:2] in _TEXT for x in operands) else ()
    return evaluate(function, tuple([x if isinstance(x, text) else operand_of(x) for x in operands]), {})


def elementwise_of_rows(function: Function, first: Encoding, others: tuple[Operand, ...]) -> Any:
    """`elementwise` of a batch that is not in one array without padding, and of at most one other operand."""
    if not gaps.go_beside(first, others):
        return elementwise(function, (first, *others))
    found = gaps.calculate(function, first, others)
    if found is not None:
        return found
    library = library_of(first._sample())
    if not library.arithmetic:
        return elementwise(function, (first, *others))
    arrays = [_rows_of(x) if is_own(x) else x for x in (first, *others)]
    if len(arrays) > 1 and is_own(others[0]):
        own, other = first._sample(), others[0]._sample()
        if type(own) is not type(other) or first.item_shape != others[0].item_shape:
            return elementwise(function, (first, *others))
    try:
        rows = adopt(function(*arrays), "the result")[1]
    except (TypeError, RuntimeError) as error:
        fail(error, function, (first, *others))
    y = restore(rows, first)
    gaps.note(function, y, first, others)
    return y


def operand_of(x: object) -> Operand:
    """Return an operand beside a batch; TypeError where it is neither a number nor an array nor a batch."""
    if is_own(x) or type(x) in NUMBER_TYPES or isinstance(x, (bool, int, float, complex, np.generic)):
        return x
    x = read_column(x)  # nested tensors among them, which are arrays as well
    if is_own(x) or is_array(x):
        return x
    if is_encoding(x) and not isinstance(x, Pairs):
        return as_own(x)
    hint = "; sf.convert(x, sf.Ragged) makes a batch of lists" if isinstance(x, (list, tuple)) else ""
    hint = "; take x.one or x.two" if isinstance(x, Pairs) else hint
    raise KIND(f"an operand beside a batch is a number, an array or a batch, not {quote(x)}{hint}")


def evaluate(function: Function, operands: tuple[Operand, ...], options: Mapping[str, object]) -> Any:
    """``function(*operands, **options)`` with the batches and arrays among them item by item, as the first batch."""
    values = (*operands, *options.values())
    first = next(x for x in values if is_own(x))
    if first._direct and all(type(x) in _CHOICES or x is first for x in values) and first._look().arithmetic:
        plain = [first.data if x is first else x for x in values]
        try:
            made = function(*plain[: len(operands)], **dict(zip(options, plain[len(operands) :], strict=True)))
            return first._with_data(adopt(made, "the result")[1])
        except (TypeError, RuntimeError) as error:
            fail(error, function, values)
    if len(operands) > 2 and first is operands[0] and not options:
        found = gaps.calculate(function, first, operands[1:]) if gaps.go_beside(first, operands[1:]) else None
        if found is not None:
            return found
    library = _common_library(first, values)
    rows_alone = not first._in_one_array or first._padding()
    filled = rows_alone and _fills(first, values, library)
    rows_alone = rows_alone and not filled
    arrays: list[Any] = []
    for x in values:
        if is_own(x):
            check_alike(x, first)
            if filled:
                x._look()
                x = library.fill_places(x.data, gaps.marks_of(first, library, len(x._shape) - first._lead), 1)
            else:
                x = _rows_of(x) if rows_alone else _laid_as(x, first)
        elif isinstance(x, np.generic) and not library.numpy_scalars:
            x = x.item()
        arrays.append(x)
    lead = 1 if rows_alone else first._lead
    arrays = _with_item_axes(values, arrays, first, lead)
    given = dict(zip(options, arrays[len(operands) :], strict=True))
    try:
        made = function(*arrays[: len(operands)], **given)
    except (TypeError, RuntimeError) as error:
        fail(error, function, values)
    rows = adopt(made, "the result")[1]
    if filled:
        rows = library.fill_places(rows, gaps.marks_of(first, library, len(rows.shape) - first._lead), 0)
    return restore(rows, first) if rows_alone else first._with_data(rows)


def _fills(first: Encoding, values: Sequence[Operand], library: Library) -> bool:
    """Tell whether all batches are small ones over the padding of `first`, in a graph in which it may be filled."""
    structure, lead = first._structure, first._lead
    if not (library.fills_places and first._gapped) or structure.late or not structure.rows:
        return False
    if math.prod(first._shape) > gaps.MAX_MARKED_NUMBERS:
        return False
    place = type(first), structure, first._shape[:lead], first._form()
    alike = all((type(x), x._structure, x._shape[:lead], x._form()) == place for x in values if is_own(x))
    arrays: list[Any] = [x for x in values if is_own(x) or is_array(x)]
    return alike and library.wants_grad([x.data if is_own(x) else x for x in arrays])


def _common_library(first: Encoding, values: Sequence[Operand]) -> Library:
    """The library of all batches and arrays; TypeError or DeviceError where there are several."""
    sample = first._sample()
    library = library_of(sample)
    if not library.arithmetic:
        raise LIBRARY(f'arrays of {library.name} cannot be calculated with; sf.to(x, "cupy") or sf.to(x, "torch") can')
    device = None
    for x in values:
        if x is first or not (is_own(x) or is_array(x)):
            continue
        other: Any = x._sample() if is_own(x) else x
        found = library_of(other) if is_own(x) else adopt(other, "an operand")[0]
        if found is not library:
            raise LIBRARY(
                f"a batch of {library.name} and {'a batch' if is_own(x) else 'an array'} of {found.name} do not go "
                f'together; sf.to(x, "{library.name}") brings one to the library of the other'
            )
        if library is not NUMPY and len(other.shape):
            device = device or library.device(sample)
            if library.device(other) != device:
                devices = f"{device} and {library.device(other)}"
                raise DEVICES(f"operands are on {devices}; sf.to_device(x, device) moves one")
    return library


def check_alike(x: Encoding, first: Encoding) -> None:
    """StructureError where two batches differ in their lengths, on the levels that both have."""
    if x is first:
        return
    for own, other in zip(reversed(x._levels), reversed(first._levels), strict=False):
        if own is other:
            continue
        if own.n != other.n:
            raise COUNTS(f"one batch has {other.n} sequences, the other {own.n}")
        if not own.same_lengths(other):
            raise UNLIKE(
                f"one batch has sequences of lengths {abridge(other.lengths)}, the other {abridge(own.lengths)}; "
                "sf.expand_as(rows, x) repeats a row for each item of a sequence, sf.reduce_sum(x) adds items up"
            )


def _laid_as(x: Encoding, first: Encoding) -> Array:
    """The data of a batch, laid out as that of `first`, which has no padding."""
    if x is first:
        x._look()
        data: Array = x.data
        return data
    if first._flat:
        return rows_of(x)
    like: Any = relaid(convert(x, Ragged) if x.keeps_levels or not x._in_one_array else x, first)
    like._look()
    laid: Array = like.data
    return laid


def _rows_of(x: Encoding) -> Array:
    """The rows of a batch in the caller's order."""
    return rows_of(x) if x._flat else convert(x, Ragged)._sample()  # which is new, or has been looked at


def restore(rows: Array, first: Encoding) -> Any:
    """Rows in the caller's order, laid out as `first`, with zeros for padding."""
    if not first._in_one_array:
        return first._with_data(rows)
    structure = first._structure
    r = Ragged._freeze(rows, structure)
    form = first._form()
    if structure.stable and form == (structure.longest, "right")[: len(form)]:  # as conversions have it by themselves
        return convert(r, type(first))
    return relaid(r, first)


def _with_item_axes(values: Sequence[Operand], arrays: list[Any], first: Encoding, lead: int) -> list[Any]:
    """The arrays with axes of one put before the items of those that have fewer than others; checked."""
    ranks = [len(x.item_shape) for x in values if is_own(x)]
    rank = max(ranks)
    plain = [x for x in values if not is_own(x) and is_array(x) and len(getattr(x, "shape", ()))]
    for x in plain:
        if len(x.shape) > rank:
            raise SHAPE(
                f"an array of shape {tuple(x.shape)} has more axes than an item, whose shape is {first.item_shape}; "
                "sf.expand_as(rows, x) repeats row i for each item of sequence i, sf.Ragged(rows, x.lengths) has a "
                "row for each item"
            )
    shapes = {tuple(x.item_shape) for x in values if is_own(x)} | {tuple(x.shape) for x in plain}
    if len(shapes) == 1:
        return arrays
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise SHAPE(f"items of shapes {' and '.join(map(str, sorted(shapes)))} cannot be broadcast") from None
    return [
        a.reshape(_spread(a.shape, lead, rank)) if is_own(x) and len(x.item_shape) < rank else a
        for x, a in zip(values, arrays, strict=True)
    ]


def _spread(shape: Shape, lead: int, rank: int) -> Shape:
    """A shape with axes of one before those of an item, which then has `rank`."""
    item = tuple(shape[lead:])
    return (*shape[:lead], *(1,) * (rank - len(item)), *item)


def matrix_product(x: Operand, y: Operand) -> Operand:
    """Each item of a batch times a matrix or a vector, from the side on which that stands."""
    one, two = operand_of(x), operand_of(y)
    if is_own(one) and is_own(two):
        raise KIND(
            "two batches have no product by @, which is for a batch and a matrix; sf.reduce_sum(x * y) is one of "
            "vectors item by item, sf.map_sequences(fn, x) a function of every sequence"
        )
    batch, matrix = (one, two) if is_own(one) else (two, one)
    axes = len(matrix.shape) if is_array(matrix) else 0
    if not batch.item_shape or not 1 <= axes <= 2:
        raise SHAPE(
            f"@ is for items with an axis and a matrix or a vector, not for items of shape {batch.item_shape} and "
            f"{'an array of shape ' + str(tuple(matrix.shape)) if is_array(matrix) else quote(matrix)}"
        )
    library = _common_library(batch, (one, two))
    matrix = adopt(matrix, "a matrix")[1]
    of_vectors = len(batch.item_shape) == 1
    inner = matrix.shape[0] if batch is one else matrix.shape[-1]
    along = batch.item_shape[-1 if batch is one or of_vectors else -2]
    if inner != along:
        raise SHAPE(f"items of shape {batch.item_shape} and a matrix of shape {tuple(matrix.shape)} have no product")

    def product(data: Array) -> Any:
        if batch is one or (of_vectors and axes == 1):
            return library.product(data, matrix)
        if of_vectors:
            turned: Any = matrix
            return library.product(data, turned.T)
        return library.product(matrix, data)

    product.__name__ = "matmul"
    return evaluate(product, (batch,), {})


# --- what NumPy asks -------------------------------------------------------------------------------------------------

_OPERATORS = {
    "absolute": operator.abs,
    "add": operator.add,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "divide": operator.truediv,
    "equal": operator.eq,
    "floor_divide": operator.floordiv,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "invert": operator.invert,
    "less": operator.lt,
    "less_equal": operator.le,
    "multiply": operator.mul,
    "negative": operator.neg,
    "not_equal": operator.ne,
    "positive": operator.pos,
    "power": operator.pow,
    "remainder": operator.mod,
    "subtract": operator.sub,
}
"""Ufuncs that are operators of arrays of every library."""

_BY_ITEM = {"around", "clip", "imag", "isclose", "isneginf", "isposinf", "nan_to_num", "real", "round", "sinc"}
_BY_ITEM |= {"empty_like", "full_like", "ones_like", "zeros_like"}
"""Functions of NumPy that are no ufuncs, and treat each number alone."""


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Operand, ...], options: dict[str, object]) -> Any:
    """A universal function of NumPy, of batches: one result, item by item."""
    name = ufunc.__name__
    if method != "__call__":
        refuse(f"np.{name}.{method}", hints.of_ufunc(name, method))
    if options.get("out") is not None:
        raise KIND(f"np.{name} of a batch makes a new one and takes no out=, since batches do not change")
    if "where" in options:
        raise KIND(f"np.{name} of a batch takes no where=; sf.where(mask, a, b) chooses between two results")
    if ufunc.nout != 1:
        refuse(f"np.{name}, which has {ufunc.nout} results,", "")
    if ufunc.signature is not None:
        if name == "matmul" and not options:
            return matrix_product(*inputs)
        refuse(f"np.{name}", hints.for_function(name))
    first = next(x for x in inputs if is_own(x))
    library = library_of(first._sample())
    function: Any = ufunc
    if library is not NUMPY:
        own = getattr(np, name, None) is ufunc  # and not one of that name from elsewhere
        function = (_OPERATORS.get(name) or library.function(name)) if own else None
        if function is None or options:
            refuse(f"np.{name} of items of {library.name}", "")
        # a number of NumPy on the left has become an array without axes on the way
        inputs = tuple([x[()] if type(x) is np.ndarray and not x.ndim else x for x in inputs])
    return elementwise(functools.partial(function, **options) if options else function, inputs)


def array_function(function: Function, operands: tuple[Operand, ...], options: dict[str, object]) -> Any:
    """A function of NumPy that is no ufunc, of batches, if it treats each number alone; TypeError for all others."""
    name = function.__name__
    if name == "where" and len(operands) == 3 and not options:
        return import_now(".where", __package__).where(*operands)
    if name not in _BY_ITEM or not any(map(is_own, operands)):
        refuse(f"{function.__module__.replace('numpy', 'np')}.{name}", hints.for_function(name))
    library = library_of(next(x for x in operands if is_own(x))._sample())
    if library is not NUMPY:
        refuse(f"np.{name} of items of {library.name}", "")
    if options.get("out") is not None:
        raise KIND(f"np.{name} of a batch makes a new one and takes no out=, since batches do not change")
    return evaluate(function, operands, options)


def refuse(what: str, hint: str) -> NoReturn:
    """TypeError for a function of an array library that does not treat each item alone."""
    raise KIND(
        f"{what} does not take batches, whose padding and lengths it does not know{hint}; x.data is the array, "
        "sf.with_array(fn)(x) calls a function of it"
    )
