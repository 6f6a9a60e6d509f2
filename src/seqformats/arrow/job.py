"""A function over the columns of a table: in as encodings, its results out as columns; what every engine maps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ..converters.convert import convert
from ..errors import (
    BATCH,
    CHOICE,
    COLUMNS,
    KIND,
    MIXED,
    RESULT,
    RETURNED,
    SHAPE,
    SeqFormatError,
    again,
    quote,
)
from ..formats import LoD, Ragged
from ..formats.annotations import Given
from ..operations.library import to
from ..registry import kind_of
from .columns import from_arrow, from_table
from .writing import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

Function = Callable[..., Any]
"""What a user writes: columns in, by place; a dict of columns out, or one column."""
Shapes = Mapping[str, Sequence[int]]
Mapped = TypeVar("Mapped", bound=Callable[..., object])


@dataclasses.dataclass(frozen=True)
class Job:
    """A function, what it is given and what is kept beside its results; engines send it to their workers."""

    function: Function
    columns: tuple[str, ...]
    keep: bool | tuple[str, ...]
    missing: str
    items: object
    shapes: Mapping[str, tuple[int, ...]]
    large: bool = True  # have lists that are made offsets of 64 bits?

    @property
    def name(self) -> str:
        """The name of the user's function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def rename(self, mapped: Mapped) -> Mapped:
        """Under the name of the user's function, which engines show in plans and in progress."""
        mapped.__name__ = mapped.__qualname__ = self.name
        return mapped

    def kept_columns(self, names: Sequence[str]) -> list[str]:
        """The old columns that stay."""
        if isinstance(self.keep, bool):
            return list(names) if self.keep else []
        for name in self.keep:
            check_name(name, names)
        return list(self.keep)

    def compute_table(self, table: pa.Table) -> pa.Table:
        """A table with the results, arrays of rows among them as lists of a fixed size."""
        return self.table(table, column_of)

    def table(self, table: pa.Table, column: Callable[[Any], Any]) -> pa.Table:
        """Make a table of what is kept of one, and of the results as `column` makes columns of them."""
        return self.add_results(table, self.call(self.take_columns(table), table.num_rows), column)

    def take_columns(self, table: pa.Table) -> list[Any]:
        """The columns that the function gets."""
        self.kept_columns(table.column_names)  # before anything is done
        return [find_column(table, name) for name in self.columns]

    def call(self, given: Sequence[Any], rows: int, *more: Any, **options: Any) -> Any:
        """Call the function on columns, and on what an engine gives it beside them."""
        encodings = self._read_columns(given)
        try:
            return self.function(*encodings, *more, **options)
        except Exception as error:
            error.add_note(f"in {self.name}, given {format_names(self.columns)} of a batch of {rows} rows")
            raise

    def add_results(self, table: pa.Table, made: object, column: Callable[[Any], Any]) -> pa.Table:
        """Put what was made of a table beside what is kept of it."""
        import pyarrow as pa

        kept = self.kept_columns(table.column_names)
        new = self.results(made, table.num_rows, bool(kept))
        return pa.table({name: table[name] for name in kept} | {name: column(new[name]) for name in new})

    def results(self, made: object, rows: int, keep: bool, alone: str = "") -> dict[str, Any]:
        """Read what was made of columns: by name, arrays of Arrow or of NumPy's rows, all of one length.

        A result without a name is called `alone`, or as the only column given.
        """
        columns = {name: self._make_column(name, value) for name, value in self._by_name(made, alone).items()}
        for name, column in columns.items():
            wanted = rows if keep else len(next(iter(columns.values())))
            if len(column) != wanted:
                beside = f"the batch has {wanted}; keep=False drops its columns" if keep else f"others have {wanted}"
                raise RESULT(f"{self.name} gave column {name!r} with {len(column)} rows, but {beside}")
        return columns

    def _read_columns(self, given: Sequence[Any]) -> list[Any]:
        """Columns as the function takes them; errors name them."""
        import pyarrow as pa

        columns = [_call_step(name, _convert_tensors, column) for name, column in zip(self.columns, given, strict=True)]
        table = pa.table(columns, names=list(self.columns))
        taken = from_table(table, missing=self.missing, items=self.items)
        for name, shape in self.shapes.items():
            taken[name] = _call_step(name, _shape_column, taken[name], shape)
        return list(taken.values())

    def _by_name(self, made: Given, alone: str) -> Mapping[str, object]:
        if isinstance(made, tuple) and hasattr(made, "_asdict"):  # what `mask_tokens` gives, say
            return cast(Mapping[str, object], made._asdict())
        if not isinstance(made, Mapping):
            if len(self.columns) > 1 and not alone:
                raise RETURNED(
                    f"{self.name} takes {len(self.columns)} columns, so what it gives needs a name: "
                    f"return a dict, not {type(made).__name__}"
                )
            return {alone or self.columns[0]: made}
        for name in made:
            if not isinstance(name, str):
                raise RETURNED(f"{self.name} gave a dict that must name columns, but {quote(name)} is no name")
        return made

    def _make_column(self, name: str, value: object) -> Any:
        """One result: rows as an array of NumPy, all else as an array of Arrow; errors name it."""
        try:
            return _make_array(value, self.large)
        except (SeqFormatError, TypeError) as error:
            raise again(error, f"{self.name} gave column {name!r}: {error}") from error


