"""Operations along each (innermost) sequence: softmax, windows, slices and the like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _flow
from ._rows import (
    HALF,
    calculate,
    calculated_at_once,
    combined,
    differentiable,
    float_kept,
    in_floats,
    in_layout,
    linear,
    move,
    name_of,
    new_rows,
    ready,
    scratch,
    sums_in,
)
from .arrays import Array, adopt, is_array, library_of, size_of, to_host
from .convert import at_least, convert, convert_like, move_rows, restored, rows_of, source_of, without_padding
from .errors import DeviceError, StructureError, said
from .formats import Encoding, List, LoD, Ragged, build_ragged, shown
from .grad import Call, at_once, operation, single
from .launch.kernel import Work, kernel
from .limits import no_room
from .reduce import reduce_sum, rows_or_data, spread
from .structure import Structure, frozen, integers, whole

# --- softmax and running sums ----------------------------------------------------------------------------------------


_softmax_at_once = [calculated_at_once("softmax_rows", float_kept, log, by_item=True) for log in (0, 1)]


@operation
@at_once(_softmax_at_once[0])
def softmax(x: Any) -> Any:
    """Softmax along every (innermost) sequence, column by column, with the maximum taken out first.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists, items of any shape

    Returns the same encoding; floats keep their dtype, integers and bools give float64.  A sequence with NaN or +inf,
    or of -inf alone, gives NaN, as in PyTorch.

    Errors: TypeError for dtypes without an order.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.softmax(sf.Ragged(np.array([100.0, 1000.0, 7.0]), [2, 1])).data
    array([0., 1., 1.])
    """
    return _softmax(x, 0)


@operation
@at_once(_softmax_at_once[1])
def log_softmax(x: Any) -> Any:
    """The logarithm of `softmax`, without its loss of small numbers.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.log_softmax(sf.Ragged(np.array([100.0, 1000.0, 7.0]), [2, 1])).data
    array([-900.,    0.,    0.])
    """
    return _softmax(x, 1)


def _softmax(x: Any, log: int) -> Call:
    own, home, home_dx = single(x)
    name = name_of(own)
    floats, result = in_floats(name, "a softmax")

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        r, layout, library = ready(z)
        item, width = r.item_shape, size_of(r.item_shape)
        y = _softmax_at_once[log](z)
        if y is not None:
            out = y.data
        else:
            data = library.astype(r.data, floats)
            out = new_rows(library, layout, item, data.dtype, data)
            calculate("softmax_rows", library, layout, r._structure, (data,), (out,), width, log)
            y = in_layout(z, library.astype(out, result))
        if not back:
            return y, None
        differentiable(name, "a softmax")
        shape, kept = _flow.hollow(z), library.alias(out)

        def pullback(dy: Any) -> Any:
            slopes = library.astype(ready(dy)[0].data, floats)
            dx = new_rows(library, layout, item, kept.dtype, kept)
            calculate("softmax_back", library, layout, r._structure, (slopes, kept), (dx,), width, log)
            return in_layout(shape, library.astype(dx, name))

        return y, pullback

    return Call(own, rule, home, home_dx, _log_softmax_again if log else _softmax_again)


def _softmax_again(x: Any, dy: Any) -> Any:
    """The gradient of softmax, made of operations that have gradients themselves."""
    y = softmax(x)
    total = spread(rows_or_data(reduce_sum(combined(lambda a, b: a * b, y, dy))), _flow.hollow(x))
    return without_padding(combined(lambda a, b, c: a * (b - c), y, dy, total))


def _log_softmax_again(x: Any, dy: Any) -> Any:
    y = log_softmax(x)
    total = spread(rows_or_data(reduce_sum(dy)), _flow.hollow(x))
    return without_padding(combined(lambda a, b, c: b - a.exp() * c, y, dy, total))


@operation
def cumsum(x: Any) -> Any:
    """The running sum along every (innermost) sequence, column by column.

    Returns the same encoding; floats keep their dtype (float16 and bfloat16 are added up as float32 is), integers and
    bools give int64, unsigned ones uint64.  From its 17th item on the sum of float32 runs in float64, rounded for each;
    so does its gradient, the running sum from the end.

    Errors: TypeError for dtypes without a sum.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.cumsum(sf.Ragged(np.array([1, 2, 3, 4]), [3, 1])).data
    array([1, 3, 6, 4])
    """
    own, home, home_dx = single(x)
    name = name_of(own)
    sums_in(name)

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        y = _cumsum(z, 0)
        if back:
            differentiable(name, "a running sum")
        return y, lambda dy: linear(lambda d: _cumsum(d, 1), lambda d: _cumsum(d, 0), dy)

    return Call(own, rule, home, home_dx)


def _cumsum(x: Any, back: int) -> Any:
    r, layout, library = ready(x)
    name = library.dtype_name(r.dtype)
    sums = sums_in(name)
    half = sums != name and sums == "float32"
    data = library.astype(r.data, sums) if half else r.data
    out = new_rows(library, layout, r.item_shape, library.dtype(sums), data)
    calculate("cumsum_rows", library, layout, r._structure, (data,), (out,), size_of(r.item_shape), back)
    return in_layout(x, library.astype(out, name) if half else out)


# --- moves within a sequence -----------------------------------------------------------------------------------------


@operation
def reverse(x: Any) -> Any:
    """Every (innermost) sequence from its end to its beginning; any dtype.

    Returns the same encoding.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reverse(sf.Ragged(np.array([1, 2, 3, 4]), [3, 1])).data
    array([3, 2, 1, 4])
    """
    own, home, home_dx = single(x)
    return Call(own, lambda z, _: (_reversed(z), lambda dy: linear(_reversed, _reversed, dy)), home, home_dx)


def _reversed(x: Any) -> Any:
    r, layout, library = ready(x)
    out = new_rows(library, layout, r.item_shape, r.dtype, r.data)
    move("reverse_rows", library, layout, r._structure, r.data, out, r.item_shape)
    return in_layout(x, out)


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
    doors = [single(part) for part in parts]
    owns = tuple([own for own, _, _ in doors])
    check_alike(owns, "part")
    first = owns[0]
    for k, own in enumerate(owns):
        if own._structure.n != first._structure.n:
            raise StructureError(f"part {k} has {own._structure.n} sequences, but part 0 has {first._structure.n}")
        if isinstance(own, LoD) and isinstance(first, LoD) and not _same_outside(own, first):
            raise StructureError(f"part {k} has other outer levels than part 0")
    structures = [own._structure for own in owns]
    lengths = sum((s.lengths for s in structures[1:]), structures[0].lengths)
    whole_one = Structure.of_lengths(lengths.copy())
    starts, at = [], whole_one.offsets[:-1]
    for s in structures:
        starts.append(frozen(at.copy()))
        at = at + s.lengths
    shapes = tuple([_flow.hollow(own) for own in owns])

    def joined(zs: Any) -> Any:
        sources = [source_of(z) for z in zs]
        out = sources[0].library.empty((whole_one.rows, *sources[0].item_shape), zs[0].dtype, sources[0].like)
        for source, begin in zip(sources, starts, strict=True):
            move_rows(source, out, starts=begin)
        return convert_like(build_ragged(out, whole_one), shapes[0] if isinstance(zs[0], LoD) else zs[0])

    def parted(dy: Any) -> Any:
        source = source_of(convert(dy, Ragged))
        found = []
        for structure, begin, shape in zip(structures, starts, shapes, strict=True):
            out = source.library.empty((structure.rows, *source.item_shape), source.like.dtype, source.like)
            move_rows(source.restricted(structure, begin), out)
            found.append(restored(build_ragged(out, structure), shape))
        return tuple(found)

    return Call(owns, lambda zs, _: (joined(zs), lambda dy: linear(parted, joined, dy)), doors[0][1], each_home(doors))


def each_home(doors: Sequence[Any]) -> Any:
    """The way back of gradients for several batches, each to its caller's kind (see `single`)."""
    return lambda dxs: tuple([dx if door[2] is None else door[2](dx) for dx, door in zip(dxs, doors, strict=True)])


