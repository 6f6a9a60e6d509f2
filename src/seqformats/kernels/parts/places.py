"""Flat arrays of CUDA kernels, whose items are counted from the first one alone.

Numba lets an index count from the end, which takes a GPU six instructions for each item, and counts in 64 bits, which
takes it two to four where 32 bits take one.  In a kernel of the house no place is negative; and where no array of a
call has 2**32 items or more the lower half of a place says all.

`gpu` imports it where there is a compiler.
"""

import operator
from typing import Any

from llvmlite import ir

from .code import I32, I64, Builder, Context, Kind, Signature, Value, Values
from .compiler import ArrayModel, implemented, load_item, make_array, register_model, store_item, types

GLOBAL, SHARED = 1, 3
"""Address spaces: the memory of the GPU, and that of a block of threads."""


class Items(types.Array):
    """A flat array whose places are numbers of so many bits, 32 or 64, in an address space."""

    def __init__(self, dtype: Kind, bits: int, space: int) -> None:
        self.bits, self.space = bits, space
        super().__init__(dtype, 1, "C", name=f"Items({dtype}, {bits}, {space})")

    @property
    def key(self) -> Any:
        """By what Numba tells types apart."""
        return (*super().key, self.bits, self.space)


@register_model(Items)
class _ItemsModel(ArrayModel):
    pass


def address_of(context: Context, builder: Builder, kind: Kind, array: Value, place: Value, word: Value) -> Value:
    """Find the address of a word of an array; `word` is its type, and `place` is counted in such words.

    The product of a place of 32 bits is an instruction of the assembler's own: the compiler of Numba's package would
    make a mask and a shift of it, and the assembler would not find the one instruction that it needs for an address.
    In the memory of a block all addresses have 32 bits, which the assembler knows.
    """
    data = make_array(kind)(context, builder, array).data
    if not isinstance(kind, Items):
        return builder.gep(builder.bitcast(data, word.as_pointer()), [place])
    data = builder.addrspacecast(data, data.type.pointee.as_pointer(kind.space))
    pointer = word.as_pointer(kind.space)
    if kind.bits == 64 or kind.space == SHARED or isinstance(place, ir.Constant):
        return builder.gep(builder.bitcast(data, pointer), [place])
    size = context.get_abi_sizeof(word)
    product = ir.InlineAsm(ir.FunctionType(I64, [I32]), f"mul.wide.u32 $0, $1, {size};", "=l,r")
    far = builder.call(product, [builder.trunc(place, I32)])
    byte = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer(kind.space)), [far])
    return builder.bitcast(byte, pointer)


def _of_item(context: Context, builder: Builder, kind: Kind, array: Value, place: Value) -> Value:
    return address_of(context, builder, kind, array, place, context.get_data_type(kind.dtype))


@implemented.lower(operator.getitem, Items, types.Integer)
def _getitem(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
    kind = sig.args[0]
    return load_item(context, builder, kind, _of_item(context, builder, kind, *args))


@implemented.lower(operator.setitem, Items, types.Integer, types.Any)
def _setitem(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
    kind, _, given = sig.args
    array, place, item = args
    value = context.cast(builder, item, given, kind.dtype)
    store_item(context, builder, kind, value, _of_item(context, builder, kind, array, place))
    return context.get_dummy_value()
