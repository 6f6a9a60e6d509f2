"""Engines for what outgrows one machine: a function over encodings as their maps take it.

The engine moves and schedules, and the function stays as it was on one process: it gets the named columns of a batch,
each as an encoding (lists) or as an array of rows (numbers, lists of a fixed size), and returns new columns under their
names::

    def pool(tokens):
        return {"vector": sf.reduce_mean(tokens)}

    dataset.map_batches(sf.engines.ray(pool, ["tokens"]), batch_format="pyarrow")
    frame.mapInArrow(sf.engines.spark(pool, ["tokens"], schema), schema)
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrow.job import Function, Job, Shapes, check_name, column_of, find_column, job_of, single
from .errors import COLUMNS, KIND, SeqFormatError, import_extra, quote
from .formats.annotations import Given

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyspark.sql.types

__all__ = ["dask", "duckdb", "polars", "ray", "spark"]


def ray(
    fn: Function,
    columns: str | Sequence[str],
    *,
    keep: bool | Sequence[str] = True,
    missing: str = "raise",
    items: object = "raise",
    shapes: Shapes | None = None,
) -> Callable[[pa.Table], pa.Table]:
    """A function over encodings for the `map_batches` of Ray Data.

    ::

        dataset.map_batches(sf.engines.ray(pool, ["tokens"]), batch_format="pyarrow")

    Parameters
    ----------
    fn : callable
        Gets each column of `columns` by place: lists as an encoding (`Ragged`, of lists in lists `LoD`), numbers,
        tensors and lists of a fixed size as an array of rows.  Returns a dict or a named tuple of new columns, each an
        encoding, an array with one row for each row of the batch, or an array of Arrow; or one of these alone, which
        takes the place of the only column given.
    columns : str or sequence of str
        What `fn` takes.
    keep : bool or sequence of str
        The old columns that stay: all, none or these.  Without any, `fn` may give more or fewer rows.
    missing : {"raise", "empty"}
        What a null list is: an error, or an empty sequence.
    items : "raise" or a value
        What a null item is: an error, or this value.
    shapes : mapping of str to sequences of int, optional
        The item shapes of columns, where the engine does not know them: Spark has no lists of a fixed size, DuckDB
        reads none from Parquet, and Ray loses them where rows are Python objects.  Without it a column of embeddings
        has one more level there.

    Returns
    -------
    callable
        Takes a table of Arrow and returns one.  Arrays of rows with item shapes are tensors of Ray there, so that
        `take_batch` and `iter_batches` give arrays of their dtype; encodings are columns of lists.

    Raises
    ------
    StructureError
        In the worker: a null, or results that do not fit the batch; the column is named, and the row in its batch.  Ray
        shows it in the `RayTaskError` that it raises.
    ModuleNotFoundError
        Ray is not there.

    Notes
    -----
    Tensors of Ray whose first axis varies come as an encoding, those of one shape as an array of rows.

    An error of `fn` ends the job; it says the columns that it was given.  A task whose worker *dies* is tried again
    without end, by Ray Data's own default; with `max_retries=2` given to `map_batches` a `WorkerCrashedError` ends the
    job.  Either way no part of a batch is in the result.

    Examples
    --------
    >>> import seqformats as sf
    >>> import pyarrow as pa
    >>> pool = sf.engines.ray(lambda tokens: {"sum": sf.reduce_sum(tokens)}, ["tokens"])
    >>> pool(pa.table({"tokens": [[1, 2], [], [3]]})).to_pydict()
    {'tokens': [[1, 2], [], [3]], 'sum': [3, 0, 3]}
    """
    import_extra("ray", "ray")
    job = job_of(fn, columns, keep, missing=missing, items=items, shapes=shapes)

    def map_rows(table: pa.Table) -> pa.Table:
        return job.table(table, _tensor)

    return job.rename(map_rows)


def _tensor(values: Given) -> Any:
    """Rows as a column of Ray: with an item shape a tensor."""
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return column_of(values)
    from ray.data.extensions import ArrowTensorArray

    return ArrowTensorArray.from_numpy(np.ascontiguousarray(values))


def spark(
    fn: Function,
    columns: str | Sequence[str],
    schema: str | pyspark.sql.types.StructType,
    *,
    missing: str = "raise",
    items: object = "raise",
    shapes: Shapes | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function over encodings for the `mapInArrow` of Spark.

    ::

        schema = "id long, vector array<float>"
        frame.mapInArrow(sf.engines.spark(pool, ["tokens"], schema), schema)

    Parameters
    ----------
    fn, columns, missing, items, shapes
        As `ray` takes them.
    schema : str or StructType
        The columns of the result with their types, as `mapInArrow` takes them: results of `fn`, and old columns that
        stay.  Results are cast to these types.

    Returns
    -------
    callable
        Takes an iterator over record batches and returns one.  Lists, of whatever kind in Arrow, are Spark's arrays.

    Raises
    ------
    StructureError
        In the worker: a null, or a result that does not fit the batch or the schema; the column is named.  Spark shows
        it in the `PythonException` that it raises.
    ModuleNotFoundError
        PySpark is not there.

    Notes
    -----
    A schema in words is read by the running session.  Spark gives a function 10,000 rows at a time
    (`spark.sql.execution.arrow.maxRecordsPerBatch`).  A worker that dies is an error of the job after as many tries as
    `spark.task.maxFailures` says.

    Examples
    --------
    >>> import seqformats as sf
    >>> from pyspark.sql.types import ArrayType, LongType, StructType
    >>> schema = StructType().add("tokens", ArrayType(LongType()))
    >>> sf.engines.spark(sf.reverse, "tokens", schema).__name__
    'reverse'
    """
    import_extra("pyspark", "spark")
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, StructType):
        raise KIND(f"schema must be a StructType or its words, such as 'id long, x array<float>', not {quote(schema)}")
    types = to_arrow_schema(parsed)
    job = job_of(fn, columns, missing=missing, items=items, shapes=shapes)

    def map_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            yield from _in_schema(job, pa.Table.from_batches([batch]), types).to_batches()

    return job.rename(map_rows)


