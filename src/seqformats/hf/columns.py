"""Features as datasets and tokenizers give them, as columns: the rows of each, together in one batch or one array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from ..arrays import Array, is_array, is_array_type, library_of
from ..arrow import from_arrow
from ..converters.convert import convert
from ..errors import (
    COLUMNS,
    DTYPE,
    EMPTY,
    KIND,
    LEAVES,
    NULLS,
    OVERFLOW,
    UNLIKE,
    WHOLE,
    SeqFormatError,
    StructureError,
    again,
    import_extra,
    quote,
)
from ..formats import Encoding, LoD, Ragged
from ..formats.annotations import Given
from ..formats.structure import MAX_INT64

T = TypeVar("T")


def columns_of(features: Given, main: str) -> dict[str, Any]:
    """Each column under its name: a list with one value per row, an array, or a batch.

    `features` are rows (a list of dicts), columns (a dict, or a table of Arrow), or of one column alone, which is
    then called `main`: a batch, or a list with one list, array or tensor a row.
    """
    if isinstance(features, Mapping):
        columns = {name: arrow_column(name, column, text=False) for name, column in features.items()}
        return {name: column for name, column in columns.items() if column is not None}
    if is_table(features):
        return {name: arrow_column(name, features.column(name), text=False) for name in _names(features)}
    if isinstance(features, Encoding) or is_array(features):
        return {main: features}
    if not isinstance(features, (list, tuple)):
        raise KIND(
            f"features must be a list of dicts, a dict of columns or a table of Arrow, not {type(features).__name__}"
        )
    if not features:
        raise EMPTY("there are no features, and so no columns; a batch has one at least")
    first = features[0]
    if isinstance(first, Mapping):
        return {name: _gather(name, features) for name in first} if _alike(features) else {}
    if is_table(first):
        pa = import_extra("pyarrow", "hf")
        return columns_of(pa.concat_tables([pa.table(part) for part in features]), main)
    return {main: list(features)}


def is_table(x: object) -> bool:
    """Tell whether it is a table or a record batch of Arrow."""
    return hasattr(x, "__arrow_c_stream__") and hasattr(x, "column") and hasattr(x, "schema")


def _names(table: Given) -> list[str]:
    names: list[str] = table.schema.names
    return names


def _alike(features: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether all rows have the columns of the first.  An error where one has not."""
    first = features[0]
    if not all(issubclass(kind, Mapping) for kind in set(map(type, features))):
        i = next(i for i, row in enumerate(features) if not isinstance(row, Mapping))
        raise KIND(f"row {i} is {quote(features[i])}, but row 0 is a dict of columns")
    for i, row in enumerate(features):
        if len(row) != len(first) or (i and row.keys() != first.keys()):
            other = set(row.keys()) ^ set(first.keys())
            raise COLUMNS(f"row {i} and row 0 have different columns: {quote(sorted(map(str, other)))} differ")
    return True


