"""Reductions: one item a sequence."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import registry
from ..arrays import Array, Library, library_of, with_autograd
from ..arrays.dtypes import HALF, SUMS_IN, differentiable, exponentials, means, same, sums
from ..conversion.convert import convert, without_padding
from ..errors import ConversionError, StructureError, said
from ..formats import Encoding, LoD, Ragged
from ..formats.leaves import wants_grad, without_data
from ..formats.structure import Structure
from ..gradients.operation import Call, Operand, Operation, Pullback, linear, operand
from ..launch.kernel import kernel
from .over import Calculation, Spreading, combined, in_one_array, laid_out_as, name_of, one_after_the_other, rows_like

_ZERO, _LOWEST = 0.0, -math.inf  # what kernels leave for an empty sequence
_SUM, _MEAN, _SQRT = 0, 1, 2  # see kernels.sum_rows

repeat_rows, find_rows = kernel("repeat_rows"), kernel("find_rows")
end_rows = kernel("end_rows")


class Reduction(Operation):
    """An item a sequence, as a record.

    Parameters
    ----------
    name : by which `reduce` knows it
    values : ``values(x, finish=True)`` is the array ``(n, *item)``; without `finish` in the dtype of the kernel
    pullback : ``pullback(x, values)`` is a function of the gradients ``(n, *item)``, which gives that of `x`
    what : how messages call it, where integers have no gradient; None where all dtypes have one
    default : what the kernel leaves for an empty sequence
    second_order : see `Operation`
    """

    def __init__(
        self,
        name: str,
        values: Callable[..., Array],
        pullback: Callable[[Any, Array], Pullback],
        *,
        what: str | None = None,
        default: float = _ZERO,
        second_order: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        super().__init__(self._forward, self._rule, second_order=second_order)
        self.name = name
        self.values = values
        self.pullback = pullback
        self.what = what
        self.default = default

    def __call__(self, x: Any, empty: Any) -> Any:
        """The result for any batch, with `empty` for empty sequences."""
        if empty is self.default and isinstance(x, Encoding) and not (with_autograd and wants_grad(x)):
            y = self.values(x)
            return over_levels(y, x) if x.keeps_levels else y
        return self.prepare(x, empty).run()

    def prepare(self, x: Any, empty: Any) -> Call:
        """The same as a `Call`."""
        own, result, gradient = operand_of_reduction(x)
        if empty is not self.default:
            _check_empty(own._structure, empty)

        def rule(z: Any, back: bool) -> tuple[Any, Pullback | None]:
            return self._rule(z, empty) if back else (self._forward(z, empty), None)

        return Call(own, rule, result, gradient, self.second_order)

    def _forward(self, x: Encoding, empty: Any) -> Any:
        return over_levels(_finished(self.values(x), x._structure, empty, self.default), x)

    def _rule(self, x: Encoding, empty: Any) -> tuple[Any, Pullback]:
        library, name = library_of(x._sample()), name_of(x)
        values = self.values(x, False)
        if self.what is not None:
            differentiable(name, self.what)
        pullback = self.pullback(x, values)
        if name in HALF:
            values = library.astype(values, name)
        y = over_levels(_finished(values, x._structure, empty, self.default), x)
        return y, lambda dy: pullback(rows_or_data(dy))


def operand_of_reduction(x: Any) -> Operand:
    """The batch as an encoding of this library; a result goes back to bare lists where those have levels."""
    own, result, gradient = operand(x, "reduce x.one and x.two")
    if result is None or not isinstance(x, (list, tuple)):
        return Operand(own, None, gradient)
    return Operand(own, lambda y: result(y) if isinstance(y, Encoding) else y, gradient)


def over_levels(values: Array, x: Any) -> Any:
    """The rows of a reduction over the levels that are left of `x`, where there are some."""
    levels = x._levels
    return LoD._over(values, levels[:-1]) if len(levels) > 1 else values


def rows_or_data(y: Any) -> Array:
    """The rows of a reduction: an array, or the data of a `LoD`."""
    return y.data if isinstance(y, Encoding) else y


def _check_empty(structure: Structure, empty: Any) -> None:
    if isinstance(empty, str):
        if empty != "raise":
            raise ConversionError(f'empty must be a value or "raise", not {said(empty)}')
        if (structure.lengths == 0).any():
            i = int((structure.lengths == 0).argmax())
            raise StructureError(f"sequence {i} is empty; give empty=0.0 or another value for it")
    elif not isinstance(empty, (int, float, complex, np.number, np.bool_, np.datetime64)):
        raise TypeError(f'empty must be a number or "raise", not {said(empty)}')


def _finished(values: Array, structure: Structure, empty: Any, default: float) -> Array:
    """The result, with `empty` for empty sequences, where the kernel has left `default`."""
    if empty is default or isinstance(empty, str):
        return values
    library = library_of(values)
    value = _fitting(empty, library.dtype_name(values.dtype))
    if value == default and str(value)[0] == str(default)[0]:  # -0.0 is not 0.0
        return values
    vacant = (structure.lengths == 0).nonzero()[0]
    if vacant.size:
        library.overwrite(values, vacant, value)
    return values


def _fitting(empty: Any, name: str) -> Any:
    """`empty` as a value of the result: exact in integers, rounded in floats, never out of range."""
    value: Any
    if isinstance(empty, (np.datetime64, np.timedelta64)):
        fits, value = name.startswith(empty.dtype.name.partition("[")[0]), empty
    else:
        value = empty.item() if isinstance(empty, np.generic) else empty
        fits = _fits(value, name)
        if fits and SUMS_IN.get(name) in ("int64", "uint64"):
            value = int(value)
    if not fits:
        raise ConversionError(f"empty={said(empty)} does not fit {name}, the dtype of the result")
    return value


def _fits(value: Any, name: str) -> bool:
    if name.startswith("complex"):
        part = f"float{int(name[7:]) // 2}"
        return _fits(value.real, part) and _fits(value.imag, part)
    if isinstance(value, complex):
        return False
    if SUMS_IN.get(name) in ("int64", "uint64"):
        low, high = (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
        return bool(value == value and low <= value <= high and value == int(value))
    if name in _LARGEST:
        return not _LARGEST[name] < abs(value) < float("inf")
    return bool(value == 0)  # of other dtypes zero bytes are left


_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


# --- sums ------------------------------------------------------------------------------------------------------------


def _sum_pullback(mode: int) -> Callable[[Any, Array], Pullback]:
    def pullback(x: Any, _: Array) -> Pullback:
        shape = without_data(x)
        return lambda rows: spread(rows, shape, mode)

    return pullback


def spread(rows: Array, shape: Any, mode: int = _SUM) -> Any:
    """Every row of a sequence gets the sequence's own row of `rows`, scaled; laid out as `shape`.  It flows."""
    if with_autograd and wants_grad(rows):
        return linear(lambda z: spread(z, shape, mode), lambda dz: summed(dz, mode), rows)
    return repeated(library_of(rows), rows, shape) if mode == _SUM else _spread_rows[mode](shape, rows)


