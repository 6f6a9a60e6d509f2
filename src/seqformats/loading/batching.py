"""`batches`: what is larger than memory, in batches of sequences of similar length."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import registry
from ..converters.convert import check_target, convert
from ..converters.layouts import check_at_least, one_of
from ..errors import KIND, OPTION, TOGETHER, quote
from ..formats import Masked, Ragged
from ..formats.annotations import Given
from ..formats.structure import flag
from ..operations.costs import Cost, cost_limit
from ..operations.library import to as brought
from ..operations.options import key_of
from .loader import UNEVEN, WORKERS, Batches, Target, share_of
from .rows import ROW_SEQUENCE, Rows, Wanted
from .sources import Source, source_of
from .windows import Plan


def batches(
    source: Given,
    *,
    max_items: int,
    to: type = Masked,
    columns: str | Sequence[Hashable] | None = None,
    by: Hashable = None,
    shuffle: bool = False,
    shuffle_buffer: int | None = None,
    seed: int | None = None,
    rank: int | None = None,
    world: int | None = None,
    uneven: str = "repeat",
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
        - a ``Dataset`` or an ``IterableDataset`` of Hugging Face, a ``Dataset`` of Ray or an iterator over one;
        - an encoding, or a dict of encodings and arrays.

        Only one thread at a time reads it, and few rows at a time.
    max_items : int
        The maximum number of items in a batch, counted in the column `by`, with padding if `padded`.
    to : type
        The type of the batches: an encoding, or ``list``.  In a column with more levels each row is a sequence.
    columns : str or list of str, optional
        Columns to read.  With a single name batches are encodings, else dicts.
    by : str, optional
        The column whose lengths decide, by default the first that holds sequences.  Strings in it, or in a single
        column, are sequences of bytes (UTF-8); in other columns they are single values.
    shuffle : bool
        True for a random order, another one in each epoch.  Rows in memory, of tables and of a ``Dataset`` are drawn
        from all rows.  Of files, or shards of an ``IterableDataset``, up to 32 are read at once, in a random order, and
        each window is filled with rows of all of these.  Other sources have one order alone.
    shuffle_buffer : int, optional
        How many rows a window holds in memory; it does not shuffle by itself.  By default as many as make about 100
        batches, but at most 65,536; 0 keeps the order.
    seed : int, optional
        With `shuffle`, the seed of the order of all rows, by default 0.  Without `shuffle`, rows and files come in
        their order, and `seed` draws only the order of the batches of a window, and of rows of the same length; without
        `seed` the longest batches of a window come first.  Each epoch has another order.
    rank, world : int, optional
        The number of this process, and the number of processes that share the batches.  All must have the same source
        and options; each plans all batches and makes its own.
    uneven : "repeat", "drop" or "keep"
        If the batches cannot be shared evenly: repeat the last batch, drop the last few, or let some ranks have one
        less.
    prefetch : int
        How many batches a thread makes in advance; with 0 the calling thread makes each when it is asked for.
    drop_last : bool
        True to leave out the last batch if another sequence would fit into it.  With `shuffle` this is done after each
        400 batches, see below.
    padded : bool, optional
        Whether padding counts, by default if `to` has padding.
    max_sequences : int, optional
        The maximum number of sequences in a batch.
    cost : optional
        The cost of a sequence by its length, or by its width if `padded`: coefficients or a function, see `balance`.
    max_cost : float, optional
        The maximum cost of a batch, as in `buckets`.
    too_long : "raise" or "drop"
        For a row over `max_items` or `max_cost`: an error, or leave it out.
    missing, items
        For null sequences, and for null items and single values, see `from_arrow`.
    library, device
        Where the arrays of a batch are, see `to`.
    progress : bool or str
        True for a bar of tqdm, where that is installed.  A text stands before it.
    workers : "raise", "divide" or "each"
        Within the workers of a ``DataLoader`` of PyTorch, where there are several: an error; they divide the batches,
        so that the loader returns what it would without any; or each gives all rows, of a source that is its own part
        already.
    **options
        For `convert`: fill, side, multiple_of, width, ...; a dict has one for each column, ``fill={"labels": -100}``.

    Returns
    -------
    iterable
        Each ``for`` over it reads the source anew (an iterator once), and is an epoch.  A batch is what `to` says where
        rows are sequences; of records a dict or a tuple, with arrays for columns of single values.

        - ``set_epoch(k)`` says which epoch is next; they are counted from 0.
        - ``state_dict()`` says where the last iteration is, in plain ints, and ``load_state_dict(state)`` lets the next
          one go on there.  Where the workers of a ``DataLoader`` have the iterations, ``state_dict(taken=k)`` is told
          how many batches of the epoch have been used.  torchdata's ``StatefulDataLoader`` asks the iterators of its
          workers, which have both methods too.
        - ``close()``, the end of a ``with`` over it or over one of its iterators, an error, and an iterator that nobody
          holds any more end the thread.

    Raises
    ------
    StructureError
        For a row that does not fit those before or is too long, and for a file that cannot be read, with the column
        and the row; an error of the source's own comes through.  Batches before it have been given.
    ConversionError
        For options that cannot be honoured.
    TypeError
        For an object that is no source, and for unknown options.

    See Also
    --------
    buckets : The same for lengths that are all known.

    Notes
    -----
    The same source, options and seed give the same batches, whatever `prefetch` and however the source comes in parts;
    several ranks or workers give those that one would give, in turn.  All of a window's batches but the last are as
    full as can be; what that holds goes to the next window.  With `shuffle` nothing goes on after about 400 batches, so
    that an iteration which is resumed begins to read there.  Without it that is so where the order is kept; else all
    rows up to the next batch are read again, and not laid out.

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
        check_at_least(max_items, "max_items", 1),
        by,
        flag(padded, "padded"),
        check_at_least(options.get("multiple_of", 1), "multiple_of", 1) if gapped else 1,
        check_at_least(options["width"], "width", 0) if gapped and options.get("width") is not None else None,
        bool(options.get("truncate", False)),
        None if max_sequences is None else check_at_least(max_sequences, "max_sequences", 1),
        None if shuffle_buffer is None else check_at_least(shuffle_buffer, "shuffle_buffer", 0),
        (key_of(0 if seed is None else seed),) if flag(shuffle, "shuffle") or seed is not None else None,
        too_long,
        flag(drop_last, "drop_last"),
        bool(shuffle),
    )
    if cost is not None and not (callable(cost) or isinstance(cost, tuple)):
        raise KIND(f"the cost of what is read is a tuple of coefficients or a function of lengths, not {quote(cost)}")
    limit = cost_limit(cost, max_cost)
    plan = plan if max_cost is None else plan._replace(cost=cost, max_cost=limit)
    one_of(too_long, "too_long", ("raise", "drop"))
    one_of(missing, "missing", ("raise", "empty"))
    one_of(workers, "workers", WORKERS)
    one_of(uneven, "uneven", UNEVEN)
    if not isinstance(by, Hashable):
        raise KIND(f"by must be the name of a column, not {quote(by)}")
    ahead = check_at_least(prefetch, "prefetch", 0)
    found = source_of(source, Wanted(chosen, text, missing, items))
    if single:
        found = found.transform(_alone)
    share = share_of(rank, world)
    _check_order(found, plan, share[1])
    if not isinstance(progress, (bool, str)):
        raise KIND(f"progress must be True, False or a text, not {quote(progress)}")
    return Batches(
        found,
        plan,
        target,
        prefetch=ahead,
        progress=progress,
        workers=workers,
        share=share,
        uneven=uneven,
        columns=chosen,
    )


def _check_order(source: Source, plan: Plan, world: int) -> None:
    """ConversionError where a source cannot be shuffled or divided."""
    if plan.shuffle and plan.window == 0:
        raise TOGETHER("shuffle=True and shuffle_buffer=0, which keeps the order, exclude each other")
    if source.unordered and (plan.shuffle or world > 1):
        raise TOGETHER(f"rows can be neither shuffled nor divided here: {source.unordered}")
    if plan.shuffle and source.mixed is None:
        raise TOGETHER(
            "shuffle=True needs a source of which any row or several parts can be read, and this one is read in its "
            "order alone; seed= shuffles the batches of each window"
        )


def _alone(pieces: Iterator[Rows]) -> Iterator[Rows]:
    """Take the only column out of records."""
    for rows in pieces:
        (column,) = rows.columns.values()
        yield rows._replace(kind=ROW_SEQUENCE, columns={None: column})


def _names(columns: str | Sequence[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(columns, str):
        return (columns,)
    if not isinstance(columns, (list, tuple)) or not all(isinstance(name, (str, int)) for name in columns):
        raise KIND(f"columns must be a name or a list of names, not {quote(columns)}")
    return tuple(columns)


def _target(to: type, options: dict[str, Any], library: str | None, device: object) -> Target:
    """Read what batches are to be; what cannot be said of any is refused before one is made."""
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
