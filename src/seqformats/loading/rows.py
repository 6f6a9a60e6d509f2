"""Rows on their way from a source to batches: some of them at a time, column by column."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, library_of
from ..converters.convert import as_own, convert
from ..errors import COLUMNS, LEVELS, MIXED, SeqFormatError
from ..formats import Encoding, LoD, Ragged, structure_of
from ..formats.annotations import Given
from ..formats.pairs import take_rows
from ..operations.batch import join_batches
from ..operations.library import astype

ROW_SEQUENCE, ROW_TUPLE, ROW_DICT = "one", "tuple", "dict"
"""What a row is: a sequence, or a record of columns with numbers, or with names."""


class Wanted(NamedTuple):
    """Wishes for the rows of a source.

    ``columns``: their names, None: all; ``text``: those whose strings are sequences of bytes, which are single values
    elsewhere; ``missing`` and ``items``: what stands for null sequences and for null items, as in `from_arrow`.
    """

    columns: tuple[Hashable, ...] | None = None
    text: tuple[Hashable, ...] = ()
    missing: str = "raise"
    items: Any = "raise"

    def names(self, given: Iterable[Hashable], where: str) -> list[Hashable]:
        """The wanted ones of the columns that are there."""
        known = list(given)
        if self.columns is None:
            return known
        for name in self.columns:
            if name not in known:
                raise COLUMNS(f"{where} has no column {name!r}; there are {', '.join(map(repr, known))}")
        return list(self.columns)


class Rows(NamedTuple):
    """Some rows that follow one another in their source.

    ``columns``: a batch, or an array with one entry per row, for each name; ``start`` and ``origin``: the number of the
    first row, and in what it is, for errors; ``lengths``: those of the column `by`, which decides the batches;
    ``places``: the number of each row among all that are read.
    """

    kind: str
    columns: dict[Hashable, Any]
    size: int
    start: int = 0
    origin: str = ""
    lengths: Any = None
    by: Hashable = None
    places: Any = None

    def part(self, start: int, stop: int) -> Rows:
        """The rows from one to another, views where slices are."""
        if start == 0 and stop == self.size:
            return self
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        lengths = None if self.lengths is None else self.lengths[start:stop]
        places = None if self.places is None else self.places[start:stop]
        return Rows(self.kind, columns, stop - start, self.start + start, self.origin, lengths, self.by, places)

    def take(self, where: Array) -> Rows:
        """The rows at these places."""
        columns = {name: take(column, where) for name, column in self.columns.items()}
        lengths = None if self.lengths is None else self.lengths[where]
        places = None if self.places is None else self.places[where]
        return Rows(self.kind, columns, where.size, self.start, self.origin, lengths, self.by, places)

    def where(self, name: Hashable = None) -> str:
        """Name these rows as an error says it."""
        rows = f"row {self.start}" if self.size == 1 else f"rows {self.start} to {self.start + self.size - 1}"
        return f"{rows}{self.origin}" if name is None else f"column {name!r}, {rows}{self.origin}"


def take(column: Given, where: Array) -> Any:
    """Some rows of a column."""
    if isinstance(column, Encoding) or type(column) is np.ndarray:
        return column[where]
    return take_rows(column, where)


def objects(values: Sequence[Any]) -> Array:
    """Strings, say, one per row, in an array."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def flat(column: object) -> Any:
    """A batch as `Ragged`, or as a `LoD` where it has more levels."""
    own = as_own(column)
    if own.keeps_levels and len(own._levels) > 1:
        return convert(own, LoD)
    return convert(own, Ragged)


def measure(rows: Rows, by: Hashable) -> Rows:
    """With the lengths of the rows of a column; without one, of the first that holds sequences."""
    if by is None:
        by = next((name for name, column in rows.columns.items() if isinstance(column, Encoding)), None)
    elif by not in rows.columns:
        known = ", ".join(map(repr, rows.columns))
        raise COLUMNS(f"there is no column {by!r} for by=; there are {known}")
    column = rows.columns.get(by)
    if not isinstance(column, Encoding):
        what = "no column holds sequences" if by is None else f"column {by!r} holds no sequences"
        raise COLUMNS(f"{what}, whose lengths decide the batches")
    return rows._replace(lengths=structure_of(column, 0).lengths, by=by)


