"""Exponentials and logarithms of some columns of a row, in registers."""

from typing import Any

import numpy as np
from numba import types

from .code import I32, I64, Builder, Item, Value, call_function, constant_lanes, vector_type
from .lanes import Lanes, log, lower, root
from .vectors import LOG2_E, SHIFT, exp


def exponents_of(x: Item) -> Any:
    """The exponents of lanes of positive float64, which bring these to between a half and 1; any of zeros."""
    return np.frexp(x)[1].astype(x.dtype)


def two_to(x: Item) -> Any:
    """Two to the power of lanes of float64 that are integers; those beyond -1000 and 1000 count as these."""
    return np.ldexp(1.0, np.clip(x, -1000.0, 1000.0).astype(np.int64))


@lower(exponents_of)
def _exponents_of_lanes(x: Item) -> Any:
    def code(_: Value, builder: Builder, value: Value) -> Any:
        like, integers = value.type, vector_type(I64, value.type.count)
        bits = builder.lshr(builder.bitcast(value, integers), constant_lanes(integers, 52))
        bits = builder.or_(bits, constant_lanes(integers, (1023 + 52) << 52))  # the low bits of 2**52 are integers
        return builder.fsub(builder.bitcast(bits, like), constant_lanes(like, 2.0**52 + 1022.0))

    return x(x), code


@lower(two_to)
def _two_to_lanes(x: Item) -> Any:
    def code(_: Value, builder: Builder, value: Value) -> Any:
        like, integers = value.type, vector_type(I64, value.type.count)
        for sign, bound in ((">", -1000.0), ("<", 1000.0)):
            limit = constant_lanes(like, bound)
            value = builder.select(builder.fcmp_ordered(sign, value, limit), value, limit)
        value = builder.fadd(value, constant_lanes(like, 1.5 * 2.0**52 + 1023.0))
        bits = builder.shl(builder.bitcast(value, integers), constant_lanes(integers, 52))
        return builder.bitcast(bits, like)

    return x(x), code


def _exp_of_vector(builder: Builder, x: Value) -> Any:
    """`_exp32` for each lane."""
    like, integers = x.type, vector_type(I32, x.type.count)
    mad = f"llvm.fmuladd.v{like.count}f32"
    shifted = call_function(builder, mad, like, x, constant_lanes(like, LOG2_E), constant_lanes(like, SHIFT))
    n = builder.fsub(shifted, constant_lanes(like, SHIFT))
    r = call_function(builder, mad, like, n, constant_lanes(like, -0.693359375), x)
    r = call_function(builder, mad, like, n, constant_lanes(like, float(np.float32(2.12194440e-4))), r)
    p = constant_lanes(like, float(np.float32(1.9875691500e-4)))
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = call_function(builder, mad, like, p, r, constant_lanes(like, float(np.float32(factor))))
    p = builder.fadd(call_function(builder, mad, like, builder.fmul(p, r), r, r), constant_lanes(like, 1.0))
    bits = builder.add(builder.bitcast(shifted, integers), constant_lanes(integers, 127))
    y = builder.fmul(p, builder.bitcast(builder.shl(bits, constant_lanes(integers, 23)), like))
    y = builder.select(
        builder.fcmp_ordered("<", x, constant_lanes(like, float(np.float32(-87.3)))), constant_lanes(like, 0.0), y
    )
    return builder.select(
        builder.fcmp_ordered(">", x, constant_lanes(like, float(np.float32(88.3)))), constant_lanes(like, np.inf), y
    )


@lower(exp)
def _exp_lanes(x: Item) -> Any:
    if not isinstance(x, Lanes):
        return None

    def code(_: Value, builder: Builder, value: Value) -> Any:
        if x.kind == types.float32:
            return _exp_of_vector(builder, value)
        return _by_number(builder, "llvm.exp", x, value)

    return x(x), code


def _log_of_vector(builder: Builder, x: Value) -> Any:
    """Each lane as m times a power of two, m around 1, whose logarithm is a polynomial: `logf` of Cephes."""
    like, integers = x.type, vector_type(I32, x.type.count)
    mad = f"llvm.fmuladd.v{like.count}f32"

    def lanes(value: float) -> Any:
        return constant_lanes(like, float(np.float32(value)))

    least = constant_lanes(integers, 0x3F3504F3)  # the bits of sqrt(0.5), where m begins
    shifted = builder.sub(builder.bitcast(x, integers), least)
    power = builder.sitofp(builder.ashr(shifted, constant_lanes(integers, 23)), like)
    bits = builder.add(builder.and_(shifted, constant_lanes(integers, (1 << 23) - 1)), least)
    r = builder.fsub(builder.bitcast(bits, like), lanes(1.0))
    square = builder.fmul(r, r)
    p = lanes(7.0376836292e-2)
    for factor in (
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    ):
        p = call_function(builder, mad, like, p, r, lanes(factor))
    y = call_function(builder, mad, like, power, lanes(-2.12194440e-4), builder.fmul(builder.fmul(p, r), square))
    y = call_function(builder, mad, like, square, lanes(-0.5), y)
    y = call_function(builder, mad, like, power, lanes(0.693359375), builder.fadd(r, y))
    y = builder.select(builder.fcmp_ordered("<", x, constant_lanes(like, np.inf)), y, x)
    return builder.select(builder.fcmp_ordered("==", x, lanes(0.0)), lanes(-np.inf), y)


@lower(log)
def _log_lanes(x: Item) -> Any:
    if x.kind == types.float32:
        return x(x), lambda _, builder, value: _log_of_vector(builder, value)
    return x(x), lambda _, builder, value: _by_number(builder, "llvm.log", x, value)


@lower(root)
def _root_lanes(x: Item) -> Any:
    def code(_: Value, builder: Builder, value: Value) -> Any:
        return call_function(builder, f"llvm.sqrt.v{value.type.count}f{x.kind.bitwidth}", value.type, value)

    return x(x), code


def _by_number(builder: Builder, name: str, x: Value, value: Value) -> Any:
    """A function of the C library, which takes one number at a time."""
    for lane in range(x.count):
        number = builder.extract_element(value, I32(lane))
        number = call_function(builder, f"{name}.f{x.kind.bitwidth}", number.type, number)
        value = builder.insert_element(value, number, I32(lane))
    return value