_spread_rows = {mode: Spreading("spread_rows", mode) for mode in (_MEAN, _SQRT)}
_spread_places = Spreading("spread_places")


def repeated(library: Library, rows: Array, shape: Any, out: Array | None = None) -> Any:
    """Row i of an array, to every item of sequence i, laid out as `shape`; any dtype."""
    structure, item = shape._structure, rows.shape[1:]
    at = shape if shape._in_one_array else one_after_the_other(structure, item, rows.dtype)
    data = rows_like(library, at, item, rows.dtype, rows) if out is None else out
    row = math.prod(item) * rows.dtype.itemsize
    if row and structure.rows:
        repeat_rows.start(library, (rows,), (data,), (at._layout(),), row, structure)
    return shape._with_data(data)


# --- the largest -----------------------------------------------------------------------------------------------------


def places_of(x: Encoding, values: Array) -> Array:
    """int64 ``(n, *item)``: where the first item stands that equals the sequence's own of `values`, -1 for none."""
    x = in_one_array(x)
    library, data = library_of(x._sample()), x.data
    name = library.dtype_name(x._dtype)
    if name in HALF:
        data = library.astype(data, "float32")
    out = library.empty(values.shape, library.dtype("int64"), values)
    width = math.prod(values.shape[1:])
    if width and x._structure.n:
        find_rows.start(library, (data, values), (out,), (x._layout(),), width, x._structure)
    return out


def _extreme_pullback(x: Any, values: Array) -> Pullback:
    places, shape = places_of(x, values), without_data(x)
    each = np.arange(x._structure.n)

    def placed(rows: Array) -> Any:
        return _spread_places(shape, rows, places)

    return lambda dy: linear(placed, lambda dz: items_at(dz, places, each), dy)


def items_at(x: Any, places: Array, sequences: Array) -> Array:
    """Row j, column by column: the item at ``places[j]`` of sequence ``sequences[j]``, zero where that is -1."""
    r = convert(x, Ragged)
    library, item = library_of(r.data), r.item_shape
    width = math.prod(item)
    where = library.to_numpy(places).reshape(sequences.size, width)
    if not r.rows or not where.size:
        return library.zeros((sequences.size, *item), r.dtype, r.data)
    flat = (r.offsets[sequences][:, None] + where) * width + np.arange(width)
    chosen = library.take(r.data.reshape(-1), np.where(where < 0, 0, flat).reshape(-1), 0)
    vacant = np.flatnonzero(where.reshape(-1) < 0)
    if vacant.size:
        library.overwrite(chosen, vacant, 0)
    return chosen.reshape(sequences.size, *item)


