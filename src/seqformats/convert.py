"""Every conversion.

There are two ways to lay out a sequence: as one block of rows (`Ragged`, `Masked`, the arrays of a `List`) or by time
steps (`Padded`, `Packed`).  A conversion is one move between two such layouts, so four functions build the targets,
and the table at the end says from where each can be reached.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from . import _flow, hints, registry
from .arrays import (
    LAZY_ZEROS,
    NUMPY,
    Array,
    Library,
    Shape,
    is_array,
    is_array_type,
    library_of,
    plain,
    size_of,
    zero_item,
)
from .errors import ConversionError, StructureError, said
from .formats import (
    Encoding,
    List,
    LoD,
    Masked,
    Packed,
    Padded,
    Pairs,
    Ragged,
    build_list,
    build_lod,
    build_masked,
    build_packed,
    build_padded,
    build_ragged,
    level_index,
    rows_of_level,
)
from .launch.kernel import check_device, kernel
from .layout import Layout
from .limits import NO_ROOM, allocated, check_finite, no_room
from .lists import read, scan
from .structure import MOST, Structure, frozen, same_numbers, whole

# --- where rows lie --------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """An encoding as something to read rows from; see `kernels.copy_blocks` for `starts`, `stride` and `left`."""

    library: Library
    like: Array  # gives device and dtype
    item_shape: Shape
    row: int  # bytes
    data: Array | tuple[Array, ...]  # several arrays where `starts` are their addresses
    structure: Structure
    starts: Array | None  # where blocks, or steps that are packed, begin; None: one after the other
    stride: int
    left: int
    columns: int | None  # of a time-major layout: how many, -1 where steps are packed

    def restricted(self, structure: Structure, starts: Array) -> Source:
        """Blocks of the lengths of `structure` that begin at rows (or addresses) `starts`."""
        return self._replace(structure=structure, starts=starts, stride=-1, left=0, columns=None)


def source_at(
    library: Library,
    like: Array,
    item_shape: Shape,
    data: Array | tuple[Array, ...],
    structure: Structure,
    starts: Array | None = None,
    stride: int = -1,
    left: int = 0,
    columns: int | None = None,
) -> Source:
    """The `Source` with these fields."""
    row = like.dtype.itemsize
    for k in item_shape:
        row *= k
    # the constructor of a named tuple takes twice as long
    return tuple.__new__(Source, (library, like, item_shape, row, data, structure, starts, stride, left, columns))


def checked_data(x: Any) -> Library:
    """The library of an encoding's data, after a look at whether that is still what was validated; not for a `List`."""
    data = x.data
    if type(data) is np.ndarray:
        library: Library = NUMPY
        contiguous = data.flags.c_contiguous
    else:
        library = library_of(data)
        contiguous = library.contiguous(data)
    if data.shape != x._shape or data.dtype != x._dtype or not contiguous:
        raise StructureError(
            f"data was {_about(x._shape, x._dtype)} when this {type(x).__name__} was built, but is "
            f"{_about(data.shape, data.dtype, contiguous)} now; build a new one"
        )
    return library


def rows_of(x: Any) -> Array:
    """The rows of an encoding, one sequence after the other, after the same look."""
    r = convert(x, Ragged)
    checked_data(r)
    return r.data


def source_of(x: Any) -> Source:
    """Where the rows of an encoding lie, after a look at whether its data is still what was validated."""
    if type(x) is Source:
        return x
    if isinstance(x, List):
        return _source_of_list(x)
    library, data, structure, shape = checked_data(x), x.data, x._structure, x._shape
    if isinstance(x, (Ragged, LoD)):
        return source_at(library, data, shape[1:], data, structure)
    if isinstance(x, Masked):
        return source_at(library, data, shape[2:], data, structure, None, shape[1], int(x.side == "left"))
    if isinstance(x, Padded):
        return source_at(library, data, shape[2:], data, structure, None, -1, 0, shape[1])
    return source_at(library, data, shape[1:], data, structure, None, -1, 0, -1)


def _about(shape: Any, dtype: Any, contiguous: bool = True) -> str:
    return f"{dtype} of shape {tuple(shape)}{'' if contiguous else ' and not contiguous'}"


def _source_of_list(x: List) -> Source:
    like = x._like()
    addresses = addresses_of(x, x.items, x._structure.lengths)
    return source_at(library_of(like), like, x.item_shape, x.items, x._structure, addresses)


def addresses_of(x: List, items: tuple[Array, ...], lengths: Array) -> Array:
    """Where some arrays of a list begin, after a look at whether they are still what was validated."""
    library = library_of(x._like())
    scanned = scan(items)
    if scanned is not None and items[0].dtype == x._dtype and items[0].shape[1:] == x._shape[1:]:
        found, addresses = scanned
        if same_numbers(found, lengths):
            return addresses
    for item, length in zip(items, lengths.tolist(), strict=True):
        if tuple(item.shape) != (length, *x._shape[1:]) or item.dtype != x._dtype or not library.contiguous(item):
            raise StructureError(
                f"an array was {_about((length, *x._shape[1:]), x._dtype)} when this List was built, "
                f"but is {_about(item.shape, item.dtype, library.contiguous(item))} now; build a new one"
            )
    return library.addresses(items)


