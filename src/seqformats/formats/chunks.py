"""`Chunks`: a `LoD` of pieces of sequences, which knows where in them each begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .. import core
from ..arrays import Array, freeze
from ..errors import COUNTS, LENGTHS, LEVELS
from ..launch.kernel import kernel
from .annotations import Data, Integers, Shaped
from .encoding import no_state
from .lod import LoD
from .structure import Structure, integers, with_views

cover_chunks = kernel("cover_chunks")


class Cover(NamedTuple):
    """Chunks that hold the items of their sequences, in runs of items that the same chunks hold.

    Row r of the sequences, which is in run u, is row ``r + shifts[c]`` of the chunks, for each of the ``counts[u]``
    chunks c from ``first[u]`` on.
    """

    runs: Structure  # in their order, of all rows of the sequences
    first: Array
    counts: Array
    shifts: Array  # of every chunk

    @property
    def most(self) -> int:
        """The number of chunks that hold an item, at most."""
        return int(self.counts.max(initial=0))

    @property
    def row_count(self) -> int:
        """The rows of chunks that are no padding."""
        return int((self.counts * self.runs.lengths).sum())


class Origin:
    """Origin of chunks; all batches over the same chunks share one."""

    __slots__ = ("cover", "levels", "starts", "whole")

    levels: tuple[Structure, ...]  # of the chunks
    starts: Array  # the place of the first item of each
    whole: Structure  # the sequences
    cover: Cover  # computed when it is first asked for

    def __init__(self, levels: tuple[Structure, ...], starts: Array, whole: Structure) -> None:
        self.levels = levels
        self.starts = starts
        self.whole = whole

    def __getattr__(self, name: str) -> Any:
        """Make what has not been asked for yet."""
        if name != "cover":
            raise AttributeError(f"an Origin has no {name}")
        chunks, items = self.levels[-2:]
        runs: Array = np.empty((3, 2 * items.n + chunks.n), np.int64)
        shifts: Array = np.empty(items.n, np.int64)
        found = cover_chunks.run(
            self.starts, items.offsets, chunks.offsets, self.whole.offsets, runs.reshape(-1), shifts
        )
        if found < 0:
            raise LENGTHS(self._fault(-1 - found))
        lengths, first, counts = runs[:, :found].copy()
        self.cover = Cover(Structure.of_lengths(lengths), freeze(first), freeze(counts), freeze(shifts))
        return self.cover

    def _fault(self, c: int) -> str:
        chunks, items = self.levels[-2:]
        i = int(np.searchsorted(chunks.offsets, c, side="right")) - 1
        length, start = int(self.whole.lengths[i]), int(self.starts[c])
        where = f"starts[{c}] is {start}, for chunk {c - chunks.offsets[i]} of sequence {i}"
        if not 0 <= start <= length:
            return f"{where}, which has {length} items"
        before = int(self.starts[c - 1])
        if start <= before:
            return f"{where}, but must be after {before}, where the chunk before begins"
        return f"{where}, and its {items.lengths[c]} items end before the {items.lengths[c - 1]} from {before} on do"

    def take(self, levels: tuple[Structure, ...], pick: Any) -> Origin:
        """Choose some outermost sequences, whose levels these are; ``pick(x)`` gives them of a `LoD`."""
        starts = pick(LoD._from_levels(self.starts, self.levels[:-1])).data
        above = self.levels[:-2]
        whole = pick(LoD._from_levels(self.whole.lengths, above)) if above else pick(self.whole.lengths)
        return Origin(levels, freeze(starts), Structure.of_lengths((whole.data if above else whole).copy()))


class _Cut(LoD[Data]):
    """A slot more: what is beside the fields of a dataclass has its place in a class below it."""

    __slots__ = ("_origin",)

    _origin: Origin
    _starts: Array  # the fields themselves, see `with_views`
    _sequence_lengths: Array


@with_views("starts", "sequence_lengths")
@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Chunks(_Cut[Data]):
    """Pieces of sequences, as `chunk` makes them: a `LoD` which knows where in its sequence each piece begins.

    Parameters
    ----------
    data : array ``(rows, *item)``
    lod : offset arrays, outermost level first, at least two
        The innermost but one level has the sequences, of chunks; the innermost one the chunks, of items.
    starts : integers, one per chunk
        The place of its first item in its sequence.  In each sequence they rise, and so do the ends, or stay.
    sequence_lengths : integers, one per sequence
        The lengths of the sequences themselves.  What a chunk has past the end of its sequence is padding.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    StructureError
        If the fields do not fit each other.

    See Also
    --------
    chunk : From sequences to chunks.
    unchunk : The way back.

    Notes
    -----
    It takes part in everything as the `LoD` that it is, and stays what it is where that keeps the lengths: by-item
    operations, wrappers, `convert_like`, outermost sequences by index.  Whatever changes the lengths gives a `LoD`.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.chunk(sf.Ragged(np.arange(7), [5, 2]), 3, 1)
    >>> x
    Chunks(shape (8,), int64, cpu, 2 levels, 2 sequences of lengths [2, 1])
    >>> x.to_nested()
    [[[0, 1, 2], [2, 3, 4]], [[5, 6]]]
    >>> x.starts
    array([0, 2, 0])
    """

    starts: Array
    sequence_lengths: Array

    if TYPE_CHECKING:  # a dataclass makes this of its fields, but takes more than they hold

        def __init__(
            self, data: Data, lod: Sequence[Integers] | Shaped, starts: Integers, sequence_lengths: Integers
        ) -> None: ...

    __setstate__ = no_state

    def __post_init__(self) -> None:
        LoD.__post_init__(self)
        levels = self._levels
        if len(levels) < 2:
            raise LEVELS("lod must have at least two levels, the sequences of chunks and the chunks of items")
        starts = integers(self._starts, "starts")
        lengths = integers(self._sequence_lengths, "sequence_lengths")
        for what, given, count, of in (
            ("starts", starts, levels[-1].n, "chunks"),
            ("sequence_lengths", lengths, levels[-2].n, "sequences of chunks"),
        ):
            if given.size != count:
                raise COUNTS(f"{what} has {given.size} numbers, but there are {count} {of}")
        origin = Origin(levels, freeze(starts), Structure.of_lengths(lengths, None, "sequence_lengths"))
        _ = origin.cover  # which checks
        self._set(starts=origin.starts, sequence_lengths=origin.whole.lengths, _origin=origin)

    @classmethod
    def _from_origin(cls, data: Shaped, origin: Origin) -> Self:
        """Make `Chunks` of fields that have been checked."""
        x: Self = core.make_object(
            cls,
            data=data,
            lod=tuple([level.offsets for level in origin.levels]),
            starts=origin.starts,
            sequence_lengths=origin.whole.lengths,
            _levels=origin.levels,
            _structure=origin.levels[-1],
            _shape=data.shape,
            _dtype=data.dtype,
            _origin=origin,
        )
        return x

    def _with_data(self, data: Shaped) -> Self:
        return self._from_origin(data, self._origin)

    def _sub(self, level: int, start: int, stop: int) -> Any:
        x = LoD._sub(self, level, start, stop)
        if level:
            return x
        sliced = slice(start, stop)
        return self._from_origin(x.data, self._origin.take(x._levels, lambda y: y[sliced]))

    def _choose(self, where: Array) -> Any:
        x = LoD._choose(self, where)
        return self._from_origin(x.data, self._origin.take(x._levels, lambda y: y[where]))


def origin_of(x: object) -> Origin | None:
    """Give the record of where the sequences of a batch are from; None where it has none."""
    return x._origin if isinstance(x, Chunks) else None