# --- the first and the last ------------------------------------------------------------------------------------------


def _end(x: Encoding, finish: bool = True, *, last: int) -> Array:
    """``(n, *item)``: the first (last) item of every sequence, zeros for an empty one."""
    library, data, at, structure, sample, item, _ = x._read()
    n, dtype = structure.n, sample.dtype
    out = library.empty((n, *item), dtype, sample)
    row = math.prod(item) * dtype.itemsize
    if row and n:
        end_rows.start(library, (data,), (out,), (at, last, 0), row, structure, (n, n, None))
    return out


def _end_pullback(last: int) -> Callable[[Any, Array], Pullback]:
    def pullback(x: Any, _: Array) -> Pullback:
        shape = without_data(x)
        return lambda dy: linear(lambda rows: _at_end(rows, shape, last), lambda dz: _end(dz, last=last), dy)

    return pullback


def _at_end(rows: Array, shape: Any, last: int) -> Any:
    library, item, structure = library_of(rows), rows.shape[1:], shape._structure
    at, sealed = laid_out_as(shape)
    out = library.zeros((*at._shape[: at._lead], *item), rows.dtype, rows)
    row, n = library.itemsize(rows.dtype) * math.prod(item), structure.n
    if row and n:
        end_rows.start(library, (rows,), (out,), (at._layout(), last, 1), row, structure, (n, n, None))
    return sealed(out)


# --- logsumexp, products ---------------------------------------------------------------------------------------------


def _slopes_pullback(back: Spreading) -> Callable[[Any, Array], Pullback]:
    """For a kernel that calculates the gradient of the gradients of rows, the items, and what was made of them."""

    def pullback(x: Any, values: Array) -> Pullback:
        library, shape = library_of(values), without_data(x)
        made, name = library.dtype_name(values.dtype), name_of(x)
        data, kept = library.astype(in_one_array(x).data, made), library.alias(values)
        return lambda rows: back(shape, library.astype(rows, made), data, kept, dtype=name)

    return pullback


def _logsumexp_second_order(x: Any, dy: Any) -> Any:
    """The gradient of logsumexp, made of operations that have gradients themselves."""
    shape = without_data(x)
    logs = rows_or_data(reduce_logsumexp(x))
    library = library_of(logs)
    logs = library.where(logs == _LOWEST, 0.0, logs)  # a sequence of -inf alone has no slope
    slopes = combined(lambda a, b, c: c * library.exp(a - b), x, spread(logs, shape), spread(rows_or_data(dy), shape))
    return without_padding(slopes)


# --- the records -----------------------------------------------------------------------------------------------------

_summed = [Calculation("sum_rows", sums if mode == _SUM else means, mode) for mode in (_SUM, _MEAN, _SQRT)]


def summed(x: Encoding, mode: int = _SUM) -> Array:
    """``(n, *item)``: the sums (means, ...) of an encoding, outside of any autograd graph."""
    return _summed[mode](x)


SUM = Reduction("sum", _summed[_SUM], _sum_pullback(_SUM), what="a sum")
MEAN = Reduction("mean", _summed[_MEAN], _sum_pullback(_MEAN), what="a sum")
SQRT = Reduction("sqrt", _summed[_SQRT], _sum_pullback(_SQRT), what="a sum")
MAX = Reduction("max", Calculation("max_rows", same, 0), _extreme_pullback, what="a maximum")
MIN = Reduction("min", Calculation("max_rows", same, 1), _extreme_pullback, what="a minimum")
FIRST = Reduction("first", functools.partial(_end, last=0), _end_pullback(0))
LAST = Reduction("last", functools.partial(_end, last=1), _end_pullback(1))
LOGSUMEXP = Reduction(
    "logsumexp",
    Calculation("logsumexp_rows", exponentials("a logsumexp")),
    _slopes_pullback(Spreading("spread_exp")),
    what="a logsumexp",
    default=_LOWEST,
    second_order=_logsumexp_second_order,
)

REDUCTIONS = {record.name: record for record in (SUM, MEAN, SQRT, MAX, MIN, FIRST, LAST, LOGSUMEXP)}
"""Every reduction by its name."""
_SYNONYMS = {"average": "mean"}


def reduce(x: Any, kind: str, *, empty: Any = None) -> Any:
    """A reduction by name, as Paddle's sequence_pool.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    kind : "sum", "mean" or "average", "sqrt", "max", "min", "first", "last", "logsumexp", in any case
    empty : see `reduce_sum`; None for the default of the reduction

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce(sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 0, 1]), "max")
    array([2., 0., 3.])
    """
    record = _by_name(kind)
    return record(x, record.default if empty is None else empty)


