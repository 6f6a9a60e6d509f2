"""Sequences cut as Python slices, cut to a length, alone or in pairs, and moved along."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

from .. import core
from ..arrays import Array, freeze, library_of
from ..converters.convert import convert
from ..converters.layouts import check_at_least, one_of
from ..errors import COUNTS, EMPTY, RANGE, WHOLE
from ..formats import Encoding, Ragged
from ..formats.call_plans import laid_by_plan
from ..formats.structure import MAX_INT64, Structure, whole
from ..gradients.levels import INNERMOST, at_level, by_level, operation_by_level
from ..gradients.operation import Call, Operation, Pullback, each_gradient, linear, operands_of
from ..launch.kernel import kernel
from .annotations import B, Batch, Counts
from .calculation import rows_like
from .rearrange import per_sequence
from .runs import Parts, Picks, Runs, rule_of_parts, take

cut_runs, cut_places = kernel("cut_runs"), kernel("cut_places")
share_lengths, shift_rows = kernel("share_lengths"), kernel("shift_rows")

Bound = int | Array | None
"""One number for all sequences, one for each, or an open end."""
SIDES = ("right", "left", "middle")
STRATEGIES = ("longest_first", "only_first", "only_second")


def _clip(value: Counts | None, n: int, what: str) -> Bound:
    """Clip a number as Python does."""
    if value is None or (type(value) is int and -MAX_INT64 <= value <= MAX_INT64):
        return value
    if isinstance(value, (int, np.integer)):
        return min(max(whole(value, what), -MAX_INT64), MAX_INT64)
    return per_sequence(value, n, what)


def _parts(x: Encoding, start: Bound, stop: Bound, step: int | Array = 1) -> Parts:
    """Take the items from start to stop of every sequence, each `step` after the one before."""
    structure = x._structure
    n = structure.n
    first, last = 0 if start is None else start, 0 if stop is None else stop
    if type(first) is int and type(last) is int and type(step) is int:
        own, bounds = 0, np.array((first, last, step))
    else:
        own, bounds = 1, np.empty(3 * n, np.int64)
        bounds[:n], bounds[n : 2 * n], bounds[2 * n :] = first, last, step
    opened = (start is None) | (stop is None) << 1
    kept, table, longest = core.build_structure(
        cut_runs.run, n, n + 1, structure.lengths, structure.offsets, bounds, own, opened
    )
    if kept is None:
        raise RANGE(f"step must not be 0{f', but is for sequence {-1 - longest}' if own else ''}")
    starts = table[:n]
    if not table[n]:
        return Runs(kept, kept, starts)
    places: Array = np.empty(kept.rows, np.int64)
    cut_places.run(starts, structure.offsets, bounds[2 * (n if own else 1) :], kept.offsets, places)
    return Picks(kept, freeze(places))


def _cuts(x: Encoding, start: Counts | None, stop: Counts | None, step: Counts) -> tuple[Parts]:
    n = x._structure.n
    by = _clip(step, n, "step")
    if by is None:
        raise WHOLE("step must be an integer, or one for each sequence, not None")
    return (_parts(x, _clip(start, n, "start"), _clip(stop, n, "stop"), by),)


CUT = Operation(take, rule_of_parts, check=_cuts, by_column=True)


@by_level(keeps=False)
@CUT.register
def cut(
    x: B, start: Counts | None = None, stop: Counts | None = None, step: Counts = 1, *, level: int = INNERMOST
) -> B:
    """Every sequence sliced as Python slices a list: ``sequence[start:stop:step]``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    start, stop : None, int or n integers
        For all sequences, or for each; negative from the end, None for an open end, and clipped where they reach beyond
        a sequence.
    step : int or n integers
        Backwards where it is negative.
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        For a `List`, views of its arrays if the step is 1; then `x` itself if nothing is cut off.

    Raises
    ------
    ConversionError
        For a step of 0.
    StructureError
        If the number of integers differs from the number of sequences.
    TypeError
        If the argument is not an integer.

    See Also
    --------
    slice : A range that must be there.
    truncate : To a greatest length.
    reverse : The step -1.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(7), [4, 1, 2])
    >>> sf.cut(x, 1, -1)
    Ragged(shape (2,), int64, cpu, 3 sequences of lengths [2, 0, 0])
    >>> sf.convert(sf.cut(x, 0, [-1, 9, 1]), list)
    [[0, 1, 2], [4], [5]]
    >>> sf.cut(x, step=-2).data
    array([3, 1, 4, 6])
    """
    if level is not INNERMOST:
        return at_level(cut, level, x, start, stop, step)
    return CUT.run(x, start, stop, step)


# --- to a length -----------------------------------------------------------------------------------------------------


def _limit_lengths(value: Counts, n: int) -> int | Array:
    """Return the greatest lengths, for all sequences or for each."""
    if isinstance(value, (int, np.integer)):
        return check_at_least(value, "most", 0)
    most = per_sequence(value, n, "most")
    if (most < 0).any():
        i = int((most < 0).argmax())
        raise RANGE(f"most must be at least 0, but is {most[i]} for sequence {i}")
    return most


def _truncations(x: Encoding, most: Counts, side: str) -> tuple[Parts]:
    """Take at most so many items of every sequence, the others cut off on this side."""
    one_of(side, "side", SIDES)
    structure = x._structure
    limit = _limit_lengths(most, structure.n)
    if side == "right":
        return (_parts(x, None, limit),)
    if side == "left":  # the last 0 items are no slice from -0 on
        start = (
            np.where(limit == 0, MAX_INT64, -limit) if isinstance(limit, np.ndarray) else -limit if limit else MAX_INT64
        )
        return (_parts(x, start, None),)
    return (_without_middle(structure, Structure.of_lengths(np.minimum(structure.lengths, limit))),)


def _without_middle(structure: Structure, kept: Structure) -> Runs:
    """Take so many items of every sequence, half of them of its end."""
    ends = kept.lengths >> 1
    pieces = np.stack([kept.lengths - ends, ends], 1).reshape(-1)
    starts = np.stack([structure.offsets[:-1], structure.offsets[1:] - ends], 1).reshape(-1)
    return Runs(kept, Structure.of_lengths(pieces), freeze(starts))


TRUNCATE = Operation(take, rule_of_parts, check=_truncations, by_column=True)


@by_level(keeps=False)
@TRUNCATE.register
def truncate(x: B, most: Counts, side: Literal["right", "left", "middle"] = "right", *, level: int = INNERMOST) -> B:
    """Every sequence cut to at most a given number of items.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    most : int or n integers
        For all sequences, or for each, at least 0.
    side : "right", "left" or "middle"
        Where items are cut off; "middle" keeps ``ceil(most / 2)`` items of the beginning and the others of the end.
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        Itself where nothing is cut off; of a `List` views, unless the middle is cut out.

    Raises
    ------
    ConversionError
        If the side is invalid, or if a number is negative.
    StructureError
        If the number of integers differs from the number of sequences.
    TypeError
        If the argument is not an integer.

    See Also
    --------
    truncate_pair : Two batches that share a length.
    chunk : Several sequences of what is too long.
    cut : From and to any place.

    Notes
    -----
    The side is the truncation_side of Hugging Face's tokenizers.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(7), [5, 2])
    >>> [sf.truncate(x, 3, side).data.tolist() for side in ("right", "left", "middle")]
    [[0, 1, 2, 5, 6], [2, 3, 4, 5, 6], [0, 1, 4, 5, 6]]
    """
    if level is not INNERMOST:
        return at_level(truncate, level, x, most, side)
    return TRUNCATE.run(x, most, side)


@operation_by_level(keeps=False, beside=("b",), kinds=("a", "b"))
def truncate_pair(
    a: B,
    b: Batch,
    most: Counts,
    strategy: Literal["longest_first", "only_first", "only_second"] = "longest_first",
    *,
    side: Literal["right", "left", "middle"] = "right",
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[tuple[B, Any]]:
    """Two batches, sequence by sequence cut so that both together have at most a given number of items.

    Parameters
    ----------
    a, b : encodings, lists of arrays or nested lists
        Over the same number of innermost sequences, of any dtypes and item shapes.
    most : int or n integers
        For all pairs, or for each, at least 0.
    strategy : "longest_first", "only_first" or "only_second"
        Which one is cut: the longer one until both are equally long and then both in turn, so that of an odd number the
        longer one keeps one item more, `b` where they are equally long; or always the same.
    side : "right", "left" or "middle"
        See `truncate`.
    level : int
        See `cut`.

    Returns
    -------
    what `a` is, what `b` is
        A tuple.  So is what the pullback gives.

    Raises
    ------
    StructureError
        For another number of sequences, and where the one to be cut would have no item left.
    ConversionError
        If the strategy or side is invalid, or if a number is negative.
    TypeError
        If the argument is not an integer.

    See Also
    --------
    truncate : One batch.
    concat : The pairs as one batch.

    Notes
    -----
    The strategies are those of Hugging Face's fast tokenizers, where a `most` of 0 leaves nothing of both.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> a, b = sf.Ragged(np.arange(8), [6, 2]), sf.Ragged(np.arange(6), [3, 3])
    >>> [part.lengths.tolist() for part in sf.truncate_pair(a, b, 5)]
    [[3, 2], [2, 3]]
    >>> [part.lengths.tolist() for part in sf.truncate_pair(a, b, 5, "only_first")]
    [[2, 2], [3, 3]]
    """
    batches = operands_of(a, b)
    owns = batches[0].own, batches[1].own
    one, two = owns[0]._structure, owns[1]._structure
    if one.n != two.n:
        raise COUNTS(f"a has {one.n} sequences, but b has {two.n}")
    one_of(strategy, "strategy", STRATEGIES)
    one_of(side, "side", SIDES)
    limit = _limit_lengths(most, one.n)
    parts = [_share(own, other, limit, strategy, side, k) for k, own, other in ((0, one, two), (1, two, one))]

    def rule(zs: tuple[Encoding, Encoding], _: bool) -> tuple[Any, Pullback]:
        pairs = [rule_of_parts(z, part) for z, part in zip(zs, parts, strict=True)]
        return tuple([y for y, _ in pairs]), lambda dys: tuple(
            [back(dy) for (_, back), dy in zip(pairs, dys, strict=True)]
        )

    def result(ys: tuple[Any, ...]) -> Any:
        return tuple([y if b.result is None else b.result(y) for b, y in zip(batches, ys, strict=True)])

    return Call(owns, rule, result, each_gradient(batches))


def _share(own: Structure, other: Structure, most: int | Array, strategy: str, side: str, second: int) -> Runs:
    """Return the number of items kept of one of two: the first, or the `second`."""
    limits = np.array([most]) if isinstance(most, int) else most
    cut = 0 if strategy == "longest_first" else 1 + ((strategy == "only_first") == second)
    args = other.lengths, own.offsets, limits, cut, second, int(side == "left")
    kept, starts, longest = core.build_structure(share_lengths.run, own.n, own.n, own.lengths, *args)
    if kept is None:
        i = -1 - longest
        a, b = (other.lengths, own.lengths) if second else (own.lengths, other.lengths)
        raise EMPTY(
            f"pair {i} has {a[i]} and {b[i]} items, and {strategy!r} would leave none of the "
            f"{'first' if strategy == 'only_first' else 'second'} for most={limits[min(i, limits.size - 1)]}; "
            '"longest_first" cuts both'
        )
    return _without_middle(own, kept) if side == "middle" else Runs(kept, kept, starts)


# --- moved along -----------------------------------------------------------------------------------------------------


def _shift(x: Encoding, by: Array, filling: Array | None = None) -> Any:
    """`filling` is the bytes of an item; zeros without it."""
    z = x if x._in_one_array else convert(x, Ragged)
    own, part = int(by.size > 1), int(filling is not None)
    y = shift_rows.move_rows(z, None, by, own, part)
    if y is not None and filling is None:
        return y if z is x else x._with_data(y.data)
    library, data, structure, item = z._look(), z.data, z._structure, z._shape[z._lead :]
    row = math.prod(item) * z._dtype.itemsize
    out = rows_like(library, z, item, z._dtype, data) if y is None else y.data
    if row and structure.rows:
        at = z._layout()
        if y is None:
            shift_rows.start(library, (data,), (out,), (at, by, own, part), row, structure)
        if filling is not None:
            shift_rows.start(library, (filling,), (out,), (at, by, own, 2), row, structure)
    return x._with_data(out)


def _shift_rule(x: Encoding, by: Array, filling: Array | None) -> tuple[Encoding, Pullback]:
    back = freeze(-by)
    transpose = functools.partial(laid_by_plan, _shift, by=back) if back.size == 1 else lambda d: _shift(d, back)
    return _shift(x, by, filling), lambda dy: linear(transpose, lambda d: _shift(d, by), dy)


def _shifts(x: Encoding, by: Counts, fill: object) -> tuple[Array, Array | None]:
    """Return the distances of a shift, for all sequences or for each; none above the longest length."""
    structure = x._structure
    far, steps = structure.longest, _clip(by, structure.n, "by")
    if steps is None:
        raise WHOLE("by must be an integer, or one for each sequence, not None")
    steps = np.array([min(max(steps, -far), far)]) if type(steps) is int else np.minimum(np.maximum(steps, -far), far)
    steps.setflags(write=False)
    filling = None
    if type(fill) is not int or fill != 0:
        filling = library_of(x._sample()).item(fill, x.dtype, x.item_shape)
    return steps, filling if filling is not None and filling.any() else None


SHIFT = Operation(_shift, _shift_rule, check=_shifts, planned=True)


@by_level(keeps=True)
@SHIFT.register
def shift(x: B, by: Counts, fill: object = 0, *, level: int = INNERMOST) -> B:
    """Every sequence moved along: item t of the result is item ``t - by``, `fill` where there is none.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    by : int or n integers
        How far, for all sequences, or for each; negative towards the beginning.
    fill : a value or an item
        For places where there is none, exact in the dtype.
    level : int
        See `softmax`.
        Integers `by` are one for each of its sequences.

    Returns
    -------
    same kind as `x`
        The lengths stay the same.

    Raises
    ------
    ConversionError
        For a `fill` that the dtype cannot hold.
    StructureError
        If the number of integers differs from the number of sequences.
    TypeError
        If the argument is not an integer.

    See Also
    --------
    window : Several shifts side by side.

    Notes
    -----
    By -1 tokens become the labels of a model that tells the next one, by 1 what a decoder gets.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, 2, 3, 4]), [3, 1])
    >>> sf.shift(x, -1, fill=-100).data
    array([   2,    3, -100, -100])
    >>> sf.shift(x, 1).data
    array([0, 1, 2, 0])
    """
    if level is not INNERMOST:
        return at_level(shift, level, x, by, fill)
    return SHIFT.run(x, by, fill)
