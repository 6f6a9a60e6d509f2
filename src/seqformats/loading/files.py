"""Rows of files: of Parquet, and of Arrow's own format, from any row on and in a shuffled order."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import CHANGED, COLUMNS, import_extra
from ..formats.annotations import Given
from .arrow_rows import MAX_ROWS_AT_ONCE, ArrowData, in_parts, read_step, rows_of_batch
from .parts import MAX_RUN_ROWS, Part, Seed, Segment, mix, skip_rows
from .rows import Rows, Wanted

_VALUES = 1 << 16
"""About how many values are read at a time, of all columns together."""
_BUFFER = 1 << 16  # bytes that are read of a column of a file at a time
_END = 1 << 16  # bytes at the end of a file, where both formats say what is in it
_ARROW_FILES = (".arrow", ".feather", ".ipc")


class Files:
    """Files whose rows follow one another; `find` lists them anew for each iteration."""

    def __init__(self, find: Callable[[], Sequence[ParquetFile | ArrowFile]]) -> None:
        self.find = find

    def read(self) -> Iterator[Rows]:
        """Yield the rows in the order of the files."""
        for file in self.find():
            yield from file.read()

    def read_from(self, row: int) -> Iterator[Rows]:
        """Yield the rows from one on; files before it are only asked how many they have."""
        for file in self.find():
            if not row:
                yield from file.read()
                continue
            part = file.part()
            yield from part.read(skip_rows(part.in_order(), row))
            row = max(0, row - part.rows)

    def read_mixed(self, seed: Seed, row: int) -> Iterator[Rows]:
        """Yield the rows in the order of a seed, from one on."""
        return mix([file.part() for file in self.find()], seed, row)

    def seal(self) -> int:
        """A number that differs where files have other names, another size or another end."""
        number = 0
        for file in self.find():
            with file.open_file() as stream:
                size = stream.size()
                stream.seek(max(0, size - _END))
                words = repr((Path(file.path).name, size)).encode()
                number = zlib.crc32(stream.read(_END), zlib.crc32(words, number))
        return number


def files_at(path: str, wanted: Wanted) -> Sequence[ParquetFile | ArrowFile]:
    """A file or a folder of Parquet, or of Arrow's own format, which the names of the files tell apart."""
    own = _arrow_files(path)
    if own:
        return [ArrowFile(file, wanted) for file in own]
    dataset = import_extra("pyarrow.dataset", "loaders")
    found = read_step(lambda: dataset.dataset(path, format="parquet", partitioning="hive"), path, 0)
    return files_of(found, wanted, whole=True)


def _arrow_files(path: str) -> list[str]:
    """The files in Arrow's own format there."""
    if "://" in path:
        return []
    there = Path(path)
    files = sorted(there.rglob("*")) if there.is_dir() else [there]
    return [os.fspath(file) for file in files if file.suffix in _ARROW_FILES]


def is_parquet(given: object) -> bool:
    """Tell whether a `pyarrow.dataset.Dataset` is made of Parquet files, without a filter."""
    filtered = (getattr(given, "_scan_options", None) or {}).get("filter") is not None
    return not filtered and type(getattr(given, "format", None)).__name__ == "ParquetFileFormat"


def files_of(given: Given, wanted: Wanted, whole: bool = False) -> Sequence[ParquetFile]:
    """The files of a `pyarrow.dataset.Dataset` of Parquet; `whole`: there is nothing in it but whole files."""
    names = wanted.names(given.schema.names, "the source")
    return [ParquetFile(fragment, given.schema, names, wanted, whole) for fragment in given.get_fragments()]


def rows_of_scan(given: Given, wanted: Wanted) -> Iterator[Rows]:
    """A `pyarrow.dataset.Dataset` of any files, filtered or not."""
    names = wanted.names(given.schema.names, "the source")
    batches = iter(
        given.to_batches(
            columns=names, batch_size=MAX_ROWS_AT_ONCE, batch_readahead=1, fragment_readahead=1, use_threads=False
        )
    )
    start = 0
    while (batch := read_step(lambda: next(batches, None), "the source", start)) is not None:
        yield from in_parts(batch, wanted, start)
        start += batch.num_rows


