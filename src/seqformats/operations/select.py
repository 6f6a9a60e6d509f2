"""Selection of sequences on any level, with its gradient."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from .. import core
from ..arrays import Array, distinct, freeze, is_array, library_of
from ..arrays.dtypes import HALF, differentiable, sums_in
from ..converters.convert import convert, restore
from ..converters.layouts import lod_to_ragged
from ..errors import BATCH
from ..formats import Encoding, LoD, Ragged, level_index, structure_of
from ..formats.annotations import Index, Operands
from ..formats.index import places
from ..formats.leaves import without_data
from ..formats.rows import Source, put_rows
from ..formats.structure import Structure
from ..formats.trees import is_tree
from ..gradients.operation import Call, Operand, each_column, linear_call, operand, quickly_by, rows_or_batch
from ..launch.kernel import kernel
from .annotations import T
from .calculation import name_of

sum_copies = kernel("sum_copies")


@quickly_by(core.pick)
def select(x: T, index: Index, level: int = 0) -> Call[T]:
    """Some sequences of a level.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or a tree of columns
        Items of any dtype.  Of a tree (see `convert`) the rows go with the batches.
    index : a list or array of positions (negative from the end), a mask, a slice or one position
    level : int
        For a `LoD`, the level whose sequences are counted.  At the outermost they come in the order of the index, as by
        ``x[index]``; at a deeper one each stays with its parent, parents keep their order, and one that is left without
        any is empty.

    Returns
    -------
    same kind as `x`

    Raises
    ------
    IndexError
        If a position or the level does not exist.
    TypeError
        If the index is of another kind.

    See Also
    --------
    reorder : All sequences, in another order.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(5), [[0, 2, 3], [0, 1, 3, 5]])
    >>> sf.select(x, [True, True, False], level=1).to_nested()
    [[[0], [1, 2]], []]

    Batches of similar length, of all columns:

    >>> columns = {"ids": [[1], [2, 3, 4], [5, 6, 7]], "labels": np.array([0, 1, 0])}
    >>> batches = [sf.select(columns, b) for b in sf.buckets(columns["ids"], max_items=6).sequences()]
    >>> batches[0]["ids"], batches[0]["labels"]
    ([[2, 3, 4], [5, 6, 7]], array([1, 0]))
    """
    if not isinstance(x, Encoding) and is_tree(x):
        if level != 0:
            raise BATCH("of a tree of columns the outermost sequences are selected; select on a level column by column")
        return cast(
            Call[T], each_column(x, lambda n: places(index, n), lambda c, chosen: select_call(rows_or_batch(c), chosen))
        )
    own, result, gradient = operand(x)
    k = level_index(own, level)
    return select_call(Operand(own, result, gradient), places(index, own._levels[k].n), k)


def select_call(batch: Operand, chosen: slice | Array, level: int = 0) -> Call[Any]:
    """The chosen sequences of a level, or rows of an array, and the way back; of a slice views where there are any."""
    own = batch.own
    where = np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
    name = library_of(own).dtype_name(own.dtype) if is_array(own) else name_of(own)

    def check() -> None:
        if distinct(where).size < where.size:  # the gradient adds up
            sums_in(name)
            differentiable(name, "a selection with repeated positions")

    if is_array(own):
        rows, item = own.shape[0], tuple(own.shape[1:])

        def rows_of(z: Array) -> Array:
            return z[chosen] if isinstance(chosen, slice) else library_of(z).take(z, where, 0)

        def placed_rows(dy: Array) -> Array:
            one, all_rows = (Structure.of_lengths(np.ones(count, np.int64)) for count in (where.size, rows))
            placed: Array = placed_sequences(Ragged._freeze(dy, one), where, all_rows).data
            reshaped: Array = placed.reshape(rows, *item)
            return reshaped

        return linear_call(own, rows_of, placed_rows, check=check)
    shape = without_data(own)
    if level:
        offsets = own._levels[level - 1].offsets
        parents = np.searchsorted(offsets, where, side="right") - 1
        order = np.argsort(parents, kind="stable")
        where = where[order]
        above = Structure.of_lengths(np.bincount(parents, minlength=offsets.size - 1).astype(np.int64))

    def forward(z: Operands) -> Any:
        if not level:
            return z[chosen]
        inner = z._sub(level, 0, z._levels[level].n)._choose(where)
        return LoD._from_levels(inner.data, (*z._levels[: level - 1], above, *inner._levels))

    def back(dy: Encoding) -> Any:
        r = lod_to_ragged(convert(dy, LoD), level=level) if own.keeps_levels else convert(dy, Ragged)
        return restore(placed_sequences(r, where, structure_of(shape, level)), shape)

    return linear_call(own, forward, back, batch.result, batch.gradient, check=check)


def placed_sequences(dy: Ragged, where: Array, structure: Structure) -> Ragged:
    """Sequence j of `dy` at place ``where[j]`` of a batch of zeros; what meets at one place is added up, in order."""
    source = Source(*dy._read())
    counts = np.bincount(where, minlength=structure.n).astype(np.int64)
    if counts.size == 0 or counts.max() <= 1:
        out = source.empty(structure.rows, zeros=True)
        put_rows(source, out, freeze(structure.offsets[where]))
        return Ragged._freeze(out, structure)
    copies = dy._choose(np.argsort(where, kind="stable")).data
    repeated = Structure.of_lengths(np.repeat(structure.lengths, counts))
    return Ragged._freeze(sum_of_copies(copies, Structure.of_lengths(counts), repeated, structure), structure)


def sum_of_copies(rows: Array, copies: Structure, repeated: Structure, structure: Structure) -> Array:
    """The sum of the copies of every sequence that stand one after the other in `rows`, added up in order.

    Sequence i of `structure` has ``copies.lengths[i]``; `repeated` is the structure of `rows`.
    """
    library = library_of(rows)
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    data = library.astype(rows, "float32" if name in HALF else name)
    total = library.empty((structure.rows, *item), data.dtype, data)
    width = math.prod(item)
    args = (freeze(repeated.offsets[copies.offsets[:-1]]), structure.offsets, copies.lengths)
    sum_copies.start(library, (data,), (total,), args, width, structure)
    return library.astype(total, name)
