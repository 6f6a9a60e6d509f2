"""A `List` in compiled functions, which is several arrays: in, out, and one of them."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, box, intrinsic, overload, overload_attribute, overload_method, unbox
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import as_dtype

from ..formats import List
from ..kernels.parts.code import Builder, Context, Kind, Signature, Value, Values
from .sequences import sequence_of
from .types import READONLY_INT64, ListType, call_python, unbox_batch


def array_at(context: Context, builder: Builder, batch: ListType, x: Value, i: Value) -> Value:
    """Array i, without a reference to what keeps it."""
    held = cgutils.create_struct_proxy(batch)(context, builder, value=x)
    array = make_array(batch.data)(context, builder)

    def number(name: str) -> Value:
        numbers = make_array(READONLY_INT64)(context, builder, value=getattr(held, name))
        return builder.load(builder.gep(numbers.data, [i]))

    shape = [number("lengths"), *cgutils.unpack_tuple(builder, held.shape)[1:]]
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(batch.data.dtype)))
    strides = [size]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    place = builder.inttoptr(number("places"), array.data.type)
    populate_array(array, place, shape, strides, size, held.memory)
    return array._getvalue()


# --- in and out ------------------------------------------------------------------------------------------------------


@unbox(ListType)
def _unbox(batch: ListType, x: Value, c: Any) -> NativeValue:
    """The value of a `List` of Python.  It holds a reference to it, which Numba gives back after the call."""
    read = unbox_batch(batch, x, c)
    value = cgutils.create_struct_proxy(batch)(c.context, c.builder, value=read.value)
    with c.builder.if_then(c.builder.not_(read.is_error)):
        nowhere = cgutils.get_null_value(cgutils.voidptr_t)
        value.memory = c.pyapi.nrt_meminfo_new_from_pyobject(nowhere, x)
        value.owner = c.builder.ptrtoint(x, c.context.get_value_type(types.intp))
    return NativeValue(value._getvalue(), is_error=read.is_error)


@box(ListType)
def _box(batch: ListType, x: Value, c: Any) -> Value:
    """The `List` that came in, or a new one by its checking constructor.  Takes the references over."""
    held = cgutils.create_struct_proxy(batch)(c.context, c.builder, value=x)
    result = cgutils.alloca_once_value(c.builder, c.pyapi.get_null_object())
    with c.builder.if_else(cgutils.is_not_null(c.builder, held.owner)) as (known, new):
        with known:
            owner = c.builder.inttoptr(held.owner, c.pyapi.pyobj)
            c.pyapi.incref(owner)
            c.builder.store(owner, result)
        with new:
            dtype = c.env_manager.read_const(c.env_manager.add_const(as_dtype(batch.data.dtype)))
            c.pyapi.incref(dtype)
            shape = c.box(dict(batch.members)["shape"], held.shape)
            c.builder.store(call_python(c, built, [_boxed_arrays(batch, x, c), shape, dtype]), result)
    c.context.nrt.decref(c.builder, batch, x)
    return c.builder.load(result)


def _boxed_arrays(batch: ListType, x: Value, c: Any) -> Value:
    """All arrays in a list of Python; null where there is an error."""
    held = cgutils.create_struct_proxy(batch)(c.context, c.builder, value=x)
    n = make_array(READONLY_INT64)(c.context, c.builder, value=held.lengths).nitems
    arrays = cgutils.alloca_once_value(c.builder, c.pyapi.list_new(n))
    with cgutils.for_range(c.builder, n) as loop:
        kept = c.builder.load(arrays)
        with c.builder.if_then(cgutils.is_null(c.builder, kept)):
            loop.do_break()
        array = array_at(c.context, c.builder, batch, x, loop.index)
        c.context.nrt.incref(c.builder, batch.data, array)
        boxed = c.box(batch.data, array)
        with c.builder.if_else(cgutils.is_null(c.builder, boxed)) as (failed, made):
            with failed:
                c.pyapi.decref(kept)
                c.builder.store(c.pyapi.get_null_object(), arrays)
            with made:
                c.pyapi.list_setitem(kept, loop.index, boxed)
    return c.builder.load(arrays)


def built(items: list[Any], shape: tuple[int, ...], dtype: Any) -> List[Any]:
    """A `List` of what a compiled function holds.  Functions on disk ask for it by this name."""
    return List(items) if items else List((), np.empty((0, *shape[1:]), dtype))


# --- in between ------------------------------------------------------------------------------------------------------


@intrinsic
def make_list(context: Context, arrays: Kind, read: Kind) -> Any:
    """A `List` of the arrays in a list of Numba, which nothing else can change, and of `ListType.reads`, unchecked."""
    batch = ListType(arrays.dtype)

    def generate(context: Context, builder: Builder, signature: Signature, args: Values) -> Any:
        value = cgutils.create_struct_proxy(batch)(context, builder)
        value.memory = context.make_helper(builder, arrays, args[0]).meminfo
        for k, name in enumerate(batch.reads):
            setattr(value, name, builder.extract_value(args[1], k))
        context.nrt.incref(builder, batch, value._getvalue())
        return value._getvalue()

    return batch(arrays, read), generate


@intrinsic
def array_of(context: Context, x: Kind, i: Kind) -> Any:
    """Array i, which is there."""

    def generate(context: Context, builder: Builder, signature: Signature, args: Values) -> Any:
        batch, index = signature.args
        array = array_at(context, builder, batch, args[0], context.cast(builder, args[1], index, types.intp))
        context.nrt.incref(builder, batch.data, array)
        return array

    return x.data(x, i), generate


@overload(sequence_of, strict=False)
def _sequence_of(x: Kind, i: Kind) -> Any:
    return (lambda x, i: array_of(x, i)) if isinstance(x, ListType) else None


@overload_method(ListType, "sequences", strict=False)
def _sequences(x: Kind) -> Any:
    return lambda x: x


@overload_attribute(ListType, "dtype", strict=False)
def _dtype(x: Kind) -> Any:
    dtype = as_dtype(x.data.dtype)
    return lambda _: dtype


@overload_attribute(ListType, "item_shape", strict=False)
def _item_shape(x: Kind) -> Any:
    return lambda x: x._shape[1:]
