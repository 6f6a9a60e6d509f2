"""Rows of a sequence in another order, cut, joined, picked."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from ..arrays import Array, frozen, is_array, library_of, to_host
from ..converters.convert import convert, restored, rows_of
from ..converters.layouts import at_least
from ..converters.like import convert_like
from ..errors import DeviceError, StructureError, said
from ..formats import Encoding, List, Ragged
from ..formats.annotations import Integers
from ..formats.leaves import without_data
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure, integers, whole
from ..gradients.operation import Call, Operand, Operation, Pullback, linear, operand, operation
from ..launch.kernel import Work, kernel
from ..limits import no_room
from .annotations import B, Counts
from .over import in_one_array, name_of, rows_like

keep_rows, reverse_rows = kernel("keep_rows"), kernel("reverse_rows")


def _reversed(x: Encoding) -> Encoding:
    z = x if x._in_one_array else convert(x, Ragged)
    library, data, structure, item = z._look(), z.data, z._structure, z._shape[z._lead :]
    out = rows_like(library, z, item, z._dtype, data)
    row = math.prod(item) * z._dtype.itemsize
    if row and structure.rows:
        reverse_rows.start(library, (data,), (out,), (z._layout(),), row, structure)
    y: Encoding = x._with_data(out)
    return y


def _reverse_rule(x: Encoding) -> tuple[Encoding, Pullback]:
    return _reversed(x), lambda dy: linear(_reversed, _reversed, dy)


REVERSE = Operation(_reversed, _reverse_rule)


@REVERSE.of
def reverse(x: B) -> B:
    """Every (innermost) sequence from its end to its beginning.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists

    Returns
    -------
    what `x` is
        Of any dtype, which stays.

    Raises
    ------
    TypeError
        For what is no encoding.

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
    return REVERSE(x)


@operation
def concat(parts: Sequence[B]) -> Call[B]:
    """Sequence by sequence, the items of all parts one after the other.

    Parameters
    ----------
    parts : a list of encodings, lists of arrays or nested lists
        Over the same number of innermost sequences, with the same dtype, which may be any, and item shape; where
        several are `LoD`, with the same outer levels.

    Returns
    -------
    what the first part is
        Its pullback gives a tuple, a gradient for each part.

    Raises
    ------
    StructureError
        For parts that do not fit each other.
    DeviceError
        For different libraries or devices.

    See Also
    --------
    join_batches : The sequences of one batch after those of another.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x, y = sf.Ragged(np.array([1, 2]), [2, 0]), sf.Ragged(np.array([7, 8]), [1, 1])
    >>> sf.concat([x, y])
    Ragged(shape (4,), int64, cpu, 2 sequences of lengths [3, 1])
    """
    if not isinstance(parts, (list, tuple)):
        raise TypeError(f"concat takes a list of batches, not {type(parts).__name__}")
    if not parts:
        raise StructureError("concat needs at least one batch")
    batches = [operand(part) for part in parts]
    owns = tuple([batch.own for batch in batches])
    check_alike(owns, "part")
    first = owns[0]
    for k, own in enumerate(owns):
        if own._structure.n != first._structure.n:
            raise StructureError(f"part {k} has {own._structure.n} sequences, but part 0 has {first._structure.n}")
        if own.keeps_levels and first.keeps_levels and not _same_outside(own, first):
            raise StructureError(f"part {k} has other outer levels than part 0")
    structures = [own._structure for own in owns]
    lengths = sum((s.lengths for s in structures[1:]), structures[0].lengths)
    whole_one = Structure.of_lengths(lengths.copy())
    starts, at = [], whole_one.offsets[:-1]
    for s in structures:
        starts.append(frozen(at.copy()))
        at = at + s.lengths
    shapes = tuple([without_data(own) for own in owns])

    def joined(zs: Sequence[Encoding]) -> Any:
        sources = [_in_blocks(z) for z in zs]
        out = sources[0].empty(whole_one.rows)
        for source, begin in zip(sources, starts, strict=True):
            put_rows(source, out, begin)
        return convert_like(Ragged._sealed(out, whole_one), shapes[0] if zs[0].keeps_levels else zs[0])

    def parted(dy: Encoding) -> tuple[Encoding, ...]:
        source = Source(*convert(dy, Ragged)._read())
        parts = [
            lay_out(source.restricted(structure, begin), Ragged)
            for structure, begin in zip(structures, starts, strict=True)
        ]
        return tuple([restored(part, shape) for part, shape in zip(parts, shapes, strict=True)])

    return Call(
        owns,
        lambda zs, _: (joined(zs), lambda dy: linear(parted, joined, dy)),
        batches[0].result,
        each_gradient(batches),
    )