def allocate(source: Source, shape: Shape, zeros: bool = False) -> Array:
    """A new array for rows of `source`: ``(*shape, *item)``."""
    make = source.library.zeros if zeros else source.library.empty
    try:
        return make((*shape, *source.item_shape), source.like.dtype, source.like)
    except NO_ROOM as error:
        raise no_room((*shape, *source.item_shape), error) from None


def move_rows(
    source: Source,
    out: Array,
    structure: Structure | None = None,
    starts: Array | None = None,
    stride: int = -1,
    left: int = 0,
    columns: int | None = None,
) -> None:
    """Move all rows of `source` to `out`, which is laid out as the other arguments say, in the order of `structure`."""
    library, like, _, row, data, own, read, source_stride, source_left, source_columns = source
    if own.rows == 0 or row == 0:
        return
    cum = own.offsets
    absolute = 1 if type(data) is tuple else 0
    few = row in _WORDS and library.kind(like) == "cpu"
    args: tuple[Any, ...]
    work = None
    blocks = _at_rows((cum if read is None else read, cum, cum, source_stride, source_left, 1, absolute))
    if source_columns is None and columns is None:
        move, args = _copy_blocks, (blocks, _at_rows((cum if starts is None else starts, cum, cum, stride, left, 1, 0)))
    elif source_columns is None:
        order = (structure or own).order
        move = _words_to_steps if few else _blocks_to_steps
        args = (blocks, _at_rows((order.indices, cum, order.steps, -1, 0, 0 if cast(int, columns) < 0 else columns, 0)))
    elif columns is None:
        order = own.order
        move = _steps_to_words if few else _steps_to_blocks
        args = (
            order.steps if read is None else read,
            _at_rows((order.indices, cum, order.steps, -1, 0, 0 if source_columns < 0 else source_columns, absolute)),
            _at_rows((cum if starts is None else starts, cum, cum, stride, left, 1, 0)),
        )
    else:
        # the same steps on both sides: a step is a block
        steps = own.order.steps[: own.longest + 1]
        move = _copy_blocks
        args = (
            _at_rows((steps if read is None else read, steps, steps, source_columns, 0, 1, absolute)),
            _at_rows((steps, steps, steps, columns, 0, 1, 0)),
        )
        work = (own.longest, own.rows, own.order.size_at_t[: own.longest])
    move.start(library, (data,), (out,), args, row, structure or own, work)


_WORDS = (1, 2, 4, 8)  # bytes


def _same_order(a: Structure, b: Structure) -> bool:
    return a is b or same_numbers(a.order.indices, b.order.indices)


# --- rectangles ------------------------------------------------------------------------------------------------------


def at_least(value: Any, name: str, least: int) -> int:
    """An integer option; ConversionError where it is below `least`, or more than int64 can count."""
    number = whole(value, name)
    if number < least:
        raise ConversionError(f"{name} must be at least {least}, not {said(number)}")
    if number > MOST:
        raise ConversionError(f"{name} must fit int64, but is {said(number)}")
    return number


