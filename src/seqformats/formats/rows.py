"""Moving rows from where they lie to where they belong."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import LAZY_ZEROS, Array, Library, Shape, frozen
from ..launch.kernel import Work, kernel
from ..layout import Layout
from ..limits import NO_ROOM, no_room
from .structure import Structure, make_layout

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


make_source = functools.partial(tuple.__new__, Source)  # in half the time


def new_array(make: Any, shape: Shape, dtype: Any, like: Array) -> Array:
    """``make(shape, dtype, like)``; OutOfMemory where there is no room for it."""
    try:
        out: Array = make(shape, dtype, like)
        return out
    except NO_ROOM as error:
        raise no_room(shape, error) from None


class Room(NamedTuple):
    """What an encoding wants for some sequences."""

    lead: Shape  # the axes of its data before those of an item
    at: Layout  # where rows go
    gaps: tuple[Array, int, int, int] | None = None  # of a rectangle the used places, runs, places of a run, and side


make_room = functools.partial(tuple.__new__, Room)


def lay_out(source: Source, kind: Any, form: tuple[Any, ...] = (), fill: Any = 0) -> Any:
    """The rows of `source` as an encoding of `kind`, over the structure of `source`.

    `form` is what the encoding's layout depends on beside the structure; `fill` pads a rectangle.
    """
    library, data, at, structure, sample, item, _ = source
    lead, to, gaps = kind._room(structure, *form)
    rows, dtype = structure.rows, sample.dtype
    row = math.prod(item) * dtype.itemsize
    shape = (*lead, *item)
    padding: Array | tuple[()] | None = None
    make = library.empty
    if gaps is not None and rows != gaps[1] * gaps[2]:
        if type(fill) is not int or fill != 0:
            padding = library.item(fill, dtype, item)
        elif gaps[1] * gaps[2] * row >= LAZY_ZEROS and library.kind(sample) == "cpu":
            make = library.zeros
        else:
            padding = ()  # zeros
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


make_work = functools.partial(tuple.__new__, Work)


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
