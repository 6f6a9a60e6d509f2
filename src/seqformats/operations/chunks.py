"""Long sequences as chunks of a limited size, and what a model says of these as one sequence again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import core
from ..arrays import Array, Library, freeze, library_of
from ..arrays.dtypes import HALF, Dtypes, differentiable, means, same, sums, sums_in
from ..converters.convert import convert, restore, rows_of
from ..converters.layouts import check_at_least, one_of
from ..errors import BATCH, LEVELS, RANGE, UNLIKE, quote
from ..formats import Chunks, Encoding, LoD, Masked, Ragged
from ..formats.chunks import Origin, origin_of
from ..formats.encoding import abridge
from ..formats.leaves import without_data
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure, same_levels
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Operand, Operation, Pullback, linear, operand
from ..launch.kernel import Work, kernel
from .annotations import Batch
from .calculation import name_of, settle

chunk_counts, chunk_runs = kernel("chunk_counts"), kernel("chunk_runs")
fold_chunks, spread_chunks = kernel("fold_chunks"), kernel("spread_chunks")
max_chunks, choose_chunks = kernel("max_chunks"), kernel("choose_chunks")

_LAST_CHOICES = ("keep", "drop", "pad", "shift")
_HOW_CHOICES = ("first", "mean", "max", "last")


def _operand(x: object) -> Operand:
    """A batch whose result stays an encoding, since it has levels, whatever the batch has."""
    return operand(x)._replace(result=None)


# --- there -----------------------------------------------------------------------------------------------------------


class _Cuts(NamedTuple):
    """Places to cut a batch."""

    origin: Origin
    short: Structure  # of the chunks, without padding
    begins: Array  # the row of the first item of each
    size: int  # to which they are padded, 0 for none
    fill: object


def _chunk(x: Encoding, cuts: _Cuts) -> Chunks:
    z = x if x._flat else convert(x, Ragged)
    source = Source(*z._read()).restrict(cuts.short, cuts.begins)
    if not cuts.size:
        return Chunks._from_origin(lay_out(source, Ragged).data, cuts.origin)
    padded = lay_out(source, Masked, (cuts.size, "right"), cuts.fill).data
    return Chunks._from_origin(padded.reshape(cuts.origin.levels[-1].rows, *source.item), cuts.origin)


def _chunked_rule(x: Encoding, cuts: _Cuts) -> tuple[Chunks, Pullback]:
    origin, shape, zeros = cuts.origin, without_data(x), cuts._replace(fill=0)
    overlap = origin.cover.most > 1
    if overlap:
        sums_in(name_of(x))
        differentiable(name_of(x), "a cut into overlapping chunks")

    def back(dy: Encoding) -> Any:
        rows = rows_of(dy)
        found = _fold(rows, origin, sums) if overlap else _put(rows, origin, 0)
        return restore(Ragged._freeze(found, origin.whole), shape)

    return _chunk(x, cuts), lambda dy: linear(back, lambda d: _chunk(d, zeros), dy)


def _cut(x: Encoding, size: int, overlap: int, last: str, fill: object) -> tuple[_Cuts]:
    size, overlap = check_at_least(size, "size", 1), check_at_least(overlap, "overlap", 0)
    if overlap >= size:
        raise RANGE(f"overlap must be less than size, {quote(size)}, but is {quote(overlap)}")
    one_of(last, "last", _LAST_CHOICES)
    if type(fill) is not int or fill != 0:  # is checked where nothing is filled, too
        library_of(x._sample()).item(fill, x.dtype, x.item_shape)
    structure, step = x._structure, size - overlap
    n = structure.n
    chunks, _, _ = core.build_structure(chunk_counts.run, n, 0, structure.lengths, size, step, int(last == "drop"))
    k = chunks.rows
    places = structure.offsets, chunks.offsets, size, step, int(last == "shift")
    short, table, _ = core.build_structure(chunk_runs.run, k, 2 * k, *places)
    pads = last == "pad"
    items = Structure.of_lengths(np.full(k, size)) if pads else short
    origin = Origin((*x._levels[:-1], chunks, items), table[:k], structure)
    return (_Cuts(origin, short, table[k:], size if pads else 0, fill),)


CHUNK = Operation(_chunk, _chunked_rule, check=_cut, read=_operand)


@by_level(keeps=False, kinds=())
@CHUNK.register
def chunk(
    x: Batch,
    size: int,
    overlap: int = 0,
    *,
    last: Literal["keep", "drop", "pad", "shift"] = "keep",
    fill: object = 0,
    level: int = INNERMOST,
) -> Chunks:
    """Every sequence as chunks of `size` items, each beginning ``size - overlap`` after the one before.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    size : int
        Items of a chunk, at least 1.
    overlap : int
        How many of them the next chunk has too, less than `size`.
    last : "keep", "drop", "pad" or "shift"
        For a last chunk that is shorter: keep it, leave it out, fill it up with `fill`, or let it begin earlier, so
        that it ends with the sequence and is as long as the others.  With "shift", a sequence of less than `size` items
        is one short chunk.
    fill : a value or an item
        What pads, exact in the dtype.
    level : int
        The level of a `LoD` whose sequences are cut, as in `convert`; the levels below are dropped.

    Returns
    -------
    Chunks
        A `LoD` with one level more: the sequences, of chunks of items.  A sequence ends with its first chunk that holds
        its last item; an empty one has no chunk.

    Raises
    ------
    ConversionError
        For numbers or a `last` that cannot be, and a `fill` that the dtype cannot hold.
    TypeError
        If the argument is not an integer.

    See Also
    --------
    unchunk : The way back.
    truncate : The first chunk alone.
    window : One for each item.

    Notes
    -----
    With ``last="keep"`` what Hugging Face's fast tokenizers return as overflowing tokens, `overlap` being their stride.
    The gradient adds up, in order, what several chunks have for an item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(1, 8), [5, 2])
    >>> sf.chunk(x, 3, 1).to_nested()
    [[[1, 2, 3], [3, 4, 5]], [[6, 7]]]
    >>> sf.chunk(x, 4, last="pad").to_nested()
    [[[1, 2, 3, 4], [5, 0, 0, 0]], [[6, 7, 0, 0]]]
    >>> sf.chunk(x, 4, last="shift").starts
    array([0, 1, 0])
    """
    if level is not INNERMOST:
        return at_level(chunk, level, x, size, overlap, last=last, fill=fill)
    given: Any = x
    return CHUNK.run(given, size, overlap, last, fill)


# --- and back --------------------------------------------------------------------------------------------------------


def _unchunk(y: Encoding, origin: Origin, how: str) -> LoD:
    rows = rows_of(y)
    if how == "mean":
        return _wrap_rows(_fold(rows, origin, means), origin)
    return _wrap_rows(_largest(rows, origin)[0] if how == "max" else _put(rows, origin, int(how == "last")), origin)


def _wrap_rows(rows: Array, origin: Origin) -> LoD:
    """Rows of the sequences themselves."""
    return LoD._from_levels(rows, (*origin.levels[:-2], origin.whole))


def _unchunked_rule(y: Encoding, origin: Origin, how: str) -> tuple[LoD, Pullback]:
    shape, places = without_data(y), None
    if how in ("mean", "max"):
        differentiable(name_of(y), f"the {how} of several chunks")
    if how == "max":
        values, places = _largest(rows_of(y), origin, keep=True)
        found = _wrap_rows(values, origin)
    else:
        found = _unchunk(y, origin, how)

    def forward(z: Encoding) -> LoD:
        return (
            _unchunk(z, origin, how) if places is None else _wrap_rows(_choose(rows_of(z), places, origin, 0), origin)
        )

    def back(dy: Encoding) -> Any:
        rows = rows_of(dy)
        if places is not None:
            rows = _choose(rows, places, origin, 1)
        else:
            rows = _spread(rows, origin) if how == "mean" else _take(rows, origin, int(how == "last"))
        return restore(Ragged._freeze(rows, origin.levels[-1]), shape)

    return found, lambda dy: linear(back, forward, dy)


def _find_origin(y: Encoding, how: str, like: Batch | None) -> tuple[Origin, str]:
    """Find what the chunks are of."""
    one_of(how, "how", _HOW_CHOICES)
    origin = origin_of(y if like is None else like)
    if origin is None:
        what, given, hint = ("y", y, "; give like=chunks") if like is None else ("like", like, "")
        raise BATCH(f"{what} must be what sf.chunk returns, not {type(given).__name__}{hint}")
    items = origin.levels[-1]
    if not y._structure.same_lengths(items):
        raise UNLIKE(
            f"y has {y._structure.n} sequences of lengths {abridge(y._structure.lengths)}, but there are {items.n} "
            f"chunks of lengths {abridge(items.lengths)}"
        )
    if len(y._levels) > 1 and not same_levels(y._levels, origin.levels):
        raise LEVELS("y has other outer levels than the chunks")
    if how == "mean":
        sums_in(name_of(y))
    elif how == "max":
        same(name_of(y))
    return origin, how


UNCHUNK = Operation(_unchunk, _unchunked_rule, check=_find_origin, read=_operand)


@UNCHUNK.register
def unchunk(y: Batch, how: Literal["first", "mean", "max", "last"] = "first", *, like: Batch | None = None) -> LoD:
    """Chunks as the sequences that they are of, for what a model says of every item.

    Parameters
    ----------
    y : `Chunks`, or with `like` any batch of the same sequences as these
        Items of any shape.
    how : "first", "mean", "max" or "last"
        Which of several chunks is asked for an item that all of them hold; or the mean, or the largest column by
        column, of what they say.
    like : Chunks, optional
        What `chunk` returned, where `y` does not know it.

    Returns
    -------
    LoD
        With one level less: the sequences of items, of their own lengths.  Padding of chunks is left out; items that no
        chunk holds are zero.  Of integers and bools "mean" gives float64.

    Raises
    ------
    StructureError
        For a `y` whose sequences are not the chunks of `like`.
    ConversionError
        If `how` has an invalid value.
    TypeError
        Where nothing is known of the sequences, and for dtypes without a mean or an order.

    See Also
    --------
    chunk : The way here, with the same sequences.
    convert_like : From what a model takes to chunks again.

    Notes
    -----
    Means are added up as in `reduce_mean`; NaN is the largest, and of equal items the first gets the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.chunk([np.array([1.0, 2.0, 3.0]), np.array([4.0])], 2, 1)
    >>> masked = sf.convert(x, sf.Masked)
    >>> scores = sf.Masked(masked.data * [10, 1], masked.lengths)
    >>> sf.unchunk(scores, like=x).to_nested()
    [[10.0, 2.0, 3.0], [40.0]]
    >>> sf.unchunk(scores, "mean", like=x).to_nested()
    [[10.0, 11.0, 3.0], [40.0]]
    """
    given: Any = y
    return UNCHUNK.run(given, how, like)


# --- rows of chunks, and rows of the sequences that they are of ------------------------------------------------------


def _holders(origin: Origin, last: int) -> tuple[Structure, Array, Array]:
    """The runs of items that a chunk holds, and where each begins in the sequences and in its first (last) chunk."""
    runs, first, counts, shifts = origin.cover
    rows = runs.offsets[:-1]
    if counts.size and not counts.min():
        there = counts > 0
        runs, rows, first, counts = Structure.of_lengths(runs.lengths[there]), rows[there], first[there], counts[there]
    return runs, rows, rows + shifts[first + (counts - 1) * last]


def _put(rows: Array, origin: Origin, last: int) -> Array:
    """Put the first (last) chunk of every item back, zeros where it has none."""
    runs, to, come = _holders(origin, last)
    return _move(rows, runs, (come, to), origin.whole.rows)


def _take(rows: Array, origin: Origin, last: int) -> Array:
    """The way back."""
    runs, to, come = _holders(origin, last)
    return _move(rows, runs, (to, come), origin.levels[-1].rows)


def _move(rows: Array, runs: Structure, places: tuple[Array, Array], count: int) -> Array:
    """Runs from the first of two places to the second, in a new array of zeros."""
    come, to = (freeze(place) for place in places)
    source = Source(library_of(rows), rows, runs.flat, runs, rows, tuple(rows.shape[1:])).restrict(runs, come)
    out = source.empty(count, zeros=runs.rows < count)
    put_rows(source, out, to)
    return out


def _fold(rows: Array, origin: Origin, dtypes: Callable[[str], Dtypes]) -> Array:
    """The sums, or the means, of what the chunks of every item have."""
    library = library_of(rows)
    taken, made, result = dtypes(library.dtype_name(rows.dtype))
    runs, *cover = origin.cover
    data = library.astype(rows, taken)
    out = library.empty((runs.rows, *rows.shape[1:]), library.dtype(made), data)
    width = math.prod(rows.shape[1:])
    args = (runs.offsets, *cover, int(dtypes is means))
    fold_chunks.start(library, (data,), (out,), args, width, runs)
    return settle(library, library.astype(out, result))


def _spread(rows: Array, origin: Origin) -> Array:
    """To every chunk of an item its row, divided by how many they are."""
    library = library_of(rows)
    name = library.dtype_name(rows.dtype)
    runs, *cover = origin.cover
    data = library.astype(rows, "float32" if name in HALF else name)
    out = _new(library, origin, rows.shape[1:], data)
    width = math.prod(rows.shape[1:])
    spread_chunks.start(library, (data,), (out,), (runs.offsets, *cover), width, runs)
    return library.astype(out, name)


def _new(library: Library, origin: Origin, item: tuple[int, ...], like: Array) -> Array:
    """Memory for rows of chunks, whose padding is zero."""
    count = origin.levels[-1].rows
    make = library.zeros if origin.cover.row_count < count else library.empty
    return make((count, *item), like.dtype, like)


def _largest(rows: Array, origin: Origin, keep: bool = False) -> tuple[Array, Array]:
    """The largest of what the chunks of every item have, and where it is from."""
    library = library_of(rows)
    taken, made, result = same(library.dtype_name(rows.dtype))
    runs, *cover = origin.cover
    data = library.astype(rows, taken)
    shape = (runs.rows, *rows.shape[1:])
    out = library.empty(shape, library.dtype(made), data)
    places = library.empty(shape if keep else (1,), library.dtype("int64"), data)
    width = math.prod(rows.shape[1:])
    args = (runs.offsets, *cover, int(keep))
    max_chunks.start(library, (data,), (out, places), args, width, runs)
    return library.astype(out, result), places


def _choose(rows: Array, places: Array, origin: Origin, back: int) -> Array:
    """From chunks to sequences, what is at these places, or, where `back` is 1, back to them."""
    library = library_of(rows)
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    data = library.astype(rows, "float32" if name in HALF else name)
    n, width = origin.whole.rows, math.prod(item)
    make = library.zeros if back else library.empty
    out = make((origin.levels[-1].rows if back else n, *item), data.dtype, data)
    choose_chunks.start(library, (data, places), (out,), (back,), width, None, Work(n, n))
    return library.astype(out, name)
