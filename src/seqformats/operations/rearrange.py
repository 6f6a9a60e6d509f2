"""Rows of a sequence in another order, cut, joined, picked: moves, and the sums that are their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array, adopt, frozen, is_array, library_of, to_host
from ..arrays.dtypes import HALF, differentiable, sums_in
from ..conversion.convert import convert, restored, rows_of
from ..conversion.layouts import at_least
from ..conversion.like import convert_like
from ..errors import DeviceError, StructureError, said
from ..formats import Encoding, List, Ragged
from ..formats.encoding import shown
from ..formats.leaves import without_data
from ..formats.rows import Source, lay_out, put_rows
from ..formats.structure import Structure, integers, whole
from ..gradients.operation import Call, Operand, Operation, Pullback, linear, operand, operation
from ..launch.kernel import Work, kernel
from ..limits import no_room
from .over import in_one_array, name_of, rows_like, scratch

keep_rows, scatter_rows = kernel("keep_rows"), kernel("scatter_rows")

reverse_rows = kernel("reverse_rows")


def _reversed(x: Any) -> Any:
    z = x if x._in_one_array else convert(x, Ragged)
    library, data, structure, item = z._look(), z.data, z._structure, z._shape[z._lead :]
    out = rows_like(library, z, item, z._dtype, data)
    row = math.prod(item) * z._dtype.itemsize
    if row and structure.rows:
        reverse_rows.start(library, (data,), (out,), (z._layout(),), row, structure)
    return x._with_data(out)


def _reverse_rule(x: Any) -> tuple[Any, Pullback]:
    return _reversed(x), lambda dy: linear(_reversed, _reversed, dy)


REVERSE = Operation(_reversed, _reverse_rule)


@REVERSE.of
def reverse(x: Any) -> Any:
    """Every (innermost) sequence from its end to its beginning; any dtype.

    Returns the same encoding.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reverse(sf.Ragged(np.array([1, 2, 3, 4]), [3, 1])).data
    array([3, 2, 1, 4])
    """
    return REVERSE(x)


@operation
def concat(parts: Sequence[Any]) -> Any:
    """Sequence by sequence, the items of all parts one after the other; any dtype.

    Parameters
    ----------
    parts : encodings (or lists of arrays, nested lists) over the same number of innermost sequences, with the same
        dtype and item shape; where several are `LoD`, with the same outer levels

    Returns the encoding of the first part; its pullback gives a tuple, a gradient for each part.

    Errors: StructureError for parts that do not fit each other, DeviceError for different libraries or devices.

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

    def joined(zs: Any) -> Any:
        sources = [_in_blocks(z) for z in zs]
        out = sources[0].empty(whole_one.rows)
        for source, begin in zip(sources, starts, strict=True):
            put_rows(source, out, begin)
        return convert_like(Ragged._sealed(out, whole_one), shapes[0] if zs[0].keeps_levels else zs[0])

    def parted(dy: Any) -> Any:
        source = convert(dy, Ragged)._read()
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


def check_alike(parts: Sequence[Any], what: str) -> None:
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
def slice(x: Any, start: Any, length: Any) -> Any:
    """Of every (innermost) sequence the items `start` to ``start + length``; any dtype.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    start, length : an integer for all, or n integers, one a sequence

    Returns the same encoding; of a `List` views, and `x` itself where nothing is cut off.

    Errors: StructureError for a range that goes beyond its sequence, or another number of integers.

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

    def cut(z: Any) -> Any:
        if kept.same_lengths(structure):
            return z
        if isinstance(z, List):
            z._look()
            items = tuple([a[i : i + k] for a, i, k in zip(z.items, begin.tolist(), size.tolist(), strict=True)])
            return List(items, z._sample())
        source = (z if z._flat else convert(z, Ragged))._read()
        return convert_like(lay_out(source.restricted(kept, starts), Ragged), shape)

    def placed(dy: Any) -> Any:
        source = convert(dy, Ragged)._read()
        out = source.empty(structure.rows, zeros=True)
        put_rows(source, out, starts)
        return restored(Ragged._sealed(out, structure), shape)

    return Call(own, lambda z, _: (cut(z), lambda dy: linear(placed, cut, dy)), result, gradient)


def per_sequence(value: Any, n: int, what: str) -> Array:
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
def reshape(x: Any, width: int) -> Any:
    """The numbers of every (innermost) sequence in rows of `width`; any dtype.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists, with items of one axis, or none, which counts as one number
    width : numbers in a row of the result, at least 1

    Returns the same encoding with items ``(width,)`` and other lengths; of a `Ragged` or `LoD` a view.

    Errors: StructureError where the numbers of a sequence are no multiple of `width`.

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

    def forward(z: Any) -> Any:
        rows = rows_of(z)
        try:
            rows = rows.reshape(reshaped.rows, width)
        except (ValueError, RuntimeError) as error:  # no rows, but wider than anything
            raise no_room((reshaped.rows, width), error) from None
        return convert_like(Ragged._sealed(rows, reshaped), shape)

    def back(dy: Any) -> Any:
        return restored(Ragged._sealed(rows_of(dy).reshape(structure.rows, *item), structure), shape)

    return Call(own, lambda z, _: (forward(z), lambda dy: linear(back, forward, dy)), result, gradient)


