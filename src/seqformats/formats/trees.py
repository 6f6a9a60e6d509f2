"""Trees: dicts, tuples and dataclasses whose values are columns over the same sequences.

A *column* is a batch (an encoding or a bare list), rows (an array, or a flat list of numbers: one row per sequence), or
None, which stays as it is.  Whatever takes a tree takes it apart by `columns_of`, which checks all of it before
anything is done, works column by column, and puts it together by `rebuilt`: a mapping as a dict, else as it was.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import hints
from ..arrays import is_array, is_array_type, shape_of
from ..errors import (
    BATCH,
    COLUMNS,
    COUNTS,
    KIND,
    LEVELS,
    OPTION,
    SHAPE,
    ConversionError,
    DeviceError,
    OutOfMemory,
    SeqFormatError,
    StructureError,
    again,
    quote,
)
from .annotations import Given
from .bare import as_encoding, is_column, read_column
from .encoding import Encoding
from .leaves import without_data
from .lod import LoD
from .objects import as_list, is_array_of_objects
from .pairs import Pairs, count, is_encoding, pair

Path: TypeAlias = tuple[object, ...]
Options: TypeAlias = dict[str, Any]

_DEEP = 32  # a tree within itself has no end
_PLAIN = {list, np.ndarray, int, float}
_NUMBERS = (bool, int, float, complex, np.number, np.bool_, np.datetime64, np.timedelta64)
_ERRORS = (StructureError, ConversionError, OutOfMemory, DeviceError, SeqFormatError, TypeError, IndexError)


class Tree(NamedTuple):
    """A tree taken apart."""

    given: Any
    paths: tuple[Path, ...]
    columns: tuple[Any, ...]  # encodings, bare lists, arrays of rows, None
    n: int  # sequences of each; 0 where there is no column
    read: frozenset[int]  # which columns were flat lists of numbers, or columns of another library, and are no more

    def batches(self) -> list[int]:
        """Which columns are batches."""
        return [k for k, column in enumerate(self.columns) if not (column is None or is_array(column))]


# --- what a tree is --------------------------------------------------------------------------------------------------


def is_tree(x: object, depth: int = _DEEP) -> bool:
    """Tell whether this is a mapping, or a tuple or a user's dataclass that holds encodings or trees.

    A tuple of arrays or of lists is a bare list, as everywhere.
    """
    if type(x) in (dict, list):
        return type(x) is dict
    if depth <= 0 or is_encoding(x):
        return False
    if isinstance(x, tuple):
        if type(x) is not tuple and hints.for_batch(x):
            return False
        one_of_each = [next(part for part in x if type(part) is kind) for kind in set(map(type, x)) - _PLAIN]
        return any(is_encoding(part) or is_tree(part, depth - 1) for part in one_of_each)
    if isinstance(x, Mapping):
        return True
    if not _is_dataclass(x):
        return False
    values = _parts(x)[1]
    return any(isinstance(part, (list, tuple)) or is_encoding(part) or is_tree(part, depth // 4) for part in values)


def _is_dataclass(x: object) -> bool:
    """A dataclass of a user's, of which nothing is known."""
    kind = type(x)
    own = (kind.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return dataclasses.is_dataclass(kind) and not own and not hints.for_batch(x)


def _is_inner(x: object) -> bool:
    """Tell whether this is a tree within a tree.  Pairs are one there, of two columns."""
    if isinstance(x, (Encoding, list, np.ndarray)):  # what columns usually are
        return False
    return isinstance(x, Pairs) or is_tree(x)


def _parts(x: Given) -> tuple[Sequence[object], Sequence[Any]]:
    """The keys of a tree and what stands there."""
    if isinstance(x, Mapping):
        keys = list(x)
        return keys, [x[key] for key in keys]
    if isinstance(x, tuple):
        names: Sequence[object] = getattr(x, "_fields", range(len(x)))
        return names, x
    fields = [field.name for field in dataclasses.fields(x)]
    return fields, [getattr(x, name) for name in fields]


def _make_tree(x: Given, keys: Sequence[object], values: Sequence[Any]) -> Any:
    """A tree as `x` with these values."""
    if isinstance(x, Mapping):
        return dict(zip(keys, values, strict=True))
    if isinstance(x, tuple):
        return x._make(values) if hasattr(x, "_make") else tuple(values)
    if isinstance(x, Pairs):
        return pair(*map(as_encoding, values))  # also around None
    twin = copy.copy(x)
    for name, value in zip(keys, values, strict=True):
        object.__setattr__(twin, str(name), value)  # a frozen one too
    return twin


# --- apart and together ----------------------------------------------------------------------------------------------


def entries(x: Given, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Iterate over the entries of a tree, with the keys that lead there."""
    if len(path) >= _DEEP:
        raise LEVELS(f"{name_of(path)} is {_DEEP} trees deep; does one hold itself?")
    for key, value in zip(*_parts(x), strict=True):
        here = (*path, key)
        if _is_inner(value):
            yield from entries(value, here)
        else:
            yield here, value


def rebuilt(x: Given, values: Iterator[Any]) -> Any:
    """A tree as `x` with other values, in the order of `entries`."""
    keys, parts = _parts(x)
    return _make_tree(x, keys, [rebuilt(part, values) if _is_inner(part) else next(values) for part in parts])


def columns_of(x: Given) -> Tree:
    """A tree taken apart and checked.

    Raises
    ------
    TypeError
        If a value is no column.
    StructureError
        Where one has another number of sequences than the first; both are named.
    """
    found = list(entries(x))
    paths = tuple([path for path, _ in found])
    columns = tuple([_column(value, path) for path, value in found])
    sizes = [None if column is None else _size(column) for column in columns]
    first = next((k for k, column in enumerate(columns) if not (column is None or is_array(column))), None)
    if first is None:
        first = next((k for k, size in enumerate(sizes) if size is not None), 0)
    for k, size in enumerate(sizes):
        if size is not None and size != sizes[first]:
            a, b = size, sizes[first] or 0
            what = "rows" if is_array(columns[k]) else "sequences"
            raise COUNTS(
                f"{name_of(paths[k])} has {a} {what}, but {name_of(paths[first])} has {b}: number {min(a, b)} is in "
                f"{name_of(paths[k if a > b else first])} alone"
            )
    read = [k for k, (_, given) in enumerate(found) if columns[k] is not given and not isinstance(columns[k], list)]
    return Tree(x, paths, columns, (sizes[first] or 0) if sizes else 0, frozenset(read))


def _column(x: Given, path: Path) -> Any:
    """Return an entry of a tree as a column."""
    if x is None or isinstance(x, Encoding):
        return x
    if is_array_of_objects(x):
        x = as_list(x)
    if is_column(x):
        return read_column(x)
    if is_array(x):
        if not shape_of(x):
            raise SHAPE(f"{name_of(path)} must have one row per sequence, but is a single number")
        return x
    if isinstance(x, (list, tuple)):
        if type(x) in (list, tuple) or not hints.for_batch(x):
            kinds = set(map(type, x))
            return (
                _numbers(x, kinds, path)
                if kinds and not any(issubclass(kind, (list, tuple)) or is_array_type(kind) for kind in kinds)
                else x
            )
    elif is_encoding(x):
        return x
    hint = hints.for_batch(x) or "; a column is an encoding, lists, an array with one row per sequence, or None"
    raise BATCH(f"{name_of(path)} is no column, but {_a(type(x).__name__)}{hint}")


def _numbers(x: Sequence[Any], kinds: set[type], path: Path) -> Any:
    """A flat list of numbers as an array of rows."""
    wrong = next((kind.__name__ for kind in kinds if not issubclass(kind, _NUMBERS)), None)
    if wrong is not None:
        raise BATCH(
            f"{name_of(path)} is no column, but a {type(x).__name__} of {wrong}; leave it out, or give lists of numbers"
        )
    try:
        return LoD.from_nested([list(x)]).data
    except TypeError as error:
        raise KIND(f"column {name_of(path)}: {error}") from None


def _size(column: Given) -> int:
    if is_array(column):
        return int(shape_of(column)[0])
    return len(column) if isinstance(column, (list, tuple)) else count(column)


def _a(noun: str) -> str:
    return f"an {noun}" if noun[:1] in "aeiou" else f"a {noun}"


def name_of(path: Path) -> str:
    """A column, for a message."""
    return quote(".".join([key if isinstance(key, str) else quote(key) for key in path]))


# --- column by column ------------------------------------------------------------------------------------------------


def map_columns(tree: Tree, function: Callable[[Any, int], Any], each: Sequence[object] | None = None) -> Any:
    """The tree with ``function(column, k)`` for column k; None stays, and what occurs twice is done once.

    `each` is what the function takes beside the column, where that may differ.
    """
    done: dict[tuple[int, int], Any] = {}
    values = []
    for k, column in enumerate(tree.columns):
        key = (id(column), 0 if each is None else id(each[k]))
        if key not in done:
            done[key] = None if column is None else at_column(tree.paths[k], function, column, k)
        values.append(done[key])
    return rebuilt(tree.given, iter(values))


def at_column(path: Path, function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``; an error of this library names the column."""
    try:
        return function(*args)
    except _ERRORS as error:
        if type(error) not in _ERRORS:
            raise
        raise again(error, f"column {name_of(path)}: {error}") from error


def skeleton(tree: Tree) -> Any:
    """The tree without its arrays, which says where its columns were."""
    return rebuilt(tree.given, iter([bones(column) for column in tree.columns]))


def bones(column: Given) -> Any:
    """A column without its arrays."""
    if isinstance(column, Encoding):
        return without_data(column)
    return None if is_array(column) else column


def check_columns(tree: Tree) -> None:
    """TypeError where no column says how many sequences there are."""
    if all(column is None for column in tree.columns):
        raise BATCH(f"{_a(type(tree.given).__name__)} without columns has no number of sequences")


def check_batches(tree: Tree, what: str) -> None:
    """TypeError where no column is a batch."""
    if not tree.batches():
        held = ", ".join(map(name_of, tree.paths[:4])) or "nothing"
        raise BATCH(
            f"{what} a batch among the columns, but this {type(tree.given).__name__} has rows alone: {held}"
            f"{hints.for_batch(tree.given) if type(tree.given) is not dict else ''}"
        )


def options_of(tree: Tree, options: Options) -> list[Options]:
    """The options of each column: an option that is a dict says them by the names of columns."""
    for option, value in options.items():
        if type(value) is dict:
            _check_names(tree, option, value)
    if not any(type(value) is dict for value in options.values()):
        return [options] * len(tree.columns)
    return [
        {option: value for option, given in options.items() for value in _pick_option(given, path)}
        for path in tree.paths
    ]


def _pick_option(value: object, path: Path) -> list[Any]:
    """Return the option for one column; nothing where it leaves that out."""
    for key in path:
        if type(value) is not dict:
            break
        if key not in value:
            return []
        value = value[key]
    return [value]


def _check_names(tree: Tree, option: str, value: Options, path: Path = ()) -> None:
    """TypeError for an option of a column that is not there."""
    for key, inner in value.items():
        here = (*path, key)
        if not any(known[: len(here)] == here for known in tree.paths):
            names = ", ".join(map(name_of, tree.paths[:8]))
            raise OPTION(f"{option} is given for {name_of(here)}, but the columns are: {names}")
        if type(inner) is dict and len(here) < _DEEP:
            _check_names(tree, option, inner, here)


def match_columns(x: Given, like: Given, what: str, missing: bool = False) -> list[Any]:
    """Return the entries of one tree where another has its columns; `missing` ones are None.

    Raises
    ------
    TypeError
        If it is no such tree.
    StructureError
        Where names differ.
    """
    if missing and x is None:
        return [None for _ in entries(like)]
    by_name = isinstance(like, Mapping)
    fits = isinstance(x, Mapping) if by_name else type(x) is type(like) or isinstance(x, Mapping)
    if not fits:
        raise KIND(f"{what} must be {_a(type(like).__name__)} of columns too, not {_a(type(x).__name__)}")
    keys, parts = _parts(like)
    known, given = _parts(x)
    found = dict(zip(known, given, strict=True))
    for one, other, word in ((known, keys, "is in"), (keys, known, "is missing in")):
        lost = [] if missing and one is keys else [key for key in one if key not in other]
        if lost:
            raise COLUMNS(f"{name_of((lost[0],))} {word} {what}; the columns are: {', '.join(map(quote, keys))}")
    return [
        value
        for key, part in zip(keys, parts, strict=True)
        for value in (match_columns(found.get(key), part, what, missing) if _is_inner(part) else [found.get(key)])
    ]
