"""Rows of Apache Arrow: streams and columns, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeAlias, TypeVar

from ..arrays import Array
from ..arrow import from_arrow
from ..arrow.columns import import_column, rows_or_sequences
from ..errors import BROKEN, COLUMNS, MIXED, NULLS, SeqFormatError, StructureError, import_extra
from .rows import ROW_DICT, ROW_SEQUENCE, Rows, Wanted, objects

T = TypeVar("T")
Arrow: TypeAlias = Any  # pyarrow itself, which is imported where it is needed
ArrowData: TypeAlias = Any  # of pyarrow: a table, a record batch, a column, or what is known of them

MAX_ROWS_AT_ONCE = 1 << 14
"""Number of rows that are read at a time, at most."""
_TAKEN = 1 << 10
"""Number of rows of a table that are taken at a time where they are in another order."""


# --- columns ---------------------------------------------------------------------------------------------------------


def column_of(column: ArrowData, name: Hashable, wanted: Wanted, at: Rows) -> Any:
    """A column: lists as a batch, single values as an array; StructureError names the first row that is none."""
    pa = import_extra("pyarrow", "loaders")
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = import_column(column)
    try:
        return _values(column, name, wanted, pa)
    except (SeqFormatError, TypeError, pa.ArrowException):
        pass
    row = _first_wrong(column, name, wanted, pa)
    place = at._replace(size=len(column)).part(row, row + 1).where(name)
    try:
        _values(column.slice(row, 1), name, wanted, pa)
    except (SeqFormatError, TypeError, pa.ArrowException) as error:
        kind = type(error) if isinstance(error, SeqFormatError) else StructureError
        if kind is StructureError and (null := _nulls(column.slice(row, 1), pa)):
            raise NULLS(f"{place}: {null}") from error
        raise MIXED.as_error(kind, f"{place}: {error}") from error
    raise MIXED(f"{place}: it does not fit the rows before it")


def _values(column: ArrowData, name: Hashable, wanted: Wanted, pa: Arrow) -> Any:
    if name is None or name in wanted.text:
        return from_arrow(column, missing=wanted.missing, items=wanted.items)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary"):
        column.validate(full=True)  # Arrow follows offsets without a look at them
        return objects(column.to_pylist())
    return rows_or_sequences(column, wanted.missing, wanted.items)


def _first_wrong(column: ArrowData, name: Hashable, wanted: Wanted, pa: Arrow) -> int:
    """The row before which all is well."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _values(column.slice(0, middle), name, wanted, pa)
            good = middle
        except (SeqFormatError, TypeError, pa.ArrowException):
            bad = middle
    return good


def _nulls(row: ArrowData, pa: Arrow) -> str:
    """Describe what is null in a row, and what stands for it; "" where nothing is, and where the row is broken."""
    subject = "it"
    if isinstance(row, pa.ChunkedArray):
        row = next((chunk for chunk in row.chunks if len(chunk)), pa.nulls(0))
    while len(row):
        try:
            row.validate(full=True)  # Arrow follows offsets without a look at them
        except pa.ArrowException:
            return ""
        nested = pa.types.is_nested(row.type) and not pa.types.is_fixed_size_list(row.type)
        if row.null_count:
            if nested:
                subject = "it is null" if subject == "it" else "a sequence in it is null"
                return f'{subject}; missing="empty" makes such sequences empty'
            subject = "it is null" if subject == "it" else "an item in it is null"
            return f"{subject}; items=0, say, gives what such ones become"
        if pa.types.is_struct(row.type) or pa.types.is_map(row.type) or not hasattr(row, "flatten"):
            return ""  # no list: what is nested may be a union, or runs
        row, subject = row.flatten(), "in it"
    return ""


def rows_of_batch(batch: ArrowData, wanted: Wanted, start: int, origin: str) -> Rows:
    """A record batch."""
    rows = Rows(ROW_DICT, {}, batch.num_rows, start, origin)
    for name in wanted.names(batch.schema.names, rows.where()):
        rows.columns[name] = column_of(batch.column(name), name, wanted, rows._replace(columns={}))
    return rows


def in_parts(
    batch: ArrowData, wanted: Wanted, start: int, origin: str = "", size: int = MAX_ROWS_AT_ONCE
) -> Iterator[Rows]:
    """A record batch of any size, which is in memory, some rows at a time."""
    for at in range(0, batch.num_rows, size):
        yield rows_of_batch(batch.slice(at, size), wanted, start + at, origin)


# --- streams ---------------------------------------------------------------------------------------------------------


def rows_of_stream(given: ArrowData, wanted: Wanted, start: int = 0) -> Iterator[Rows]:
    """Anything that speaks Arrow's C interfaces: tables of any library, record batches, readers, columns."""
    parts, alone = _open(given, wanted)
    while (part := read_step(lambda: next(parts, None), "the source", start)) is not None:
        yield from (_column_in_parts if alone else in_parts)(part, wanted, start)
        start += len(part)


def rows_of_table(given: ArrowData, wanted: Wanted, order: Array) -> Iterator[Rows]:
    """Rows of a table or a column in memory, in an order."""
    pa = import_extra("pyarrow", "loaders")
    parts, alone = _open(given, wanted)
    chunks = list(parts)
    if not chunks:
        return
    whole = pa.chunked_array(chunks) if alone else pa.Table.from_batches(chunks)
    for at in range(0, order.size, _TAKEN):
        found = whole.take(order[at : at + _TAKEN]).combine_chunks()
        batch = pa.chunked_array([found]) if alone and not isinstance(found, pa.ChunkedArray) else found
        yield from rows_of_stream(batch, wanted, at)


def _column_in_parts(column: ArrowData, wanted: Wanted, start: int) -> Iterator[Rows]:
    """A column of any length, whose rows are sequences."""
    for at in range(0, len(column), MAX_ROWS_AT_ONCE):
        part = column.slice(at, MAX_ROWS_AT_ONCE)
        rows = Rows(ROW_SEQUENCE, {}, len(part), start + at)
        rows.columns[None] = column_of(part, None, wanted, rows._replace(columns={}))
        yield rows


def _open(given: object, wanted: Wanted) -> tuple[Iterator[Any], bool]:
    """The record batches of what speaks Arrow, or the chunks of what is a single column."""
    pa = import_extra("pyarrow", "loaders")
    parts, alone = _batches_or_chunks(given, pa)
    if alone and wanted.columns is not None:
        raise COLUMNS(f"columns={wanted.columns!r}, but the source is a single column")
    return parts, alone


def _batches_or_chunks(given: ArrowData, pa: Arrow) -> tuple[Iterator[Any], bool]:
    if isinstance(given, pa.RecordBatch):
        return iter([given]), False
    stream = hasattr(given, "__arrow_c_stream__")
    if isinstance(given, (pa.Array, pa.ChunkedArray)):
        return iter(given.chunks if stream else [given]), True
    try:
        if stream:
            return iter(pa.RecordBatchReader.from_stream(given)), False
        return iter([pa.record_batch(given)]), False
    except pa.ArrowInvalid:  # it has no columns, so it is one
        return iter(import_column(given).chunks), True
    except (ValueError, TypeError) as error:  # of a capsule that is none
        raise BROKEN(f"{type(given).__name__} cannot be read as Arrow data: {error}") from error


def read_step(step: Callable[[], T], where: str, row: int) -> T:
    """The result of a step; StructureError for what cannot be read."""
    pa = import_extra("pyarrow", "loaders")
    try:
        return step()
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BROKEN(f"{where} cannot be read from row {row} on: {error}") from error
