"""Sources of batches: whatever yields rows, as `Rows`, a few at a time."""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, has_items, is_array, shape_of
from ..errors import BATCH, COLUMNS, KIND, MIXED, SeqFormatError, import_extra, quote
from ..formats import Encoding, structure_of
from ..formats.annotations import Given
from ..formats.bare import as_encoding, is_column
from ..formats.pairs import count, is_encoding
from .arrow_rows import column_of, rows_of_stream, rows_of_table
from .files import Files, files_at, files_of, is_parquet, rows_of_scan
from .parts import Seed, from_row, mixed_streams
from .plan import shuffle
from .rows import ROW_DICT, ROW_SEQUENCE, ROW_TUPLE, Rows, Wanted, flat, objects

_ROWS, _ITEMS = 1024, 1 << 18
"""How many rows of Python objects come together, at most, and about how many items."""


class Source(NamedTuple):
    """Something that yields rows.

    ``read`` begins anew, unless it is read only `once`; ``total`` rows, where that is known; ``read_from`` begins with
    a row without reading those before it; ``mixed`` gives the order of a seed, from a row on, None where the source has
    one order alone; ``seal`` gives a number that differs where the rows do; ``unordered`` says who else decides in
    which order rows come, where that is not the same each time.
    """

    read: Callable[[], Iterator[Rows]]
    once: bool = False
    total: int | None = None
    read_from: Callable[[int], Iterator[Rows]] | None = None
    mixed: Callable[[Seed, int], Iterator[Rows]] | None = None
    seal: Callable[[], int] | None = None
    unordered: str = ""

    def rows(self, seed: Seed | None, row: int) -> Iterator[Rows]:
        """Yield the rows from one on, in the order of a seed where there is one."""
        if seed is not None and self.mixed is not None:
            return self.mixed(seed, row)
        if not row:
            return self.read()
        return from_row(self.read(), row) if self.read_from is None else self.read_from(row)

    def transform(self, change: Callable[[Iterator[Rows]], Iterator[Rows]]) -> Source:
        """Make a source whose rows `change` makes of these."""
        read, read_from, mixed = self.read, self.read_from, self.mixed
        return self._replace(
            read=lambda: change(read()),
            read_from=None if read_from is None else lambda row: change(read_from(row)),
            mixed=None if mixed is None else lambda seed, row: change(mixed(seed, row)),
        )


def _at_random(n: int, read: Callable[[Array], Iterator[Rows]]) -> Callable[[Seed, int], Iterator[Rows]]:
    """Every order of n rows, which are read at any places."""
    return lambda seed, row: _count_rows(read(shuffle(n, *seed, 0, 2)[row:]), row)


def _count_rows(pieces: Iterator[Rows], row: int) -> Iterator[Rows]:
    """Rows in a shuffled order, counted from `row` on; errors say that this is how they are counted."""
    try:
        for piece in pieces:
            yield piece._replace(start=row, origin=" of the shuffled order")
            row += piece.size
    except SeqFormatError as error:
        error.add_note("rows are counted in the shuffled order")
        raise


def source_of(given: Given, wanted: Wanted) -> Source:
    """Read any source; TypeError for an object that is none."""
    if isinstance(given, (str, os.PathLike)):
        return _path(os.fspath(given), wanted)
    if is_encoding(given) or _is_tensors(given):
        return _encodings(ROW_SEQUENCE, {None: as_encoding(given)}, wanted)
    root = type(given).__module__.partition(".")[0]
    if root == "datasets" and hasattr(given, "with_format"):
        return _dataset(given, wanted)
    if root == "pyarrow" and hasattr(given, "get_fragments"):
        if is_parquet(given):
            return _files(Files(lambda: files_of(given, wanted)))
        return Source(lambda: rows_of_scan(given, wanted))
    if root == "ray" and hasattr(given, "iter_batches"):
        return _ray(given, wanted)
    if root == "pyarrow" and hasattr(given, "to_reader"):  # a Scanner, or a table
        return _table(given, wanted, getattr(given, "num_rows", None), given.to_reader)
    if _speaks_arrow(given):
        return _table(given, wanted, None if isinstance(given, Iterator) else _len(given), lambda: given)
    if isinstance(given, Mapping):
        return _mapping(given, wanted)
    if _has_rows(given):
        return _elements(given, wanted)
    raise BATCH(f"batches are made of rows, of Arrow data, of a path or of an encoding, not of {type(given).__name__}")


