"""Moving rows from where they lie to where they belong."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..arrays import LAZY_ZEROS, Array, DType, Library, Shape, frozen, zero_item
from ..launch.kernel import Work, kernel
from ..layout import Layout
from ..limits import NO_ROOM, no_room
from .structure import Structure, make_layout

if TYPE_CHECKING:  # an encoding imports this file
    from .encoding import Encoding

E = TypeVar("E", bound="Encoding")

copy_blocks = kernel("copy_blocks")
pad_blocks = kernel("pad_blocks")
# Between blocks and time steps: by the width of a row, and the way.
words_to_steps, blocks_to_steps = kernel("words_to_steps"), kernel("blocks_to_steps")
steps_to_words, steps_to_blocks = kernel("steps_to_words"), kernel("steps_to_blocks")
WORDS = (1, 2, 4, 8)
"""Bytes of a row for which the host has kernels that move squares of words."""


class Source(NamedTuple):
    """Rows to be read."""

    library: Library
    data: Array | tuple[Array, ...]  # several arrays where their addresses say where rows are
    at: Layout
    structure: Structure
    sample: Array  # an array of the same library, device and dtype
    item: Shape
    begins: Array | None = None  # the addresses of time steps, where each is an array of its own

    def restricted(self, structure: Structure, starts: Array) -> Source:
        """Blocks of the lengths of `structure` that begin at rows (or addresses) `starts`."""
        cum = structure.offsets
        at = make_layout((starts, cum, cum, -1, 0, 1, self.at.absolute))
        return make_source((self.library, self.data, at, structure, self.sample, self.item, None))

    def _read(self) -> Source:
        """Itself: whoever takes an encoding to be read, takes this too."""
        return self

    def empty(self, rows: int, zeros: bool = False) -> Array:
        """A new array for so many rows."""
        make = self.library.zeros if zeros else self.library.empty
        return new_array(make, (rows, *self.item), self.sample.dtype, self.sample)


# The constructors of tuples, in half the time of those of named tuples, which are Python functions.
make_source: Callable[[tuple[object, ...]], Source] = functools.partial(tuple.__new__, Source)


def new_array(make: Callable[[Shape, DType, Array], Array], shape: Shape, dtype: DType, like: Array) -> Array:
    """``make(shape, dtype, like)``; OutOfMemory where there is no room for it."""
    try:
        return make(shape, dtype, like)
    except NO_ROOM as error:
        raise no_room(shape, error) from None


class Room(NamedTuple):
    """What an encoding wants for some sequences."""

    lead: Shape
    """The axes of its data before those of an item."""
    at: Layout
    """Where rows go."""
    gaps: tuple[Array, int, int, int] | None = None
    """Where data has places that no row takes: it is so many runs of so many places each.

    The rows before each run ``(runs + 1,)``, the runs, the places of each, and 1 where rows are at the end of a run.
    """


make_room: Callable[[tuple[object, ...]], Room] = functools.partial(tuple.__new__, Room)


def lay_out(source: Source, kind: type[E], form: tuple[object, ...] = (), fill: object = 0) -> E:
    """The rows of `source` as an encoding of `kind`, over the structure of `source`.

    `form` is what the encoding's layout depends on beside the structure; `fill` pads a rectangle.
    """
    library, data, at, structure, sample, item, _ = source
    lead, to, gaps = kind._room(structure, *form)
    rows, dtype = structure.rows, sample.dtype
    row = math.prod(item) * dtype.itemsize
    shape = (*lead, *item)
    padding = None
    make = library.empty
    if gaps is not None and rows != gaps[1] * gaps[2]:
        if type(fill) is not int or fill != 0:
            padding = library.item(fill, dtype, item)
        elif gaps[1] * gaps[2] * row >= LAZY_ZEROS and library.kind(sample) == "cpu":
            make = library.zeros
        else:
            padding = _zeros[:row] if row <= _MOST_ZEROS else zero_item(row)
    elif type(fill) is not int:
        library.item(fill, dtype, item)  # is checked though nothing is filled
    try:
        out = make(shape, dtype, sample)
    except NO_ROOM as error:
        raise no_room(shape, error) from None
    if row:
        if rows:
            if at[5] == 1 and to[5] == 1:  # steps of a single column are a block
                copy_blocks.start(library, (data,), (out,), (at, to), row, structure)
            else:
                move_steps(source, out, to, row)
        if padding is not None and gaps is not None:
            cum, runs, width, left = gaps
            work = make_work((runs, runs * width - rows, None))
            pad_blocks.start(library, (padding,), (out,), (cum, width, left), row, structure, work)
    return kind._sealed(out, structure, *form)


make_work: Callable[[tuple[object, ...]], Work] = functools.partial(tuple.__new__, Work)
_MOST_ZEROS = 1 << 16
_zeros = zero_item(_MOST_ZEROS)


def move(source: Source, out: Array, to: Layout) -> None:
    """Move all rows of `source` to `out`, where `to` says.

    The sequences in time steps of both have the same order.
    """
    row = math.prod(source.item) * source.sample.dtype.itemsize
    if source.structure.rows and row:
        if source.at.step == 1 and to.step == 1:
            copy_blocks.start(source.library, (source.data,), (out,), (source.at, to), row, source.structure)
        else:
            move_steps(source, out, to, row)


def move_steps(source: Source, out: Array, to: Layout, row: int) -> None:
    """The same where time steps are on one side, or on both."""
    library, data, at, structure, sample, _, begins = source
    args: tuple[Any, ...]
    if at.step == 1:
        words = row in WORDS and library.kind(sample) == "cpu"
        mover, args = words_to_steps if words else blocks_to_steps, (at, to)
    elif to.step == 1:
        words = row in WORDS and library.kind(sample) == "cpu"
        mover = steps_to_words if words else steps_to_blocks
        args = (at.steps if begins is None else begins, at, to)
    else:  # the same steps on both sides: a step is a block
        longest = structure.longest
        cum = structure.order.steps[: longest + 1]
        work = make_work((longest, structure.rows, structure.order.size_at_t[:longest]))
        args = (
            make_layout((cum if begins is None else begins, cum, cum, at.step or -1, 0, 1, at.absolute)),
            make_layout((cum, cum, cum, to.step or -1, 0, 1, 0)),
        )
        copy_blocks.start(library, (data,), (out,), args, row, structure, work)
        return
    mover.start(library, (data,), (out,), args, row, structure)


def put_rows(source: Source, out: Array, starts: Array) -> None:
    """Move all rows of `source` to `out`, sequence i from row ``starts[i]`` on."""
    cum = source.structure.offsets
    move(source, out, make_layout((starts, cum, cum, -1, 0, 1, 0)))


def cut(source: Source, longest: int) -> Source:
    """The same rows, in blocks, without those past `longest` in each sequence; the first ones stay."""
    old, at = source.structure, source.at
    structure = Structure.of_lengths(np.minimum(old.lengths, longest))
    if at.stride < 0:
        starts = frozen(at.starts[: old.n].copy())
    else:
        starts = np.arange(old.n) * at.stride
        if at.left:
            starts += at.stride - old.lengths
        frozen(starts)
    return source.restricted(structure, starts)


def mask_beside(library: Library, like: Array, lengths: Array, width: int, side: str) -> Array:
    """``(n, width)`` bool beside `like`, True where there is an item: what is padding in the complement."""
    n = lengths.size
    out = new_array(library.zeros, (n, width), library.bool_dtype, like)
    if n * width:
        free = Structure.of_lengths(width - lengths)
        args = (free.offsets, width, int(side == "right"))
        pad_blocks.start(library, (_TRUE,), (out,), args, 1, free, Work(n, n * width - free.rows))
    return out


_TRUE = frozen(np.ones(1, np.uint8))
