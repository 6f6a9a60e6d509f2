"""Rows of Apache Arrow: streams, columns, and files that are read a few rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..arrow import from_arrow
from ..arrow.columns import imported, rows_or_sequences
from ..errors import BROKEN, COLUMNS, MIXED, NULLS, SeqFormatError, StructureError, needed
from .rows import DICT, ONE, Rows, Wanted, objects

T = TypeVar("T")

_VALUES = 1 << 16
"""About how many values are read at a time, of all columns together."""
_ROWS = 1 << 14
"""How many rows at most."""
_BUFFER = 1 << 16  # bytes that are read of a column of a file at a time
_ARROW_FILES = (".arrow", ".feather", ".ipc")


# --- columns ---------------------------------------------------------------------------------------------------------


def column_of(column: Any, name: Hashable, wanted: Wanted, at: Rows) -> Any:
    """A column: lists as a batch, single values as an array; StructureError names the first row that is none."""
    pa = needed("pyarrow", "loaders")
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        column = imported(column)
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
        raise MIXED.of(kind, f"{place}: {error}") from error
    raise MIXED(f"{place}: it does not fit the rows before it")


def _values(column: Any, name: Hashable, wanted: Wanted, pa: Any) -> Any:
    if name is None or name in wanted.text:
        return from_arrow(column, missing=wanted.missing, items=wanted.items)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary"):
        column.validate(full=True)  # Arrow follows offsets without a look at them
        return objects(column.to_pylist())
    return rows_or_sequences(column, wanted.missing, wanted.items)


def _first_wrong(column: Any, name: Hashable, wanted: Wanted, pa: Any) -> int:
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


def _nulls(row: Any, pa: Any) -> str:
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


def _rows_of_batch(batch: Any, wanted: Wanted, start: int, origin: str) -> Rows:
    """A record batch."""
    rows = Rows(DICT, {}, batch.num_rows, start, origin)
    for name in wanted.names(batch.schema.names, rows.where()):
        rows.columns[name] = column_of(batch.column(name), name, wanted, rows._replace(columns={}))
    return rows


def _in_parts(batch: Any, wanted: Wanted, start: int, origin: str = "") -> Iterator[Rows]:
    """A record batch of any size, which is in memory, some rows at a time."""
    for at in range(0, batch.num_rows, _ROWS):
        yield _rows_of_batch(batch.slice(at, _ROWS), wanted, start + at, origin)


# --- streams ---------------------------------------------------------------------------------------------------------


def rows_of_stream(given: Any, wanted: Wanted, start: int = 0) -> Iterator[Rows]:
    """Anything that speaks Arrow's C interfaces: tables of any library, record batches, readers, columns."""
    pa = needed("pyarrow", "loaders")
    parts, alone = _opened(given, pa)
    if alone and wanted.columns is not None:
        raise COLUMNS(f"columns={wanted.columns!r}, but the source is a single column")
    while (part := _read(lambda: next(parts, None), "the source", start)) is not None:
        yield from (_column_in_parts if alone else _in_parts)(part, wanted, start)
        start += len(part)


def _column_in_parts(column: Any, wanted: Wanted, start: int) -> Iterator[Rows]:
    """A column of any length, whose rows are sequences."""
    for at in range(0, len(column), _ROWS):
        part = column.slice(at, _ROWS)
        rows = Rows(ONE, {}, len(part), start + at)
        rows.columns[None] = column_of(part, None, wanted, rows._replace(columns={}))
        yield rows


def _opened(given: Any, pa: Any) -> tuple[Iterator[Any], bool]:
    """The record batches of what speaks Arrow, or the chunks of what is a single column."""
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
        return iter(imported(given).chunks), True
    except (ValueError, TypeError) as error:  # of a capsule that is none
        raise BROKEN(f"{type(given).__name__} cannot be read as Arrow data: {error}") from error


# --- files -----------------------------------------------------------------------------------------------------------


def rows_of_files(path: str, wanted: Wanted) -> Iterator[Rows]:
    """A file or a folder of Parquet, or of Arrow's own format, which the names of the files tell apart."""
    files = _arrow_files(path)
    if files:
        for file in files:
            yield from _rows_of_arrow_file(file, wanted)
        return
    dataset = needed("pyarrow.dataset", "loaders")
    found = _read(lambda: dataset.dataset(path, format="parquet", partitioning="hive"), path, 0)
    yield from rows_of_file_set(found, wanted, whole=True)