def job_of(fn: Function, columns: str | Sequence[str], keep: bool | Sequence[str] = False, **options: Any) -> Job:
    """Checked where it is made, before anything is sent."""
    if not callable(fn):
        raise KIND(f"fn must be a function of columns, not {quote(fn)}")
    names = _names("columns", columns)
    if not names:
        raise KIND("columns must name at least one column")
    if len(set(names)) < len(names):
        raise KIND(f"columns must be different, not {format_names(names)}")
    return Job(fn, names, keep if isinstance(keep, bool) else _names("keep", keep), **_options(names, **options))


def _options(
    names: Sequence[str], missing: str = "raise", items: object = "raise", shapes: Shapes | None = None
) -> dict[str, Any]:
    """Collect the options by which columns are read."""
    if missing not in ("raise", "empty"):
        raise CHOICE(f"missing must be 'raise' or 'empty', not {quote(missing)}")
    if shapes is not None and not isinstance(shapes, Mapping):
        raise KIND(f"shapes must give item shapes by column, {{{names[0]!r}: (64,)}} say, not {quote(shapes)}")
    for name, shape in (shapes or {}).items():
        check_name(name, names)
        if not isinstance(shape, Sequence) or not shape or not all(isinstance(k, int) and k > 0 for k in shape):
            raise KIND(f"the item shape of {name!r} must be numbers from 1 up, not {quote(shape)}")
    return {
        "missing": missing,
        "items": items,
        "shapes": {name: tuple(shape) for name, shape in (shapes or {}).items()},
    }