def each_gradient(batches: Sequence[Operand]) -> Pullback:
    """The way back of gradients for several batches, each to its caller's kind."""
    return lambda dxs: tuple(
        [dx if batch.gradient is None else batch.gradient(dx) for dx, batch in zip(dxs, batches, strict=True)]
    )


def check_alike(parts: Sequence[Encoding | Array], what: str) -> None:
    """StructureError or DeviceError where batches, or arrays of rows, differ in what one array must have in common."""
    arrays = [part._sample() if isinstance(part, Encoding) else part for part in parts]
    items = [part.item_shape if isinstance(part, Encoding) else tuple(part.shape[1:]) for part in parts]
    library, first = library_of(arrays[0]), arrays[0]
    for k, (array, item) in enumerate(zip(arrays, items, strict=True)):
        other = library_of(array)
        if other is not library:
            raise DeviceError(f"{what} {k} holds arrays of {other.name}, but {what} 0 of {library.name}")
        if library.device(array) != library.device(first):
            raise DeviceError(f"{what} {k} is on {library.device(array)}, but {what} 0 on {library.device(first)}")
        if array.dtype != first.dtype:
            raise StructureError(f"{what} {k} has dtype {array.dtype}, but {what} 0 has {first.dtype}")
        if item != items[0]:
            raise StructureError(f"{what} {k} has item shape {item}, but {what} 0 has {items[0]}")


def _same_outside(a: Encoding, b: Encoding) -> bool:
    levels = a._levels, b._levels
    return len(levels[0]) == len(levels[1]) and all(
        s.same_lengths(t) for s, t in zip(levels[0][:-1], levels[1][:-1], strict=True)
    )


@operation
def slice(x: B, start: Counts, length: Counts) -> Call[B]:
    """Of every (innermost) sequence the items `start` to ``start + length``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Of any dtype.
    start, length : int or n integers
        For all sequences, or for each.

    Returns
    -------
    what `x` is
        Of a `List` views, and `x` itself where nothing is cut off.

    Raises
    ------
    StructureError
        For a range that goes beyond its sequence, or another number of integers.

    See Also
    --------
    select : Whole sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.slice(sf.Ragged(np.arange(5), [3, 2]), [1, 0], [2, 1]).data
    array([1, 2, 3])
    """
    own, result, gradient = operand(x)
    structure = own._structure
    begin = per_sequence(start, structure.n, "start")
    size = per_sequence(length, structure.n, "length")
    wrong = (begin < 0) | (size < 0) | (begin > structure.lengths) | (size > structure.lengths - begin)
    if wrong.any():
        i = int(wrong.argmax())
        raise StructureError(
            f"sequence {i} has {structure.lengths[i]} items; start {begin[i]} and length {size[i]} do not lie in it"
        )
    kept = Structure.of_lengths(size)
    starts = frozen(structure.offsets[:-1] + begin)
    shape = without_data(own)

    def cut(z: Encoding) -> Any:
        if kept.same_lengths(structure):
            return z
        if not z._in_one_array:
            z._look()
            items = tuple([a[i : i + k] for a, i, k in zip(z._leaves(), begin.tolist(), size.tolist(), strict=True)])
            return List(items, z._sample())
        source = Source(*(z if z._flat else convert(z, Ragged))._read())
        return convert_like(lay_out(source.restricted(kept, starts), Ragged), shape)

    def placed(dy: Encoding) -> Any:
        source = Source(*convert(dy, Ragged)._read())
        out = source.empty(structure.rows, zeros=True)
        put_rows(source, out, starts)
        return restored(Ragged._sealed(out, structure), shape)

    return Call(own, lambda z, _: (cut(z), lambda dy: linear(placed, cut, dy)), result, gradient)


