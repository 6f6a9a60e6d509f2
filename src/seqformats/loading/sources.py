"""What batches are made of: whatever yields rows, as `Rows`, a few at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import has_items, is_array, shape_of
from ..errors import BATCH, COLUMNS, KIND, MIXED, SeqFormatError, needed, said
from ..formats import Encoding
from ..formats.bare import as_encoding
from ..formats.pairs import count, is_encoding
from .arrow_rows import column_of, rows_of_file_set, rows_of_files, rows_of_stream
from .rows import DICT, ONE, TUPLE, Rows, Wanted, flat, objects

_ROWS, _ITEMS = 1024, 1 << 18
"""How many rows of Python objects come together, at most, and about how many items."""


class Source(NamedTuple):
    """Something that yields rows.

    ``read`` begins anew, unless it is read only `once`; ``total`` rows, where that is known.
    """

    read: Callable[[], Iterator[Rows]]
    once: bool = False
    total: int | None = None


def source_of(given: Any, wanted: Wanted) -> Source:
    """Any source; TypeError for what is none."""
    if isinstance(given, (str, os.PathLike)):
        return _path(os.fspath(given), wanted)
    if is_encoding(given):
        return Source(lambda: _in_memory(ONE, {None: given}, wanted), total=count(given))
    root = type(given).__module__.partition(".")[0]
    if root == "datasets" and hasattr(given, "with_format"):
        return _dataset(given, wanted)
    if root == "pyarrow" and hasattr(given, "get_fragments"):
        return Source(lambda: rows_of_file_set(given, wanted))
    if root == "pyarrow" and hasattr(given, "to_reader"):  # a Scanner, or a table
        total = getattr(given, "num_rows", None)
        return Source(lambda: rows_of_stream(given.to_reader(), wanted), total=total)
    if _speaks_arrow(given):
        once = isinstance(given, Iterator)
        return Source(lambda: rows_of_stream(given, wanted), once, None if once else _len(given))
    if isinstance(given, Mapping):
        return _mapping(given, wanted)
    if _has_rows(given):
        return Source(lambda: _objects(given, wanted), isinstance(given, Iterator), _len(given))
    raise BATCH(f"batches are made of rows, of Arrow data, of a path or of an encoding, not of {type(given).__name__}")


def _has_rows(x: Any) -> bool:
    """Can it be iterated?  Its type says so, and of an array the axes."""
    kind = type(x)
    return (
        shape_of(x, "the source") != () if is_array(x) else issubclass(kind, Iterable) or hasattr(kind, "__getitem__")
    )


def _speaks_arrow(x: object) -> bool:
    return not isinstance(x, type) and (hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__"))


def _len(x: Any) -> int | None:
    try:
        return len(x)
    except (TypeError, NotImplementedError):
        return None


def _path(path: str, wanted: Wanted) -> Source:
    """A file or a folder of Parquet, or of Arrow's own format; whether it is there is said at once."""
    needed("pyarrow", "loaders")
    if "://" not in path and not Path(path).exists():
        raise FileNotFoundError(f"there is no file or folder {path!r}")
    return Source(lambda: rows_of_files(path, wanted))


def _dataset(given: Any, wanted: Wanted) -> Source:
    """A `Dataset` or an `IterableDataset` of Hugging Face."""
    if isinstance(given, Mapping):
        raise KIND(f"a {type(given).__name__} has splits, {', '.join(map(repr, given))}; give one of them")

    def read() -> Iterator[Rows]:
        chosen = given if wanted.columns is None else given.select_columns(list(wanted.columns))
        at = 0
        for table in chosen.with_format("arrow").iter(batch_size=_ROWS):
            for rows in rows_of_stream(table, wanted, at):
                at += rows.size
                yield rows

    return Source(read, total=_len(given))


# --- in memory -------------------------------------------------------------------------------------------------------


