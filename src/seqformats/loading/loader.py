"""Iterations over `batches`: for each epoch, rank and worker, from any batch on."""

from __future__ import annotations

import sys
import weakref
import zlib
from collections.abc import Hashable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from .. import registry
from ..converters.convert import convert
from ..converters.layouts import check_at_least
from ..errors import KIND, RANGE, RETURNED, TOGETHER, TURN, SeqFormatError, again, quote
from ..formats import Encoding
from ..formats.annotations import Given
from ..operations.costs import costs_of
from ..operations.library import to as brought
from .read_ahead import Ahead
from .rows import ROW_SEQUENCE, ROW_TUPLE, Fit, Rows
from .sources import Source
from .windows import Deal, Mark, Plan, deal_batches, plan_batches

WORKERS = ("raise", "divide", "each")
UNEVEN = ("repeat", "drop", "keep")


class Made(NamedTuple):
    """A batch, of how many rows it is, where to begin for it, and its turn."""

    batch: Any
    size: int
    mark: Mark
    turn: int


class Target(NamedTuple):
    """Target of rows: the kind, options, library and device that batches are to have."""

    kind: type
    options: dict[str, Any]
    library: str | None
    device: object

    def make_batch(self, rows: Rows) -> Any:
        """The columns of some rows as a batch."""
        made = {name: self._column(column, name) for name, column in rows.columns.items()}
        if rows.kind == ROW_SEQUENCE:
            return made[None]
        return tuple(made.values()) if rows.kind == ROW_TUPLE else made

    def _column(self, column: Given, name: Hashable) -> Any:
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
"""Defaults of options that may be given for each column."""


class Place(NamedTuple):
    """Place of an iteration: its epoch, its next turn, where to begin reading for it, and of how many workers it is."""

    epoch: int = 0
    turn: int = 0
    mark: Mark = Mark()
    workers: int = 1


class Batches:
    """Batches that `batches` makes: every iteration over them reads the source anew."""

    def __init__(
        self,
        source: Source,
        plan: Plan,
        target: Target,
        *,
        prefetch: int,
        progress: bool | str,
        workers: str,
        share: tuple[int, int],
        uneven: str,
        columns: tuple[Hashable, ...] | None,
    ) -> None:
        self._source, self._plan, self._target, self._workers = source, plan, target, workers
        self._prefetch, self._progress, self._uneven = prefetch, progress, uneven
        self._columns = columns
        self._rank, self._world = share
        self._epoch, self._read = 0, False
        self._resumed: Place | None = None
        self._seal: int | None = None
        self._last: _At | None = None
        self._running: list[weakref.ref[_Run]] = []  # without callbacks, which Ctrl-C could interrupt

    def __iter__(self) -> _Run:
        worker, workers = _worker(self._workers)
        begin = self._resumed or Place(self._epoch)
        begin = begin._replace(turn=begin.turn + worker, workers=workers)
        run = _Run(self, begin)
        self._last = run.at
        self._running = [known for known in self._running if known() is not None] + [weakref.ref(run)]
        return run

    def _begin(self, place: Place) -> Iterator[Made]:
        """The batches from a place on."""
        if self._source.once and self._read:
            raise TURN(
                "the source is an iterator, and has been read; give what can be read again, a list or a dataset say"
            )
        plan, mark = self._plan, place.mark
        if plan.seed is not None:
            plan = plan._replace(seed=(*plan.seed, place.epoch))
        self._epoch, self._read, self._resumed, self._seal = place.epoch + 1, True, None, None
        if plan.shuffle:  # of what is read now; files that are not shuffled are not all opened before they are read
            self._freeze()
        deal = Deal(self._rank, self._world, place.turn, place.workers, self._uneven)
        made = _laid_out(self._source, plan, self._target, mark, deal)
        return Ahead(made, self._prefetch) if self._prefetch else made

    @property
    def epoch(self) -> int:
        """The number of the next iteration."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """The number of the next iteration, which is part of the seed; they are counted from 0.

        An iteration that has been resumed by `load_state_dict` goes on where it was only in its own epoch.
        """
        self._epoch = check_at_least(epoch, "epoch", 0)
        if self._resumed is not None and self._resumed.epoch != epoch:
            self._resumed = None
        if self._last is not None and self._last.place.epoch != epoch:
            self._last = None

    def state_dict(self, taken: int | None = None) -> dict[str, int]:
        """Return the place of the last iteration, to be saved.

        Parameters
        ----------
        taken : int, optional
            How many batches of the epoch this rank has used.  Without it, how many the iteration has returned.

        Returns
        -------
        dict
            Plain ints, the same on all ranks that have used as many.

        Raises
        ------
        StructureError
            Without `taken`, where the workers of a ``DataLoader`` have the iterations.
        ConversionError
            For a source whose rows come in another order each time.
        """
        last = self._last
        if taken is None and last is None and self._workers != "raise":
            raise TURN(
                "the iterations are those of the workers of a DataLoader, so this process does not know how many "
                "batches have been used; give state_dict(taken=...), or save the state of a StatefulDataLoader"
            )
        place = self._resumed or (Place(self._epoch) if last is None else last.place)
        if taken is not None:
            turn = check_at_least(taken, "taken", 0)
            mark = place.mark if place.mark.batch <= turn * self._world else Mark()
            place = Place(place.epoch, turn, mark)
        return self._state(place)

    def _state(self, place: Place) -> dict[str, int]:
        self._check_order("state_dict")
        state = {"epoch": place.epoch, "taken": place.turn, "workers": place.workers, "world": self._world}
        return state | place.mark._asdict() | {"plan": self._digest(), "source": self._freeze()}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from what `state_dict` has returned: the next iteration gives the batches that were left.

        Parameters
        ----------
        state : dict

        Raises
        ------
        ConversionError
            For a state of other options, of other or changed files, or of more or fewer ranks or workers.
        TypeError
            For what `state_dict` has not returned.

        Notes
        -----
        Of an epoch that was over nothing is left; `set_epoch` says that the next one comes.
        """
        self._seal = None  # files may have changed since it was found
        self._resumed = self._place(state, 1)
        self._epoch, self._last = self._resumed.epoch, None

    def _place(self, state: Mapping[str, int], workers: int) -> Place:
        """The place in a state, if it is one of the same batches."""
        self._check_order("load_state_dict")
        keys = {"epoch", "taken", "workers", "world", "plan", "source", *Mark._fields}
        if not isinstance(state, Mapping) or not keys <= state.keys():
            raise RETURNED(f"a state is what state_dict() has returned, not {quote(state)}")
        known = {key: check_at_least(state[key], key, 0) for key in keys}
        if known["plan"] != self._digest():
            raise TOGETHER("the state is that of other options or of another seed, which give other batches")
        for key, here in (("world", self._world), ("workers", workers)):
            if known[key] != here:
                raise TOGETHER(f"the state is that of one of {known[key]} {_NAMES[key]}, but here are {here}")
        if known["source"] != self._freeze():
            raise TOGETHER("the state is that of another source, or of files that have changed since")
        mark = Mark(*(known[key] for key in Mark._fields))
        if mark.batch > known["taken"] * self._world:
            raise RETURNED(f"a state is what state_dict() has returned, not {quote(state)}")
        return Place(known["epoch"], known["taken"], mark, workers)

    def _check_order(self, name: str) -> None:
        if self._source.unordered:
            raise TOGETHER(f"{name} needs rows that come in the same order each time: {self._source.unordered}")

    def _freeze(self) -> int:
        if self._seal is None:
            self._seal = 0 if self._source.seal is None else self._source.seal()
        return self._seal

    def _digest(self) -> int:
        """A number that differs where batches do."""
        plan, costs = self._plan._replace(cost=None), b""
        if self._plan.max_cost is not None:  # a function is known by what it gives
            costs = costs_of(np.arange(257), self._plan.cost).tobytes()
        return zlib.crc32(costs, zlib.crc32(repr((plan, self._uneven, self._columns)).encode()))

    def close(self) -> None:
        """End what runs, and its threads."""
        for run in (known() for known in self._running):
            if run is not None:
                run.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _bar(self, workers: int) -> Any:
        if self._progress is False:
            return None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
        text = self._progress if isinstance(self._progress, str) else None
        total = self._source.total
        if total is not None:
            total //= self._world * workers
        return tqdm(desc=text, total=total, unit=" sequences", unit_scale=True)