def per_sequence(value: object, n: int, what: str) -> Array:
    """One integer a sequence, ``(n,)`` int64: given so, as ``(n, 1)``, or as one for all."""
    if is_array(value):
        value = np.asarray(to_host(value))
        value = value.item() if value.ndim == 0 else value[:, 0] if value.shape[1:] == (1,) else value
    if isinstance(value, (int, np.integer)):
        return np.full(n, integers([whole(value, what)], what)[0])
    found = integers(value, what)
    if found.size != n:
        raise StructureError(f"{what} has {found.size} numbers, but there are {n} sequences")
    return found


@operation
def reshape(x: B, width: int) -> Call[B]:
    """The numbers of every (innermost) sequence in rows of `width`.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Of any dtype; with items of one axis, or none, which counts as one number.
    width : int
        Numbers in a row of the result, at least 1.

    Returns
    -------
    what `x` is
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
    width = at_least(width, "width", 1)
    item = own.item_shape
    if len(item) > 1:
        raise StructureError(f"reshape is for items of one axis, but they have shape {item}")
    structure = own._structure
    numbers = structure.lengths * math.prod(item)
    if (numbers % width).any():
        i = int((numbers % width != 0).argmax())
        raise StructureError(
            f"sequence {i} has {structure.lengths[i]} items of {math.prod(item)}, {numbers[i]} numbers, which "
            f"do not divide into rows of {said(width)}"
        )
    reshaped = Structure.of_lengths(numbers // width)
    shape = without_data(own)

    def forward(z: Encoding) -> Any:
        rows = rows_of(z)
        try:
            rows = rows.reshape(reshaped.rows, width)
        except (ValueError, RuntimeError) as error:  # no rows, but wider than anything
            raise no_room((reshaped.rows, width), error) from None
        return convert_like(Ragged._sealed(rows, reshaped), shape)

    def back(dy: Encoding) -> Any:
        return restored(Ragged._sealed(rows_of(dy).reshape(structure.rows, *item), structure), shape)

    return Call(own, lambda z, _: (forward(z), lambda dy: linear(back, forward, dy)), result, gradient)


def erase(x: B, tokens: Integers | Set[int] | int) -> B:
    """Every (innermost) sequence without some tokens.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Of integers, with item shape () or (1,).
    tokens : integers, in any order, or one

    Returns
    -------
    what `x` is
        With other lengths.

    Raises
    ------
    TypeError
        For items or tokens that are no integers.
    StructureError
        For other item shapes.

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
    own, result, _ = operand(x)
    if math.prod(own.item_shape) != 1 or len(own.item_shape) > 1:
        raise StructureError(f"erase is for tokens, items of shape () or (1,), but they have shape {own.item_shape}")
    if isinstance(tokens, (set, frozenset)):
        tokens = list(tokens)
    wanted = frozen(np.unique(integers([tokens] if isinstance(tokens, (int, np.integer)) else tokens, "tokens")))
    name = name_of(own)
    if own.rows == 0 and not isinstance(x, Encoding):
        return x  # nested lists without items have no dtype
    if not name.startswith(("int", "uint")):
        raise TypeError(f"tokens are integers, but the items have dtype {name}")
    r = in_one_array(convert(own, Ragged))
    library, items = library_of(r.data), r.data
    if name == "uint64":  # beside int64 it would be compared as float64; no token is over int64
        items = library.astype(items, name).view(library.dtype("int64"))
        wanted = frozen(wanted[wanted >= 0])
    flags = library.empty((r.rows,), library.dtype("uint8"), items)
    keep_rows.start(library, (items,), (flags,), (wanted,), 1, None, Work(r.rows, r.rows))
    kept = np.flatnonzero(library.to_numpy(flags))
    ends = np.searchsorted(kept, own._structure.offsets)
    data = library.take(r.data, kept, 0)
    y = convert_like(Ragged._sealed(data, Structure.of_offsets(np.asarray(ends, np.int64))), own)
    found: B = y if result is None else result(y)
    return found


def _in_blocks(x: Encoding) -> Source:
    """Its rows, to be put anywhere: those in time steps by way of a `Ragged`."""
    return Source(*(convert(x, Ragged) if x._by_steps else x)._read())