def _arrow_files(path: str) -> list[Path]:
    """The files in Arrow's own format there."""
    if "://" in path:
        return []
    there = Path(path)
    files = sorted(there.rglob("*")) if there.is_dir() else [there]
    return [file for file in files if file.suffix in _ARROW_FILES]


def rows_of_file_set(given: Any, wanted: Wanted, whole: bool = False) -> Iterator[Rows]:
    """A `pyarrow.dataset.Dataset`; `whole`: there is nothing in it but whole files."""
    names = wanted.names(given.schema.names, "the source")
    filtered = (getattr(given, "_scan_options", None) or {}).get("filter") is not None
    if not filtered and type(getattr(given, "format", None)).__name__ == "ParquetFileFormat":
        for fragment in given.get_fragments():
            yield from _rows_of_parquet(fragment, given.schema, names, wanted, whole)
        return
    batches = iter(
        given.to_batches(columns=names, batch_size=_ROWS, batch_readahead=1, fragment_readahead=1, use_threads=False)
    )
    start = 0
    while (batch := _read(lambda: next(batches, None), "the source", start)) is not None:
        yield from _in_parts(batch, wanted, start)
        start += batch.num_rows


def _rows_of_parquet(fragment: Any, schema: Any, names: list[Hashable], wanted: Wanted, whole: bool) -> Iterator[Rows]:
    """A Parquet file, a few pages at a time: a group of rows may be larger than memory.

    A fragment keeps what it has been asked of its file, and the set keeps the fragments; so it is asked for nothing
    where the file says it too.
    """
    parquet, dataset = needed("pyarrow.parquet", "loaders"), needed("pyarrow.dataset", "loaders")
    path, start = fragment.path, 0
    constant = dataset.get_partition_keys(fragment.partition_expression)

    def opened() -> Any:
        return parquet.ParquetFile(path, filesystem=fragment.filesystem, pre_buffer=False, buffer_size=_BUFFER)

    with _read(opened, path, 0) as file:
        groups = None if whole else [group.id for group in fragment.row_groups]
        stored = [name for name in names if name not in constant]
        for name in stored:
            if name not in file.schema_arrow.names:
                raise COLUMNS(f"{path} has no column {name!r}, but others have")
        size = _rows_at_once(file.metadata, stored)
        batches = file.iter_batches(size, groups, stored, use_threads=False)
        while (batch := _read(lambda: next(batches, None), path, start)) is not None:
            for name in (name for name in names if name in constant):
                batch = batch.append_column(name, _repeated(constant[name], batch.num_rows, schema.field(name).type))
            yield _rows_of_batch(batch, wanted, start, f" of {path}")
            start += batch.num_rows


def _repeated(value: object, n: int, kind: Any) -> Any:
    """A column that the name of a folder says."""
    pa = needed("pyarrow", "loaders")
    return pa.repeat(pa.scalar(value, kind.value_type if pa.types.is_dictionary(kind) else kind), n)


def _rows_at_once(metadata: Any, names: list[Hashable]) -> int:
    """How many rows of a Parquet file have about so many values as are read at a time."""
    values = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(k) for k in range(group.num_columns))
        values += sum(column.num_values for column in columns if column.path_in_schema.partition(".")[0] in names)
    return int(min(_ROWS, max(1, _VALUES * metadata.num_rows // max(values, 1))))


def _rows_of_arrow_file(path: Path, wanted: Wanted) -> Iterator[Rows]:
    """A file in Arrow's own format, one that ends with an index or a stream, batch by batch."""
    pa = needed("pyarrow", "loaders")
    ipc = needed("pyarrow.ipc", "loaders")
    where, start = os.fspath(path), 0
    with pa.OSFile(where) as file:
        stream = file.read(6) != b"ARROW1"
        file.seek(0)
        reader = _read(lambda: (ipc.open_stream if stream else ipc.open_file)(file), where, 0)
        batches = iter(reader) if stream else (reader.get_batch(k) for k in range(reader.num_record_batches))
        while (batch := _read(lambda: next(batches, None), where, start)) is not None:
            yield from _in_parts(batch, wanted, start, f" of {where}")
            start += batch.num_rows


def _read(step: Callable[[], T], where: str, row: int) -> T:
    """The result of a step; StructureError for what cannot be read."""
    pa = needed("pyarrow", "loaders")
    try:
        return step()
    except (FileNotFoundError, PermissionError, MemoryError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BROKEN(f"{where} cannot be read from row {row} on: {error}") from error
