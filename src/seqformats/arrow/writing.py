"""`to_arrow`: batches as columns of Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library, adopt, is_array
from ..converters.convert import as_own, convert
from ..errors import BATCH, DTYPE, EXACT, KIND, LOST, SHAPE, quote
from ..formats import Pairs, Ragged
from ..formats.annotations import Given
from ..formats.structure import Structure, flag
from .kinds import (
    KIND_BYTE_VIEWS,
    KIND_BYTES,
    KIND_FIXED_BYTES,
    KIND_FIXED_LISTS,
    KIND_LIST_VIEWS,
    KIND_LISTS,
    Column,
    DataType,
    kind_of,
    library,
)

_MOST_INT32 = 2**31 - 1


def to_arrow(x: Given, *, large: bool = True, type: Any = None) -> Any:
    """A batch as a column of lists, over the memory of its data.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or an array ``(n, *item)``
        What a reduction gives is such an array: one item per row.
    large : bool
        Lists with offsets of 64 bits, ``large_list``; else of 32 bits, ``list``, where they fit.
    type : a type of pyarrow, optional
        What the column becomes in the end.  Text or bytes, ``pa.string()``, of sequences of uint8: of a batch with
        more levels it is the type of the innermost sequences.

    Returns
    -------
    pyarrow.Array
        Lists in lists where the batch has more levels; items with a shape as fixed_size_list.

    Raises
    ------
    TypeError
        If it is not a batch, for a dtype that Arrow does not have (complex numbers, bfloat16), and for a tensor that
        asks for a gradient.
    ConversionError
        For offsets that 32 bits cannot count, and for what `type` cannot hold, such as bytes that are no UTF-8.
    ModuleNotFoundError
        If pyarrow is not installed.

    See Also
    --------
    from_arrow : The way back.

    Notes
    -----
    Of `Ragged` and `LoD` nothing is copied but bools and times that Arrow counts otherwise, and, with ``large=False``,
    offsets; other encodings are converted to `Ragged` first.  What is on a GPU is copied to the host.  NaT becomes
    null.

    Every encoding offers the Arrow PyCapsule interface too, so ``pa.array(x)``, ``pl.Series(x)`` and others take it as
    it is.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> import pyarrow as pa
    >>> x = sf.Ragged(np.arange(3), [2, 0, 1])
    >>> sf.to_arrow(x).to_pylist()
    [[0, 1], [], [2]]
    >>> sf.to_arrow(sf.Ragged(np.frombuffer(b"abc", np.uint8), [1, 2]), type=pa.string()).to_pylist()
    ['a', 'bc']
    """
    flag(large, "large")
    pa = library()
    if type is not None and not isinstance(type, pa.DataType):
        raise KIND(f"type must be a type of pyarrow, not {quote(type)}")
    if isinstance(x, Pairs):
        raise BATCH("Pairs are two columns; give x.one and x.two")
    if is_array(x):
        rows, array = adopt(x, "x")
        if not array.shape:
            raise SHAPE("x must have the axes (n, *item), but is a single number")
        return _cast(_items(rows, array), type)
    own = as_own(x)
    flat: Any = own if own._flat else convert(own, Ragged)
    return _column(flat._look(), flat.data, flat._levels, bool(large), type)


def _column(rows: Library, data: Array, levels: tuple[Structure, ...], large: bool, type: DataType) -> Column:
    """Levels around items."""
    pa = library()
    text = None if type is None else _text(type)
    if text is not None and rows.dtype_name(data.dtype) == "uint8" and len(data.shape) == 1:
        inner = levels[-1]
        buffers = [None, pa.py_buffer(inner.offsets), pa.py_buffer(_host(rows, data))]
        made = _cast(pa.Array.from_buffers(pa.large_binary(), inner.n, buffers), text)
        levels = levels[:-1]
        if type == text:
            type = None
    else:
        made = _items(rows, data)
    for level in reversed(levels):
        made = _lists(level, made, large)
    return _cast(made, type)


def _lists(level: Structure, values: Column, large: bool) -> Column:
    """A level around what is in its sequences."""
    pa = library()
    offsets = level.offsets
    if not large:
        if level.rows > _MOST_INT32:
            raise EXACT(f"{level.rows} items are more than a list with offsets of 32 bits can count; give large=True")
        offsets = offsets.astype(np.int32)
    made = pa.large_list(values.type) if large else pa.list_(values.type)
    return pa.Array.from_buffers(made, level.n, [None, pa.py_buffer(offsets)], children=[values])


def _host(rows: Library, data: Array) -> Array:
    """Data as an array of NumPy of native byte order, over the same memory where that is on the host."""
    if rows.autograd and rows.wants_grad((data,)):
        raise LOST(f"an array of {rows.name} that asks for a gradient would lose it in Arrow; give data.detach()")
    host: Array = np.ascontiguousarray(rows.to_numpy(data)).reshape(data.shape)
    return host if host.dtype.isnative else host.astype(host.dtype.newbyteorder("="))


_PLAIN = {f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)} | {"float16", "float32", "float64"}
_INSTEAD = {
    "complex64": "the floats behind them, data.view(np.float32).reshape(..., 2), have a shape",
    "complex128": "the floats behind them, data.view(np.float64).reshape(..., 2), have a shape",
    "bfloat16": 'sf.astype(x, "float32") has the same values',
}


def _items(rows: Library, data: Array) -> Column:
    """The rows of an array, those with a shape as lists of one size."""
    pa = library()
    name = rows.dtype_name(data.dtype)
    kind = getattr(data.dtype, "kind", "")
    if name not in _PLAIN and name != "bool" and (rows is not NUMPY or kind not in "mMSU"):
        instead = _INSTEAD.get(name, "sf.astype(x, dtype) makes something else of them")
        raise DTYPE(f"Arrow has no items of {name}; {instead}")
    host = _host(rows, data)
    shape = host.shape
    flat = host.reshape(-1)
    if name in _PLAIN:
        made = pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), flat.size, [None, pa.py_buffer(flat)])
    elif name == "bool":
        bits = np.packbits(flat.view(np.uint8), bitorder="little")
        made = pa.Array.from_buffers(pa.bool_(), flat.size, [None, pa.py_buffer(bits)])
    elif kind in "mM":
        made = _times(flat)
    else:
        made = pa.array(flat)
    count = flat.size
    for axis in range(len(shape) - 1, 0, -1):
        count = int(np.prod(shape[:axis], dtype=np.int64))
        made = pa.Array.from_buffers(pa.list_(made.type, shape[axis]), count, [None], children=[made])
    return made


def _times(data: Array) -> Column:
    """Dates and times by the units that Arrow has."""
    pa = library()
    kind = data.dtype.kind
    unit, step = np.datetime_data(data.dtype)
    if unit == "generic" or (kind == "m" and unit in "YM"):
        raise DTYPE(f"Arrow has no items of {data.dtype}; sf.astype(x, '{kind}8[s]') counts seconds")
    null = np.isnat(data)
    if kind == "M" and unit in ("Y", "M", "W", "D"):
        days = data.astype("datetime64[D]").view(np.int64)
        inside = np.where(null, 0, days)
        if inside.size and (inside.min() < -(2**31) or inside.max() > _MOST_INT32):
            raise EXACT("a date is further away than the days of Arrow count; sf.astype(x, 'M8[s]') fits")
        numbers: Array = inside.astype(np.int32)
        type = pa.date32()
    else:
        if unit not in ("s", "ms", "us", "ns") or step != 1:
            finer = unit if unit in ("s", "ms", "us", "ns") else "s" if unit in "WDhm" else "ns"
            data, unit = data.astype(f"{kind}8[{finer}]"), finer
        numbers, type = data.view(np.int64), pa.timestamp(unit) if kind == "M" else pa.duration(unit)
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(type, numbers.size, [valid, pa.py_buffer(numbers)])


def _text(type: DataType) -> DataType | None:
    """The text or bytes within a type, None where it has none."""
    while True:
        what = kind_of(type).what
        if what in (KIND_LISTS, KIND_LIST_VIEWS, KIND_FIXED_LISTS):
            type = type.value_type
        else:
            return type if what in (KIND_BYTES, KIND_BYTE_VIEWS, KIND_FIXED_BYTES) else None


def _cast(column: Column, type: DataType) -> Column:
    """The column as one of this type; ConversionError where it holds what the type cannot."""
    if type is None or column.type == type:
        return column
    try:
        return column.cast(type)
    except Exception as error:  # by pyarrow, several kinds
        raise EXACT(f"a column of {column.type} does not fit {type}: {error}") from None


def to_capsules(x: object, requested_schema: Any = None) -> tuple[Any, Any]:
    """A batch by the Arrow PyCapsule interface, as the type that is requested where it can be that."""
    type = None
    if requested_schema is not None:
        type = library().DataType._import_from_c_capsule(requested_schema)
    capsules: tuple[Any, Any] = to_arrow(x, type=type).__arrow_c_array__()
    return capsules