class Fit:
    """Properties that all rows of a source must have in common: their columns, and the dtype and the levels of each."""

    def __init__(self) -> None:
        self.kind = ""
        self.like: dict[Hashable, Any] = {}

    def __call__(self, rows: Rows) -> Rows:
        """Cast rows where nothing is lost; StructureError where they cannot follow those before."""
        if not self.kind:
            self.kind = rows.kind
            self.like = dict.fromkeys(rows.columns)
        if rows.kind != self.kind or rows.columns.keys() != self.like.keys():
            given, before = (
                _kind_said(kind, names) for kind, names in ((rows.kind, rows.columns), (self.kind, self.like))
            )
            raise MIXED(f"{rows.where()}: {given}, but those before are {before}")
        columns = {name: self._fitting(name, rows.columns[name], rows) for name in self.like}
        return rows._replace(columns=columns)

    def _fitting(self, name: Hashable, column: Given, rows: Rows) -> Any:
        like = self.like[name]
        if like is None:
            if not isinstance(column, Encoding) or column.rows:
                self.like[name] = column[:0]
            return column
        try:
            return alike(column, like)
        except (SeqFormatError, TypeError) as error:
            raise MIXED(f"{rows.where('' if name is None else name)}: {error}") from error


def _kind_said(kind: str, names: Iterable[Hashable]) -> str:
    return "sequences" if kind == ROW_SEQUENCE else f"records of {', '.join(map(repr, names))}"


def alike(column: Given, like: Given) -> Any:
    """A column in the dtype of another, where nothing is lost; StructureError where it is."""
    if isinstance(column, Encoding) is not isinstance(like, Encoding):
        given, before = ("sequences" if isinstance(x, Encoding) else "single values" for x in (column, like))
        raise MIXED(f"these are {given}, but those before are {before}")
    if isinstance(column, Encoding):
        if len(column._levels) != len(like._levels):
            if column.rows or len(column._levels) > 1:
                raise LEVELS(f"these have {len(column._levels)} levels, but those before {len(like._levels)}")
            return _hollow(column, like)
        if not column.rows and (column.dtype != like.dtype or column.item_shape != like.item_shape):
            return _hollow(column, like)
    if column.dtype == like.dtype:
        return column
    given, wanted = column.dtype, like.dtype
    if isinstance(given, np.dtype) and isinstance(wanted, np.dtype):
        if given.kind in "USO" and wanted.kind in "USO":
            return column
        if np.can_cast(given, wanted, "safe"):
            return astype(column, wanted)
    raise MIXED(f"the items are {given}, but those before are {wanted}; give all in one dtype")


def _hollow(column: Given, like: Given) -> Any:
    """Sequences without items as `like` has them: what holds nothing has no dtype, or less levels, by chance alone."""
    if len(column._levels) == len(like._levels):
        return column._with_data(like.data[:0])
    return LoD.from_lengths(like.data[:0], [[0] * len(column), *[[] for _ in like._levels[1:]]])


def join(parts: Sequence[Rows]) -> Rows:
    """All rows of several, column by column."""
    first = parts[0]
    if len(parts) == 1:
        return first
    columns = {name: _join([part.columns[name] for part in parts]) for name in first.columns}
    lengths, places = (np.concatenate([getattr(part, name) for part in parts]) for name in ("lengths", "places"))
    size = sum(part.size for part in parts)
    return Rows(first.kind, columns, size, first.start, first.origin, lengths, first.by, places)


def _join(parts: list[Any]) -> Any:
    if isinstance(parts[0], Encoding):
        like = next((part for part in parts if part.rows), parts[0])
        return join_batches([alike(part, like) for part in parts])
    if all(type(part) is np.ndarray for part in parts):
        return np.concatenate(parts)
    return library_of(parts[0]).concatenate(parts)
