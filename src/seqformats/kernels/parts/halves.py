"""Lanes of half precision in memory, with which is calculated in float32.

int16 are the bits of float16, uint16 those of bfloat16; arrays of other dtypes hold the numbers themselves.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .code import F32, I32, Builder, Item, Value, constant_lanes, vector_type
from .lanes import Lanes, load, lower, store
from .options import part

I16 = ir.IntType(16)


def load_half(x: Item, p: int, count: int, like: Item) -> Any:
    """`load` of half precision, or of other numbers."""
    part = x[p : p + count]
    if x.dtype == np.uint16:
        return (part.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return (part.view(np.float16) if x.dtype == np.int16 else part).astype(like.dtype)


def store_half(x: Item, p: int, lanes: Item) -> None:
    """`store` of half precision, rounded to the nearest, to even between two, or of other numbers."""
    if x.dtype == np.uint16:
        bits = lanes.view(np.uint32)
        upper = bits >> np.uint32(16)
        rounded = (bits.astype(np.uint64) + 0x7FFF + (upper & np.uint32(1))) >> np.uint64(16)
        x[p : p + len(lanes)] = np.where(np.isnan(lanes), upper | np.uint32(0x40), rounded)
    elif x.dtype == np.int16:
        with np.errstate(over="ignore"):
            x[p : p + len(lanes)] = lanes.astype(np.float16).view(np.int16)
    else:
        store(x, p, lanes)


HALVES = types.int16, types.uint16


def _from_bits(x: Item, p: int, count: int, like: Item) -> Any:
    """Stand for the code below."""


def _to_bits(x: Item, p: int, lanes: Item) -> None:
    """Stand for the code below."""


@part(load_half, prefer_literal=True, strict=False)
def _load_half(x, p, count, like):
    chosen = _from_bits if x.dtype in HALVES else load
    return lambda x, p, count, like: chosen(x, p, count, like)


@part(store_half, strict=False)
def _store_half(x, p, lanes):
    chosen = _to_bits if x.dtype in HALVES else store
    return lambda x, p, lanes: chosen(x, p, lanes)


@lower(_from_bits)
def _code_from_bits(x: Item, p: Item, count: Item, like: Item) -> Any:
    n = int(count.literal_value)

    def code(_: Value, builder: Builder, base: Value, place: Value, *__: Any) -> Any:
        at = builder.gep(base, [place])
        if n == 1:
            bits = builder.insert_element(ir.Constant(vector_type(I16, 4), None), builder.load(at), I32(0))
        else:
            bits = builder.load(builder.bitcast(at, vector_type(I16, n).as_pointer()), align=2)
        floats = vector_type(F32, bits.type.count)
        if x.dtype == types.int16:
            return builder.fpext(builder.bitcast(bits, vector_type(ir.HalfType(), floats.count)), floats)
        words = vector_type(I32, floats.count)
        return builder.bitcast(builder.shl(builder.zext(bits, words), constant_lanes(words, 16)), floats)

    return Lanes(types.float32, n)(x, types.int64, count, like), code


@lower(_to_bits)
def _code_to_bits(x: Item, p: Item, lanes: Item) -> Any:
    def code(_: Value, builder: Builder, base: Value, place: Value, value: Value) -> None:
        words, halves = vector_type(I32, value.type.count), vector_type(I16, value.type.count)
        if x.dtype == types.int16:
            bits = builder.bitcast(builder.fptrunc(value, vector_type(ir.HalfType(), words.count)), halves)
        else:
            whole = builder.bitcast(value, words)
            upper = builder.lshr(whole, constant_lanes(words, 16))
            half = builder.add(constant_lanes(words, 0x7FFF), builder.and_(upper, constant_lanes(words, 1)))
            rounded = builder.lshr(builder.add(whole, half), constant_lanes(words, 16))
            quiet = builder.or_(upper, constant_lanes(words, 0x40))
            bits = builder.trunc(builder.select(builder.fcmp_unordered("uno", value, value), quiet, rounded), halves)
        at = builder.gep(base, [place])
        if lanes.count == 1:
            builder.store(builder.extract_element(bits, I32(0)), at)
        else:
            builder.store(bits, builder.bitcast(at, halves.as_pointer()), align=2)

    return types.void(x, types.int64, lanes), code
