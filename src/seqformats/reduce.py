"""Reductions: one item a sequence."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _flow
from ._rows import (
    HALF,
    ORDERED,
    SUMS_IN,
    Layout,
    at_rows,
    calculate,
    calculated_at_once,
    combined,
    differentiable,
    flat,
    float_kept,
    in_floats,
    in_layout,
    layout_of,
    linear,
    move,
    name_of,
    new_rows,
    placed_at_once,
    ready,
    spread_at_once,
    sums_in,
)
from .arrays import Array, Library, library_of, plain, size_of
from .convert import convert, source_of, without_padding
from .errors import ConversionError, StructureError, said
from .formats import LoD, Ragged, build_lod
from .grad import Call, at_once, operation, single
from .launch.kernel import Work, kernel
from .structure import Structure, frozen, integers

_SUM, _MEAN, _SQRT = 0, 1, 2  # see kernels.sum_rows
_ZERO, _LOWEST = 0.0, -np.inf  # what kernels leave for an empty sequence


@operation
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
    if not isinstance(kind, str):
        raise TypeError(f"a reduction is called by its name, not {said(kind)}")
    name = kind.lower()
    if name not in _BY_NAME:
        raise ConversionError(f"no reduction is called {said(kind)}; there are: {', '.join(_BY_NAME)}")
    if empty is None:
        empty = _LOWEST if name == "logsumexp" else _ZERO
    return _BY_NAME[name](x, empty)


def _sum_kept(name: str) -> str | None:
    """The dtype of the sum of items that can be added up as they are; None for others, here and below."""
    return None if name in HALF else SUMS_IN.get(name)


def _mean_kept(name: str) -> str | None:
    sums = _sum_kept(name)
    return "float64" if sums in ("int64", "uint64") else sums


def _order_kept(name: str) -> str | None:
    return name if name in ORDERED and name not in HALF else None


_end_rows = kernel("end_rows")


def _end_at_once(x: Any, last: bool) -> Any:
    """The way of `at_once` for the first and the last item of sequences, a move; see `calculated_at_once`."""
    if type(x) is not Ragged:
        return None
    data, shape, structure = x.data, x._shape, x._structure
    library = plain(data, x._dtype, shape)
    row = size_of(shape[1:]) * x._dtype.itemsize
    n, cum = structure.n, structure.offsets
    if library is None or not (n and row):
        return None
    out = library.empty((n, *shape[1:]), x._dtype, data)
    at = at_rows((cum, cum, cum, -1, 0, 1, 0))
    _end_rows.start(library, (data,), (out,), (at, int(last), 0), row, structure, (n, n, None))
    return out


_sums_at_once = [
    calculated_at_once("sum_rows", _sum_kept if mode == _SUM else _mean_kept, mode) for mode in (_SUM, _MEAN, _SQRT)
]
_ends_at_once = [functools.partial(_end_at_once, last=last) for last in (False, True)]


@operation
@at_once(_sums_at_once[_SUM])
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
    return _sums(x, empty, _SUM)


@operation
@at_once(_sums_at_once[_MEAN])
def reduce_mean(x: Any, *, empty: Any = _ZERO) -> Any:
    """The mean of every (innermost) sequence; integers and bools give float64.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.array([[1.0], [3.0], [5.0]]), [[0, 2], [0, 2, 3]])
    >>> sf.reduce_mean(x).to_nested()[0]
    array([[2.],
           [5.]])
    """
    return _sums(x, empty, _MEAN)


@operation
@at_once(_sums_at_once[_SQRT])
def reduce_sqrt(x: Any, *, empty: Any = _ZERO) -> Any:
    """The sum of every (innermost) sequence, divided by the square root of its length.  See `reduce_mean`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_sqrt(sf.Ragged(np.array([1.0, 2.0, 3.0, 2.0]), [4]))
    array([4.])
    """
    return _sums(x, empty, _SQRT)


@operation
@at_once(calculated_at_once("max_rows", _order_kept, 0))
def reduce_max(x: Any, *, empty: Any = _ZERO) -> Any:
    """The largest item of every (innermost) sequence, column by column; dtypes stay.  See `reduce_sum`.

    A NaN in a sequence gives NaN.  The gradient goes to the first of equal items.

    Errors: TypeError for complex numbers and other dtypes without an order.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_max(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 4, -1])
    """
    return _extremes(x, empty, 0)


@operation
@at_once(calculated_at_once("max_rows", _order_kept, 1))
def reduce_min(x: Any, *, empty: Any = _ZERO) -> Any:
    """The least item of every (innermost) sequence, column by column.  See `reduce_max`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_min(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 3, -1])
    """
    return _extremes(x, empty, 1)


@operation
@at_once(_ends_at_once[False])
def reduce_first(x: Any, *, empty: Any = _ZERO) -> Any:
    """The first item of every (innermost) sequence; any dtype, which stays.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_first(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 3, -1])
    """
    return _ends(x, empty, last=False)


@operation
@at_once(_ends_at_once[True])
def reduce_last(x: Any, *, empty: Any = _ZERO) -> Any:
    """The last item of every (innermost) sequence; any dtype, which stays.  See `reduce_sum`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_last(sf.Ragged(np.array([3, 4, -1]), [2, 1]))
    array([ 4, -1])
    """
    return _ends(x, empty, last=True)


@operation
@at_once(calculated_at_once("logsumexp_rows", float_kept))
def reduce_logsumexp(x: Any, *, empty: Any = _LOWEST) -> Any:
    """The logarithm of the sum of exponentials of every (innermost) sequence, without overflow.  See `reduce_mean`.

    The exponentials are added up as in `reduce_sum`, so that long sequences lose nothing.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_logsumexp(sf.Ragged(np.array([1000.0, 1000.0]), [2])).round(3)
    array([1000.693])
    """
    return _logsumexp(x, empty)


def argmax(x: Any) -> Any:
    """The place in its (innermost) sequence of the first of the largest items, column by column.

    Returns int64 ``(n, *item)``, -1 for an empty sequence; of a `LoD` with more levels a `LoD` without its innermost.
    NaN is the largest.  There is no gradient.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.argmax(sf.Ragged(np.array([3, 4, 4]), [3, 0]))
    array([ 1, -1])
    """
    own, home, _ = _door(x)
    y = _over_levels(_extreme(own, 0, places=True)[1], own)
    return y if home is None else home(y)


@operation
def topk_mean(x: Any, topks: Any) -> Any:
    """The means of the k largest items of every (innermost) sequence, column by column, for several k.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    topks : positive integers

    Returns an array ``(n, len(topks), *item)``: the sum of the k largest divided by k, also where the sequence is
    shorter (Paddle's sequence_topk_avg_pooling); of a `LoD` with more levels a `LoD` without its innermost.  Integers
    give float64.  NaN is the largest; of equal items the first gets the gradient.

    Errors: StructureError for a k below 1, TypeError for dtypes without an order.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.topk_mean(sf.Ragged(np.array([3.0, 5.0, 4.0, 1.0]), [3, 1]), [1, 2])
    array([[5. , 4.5],
           [1. , 0.5]])
    """
    own, home, home_dx = _door(x)
    name = name_of(own)
    floats, result = in_floats(name, "a mean of the largest")
    ks = frozen(integers(topks if not isinstance(topks, (int, np.integer)) else [topks], "topks"))
    if ks.size and int(ks.min()) < 1:
        raise StructureError(f"topks must be at least 1, not {int(ks.min())}")
    most = int(ks.max()) if ks.size else 0

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        r, layout, library = ready(z)
        n, item = r._structure.n, r.item_shape
        width = size_of(item) if ks.size else 0
        data = library.astype(r.data, floats)
        # no sequence has more than its longest
        kept = min(most, max(r._structure.longest, 1))
        out = library.empty((n, ks.size, *item), data.dtype, data)
        tops = library.empty((n, kept, *item), data.dtype, data)
        places = library.empty((n, kept, *item), library.dtype("int64"), data)
        results = (out, tops, places)
        calculate("topk_rows", library, layout, r._structure, (data,), results, width, kept, int(back), arrays=(ks,))
        y = _over_levels(library.astype(out, result), z)
        if not back:
            return y, None
        differentiable(name, "a mean of the largest")
        shape = _flow.hollow(z)

        def spread_back(rows: Array) -> Any:
            slopes = library.astype(rows, floats)
            dx = library.zeros((*layout.lead, *item), data.dtype, data)
            work = (slopes, places), (dx,)
            calculate("topk_back", library, layout, r._structure, *work, width, kept, arrays=(ks,))
            return in_layout(shape, library.astype(dx, name))

        def gathered(dz: Any) -> Array:
            chosen = _picked(dz, places.reshape(n * kept, *item), np.repeat(np.arange(n), kept))
            chosen = chosen.reshape(n, kept, *item)
            parts = [chosen[:, : min(k, kept)].sum(1) / k for k in ks.tolist()]
            return library.stack(parts, chosen).swapaxes(0, 1)

        return y, lambda dy: linear(spread_back, gathered, rows_or_data(dy))

    return Call(own, rule, home, home_dx)


# --- sums ------------------------------------------------------------------------------------------------------------


def _sums(x: Any, empty: Any, mode: int) -> Call:
    own, home, home_dx = _door(x, empty)
    name = name_of(own)

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        y = _sums_at_once[mode](z)
        y = _over_levels(_finished(summed(z, mode) if y is None else y, z._structure, empty, _ZERO), z)
        if not back:
            return y, None
        differentiable(name, "a sum")
        shape = _flow.hollow(z)
        return y, lambda dy: spread(rows_or_data(dy), shape, mode)

    return Call(own, rule, home, home_dx)


def summed(x: Any, mode: int = _SUM) -> Array:
    """``(n, *item)``: the sums (means, ...) of an encoding, outside of any autograd graph."""
    r, layout, library = ready(x)
    name = library.dtype_name(r.dtype)
    sums = sums_in(name)
    if mode != _SUM and sums in ("int64", "uint64"):
        sums = "float64"
    data = library.astype(r.data, sums) if name in HALF else r.data
    out = library.empty((r._structure.n, *r.item_shape), library.dtype(sums), data)
    calculate("sum_rows", library, layout, r._structure, (data,), (out,), size_of(r.item_shape), mode)
    return library.astype(out, name) if name in HALF else out


def spread(rows: Array, shape: Any, mode: int = _SUM) -> Any:
    """Every row of a sequence gets the sequence's own row of `rows`, scaled; laid out as `shape`.  It flows."""
    if mode == _SUM:
        y = placed_at_once("repeat_rows", rows, shape)
    else:
        y = spread_at_once("spread_rows", (rows,), shape, mode)
    return linear(lambda z: _spread(z, shape, mode), lambda dz: summed(dz, mode), rows) if y is None else y


def _spread(rows: Array, shape: Any, mode: int) -> Any:
    library, layout = library_of(rows), layout_of(shape)
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    if mode == _SUM:
        out = new_rows(library, layout, item, rows.dtype, rows)
        move("repeat_rows", library, layout, shape._structure, rows, out, item)
        return in_layout(shape, out)
    data = library.astype(rows, sums_in(name)) if name in HALF else rows
    out = new_rows(library, layout, item, data.dtype, data)
    calculate("spread_rows", library, layout, shape._structure, (data,), (out,), size_of(item), mode)
    return in_layout(shape, library.astype(out, name))


# --- logsumexp -------------------------------------------------------------------------------------------------------


def _logsumexp(x: Any, empty: Any) -> Call:
    own, home, home_dx = _door(x, empty)
    name = name_of(own)
    floats, result = in_floats(name, "a logsumexp")

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        r, layout, library = ready(z)
        data, width = library.astype(r.data, floats), size_of(r.item_shape)
        out = library.empty((r._structure.n, *r.item_shape), data.dtype, data)
        calculate("logsumexp_rows", library, layout, r._structure, (data,), (out,), width)
        y = _finished(library.astype(out, result), r._structure, empty, _LOWEST)
        if not back:
            return _over_levels(y, z), None
        differentiable(name, "a logsumexp")
        logs, shape = library.alias(out), _flow.hollow(z)

        def pullback(dy: Any) -> Any:
            slopes = library.astype(rows_or_data(dy), floats)
            dx = new_rows(library, layout, r.item_shape, data.dtype, data)
            calculate("spread_exp", library, layout, r._structure, (slopes, data, logs), (dx,), width)
            return in_layout(shape, library.astype(dx, name))

        return _over_levels(y, z), pullback

    return Call(own, rule, home, home_dx, _logsumexp_again)


def _logsumexp_again(x: Any, dy: Any) -> Any:
    """The gradient of logsumexp, made of operations that have gradients themselves."""
    shape = _flow.hollow(x)
    logs = rows_or_data(reduce_logsumexp(x))
    logs = logs.masked_fill(logs == _LOWEST, 0.0)  # a sequence of -inf alone has no slope
    slopes = combined(lambda a, b, c: c * (a - b).exp(), x, spread(logs, shape), spread(rows_or_data(dy), shape))
    return without_padding(slopes)


# --- the largest -----------------------------------------------------------------------------------------------------


def _extremes(x: Any, empty: Any, least: int) -> Call:
    own, home, home_dx = _door(x, empty)
    name = name_of(own)

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        values, places = _extreme(z, least, places=back)
        y = _over_levels(_finished(values, z._structure, empty, _ZERO), z)
        if not back:
            return y, None
        differentiable(name, "a maximum" if least == 0 else "a minimum")
        shape = _flow.hollow(z)
        each = np.arange(z._structure.n)
        return y, lambda dy: linear(
            lambda rows: _at_places(rows, places, shape), lambda dz: _picked(dz, places, each), rows_or_data(dy)
        )

    return Call(own, rule, home, home_dx)


def _extreme(x: Any, least: int, places: bool) -> tuple[Array, Array]:
    """The largest (least) items and, where asked for, their places, None elsewhere."""
    r, layout, library = ready(x)
    name = library.dtype_name(r.dtype)
    if name not in SUMS_IN or name.startswith("complex"):
        raise TypeError(f"items of dtype {name} have no order; those that have one: {', '.join(ORDERED)}")
    data = library.astype(r.data, "float32") if name in HALF else r.data
    shape = (r._structure.n, *r.item_shape)
    out = library.empty(shape, library.dtype(library.dtype_name(data.dtype)), data)  # in native byte order
    width = size_of(r.item_shape)
    calculate("max_rows", library, layout, r._structure, (data,), (out,), width, least)
    where = library.empty(shape, library.dtype("int64"), data) if places else None
    if places:
        calculate("find_rows", library, layout, r._structure, (data, out), (where,), width)
    return library.astype(out, name) if name in HALF else out, where


def _at_places(rows: Array, places: Array, shape: Any) -> Any:
    y = spread_at_once("spread_places", (rows, places), shape)
    if y is not None:
        return y
    library, layout = library_of(rows), layout_of(shape)
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    data = library.astype(rows, "float32" if name in HALF else name)
    out = new_rows(library, layout, item, data.dtype, data)
    calculate("spread_places", library, layout, shape._structure, (data, places), (out,), size_of(item))
    return in_layout(shape, library.astype(out, name))


def _picked(x: Any, places: Array, sequences: Array) -> Array:
    """Row j, column by column: the item at ``places[j]`` of sequence ``sequences[j]``, zero where that is -1."""
    r = convert(x, Ragged)
    library, item = library_of(r.data), r.item_shape
    width = size_of(item)
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


def _ends(x: Any, empty: Any, last: bool) -> Call:
    own, home, home_dx = _door(x, empty)

    def rule(z: Any, _: bool) -> tuple[Any, Any]:
        y = _ends_at_once[last](z)
        y = _over_levels(_finished(_end(z, last) if y is None else y, z._structure, empty, _ZERO), z)
        shape = _flow.hollow(z)

        def pullback(dy: Any) -> Any:
            rows = rows_or_data(dy)
            dx = placed_at_once("end_rows", rows, shape, int(last), 1, zeros=True)
            if dx is not None:
                return dx
            return linear(lambda rows: _at_end(rows, shape, last), lambda dz: _end(dz, last), rows)

        return y, pullback

    return Call(own, rule, home, home_dx)


def _end(x: Any, last: bool) -> Array:
    """``(n, *item)``: the first (last) item of every sequence, zeros for an empty one."""
    source = source_of(x)
    if source.starts is None:
        layout = layout_of(x)
    else:  # the addresses of a list's arrays
        layout = flat(source.structure)
        layout = layout._replace(arrays=(source.starts, *layout.arrays[1:]))
    out = source.library.empty((source.structure.n, *source.item_shape), source.like.dtype, source.like)
    _move_ends(source.library, layout, source.structure, source.data, out, source.row, last, 0)
    return out


def _at_end(rows: Array, shape: Any, last: bool) -> Any:
    library, layout, item = library_of(rows), layout_of(shape), tuple(rows.shape[1:])
    out = library.zeros((*layout.lead, *item), rows.dtype, rows)
    row = library.itemsize(rows.dtype) * size_of(item)
    _move_ends(library, layout, shape._structure, rows, out, row, last, 1)
    return in_layout(shape, out)


def _move_ends(
    library: Library, layout: Layout, structure: Structure, src: Any, out: Array, row: int, last: bool, back: int
) -> None:
    if row and structure.n:
        at = at_rows((*layout.arrays, *layout.numbers, int(type(src) is tuple)))
        work = Work(structure.n, structure.n)
        kernel("end_rows").start(library, (src,), (out,), (at, int(last), back), row, structure, work)


# --- what they share -------------------------------------------------------------------------------------------------


def _door(x: Any, empty: Any = _ZERO) -> tuple[Any, Any, Any]:
    """The batch as an encoding of this library, and the ways back of its result and of its gradient."""
    own, home, home_dx = single(x, "reduce x.one and x.two")
    _check_empty(own._structure, empty)
    if not isinstance(x, (list, tuple)):
        home = None
    return own, (lambda y: home(y) if isinstance(y, LoD) else y) if home else None, home_dx


def _over_levels(values: Array, x: Any) -> Any:
    return build_lod(values, x._levels[:-1]) if isinstance(x, LoD) and len(x.lod) > 1 else values


def rows_or_data(y: Any) -> Array:
    """The rows of a reduction: an array, or the data of a `LoD`."""
    return y.data if isinstance(y, LoD) else y


def _check_empty(structure: Structure, empty: Any) -> None:
    if empty is _ZERO or empty is _LOWEST:
        return
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

_BY_NAME: dict[str, Callable[[Any, Any], Call]] = {
    "sum": lambda x, empty: _sums(x, empty, _SUM),
    "mean": lambda x, empty: _sums(x, empty, _MEAN),
    "average": lambda x, empty: _sums(x, empty, _MEAN),
    "sqrt": lambda x, empty: _sums(x, empty, _SQRT),
    "max": lambda x, empty: _extremes(x, empty, 0),
    "min": lambda x, empty: _extremes(x, empty, 1),
    "first": lambda x, empty: _ends(x, empty, last=False),
    "last": lambda x, empty: _ends(x, empty, last=True),
    "logsumexp": _logsumexp,
}