def _gather(name: str, features: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The values of a column; None where all are."""
    values = list(map(itemgetter(name), features))
    return None if values[0] is None and all(value is None for value in values) else values


def arrow_column(name: str, column: Given, text: bool = True) -> Any:
    """A column of Arrow as a batch of its lists, or as an array of its numbers; anything else as it is.

    Text is an error where it is not wanted: as a batch it would be one of bytes.
    An array of objects, which datasets make of rows of different lengths, becomes a list.
    """
    if isinstance(column, np.ndarray) and column.dtype.hasobject:
        return list(column)
    if not (hasattr(column, "type") and (hasattr(column, "__arrow_c_array__") or hasattr(column, "num_chunks"))):
        return column
    pa = import_extra("pyarrow", "hf")
    leaf = column.type
    while hasattr(leaf, "value_type") and not pa.types.is_dictionary(leaf):
        leaf = leaf.value_type
    if not (text or pa.types.is_primitive(leaf)):
        raise LEAVES(f"column {name!r} holds {leaf}, which no tensor does; tokenize it, or leave the column out")
    if pa.types.is_primitive(column.type):
        if column.null_count:
            raise NULLS(f"column {name!r} has {column.null_count} nulls, which no number stands for")
        return column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return name_errors(name, lambda: from_arrow(column))


def name_errors(name: str, read: Callable[[], T]) -> T:
    """Call `read`; its errors name the column."""
    try:
        return read()
    except (SeqFormatError, TypeError) as error:
        if f"column {name!r}" in str(error):
            raise
        raise again(error, f"column {name!r}: {error}") from None


def sequences(name: str, values: Given) -> Ragged[Array]:
    """A column with a sequence per row, its items in NumPy; StructureError or TypeError, which name the column."""
    if isinstance(values, list):
        _check_rows(name, values)
        if values and isinstance(values[0], Encoding):
            values = [convert(row, Ragged).data for row in values]
    if is_array(values):
        library = library_of(values)
        data = library.to_numpy(values)
        if data.ndim < 2:
            raise COLUMNS(f"column {name!r} must hold sequences, but is an array of shape {data.shape}")
        n, width = data.shape[:2]
        return Ragged(data.reshape(n * width, *data.shape[2:]), [width] * n)
    x = name_errors(name, lambda: _read(values))
    if len(x.lod) > 1:  # what is one level deeper, and has one length, are items with a shape
        inner = np.diff(x.lod[-1])
        size = int(inner[0]) if inner.size else 0
        if len(x.lod) > 2 or x.item_shape or (inner != size).any():
            raise COLUMNS(f"column {name!r} must hold one sequence per row, but holds {len(x.lod)} levels")
        shaped = _host(x.data).reshape(inner.size, size) if inner.size else _host(x.data)
        return Ragged.from_offsets(shaped, x.lod[0])
    return Ragged._freeze(_host(x.data), x._structure)


def _read(values: Given) -> LoD:
    if not isinstance(values, (list, tuple)):
        return convert(values, LoD)
    try:
        return LoD.from_nested(values)
    except StructureError:
        found = next((row for row in values if is_array(row) and len(row)), None)
        if found is None or all(map(len, values)):
            raise
        return LoD.from_nested([row if len(row) else found[:0] for row in values])  # no items, and so of any dtype


def _host(data: Given) -> Array:
    return data if type(data) is np.ndarray else library_of(data).to_numpy(data)


def _check_rows(name: str, values: Sequence[Any]) -> None:
    kinds = set(map(type, values))
    if not kinds & {str, bytes, type(None), dict}:
        return
    for i, value in enumerate(values):
        if value is None:
            raise NULLS(f"column {name!r}: row {i} is None, but others are not")
        if isinstance(value, (str, bytes, dict)):
            raise DTYPE(
                f"column {name!r} holds {type(value).__name__} (row {i} is {quote(value)}), which no tensor does; "
                "tokenize it, or leave the column out"
            )


def is_sequences(values: Given) -> bool:
    """Tell whether a column holds a sequence per row, and not a number."""
    if isinstance(values, Encoding):
        return True
    rows = isinstance(values, (list, tuple))
    if rows and not values:
        return False
    first, at_least = (values[0], 1) if rows else (values, 2)
    return isinstance(first, (list, tuple, Encoding)) or (is_array(first) and len(first.shape) >= at_least)


def stack(name: str, values: Given) -> Array:
    """A column as one new array, ``(n, ...)``, integers in int64; StructureError where rows have different shapes."""
    if isinstance(values, Encoding):
        found = _stacked_batch(name, values)
    elif is_array(values):
        found = np.array(_host(values))
    else:
        if isinstance(values, list):
            _check_rows(name, values)
            if values and is_array_type(type(values[0])) and type(values[0]) is not np.ndarray:
                values = [library_of(value).to_numpy(value) for value in values]
        try:
            found = np.array(values)
        except ValueError:
            raise UNLIKE(_unequal(name, values)) from None
    if found.dtype.kind not in "biuf":
        _check_rows(name, list(values))
        raise DTYPE(f"column {name!r} must hold numbers, not {found.dtype}")
    return found.astype(np.int64, copy=False) if found.dtype.kind in "iu" else found


def _stacked_batch(name: str, values: Encoding) -> Array:
    x = sequences(name, values)
    if x.lengths.size and (x.lengths != x.lengths[0]).any():
        raise UNLIKE(_unequal(name, x.lengths))
    return np.array(x.data.reshape(len(x), x.max_length, *x.item_shape))


def _unequal(name: str, rows: Iterable[Any]) -> str:
    lengths = [row if isinstance(row, (int, np.integer)) else np.shape(row)[:1] for row in _size(rows)]
    other = next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)
    return (
        f"column {name!r} has rows of different lengths (row {other} and row 0); if it has one number per token, "
        f"say what pads it: fills={{{name!r}: 0}}"
    )


def _size(rows: Iterable[Any]) -> list[Any]:
    return [len(row) if hasattr(row, "__len__") and not isinstance(row, np.ndarray) else row for row in rows]


def whole_numbers(name: str, x: Ragged[Array], item: tuple[int, ...] | None = None) -> Ragged[Array]:
    """Return a column of integers or bools as int64.

    TypeError for another dtype unless the column is empty; StructureError for numbers that do not fit, and where items
    are not of the shape `item`.
    """
    data = x.data
    if item is not None and x.item_shape != item:
        raise COLUMNS(f"column {name!r} must hold one sequence per row, items of shape {item}, not {x.item_shape}")
    if data.dtype == np.int64:
        return x
    if data.dtype.kind not in "iub" and data.size:
        raise WHOLE(f"column {name!r} must hold integers, but has dtype {data.dtype}")
    if data.dtype == np.uint64 and data.size and int(data.max()) > MAX_INT64:
        raise OVERFLOW(f"column {name!r} must fit int64, but one of its numbers does not")
    return x._with_data(data.astype(np.int64))


def check_beside(name: str, x: Ragged[Array], main: str, ids: Ragged[Array], hint: str = "") -> None:
    """StructureError unless the column has one item per token."""
    if x._structure.same_lengths(ids._structure):
        return
    if len(x) != len(ids):
        raise COLUMNS(f"column {name!r} has {len(x)} rows, but {main!r} has {len(ids)}")
    i = int((x.lengths != ids.lengths).argmax())
    raise COLUMNS(f"column {name!r}: row {i} has {x.lengths[i]} items, but {main!r} has {ids.lengths[i]} there{hint}")