def _width(structure: Structure, width: Any, multiple_of: Any, truncate: Any) -> tuple[int, int]:
    """The width of the rectangle, and the longest length that is kept."""
    longest = structure.longest
    if width is None and type(multiple_of) is int and multiple_of == 1 and truncate is False:
        return longest, longest
    if not isinstance(truncate, (bool, np.bool_)):
        raise TypeError(f"truncate must be True or False, not {said(truncate)}")
    step = at_least(multiple_of, "multiple_of", 1)
    if width is None:
        room = longest
    else:
        room = at_least(width, "width", 0)
        if longest > room:
            if not truncate:
                i = int(structure.lengths.argmax())
                raise ConversionError(
                    f"width={room} is too small: sequence {i} has {longest} items; "
                    f"give truncate=True or a width of at least {longest}"
                )
            longest = room
    return -(-room // step) * step, longest


def _truncated(source: Source, x: Any, longest: int) -> Source:
    """The same rows without those past `longest` in each sequence; the first ones stay."""
    if source.columns is not None:
        return _truncated(source_of(to_ragged(x)), x, longest)
    old = source.structure
    structure = Structure.of_lengths(np.minimum(old.lengths, longest))
    if source.starts is not None:
        starts = source.starts
    elif source.stride < 0:
        starts = frozen(old.offsets[:-1].copy())
    else:
        starts = np.arange(old.n) * source.stride
        if source.left:
            starts += source.stride - old.lengths
        frozen(starts)
    return source.restricted(structure, starts)


def _rectangle(source: Source, shape: tuple[int, int], fill: Any) -> tuple[Array, Array | None]:
    """A new array for `shape` rows, and the padding item that is still to be written, if any."""
    row, size = source.row, shape[0] * shape[1]
    zero = type(fill) is int and fill == 0
    item = None if zero else source.library.item(fill, source.like.dtype, source.item_shape)
    if size == source.structure.rows or row == 0:
        return allocate(source, shape), None
    if zero and size * row >= LAZY_ZEROS and source.library.kind(source.like) == "cpu":
        return allocate(source, shape, zeros=True), None
    return allocate(source, shape), zero_item(row) if item is None else item


def _pad(source: Source, out: Array, item: Array | None, runs: int, room: int, left: int, cum: Array) -> None:
    if item is not None:
        structure = source.structure
        work = (runs, runs * room - structure.rows, None)
        _pad_blocks.start(source.library, (item,), (out,), (cum, room, left), source.row, structure, work)


@registry.provides("mask_of")
def mask_of(x: Masked) -> Array:
    """See `Masked.mask`."""
    source = source_of(x)
    return mask_beside(source.library, source.like, x.lengths, x.data.shape[1], x.side)


def mask_beside(library: Library, like: Array, lengths: Array, width: int, side: str) -> Array:
    """``(n, width)`` bool beside `like`, True where there is an item: what is padding in the complement."""
    n = lengths.size
    out = allocated(library.zeros, (n, width), library.bool_dtype, like)
    if n * width:
        free = Structure.of_lengths(width - lengths)
        args = (free.offsets, width, int(side == "right"))
        _pad_blocks.start(library, (_TRUE,), (out,), args, 1, free, (n, n * width - free.rows, None))
    return out


_TRUE = frozen(np.ones(1, np.uint8))


# --- the four targets ------------------------------------------------------------------------------------------------


def to_ragged(x: Any) -> Ragged:
    """Any layout as `Ragged`."""
    source = source_of(x)
    out = allocate(source, (source.structure.rows,))
    move_rows(source, out)
    return build_ragged(out, source.structure.in_order())


def to_masked(
    x: Any, *, fill: Any = 0, width: Any = None, multiple_of: Any = 1, truncate: bool = False, side: str | None = None
) -> Masked:
    """Any layout as `Masked`, padded on the right (a `Masked` on its own side) unless `side` says otherwise."""
    if side is None:
        side = x.side if isinstance(x, Masked) else "right"
    elif not isinstance(side, str):
        raise TypeError(f'side must be "right" or "left", not {said(side)}')
    elif side not in ("right", "left"):
        raise ConversionError(f'side must be "right" or "left", not {said(side)}')
    source = source_of(x)
    if isinstance(x, Masked) and width is None:
        width = x.data.shape[1]  # another side, fill or multiple of the rectangle that is there
    room, longest = _width(source.structure, width, multiple_of, truncate)
    if longest < source.structure.longest:
        source = _truncated(source, x, longest)
    structure, left = source.structure, int(side == "left")
    out, item = _rectangle(source, (structure.n, room), fill)
    move_rows(source, out, stride=room, left=left)
    _pad(source, out, item, structure.n, room, left, structure.offsets)
    return build_masked(out, structure.in_order(), side)


def to_padded(x: Any, *, fill: Any = 0, width: Any = None, multiple_of: Any = 1, truncate: bool = False) -> Padded:
    """Any layout as `Padded`."""
    source = source_of(x)
    if isinstance(x, Padded) and width is None:
        width = x.data.shape[0]
    room, longest = _width(source.structure, width, multiple_of, truncate)
    if longest < source.structure.longest:
        source = _truncated(source, x, longest)
    return _padded(source, source.structure, room, fill)


def _padded(source: Source, structure: Structure, room: int, fill: Any = 0) -> Padded:
    """With the columns in the order of `structure`, whose lengths are those of `source`."""
    n = structure.n
    out, item = _rectangle(source, (room, n), fill)
    move_rows(source, out, structure, columns=n)
    _pad(source, out, item, room, n, 0, structure.order.steps)
    return build_padded(out, structure)


def to_packed(x: Any) -> Packed:
    """Any layout as `Packed`."""
    source = source_of(x)
    return _packed(source, source.structure)


def _packed(source: Source, structure: Structure) -> Packed:
    out = allocate(source, (structure.rows,))
    move_rows(source, out, structure, columns=-1)
    return build_packed(out, structure)


_FROM_SOURCE = (to_ragged, to_masked, to_padded, to_packed)


def moved_at_once(
    function: Callable[..., Any],
    library: Library,
    like: Array,
    item: Shape,
    data: Array | tuple[Array, ...],
    structure: Structure,
    starts: Array | None = None,
    stride: int = -1,
    left: int = 0,
) -> Any:
    """``function`` of a few sequences in blocks on the host, in half the time; None for anything else.

    The arguments are those of `source_at`; nothing of them wants a gradient.
    """
    n, rows, longest, cum = structure.n, structure.rows, structure.longest, structure.offsets
    row = like.dtype.itemsize * size_of(item)
    lead: Shape = (longest, n) if function is to_padded else (n, longest) if function is to_masked else (rows,)
    size = size_of(lead)
    if not (rows and row) or size * row >= 4 << 20:
        return None
    out = library.empty((*lead, *item), like.dtype, like)
    absolute = 1 if type(data) is tuple else 0
    if starts is None:
        starts = cum
    used = cum
    read = _at_rows((starts, cum, cum, stride, left, 1, absolute))
    if function is to_padded or function is to_packed:
        order = structure.order
        used = order.steps
        write = _at_rows((order.indices, cum, used, -1, 0, n if function is to_padded else 0, 0))
        move = _words_to_steps if row in _WORDS else _blocks_to_steps
    else:
        write = _at_rows((cum, cum, cum, -1 if function is to_ragged else longest, 0, 1, 0))
        move = _copy_blocks
    move.start(library, (data,), (out,), (read, write), row, structure)
    if size != rows:
        pad = (used, lead[1], 0)
        _pad_blocks.start(library, ((),), (out,), pad, row, None, (lead[0], size - rows, None))
    if function is to_padded:
        return build_padded(out, structure)
    if function is to_packed:
        return build_packed(out, structure)
    structure = structure.in_order()
    return build_ragged(out, structure) if function is to_ragged else build_masked(out, structure, "right")


_at_rows = functools.partial(tuple.__new__, Layout)  # in half the time
_copy_blocks, _pad_blocks = kernel("copy_blocks"), kernel("pad_blocks")
_blocks_to_steps, _words_to_steps = kernel("blocks_to_steps"), kernel("words_to_steps")
_steps_to_blocks, _steps_to_words = kernel("steps_to_blocks"), kernel("steps_to_words")


def _at_once(function: Callable[..., Any], x: Any) -> Any:
    """`moved_at_once` for a `Ragged`, a `Masked` or a `List` that wants no gradient; None where that is not the way."""
    kind, structure, shape = type(x), x._structure, x._shape
    if kind is List:
        if not x.items or _flow.wants_grad(x):
            return None
        like, starts = x.items[0], addresses_of(x, x.items, structure.lengths)
        library = library_of(like)
        if library.kind(like) != "cpu":
            return None
        return moved_at_once(function, library, like, shape[1:], x.items, structure, starts)
    if kind is not Ragged and kind is not Masked:
        return None
    data = x.data
    found = plain(data, x._dtype, shape)
    if found is None:
        return None
    if kind is Ragged:
        return moved_at_once(function, found, data, shape[1:], data, structure)
    left = 1 if x.side == "left" else 0
    return moved_at_once(function, found, data, shape[2:], data, structure, None, shape[1], left)


def ragged_to_list(x: Ragged) -> List:
    """Views of the rows of each sequence."""
    source = source_of(x)
    structure = source.structure
    return build_list(source.library.split(x.data, structure.lengths, structure.offsets), structure, x.data)


def steps_to_list(x: Any) -> List:
    """Views of one new array."""
    return ragged_to_list(to_ragged(x))


def masked_to_list(x: Masked) -> List:
    """Views of the rows of each sequence, without the padding."""
    source = source_of(x)
    data, structure = x.data, source.structure
    lengths = structure.lengths.tolist()
    if x.side == "left":
        width = data.shape[1]
        items = [data[i, width - length :] for i, length in enumerate(lengths)]
    else:
        items = [data[i, :length] for i, length in enumerate(lengths)]
    like = items[0] if items else allocate(source, (0,))
    return build_list(tuple(items), structure, like)


# --- levels ----------------------------------------------------------------------------------------------------------


def structure_of(x: Any, level: int = -1) -> Structure:
    """The structure of one level, counted in rows: each sequence with all its rows."""
    k = level_index(x, level)
    if not isinstance(x, LoD) or k == len(x.lod) - 1:
        return x._structure  # type: ignore[no-any-return]
    return Structure.of_offsets(rows_of_level(x, k))


def lod_to_ragged(x: LoD, *, level: int = -1) -> Ragged:
    """One level, sharing data; the boundaries further in are dropped."""
    source_of(x)
    return build_ragged(x.data, structure_of(x, level))


def lod_to_lod(x: LoD, *, level: int = -1) -> LoD:
    """One level alone, sharing data."""
    if len(x.lod) == 1:
        level_index(x, level)
        return x
    r = lod_to_ragged(x, level=level)
    return build_lod(r.data, (r._structure,))


def ragged_to_lod(x: Ragged) -> LoD:
    """One level, sharing data."""
    source_of(x)
    return build_lod(x.data, (x._structure,))


# --- the door --------------------------------------------------------------------------------------------------------


@registry.provides("as_encoding")
def as_encoding(x: Any) -> Any:
    """A bare list or tuple as an encoding: of arrays as `List`, of lists as `LoD`; everything else unchanged."""
    if isinstance(x, (list, tuple)):
        return _list_of(tuple(x)) if is_list_of_arrays(x) else LoD.from_nested(x)
    return x


def _list_of(items: tuple[Any, ...]) -> List:
    """`List(items)`, without a second look at what the native reader has seen."""
    found = read(items)
    return List(items) if found is None else build_list(items, Structure(found[0], found[1], found[3]), items[0])


def is_list_of_arrays(x: Any) -> bool:
    """Is this bare list or tuple a `List`?  An empty one is."""
    return all(map(is_array_type, set(map(type, x))))


@registry.provides("count")
def count(x: Any) -> int:
    """How many sequences, of a user's dataclass too."""
    return len(x if isinstance(x, Pairs) or is_array(x) else as_own(x))


@registry.provides("is_encoding")
def is_encoding(x: Any) -> bool:
    """An encoding of this library or a user's dataclass with a conversion."""
    return isinstance(x, (Encoding, Pairs)) or kind_of(x) is not None


def kind_of(x: Any) -> type | None:
    """The type by which the table of conversions knows this object."""
    for kind in type(x).__mro__:
        if registry.is_encoding_type(kind):
            return kind
    return None


def as_own(x: Any) -> Any:
    """An encoding, a user's dataclass or a bare list as an encoding of this library; TypeError for anything else."""
    x = as_encoding(x)
    return x if isinstance(x, Encoding) else convert(x, _own_kind(x))


def _own_kind(x: Any) -> type:
    """The encoding of this library that stands for a user's dataclass.

    The one that it shares memory with, since order, width and side of the data are then the same; else one that keeps
    its sequences.
    """
    kind = kind_of(x)
    if kind is None or registry.keeps_levels(kind):
        return Ragged if kind is None else LoD
    routes = [registry.find_route(kind, own, device_kind(x)) for own in (Ragged, Masked, Padded, Packed, List)]
    shared = [route for route in routes if route is not None and route.shares]
    return min(shared, key=lambda route: len(route.legs)).target if shared else Ragged


def convert(x: Any, To: type, *, copy: bool = False, **options: Any) -> Any:
    """The same sequences in another encoding.

    Parameters
    ----------
    x : an encoding, a list or tuple of arrays, or nested lists
    To : `List`, `Ragged`, `Padded`, `Packed`, `Masked`, `LoD`, `list` (nested), or a dataclass registered by
        `conversion`
    copy : never share memory with `x`.  Without it `Ragged` <-> `LoD`, to `List`, and what changes nothing do.
    fill, width, multiple_of, truncate : for `Padded` and `Masked`.  The padding, one value or one item, exact in the
        dtype; the least width; a number that divides the width; whether longer sequences lose their end.
    side : for `Masked`, "right" or "left"
    level : from a `LoD` or nested lists: the level whose sequences the target has, each with all its rows; negative
        from the innermost
    dtype : from nested lists: of their numbers; NumPy's choice without it, and float64 where there is no number

    Returns `x` itself where nothing changes.  dtype, item shape, array library and device stay.

    Errors: TypeError for what is no encoding and for an option that the route does not know, ConversionError where
    there is no route or an option's value is impossible, IndexError for a level that does not exist.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3, 4, 5])], sf.Masked, fill=-1)
    >>> x.data
    array([[ 1,  2, -1],
           [ 3,  4,  5]])
    >>> sf.convert(x, list)
    [[1, 2], [3, 4, 5]]
    """
    kind: Any = type(x)
    if not options and copy is False:  # the usual call: one leg, and nothing that could carry a gradient
        if kind is list or kind is tuple:
            if To is List and x and is_list_of_arrays(x):
                return _list_of(tuple(x))
            try:
                entry = registry.direct((List, To))
            except (TypeError, ValueError):  # an array, say, is no key
                entry = None
            function = None if entry is None else entry.quick
            if function in _FROM_SOURCE:
                items = tuple(x)
                found = read(items)
                if found is not None:
                    lengths, offsets, addresses, longest = found
                    like, structure = items[0], Structure(lengths, offsets, longest)
                    library, item = library_of(like), like.shape[1:]
                    y = moved_at_once(function, library, like, item, items, structure, addresses)
                    if y is None:
                        y = function(source_at(library, like, item, items, structure, addresses))
                    return y
        else:
            try:
                entry = registry.direct((kind, To))
            except (TypeError, ValueError):
                entry = None
            function = None if entry is None else entry.quick
            if function in _FROM_SOURCE:
                y = _at_once(function, x)
                if y is not None:
                    return y
            if function is not None and not _flow.wants_grad(x):
                return function(x)
            if kind is To and isinstance(x, Encoding):
                return x
    if not isinstance(copy, (bool, np.bool_)):
        raise TypeError(f"copy must be True or False, not {said(copy)}")
    if not registry.is_encoding_type(kind):
        if kind is Pairs:
            return Pairs(*[m if is_array(m) else convert(m, To, copy=copy, **options) for m in (x.one, x.two)])
        kind = _kind_at_the_door(x)
        if kind is List and not x and ("level" in options or "dtype" in options):
            kind = list  # no sequences, on whatever level
        if kind is List:
            if To is list and not options:
                return copied(x) if copy else x
            return convert(_list_of(tuple(x)), To, copy=copy, **options)
    check_target(To)
    if kind is To and not options:
        return copied(x) if copy else x
    route = registry.route(kind, To, device_kind(x), options)
    placed = route.place(options)
    if kind is To and is_already(x, options):
        return copied(x) if copy else x
    y = x
    for leg, given in zip(route.legs, placed, strict=True):
        y = _run(leg, y, given)
    return copied(y) if copy and (route.shares or y is x) else y


def check_target(To: Any) -> None:
    """TypeError for what is no type."""
    if not isinstance(To, type):
        what = said(To)
        if isinstance(To, str):
            named = [
                kind for kind in (List, Ragged, Padded, Packed, Masked, LoD) if kind.__name__.lower() == To.lower()
            ]
            what = f"a name; give {f'sf.{named[0].__name__}' if named else 'the class itself'}"
        raise TypeError(f"the target of a conversion must be a type such as Ragged, not {what}")


def _kind_at_the_door(x: Any) -> type:
    if isinstance(x, (list, tuple)):
        if type(x) not in (list, tuple) and hints.for_batch(x):
            raise no_encoding(x)
        return List if is_list_of_arrays(x) else list
    kind = kind_of(x)
    if kind is None:
        raise no_encoding(x)
    return kind


def no_encoding(x: Any, what: str = "no encoding") -> TypeError:
    """The error for an object that is none, with the way in for what has one."""
    hint = f"; the batch comes first: convert(x, {x.__name__})" if isinstance(x, type) else hints.for_batch(x)
    if not hint and getattr(getattr(x, "dtype", None), "hasobject", False):
        hint = "; list(x) is a list of what it holds"
    elif not hint:
        hint = f"; give it lengths, Ragged(data, lengths), or a list of {'such ' * is_array(x)}arrays"
    return TypeError(f"{registry.label(type(x))} is {what}{hint}")


def device_kind(x: Any) -> str:
    """Only asked for where a conversion is bound to a device."""
    return str(getattr(x, "device", "cpu")).partition(":")[0] if registry.bound_to_devices() else "cpu"


def is_already(x: Any, options: dict[str, Any]) -> bool:
    """Is `x` laid out as these options ask?"""
    if "fill" in options or not isinstance(x, (Masked, Padded)):
        return False  # nobody knows what its padding holds
    source_of(x)
    if isinstance(options.get("side"), str) and options["side"] != getattr(x, "side", None):
        return False
    room = x.data.shape[1 if isinstance(x, Masked) else 0]
    wide, longest = _width(
        x._structure, options.get("width", room), options.get("multiple_of", 1), options.get("truncate", False)
    )
    return wide == room and longest == x.max_length and isinstance(options.get("side", ""), str)


def _run(leg: registry.Conversion, x: Any, options: dict[str, Any]) -> Any:
    """One leg, connected to the caller's autograd graph where that asks for it; a shared leg is connected anyhow."""
    if not leg.shares and _flow.wants_grad(x):
        return _flow.apply(lambda z: leg_vjp(leg, z, options), x)
    return leg.function(x, **options)


def copied(x: Any) -> Any:
    """The same encoding over copies of its arrays; the structure is read-only and stays."""
    if isinstance(x, (list, tuple)):
        return _copied_lists(x)
    if isinstance(x, Pairs):
        return Pairs(copied(x.one), copied(x.two))
    if is_array(x):
        return library_of(x).copy(x)
    if isinstance(x, Encoding):
        source_of(x)
    return _flow.rebuild(x, [library_of(leaf).copy(leaf) for leaf in _flow.leaves(x)])


def _copied_lists(x: Any) -> Any:
    """Lists in lists, to any depth, around copies of what they hold."""
    levels = [[x]]
    while levels[-1]:
        check_finite(x, len(levels), sum(map(len, levels[-1])))
        levels.append([item for part in levels[-1] for item in part if isinstance(item, (list, tuple))])
    lists: list[Any] = []
    for level in reversed(levels[:-1]):
        within = iter(lists)
        lists = [
            type(part)([next(within) if isinstance(item, (list, tuple)) else copied(item) for item in part])
            for part in level
        ]
    return lists[0]


# --- the way back ----------------------------------------------------------------------------------------------------


def leg_vjp(leg: registry.Conversion, x: Any, options: dict[str, Any]) -> tuple[Any, Callable[[Any], Any]]:
    """The result of a leg, and its pullback."""
    y = leg.function(x, **options)
    if leg.pullback is not None:
        given = leg.pullback
        return y, lambda dy: given(dy, x)
    shape = _flow.hollow(x)
    return y, lambda dy: _back(leg, dy, shape)


def _back(leg: registry.Conversion, dy: Any, x: Any) -> Any:
    if isinstance(x, Encoding):
        if not isinstance(dy, Encoding):
            dy = convert(dy, leg.source)
        return restored(dy, x)
    return convert(dy, leg.source)


def restored(dy: Any, x: Any) -> Any:
    """`dy` with the structure of `x`, its items where they came from, zeros for items that had been cut off."""
    if isinstance(x, LoD):
        r = convert(dy, Ragged)
        return build_lod((r if r.rows == x.rows else resized(r, x._structure)).data, x._levels)
    if not dy._structure.like(x._structure) or (isinstance(dy, LoD) and len(dy.lod) > 1):
        dy = convert(dy, Ragged)
        if not dy._structure.like(x._structure):
            dy = resized(dy, x._structure)
    y = _relayout(dy, x)
    return without_padding(y) if y is dy else y


def without_padding(x: Any) -> Any:
    """The same encoding with zeros for padding, itself where it has none."""
    if not isinstance(x, (Masked, Padded)) or x.rows == x._shape[0] * x._shape[1]:
        return x
    return convert(x, type(x), fill=0)


def resized(x: Ragged, structure: Structure) -> Ragged:
    """Every sequence cut, or filled up with zeros, at its end, to the lengths of `structure`."""
    own = x._structure
    if own.n != structure.n:
        raise StructureError(f"{structure.n} sequences were expected, but there are {own.n}")
    if _flow.wants_grad(x):
        return _flow.apply(lambda z: (resized(z, structure), lambda dz: resized(dz, own)), x)  # type: ignore[no-any-return]
    kept = Structure.of_lengths(np.minimum(own.lengths, structure.lengths))
    source = source_of(x).restricted(kept, frozen(own.offsets[:-1].copy()))
    out = allocate(source, (structure.rows,), zeros=True)
    move_rows(source, out, starts=frozen(structure.offsets[:-1].copy()))
    return build_ragged(out, structure)


def _relayout(y: Any, x: Any) -> Any:
    """`y`, whose lengths are those of `x`, laid out exactly as `x`: the same columns, width and side."""
    if y is x:
        return y
    if _flow.wants_grad(y) and not _shares_layout(y, x):
        own, like = _flow.hollow(y), _flow.hollow(x)
        return _flow.apply(lambda z: (_relayout(z, like), lambda dz: _relayout(dz, own)), y)
    structure = x._structure
    if isinstance(x, LoD):
        return build_lod(rows_of(y), x._levels)
    if isinstance(x, Ragged):
        r = convert(y, Ragged)
        if r is y:
            checked_data(r)  # nothing was moved, so nothing has looked
        return build_ragged(r.data, structure)
    if isinstance(x, List):
        y = convert(y, List)
        return build_list(y.items, structure, y._like())
    if _shares_layout(y, x):
        return y
    if isinstance(x, Masked):
        return to_masked(y, width=x._shape[1], side=x.side)
    source = source_of(y)
    if source.columns is not None and not _same_order(y._structure, structure):
        source = source_of(to_ragged(y))
    return _padded(source, structure, x._shape[0]) if isinstance(x, Padded) else _packed(source, structure)


def _shares_layout(y: Any, x: Any) -> bool:
    """Has `y` the layout of `x` already, or would a view give it?"""
    if isinstance(x, (Ragged, LoD)):
        return isinstance(y, (Ragged, LoD))
    if isinstance(x, List):
        return isinstance(y, (Ragged, LoD, Masked, List))
    if type(y) is not type(x):
        return False
    if isinstance(x, Masked):
        return y._shape[1] == x._shape[1] and y.side == x.side  # type: ignore[no-any-return]
    return (not isinstance(x, Padded) or y._shape[0] == x._shape[0]) and _same_order(y._structure, x._structure)


def convert_like(y: Any, x: Any) -> Any:
    """`y` in the encoding of `x`, with the structure of `x` itself.

    Columns of a `Padded` come back in the same order, a `Masked` with its width and side, a `LoD` with all its levels,
    a bare list as a bare list.  Where the sequences of `y` have other lengths, those replace the innermost lengths of
    `x`, and the layout follows them.

    StructureError where `y` has another number of sequences than the innermost level of `x`.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.LoD(np.arange(3.0), [[0, 2], [0, 1, 3]])
    >>> y = sf.convert(x, sf.Padded)
    >>> sf.convert_like(y, x).to_nested()
    [[[0.0], [1.0, 2.0]]]
    """
    return back_to(y, x, -1)


def back_to(y: Any, x: Any, level: int) -> Any:
    """`convert_like` for a `y` whose sequences are those of `level` in `x`."""
    if isinstance(x, (list, tuple)):
        if isinstance(y, Encoding) and not isinstance(y, LoD) and len(y) == len(x) and is_list_of_arrays(x):
            level_index(y, level)
            return in_kind_of(convert(y, List), x)
        return in_kind_of(back_to(y, as_encoding(x), level), x)
    if isinstance(x, Pairs):
        if not isinstance(y, Pairs):
            raise TypeError(f"only Pairs go back to Pairs, not {type(y).__name__}")
        return Pairs(*[b if is_array(b) else back_to(b, a, level) for a, b in ((x.one, y.one), (x.two, y.two))])
    if isinstance(y, Pairs):
        raise TypeError(f"Pairs go back to Pairs alone, not to {type(x).__name__}; take y.one or y.two")
    if isinstance(x, Encoding) and isinstance(y, Encoding) and y._structure is x._structure and not _deep(x, y):
        return _relayout(y, x)
    y = as_encoding(y)
    kind = kind_of(x)
    if kind is None or not is_encoding(y):
        raise no_encoding(y if kind else x)
    if not isinstance(x, Encoding):
        return convert(back_to(y, as_own(x), level), kind)
    y = as_own(y)
    own = structure_of(x, level)
    new = structure_of(y)
    if new.n != own.n:
        raise StructureError(f"{own.n} sequences were expected, as in the {type(x).__name__}, but there are {new.n}")
    if own.like(new):
        if isinstance(x, LoD):
            return build_lod(rows_of(y), x._levels)
        return _relayout(convert(y, Ragged) if isinstance(y, LoD) else y, x)
    if isinstance(x, LoD):
        k = level_index(x, level)
        if k != len(x.lod) - 1:
            raise StructureError(
                f"the sequences of level {level} have other lengths now, so the levels within them cannot come back; "
                "convert with level=-1, or keep the lengths"
            )
        return build_lod(rows_of(y), (*x._levels[:-1], new))
    if isinstance(x, Masked):
        return convert(y, Masked, side=x.side, width=max(x._shape[1], new.longest))
    if isinstance(x, Padded):
        return convert(y, Padded, width=max(x._shape[0], new.longest))
    return convert(y, type(x))


def _deep(x: Any, y: Any) -> bool:
    """Has one of them levels?"""
    return isinstance(x, LoD) or isinstance(y, LoD)


def in_kind_of(y: Any, x: Any) -> Any:
    """An encoding as the bare list or tuple that `x` was."""
    if isinstance(y, List):
        return type(x)(y.items) if type(x) in (list, tuple) else list(y.items)
    nested = convert(y, list)
    return tuple(nested) if type(x) is tuple else nested


# --- the tables as text ----------------------------------------------------------------------------------------------


def explain(From: type, To: type, device: str = "cpu") -> str:
    """The route from one encoding to another on a kind of device, as text.

    ConversionError where there is none.

    >>> import seqformats as sf
    >>> print(sf.explain(sf.LoD, sf.Padded))
    LoD -> Padded on cpu: 2 legs
      LoD -> Ragged   shares memory   options: level
      Ragged -> Padded   one move by words_to_steps (rows of 1, 2, 4, 8 bytes) or blocks_to_steps   options: fill, \
width, multiple_of, truncate
    """
    for kind in (From, To):
        if not isinstance(kind, type):
            raise TypeError(f"explain takes types such as Ragged, not {said(kind)}")
    if not isinstance(device, str):
        raise TypeError(f'device must be a name such as "cpu" or "cuda", not {said(device)}')
    name = f"{registry.label(From)} -> {registry.label(To)} on {device}"
    if From is To:
        return f"{name}: nothing to do"
    found = registry.route(From, To, device)
    lines = [f"{name}: {len(found.legs)} leg{'s' * (len(found.legs) > 1)}"]
    for leg in found.legs:
        how = "shares memory" if leg.shares else f"one move{_kernel_of(leg, device)}"
        lines.append(
            f"  {registry.label(leg.source)} -> {registry.label(leg.target)}   {how}   "
            f"options: {', '.join(leg.options) or 'none'}"
        )
    return "\n".join(lines)


_STEPS = (Padded, Packed)
_BLOCKS = (List, Ragged, Masked)


def _kernel_of(leg: registry.Conversion, device: str) -> str:
    """The kernel of a leg that is this library's own; DeviceError where the device has no kernels."""
    if leg.source not in _STEPS + _BLOCKS or leg.target not in _STEPS + _BLOCKS:
        return ""
    check_device(device)
    if (leg.source in _STEPS) is (leg.target in _STEPS):
        return " by copy_blocks"
    words, blocks = (
        ("words_to_steps", "blocks_to_steps") if leg.target in _STEPS else ("steps_to_words", "steps_to_blocks")
    )
    if device != "cpu":
        return f" by {blocks}"
    return f" by {words} (rows of {', '.join(map(str, _WORDS))} bytes) or {blocks}"


# --- the table -------------------------------------------------------------------------------------------------------

for _From in (List, Ragged, Masked, Padded, Packed):
    for _To, _function in ((Ragged, to_ragged), (Masked, to_masked), (Padded, to_padded), (Packed, to_packed)):
        if _From is not _To or _To in (Masked, Padded):
            registry.conversion(_From, _To)(_function)

registry.conversion(Ragged, List, shares=True)(ragged_to_list)
registry.conversion(Masked, List, shares=True)(masked_to_list)
registry.conversion(Padded, List)(steps_to_list)
registry.conversion(Packed, List)(steps_to_list)
registry.conversion(LoD, Ragged, shares=True)(lod_to_ragged)
registry.conversion(Ragged, LoD, shares=True)(ragged_to_lod)
registry.conversion(LoD, LoD, shares=True)(lod_to_lod)
