"""Moving rows from where they lie to where they belong."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np

from .. import core
from ..arrays import LAZY_ZEROS, NUMPY, Array, Library, Shape, freeze
from ..launch.kernel import Work, kernel, planning
from ..layout import Layout
from ..memory_checks import NO_ROOM, allocate, no_room
from .call_plans import by_plan, by_plan_of, is_on_gpu, rows_on_gpu
from .structure import Structure

E = TypeVar("E")  # an encoding; these import this file

copy_blocks = kernel("copy_blocks")
pad_blocks = kernel("pad_blocks")
pad_rows = kernel("pad_rows")  # both of these at once
fill_mask = kernel("fill_mask")
# Between blocks and time steps: by the width of a row, and the way.
words_to_steps, blocks_to_steps = kernel("words_to_steps"), kernel("blocks_to_steps")
steps_to_words, steps_to_blocks = kernel("steps_to_words"), kernel("steps_to_blocks")
WORD_SIZES = (1, 2, 4, 8)
"""Bytes of a row for which the host has kernels that move squares of words."""


class Readable(Protocol):
    """An encoding, or a `Source`."""

    @property
    def _structure(self) -> Structure: ...
    @property
    def _can_plan(self) -> bool: ...
    @property
    def data(self) -> Any:
        """Items."""

    def _read(self) -> tuple[Any, ...]: ...


class Source(NamedTuple):
    """Rows to be read."""

    library: Library
    data: Array | tuple[Array, ...]  # several arrays where their addresses say where rows are
    at: Layout
    structure: Structure
    sample: Array  # an array of the same library, device and dtype
    item: Shape
    begins: Array | None = None  # the addresses of time steps, where each is an array of its own

    def restrict(self, structure: Structure, starts: Array) -> Source:
        """Blocks of the lengths of `structure` that begin at rows (or addresses) `starts`."""
        cum = structure.offsets
        at = Layout(starts, cum, cum, -1, 0, 1, self.at.absolute)
        return Source(self.library, self.data, at, structure, self.sample, self.item, None)

    @property
    def _structure(self) -> Structure:
        return self.structure

    def _read(self) -> Source:
        """Itself: what an encoding answers, too."""
        return self

    def empty(self, rows: int, zeros: bool = False) -> Array:
        """A new array for so many rows."""
        make = self.library.zeros if zeros else self.library.empty
        return allocate(make, (rows, *self.item), self.sample.dtype, self.sample)


Gaps = tuple[Array, int, int, int]
"""The places that no row takes, in data that is so many runs of so many places each.

