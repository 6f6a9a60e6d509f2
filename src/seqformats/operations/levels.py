"""A level more or less: sequences split into parts, or grouped, and the way back.

Rows stay where they are, so results share memory with what is flat, and its tensor stays in its graph.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np

from ..arrays import Array, adopt, freeze, is_array, library_of, to_host
from ..converters.convert import convert, restore, rows_of
from ..converters.layouts import check_at_least, one_of
from ..converters.like import in_kind_of
from ..errors import (
    COUNTS,
    DTYPE,
    KIND,
    LEVEL,
    ROWS,
    SHAPE,
    UNLIKE,
    WHOLE,
    quote,
)
from ..formats import Encoding, LoD, Ragged, structure_of
from ..formats.annotations import Given, Integers, Shaped
from ..formats.bare import is_list
from ..formats.leaves import leaves, without_data
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure, flag, integers
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, Pullback, linear_call, operand, operation
from ..launch.kernel import kernel
from .annotations import Batch, Flat
from .calculation import name_of
from .rearrange import one_token_an_item, tokens_wanted, without_tokens

split_rows = kernel("split_rows")

Keep: TypeAlias = Literal["end", "start", "drop"]
_KEEP = ("end", "start", "drop")  # by the numbers that the kernel has for them


class _Sequences(NamedTuple):
    """Sequences that gain or lose a level, and the ways back."""

    own: Any  # an encoding of this library
    stream: bool = False  # was it one array, a single sequence?
    result: Pullback | None = None
    gradient: Pullback | None = None

    @classmethod
    def from_batch(cls, x: Given) -> _Sequences:
        """A batch, or an array of rows."""
        if is_array(x):
            rows = adopt(x, "x")[1]
            if len(rows.shape) < 1:
                raise SHAPE("x must have the axes (rows, *item), but is a single number")
            own = Ragged._freeze(rows, Structure.of_lengths(np.array([rows.shape[0]])))
            return cls(own, True, None, lambda dx: dx.data)
        own, _, gradient = operand(x)
        return cls(own, False, (lambda y: _in_lists(y, x)) if is_list(x) else None, gradient)

    def with_levels(self, levels: tuple[Structure, ...]) -> Call[Any]:
        """Put other levels over the rows."""
        own, shape = self.own, without_data(self.own)

        def back(dy: Encoding) -> Any:
            return restore(Ragged._freeze(rows_of(dy), own._structure), shape)

        # not an operand: what shares memory is in the graph by itself, and a conversion takes care of what does not
        return Call((), lambda *_: (LoD._from_levels(rows_of(own), levels), back), self.result, self.gradient)

    def split(self, parts: Structure, counts: Array) -> Call[Any]:
        """Each sequence in so many parts, of which none has lost a row."""
        return self.with_levels(self.levels(parts, counts))

    def levels(self, parts: Structure, counts: Array) -> tuple[Structure, ...]:
        """The levels, when each sequence has so many parts."""
        return (parts,) if self.stream else (*self.own._levels[:-1], Structure.of_lengths(counts), parts)


def _in_lists(y: LoD, x: list[Any] | tuple[Any, ...]) -> Any:
    """Bare lists, around arrays where those that were given are."""
    if not leaves(x):
        return in_kind_of(y, x)
    nested: Any = library_of(y.data).split(y.data, y._structure.lengths, y._structure.offsets)
    for structure in reversed(y._levels[:-1]):
        nested = [list(nested[a:b]) for a, b in pairwise(structure.offsets.tolist())]
    return tuple(nested) if type(x) is tuple else list(nested)


@overload
def split_at(
    x: Sequence[Any], tokens: Integers | Set[int] | int, keep: Keep = ..., *, level: int = ...
) -> list[Any]: ...
@overload
def split_at(x: Flat | Shaped, tokens: Integers | Set[int] | int, keep: Keep = ..., *, level: int = ...) -> LoD: ...
@operation_by_level(keeps=False)
def split_at(
    x: Batch | Shaped,
    tokens: Integers | Set[int] | int,
    keep: Keep = "end",
    *,
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[Any]:
    """Every sequence of tokens in parts, split at some tokens: a level more.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or an array
        Integers with item shape () or (1,); an array is a single sequence, a stream.
    tokens : integers, in any order, or one
    keep : "end", "start" or "drop"
        Whether such a token ends its part, begins the next one, or is left out.
    level : int
        The level of a `LoD` whose sequences are split, as in `convert`; the levels below are dropped.

    Returns
    -------
    LoD
        With a level more, whose sequences are the parts of a sequence; of an array with one level, the parts.  Lists
        for bare lists.  But for "drop", it shares memory with a `Ragged`, a `LoD` or an array.

    Raises
    ------
    TypeError
        If items or tokens are not integers.
    StructureError
        If the item shape is not allowed.
    ConversionError
        If `keep` has an invalid value.

    See Also
    --------
    split : At any items, or by lengths.
    flatten_levels : The way back, but for "drop".
    erase : Without some tokens, in one piece.

    Notes
    -----
    Tokens end parts, so what follows the last one is a part only if there is something: ``a . b .`` has two parts, and
    so has ``a . b``.  With "drop" the parts are those of "end" without their tokens: ``. . a`` has two empty ones and
    one more.  With "start" each token begins a part, and what is before the first one is a part only if there is
    something.  An empty sequence has no parts.

    Data on a GPU is marked there, and the marks are copied to the host once.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([5, 6, 0, 7, 0, 8, 0]), [5, 2])
    >>> sf.split_at(x, 0).to_nested()
    [[[5, 6, 0], [7, 0]], [[8, 0]]]
    >>> sf.split_at(np.array([5, 6, 0, 7, 8]), 0, keep="drop").to_nested()
    [[5, 6], [7, 8]]
    """
    given = _Sequences.from_batch(x)
    own, how = given.own, one_of(keep, "keep", _KEEP)
    one_token_an_item(own, "split_at")
    if own.rows == 0 and is_list(x):  # which have no dtype without items
        tokens_wanted(tokens)
        return _split_at_places(given, np.empty(0, np.int64), how)
    name = name_of(own)
    if not name.startswith(("int", "uint")):
        raise WHOLE(f"tokens are integers, but the items have dtype {name}; sf.split(x, where) takes bools instead")
    _, kept = without_tokens(own, tokens, "split_at")
    return _split_at_places(given, np.flatnonzero(kept == 0), how)


@overload
def split(
    x: Sequence[Any],
    where: Batch | Shaped | None = ...,
    *,
    lengths: Batch | Integers | None = ...,
    keep: Keep = ...,
    level: int = ...,
) -> list[Any]: ...
@overload
def split(
    x: Flat | Shaped,
    where: Batch | Shaped | None = ...,
    *,
    lengths: Batch | Integers | None = ...,
    keep: Keep = ...,
    level: int = ...,
) -> LoD: ...
@operation_by_level(keeps=False, marks=("where",))
def split(
    x: Batch | Shaped,
    where: Batch | Shaped | None = None,
    *,
    lengths: Batch | Integers | None = None,
    keep: Keep = "end",
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[Any]:
    """Every sequence in parts, by marked items or by lengths: a level more.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or an array
        Items of any dtype; an array ``(rows, *item)`` is a single sequence, a stream.
    where : bools, one per item
        Over the same sequences, or an array of all items, ``(rows,)``, sequence by sequence.
    lengths : integers, a sequence for each sequence
        The lengths of its parts, which may be empty; of a stream a list of integers.  Instead of `where`.
    keep : "end", "start" or "drop"
        Whether an item where there is True ends its part, begins the next one, or is left out; see `split_at`.
    level : int
        See `split_at`.

    Returns
    -------
    LoD
        With a level more, whose sequences are the parts of a sequence; of an array with one level, the parts.  Lists
        for bare lists.  But for "drop", it shares memory with a `Ragged`, a `LoD` or an array.

    Raises
    ------
    TypeError
        For other dtypes, and unless one of `where` and `lengths` is given.
    StructureError
        For bools over other sequences, and for lengths that do not add up to those of their sequences.
    ConversionError
        If `keep` has an invalid value.

    See Also
    --------
    split_at : At some tokens.
    flatten_levels : The way back, but for "drop".
    split_batches : A batch in several.

    Notes
    -----
    Bools on a GPU are copied to the host once, since the structure depends on them.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([0.5, 1.5, 2.5, 3.5]), [3, 1])
    >>> sf.split(x, np.array([True, False, False, True])).to_nested()
    [[[0.5], [1.5, 2.5]], [[3.5]]]
    >>> sf.split(x, np.array([False, True, False, True]), keep="start").to_nested()
    [[[0.5], [1.5, 2.5]], [[3.5]]]
    >>> sf.split(x, lengths=[[1, 2], [1]]).to_nested()
    [[[0.5], [1.5, 2.5]], [[3.5]]]
    """
    given = _Sequences.from_batch(x)
    how = one_of(keep, "keep", _KEEP)
    if (where is None) == (lengths is None):
        raise KIND("split takes either where= or lengths=")
    if where is not None:
        return _split_at_places(given, np.flatnonzero(_bools(where, given.own)), how)
    own = given.own
    if given.stream:
        parts = Structure.of_lengths(integers(lengths, "lengths"), None, "lengths")
        if parts.rows != own.rows:
            raise ROWS(f"lengths add up to {parts.rows}, but x has {own.rows} items")
        return given.split(parts, parts.lengths)
    of_parts = operand(lengths, "give one batch of lengths").own
    n, counts = own._structure.n, of_parts._structure
    if counts.n != n:
        raise COUNTS(f"lengths are for {counts.n} sequences, but x has {n}")
    numbers = to_host(rows_of(of_parts))
    parts = Structure.of_lengths(integers(numbers.reshape(-1) if numbers.shape[1:] == (1,) else numbers, "lengths"))
    sums = np.diff(parts.offsets[counts.offsets])
    wrong = sums != own._structure.lengths
    if wrong.any():
        i = int(wrong.argmax())
        raise ROWS(f"the lengths for sequence {i} add up to {sums[i]}, but it has {own._structure.lengths[i]} items")
    return given.split(parts, counts.lengths.copy())


def _bools(where: Given, x: Encoding) -> Array:
    """One bool an item of `x`, on the host, sequence by sequence."""
    if is_array(where):
        array: Array = to_host(where)
        if array.shape != (x.rows,):
            raise SHAPE(f"where must have one bool for each of {x.rows} items, but has shape {array.shape}")
    else:
        own = operand(where, "give one batch of bools").own
        if not own._structure.same_lengths(x._structure):
            raise UNLIKE("where must have a bool for each item of x, but its sequences have other lengths")
        if own.item_shape not in ((), (1,)):
            raise SHAPE(f"where must have a bool for each item, but has items of shape {own.item_shape}")
        array = to_host(rows_of(own)).reshape(-1)
    if array.dtype.kind != "b" and array.size:
        raise DTYPE(f"where must hold bools, not {array.dtype}; sf.split_at takes tokens")
    return array


def _split_at_places(given: _Sequences, places: Array, how: int) -> Call[Any]:
    """Split at some rows, counted sequence by sequence; see `split_rows`."""
    own, structure = given.own, given.own._structure
    most = places.size + structure.n
    begins, sizes, counts = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(structure.n, np.int64)
    found = split_rows.run(places, structure.offsets, how, begins, sizes, counts)
    parts = Structure.of_lengths(sizes[:found].copy())
    if _KEEP[how] != "drop":
        return given.split(parts, counts)
    levels, starts, shape = given.levels(parts, counts), freeze(begins[:found]), without_data(own)

    def cut(z: Encoding) -> LoD:
        source = Source(*(z if z._flat else convert(z, Ragged))._read())
        return LoD._from_levels(lay_out(source.restrict(parts, starts), Ragged).data, levels)

    def place(dy: Encoding) -> Any:
        source = Source(*convert(dy, Ragged)._read())
        out = source.empty(structure.rows, zeros=True)
        put_rows(source, out, starts)
        return restore(Ragged._freeze(out, structure), shape)

    return linear_call(own, cut, place, given.result, given.gradient)


@overload
def flatten_levels(x: Sequence[Any], levels: int = ..., *, outermost: bool = ...) -> list[Any]: ...
@overload
def flatten_levels(x: Flat, levels: int = ..., *, outermost: bool = ...) -> LoD: ...
@operation
def flatten_levels(x: Batch, levels: int = 1, *, outermost: bool = False) -> Call[Any]:
    """Fewer levels: the innermost sequences of each sequence that holds them joined to one.

    Parameters
    ----------
    x : a `LoD` or nested lists of two levels or more
        Items of any dtype.
    levels : int
        How many levels less, at least 1; at least one is left.
    outermost : bool
        Take them from the outside instead, so that the sequences within the outermost ones are a batch.

    Returns
    -------
    LoD
        Which shares memory with a `LoD`; lists for bare lists.  Of documents of sentences of words the default makes
        documents of words, and `outermost` sentences of words.

    Raises
    ------
    IndexError
        Where there are not so many levels.
    ConversionError
        For less than one.

    See Also
    --------
    split, split_at : The way back: a level further in.
    nest : The way back with `outermost`: a level further out.
    convert : With ``level=``, one level alone as any encoding.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(4), [[0, 2, 3], [0, 2, 3, 4]])
    >>> x.to_nested()
    [[[0, 1], [2]], [[3]]]
    >>> sf.flatten_levels(x).to_nested()
    [[0, 1, 2], [3]]
    >>> sf.flatten_levels(x, outermost=True).to_nested()
    [[0, 1], [2], [3]]
    """
    flag(outermost, "outermost")
    count, given = check_at_least(levels, "levels", 1), _levels_of(x)
    own = given.own
    have = len(own._levels)
    if count >= have:
        last = "it has one level, and that stays" if have == 1 else f"it has {have} levels, of which one stays"
        raise LEVEL(f"{type(x).__name__} cannot lose {quote(count)} level{'s' * (count > 1)}: {last}")
    kept = own._levels[count:] if outermost else (*own._levels[: -1 - count], structure_of(own, -1 - count))
    return given.with_levels(kept)


@overload
def nest(x: Sequence[Any], lengths: Integers) -> list[Any]: ...
@overload
def nest(x: Flat, lengths: Integers) -> LoD: ...
@operation
def nest(x: Batch, lengths: Integers) -> Call[Any]:
    """A level more on the outside: consecutive (outermost) sequences in groups.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    lengths : integers
        How many (outermost) sequences each group has; their sum is all of them.

    Returns
    -------
    LoD
        Whose outermost sequences are the groups, and which shares memory with a `Ragged` or a `LoD`; lists for bare
        lists.

    Raises
    ------
    StructureError
        For lengths that do not add up.

    See Also
    --------
    flatten_levels : With ``outermost=True``, the way back.
    split : A level further in.
    split_batches : Groups as batches of their own.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.nest(sf.Ragged(np.arange(4), [2, 1, 1]), [2, 1]).to_nested()
    [[[0, 1], [2]], [[3]]]
    """
    given = _levels_of(x)
    groups = Structure.of_lengths(integers(lengths, "lengths"), None, "lengths")
    if groups.rows != len(given.own):
        raise ROWS(f"lengths add up to {groups.rows}, but there are {len(given.own)} sequences")
    return given.with_levels((groups, *given.own._levels))


def _levels_of(x: object) -> _Sequences:
    """A batch, which is no array."""
    if is_array(x):
        operand(x)  # raises
    return _Sequences.from_batch(x)
