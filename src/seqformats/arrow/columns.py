"""`from_arrow` and `from_table`: columns of Arrow as batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import registry
from ..errors import BATCH, BROKEN, CHOICE, COLUMNS, KIND, SeqFormatError, again, quote
from ..formats import LoD, Ragged
from ..formats.annotations import Given
from .kinds import STRUCT, Column, DataType, kind_of, library
from .reading import EMPTY, RAISE, Part, Reader, join_parts


def from_arrow(column: Given, *, missing: str = "raise", items: object = "raise") -> Any:
    """A column of lists, of text or of bytes as a batch, over the memory of the column where that is possible.

    Parameters
    ----------
    column : an array or a chunked array of pyarrow, or whatever offers the Arrow PyCapsule interface
        (``__arrow_c_array__``, ``__arrow_c_stream__``): a series of polars or pandas, a column of duckdb, an array of
        nanoarrow, ...
    missing : "raise" or "empty"
        What null sequences are, on every level: an error, or sequences without items.  What a null list hides is not
        read.
    items : "raise" or a value
        What null items become: an error, or this value or item, which must be exact in their dtype.

    Returns
    -------
    Ragged
        For a column with one level: lists of items, or text and bytes, which are sequences of uint8.
    LoD
        For a column with more levels: lists in lists, or lists of text.

    Raises
    ------
    TypeError
        For what is no column, and for a column of anything else: plain numbers, structs, decimals.
    StructureError
        For nulls, and for offsets, sizes or buffers that do not fit each other.  It names the column, where it has a
        name, and the row.
    ConversionError
        For a value in `items` that the dtype cannot hold.
    ModuleNotFoundError
        If pyarrow is not installed.

    See Also
    --------
    to_arrow : The way back.
    from_table : Several columns.

    Notes
    -----
    Lists may be of any kind: list, large_list, list_view, large_list_view, fixed_size_list.  The outermost is a level,
    so a column of ``fixed_size_list<float>[3]`` has sequences of 3 items; within it a fixed_size_list of numbers is an
    item of that shape.  Extension types are read as what they are stored in, a fixed_shape_tensor by its shape,
    dictionaries as what they stand for.  Dates and timestamps become datetime64, in UTC; durations and times of a day
    timedelta64.  A list of no type has items of float64.

    Data is a read-only view of the column's memory, sliced or not, where its items lie in one chunk side by side and
    none is null.  Bools, dates in days and what is filled or lies elsewhere are copied, chunks are put together.
    Offsets and lengths of buffers are checked; the memory behind a PyCapsule has the size that its owner says.

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
    """Columns of a table, each as a batch, by their names.

    Parameters
    ----------
    table : a Table, a RecordBatch or a struct array of pyarrow, or whatever offers the Arrow PyCapsule interface
        A DataFrame of polars or pandas, a relation of duckdb, ...
    columns : names, optional
        Those to be read, in this order; all of them without it.
    missing, items : as `from_arrow` takes them

    Returns
    -------
    dict
        Columns of sequences become what `from_arrow` gives.  Plain numbers, labels say, become an array with one item a
        row; lists of one size and tensors of one shape, embeddings say, an array ``(n, *shape)``; structs a dict of
        their fields.

    Raises
    ------
    TypeError, StructureError, ConversionError
        As by `from_arrow`; the message begins with the name of the column.  StructureError too for a name that the
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
    """One column of a table: a batch, an array, or a dict of these."""
    kind = column.type
    try:
        if kind_of(kind).what == STRUCT:
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
    """A column of a table, but of structs: a batch, or an array of its rows; errors do not name it."""
    chunks, kind = _chunks(column)
    found = _read(chunks, kind, missing, items, shaped=True)
    return _batch(found) if found.levels else found.data


def _check_missing(missing: object) -> None:
    if not isinstance(missing, str):
        raise KIND(f'missing must be "raise" or "empty", not {quote(missing)}')
    if missing not in (RAISE, EMPTY):
        raise CHOICE(f'missing must be "raise" or "empty", not {quote(missing)}')


def _chunks(column: Given) -> tuple[Sequence[Column], DataType]:
    """The chunks of a column, and their type."""
    pa = library()
    if isinstance(column, pa.Array):
        return [column], column.type
    if not isinstance(column, pa.ChunkedArray):
        column = import_column(column)
    return column.chunks, column.type


def import_column(x: Given) -> Column:
    """The chunked array behind the PyCapsules of an object."""
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
    """A table of pyarrow."""
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
    """StructureError for structs whose fields are shorter than they say."""
    try:
        column.validate()
    except Exception as error:
        raise BROKEN(f"its structs are broken: {error}") from None


def _read(chunks: Sequence[Column], kind: DataType, missing: str, items: object, shaped: bool = False) -> Part:
    """Read chunks of one type; `shaped`: lists of one size are rows with a shape."""
    if not chunks:
        chunks = [library().array([], kind)]
    parts, before = [], 0
    for chunk in chunks:
        parts.append(Reader(missing, items, before, shaped).read(chunk))
        before += len(chunk)
    return join_parts(parts)


def _batch(part: Part) -> Ragged[Any] | LoD[Any]:
    """The encoding over levels and items."""
    if len(part.levels) == 1:
        return Ragged._freeze(part.data, part.levels[0])
    return LoD._over(part.data, tuple(part.levels))


def _name_column(error: Exception, name: str) -> Exception:
    """The error with the name of the column, where it has one."""
    return error if not name else again(error, f"column {name!r}: {error}")
