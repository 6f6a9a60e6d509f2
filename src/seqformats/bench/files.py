"""Read the lengths of sequences from a file, which has the lengths, or lists or texts."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import Array
from ..errors import BROKEN, COLUMNS, EMPTY, KIND, import_extra, quote
from ..formats.annotations import Given
from ..formats.structure import Structure, integers


def lengths_in(path: str | Path, column: str | None = None) -> Array:
    """Read the lengths of the sequences in a file; its suffix tells the format.

    Parameters
    ----------
    path : str or path
        ``.npy``, ``.npz``, ``.json``, ``.jsonl``, ``.txt``, ``.parquet``, ``.arrow`` or ``.feather``.
    column : str, optional
        The array or column to read, if the file has several.  Integers are lengths; of lists and texts the lengths are
        taken.

    Returns
    -------
    array
        ``(n,)`` int64, at least one.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    StructureError
        If the file cannot be read, has no such column or no sequence, or lengths are negative or too large.
    TypeError
        If there are no lengths in the file, or the suffix is not known.
    ModuleNotFoundError
        If a file of Arrow or Parquet is to be read, and pyarrow is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tokens.json"
    >>> _ = path.write_text('{"ids": [[1, 2], [], [3]], "label": [0, 1, 1]}')
    >>> lengths_in(path, "ids")
    array([2, 0, 1])
    """
    path = Path(path)
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise KIND(f"{path} is none of the files that are read: {', '.join(_READERS)}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    found: Array = read(path, column)
    structure = Structure.of_lengths(found)
    if not structure.n:
        raise EMPTY(f"{path} holds no sequence; one at least is needed")
    return np.asarray(structure.lengths)


def _choose_column(names: Sequence[str], column: str | None, path: Path) -> str:
    """Return the column that is asked for, or the only one."""
    if column is None and len(names) == 1:
        return names[0]
    listed = ", ".join(names) or "none"
    if column is None:
        raise COLUMNS(f"{path} has several columns; give --column and one of: {listed}")
    if column not in names:
        raise COLUMNS(f"{path} has no column {quote(column)}; its columns are: {listed}")
    return column


def _name_columns(column: str | None, path: Path) -> None:
    if column is not None:
        raise COLUMNS(f"{path} has no columns, so there is none called {quote(column)}; leave --column out")


# --- arrays ----------------------------------------------------------------------------------------------------------


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise BROKEN(f"{path} cannot be read as arrays of NumPy: {error}") from None


def _npy(path: Path, column: str | None) -> Array:
    _name_columns(column, path)
    return integers(_load(path), f"the lengths in {path}")


def _npz(path: Path, column: str | None) -> Array:
    found = _load(path)
    if not hasattr(found, "files"):
        raise BROKEN(f"{path} is no npz file, but a single array; call it .npy")
    with found as file:
        name = _choose_column(file.files, column, path)
        try:
            return integers(file[name], f"the lengths in {path}, {name},")
        except ValueError as error:
            raise BROKEN(f"{name} in {path} cannot be read: {error}") from None


# --- text ------------------------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BROKEN(f"{path} is no text in UTF-8: {error}") from None


def _txt(path: Path, column: str | None) -> Array:
    _name_columns(column, path)
    numbers = []
    for line, text in enumerate(_text(path).splitlines(), 1):
        for word in text.split():
            if not word.isdecimal():
                raise KIND(f"{path} must hold lengths, whole numbers, but line {line} has {quote(word)}")
            numbers.append(int(word))
    return integers(numbers, f"the lengths in {path}")


def _json(path: Path, column: str | None) -> Array:
    try:
        found = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise BROKEN(f"{path} is no JSON: {error}") from None
    return _lengths_of(found, column, path)


def _jsonl(path: Path, column: str | None) -> Array:
    rows = []
    for line, text in enumerate(_text(path).splitlines(), 1):
        try:
            rows += [json.loads(text)] if text.strip() else []
        except json.JSONDecodeError as error:
            raise BROKEN(f"line {line} of {path} is no JSON: {error}") from None
    return _lengths_of(rows, column, path)


def _lengths_of(found: Given, column: str | None, path: Path) -> Array:
    """Return lengths of lists, texts or numbers, or of one column of a dict of columns or of rows that are dicts."""
    if isinstance(found, Mapping):
        found = found[_choose_column(list(found), column, path)]
    elif isinstance(found, list) and found and all(isinstance(row, Mapping) for row in found):
        name = _choose_column(list(dict.fromkeys(key for row in found for key in row)), column, path)
        lacking = next((i for i, row in enumerate(found) if name not in row), None)
        if lacking is not None:
            raise COLUMNS(f"row {lacking} of {path} has no column {quote(name)}")
        found = [row[name] for row in found]
    else:
        _name_columns(column, path)
    if not isinstance(found, list):
        raise KIND(f"{path} must hold a list of lengths, of lists or of texts, not {quote(found)}")
    if not any(isinstance(one, (list, str)) for one in found):
        return integers(found, f"the lengths in {path}")
    for i, one in enumerate(found):
        if not isinstance(one, (list, str)):
            raise KIND(f"row {i} of {path} is {quote(one)}, but others are lists or texts")
    return np.array([len(one) for one in found], np.int64)


# --- Arrow -----------------------------------------------------------------------------------------------------------


def _parquet(path: Path, column: str | None) -> Array:
    pa = import_extra("pyarrow", "arrow")
    module = importlib.import_module("pyarrow.parquet")

    def read() -> Any:
        file = module.ParquetFile(path)
        return file.read(columns=[_choose_column(file.schema_arrow.names, column, path)])

    return _of_table(read, column, path, pa)


def _arrow(path: Path, column: str | None) -> Array:
    pa = import_extra("pyarrow", "arrow")
    module = importlib.import_module("pyarrow.feather")
    return _of_table(lambda: module.read_table(path), column, path, pa)


def _of_table(read: Callable[[], Any], column: str | None, path: Path, pa: Any) -> Array:
    try:
        table = read()
    except (pa.ArrowException, OSError) as error:
        raise BROKEN(f"{path} cannot be read: {error}") from None
    name = _choose_column(table.column_names, column, path)
    values = table.column(name).combine_chunks()
    kind = values.type
    compute = importlib.import_module("pyarrow.compute")
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_integer(kind):
        found = values
    elif any(getattr(pa.types, f"is_{one}")(kind) for one in ("list", "large_list", "fixed_size_list")):
        found = compute.list_value_length(values)
    elif any(getattr(pa.types, f"is_{one}")(kind) for one in ("string", "large_string", "binary", "large_binary")):
        found = compute.binary_length(values)
    else:
        raise KIND(f"column {name!r} of {path} holds {kind}; what has lengths are lists, texts and integers")
    return integers(compute.fill_null(found, 0).to_numpy(zero_copy_only=False), f"the lengths in {path}")


_READERS: dict[str, Callable[[Path, str | None], Array]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".json": _json,
    ".jsonl": _jsonl,
    ".txt": _txt,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
}
