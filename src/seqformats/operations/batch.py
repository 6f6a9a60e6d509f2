"""Operations on whole batches: join, split, reorder, and batches of a limited size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from .. import registry
from ..arrays import Array, freeze, library_of
from ..converters.convert import convert, restore, rows_of
from ..converters.layouts import check_at_least
from ..errors import (
    BATCH,
    COUNTS,
    EMPTY,
    KIND,
    LENGTHS,
    LEVELS,
    LONG,
    ROWS,
    SLOPE,
    TOGETHER,
    quote,
)
from ..formats import Encoding, LoD, Padded, Ragged
from ..formats.annotations import Given, Integers
from ..formats.leaves import wants_grad, without_data
from ..formats.pairs import is_encoding
from ..formats.structure import Structure, flag, integers
from ..formats.trees import check_batches, columns_of, is_tree, name_of
from ..gradients.cotangent import fitting
from ..gradients.operation import (
    Call,
    Pullback,
    each_column,
    each_gradient,
    operand,
    operands_of,
    operation,
    rows_or_batch,
)
from ..launch.kernel import kernel
from .annotations import XT, Lengths, T
from .costs import Cost, check_costs, cost_limit, costs_of_widths
from .inspection import lengths, lengths_given
from .join import check_alike
from .select import select, select_call
from .trees import joined_trees, split_trees

cut_buckets = kernel("cut_buckets")


@operation
def join_batches(batches: Sequence[T]) -> Call[T]:
    """One batch of all sequences of several, in their order; any dtype.

    Parameters
    ----------
    batches : a list of encodings, lists of arrays or nested lists, or of trees of columns
        All of the same dtype and item shape, a `LoD` with as many levels as the first.  Trees (see `convert`) with the
        same columns are joined column by column, rows too.

    Returns
    -------
    same kind as the first batch
        Its pullback gives a tuple, a gradient for each.

    Raises
    ------
    StructureError
        If the batches do not fit each other.
    DeviceError
        If the arrays belong to different libraries or devices.

    See Also
    --------
    split_batches : The way back.
    concat : Joins sequence by sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.join_batches([sf.Ragged(np.arange(3), [1, 2]), [np.array([7, 8])]]).lengths
    array([1, 2, 2])
    """
    if not isinstance(batches, (list, tuple)):
        raise KIND(f"join_batches takes a list of batches, not {type(batches).__name__}")
    if not batches:
        raise EMPTY("join_batches needs at least one batch")
    if is_tree(batches[0]):
        return cast(Call[T], joined_trees(batches, _join))
    return _join(batches)


def _join(batches: Sequence[Any]) -> Call[Any]:
    given = operands_of(*batches)
    owns = tuple([batch.own for batch in given])
    check_alike(owns, "batch")
    first = owns[0]
    if first.keeps_levels:
        for k, own in enumerate(owns):
            levels = len(own._levels)
            if levels != len(first._levels):
                raise LEVELS(f"batch {k} has {levels} levels, but batch 0 has {len(first._levels)}")
    shapes = tuple([without_data(own) for own in owns])
    counts = [len(own) if first.keeps_levels else own._structure.n for own in owns]
    ends = np.cumsum([0, *counts]).tolist()

    def split_gradient(dy: Encoding) -> tuple[Encoding, ...]:
        parts = [dy[a:b] for a, b in pairwise(ends)]
        return tuple([restore(part, shape) for part, shape in zip(parts, shapes, strict=True)])

    return Call(owns, lambda zs, _: (_join_parts(zs), split_gradient), given[0].result, each_gradient(given))


def _join_parts(parts: Sequence[Any]) -> Any:
    first = parts[0]
    library = library_of(first._sample())
    if first.keeps_levels:
        parts = [convert(part, LoD) for part in parts]
        levels = [
            _one_after_the_other(structures) for structures in zip(*[part._levels for part in parts], strict=True)
        ]
        return LoD._from_levels(library.concatenate([rows_of(part) for part in parts]), tuple(levels))
    structure = _one_after_the_other([part._structure for part in parts])
    if not first._in_one_array:
        arrays = tuple([array for part in parts for array in convert(part, type(first))._leaves()])
        return first._from_items(arrays, structure, arrays[0] if arrays else first._sample())
    r = Ragged._freeze(library.concatenate([rows_of(part) for part in parts]), structure)
    longest = max(
        [structure.longest, *[part._form()[0] for part in parts if first._gapped and type(part) is type(first)]]
    )
    return convert(r, type(first), **dict(zip(first._form_options, first._form(longest), strict=True)))


def _one_after_the_other(structures: Sequence[Structure]) -> Structure:
    return Structure.of_lengths(np.concatenate([structure.lengths for structure in structures]))


def split_batches(x: T, sizes: Integers) -> list[T]:
    """Several batches of consecutive sequences.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or a tree of columns
    sizes : integers
        How many (outermost) sequences each batch has; their sum is all of them.

    Returns
    -------
    list
        Batches as `x` is, views where slices are (see indexing).

    Raises
    ------
    StructureError
        If the sizes do not add up to the number of sequences.

    See Also
    --------
    join_batches : The way back.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> [len(batch) for batch in sf.split_batches(sf.Ragged(np.arange(3), [1, 0, 2]), [2, 1])]
    [2, 1]
    """
    if not isinstance(x, Encoding) and is_tree(x):
        return [select(x, part) for part in _ranges(sizes, columns_of(x).n)]
    own, result, _ = operand(x)
    parts = [own[part] for part in _ranges(sizes, len(own))]
    return parts if result is None else [result(part) for part in parts]


def _ranges(sizes: object, n: int) -> list[slice]:
    """Consecutive ranges of these sizes, which add up to n."""
    counts = Structure.of_lengths(integers(sizes, "sizes"), None, "sizes")
    if counts.rows != n:
        raise ROWS(f"sizes add up to {counts.rows}, but there are {n} sequences")
    return [slice(a, b) for a, b in pairwise(counts.offsets.tolist())]


def _split_with_pullback(x: Given, sizes: Integers) -> tuple[Any, Pullback]:
    if not isinstance(x, Encoding) and is_tree(x):
        tree = columns_of(x)
        return split_trees(tree, _ranges(sizes, tree.n), lambda column: _split_with_pullback(column, sizes))
    own, _, gradient = operand(x)
    parts = split_batches(x, sizes)
    shapes = [without_data(operand(part).own) for part in parts]
    shape = without_data(own)

    def pullback(dys: Sequence[Any]) -> Any:
        if len(dys) != len(shapes):
            raise SLOPE(f"there are {len(shapes)} batches, but {len(dys)} gradients")
        given = [fitting(dy, like) for dy, like in zip(dys, shapes, strict=True)]
        dx = restore(_join_parts(given), shape) if given else own
        return dx if gradient is None else gradient(dx)

    return parts, pullback


registry.gradient(split_batches)(lambda args, options: _split_with_pullback(*args, **options))


@operation
def reorder(x: XT, permutation: Integers) -> Call[XT]:
    """The (outermost) sequences, or the rows of a plain array, in another order; any dtype.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, an array ``(n, *item)``, or a tree of columns
    permutation : n integers
        Every position from 0 to n - 1 once; new position i holds what was at ``permutation[i]``.

    Returns
    -------
    same kind as `x`
        Paddle's reorder_lod_tensor_by_rank.

    Raises
    ------
    StructureError
        If the argument is no permutation.

    See Also
    --------
    select : Some sequences, or some of them twice.
    inverse_order : The permutation that leads back.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reorder(sf.Ragged(np.arange(3), [1, 2]), [1, 0]).data
    array([1, 2, 0])
    """
    if not isinstance(x, Encoding) and is_tree(x):
        columns = each_column(
            x, lambda n: _permutation(permutation, n), lambda c, order: select_call(rows_or_batch(c), order)
        )
        return cast(Call[XT], columns)
    batch = rows_or_batch(x)
    return select_call(batch, _permutation(permutation, len(batch.own)))


def _permutation(given: object, n: int) -> Array:
    index = integers(given, "permutation")
    if index.size != n:
        raise COUNTS(f"the permutation has {index.size} positions, but there are {n} sequences")
    seen = np.zeros(n, bool)
    seen[index[(index >= 0) & (index < n)]] = True
    if not seen.all():
        raise LENGTHS(
            f"a permutation holds every position from 0 to {n - 1} once, but {int((~seen).argmax())} is missing"
        )
    return freeze(index)


def sort_by_length(x: T, by: object = None) -> tuple[T, Array]:
    """The (outermost) sequences by falling length, equal lengths in the order they had.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or a tree of columns
    by : name of a column, optional
        For a tree, the batch whose lengths count; by default its first one.  For a batch in a tree within it, a tuple
        of names.

    Returns
    -------
    y : what `x` is
        The batch.
    order : array
        The former position of each sequence, int64 on the host, read-only.

    Raises
    ------
    TypeError
        If the argument is not an encoding.

    See Also
    --------
    inverse_order : ``sf.reorder(y, sf.inverse_order(order))`` is `x` again.
    buckets : Batches of similar lengths.

    Notes
    -----
    For a `LoD` with more levels the length is the number of sequences of the next level.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> y, order = sf.sort_by_length(sf.Ragged(np.arange(4), [1, 3]))
    >>> y.lengths, order
    (array([3, 1]), array([1, 0]))
    """
    order = Structure.of_lengths(lengths(_column_by(x, by), 0).copy()).order.indices
    if isinstance(x, Padded) and x._structure.stable and not wants_grad(x):
        x._look()
        structure = Structure.of_lengths(x.lengths.copy())
        return cast(T, Padded._freeze(x.data, structure, *x._form())), order  # its columns are in that order
    return reorder(x, order), order


def _column_by(x: Given, by: object) -> Any:
    """The batch whose lengths are sorted by."""
    if isinstance(x, Encoding) or not is_tree(x):
        if by is not None:
            raise BATCH(f"by={quote(by)} names a column, but {registry.label(type(x))} is no tree of columns")
        return x
    tree = columns_of(x)
    check_batches(tree, "sort_by_length needs")
    found = [k for k in tree.batches() if by is None or _names(by, tree.paths[k])]
    if not found:
        raise BATCH(
            f"by={quote(by)} is no batch among the columns; those are: "
            + ", ".join([name_of(tree.paths[k]) for k in tree.batches()])
        )
    return tree.columns[found[0]]


def _names(by: object, path: tuple[object, ...]) -> bool:
    return any(type(by) is type(name) and by == name for name in (path, path[0]))


def _sort_with_pullback(x: Given, by: object = None) -> tuple[Any, Pullback]:
    _, order = sort_by_length(x, by)
    y, pullback = registry.gradient_rule(reorder)((x, order), {})
    return (y, order), lambda dy: pullback(dy[0] if isinstance(dy, tuple) and len(dy) == 2 else dy)


registry.gradient(sort_by_length)(lambda args, options: _sort_with_pullback(*args, **options))


def inverse_order(order: Integers | Ragged) -> Array:
    """Find where each original position has gone: the way back from `sort_by_length`, `buckets` or `pack_bins`.

    Parameters
    ----------
    order : n integers, or a `Ragged` whose batches follow one another
        The original positions in their new order, a permutation of n.

    Returns
    -------
    array
        ``(n,)`` int64 on the host, read-only: sequence i is at place ``inverse[i]``, so
        ``sf.reorder(sf.join_batches(results), inverse)`` puts results of batches in the original order.

    Raises
    ------
    StructureError
        If the argument is no permutation.

    See Also
    --------
    sort_by_length : Where such an order comes from; so do `buckets` and `pack_bins`.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.inverse_order([2, 0, 1])
    array([1, 2, 0])
    """
    if is_encoding(order):
        order = rows_of(operand(order).own)
    index = integers(order, "permutation")
    index = _permutation(index, index.size)
    inverse = np.empty(index.size, np.int64)
    inverse[index] = np.arange(index.size)
    return freeze(inverse)


def buckets(
    lengths: Lengths,
    max_items: int,
    padded: bool = True,
    *,
    multiple_of: int = 1,
    max_sequences: int | None = None,
    cost: Cost | None = None,
    max_cost: float | None = None,
) -> Ragged:
    """Batches of sequences of similar length, each of a limited size.

    Parameters
    ----------
    lengths : n integers, or an encoding
    max_items : int
        The most items of a batch; where `padded`, padding is counted.
    padded : bool
        True if padding counts: a batch then takes its longest sequence times the number of its sequences.
    multiple_of : int
        Where `padded`, the width of a batch is that of its longest sequence, rounded up to a multiple of this.
    max_sequences : int, optional
        The most sequences of a batch; any number without it.
    cost : optional
        What a sequence costs, as `balance` has it: coefficients, a function of lengths (of widths, where `padded`), or
        numbers.
    max_cost : float, optional
        The most that a batch costs: where `padded`, its costliest sequence times the number of its sequences; else the
        sum.  All batches cost about that then, whatever their lengths.

    Returns
    -------
    Ragged
        The original positions (int64), one sequence per batch, longest sequences first, equal lengths in the order they
        had.

    Raises
    ------
    StructureError
        For a sequence that is over `max_items`, or would be once it is padded, or over `max_cost`.
    ConversionError
        For options that are too small, and `cost` without `max_cost`.

    See Also
    --------
    inverse_order : The way back.
    pack_bins : As few batches as can be found, whatever their lengths.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.convert(sf.buckets([1, 5, 2, 5, 1], max_items=10), list)
    [[1, 3], [2, 0, 4]]
    >>> sf.convert(sf.buckets([1, 5, 2, 5, 1], max_items=10, cost=(0, 1), max_cost=25), list)
    [[1], [3], [2, 0, 4]]
    """
    flag(padded, "padded")
    step = check_at_least(multiple_of, "multiple_of", 1)
    if step > 1 and not padded:
        raise TOGETHER(f"multiple_of={step} is about padding, and with padded=False there is none")
    structure, limit = _fitting(lengths, max_items, "max_items", step)
    order, n = structure.order, structure.n
    most = n if max_sequences is None else check_at_least(max_sequences, "max_sequences", 1)
    highest = cost_limit(cost, max_cost)
    costs: Array = np.empty(0)
    if max_cost is not None:
        costs = costs_of_widths(structure.lengths, step, cost)
        check_costs(costs, highest)
        costs = costs[order.indices]
    counts = np.empty(n, np.int64)
    # with a step over the limit all sequences are empty
    numbers = (limit, int(padded), min(step, max(limit, 1)), min(most, n), highest)
    found = cut_buckets.run(order.lengths, costs, *numbers, counts)
    return Ragged._freeze(order.indices.copy(), Structure.of_lengths(counts[:found].copy()))


def _fitting(given: Lengths, limit: object, what: str, step: int = 1) -> tuple[Structure, int]:
    """The lengths, and the limit that they keep, rounded up to a multiple of `step`."""
    limit = check_at_least(limit, what, 0)
    structure = Structure.of_lengths(lengths_given(given))
    wide = -(-structure.longest // step) * step
    if wide > limit:
        i = int(structure.lengths.argmax())
        padded = f", padded to {wide}" if wide > structure.longest else ""
        raise LONG(f"sequence {i} has {structure.longest} items{padded}, more than {what}={limit}")
    return structure, limit
