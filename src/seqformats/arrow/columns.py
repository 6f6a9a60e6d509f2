"""`from_arrow` and `from_table`: columns of Arrow as batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import registry
from ..errors import BATCH, BROKEN, CHOICE, COLUMNS, KIND, SeqFormatError, again, quote
from ..formats import LoD, Ragged
from ..formats.annotations import Given
from .kinds import KIND_STRUCT, Column, DataType, kind_of, library
from .reading import MISSING_EMPTY, MISSING_RAISE, Part, Reader, join_parts


def from_arrow(column: Given, *, missing: str = "raise", items: object = "raise") -> Any:
    """Read a column of lists, text or bytes as a batch, over the memory of the column if possible.

    Parameters
    ----------
    column : an array or a chunked array of pyarrow, or any object with the Arrow PyCapsule interface
        (``__arrow_c_array__``, ``__arrow_c_stream__``): a series of polars or pandas, a column of duckdb, an array of
        nanoarrow, ...
    missing : "raise" or "empty"
        For null sequences on any level: an error, or sequences without items.  Values behind a null are not read.
    items : "raise" or a value
        For null items: an error, or this value or item, which must be exact in the dtype of the column.

    Returns
    -------
    Ragged
        For a column with one level: lists of items; or text or bytes, each a sequence of uint8.
    LoD
        For a column with more levels: lists in lists, or lists of text.

    Raises
    ------
    TypeError
        If `column` is no column, or one without sequences: of plain numbers, structs, decimals.
    StructureError
        If there are nulls, or if offsets, sizes or buffers do not fit each other.  The message names the column, if it
        has a name, and the row.
    ConversionError
        If the dtype cannot hold the value of `items`.
    ModuleNotFoundError
        If pyarrow is not installed.

    See Also
    --------
    to_arrow : The way back.
    from_table : Several columns.

    Notes
    -----
    Lists may be of any kind: list, large_list, list_view, large_list_view, fixed_size_list.  The outermost list is
    always a level, so a column of ``fixed_size_list<float>[3]`` has sequences of 3 items; a fixed_size_list of numbers
    within another list is an item of that shape.  Extension types are read as their storage, a fixed_shape_tensor by
    its shape, and dictionaries as their values.  Dates and timestamps become datetime64, in UTC; durations and times of
    a day timedelta64.  The items of a list without a type are float64.

    Data is a read-only view of the column's memory, sliced or not, if its items lie side by side in one chunk and none
    is null.  Otherwise it is a copy, as for bools, dates in days, filled nulls and several chunks.  Offsets and lengths
    of buffers are checked; for memory behind a PyCapsule the size that its owner gives is believed.

    Examples
    --------
    >>> import seqformats as sf
    >>> import pyarrow as pa
    >>> sf.from_arrow(pa.array([[1, 2], [], [3]]))
    Ragged(shape (3,), int64, cpu, 3 sequences of lengths [2, 0, 1])
    >>> sf.from_arrow(pa.array([[1, None], None]), missing="empty", items=0).to_nested()
    [[1, 0], []]
    >>> sf.from_arrow(pa.array([["a", "bc"], ["d"]])).lengths()
    [[2, 1], [1, 2, 1]]
    """
    _check_missing(missing)
    given = column
    try:
        chunks, kind = _chunks(column)
        found = _read(chunks, kind, missing, items)
        if not found.levels:
            raise KIND(
                f"a column of {kind} has one item per row, and no sequences; from_table gives it as an array, "
                "sf.Ragged(rows, lengths) makes sequences of its rows"
            )
        return _batch(found)
    except (SeqFormatError, TypeError) as error:
        name = getattr(given, "name", None)
        raise _name_column(error, name if isinstance(name, str) else "") from None


def from_table(
    table: Given, columns: str | Iterable[str] | None = None, *, missing: str = "raise", items: object = "raise"
) -> dict[str, Any]:
    """Read columns of a table, each as a batch, into a dict by their names.

    Parameters
    ----------
    table : a Table, a RecordBatch or a struct array of pyarrow, or any object with the Arrow PyCapsule interface
        A DataFrame of polars or pandas, a relation of duckdb, ...
    columns : names, optional
        The columns to read, in this order; by default all.
    missing, items
        See `from_arrow`.

    Returns
    -------
    dict
        A column of sequences becomes a batch as by `from_arrow`.  Plain numbers, such as labels, become an array with
        one item per row; lists of one size and tensors of one shape, such as embeddings, an array ``(n, *shape)``;
        structs a dict of their fields.

    Raises
    ------
    TypeError, StructureError, ConversionError
        As for `from_arrow`; the message begins with the name of the column.  StructureError also for a name that the
        table does not have, or has twice.

    See Also
    --------
    from_arrow : One column.

    Examples
    --------
    >>> import seqformats as sf
    >>> import pyarrow as pa
    >>> found = sf.from_table(pa.table({"ids": [[1, 2], [3]], "label": [0, 1]}))
    >>> found["ids"].to_nested(), found["label"]
    ([[1, 2], [3]], array([0, 1]))
    """
    _check_missing(missing)
    table = _table(table)
    names = table.column_names
    if columns is None:
        wanted = names
    else:
        try:
            wanted = [columns] if isinstance(columns, str) else list(columns)
        except TypeError:
            raise KIND(f"columns must be names, not {quote(columns)}") from None
    found: dict[str, Any] = {}
    for name in wanted:
        if not isinstance(name, str):
            raise KIND(f"columns must be names, not {quote(name)}")
        if names.count(name) != 1:
            have = f"has {names.count(name)} columns" if name in names else "has no column"
            raise COLUMNS(f"the table {have} {name!r}; its columns are: {', '.join(names)}")
        found[name] = _column(table.column(name), name, missing, items)
    return found


def _column(column: Column, name: str, missing: str, items: object) -> Any:
    """Read one column of a table: a batch, an array, or a dict of these."""
    kind = column.type
    try:
        if kind_of(kind).what == KIND_STRUCT:
            _check_structs(column)
        else:
            return rows_or_sequences(column, missing, items)
    except (SeqFormatError, TypeError) as error:
        raise _name_column(error, name) from None
    return {
        field.name: _column(inner, f"{name}.{field.name}", missing, items)
        for field, inner in zip(kind, column.flatten(), strict=True)
    }


def rows_or_sequences(column: Column, missing: str, items: object) -> Any:
    """Read a column that has no structs: a batch, or an array of its rows; messages do not name it."""
    chunks, kind = _chunks(column)
    found = _read(chunks, kind, missing, items, shaped=True)
    return _batch(found) if found.levels else found.data


def _check_missing(missing: object) -> None:
    if not isinstance(missing, str):
        raise KIND(f'missing must be "raise" or "empty", not {quote(missing)}')
    if missing not in (MISSING_RAISE, MISSING_EMPTY):
        raise CHOICE(f'missing must be "raise" or "empty", not {quote(missing)}')


def _chunks(column: Given) -> tuple[Sequence[Column], DataType]:
    """Return the chunks of a column, and their type."""
    pa = library()
    if isinstance(column, pa.Array):
        return [column], column.type
    if not isinstance(column, pa.ChunkedArray):
        column = import_column(column)
    return column.chunks, column.type


def import_column(x: Given) -> Column:
    """Read an object with PyCapsules as a chunked array."""
    pa = library()
    if isinstance(x, (type, pa.Table, pa.RecordBatch)):
        raise BATCH(f"{registry.label(type(x))} is no column; from_table reads the columns of a table")
    try:
        if hasattr(x, "__arrow_c_stream__"):
            return pa.chunked_array(x)
        if hasattr(x, "__arrow_c_array__"):
            return pa.chunked_array([pa.array(x)])
    except Exception as error:  # foreign code may raise anything
        mistake = BROKEN if isinstance(error, ValueError) else BATCH
        raise mistake(f"{registry.label(type(x))} cannot be read as a column: {error}") from None
    raise BATCH(
        f"{registry.label(type(x))} is no column of Arrow; what has __arrow_c_array__ or __arrow_c_stream__ is one, "
        "and pa.array(...) makes one of lists"
    )


def _table(x: Given) -> Any:
    """Read an object as a table of pyarrow."""
    pa = library()
    if isinstance(x, pa.Table):
        return x
    try:
        if isinstance(x, pa.RecordBatch):
            return pa.Table.from_batches([x])
        if hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__") or isinstance(x, dict):
            return pa.table(x)
    except Exception as error:  # foreign code may raise anything
        mistake = BROKEN if isinstance(error, ValueError) else BATCH
        raise mistake(f"{registry.label(type(x))} cannot be read as a table: {error}") from None
    raise BATCH(
        f"{registry.label(type(x))} is no table of Arrow; what has __arrow_c_stream__ is one, "
        "and pa.table(...) makes one"
    )


def _check_structs(column: Column) -> None:
    """Raise StructureError if the fields of structs are shorter than the structs say."""
    try:
        column.validate()
    except Exception as error:
        raise BROKEN(f"its structs are broken: {error}") from None


def _read(chunks: Sequence[Column], kind: DataType, missing: str, items: object, shaped: bool = False) -> Part:
    """Read chunks of one type; with `shaped`, lists of one size are rows of that shape."""
    if not chunks:
        chunks = [library().array([], kind)]
    parts, before = [], 0
    for chunk in chunks:
        parts.append(Reader(missing, items, before, shaped).read(chunk))
        before += len(chunk)
    return join_parts(parts)


def _batch(part: Part) -> Ragged[Any] | LoD[Any]:
    """Make the encoding of levels and items."""
    if len(part.levels) == 1:
        return Ragged._freeze(part.data, part.levels[0])
    return LoD._from_levels(part.data, tuple(part.levels))


def _name_column(error: Exception, name: str) -> Exception:
    """Put the name of the column, if it has one, before the message of an error."""
    return error if not name else again(error, f"column {name!r}: {error}")