def check_alike(parts: Sequence[Any], what: str) -> None:
    """StructureError or DeviceError where batches, or arrays of rows, differ in what one array must have in common."""
    arrays = [part._like() if isinstance(part, Encoding) else part for part in parts]
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


def _same_outside(a: LoD, b: LoD) -> bool:
    return len(a.lod) == len(b.lod) and all(s.like(t) for s, t in zip(a._levels[:-1], b._levels[:-1], strict=True))


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
    own, home, home_dx = single(x)
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
    shape = _flow.hollow(own)

    def cut(z: Any) -> Any:
        if kept.like(structure):
            return z
        if isinstance(z, List):
            source_of(z)
            items = tuple([a[i : i + k] for a, i, k in zip(z.items, begin.tolist(), size.tolist(), strict=True)])
            return List(items, z._like())
        source = source_of(z if isinstance(z, LoD) else convert(z, Ragged))
        out = source.library.empty((kept.rows, *source.item_shape), source.like.dtype, source.like)
        move_rows(source.restricted(kept, starts), out)
        return convert_like(build_ragged(out, kept), shape)

    def placed(dy: Any) -> Any:
        source = source_of(convert(dy, Ragged))
        out = source.library.zeros((structure.rows, *source.item_shape), source.like.dtype, source.like)
        move_rows(source, out, starts=starts)
        return restored(build_ragged(out, structure), shape)

    return Call(own, lambda z, _: (cut(z), lambda dy: linear(placed, cut, dy)), home, home_dx)


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
    own, home, home_dx = single(x)
    width = at_least(width, "width", 1)
    item = own.item_shape
    if len(item) > 1:
        raise StructureError(f"reshape is for items of one axis, but they have shape {item}")
    structure = own._structure
    numbers = structure.lengths * size_of(item)
    if (numbers % width).any():
        i = int((numbers % width != 0).argmax())
        raise StructureError(
            f"sequence {i} has {structure.lengths[i]} items of {size_of(item)}, {numbers[i]} numbers, which "
            f"do not divide into rows of {said(width)}"
        )
    reshaped = Structure.of_lengths(numbers // width)
    shape = _flow.hollow(own)

    def forward(z: Any) -> Any:
        rows = rows_of(z)
        try:
            rows = rows.reshape(reshaped.rows, width)
        except (ValueError, RuntimeError) as error:  # no rows, but wider than anything
            raise no_room((reshaped.rows, width), error) from None
        return convert_like(build_ragged(rows, reshaped), shape)

    def back(dy: Any) -> Any:
        return restored(build_ragged(rows_of(dy).reshape(structure.rows, *item), structure), shape)

    return Call(own, lambda z, _: (forward(z), lambda dy: linear(back, forward, dy)), home, home_dx)


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
    own, home, _ = single(x)
    if size_of(own.item_shape) != 1 or len(own.item_shape) > 1:
        raise StructureError(f"erase is for tokens, items of shape () or (1,), but they have shape {own.item_shape}")
    if isinstance(tokens, (set, frozenset)):
        tokens = list(tokens)
    wanted = frozen(np.unique(integers([tokens] if isinstance(tokens, (int, np.integer)) else tokens, "tokens")))
    name = name_of(own)
    if own.rows == 0 and not isinstance(x, Encoding):
        return x  # nested lists without items have no dtype
    if not name.startswith(("int", "uint")):
        raise TypeError(f"tokens are integers, but the items have dtype {name}")
    r, _, library = ready(convert(own, Ragged))
    items = r.data
    if name == "uint64":  # beside int64 it would be compared as float64; no token is over int64
        items = library.astype(items, name).view(library.dtype("int64"))
        wanted = frozen(wanted[wanted >= 0])
    flags = library.empty((r.rows,), library.dtype("uint8"), items)
    kernel("keep_rows").start(library, (items,), (flags,), (wanted,), 1, None, Work(r.rows, r.rows))
    kept = np.flatnonzero(library.to_numpy(flags))
    ends = np.searchsorted(kept, r.offsets)
    data = library.take(r.data, kept, 0)
    y = convert_like(build_ragged(data, Structure.of_offsets(ends.astype(np.int64))), own)
    return y if home is None else home(y)


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
    where, _, _ = single(index)
    own, _, home_dx = single(updates)
    if len(array.shape) < 2:
        raise StructureError(f"base must have the axes (n, m, *item), but has shape {tuple(array.shape)}")
    n, room, item = array.shape[0], array.shape[1], tuple(array.shape[2:])
    structure = own._structure
    for what, batch in (("index", where), ("updates", own)):
        if batch._structure.n != n:
            raise StructureError(f"{what} has {batch._structure.n} sequences, but base has {n} rows")
    if not where._structure.like(structure):
        raise StructureError(
            f"index has sequences of lengths {shown(where._structure.lengths)}, but updates {shown(structure.lengths)}"
        )
    if own.item_shape != item:
        raise StructureError(f"updates have item shape {own.item_shape}, but places of base have {item}")
    if library_of(own._like()) is not library or own.device != library.device(array):
        raise DeviceError(
            f"updates are on {own.device}, {library_of(own._like()).name}; base is on {library.device(array)}"
        )
    if own.dtype != array.dtype:
        raise StructureError(f"updates have dtype {own.dtype}, but base has {array.dtype}")
    if size_of(where.item_shape) != 1 or len(where.item_shape) > 1:
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
    shape = _flow.hollow(own)
    flat = np.repeat(np.arange(n), structure.lengths) * room + places

    def forward(operands: Any) -> Array:
        start, new = operands
        rows = rows_of(new)
        added_in = "float32" if name in HALF else name
        data, out = library.astype(rows, added_in), library.astype(start, added_in)
        if library.address(out) == library.address(start):  # the caller's own memory
            out = library.copy(out)
        width = size_of(item)
        if width and structure.rows:
            there = library.from_host(places, data)
            exact = {"float32": "float64", "complex64": "complex128"}.get(added_in, added_in)
            sums = scratch(library, (n * room * width if structure.longest > 16 else 1,), exact, out)
            args = (structure.offsets, room)
            kernel("scatter_rows").start(library, (data, there), (out, sums), args, width, structure)
        return library.astype(out, name)

    def gathered(dy: Array) -> Any:
        rows = library.take(dy.reshape(n * room, *item), flat, 0)
        return dy, restored(build_ragged(rows, structure), shape)

    def rule(operands: Any, back: bool) -> tuple[Any, Any]:
        if back:
            differentiable(name, "a sum")
        return forward(operands), lambda dy: linear(gathered, forward, dy)

    return Call((array, own), rule, home_dx=lambda ds: (ds[0], ds[1] if home_dx is None else home_dx(ds[1])))


# --- windows ---------------------------------------------------------------------------------------------------------


@operation
def window(x: Any, before: int, after: int) -> Any:
    """Every item with its neighbours in the sequence side by side, zeros where there are none (Thinc's seq2col).

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists; any dtype
    before, after : how many neighbours on each side

    Returns the same encoding; with ``k = before + 1 + after`` an item of shape ``(w, ...)`` becomes ``(k * w, ...)``,
    one of shape () becomes ``(k,)``.  The gradient is for floats.

    Errors: ConversionError for negative numbers.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.window(sf.Ragged(np.array([1, 2, 3]), [2, 1]), 1, 1).data
    array([[0, 1, 2],
           [1, 2, 0],
           [0, 3, 0]])
    """
    own, home, home_dx = single(x)
    before, after = at_least(before, "before", 0), at_least(after, "after", 0)
    return _windows(own, home, home_dx, before, after, 0)


@operation
def ngrams(x: Any, size: int, *, fill: Any = 0) -> Any:
    """Every item with the ``size - 1`` items after it, `fill` where the sequence has ended (Paddle's
    sequence_enumerate).

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists; any dtype
    size : how many items side by side, at least 1
    fill : one value or one item, exact in the dtype

    Returns the same encoding, items as in `window`.

    Errors: ConversionError for a `size` below 1 and for a `fill` that the dtype cannot hold.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.ngrams(sf.Ragged(np.array([1, 2, 3, 4, 5]), [3, 2]), 2, fill=9).data.tolist()
    [[1, 2], [2, 3], [3, 9], [4, 5], [5, 9]]
    """
    own, home, home_dx = single(x)
    return _windows(own, home, home_dx, 0, at_least(size, "size", 1) - 1, fill)


def _windows(own: Any, home: Any, home_dx: Any, before: int, after: int, fill: Any) -> Call:
    name, item, shape = name_of(own), own.item_shape, _flow.hollow(own)
    zero = isinstance(fill, int) and fill == 0
    filling = None if zero else library_of(own._like()).item(fill, own.dtype, item)

    def forward(z: Any, plain: bool = False) -> Any:
        if filling is None or plain:
            return _window(z, before, after, None)
        y = _window(convert(z, Ragged), before, after, filling)
        return convert_like(y, shape)

    def rule(z: Any, back: bool) -> tuple[Any, Any]:
        y = forward(z)
        if back:
            sums_in(name)
            differentiable(name, "a window")
        return y, lambda dy: linear(
            lambda d: _window_back(d, before, after, item), lambda d: _window(d, before, after, None), dy
        )

    return Call(own, rule, home, home_dx)


def _window(x: Any, before: int, after: int, filling: Array | None) -> Any:
    r, layout, library = ready(x)
    item, count = r.item_shape, before + 1 + after
    wide = (count * item[0], *item[1:]) if item else (count,)
    out = new_rows(library, layout, wide, r.dtype, r.data)
    if filling is not None and filling.size and r.rows:
        work = Work(r.rows, r.rows * count)
        kernel("pad_blocks").start(library, (filling,), (out,), (_NOTHING, count, 0), filling.size, None, work)
    move("window_rows", library, layout, r._structure, r.data, out, item, before, after, int(filling is not None))
    return in_layout(x, out)


_NOTHING = frozen(np.zeros(1, np.int64))


def _window_back(dy: Any, before: int, after: int, item: tuple[int, ...]) -> Any:
    r, layout, library = ready(dy)
    name = library.dtype_name(r.dtype)
    data = library.astype(r.data, sums_in(name))
    out = new_rows(library, layout, item, data.dtype, data)
    calculate("window_back", library, layout, r._structure, (data,), (out,), size_of(item), before, after)
    return in_layout(dy, library.astype(out, name))


@operation
def conv(x: Any, weight: Any, before: int, after: int) -> Any:
    """A convolution along every (innermost) sequence: ``window(x, before, after) @ weight``.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists, with items ``(width,)`` or (), which counts as width 1
    weight : array ``((before + 1 + after) * width, out)``, dtype and library of `x`
    before, after : how many neighbours on each side

    Returns the same encoding with items ``(out,)`` (Paddle's sequence_conv); its pullback gives the gradients of `x`
    and of `weight`.  The matrix product is that of the array library.

    Errors: StructureError for a weight that does not fit, TypeError for Numba's device arrays, which have no product.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.conv(sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 1]), np.ones((3, 1)), 1, 1).data.tolist()
    [[3.0], [3.0], [3.0]]
    """
    own, home, home_dx = single(x)
    before, after = at_least(before, "before", 0), at_least(after, "after", 0)
    library, w = adopt(weight, "weight")
    item = own.item_shape
    if len(item) > 1:
        raise StructureError(f"conv is for items of one axis, but they have shape {item}")
    high = (before + 1 + after) * size_of(item)
    if len(w.shape) != 2 or w.shape[0] != high:
        raise StructureError(
            f"weight must have shape ({said(high)}, out), (before + 1 + after) * width rows, but has {tuple(w.shape)}"
        )
    if library is not library_of(own._like()) or library.device(w) != own.device:
        raise DeviceError(f"weight is an array of {library.name} on {library.device(w)}; x is on {own.device}")
    if w.dtype != own.dtype:
        raise StructureError(f"weight has dtype {w.dtype}, but x has {own.dtype}")
    name, shape = name_of(own), _flow.hollow(own)

    def rule(operands: Any, back: bool) -> tuple[Any, Any]:
        z, matrix = operands
        if back:
            differentiable(name, "a convolution")
        windows = _window(convert(z, Ragged), before, after, None)
        y = build_ragged(library.product(windows.data, matrix), windows._structure)
        return convert_like(y, shape), lambda dy: again(operands, dy)

    def again(operands: Any, dy: Any) -> Any:
        z, matrix = operands
        r, slopes = convert(z, Ragged), convert(dy, Ragged)
        windows = linear(lambda a: _window(a, before, after, None), lambda a: _window_back(a, before, after, item), r)
        dwindows = build_ragged(library.product(slopes.data, matrix.T.conj()), r._structure)
        dx = linear(lambda a: _window_back(a, before, after, item), lambda a: _window(a, before, after, None), dwindows)
        return restored(dx, shape), library.product(windows.data.T.conj(), slopes.data)

    return Call((own, w), rule, home, lambda ds: (ds[0] if home_dx is None else home_dx(ds[0]), ds[1]), again)