def _by_name(kind: Any) -> Reduction:
    if not isinstance(kind, str):
        raise TypeError(f"a reduction is called by its name, not {said(kind)}")
    name = kind.lower()
    name = _SYNONYMS.get(name, name)
    if name not in REDUCTIONS:
        known = ", ".join(sorted([*REDUCTIONS, *_SYNONYMS], key=_PLACE.index))
        raise ConversionError(f"no reduction is called {said(kind)}; there are: {known}")
    return REDUCTIONS[name]


_PLACE = ["sum", "mean", "average", "sqrt", "max", "min", "first", "last", "logsumexp"]


@registry.gradient(reduce)
def _reduce(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Pullback]:
    def given(x: Any, kind: str, *, empty: Any = None) -> Call:
        record = _by_name(kind)
        return record.prepare(x, record.default if empty is None else empty)

    return given(*args, **options).vjp()


@SUM.of
def reduce_sum(x: Any, *, empty: Any = _ZERO) -> Any:
    """The sum of every (innermost) sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists, items of any shape
    empty : the result for an empty sequence, a value or "raise"

    Returns an array ``(n, *item)`` in the library of `x`; of a `LoD` with more levels a `LoD` without its innermost, of
    nested lists with more levels nested lists.  Floats keep their dtype (float16 and bfloat16 are added up in float32),
    integers and bools give int64, unsigned ones uint64.  Items are added in blocks by their place in the sequence, and
    the blocks of float32 in float64: a sum of positive items is right to 1e-6 at any length, and no neighbour, thread
    or encoding changes a bit of it.  A NaN in a sequence gives NaN.

    Errors: TypeError for dtypes without a sum, StructureError for an empty sequence with ``empty="raise"``.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_sum(sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 0, 1]))
    array([3., 0., 3.])
    """
    return SUM(x, empty)


@MEAN.of
def reduce_mean(x: Any, *, empty: Any = _ZERO) -> Any:
    """The mean of every (innermost) sequence; integers and bools give float64.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.array([[1.0], [3.0], [5.0]]), [[0, 2], [0, 2, 3]])
    >>> sf.reduce_mean(x).to_nested()[0]
    array([[2.],
           [5.]])
    """
    return MEAN(x, empty)


@SQRT.of
def reduce_sqrt(x: Any, *, empty: Any = _ZERO) -> Any:
    """The sum of every (innermost) sequence, divided by the square root of its length.  See `reduce_mean`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_sqrt(sf.Ragged(np.array([1.0, 2.0, 3.0, 2.0]), [4]))
    array([4.])
    """
    return SQRT(x, empty)


@MAX.of
def reduce_max(x: Any, *, empty: Any = _ZERO) -> Any:
    """The largest item of every (innermost) sequence, column by column; dtypes stay.  See `reduce_sum`.

    A NaN in a sequence gives NaN.  The gradient goes to the first of equal items.

    Errors: TypeError for complex numbers and other dtypes without an order.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_max(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 4, -1])
    """
    return MAX(x, empty)


@MIN.of
def reduce_min(x: Any, *, empty: Any = _ZERO) -> Any:
    """The least item of every (innermost) sequence, column by column.  See `reduce_max`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_min(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 3, -1])
    """
    return MIN(x, empty)


@FIRST.of
def reduce_first(x: Any, *, empty: Any = _ZERO) -> Any:
    """The first item of every (innermost) sequence; any dtype, which stays.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_first(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 3, -1])
    """
    return FIRST(x, empty)


@LAST.of
def reduce_last(x: Any, *, empty: Any = _ZERO) -> Any:
    """The last item of every (innermost) sequence; any dtype, which stays.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_last(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 4, -1])
    """
    return LAST(x, empty)


@LOGSUMEXP.of
def reduce_logsumexp(x: Any, *, empty: Any = _LOWEST) -> Any:
    """The logarithm of the sum of exponentials of every (innermost) sequence, without overflow.  See `reduce_mean`.

    The exponentials are added up as in `reduce_sum`, so that long sequences lose nothing.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_logsumexp(sf.Ragged(np.array([1000.0, 1000.0]), [2])).round(3)
    array([1000.693])
    """
    return LOGSUMEXP(x, empty)


def argmax(x: Any) -> Any:
    """The place in its (innermost) sequence of the first of the largest items, column by column.

    Returns int64 ``(n, *item)``, -1 for an empty sequence; of a `LoD` with more levels a `LoD` without its innermost.
    NaN is the largest.  There is no gradient.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.argmax(sf.Ragged(np.array([3, 4, 4]), [3, 0]))
    array([ 1, -1])
    """
    own, result, _ = operand_of_reduction(x)
    y = over_levels(places_of(own, MAX.values(own, False)), own)
    return y if result is None else result(y)