_NAMES = {"world": "ranks", "workers": "workers"}


def _worker(workers: str) -> tuple[int, int]:
    """The number of this worker, and how many workers divide the batches.

    ConversionError for one of several workers where `workers` is "raise", since each would give all batches.
    """
    data: Any = sys.modules.get("torch.utils.data")  # without it no process is a worker
    info = None if data is None or workers == "each" else data.get_worker_info()
    if info is None or info.num_workers == 1:
        return 0, 1
    if workers == "raise":
        raise TOGETHER(
            f"this is worker {info.id} of {info.num_workers} of a DataLoader, each of which would give all rows; "
            'workers="divide" divides the batches among them, workers="each" is for a source that differs from worker '
            "to worker"
        )
    return int(info.id), int(info.num_workers)


class _At:
    """The place of an iteration, which outlives it."""

    def __init__(self, place: Place) -> None:
        self.place = place


class _Run(Iterator[Any]):
    """One iteration: `close`, an error and the end of it end its thread."""

    def __init__(self, owner: Batches, place: Place) -> None:
        self._owner, self.at = owner, _At(place)
        self._made: Any = owner._begin(place)
        self._bar = owner._bar(place.workers)

    def __next__(self) -> Any:
        try:
            batch, size, mark, turn = next(self._made)
        except BaseException:  # the end, an error, or Ctrl-C
            self.close()
            raise
        place = self.at.place
        self.at.place = place._replace(turn=turn + place.workers, mark=mark)
        if self._bar is not None:
            self._bar.update(size)
        return batch

    def state_dict(self) -> dict[str, int]:
        """Return the place of this iteration, as a loader of torchdata asks for it."""
        return self._owner._state(self.at.place)

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from there."""
        place = self._owner._place(state, self.at.place.workers)
        self._made.close()
        self._made, self.at.place = self._owner._begin(place), place

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


def _laid_out(source: Source, plan: Plan, target: Target, mark: Mark, deal: Deal) -> Iterator[Made]:
    """The batches of all windows."""
    seed = plan.seed if plan.shuffle else None
    fit = Fit()
    if mark.row and not source.once:
        first = next((rows for rows in source.rows(seed, 0) if rows.size), None)
        if first is not None:
            fit(first)  # which later rows are cast to
    steps = plan_batches(source.rows(seed, mark.row), plan, mark, fit)
    for rows, begin, turn in deal_batches(steps, deal, mark.batch):
        yield Made(target.make_batch(rows), rows.size, begin, turn)
        del rows


def share_of(rank: int | None, world: int | None) -> tuple[int, int]:
    """Tell which of how many processes this is."""
    if (rank is None) != (world is None):
        raise KIND(f"rank and world go together, but rank={quote(rank)} and world={quote(world)}")
    if rank is None:
        return 0, 1
    count = check_at_least(world, "world", 1)
    place = check_at_least(rank, "rank", 0)
    if place >= count:
        raise RANGE(f"rank must be below world={count}, but is {place}")
    return place, count
