"""Parts of every sequence: taken out, and put back where they were."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from .. import core
from ..arrays import NUMPY, Array, Library, library_of
from ..converters.convert import convert, restore
from ..converters.like import convert_like
from ..formats import Encoding, List, Ragged
from ..formats.leaves import without_data
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure
from ..gradients.operation import Pullback, linear
from ..launch.kernel import kernel
from ..layout import Layout
from .pick import move, pick, place
from .spread import sum_items

count_kept, move_kept = kernel("count_kept"), kernel("move_kept")


class Parts(Protocol):
    """Items that are taken of every sequence."""

    def take(self, z: Encoding) -> Any:
        """Take these items of `z`, outside of any graph."""

    def place(self, dy: Encoding, shape: Encoding) -> Any:
        """The way back: `dy` in its places in sequences like those of `shape`, zeros elsewhere."""


def take(x: Encoding, parts: Parts) -> Any:
    """The `forward` of an `Operation` whose check says which parts are taken."""
    return parts.take(x)


def rule_of_parts(x: Encoding, parts: Parts) -> tuple[Any, Pullback]:
    """The `rule` of such an operation."""
    shape = without_data(x)
    return parts.take(x), lambda dy: linear(lambda d: parts.place(d, shape), parts.take, dy)


class Runs(NamedTuple):
    """Items that are kept of every sequence, in the order in which they lie there."""

    kept: Structure  # of what is kept
    pieces: Structure  # the runs, one after the other; where there is one per sequence, `kept` itself
    starts: Array  # where each begins in the rows of all sequences

    def take(self, z: Encoding) -> Any:
        """`z` itself where nothing is cut off; of a `List` views."""
        kept, pieces, starts = self
        structure = z._structure
        if kept.rows == structure.rows:
            return z
        one = pieces is kept
        if one and not z._in_one_array:
            z._look()
            begins = (starts - structure.offsets[:-1]).tolist()
            items = [a[i : i + k] for a, i, k in zip(z._leaves(), begins, kept.lengths.tolist(), strict=True)]
            return List(tuple(items), z._sample())
        r = z if z._flat else convert(z, Ragged)
        library, data, cum = r._look(), r.data, pieces.offsets
        at = Layout(starts, cum, cum, -1, 0, 1, 0)
        source = (library, data, at, pieces, data, r._shape[1:], None)
        if one:
            form = ((*z._levels[:-1], kept),) if z.keeps_levels else z._form(kept.longest)
            return lay_out(source, type(z), form)
        return convert_like(Ragged._freeze(lay_out(source, Ragged).data, kept), z)

    def place(self, dy: Encoding, shape: Encoding) -> Any:
        """By one move."""
        source = Source(*convert(dy, Ragged)._read())
        out = source.empty(shape._structure.rows, zeros=True)
        put_rows(source._replace(at=self.pieces.flat, structure=self.pieces), out, self.starts)
        return restore(Ragged._freeze(out, shape._structure), shape)


class Picks(NamedTuple):
    """Items of every sequence that do not lie side by side, in any order."""

    kept: Structure  # of the result
    places: Array  # of each, in its sequence

    def take(self, z: Encoding) -> Any:
        """In the encoding of `z`."""
        return pick(z, self.places, self.kept)

    def place(self, dy: Encoding, shape: Encoding) -> Any:
        """No place comes twice."""
        return place(dy, self.places, shape, once=True)


class Kept(NamedTuple):
    """The marked items of every sequence, in their order."""

    kept: Structure  # of the result
    marks: Array  # a bool for each item, flat, beside the items; on the host bytes, as kernels take them

    @classmethod
    def from_marks(cls, marks: Array, structure: Structure) -> Kept:
        """Keep the marked items; their numbers are copied to the host once."""
        library = library_of(marks)
        if library is not NUMPY and library.kind(marks) != "cpu":
            counts = library.to_numpy(sum_items(Ragged._freeze(marks, structure)))
            return cls(Structure.of_lengths(counts.astype(np.int64)), marks)
        marks = library.operand(marks)
        return cls(core.build_structure(count_kept.run, structure.n, 0, marks, structure.offsets)[0], marks)

    def take(self, z: Encoding) -> Any:
        """In the encoding of `z`."""
        return move(move_kept, z, self.kept, self.marks, 0)

    def place(self, dy: Encoding, shape: Encoding) -> Any:
        """No place comes twice."""
        source, structure = Source(*convert(dy, Ragged)._read()), shape._structure
        out = source.empty(structure.rows, zeros=True)
        self.put(source.library, cast(Array, source.data), out, structure)
        return restore(Ragged._freeze(out, structure), shape)

    def put(self, library: Library, rows: Array, out: Array, structure: Structure) -> None:
        """Write `rows`, one for each mark, over the marked rows of `out`, which has those of `structure`."""
        row = math.prod(rows.shape[1:]) * out.dtype.itemsize
        if row and self.kept.rows:
            move_kept.start(
                library, (rows,), (out,), (structure.flat, self.kept.offsets, self.marks, 1), row, self.kept
            )
