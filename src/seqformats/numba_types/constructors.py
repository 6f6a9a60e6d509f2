"""The constructors of encodings in compiled functions: they check what those of Python check."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.errors import NumbaTypeError
from numba.extending import overload

from ..errors import StructureError
from ..formats.structure import MAX_INT64
from ..kernels import check_lengths, check_offsets, check_order
from ..kernels.parts.code import Kind
from ..kernels.parts.custom import by_numba
from .lists import make_list
from .sequences import make_lod, make_masked, make_packed, make_padded, make_ragged, read_only

lengths_fault, offsets_fault, order_fault = [by_numba(x.cpu) for x in (check_lengths, check_offsets, check_order)]


# --- what is given ---------------------------------------------------------------------------------------------------


def integers(values: Any, name: str) -> Any:
    """A private int64 copy of whole numbers."""
    return np.array(values, np.int64)


@overload(integers, strict=False)
def _integers(values: Kind, name: Kind) -> Any:
    def copy(values, name):
        out = np.empty(len(values), np.int64)
        for i in range(out.size):
            out[i] = values[i]
        return out

    def copied_in_bounds(values, name):
        out = np.empty(len(values), np.int64)
        for i in range(out.size):
            if values[i] > np.uint64(MAX_INT64):
                raise StructureError("{} must fit int64, but one of them is {} [SF107]", name, values[i])
            out[i] = np.int64(values[i])
        return out

    return copied_in_bounds if values.dtype == types.uint64 else copy


def rows_of(data: Any) -> Any:
    """C-contiguous data, copied where it is not."""
    return np.ascontiguousarray(data)


@overload(rows_of, strict=False)
def _rows_of(data: Kind) -> Any:
    return (lambda data: data) if data.layout == "C" else (lambda data: np.ascontiguousarray(data))


def _check_integers(**given: Kind) -> None:
    """Check that these are integers with one axis."""
    for name, values in given.items():
        one_axis = isinstance(values, types.Array) and values.ndim == 1
        listed = isinstance(values, (types.List, types.ListType, types.UniTuple))
        if not (one_axis or listed) or not isinstance(values.dtype, types.Integer):
            raise NumbaTypeError(f"{name} must be integers with one axis, not {values}")


def _check_axes(data: Kind, least: int, axes: str) -> None:
    """Data is an array with so many axes."""
    if not isinstance(data, types.Array):
        raise NumbaTypeError(f"data must be an array with the axes {axes}, not {data}")
    if data.ndim < least:
        raise NumbaTypeError(f"data must have the axes {axes}, but is {data}")


def offsets_of(lengths: Any, rows: int) -> Any:
    """The offsets and the longest of lengths that add up to no more than `rows`, which may be all that int64 holds."""
    offsets = np.empty(lengths.size + 1, np.int64)
    longest = lengths_fault(lengths, offsets, rows)
    if longest < 0:
        i = -1 - longest
        for k in range(lengths.size):
            if lengths[k] < 0:
                raise StructureError("lengths must not be negative, but lengths[{}] is {} [SF101]", k, lengths[k])
        if rows == MAX_INT64:
            raise StructureError(
                "lengths add up to more than int64 can count, at lengths[{}] = {} [SF107]", i, lengths[i]
            )
        total = lengths.sum()
        if total <= rows:  # it has come round
            raise StructureError("lengths add up to more than int64 can count, but data has {} rows [SF107]", rows)
        raise StructureError("lengths add up to {}, but data has {} rows [SF102]", total, rows)
    return offsets, longest


@overload(offsets_of, strict=False)
def _offsets_of(lengths: Kind, rows: Kind) -> Any:
    return offsets_of


# --- the constructors ------------------------------------------------------------------------------------------------


def alike(items: Any) -> Any:
    """Arrays in a tuple, C-contiguous, so that they are all of one type."""
    return tuple([rows_of(item) for item in items])


@overload(alike, strict=False)
def _alike(items: Kind) -> Any:
    return (lambda items: (rows_of(items[0]),)) if len(items) == 1 else _alike_more


def _alike_more(items):
    return (rows_of(items[0]), *alike(items[1:]))


_INSTEAD = "sf.Ragged(data, lengths) takes the rows of all sequences in one array"


def _check_arrays(items: Kind, like: Kind) -> None:
    """Check that these are arrays that can be in one `List`."""
    listed = isinstance(items, (types.List, types.ListType))
    if not listed and not isinstance(items, types.BaseTuple):
        raise NumbaTypeError(f"items must be a tuple or list of arrays, not {items}; {_INSTEAD}")
    kinds = [items.dtype] if listed else list(items)
    given = kinds if like is None else [*kinds, like]
    for kind in given:
        if not isinstance(kind, types.Array) or kind.ndim < 1:
            raise NumbaTypeError(f"a List holds arrays with the axes (length, *item), not {kind}; {_INSTEAD}")
        if (kind.dtype, kind.ndim) != (given[0].dtype, given[0].ndim):
            raise NumbaTypeError(f"a List holds arrays alike, not both {given[0]} and {kind}; {_INSTEAD}")
    if len({(kind.layout == "C" and not kind.mutable, kind.aligned) for kind in kinds}) > 1:
        raise NumbaTypeError(f"a List holds arrays of which all can be written, or none; {_INSTEAD}")


def collect(items: Any, like: Any) -> Any:
    """The arrays in a list of its own."""
    return [rows_of(item) for item in items]


@overload(collect, strict=False)
def _overload_collect(items: Kind, like: Kind) -> Any:
    def alike_like(items, like):
        return [rows_of(like) for _ in range(0)]

    def numbers(items, like):
        return [np.empty(0) for _ in range(0)]

    def of_tuple(items, like):
        return [item for item in alike(items)]  # noqa: C416  Numba makes no list of a tuple

    if isinstance(items, types.BaseTuple) and not len(items):
        return alike_like if isinstance(like, types.Array) else numbers
    return of_tuple if isinstance(items, types.Tuple) else collect


def shape_of(arrays: Any, like: Any) -> Any:
    """The shape of an array, of which the items of all are to have the same."""
    return (arrays[0] if like is None else like).shape


@overload(shape_of, strict=False)
def _shape_of(arrays: Kind, like: Kind) -> Any:
    def of_like(arrays, like):
        return like.shape

    def of_first(arrays, like):
        if len(arrays) == 0:
            raise StructureError("an empty list of arrays with several axes tells no item shape; give like [SF109]")
        return arrays[0].shape

    def of_numbers(arrays, like):
        return (0,)

    if isinstance(like, types.Array):
        return of_like
    return of_first if arrays.dtype.ndim > 1 else of_numbers


def compile_list(items: Kind, like: Kind = None) -> Any:
    """Compile ``sf.List(items, like)`` for such types."""
    absent = like is None or isinstance(like, types.NoneType) or getattr(like, "value", like) is None
    _check_arrays(items, None if absent else like)
    first = "items[0]" if absent else "like"

    def make(items, like=None):
        arrays = collect(items, like)
        n, shape = len(arrays), shape_of(arrays, like)
        places, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
        for i in range(n):
            array = arrays[i]
            if array.shape[1:] != shape[1:]:
                raise StructureError(
                    "items[{}] has item shape {}, but {} has {} [SF106]", i, array.shape[1:], first, shape[1:]
                )
            places[i], lengths[i] = array.ctypes.data, array.shape[0]
        offsets, longest = offsets_of(lengths, MAX_INT64)
        return make_list(arrays, (read_only(places), read_only(lengths), offsets[-1], longest, shape))

    return make


def compile_ragged(data: Kind, lengths: Kind) -> Any:
    """Compile ``sf.Ragged(data, lengths)`` for such types."""
    _check_axes(data, 1, "(rows, *item)")
    _check_integers(lengths=lengths)

    def make(data, lengths):
        rows, own = rows_of(data), integers(lengths, "lengths")
        offsets, longest = offsets_of(own, rows.shape[0])
        if offsets[-1] != rows.shape[0]:
            raise StructureError("lengths add up to {}, but data has {} rows [SF102]", offsets[-1], rows.shape[0])
        return make_ragged((rows, read_only(own), read_only(offsets), longest))

    return make


def compile_masked(data: Kind, lengths: Kind, side: Kind = "right") -> Any:
    """Compile ``sf.Masked(data, lengths, side)`` for such types."""
    _check_axes(data, 2, "(n, width, *item)")
    _check_integers(lengths=lengths)
    given = isinstance(side, types.UnicodeType)
    if not given and getattr(side, "value", side) != "right":  # the default is no type
        raise NumbaTypeError(f'side must be "right" or "left", not {side}')

    def make(data, lengths, side="right"):
        rows, own = rows_of(data), integers(lengths, "lengths")
        left = on_the_left(side)
        n, width = rows.shape[0], rows.shape[1]
        offsets, longest = offsets_of(own, MAX_INT64)
        if own.size != n:
            raise StructureError("there are {} lengths, but data has {} rows [SF103]", own.size, n)
        if longest > width:
            raise StructureError("the longest length is {}, but data is only {} wide [SF118]", longest, width)
        return make_masked((rows, read_only(own), offsets[-1], longest, left))

    return make


def on_the_left(side: str) -> int:
    """Tell whether padding is on the left."""
    if side == "left":
        return 1
    if side == "right":
        return 0
    raise StructureError('side must be "right" or "left" [SF119]')


@overload(on_the_left, strict=False)
def _on_the_left(side: Kind) -> Any:
    return on_the_left if isinstance(side, types.UnicodeType) else (lambda _: 0)


def checked_order(size_at_t: Any, lengths: Any, indices: Any) -> Any:
    """The columns of sequences, and the first row of every step, of a time-major batch whose parts fit."""
    n = lengths.size
    if indices.size != n:
        raise StructureError("indices must be as many as lengths, but there are {} and {} [SF101]", indices.size, n)
    own, steps = np.full(n, -1, np.int64), np.empty(size_at_t.size + 1, np.int64)
    fault = order_fault(lengths, indices, size_at_t, own, steps)
    if fault:
        k = fault // 4
        if fault % 4 == 1 and lengths[k] < 0:
            raise StructureError("lengths must not be negative, but lengths[{}] is {} [SF101]", k, lengths[k])
        if fault % 4 == 1 and k > 0 and lengths[k] > lengths[k - 1]:
            raise StructureError(
                "lengths must fall, but lengths[{}] is {} after {} [SF101]", k, lengths[k], lengths[k - 1]
            )
        if fault % 4 == 1:
            raise StructureError(
                "lengths[{}] is {}, but there are only {} steps [SF101]", k, lengths[k], size_at_t.size
            )
        if fault % 4 == 2:
            raise StructureError(
                "indices must hold every position from 0 to {} once, but indices[{}] is {} [SF101]",
                n - 1,
                k,
                indices[k],
            )
        longer = (lengths > k).sum()
        raise StructureError(
            "size_at_t[{}] must count the sequences longer than {}, which are {}, not {} [SF118]",
            k,
            k,
            longer,
            size_at_t[k],
        )
    columns = np.empty(n, np.int64)
    for j in range(n):
        columns[indices[j]] = j
    return columns, steps


@overload(checked_order, strict=False)
def _checked_order(size_at_t: Kind, lengths: Kind, indices: Kind) -> Any:
    return checked_order


def compile_padded(data: Kind, size_at_t: Kind, lengths: Kind, indices: Kind) -> Any:
    """Compile ``sf.Padded(data, size_at_t, lengths, indices)`` for such types."""
    _check_axes(data, 2, "(steps, n, *item)")
    _check_integers(size_at_t=size_at_t, lengths=lengths, indices=indices)

    def make(data, size_at_t, lengths, indices):
        rows = rows_of(data)
        sizes, own = integers(size_at_t, "size_at_t"), integers(lengths, "lengths")
        where = integers(indices, "indices")
        columns, steps = checked_order(sizes, own, where)
        if sizes.size != rows.shape[0]:
            raise StructureError(
                "size_at_t must have one number per step, but there are {} numbers and data has {} steps [SF103]",
                sizes.size,
                rows.shape[0],
            )
        if own.size != rows.shape[1]:
            raise StructureError("there are {} lengths, but data has {} columns [SF103]", own.size, rows.shape[1])
        return make_padded((rows, read_only(sizes), read_only(own), read_only(where), read_only(columns), steps[-1]))

    return make


def compile_packed(data: Kind, size_at_t: Kind, lengths: Kind, indices: Kind) -> Any:
    """Compile ``sf.Packed(data, size_at_t, lengths, indices)`` for such types."""
    _check_axes(data, 1, "(rows, *item)")
    _check_integers(size_at_t=size_at_t, lengths=lengths, indices=indices)

    def make(data, size_at_t, lengths, indices):
        rows = rows_of(data)
        sizes, own = integers(size_at_t, "size_at_t"), integers(lengths, "lengths")
        where = integers(indices, "indices")
        columns, steps = checked_order(sizes, own, where)
        if steps[-1] != rows.shape[0]:
            raise StructureError("lengths add up to {}, but data has {} rows [SF102]", steps[-1], rows.shape[0])
        return make_packed(
            (rows, read_only(sizes), read_only(own), read_only(where), read_only(columns), read_only(steps))
        )

    return make


def own_levels(lod: Any) -> Any:
    """Private copies of the offsets of every level."""
    return tuple([integers(offsets, "lod") for offsets in lod])


@overload(own_levels, strict=False)
def _own_levels(lod: Kind) -> Any:
    if len(lod) == 1:
        return lambda lod: (integers(lod[0], "lod"),)
    return lambda lod: (integers(lod[0], "lod"), *own_levels(lod[1:]))


def frozen_levels(lod: Any) -> Any:
    """Make levels that are not to be written any more."""
    return tuple([read_only(offsets) for offsets in lod])


@overload(frozen_levels, strict=False)
def _frozen_levels(lod: Kind) -> Any:
    if len(lod) == 1:
        return lambda lod: (read_only(lod[0]),)
    return lambda lod: (read_only(lod[0]), *frozen_levels(lod[1:]))


def lod(data: Kind, lod: Kind) -> Any:
    """Compile ``sf.LoD(data, lod)`` for such types."""
    _check_axes(data, 1, "(rows, *item)")
    if not isinstance(lod, types.BaseTuple) or not len(lod):
        raise NumbaTypeError(f"lod must be a tuple of offset arrays, outermost level first, not {lod}")
    for k, offsets in enumerate(lod):
        _check_integers(**{f"lod[{k}]": offsets})
    count = len(lod)

    def make(data, lod):
        rows, levels = rows_of(data), own_levels(lod)
        lengths, longest = np.empty(0, np.int64), 0
        for k in range(count):
            offsets = levels[k]
            if offsets.size == 0:
                raise StructureError("lod[{}] must begin with 0; no sequence at all is [0] [SF101]", k)
            lengths = np.empty(offsets.size - 1, np.int64)
            longest = offsets_fault(offsets, lengths)
            if longest == -1:
                raise StructureError("lod[{}] must begin with 0, but begins with {} [SF101]", k, offsets[0])
            if longest < 0:
                i = -1 - longest
                raise StructureError(
                    "lod[{}] must never fall, but has {} after {} [SF101]", k, offsets[i], offsets[i - 1]
                )
            below = rows.shape[0] if k == count - 1 else levels[k + 1].size - 1
            if offsets[-1] != below:
                raise StructureError("lod[{}] ends with {}, but what is below it are {} [SF101]", k, offsets[-1], below)
        return make_lod((rows, frozen_levels(levels), read_only(lengths), longest))

    return make