class ParquetFile:
    """A Parquet file, which is read a few pages at a time: a group of rows may be larger than memory.

    A fragment keeps what it has been asked of its file, and the set keeps the fragments; so it is asked for nothing
    where the file says it too.
    """

    def __init__(
        self, fragment: ArrowData, schema: ArrowData, names: list[Hashable], wanted: Wanted, whole: bool
    ) -> None:
        self.fragment, self.schema, self.names, self.wanted = fragment, schema, names, wanted
        self.path: str = fragment.path
        self.constant = import_extra("pyarrow.dataset", "loaders").get_partition_keys(fragment.partition_expression)
        self.stored = [name for name in names if name not in self.constant]
        self.whole = whole

    def open_file(self) -> Any:
        """Open the bytes of the file."""
        return self.fragment.filesystem.open_input_file(self.path)

    def _open(self) -> Any:
        parquet = import_extra("pyarrow.parquet", "loaders")

        def step() -> Any:
            return parquet.ParquetFile(
                self.path, filesystem=self.fragment.filesystem, pre_buffer=False, buffer_size=_BUFFER
            )

        return read_step(step, self.path, 0)

    def _groups(self, metadata: ArrowData) -> list[int]:
        """The numbers of the groups of rows that belong to the source."""
        if self.whole:
            return list(range(metadata.num_row_groups))
        return [group.id for group in self.fragment.row_groups]

    def part(self) -> Part:
        """The groups of rows of the file."""
        with self._open() as file:
            metadata = file.metadata
            rows = tuple(metadata.row_group(number).num_rows for number in self._groups(metadata))
            run = min(MAX_RUN_ROWS, _rows_at_once(metadata, self.stored))
        return Part(self.path, rows, run, lambda segments: self._segments(segments, rows, run))

    def read(self) -> Iterator[Rows]:
        """Yield all its rows."""
        with self._open() as file:
            self._check(file)
            groups = None if self.whole else self._groups(file.metadata)
            size = _rows_at_once(file.metadata, self.stored)
            yield from self._batches(file.iter_batches(size, groups, self.stored, use_threads=False), 0)

    def _segments(self, segments: Sequence[Segment], rows: tuple[int, ...], run: int) -> Iterator[Rows]:
        with self._open() as file:
            self._check(file)
            groups = self._groups(file.metadata)
            if tuple(file.metadata.row_group(number).num_rows for number in groups) != rows:
                raise CHANGED(f"{self.path} has other rows than it had when it was opened")
            for group, start, stop in segments:
                batches = file.iter_batches(run, [groups[group]], self.stored, use_threads=False)
                yield from self._batches(_cut_batches(batches, start, stop), sum(rows[:group]) + start)

    def _check(self, file: ArrowData) -> None:
        for name in self.stored:
            if name not in file.schema_arrow.names:
                raise COLUMNS(f"{self.path} has no column {name!r}, but others have")

    def _batches(self, batches: Iterator[Any], start: int) -> Iterator[Rows]:
        while (batch := read_step(lambda: next(batches, None), self.path, start)) is not None:
            for name in (name for name in self.names if name in self.constant):
                column = _repeat(self.constant[name], batch.num_rows, self.schema.field(name).type)
                batch = batch.append_column(name, column)
            yield rows_of_batch(batch, self.wanted, start, f" of {self.path}")
            start += batch.num_rows


def _cut_batches(batches: Iterator[Any], start: int, stop: int) -> Iterator[Any]:
    """The rows of record batches from one to another."""
    at = 0
    while at < stop and (batch := next(batches, None)) is not None:
        first, last = max(start - at, 0), min(stop - at, batch.num_rows)
        at += batch.num_rows
        if first < last:
            yield batch.slice(first, last - first)


def _repeat(value: object, n: int, kind: ArrowData) -> Any:
    """A column that the name of a folder says."""
    pa = import_extra("pyarrow", "loaders")
    return pa.repeat(pa.scalar(value, kind.value_type if pa.types.is_dictionary(kind) else kind), n)


def _rows_at_once(metadata: ArrowData, names: list[Hashable]) -> int:
    """Count the rows of a Parquet file that have about so many values as are read at a time."""
    values = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(k) for k in range(group.num_columns))
        values += sum(column.num_values for column in columns if column.path_in_schema.partition(".")[0] in names)
    return int(min(MAX_ROWS_AT_ONCE, max(1, _VALUES * metadata.num_rows // max(values, 1))))


class ArrowFile:
    """A file in Arrow's own format, one that ends with an index or a stream, which is read batch by batch."""

    def __init__(self, path: str, wanted: Wanted) -> None:
        self.path, self.wanted = path, wanted

    def open_file(self) -> Any:
        """Open the bytes of the file."""
        return import_extra("pyarrow", "loaders").OSFile(self.path)

    def _batches(self) -> Iterator[Any]:
        ipc = import_extra("pyarrow.ipc", "loaders")
        with self.open_file() as file:
            stream = file.read(6) != b"ARROW1"
            file.seek(0)
            reader = read_step(lambda: (ipc.open_stream if stream else ipc.open_file)(file), self.path, 0)
            batches = iter(reader) if stream else (reader.get_batch(k) for k in range(reader.num_record_batches))
            start = 0
            while (batch := read_step(lambda: next(batches, None), self.path, start)) is not None:
                yield batch
                start += batch.num_rows

    def part(self) -> Part:
        """The rows as one group: nothing says without reading how many each of its batches has."""
        with self.open_file() as file:
            stream = file.read(6) != b"ARROW1"
        if stream:
            rows = sum(batch.num_rows for batch in self._batches())
        else:
            dataset = import_extra("pyarrow.dataset", "loaders")
            rows = read_step(lambda: dataset.dataset(self.path, format="ipc").count_rows(), self.path, 0)
        return Part(self.path, (rows,), MAX_RUN_ROWS, self._segments)

    def read(self) -> Iterator[Rows]:
        """Yield all its rows."""
        start = 0
        for batch in self._batches():
            yield from in_parts(batch, self.wanted, start, f" of {self.path}")
            start += batch.num_rows

    def _segments(self, segments: Sequence[Segment]) -> Iterator[Rows]:
        for _, start, stop in segments:
            at = start
            for batch in _cut_batches(self._batches(), start, stop):
                yield from in_parts(batch, self.wanted, at, f" of {self.path}", MAX_RUN_ROWS)
                at += batch.num_rows