def _files(files: Files) -> Source:
    return Source(files.read, read_from=files.read_from, mixed=files.read_mixed, seal=files.seal)


def _table(given: object, wanted: Wanted, total: int | None, opened: Callable[[], Any]) -> Source:
    """Make a source of what speaks Arrow; in an order where it has rows that can be counted."""
    once = isinstance(given, Iterator)
    order = None if total is None else _at_random(total, lambda order: rows_of_table(opened(), wanted, order))
    return Source(lambda: rows_of_stream(opened(), wanted), once, total, mixed=order, seal=_count(total))


def _count(total: int | None) -> Callable[[], int] | None:
    """Return a function for the number of rows, which is all that is asked of what lies in memory."""
    return None if total is None else lambda: total


def _has_rows(x: object) -> bool:
    """Tell whether it can be iterated.  Its type says so, and of an array the axes."""
    kind = type(x)
    return (
        shape_of(x, "the source") != () if is_array(x) else issubclass(kind, Iterable) or hasattr(kind, "__getitem__")
    )


def _is_tensors(x: object) -> bool:
    """Tell whether this is a column that is not Arrow's: a nested tensor, or a PackedSequence."""
    return is_column(x) and not _speaks_arrow(x)


def _speaks_arrow(x: object) -> bool:
    return not isinstance(x, type) and (hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__"))


def _len(x: Given) -> int | None:
    try:
        return len(x)
    except (TypeError, NotImplementedError):
        return None


def _path(path: str, wanted: Wanted) -> Source:
    """A file or a folder of Parquet, or of Arrow's own format; whether it is there is said at once."""
    import_extra("pyarrow", "loaders")
    if "://" not in path and not Path(path).exists():
        raise FileNotFoundError(f"there is no file or folder {path!r}")
    return _files(Files(lambda: files_at(path, wanted)))


def _dataset(given: Given, wanted: Wanted) -> Source:
    """A `Dataset` or an `IterableDataset` of Hugging Face."""
    if isinstance(given, Mapping):
        raise KIND(f"a {type(given).__name__} has splits, {', '.join(map(repr, given))}; give one of them")
    chosen = (given if wanted.columns is None else given.select_columns(list(wanted.columns))).with_format("arrow")
    total = _len(given)

    def read(some: Given = chosen) -> Iterator[Rows]:
        return _rows_of_tables(some.iter(batch_size=_ROWS), wanted)

    def read_at(order: Array) -> Iterator[Rows]:
        places = (order[k : k + _ROWS] for k in range(0, order.size, _ROWS))
        return _rows_of_tables((chosen[where] for where in places), wanted)

    def mix(seed: Seed, row: int) -> Iterator[Rows]:
        count = chosen.num_shards
        shards = [functools.partial(read, chosen.shard(count, k)) for k in range(count)]
        return from_row(mixed_streams(shards, seed), row)

    if total is None:
        return Source(read, mixed=mix)
    return Source(read, total=total, mixed=_at_random(total, read_at), seal=_count(total))


def _ray(given: Given, wanted: Wanted) -> Source:
    """A dataset of Ray Data, or an iterator over one."""

    def read() -> Iterator[Rows]:
        yield from _rows_of_tables(iter(given.iter_batches(batch_size=_ROWS, batch_format="pyarrow")), wanted)

    return Source(
        read,
        unordered="Ray decides in which order its blocks come; its random_shuffle shuffles rows, and its "
        "streaming_split divides them among processes",
    )


def _rows_of_tables(tables: Iterator[Any], wanted: Wanted) -> Iterator[Rows]:
    """Tables of Arrow that follow one another."""
    at = 0
    for table in tables:
        chosen = table if wanted.columns is None else table.select(wanted.names(table.column_names, "the source"))
        for rows in rows_of_stream(chosen, wanted, at):
            at += rows.size
            yield rows


# --- in memory -------------------------------------------------------------------------------------------------------


def _mapping(given: Mapping[Any, Any], wanted: Wanted) -> Source:
    """Columns by name: encodings, lists, arrays."""
    names = wanted.names(given, "the source")
    columns = {name: _whole_column(name, given[name], wanted) for name in names}
    counts = {name: count(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise COLUMNS(f"the columns must have as many rows, but have {counts}")
    return _encodings(ROW_DICT, columns, wanted)


def _encodings(kind: str, columns: dict[Hashable, Any], wanted: Wanted) -> Source:
    """Columns in memory, whose rows can be taken in any order."""
    total = count(next(iter(columns.values()))) if columns else 0

    def read_at(order: Array) -> Iterator[Rows]:
        for rows in _in_memory(kind, columns, wanted):
            yield from (rows.take(order[k : k + _ROWS]) for k in range(0, order.size, _ROWS))

    def seal() -> int:
        number = total
        for column in columns.values():
            lengths = structure_of(flat(column), 0).lengths if is_encoding(column) else np.zeros(0)
            number = zlib.crc32(lengths.tobytes(), number & 0xFFFFFFFF)
        return number

    return Source(
        lambda: _in_memory(kind, columns, wanted),
        total=total,
        read_from=lambda row: from_row(_in_memory(kind, columns, wanted), row),
        mixed=_at_random(total, read_at),
        seal=seal,
    )


def _whole_column(name: Hashable, given: Given, wanted: Wanted) -> Any:
    if is_encoding(given) or _is_tensors(given) or is_array(given):
        return as_encoding(given)
    if _speaks_arrow(given):
        return column_of(given, name, wanted, Rows(ROW_DICT, {}, 0))
    if isinstance(given, (list, tuple)):
        return _column(list(given), f"column {name!r}, ", name in wanted.text)
    raise BATCH(f"column {name!r} must be an encoding, a list or an array, not {type(given).__name__}")


def _in_memory(kind: str, columns: dict[Hashable, Any], wanted: Wanted) -> Iterator[Rows]:
    if kind == ROW_SEQUENCE and wanted.columns is not None:
        raise COLUMNS(f"columns={wanted.columns!r}, but the source holds sequences alone, without names")
    own = {name: flat(column) if is_encoding(column) else column for name, column in columns.items()}
    n = count(next(iter(own.values()))) if own else 0
    yield Rows(kind, own, n)


# --- Python objects --------------------------------------------------------------------------------------------------


def _elements(given: Given, wanted: Wanted) -> Source:
    """Make a source of what can be iterated; in an order where each of its elements can be asked for."""
    total = _len(given)
    order = None
    if total is not None and (is_array(given) or hasattr(type(given), "__getitem__")):
        order = _elements_at_random(given, total, wanted)
    return Source(lambda: _objects(given, wanted), isinstance(given, Iterator), total, mixed=order, seal=_count(total))


def _elements_at_random(given: Given, total: int, wanted: Wanted) -> Callable[[Seed, int], Iterator[Rows]]:
    """Every order of the elements, each of which may be several rows."""

    def mix(seed: Seed, row: int) -> Iterator[Rows]:
        chosen = (given[place] for place in shuffle(total, *seed, 0, 2).tolist())
        return _count_rows(from_row(_objects(chosen, wanted), row), row)

    return mix


def _objects(given: Given, wanted: Wanted) -> Iterator[Rows]:
    """Whatever an iterable yields: rows, which are gathered, or batches of them."""
    rows: list[Any] = []
    items = at = 0
    kind = ""
    source = iter(given)
    while True:
        try:
            one = next(source, source)
        except Exception as error:
            error.add_note(f"raised by the source of batches after {at + len(rows)} rows")
            failed: Exception | None = error
        else:
            failed = None
        ended = failed is not None or one is source
        found = "" if ended else _kind_of(one)
        if rows and (ended or found != kind or len(rows) >= _ROWS or items >= _ITEMS):
            yield _gather(kind, rows, at, wanted)
            at += len(rows)
            rows, items = [], 0
        if failed is not None:
            raise failed
        if ended:
            return
        kind = found
        if kind in (ROW_SEQUENCE, ROW_TUPLE, ROW_DICT):
            rows.append(one)
            items += _size(one, kind)
            continue
        for several in _several(one, kind, at, wanted):
            at += several.size
            yield several


def _kind_of(one: Given) -> str:
    """Tell what an element of an iterable is: a row of some kind, or several, of an encoding, a record or Arrow."""
    if is_encoding(one):
        return "encoding"
    if isinstance(one, Mapping):
        return "record" if any(isinstance(value, Encoding) for value in one.values()) else ROW_DICT
    if isinstance(one, tuple):
        if any(isinstance(value, Encoding) for value in one):
            return "record"
        return ROW_TUPLE if hasattr(one, "_fields") or any(has_items(value) for value in one) else ROW_SEQUENCE
    return "arrow" if _speaks_arrow(one) else ROW_SEQUENCE


def _size(row: Given, kind: str) -> int:
    """About how many items a row has."""
    if kind == ROW_SEQUENCE:
        return _len(row) or 0
    return sum(_len(value) or 0 for value in (row.values() if kind == ROW_DICT else row))


def _several(one: Given, kind: str, at: int, wanted: Wanted) -> Iterator[Rows]:
    """The rows of an element that holds several."""
    if kind == "arrow":
        yield from rows_of_stream(one, wanted, at)
        return
    if kind == "encoding":
        yield from (rows._replace(start=at) for rows in _in_memory(ROW_SEQUENCE, {None: one}, wanted))
        return
    named = isinstance(one, Mapping)
    names = wanted.names(one if named else range(len(one)), f"the record after row {at - 1}")
    columns = {name: _whole_column(name, one[name], wanted) for name in names}
    counts = {name: count(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise COLUMNS(f"the columns after row {at - 1} must have as many rows, but have {counts}")
    yield from (rows._replace(start=at) for rows in _in_memory(ROW_DICT if named else ROW_TUPLE, columns, wanted))


def _gather(kind: str, rows: list[Any], at: int, wanted: Wanted) -> Rows:
    """Rows of one kind, column by column."""
    made = Rows(kind, {}, len(rows), at)
    if kind == ROW_SEQUENCE:
        if wanted.columns is not None:
            raise COLUMNS(f"columns={wanted.columns!r}, but row {at} is a {type(rows[0]).__name__} without names")
        made.columns[None] = _sequences(rows, at, "")
        return made
    first = rows[0]
    names = wanted.names(first if kind == ROW_DICT else range(len(first)), f"row {at}")
    for name in names:
        values = []
        for k, row in enumerate(rows):
            try:
                values.append(row[name])
            except (KeyError, IndexError):
                raise COLUMNS(f"row {at + k} has no column {name!r}, but row {at} has") from None
        made.columns[name] = _column(values, f"column {name!r}, ", name in wanted.text, at)
    return made


def _column(values: list[Any], where: str, text: bool, at: int = 0) -> Any:
    """One value per row: sequences as a batch, numbers as an array, and strings as one or the other."""
    first = values[0] if values else None
    if isinstance(first, (str, bytes)) and not text:
        return objects(values)
    return _sequences(values, at, where) if has_items(first) or text else _single(values, at, where)


def _single(values: list[Any], at: int, where: str) -> Any:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        array = np.empty(0, object)
    if array.dtype.hasobject or array.shape != (len(values),):
        kind = type(values[0]) if values else object
        wrong = next((k for k, value in enumerate(values) if has_items(value) or type(value) is not kind), 0)
        raise MIXED(f"{where}row {at + wrong} is {quote(values[wrong])}, but the column holds single numbers")
    return array


def _sequences(rows: list[Any], at: int, where: str) -> Any:
    """Lists, arrays, bytes or strings as one batch; StructureError that names the first that cannot be one."""
    try:
        if len({isinstance(row, (str, bytes)) for row in rows}) > 1:
            raise MIXED("some rows are strings, others are none")
        return flat(as_encoding([_items(row) for row in rows]))
    except (SeqFormatError, TypeError, ValueError) as error:
        for k, row in enumerate(rows):
            try:
                if isinstance(row, (str, bytes)) is not isinstance(rows[0], (str, bytes)) or not _is_sequence(row):
                    raise MIXED(f"it is {quote(row)}, which is no sequence")
                flat(as_encoding([_items(row)]))
            except (SeqFormatError, TypeError, ValueError) as own:
                raise MIXED(f"{where}row {at + k}: {own}") from error
        raise MIXED(f"{where}rows {at} to {at + len(rows) - 1}: {error}") from error


def _is_sequence(row: object) -> bool:
    return has_items(row) or isinstance(row, (str, bytes))


def _items(row: Given) -> Any:
    if isinstance(row, str):
        row = row.encode()
    if isinstance(row, (bytes, bytearray)):
        return np.frombuffer(row, np.uint8)
    if is_array(row):
        shape_of(row, "a sequence")
        return row
    return row if isinstance(row, list) else list(row)
