"""`batches`: what is larger than memory, in batches of sequences of similar length."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from .. import registry
from ..converters.convert import check_target, convert
from ..converters.layouts import at_least, one_of
from ..errors import KIND, OPTION, TOGETHER, TURN, SeqFormatError, again, said
from ..formats import Encoding, Masked, Ragged
from ..operations.costs import Cost, cost_limit
from ..operations.library import to as brought
from ..operations.options import flag, key_of
from .ahead import Ahead
from .rows import ONE, TUPLE, Rows, Wanted
from .sources import Source, source_of
from .windows import Plan, planned


class _Made(NamedTuple):
    """A batch, and of how many rows it is."""

    batch: Any
    size: int


class Target(NamedTuple):
    """What batches are to be."""

    kind: type
    options: dict[str, Any]
    library: str | None
    device: object

    def of(self, rows: Rows) -> Any:
        """The columns of some rows as a batch."""
        made = {name: self._column(column, name) for name, column in rows.columns.items()}
        if rows.kind == ONE:
            return made[None]
        return tuple(made.values()) if rows.kind == TUPLE else made

    def _column(self, column: Any, name: Hashable) -> Any:
        try:
            if isinstance(column, Encoding):
                column = convert(column, self.kind, **self._options(column, name))
            elif column.dtype == object:
                return column
            if self.library is None and self.device is None:
                return column
            return brought(column, self.library, device=self.device)
        except SeqFormatError as error:
            if name is None:
                raise
            raise again(error, f"column {name!r}: {error}") from error

    def _options(self, column: Encoding, name: Hashable) -> dict[str, Any]:
        options = {
            key: value.get(name, _DEFAULTS.get(key)) if isinstance(value, dict) else value
            for key, value in self.options.items()
        }
        if column.keeps_levels and not registry.keeps_levels(self.kind) and self.kind is not list:
            options["level"] = 0  # a row of the source is a sequence of the batch
        return options


_DEFAULTS = {"fill": 0, "side": "right"}
"""Of options that may be given for each column."""


class Batches:
    """What `batches` gives: every iteration over it reads the source anew."""

    def __init__(
        self, source: Source, plan: Plan, target: Target, prefetch: int, progress: bool | str, workers: str
    ) -> None:
        self._source, self._plan, self._target, self._workers = source, plan, target, workers
        self._prefetch, self._progress = prefetch, progress
        self._epoch, self._read = 0, False
        self._running: weakref.WeakSet[_Run] = weakref.WeakSet()

    def __iter__(self) -> _Run:
        if self._source.once and self._read:
            raise TURN(
                "the source is an iterator, and has been read; give what can be read again, a list or a dataset say"
            )
        plan = self._plan._replace(share=_share(self._workers))
        if plan.seed is not None:
            plan = plan._replace(seed=(*plan.seed, self._epoch))
        self._epoch, self._read = self._epoch + 1, True
        run = _Run(_laid_out(self._source.read, plan, self._target), self._prefetch, self._bar(*plan.share))
        self._running.add(run)
        return run

    def set_epoch(self, epoch: int) -> None:
        """The number of the next iteration, which is part of the seed; they are counted from 0."""
        self._epoch = at_least(epoch, "epoch", 0)

    def close(self) -> None:
        """End what runs, and its threads."""
        for run in list(self._running):
            run.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _bar(self, place: int, count: int) -> Any:
        if self._progress is False:
            return None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        text = self._progress if isinstance(self._progress, str) else None
        total = self._source.total
        if total is not None:
            total = len(range(place, total, count))
        return tqdm(desc=text, total=total, unit=" sequences", unit_scale=True)


WORKERS = ("raise", "divide", "each")


def _share(workers: str) -> tuple[int, int]:
    """The number of this process, and of how many that divide the rows; ConversionError where nobody has said so."""
    data: Any = sys.modules.get("torch.utils.data")  # without it no process is a worker
    info = None if data is None or workers == "each" else data.get_worker_info()
    if info is None or info.num_workers == 1:
        return 0, 1
    if workers == "raise":
        raise TOGETHER(
            f"this is worker {info.id} of {info.num_workers} of a DataLoader, each of which would give all rows; "
            'workers="divide" divides the rows among them, workers="each" is for a source that differs from worker to '
            "worker"
        )
    return int(info.id), int(info.num_workers)


class _Run(Iterator[Any]):
    """One iteration: `close`, an error and the end of it end its thread."""

    def __init__(self, made: Iterator[_Made], prefetch: int, bar: Any) -> None:
        self._made: Any = Ahead(made, prefetch) if prefetch else made
        self._bar = bar

    def __next__(self) -> Any:
        try:
            batch, size = next(self._made)
        except BaseException:  # the end, an error, or Ctrl-C
            self.close()
            raise
        if self._bar is not None:
            self._bar.update(size)
        return batch

    def close(self) -> None:
        """Nothing comes any more."""
        self._made.close()
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> _Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _laid_out(read: Callable[[], Iterator[Rows]], plan: Plan, target: Target) -> Iterator[_Made]:
    """The batches of all windows."""
    for window, where in planned(read(), plan):
        rows = window.chosen(where)
        del window  # while the next one is read
        yield _Made(target.of(rows), rows.size)
        del rows


def batches(
    source: Any,
    *,
    max_items: int,
    to: type = Masked,
    columns: str | Sequence[Hashable] | None = None,
    by: Hashable = None,
    shuffle_buffer: int | None = None,
    seed: int | None = None,
    prefetch: int = 2,
    drop_last: bool = False,
    padded: bool | None = None,
    max_sequences: int | None = None,
    cost: Cost | None = None,
    max_cost: float | None = None,
    too_long: str = "raise",
    missing: str = "raise",
    items: Any = "raise",
    library: str | None = None,
    device: object = None,
    progress: bool | str = False,
    workers: str = "raise",
    **options: Any,
) -> Batches:
    """Batches of sequences of similar length, read from what may be larger than memory.

    Rows are gathered into windows, sorted by length in each, and cut into batches of a limited size, by a thread that
    reads and lays out while the caller computes.  Memory holds a window, never the source.

    Parameters
    ----------
    source : what yields rows
        - an iterable of rows: sequences (arrays, lists), records of several columns (dicts, tuples), or encodings and
          tables with many rows each;
        - Arrow data: a table, a stream or a column of any library that speaks Arrow's C interfaces, a
          ``pyarrow.dataset.Dataset``;
        - a path of a Parquet or Arrow file, or of a folder of them;
        - a ``Dataset`` or an ``IterableDataset`` of Hugging Face;
        - an encoding, or a dict of encodings and arrays.

        Only one thread at a time reads it, and few rows at a time.
    max_items : int
        The most items of a batch, those of the column `by`; where `padded`, padding is counted.
    to : type
        What batches are: an encoding, or ``list``.  Of a column with more levels a row is a sequence.
    columns : str or list of str, optional
        Which columns; of a single name the batches are encodings, without it dicts.
    by : str, optional
        The column whose lengths decide, the first that holds sequences without it.  Strings there, or in a single
        column, are sequences of bytes (UTF-8); elsewhere they are single values.
    shuffle_buffer : int, optional
        How many rows a window has.  Without it as many as make about 100 batches, or 65,536; 0 keeps the order.
    seed : int, optional
        For a random order: of rows of the same length, and of the batches in a window; another one in each iteration.
        Without it the longest of a window come first.
    prefetch : int
        How many batches a thread makes before they are asked for; 0: none, in the calling thread.
    drop_last : bool
        Is the last batch left out, where another sequence would find room in it?
    padded : bool, optional
        Does padding count?  It does where `to` has some.
    max_sequences : int, optional
        The most sequences of a batch.
    cost : optional
        What a sequence costs, by its length, or where `padded` its width: coefficients or a function, see `balance`.
    max_cost : float, optional
        The most that a batch costs, as `buckets` has it.
    too_long : "raise" or "drop"
        What becomes of a row that is over `max_items` or `max_cost`.
    missing, items
        For null sequences, and for null items and single values, see `from_arrow`.
    library, device
        Where the arrays of a batch are, see `to`.
    progress : bool or str
        Is a bar of tqdm shown, where that is installed?  A text stands before it.
    workers : "raise", "divide" or "each"
        Within the workers of a ``DataLoader`` of PyTorch, where there are several: an error; every worker gives its
        part of the rows, though it reads all; or it gives all rows, of a source that is its own part already.
    **options
        For `convert`: fill, side, multiple_of, width, ...; a dict has one for each column, ``fill={"labels": -100}``.

    Returns
    -------
    iterable
        Each ``for`` over it reads the source anew (an iterator once).  A batch is what `to` says where rows are
        sequences; of records a dict or a tuple, with arrays for columns of single values.  ``set_epoch(k)`` says which
        order is next; ``close()``, the end of a ``with`` over it or over one of its iterators, an error, and an
        iterator that nobody holds any more end the thread.

    Raises
    ------
    StructureError
        For a row that does not fit those before or is too long, and for a file that cannot be read, with the column
        and the row; an error of the source's own comes through.  Batches before it have been given.
    ConversionError
        For options that cannot be honoured.
    TypeError
        For what is no source, and for unknown options.

    See Also
    --------
    buckets : The same for lengths that are all known.

    Notes
    -----
    The same source, options and seed give the same batches, whatever `prefetch` and however the source comes in parts.
    All of a window's batches but the last are as full as can be; what that holds goes to the next window.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> rows = ({"ids": np.arange(k), "label": k} for k in (5, 1, 4, 2))
    >>> for batch in sf.batches(rows, max_items=10, fill=-1):
    ...     print(batch["label"], batch["ids"].data.tolist())
    [5 4] [[0, 1, 2, 3, 4], [0, 1, 2, 3, -1]]
    [2 1] [[0, 1], [0, -1]]
    """
    single = isinstance(columns, str)
    chosen = None if columns is None else _names(columns)
    text = chosen if by is None and chosen is not None and len(chosen) == 1 else () if by is None else (by,)
    target = _target(to, options, library, device)
    gapped = bool(getattr(to, "_gapped", False))
    if padded is None:
        padded = gapped
    plan = Plan(
        at_least(max_items, "max_items", 1),
        by,
        flag(padded, "padded"),
        at_least(options.get("multiple_of", 1), "multiple_of", 1) if gapped else 1,
        at_least(options["width"], "width", 0) if gapped and options.get("width") is not None else None,
        bool(options.get("truncate", False)),
        None if max_sequences is None else at_least(max_sequences, "max_sequences", 1),
        None if shuffle_buffer is None else at_least(shuffle_buffer, "shuffle_buffer", 0),
        None if seed is None else (key_of(seed),),
        too_long,
        flag(drop_last, "drop_last"),
    )
    if cost is not None and not (callable(cost) or isinstance(cost, tuple)):
        raise KIND(f"the cost of what is read is a tuple of coefficients or a function of lengths, not {said(cost)}")
    limit = cost_limit(cost, max_cost)
    plan = plan if max_cost is None else plan._replace(cost=cost, max_cost=limit)
    one_of(too_long, "too_long", ("raise", "drop"))
    one_of(missing, "missing", ("raise", "empty"))
    one_of(workers, "workers", WORKERS)
    if not isinstance(by, Hashable):
        raise KIND(f"by must be the name of a column, not {said(by)}")
    ahead = at_least(prefetch, "prefetch", 0)
    found = source_of(source, Wanted(chosen, text, missing, items))
    if single:
        found = found._replace(read=_alone(found.read, columns))
    if not isinstance(progress, (bool, str)):
        raise KIND(f"progress must be True, False or a text, not {said(progress)}")
    return Batches(found, plan, target, ahead, progress, workers)


def _alone(read: Callable[[], Iterator[Rows]], name: Hashable) -> Callable[[], Iterator[Rows]]:
    """Of records their only column."""

    def again() -> Iterator[Rows]:
        for rows in read():
            yield rows._replace(kind=ONE, columns={None: rows.columns[name]})

    return again


def _names(columns: str | Sequence[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(columns, str):
        return (columns,)
    if not isinstance(columns, (list, tuple)) or not all(isinstance(name, (str, int)) for name in columns):
        raise KIND(f"columns must be a name or a list of names, not {said(columns)}")
    return tuple(columns)


def _target(to: type, options: dict[str, Any], library: str | None, device: object) -> Target:
    """What batches are to be; what cannot be said of any is refused before one is made."""
    check_target(to)
    if "level" in options:
        raise OPTION("batches takes no level=: a row of the source is a sequence of a batch; flatten_levels goes first")
    if to is list and (library is not None or device is not None):
        raise TOGETHER("to=list holds Python numbers, of no library")
    registry.route(Ragged, to, "cpu", options).place(options)
    alike = {name: value for name, value in options.items() if not isinstance(value, dict) and name != "fill"}
    convert(Ragged(np.zeros(0), []), to, **alike)  # a fill is right or wrong by the dtype
    if library is not None or device is not None:
        brought(np.zeros(0), library, device=device)
    return Target(to, options, library, device)
