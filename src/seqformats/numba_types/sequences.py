"""Sequences of a batch in compiled functions: how many, one of them, all of them; and what else can be asked."""

# mypy: allow-subclassing-any, allow-untyped-defs, allow-untyped-calls, disable-error-code="untyped-decorator"

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.imputils import RefType, impl_ret_new_ref, iternext_impl
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import (
    intrinsic,
    lower_builtin,
    models,
    overload,
    overload_attribute,
    overload_method,
    register_model,
)

from ..formats import Encoding
from ..kernels.parts.code import Builder, Context, Kind, Kinds, Signature, Values
from .types import (
    BATCH_TYPES,
    READONLY_INT64,
    BatchType,
    LoDType,
    MaskedType,
    PackedType,
    PaddedType,
    RaggedType,
    SequencesIterator,
)


@intrinsic
def read_only(context: Context, numbers: Kind) -> Any:
    """Make numbers that are not to be written any more."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Values) -> Any:
        context.nrt.incref(builder, signature.args[0], args[0])
        return args[0]

    return READONLY_INT64(numbers), generate


def make_builder(kind: type[BatchType]) -> Any:
    """Make a function that builds a batch of a tuple of what it holds, in its order; nothing is checked."""

    @intrinsic
    def make(context: Context, held: Kind) -> Any:
        levels = len(held[1]) if isinstance(held[1], types.BaseTuple) else 1
        batch = kind(held[0], levels)

        def generate(context: Context, builder: Builder, signature: Signature, args: Values) -> Any:
            value = cgutils.create_struct_proxy(batch)(context, builder)
            for k, (name, to) in enumerate(batch.members):
                part = builder.extract_value(args[0], k)
                setattr(value, name, part)
                context.nrt.incref(builder, to, part)
            return value._getvalue()

        return batch(held), generate

    return make


make_ragged, make_masked, make_padded, make_packed, make_lod = map(make_builder, BATCH_TYPES)


# --- one sequence ----------------------------------------------------------------------------------------------------


def sequence_of(x: Encoding[Any], i: int) -> Any:
    """Sequence i, which is there; in compiled functions what `BatchType.sequence` says."""
    return x.sequences()[i]


@overload(sequence_of, strict=False)
def _sequence_of(x: Kind, i: Kind) -> Any:
    if isinstance(x, RaggedType):
        return lambda x, i: x.data[x.offsets[i] : x.offsets[i + 1]]
    if isinstance(x, MaskedType):

        def of_masked(x, i):
            length = x.lengths[i]
            first = x.data.shape[1] - length if x._left else 0
            return x.data[i, first : first + length]

        return of_masked
    if isinstance(x, PaddedType):

        def of_padded(x, i):
            column = x._columns[i]
            return x.data[: x.lengths[column], column]

        return of_padded
    if isinstance(x, PackedType):

        def of_packed(x, i):
            column = x._columns[i]
            out = np.empty((x.lengths[column], *x.data.shape[1:]), x.data.dtype)
            rows, given = out.reshape(out.size), x.data.reshape(x.data.size)
            width = given.size // max(x.data.shape[0], 1)
            for t in range(x.lengths[column]):
                row = (x._steps[t] + column) * width
                for k in range(width):
                    rows[t * width + k] = given[row + k]
            return out

        return of_packed
    if isinstance(x, LoDType) and x.levels == 1:
        return lambda x, i: x.data[x.lod[0][i] : x.lod[0][i + 1]]
    if isinstance(x, LoDType):

        def of_levels(x, i):
            lod = x.lod
            first, last = slice_below(lod[:-1], i, i + 1)
            lengths = x._lengths[first:last]
            longest = 0
            for length in lengths:
                longest = max(longest, length)
            rows = x.data[lod[-1][first] : lod[-1][last]]
            return make_lod((rows, cut(lod[1:], lod[0][i], lod[0][i + 1]), lengths, longest))

        return of_levels
    return None


def slice_below(lod: tuple[Any, ...], first: int, last: int) -> tuple[int, int]:
    """Find the sequences some levels further in, or the rows, of these sequences."""
    for offsets in lod:
        first, last = offsets[first], offsets[last]
    return first, last


@overload(slice_below, strict=False)
def _overload_slice_below(lod: Kind, first: Kind, last: Kind) -> Any:
    return below_one if len(lod) == 1 else below_more


def below_one(lod, first, last):
    """The innermost of these levels."""
    return lod[0][first], lod[0][last]


def below_more(lod, first, last):
    """The others."""
    return slice_below(lod[1:], lod[0][first], lod[0][last])


def cut(lod: tuple[Any, ...], first: int, last: int) -> tuple[Any, ...]:
    """The levels of some sequences alone, which begin with 0 again."""
    levels = []
    for offsets in lod:
        levels.append(offsets[first : last + 1] - offsets[first])
        first, last = offsets[first], offsets[last]
    return tuple(levels)


@overload(cut, strict=False)
def _cut(lod: Kind, first: Kind, last: Kind) -> Any:
    return cut_one if len(lod) == 1 else cut_more


def cut_one(lod, first, last):
    """The innermost level."""
    return (read_only(lod[0][first : last + 1] - lod[0][first]),)


def cut_more(lod, first, last):
    """The others."""
    own = read_only(lod[0][first : last + 1] - lod[0][first])
    return (own, *cut(lod[1:], lod[0][first], lod[0][last]))


# --- what a batch of Python has --------------------------------------------------------------------------------------


@overload(len, strict=False)
def _len(x: Kind) -> Any:
    if isinstance(x, LoDType):
        return lambda x: x.lod[0].size - 1
    return (lambda x: x.lengths.size) if isinstance(x, BatchType) else None


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    """``x[i]``.  Written by hand: of an `overload` that can raise, Numba counts the references with every call."""

    def generic(self, args: Kinds, kws: dict[str, Kind]) -> Any:
        """The signature for such arguments; None where there is none."""
        if kws or not (isinstance(args[0], BatchType) and isinstance(args[1], types.Integer)):
            return None
        return args[0].sequence(args[0], types.unliteral(args[1]))


@lower_builtin(operator.getitem, BatchType, types.Integer)
def _getitem(context: Context, builder: Builder, signature: Signature, args: Values) -> Any:
    batch, index = signature.args
    n = context.compile_internal(builder, lambda x: len(x), types.int64(batch), args[:1])
    i = context.cast(builder, args[1], index, types.int64)  # a count past int64 comes out negative
    if index.signed:
        i = builder.select(builder.icmp_signed("<", i, i.type(0)), builder.add(i, n), i)
    # Raised here, since Numba loses the references of a function in which another one raises.
    with builder.if_then(builder.icmp_unsigned(">=", i, n), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("there are not so many sequences [SF401]",))
    given = batch.sequence(batch, types.int64)
    return context.compile_internal(builder, lambda x, i: sequence_of(x, i), given, [args[0], i])


def _sequences(x):
    return x


def _sequences_of_levels(x):
    return make_ragged((x.data, x._lengths, x.lod[-1], x.max_length))


def _rows(x):
    return x.data.shape[0]


def _longest(x):
    return x.lengths[0] if x.lengths.size else 0


def _side(x):
    return "left" if x._left else "right"


def _mask(x):
    mask = np.zeros(x.data.shape[:2], np.bool_)
    for i in range(mask.shape[0]):
        first = mask.shape[1] - x.lengths[i] if x._left else 0
        mask[i, first : first + x.lengths[i]] = True
    return mask


def _dtype(x):
    return x.data.dtype


def _item_shape(x):
    return x.data.shape[1:]


def _item_shape_of_rectangle(x):
    return x.data.shape[2:]


def _always(code: Callable[..., Any]) -> Callable[[Kind], Callable[..., Any]]:
    """Whatever the type, this is what it means."""
    return lambda _: code


_FLAT, _BY_STEPS, _RECTANGLES = (RaggedType, PackedType, LoDType), (PaddedType, PackedType), (MaskedType, PaddedType)
for _name, _kinds, _code in (
    ("rows", _FLAT, _rows),
    ("max_length", _BY_STEPS, _longest),
    ("side", (MaskedType,), _side),
    ("mask", (MaskedType,), _mask),
    ("dtype", BATCH_TYPES, _dtype),
    ("item_shape", _FLAT, _item_shape),
    ("item_shape", _RECTANGLES, _item_shape_of_rectangle),
):
    for _kind in _kinds:
        overload_attribute(_kind, _name, strict=False)(_always(_code))
for _kind in BATCH_TYPES:
    overload_method(_kind, "sequences", strict=False)(_always(_sequences_of_levels if _kind is LoDType else _sequences))


# --- all sequences ---------------------------------------------------------------------------------------------------


@register_model(SequencesIterator)
class _Iterator(models.StructModel):
    """The batch, which it holds a reference to, and the next sequence."""

    def __init__(self, manager: object, iterator: SequencesIterator) -> None:
        members = [("batch", iterator.batch), ("next", types.EphemeralPointer(types.int64))]
        super().__init__(manager, iterator, members)


@lower_builtin("getiter", BatchType)
def _getiter(context: Context, builder: Builder, signature: Signature, args: Values) -> Any:
    iterator = context.make_helper(builder, signature.return_type)
    iterator.batch = args[0]
    iterator.next = cgutils.alloca_once_value(builder, context.get_constant(types.int64, 0))
    context.nrt.incref(builder, signature.args[0], args[0])
    return impl_ret_new_ref(context, builder, signature.return_type, iterator._getvalue())


@lower_builtin("iternext", SequencesIterator)
@iternext_impl(RefType.NEW)
def _iternext(context: Context, builder: Builder, signature: Signature, args: Values, result: Any) -> None:
    (kind,) = signature.args
    iterator = context.make_helper(builder, kind, args[0])
    i = builder.load(iterator.next)
    n = context.compile_internal(builder, lambda x: len(x), types.int64(kind.batch), (iterator.batch,))
    more = builder.icmp_signed("<", i, n)
    result.set_valid(more)
    with builder.if_then(more):
        given = kind.batch.sequence(kind.batch, types.int64)
        sequence = context.compile_internal(builder, lambda x, i: sequence_of(x, i), given, (iterator.batch, i))
        result.yield_(sequence)
        builder.store(builder.add(i, context.get_constant(types.int64, 1)), iterator.next)
