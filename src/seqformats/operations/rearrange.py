"""Rows of a sequence in another order, cut, picked."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

import numpy as np

from .. import core
from ..arrays import Array, distinct, freeze, is_array, library_of, to_host
from ..converters.convert import convert, restore, rows_of
from ..converters.layouts import check_at_least
from ..converters.like import convert_like
from ..errors import BEYOND, COUNTS, SHAPE, WHOLE, quote
from ..formats import Encoding, Ragged
from ..formats.annotations import Integers
from ..formats.leaves import without_data
from ..formats.structure import MAX_INT64, Structure, integers, whole
from ..gradients.levels import INNERMOST, at_level, by_level, operation_by_level
from ..gradients.operation import Back, Call, Operation, Pullback, linear, linear_call, operand
from ..launch.kernel import Work, kernel
from ..memory_checks import no_room
from .annotations import B, Counts
from .calculation import Calculation, Spreading, in_one_array, name_of
from .runs import Runs, rule_of_parts, take

cut_runs, keep_rows = kernel("cut_runs"), kernel("keep_rows")


_reverse = Calculation("reverse_rows", None, by_item=True)
_reverse_back = Spreading("reverse_rows", laid=[True], moves=True)


def _reverse_rule(x: Encoding) -> tuple[Encoding, Pullback]:
    shape = without_data(x)

    def back(dy: Encoding) -> Encoding:
        return _reverse_back(shape, in_one_array(dy).data)

    return _reverse(x), Back(lambda dy: linear(back, _reverse, dy), _reverse_back.path, shape)


REVERSE = Operation(_reverse, _reverse_rule, by_column=True, planned=True)


@by_level(keeps=True)
@REVERSE.register
def reverse(x: B, *, level: int = INNERMOST) -> B:
    """Every sequence from its end to its beginning.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        The dtype stays as it is.

    Raises
    ------
    TypeError
        If the argument is not an encoding.

    See Also
    --------
    slice : A part of every sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reverse(sf.Ragged(np.array([1, 2, 3, 4]), [3, 1])).data
    array([3, 2, 1, 4])
    """
    if level is not INNERMOST:
        return at_level(reverse, level, x)
    return REVERSE.run(x)


def _ranges(x: Encoding, start: Counts, length: Counts) -> tuple[Runs]:
    structure = x._structure
    if type(start) is int and type(length) is int and start >= 0 < length <= MAX_INT64 - start:
        bounds = np.array((start, start + length, 1))
        kept, table, _ = core.build_structure(
            cut_runs.run, structure.n, structure.n + 1, structure.lengths, structure.offsets, bounds, 0, 0
        )
        if kept.rows == structure.n * length:  # none of them is shorter
            return (Runs(kept, kept, table[:-1]),)
    begin = per_sequence(start, structure.n, "start")
    size = per_sequence(length, structure.n, "length")
    wrong = (begin < 0) | (size < 0) | (begin > structure.lengths) | (size > structure.lengths - begin)
    if wrong.any():
        i = int(wrong.argmax())
        raise BEYOND(
            f"sequence {i} has {structure.lengths[i]} items; start {begin[i]} and length {size[i]} do not lie in it; "
            "sf.cut(x, start, stop) takes what there is"
        )
    kept = Structure.of_lengths(size)
    return (Runs(kept, kept, freeze(structure.offsets[:-1] + begin)),)


SLICE = Operation(take, rule_of_parts, check=_ranges, by_column=True)


@by_level(keeps=False)
@SLICE.register
def slice(x: B, start: Counts, length: Counts, *, level: int = INNERMOST) -> B:
    """Take the items `start` to ``start + length`` of every sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    start, length : int or n integers
        For all sequences, or for each.
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        For a `List`, views of its arrays; `x` itself if nothing is cut off.

    Raises
    ------
    StructureError
        For a range that goes beyond its sequence, or another number of integers.

    See Also
    --------
    cut : The same as Python slices, which take what there is.
    select : Whole sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.slice(sf.Ragged(np.arange(5), [3, 2]), [1, 0], [2, 1]).data
    array([1, 2, 3])
    """
    if level is not INNERMOST:
        return at_level(slice, level, x, start, length)
    return SLICE.run(x, start, length)


def per_sequence(value: object, n: int, what: str) -> Array:
    """One integer per sequence, ``(n,)`` int64: given so, as ``(n, 1)``, or as one for all."""
    if is_array(value):
        value = np.asarray(to_host(value))
        value = value.item() if value.ndim == 0 else value[:, 0] if value.shape[1:] == (1,) else value
    if type(value) is int and abs(value) <= MAX_INT64:
        return np.full(n, value)
    if isinstance(value, (int, np.integer)):
        return np.full(n, integers([whole(value, what)], what)[0])
    found = integers(value, what)
    if found.size != n:
        raise COUNTS(f"{what} has {found.size} numbers, but there are {n} sequences")
    return found


@operation_by_level(keeps=False)
def reshape(x: B, width: int, *, level: int = INNERMOST) -> Call[B]:  # noqa: ARG001  see `operation_by_level`
    """The numbers of every sequence in rows of `width`.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype, with one axis; an item without an axis counts as one number.
    width : int
        Numbers in a row of the result, at least 1.
    level : int
        The level of a `LoD` whose sequences these are, as in `convert`; the levels below are dropped.

    Returns
    -------
    same kind as `x`
        With items ``(width,)`` and other lengths; of a `Ragged` or `LoD` a view.

    Raises
    ------
    StructureError
        Where the numbers of a sequence are no multiple of `width`.
    ConversionError
        For a `width` below 1.

    See Also
    --------
    window : Each item with its neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reshape(sf.Ragged(np.arange(8).reshape(4, 2), [2, 2]), 4).data
    array([[0, 1, 2, 3],
           [4, 5, 6, 7]])
    """
    own, result, gradient = operand(x)
    width = check_at_least(width, "width", 1)
    item = own.item_shape
    if len(item) > 1:
        raise SHAPE(f"reshape is for items of one axis, but they have shape {item}")
    structure = own._structure
    numbers = structure.lengths * math.prod(item)
    if (numbers % width).any():
        i = int((numbers % width != 0).argmax())
        raise BEYOND(
            f"sequence {i} has {structure.lengths[i]} items of {math.prod(item)}, {numbers[i]} numbers, which "
            f"do not divide into rows of {quote(width)}"
        )
    reshaped = Structure.of_lengths(numbers // width)
    shape = without_data(own)

    def forward(z: Encoding) -> Any:
        rows = rows_of(z)
        try:
            rows = rows.reshape(reshaped.rows, width)
        except (ValueError, RuntimeError) as error:  # no rows, but wider than anything
            raise no_room((reshaped.rows, width), error) from None
        return convert_like(Ragged._freeze(rows, reshaped), shape)

    def back(dy: Encoding) -> Any:
        return restore(Ragged._freeze(rows_of(dy).reshape(structure.rows, *item), structure), shape)

    return linear_call(own, forward, back, result, gradient)


@by_level(keeps=False)
def erase(x: B, tokens: Integers | Set[int] | int, *, level: int = INNERMOST) -> B:
    """Every sequence without some tokens.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Integers with item shape () or (1,).
    tokens : integers, in any order, or one
    level : int
        See `topk`.

    Returns
    -------
    same kind as `x`
        With other lengths.

    Raises
    ------
    TypeError
        If items or tokens are not integers.
    StructureError
        If the item shape is not allowed.

    See Also
    --------
    select : Whole sequences.

    Notes
    -----
    Data on a GPU is marked there; which items stay is copied to the host once, since the lengths depend on it.  There
    is no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.erase(sf.Ragged(np.array([1, 2, 3, 2]), [3, 1]), [2])
    Ragged(shape (2,), int64, cpu, 2 sequences of lengths [2, 0])
    """
    if level is not INNERMOST:
        return at_level(erase, level, x, tokens)
    own, result, _ = operand(x)
    if own.rows == 0 and not isinstance(x, Encoding):
        one_token_an_item(own, "erase")
        tokens_wanted(tokens)
        return x  # nested lists without items have no dtype
    r, kept = without_tokens(own, tokens, "erase")
    kept = np.flatnonzero(kept)
    ends = np.searchsorted(kept, own._structure.offsets)
    data = library_of(r.data).take(r.data, kept, 0)
    y = convert_like(Ragged._freeze(data, Structure.of_offsets(np.asarray(ends, np.int64))), own)
    found: B = y if result is None else result(y)
    return found


def without_tokens(x: Encoding, tokens: Integers | Set[int] | int, what: str) -> tuple[Encoding, Array]:
    """A batch of integers in one array, sequence by sequence, and on the host 1 for each row that is no token, else 0.

    Data on a GPU is marked there, and the marks are copied once.
    """
    one_token_an_item(x, what)
    wanted = tokens_wanted(tokens)
    name = name_of(x)
    if not name.startswith(("int", "uint")):
        raise WHOLE(f"tokens are integers, but the items have dtype {name}")
    r = in_one_array(convert(x, Ragged))
    library, items = library_of(r.data), r.data
    if name == "uint64":  # beside int64 it would be compared as float64; no token is over int64
        items = library.astype(items, name).view(library.dtype("int64"))
        wanted = freeze(wanted[wanted >= 0])
    flags = library.empty((r.rows,), library.dtype("uint8"), items)
    keep_rows.start(library, (items,), (flags,), (wanted,), 1, None, Work(r.rows, r.rows))
    return r, library.to_numpy(flags)


def one_token_an_item(x: Encoding, what: str) -> None:
    """StructureError for items that are no tokens by their shape."""
    if math.prod(x.item_shape) != 1 or len(x.item_shape) > 1:
        raise SHAPE(f"{what} is for tokens, items of shape () or (1,), but they have shape {x.item_shape}")


def tokens_wanted(tokens: Integers | Set[int] | int) -> Array:
    """Some tokens, or one, sorted."""
    if isinstance(tokens, (set, frozenset)):
        tokens = list(tokens)
    return freeze(distinct(integers([tokens] if isinstance(tokens, (int, np.integer)) else tokens, "tokens")))