def _in_schema(job: Job, table: pa.Table, types: pa.Schema) -> pa.Table:
    """The results beside the old columns, as a schema names and types them."""
    import pyarrow as pa

    stay = [name for name in types.names if name in table.column_names]
    made = dataclasses.replace(job, keep=tuple(stay)).compute_table(table)
    columns = []
    for field in types:
        column = find_column(made, field.name)
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise COLUMNS(f"column {field.name!r} is {column.type}, not {field.type}: {error}") from error
    return pa.table(columns, names=types.names)


def dask(
    fn: Function,
    columns: str | Sequence[str],
    *,
    keep: bool | Sequence[str] = True,
    missing: str = "raise",
    items: object = "raise",
    shapes: Shapes | None = None,
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function over encodings for the `map_partitions` of Dask.

    ::

        pooled = sf.engines.dask(pool, ["tokens"])
        frame.map_partitions(pooled, meta=pooled(frame._meta))

    Parameters
    ----------
    fn, columns, keep, missing, items, shapes
        As `ray` takes them.

    Returns
    -------
    callable
        Takes a data frame of pandas and returns one, with the same index.  New columns have types of Arrow
        (`pandas.ArrowDtype`).  Of a frame without rows it makes one without rows, so it says its own `meta`.

    Raises
    ------
    StructureError
        A null, or results that do not fit the partition; the column is named.
    ModuleNotFoundError
        Dask is not there.

    Notes
    -----
    Columns should have types of Arrow, as `dask.dataframe.read_parquet(..., dtype_backend="pyarrow")` reads them: a
    column of Python objects is looked through item by item, and one without rows does not say its type.

    Examples
    --------
    >>> import seqformats as sf
    >>> import pandas as pd, pyarrow as pa
    >>> frame = pd.DataFrame({"tokens": pd.Series([[1, 2], [3]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))})
    >>> sf.engines.dask(lambda tokens: {"sum": sf.reduce_sum(tokens)}, ["tokens"])(frame)["sum"].tolist()
    [3, 3]
    """
    import_extra("dask", "dask")
    job = job_of(fn, columns, keep, missing=missing, items=items, shapes=shapes)

    def map_rows(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd
        import pyarrow as pa

        kept = job.kept_columns(list(frame.columns))
        for name in job.columns:
            check_name(name, list(frame.columns))
        table = pa.Table.from_pandas(frame[list(job.columns)], preserve_index=False)
        made = job.results(job.call([table[name] for name in job.columns], len(frame)), len(frame), bool(kept))
        index = frame.index if all(len(column) == len(frame) for column in made.values()) else None
        arrays = {name: pd.arrays.ArrowExtensionArray(column_of(column)) for name, column in made.items()}
        return pd.DataFrame({name: frame[name] for name in kept} | arrays, index=index)

    return job.rename(map_rows)


def polars(
    fn: Function,
    columns: str | Sequence[str],
    *,
    keep: bool | Sequence[str] = True,
    missing: str = "raise",
    items: object = "raise",
    shapes: Shapes | None = None,
) -> Callable[..., Any]:
    """A function over encodings for the maps of Polars.

    ::

        pooled = sf.engines.polars(pool, ["tokens"])
        frame.pipe(pooled)
        lazy.map_batches(pooled, schema=schema)
        frame.select(pl.col("tokens").map_batches(pooled, return_dtype=pl.Array(pl.Float32, 64)))

    Parameters
    ----------
    fn, columns, keep, missing, items, shapes
        As `ray` takes them.

    Returns
    -------
    callable
        From a `DataFrame` it makes a `DataFrame`.  From a `Series`, or a list of them, one for each of `columns`, it
        makes a `Series`: the result of `fn`, or a struct of the results that it names.  Arrays of rows are `Array`,
        encodings `List`.

    Raises
    ------
    StructureError
        A null, or results that do not fit the frame; the column is named.  Polars may raise it in a `ComputeError`.
    ModuleNotFoundError
        Polars is not there.

    Examples
    --------
    >>> import seqformats as sf
    >>> import polars as pl
    >>> frame = pl.DataFrame({"tokens": [[1, 2], [], [3]]})
    >>> frame.pipe(sf.engines.polars(lambda tokens: {"sum": sf.reduce_sum(tokens)}, ["tokens"]))["sum"].to_list()
    [3, 0, 3]
    """
    import_extra("polars", "polars")
    job = job_of(fn, columns, keep, missing=missing, items=items, shapes=shapes)

    def map_rows(given: pl.DataFrame | pl.Series | Sequence[pl.Series]) -> pl.DataFrame | pl.Series:
        import polars as pl

        if isinstance(given, pl.DataFrame):
            kept = job.kept_columns(given.columns)
            for name in job.columns:
                check_name(name, given.columns)
            columns = [given[name].to_arrow() for name in job.columns]
            made = job.results(job.call(columns, given.height), given.height, bool(kept))
            new = {name: pl.Series(name, pl.from_arrow(column_of(column))) for name, column in made.items()}
            return pl.DataFrame({name: given[name] for name in kept} | new)
        series = [given] if isinstance(given, pl.Series) else list(given)
        column = single(job, [one.to_arrow() for one in series])
        return pl.Series(series[0].name, pl.from_arrow(column))

    return job.rename(map_rows)


def duckdb(
    fn: Function,
    columns: str | Sequence[str],
    *,
    missing: str = "raise",
    items: object = "raise",
    shapes: Shapes | None = None,
) -> Callable[..., Any]:
    """A function over encodings as a function of SQL in DuckDB, over Arrow.

    ::

        pooled = sf.engines.duckdb(pool, ["tokens"])
        connection.create_function("pool", pooled, ["FLOAT[64][]"], "FLOAT[64]", type="arrow")
        connection.sql("select id, pool(tokens) from corpus")

    Parameters
    ----------
    fn, missing, items, shapes
        As `ray` takes them.
    columns : str or sequence of str
        Names of the arguments, for errors.

    Returns
    -------
    callable
        Takes columns of Arrow by place and returns one: the result of `fn`, or a struct of the results that it names.
        DuckDB casts it to the type that `create_function` is told.

    Raises
    ------
    StructureError
        A null, or a result that does not fit the batch; the column is named.  DuckDB shows it in the
        `InvalidInputException` that it raises.
    ModuleNotFoundError
        DuckDB is not there.

    Notes
    -----
    DuckDB gives a function about 2,000 rows at a time and leaves rows with a null argument out, which are null in the
    result; with `null_handling="special"` they come in, see `missing`.

    Examples
    --------
    >>> import seqformats as sf
    >>> import duckdb, pyarrow as pa
    >>> corpus = pa.table({"tokens": [[1, 2], [], [3]]})
    >>> connection = duckdb.connect()
    >>> total = sf.engines.duckdb(sf.reduce_sum, ["tokens"])
    >>> _ = connection.create_function("total", total, ["BIGINT[]"], "BIGINT", type="arrow")
    >>> connection.sql("select total(tokens) from corpus").fetchall()
    [(3,), (0,), (3,)]
    """
    import_extra("duckdb", "duckdb")
    job = job_of(fn, columns, missing=missing, items=items, shapes=shapes)

    def map_rows(*given: Any) -> Any:
        try:
            return single(job, given)
        except Exception as error:  # DuckDB shows the words of an error, and not its notes
            raise SeqFormatError("; ".join([f"{type(error).__name__}: {error}", *_notes(error)])) from error

    # DuckDB asks how many arguments there are
    places = [inspect.Parameter(f"column_{k}", inspect.Parameter.POSITIONAL_ONLY) for k in range(len(job.columns))]
    map_rows.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return job.rename(map_rows)


def _notes(error: Exception) -> list[str]:
    return getattr(error, "__notes__", [])