def erase(x: Any, tokens: Any) -> Any:
    """Every (innermost) sequence without some tokens.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists of integers, with item shape () or (1,)
    tokens : integers, in any order, or one

    Returns the same encoding with other lengths.  Data on a GPU is marked there; which items stay is copied to the host
    once, since the lengths depend on it.  There is no gradient.

    Errors: TypeError for items or tokens that are no integers, StructureError for other item shapes.

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
    return y if result is None else result(y)


@operation
def scatter(base: Any, index: Any, updates: Any) -> Any:
    """A new array: to row i of `base`, at the places ``index[i]``, the `updates` of sequence i are added, in their
    order.

    Parameters
    ----------
    base : array ``(n, m, *item)``
    index : an encoding (or bare list) of n sequences of integers from 0 to m - 1, item shape () or (1,)
    updates : an encoding (or bare list) over the same sequences, items of shape `item`, dtype and library of `base`

    Returns an array like `base` (Paddle's sequence_scatter); its pullback gives the gradients of `base` and of
    `updates`. An index on a GPU is copied to the host once, to be checked.

    Errors: StructureError for sequences or shapes that do not fit, IndexError for a place that does not exist,
    TypeError for dtypes that cannot be added.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> lengths = [2, 1]
    >>> index, updates = sf.Ragged(np.array([0, 2, 1]), lengths), sf.Ragged(np.array([1.0, 2.0, 3.0]), lengths)
    >>> sf.scatter(np.zeros((2, 3)), index, updates)
    array([[1., 0., 2.],
           [0., 3., 0.]])
    """
    library, array = adopt(base, "base")
    where = operand(index).own
    own, _, gradient = operand(updates)
    if len(array.shape) < 2:
        raise StructureError(f"base must have the axes (n, m, *item), but has shape {tuple(array.shape)}")
    n, room, item = array.shape[0], array.shape[1], tuple(array.shape[2:])
    structure = own._structure
    for what, batch in (("index", where), ("updates", own)):
        if batch._structure.n != n:
            raise StructureError(f"{what} has {batch._structure.n} sequences, but base has {n} rows")
    if not where._structure.same_lengths(structure):
        raise StructureError(
            f"index has sequences of lengths {shown(where._structure.lengths)}, but updates {shown(structure.lengths)}"
        )
    if own.item_shape != item:
        raise StructureError(f"updates have item shape {own.item_shape}, but places of base have {item}")
    if library_of(own._sample()) is not library or own.device != library.device(array):
        raise DeviceError(
            f"updates are on {own.device}, {library_of(own._sample()).name}; base is on {library.device(array)}"
        )
    if own.dtype != array.dtype:
        raise StructureError(f"updates have dtype {own.dtype}, but base has {array.dtype}")
    if math.prod(where.item_shape) != 1 or len(where.item_shape) > 1:
        raise StructureError(f"index must hold one integer an item, but has item shape {where.item_shape}")
    name = library.dtype_name(array.dtype)
    if sums_in(name) and name == "bool":
        raise TypeError("bools cannot be added up in place; give integers")
    places = to_host(rows_of(where)).reshape(-1)
    if places.dtype.kind not in "iu" and places.size:
        raise TypeError(f"index must hold integers, not {places.dtype}")
    wrong = (places < 0) | (places >= room)
    if wrong.any():
        r = int(wrong.argmax())
        i = int(np.searchsorted(structure.offsets, r, side="right")) - 1
        raise IndexError(f"index has the place {places[r]} for row {i}, but base has {room} places")
    places = places.astype(np.int64)
    shape = without_data(own)
    flat = np.repeat(np.arange(n), structure.lengths) * room + places

    def forward(operands: Any) -> Array:
        start, new = operands
        rows = rows_of(new)
        added_in = "float32" if name in HALF else name
        data, out = library.astype(rows, added_in), library.astype(start, added_in)
        if library.address(out) == library.address(start):  # the caller's own memory
            out = library.copy(out)
        width = math.prod(item)
        if width and structure.rows:
            there = library.from_host(places, data)
            exact = {"float32": "float64", "complex64": "complex128"}.get(added_in, added_in)
            sums = scratch(library, (n * room * width if structure.longest > 16 else 1,), exact, out)
            args = (structure.offsets, room)
            scatter_rows.start(library, (data, there), (out, sums), args, width, structure)
        return library.astype(out, name)

    def gathered(dy: Array) -> Any:
        rows = library.take(dy.reshape(n * room, *item), flat, 0)
        return dy, restored(Ragged._sealed(rows, structure), shape)

    def rule(operands: Any, back: bool) -> tuple[Any, Any]:
        if back:
            differentiable(name, "a sum")
        return forward(operands), lambda dy: linear(gathered, forward, dy)

    return Call((array, own), rule, gradient=lambda ds: (ds[0], ds[1] if gradient is None else gradient(ds[1])))


def _in_blocks(x: Encoding) -> Source:
    """Its rows, to be put anywhere: those in time steps by way of a `Ragged`."""
    return (convert(x, Ragged) if x._by_steps else x)._read()