def _mapping(given: Mapping[Any, Any], wanted: Wanted) -> Source:
    """Columns by name: encodings, lists, arrays."""
    names = wanted.names(given, "the source")
    columns = {name: _whole_column(name, given[name], wanted) for name in names}
    counts = {name: count(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise COLUMNS(f"the columns must have as many rows, but have {counts}")
    return Source(lambda: _in_memory(DICT, columns, wanted), total=next(iter(counts.values()), 0))


def _whole_column(name: Hashable, given: Any, wanted: Wanted) -> Any:
    if is_encoding(given) or is_array(given):
        return given
    if _speaks_arrow(given):
        return column_of(given, name, wanted, Rows(DICT, {}, 0))
    if isinstance(given, (list, tuple)):
        return _column(list(given), f"column {name!r}, ", name in wanted.text)
    raise BATCH(f"column {name!r} must be an encoding, a list or an array, not {type(given).__name__}")


def _in_memory(kind: str, columns: dict[Hashable, Any], wanted: Wanted) -> Iterator[Rows]:
    if kind == ONE and wanted.columns is not None:
        raise COLUMNS(f"columns={wanted.columns!r}, but the source holds sequences alone, without names")
    own = {name: flat(column) if is_encoding(column) else column for name, column in columns.items()}
    n = count(next(iter(own.values()))) if own else 0
    yield Rows(kind, own, n)


# --- Python objects --------------------------------------------------------------------------------------------------


def _objects(given: Any, wanted: Wanted) -> Iterator[Rows]:
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
            yield _gathered(kind, rows, at, wanted)
            at += len(rows)
            rows, items = [], 0
        if failed is not None:
            raise failed
        if ended:
            return
        kind = found
        if kind in (ONE, TUPLE, DICT):
            rows.append(one)
            items += _size(one, kind)
            continue
        for several in _several(one, kind, at, wanted):
            at += several.size
            yield several


def _kind_of(one: Any) -> str:
    """What an element of an iterable is: a row of some kind, or several rows, of an encoding, a record or Arrow."""
    if is_encoding(one):
        return "encoding"
    if isinstance(one, Mapping):
        return "record" if any(isinstance(value, Encoding) for value in one.values()) else DICT
    if isinstance(one, tuple):
        if any(isinstance(value, Encoding) for value in one):
            return "record"
        return TUPLE if hasattr(one, "_fields") or any(has_items(value) for value in one) else ONE
    return "arrow" if _speaks_arrow(one) else ONE


def _size(row: Any, kind: str) -> int:
    """About how many items a row has."""
    if kind == ONE:
        return _len(row) or 0
    return sum(_len(value) or 0 for value in (row.values() if kind == DICT else row))


def _several(one: Any, kind: str, at: int, wanted: Wanted) -> Iterator[Rows]:
    """The rows of an element that holds several."""
    if kind == "arrow":
        yield from rows_of_stream(one, wanted, at)
        return
    if kind == "encoding":
        yield from (rows._replace(start=at) for rows in _in_memory(ONE, {None: one}, wanted))
        return
    named = isinstance(one, Mapping)
    names = wanted.names(one if named else range(len(one)), f"the record after row {at - 1}")
    columns = {name: _whole_column(name, one[name], wanted) for name in names}
    counts = {name: count(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise COLUMNS(f"the columns after row {at - 1} must have as many rows, but have {counts}")
    yield from (rows._replace(start=at) for rows in _in_memory(DICT if named else TUPLE, columns, wanted))


def _gathered(kind: str, rows: list[Any], at: int, wanted: Wanted) -> Rows:
    """Rows of one kind, column by column."""
    made = Rows(kind, {}, len(rows), at)
    if kind == ONE:
        if wanted.columns is not None:
            raise COLUMNS(f"columns={wanted.columns!r}, but row {at} is a {type(rows[0]).__name__} without names")
        made.columns[None] = _sequences(rows, at, "")
        return made
    first = rows[0]
    names = wanted.names(first if kind == DICT else range(len(first)), f"row {at}")
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
    """One value a row: sequences as a batch, numbers as an array, and strings as one or the other."""
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
        raise MIXED(f"{where}row {at + wrong} is {said(values[wrong])}, but the column holds single numbers")
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
                    raise MIXED(f"it is {said(row)}, which is no sequence")
                flat(as_encoding([_items(row)]))
            except (SeqFormatError, TypeError, ValueError) as own:
                raise MIXED(f"{where}row {at + k}: {own}") from error
        raise MIXED(f"{where}rows {at} to {at + len(rows) - 1}: {error}") from error


def _is_sequence(row: Any) -> bool:
    return has_items(row) or isinstance(row, (str, bytes))


def _items(row: Any) -> Any:
    if isinstance(row, str):
        row = row.encode()
    if isinstance(row, (bytes, bytearray)):
        return np.frombuffer(row, np.uint8)
    if is_array(row):
        shape_of(row, "a sequence")
        return row
    return row if isinstance(row, list) else list(row)