The rows before each run ``(runs + 1,)``; how many runs; the places of each; 1 where rows are at the end of their run.
"""
OutputSpec = tuple[Shape, Layout, Gaps | None]
"""What an encoding wants for some sequences: the axes of its data before those of an item, where rows go, and gaps."""


def lay_out(x: Readable | tuple[Any, ...], kind: type[E], form: tuple[Any, ...] = (), fill: object = 0) -> E:
    """The rows of an encoding, or those that the fields of a `Source` tell, as an encoding of `kind`.

    `form` is what the encoding's layout depends on beside the structure; `fill` pads a rectangle.
    """
    target: Any = kind
    given: Any = x
    is_planned = planning and type(fill) is int and not isinstance(x, tuple)
    if is_planned and not target.keeps_levels and is_on_gpu(given):
        data = by_plan(given, (given.data,), (kind, form, fill), _moved_of, given, target, form, fill)
        moved: E = target._freeze(data, given._structure, *form)
        return moved
    items = rows_on_gpu(given) if is_planned and not target.keeps_levels and not given._in_one_array else ()
    if items:
        key = (kind, form, fill), given.__class__, given._dtype, given._shape, items[0].__class__
        data = by_plan_of(given._structure, items, key, _moved_of, given, target, form, fill)
        return cast(E, target._freeze(data, given._structure, *form))
    source = x if isinstance(x, tuple) else x._read()
    library, sample, item = source[0], source[4], source[5]
    zeros = type(fill) is int and fill == 0
    padding: Any = (
        () if zeros else library.item(fill, sample.dtype, item)
    )  # which is checked where nothing is filled, too
    found: E | None = core.lay_out(source, kind, form, padding)
    if found is not None:
        return found
    made: E = target._freeze(_move_rows(source, target, form, padding), source[3], *form)
    return made


def _moved_of(x: Readable, target: Any, form: tuple[Any, ...], fill: int) -> Array:
    source = x._read()
    return _move_rows(source, target, form, source[0].item(fill, source[4].dtype, source[5]) if fill else ())


def _move_rows(source: tuple[Any, ...], target: Any, form: tuple[Any, ...], padding: Any) -> Array:
    """The data of the encoding `target`; `padding` is the bytes of an item, () for zeros."""
    library, data, at, structure, sample, item, begins = source
    zeros = type(padding) is tuple
    dtype = sample.dtype
    lead, to, gaps = target._output_spec(structure, *form)
    row = math.prod(item) * dtype.itemsize
    shape = lead + item
    make, free = library.empty, 0
    if gaps is not None:
        cum, runs, width, left = gaps
        free = runs * width - structure.rows
        if zeros and runs * width * row >= LAZY_ZEROS and library.kind(sample) == "cpu":
            make, free = library.zeros, 0
    try:
        out: Array = make(shape, dtype, sample)
    except NO_ROOM as error:
        raise no_room(shape, error) from None
    if row and free and library.kind(sample) == "cuda":
        move_and_pad(Source(*source), out, to, _NO_ITEM if zeros else padding, runs * width)
    elif row:
        move(library, data, out, at, to, row, structure, begins)
        if free:
            pad_blocks.start(library, (padding,), (out,), (cum, width, left), row, structure, Work(runs, free))
    return out


def move_and_pad(source: Source, out: Array, to: Layout, padding: Array, places: int) -> None:
    """Move all rows of `source` to `out`, a rectangle of so many places, and the bytes of an item into what is left.

    It is one kernel for all; zeros where there are no bytes.
    """
    library, data, at, structure, _, _, begins = source
    row = math.prod(source.item) * source.sample.dtype.itemsize
    runs = structure.n if to.step == 1 else places // structure.n  # steps of a single column are a block
    if begins is None:
        begins = at.starts if at.step == 1 else at.steps
    args = (begins, at, to, padding, places // runs, runs)
    pad_rows.start(library, (data,), (out,), args, row, structure, Work(runs, places))


def move(
    library: Library,
    data: Array | tuple[Array, ...],
    out: Array,
    at: Layout,
    to: Layout,
    row: int,
    structure: Structure,
    begins: Array | None = None,
) -> None:
    """Move all rows of `structure`, of `row` bytes each, from where they lie in `data` to where they belong in `out`.

    The columns of time steps on both sides are in the same order.  See `Source` for the other arguments.
    """
    rows = structure.rows
    if not rows:
        return
    words = row in WORD_SIZES and (library is NUMPY or library.kind(out) == "cpu")
    args: tuple[Any, ...] = (at, to)
    work = None
    if at.step == 1:
        mover = copy_blocks
        if to.step != 1:  # steps of a single column are a block
            mover = words_to_steps if words else blocks_to_steps
    elif to.step == 1:
        mover = steps_to_words if words else steps_to_blocks
        args = (at.steps if begins is None else begins, at, to)
    else:  # the same steps on both sides: a step is a block
        packed, by_steps, sizes = structure.steps
        mover, work = copy_blocks, Work(structure.longest, rows, sizes)
        blocks = packed if at.step == 0 else by_steps
        if begins is not None or at.absolute:
            blocks = blocks._replace(starts=blocks.starts if begins is None else begins, absolute=at.absolute)
        args = blocks, packed if to.step == 0 else by_steps
    mover.start(library, (data,), (out,), args, row, structure, work)


def put_rows(source: Source, out: Array, starts: Array) -> None:
    """Move all rows of `source` to `out`, sequence i from row ``starts[i]`` on."""
    cum = source.structure.offsets
    put(source, out, Layout(starts, cum, cum, -1, 0, 1, 0))


def put(source: Source, out: Array, to: Layout) -> None:
    """Move all rows of `source` to `out`, where `to` says."""
    row = math.prod(source.item) * source.sample.dtype.itemsize
    if row:
        move(source.library, source.data, out, source.at, to, row, source.structure, source.begins)


def cut(source: Source, longest: int) -> Source:
    """Cut the rows past `longest` in each sequence, in blocks; the first ones stay."""
    old, at = source.structure, source.at
    structure = Structure.of_lengths(np.minimum(old.lengths, longest))
    if at.stride < 0:
        starts = freeze(at.starts[: old.n].copy())
    else:
        starts = np.arange(old.n) * at.stride
        if at.left:
            starts += at.stride - old.lengths
        freeze(starts)
    return source.restrict(structure, starts)


def mask_beside(library: Library, like: Array, structure: Structure, width: int, side: str) -> Array:
    """``(n, width)`` bool beside `like`, True where there is an item."""
    n = structure.n
    out = allocate(library.empty, (n, width), library.bool_dtype, like)
    args = (structure.flat.cum, width, int(side == "left"))
    fill_mask.start(library, (), (out,), args, 1, structure, Work(n, n * width))
    return out


_NO_ITEM = freeze(np.empty(0, np.uint8))