def _names(option: str, given: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(given, Sequence):
        raise KIND(f"{option} must be names of columns, not {quote(given)}")
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise KIND(f"{option} must be names of columns, but {quote(name)} is none")
    return names


def format_names(names: Sequence[str]) -> str:
    """Names as an error says them."""
    return ", ".join(map(repr, names))


def check_name(name: str, names: Sequence[str]) -> None:
    """StructureError where a column is not there."""
    if name not in names:
        raise COLUMNS(f"no column {name!r} here; there are {format_names(names)}")


def find_column(table: pa.Table, name: str) -> Any:
    """A column of a table; StructureError where it is not there."""
    check_name(name, table.column_names)
    return table[name]


def _call_step(name: str, step: Callable[..., Any], *given: Any) -> Any:
    """A step in reading a column, whose errors name it."""
    try:
        return step(*given)
    except SeqFormatError as error:
        raise again(error, f"column {name!r}: {error}") from None


def _convert_tensors(column: Given) -> Any:
    """A column with tensors, Arrow's or Ray's, as lists: of a fixed size where all tensors have one shape."""
    import pyarrow as pa

    if not isinstance(column.type, pa.BaseExtensionType) or not hasattr(column.type, "shape"):
        return column
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_struct(whole.storage.type):
        return to_arrow(_of_several_lengths(whole))
    return to_arrow(whole.to_numpy_ndarray()) if not whole.null_count else whole.storage


def _of_several_lengths(tensors: Given) -> Ragged[Any]:
    """Ray's tensors of several shapes, stored as numbers beside shapes, where only the first axis varies."""
    numbers, shapes = map(from_arrow, tensors.storage.flatten())
    sizes = shapes.data.reshape(len(tensors), tensors.type.ndim)
    other = np.flatnonzero((sizes[:, 1:] != sizes[:1, 1:]).any(axis=1))
    if other.size:
        raise MIXED(
            f"its items have several shapes, {tuple(sizes[0, 1:].tolist())} in row 0 and "
            f"{tuple(sizes[other[0], 1:].tolist())} in row {other[0]}"
        )
    rows = sizes[:, 0].sum()
    return Ragged(numbers.data.reshape(rows, *(sizes[0, 1:] if len(sizes) else ())), sizes[:, 0])


def _shape_column(x: Given, shape: tuple[int, ...]) -> Any:
    """A column whose innermost lists are items of this shape, all or some of them being lists like others."""
    if isinstance(x, np.ndarray):
        data, levels = x, []
    else:
        x = convert(x, LoD)
        data, levels = x.data, list(x.lod)
    for size in reversed(shape[: len(shape) - (data.ndim - 1)]):
        if not levels:
            raise SHAPE(f"it has no lists that could be items of shape {shape}")
        sizes = np.diff(levels.pop())
        wrong = np.flatnonzero(sizes != size)
        if wrong.size:
            raise SHAPE(
                f"of the lists that should be items of shape {shape}, number {wrong[0]} has {sizes[wrong[0]]} numbers"
            )
        data = data.reshape(-1, size, *data.shape[1:])
    if data.shape[1:] != shape:
        raise SHAPE(f"its items have shape {data.shape[1:]}, not {shape}")
    if len(levels) > 1:
        return LoD(data, levels)
    return Ragged.from_offsets(data, levels[0]) if levels else data


def _make_array(value: object, large: bool) -> Any:
    """Rows as an array of NumPy, all else as an array of Arrow."""
    import pyarrow as pa

    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value
    if isinstance(value, (list, tuple)) and not isinstance(next(iter(value), None), (list, tuple, np.ndarray)):
        return pa.array(value)
    if isinstance(value, (list, tuple)) or kind_of(value) is not None:
        return to_arrow(value, large=large)
    rows = value if isinstance(value, np.ndarray) else to(cast(Any, value), "numpy")
    if not isinstance(rows, np.ndarray) or not rows.ndim:
        raise BATCH(f"it must be an encoding, or an array with one row for each, not {quote(value)}")
    return rows


def column_of(values: Given) -> Any:
    """Rows as a column of Arrow: an axis beside the first is a list of a fixed size."""
    return to_arrow(values) if isinstance(values, np.ndarray) else values


def single(job: Job, given: Sequence[Any]) -> Any:
    """Columns by place to one column: a result without a name, or the only one, as it is; others as a struct."""
    import pyarrow as pa

    if len(given) != len(job.columns):
        raise COLUMNS(f"{job.name} takes {format_names(job.columns)}, but {len(given)} columns came")
    rows = len(given[0])
    results = job.results(job.call(given, rows), rows, True, "result")
    made = {name: column_of(column) for name, column in results.items()}
    if not made:
        raise RESULT(f"{job.name} gave no column")
    if len(made) == 1:
        return next(iter(made.values()))
    parts = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in made.values()]
    return pa.StructArray.from_arrays(parts, names=list(made))
