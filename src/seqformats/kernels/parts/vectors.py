"""The exponential function, and blocks of floats a vector at a time."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .code import (
    F32,
    F64,
    I1,
    I32,
    I64,
    Builder,
    Context,
    Item,
    Kind,
    Signature,
    Value,
    Values,
    call_function,
    constant_lanes,
    fold_vector,
    splat,
    vector_type,
)
from .options import part, plain_on_cuda, shared


def exp(x: Item) -> Any:
    """The exponential function; of float32 to about 2 units in the last place, results below 1.2e-38 being zero.

    Compiled for float32 it is arithmetic alone, so that loops over it use vectors: the reduction and the polynomial of
    the Cephes library's ``expf``.  On CUDA the seam puts the device's own in its place.
    """
    return np.exp(x)


def _exp32(x):
    # adding 1.5 * 2^23 rounds to an integer n, which is then in the low bits
    shifted = x * np.float32(1.4426950408889634) + np.float32(12582912.0)
    n = shifted - np.float32(12582912.0)
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    bits = np.int32(np.float32(shifted).view(np.int32) + np.int32(127))
    power = np.int32(bits << np.int32(23)).view(np.float32)
    y = p * power
    y = np.float32(0.0) if x < np.float32(-87.3) else y
    return np.float32(np.inf) if x > np.float32(88.3) else y


@part(exp)
def _exp_compiled(x):
    if x == types.float32:
        return _exp32
    return (lambda x: np.exp(x)) if isinstance(x, types.Number) else None


_BLOCK = 128  # numbers
_WORDS = 64  # of 32 bits in a vector, which LLVM divides into what the CPU has


def largest(x: Item, p: int, n: int) -> Any:
    """The largest of ``x[p:p + n]``, float32 or float64, n from 1 to 128; NaN is passed over."""
    found = x.dtype.type(-np.inf)
    for value in x[p : p + n]:
        found = max(found, value)
    return found


def largest_of(x: Item, p: int, bits: int) -> Any:
    """The largest of those of ``x[p:p + 16]``, float32, whose bit is one, -inf of none; NaN is passed over."""
    found = np.float32(-np.inf)
    for k in range(16):
        if bits >> k & 1:
            found = max(found, x[p + k])
    return found


@plain_on_cuda
def maximum(x: Item, p: int, n: int) -> Any:
    """The largest of ``x[p:p + n]``, float32 or float64, n from 1 to 128; NaN where there is one."""
    found = x[p]
    for k in range(p + 1, p + n):
        value = x[k]
        if value > found or value != value:
            found = value
    return found


@plain_on_cuda
def place_in(x: Item, p: int, n: int, value: Item) -> Any:
    """Find the first of ``x[p:p + n]`` that equals `value`, which is there."""
    k = 0
    while x[p + k] != value:
        k += 1
    return k


@shared
def best_of_frame(x: Item, begin: int, width: int) -> Any:
    """The most likely token of a frame, of equal ones the smallest, and its value; -1 where there is NaN or +inf."""
    best = maximum(x, begin, min(width, 128))
    token = 0
    k = 128
    while k < width and best == best:
        value = maximum(x, begin + k, min(width - k, 128))
        if not value <= best:
            best = value
            token = k
        k += 128
    if not best < math.inf:
        return -1, best
    return token + place_in(x, begin + token, min(width - token, 128), best), best


@shared
def best_known(x: Item, begin: int, width: int, logits: int) -> Any:
    """`best_of_frame`, and -1 too where a log-probability is above a rounding of 0.

    `logits` is 1 where the frame is to be normalised yet, 0 where it is, and -1 or -2 where it was float16 or bfloat16.
    """
    token, best = best_of_frame(x, begin, width)
    if logits <= 0 and best > (1e-4 if logits == 0 else 0.015625 if logits == -1 else 0.125):
        token = -1
    return token, best


def sum_of_powers(x: Item, p: int, n: int, top: Item) -> Any:
    """The sum of ``exp(x[p:p + n] - top)``, float32, n from 1 to 128 and `top` the largest of all, or NaN.

    Each to 2 units in the last place, those below 1.2e-38 being that.
    """
    with np.errstate(invalid="ignore"):
        return np.exp(x[p : p + n] - top).sum(dtype=np.float32)


@shared
def powers_of_row(x: Item, begin: int, width: int, maxima: Item, at: int, block: int) -> Any:
    """The largest of ``x[begin:begin + width]``, and the sum of ``exp(x - largest)``: NaN where there is NaN or +inf.

    The powers of 128 are added up in float32, and these sums in float64.  The largest of every `block` come to
    ``maxima[at:]``, unless `at` is -1; a block is 16 where `width` is up to 1024, and 128 beyond.
    """
    top = np.float32(-np.inf)
    total: Any = np.float64(0)
    wide = width > 1024  # then it is read once, and what has been added up follows the largest so far
    step = 128 if at < 0 else block
    p = 0
    while p < width:
        count = min(width - p, step)
        best = largest(x, begin + p, count)
        if at >= 0:
            maxima[at] = best
            at += 1
        if best > top:
            if total > 0:
                total *= math.exp(np.float64(top) - np.float64(best))
            top = best
        if wide and top > -np.inf:
            total += sum_of_powers(x, begin + p, count, top)
        p += step
    p = 0
    while p < width and not wide and top > -np.inf:
        total += sum_of_powers(x, begin + p, min(width - p, 128), top)
        p += 128
    p = 0
    while p < width and not x[begin + p] > -np.inf:  # NaN may stand before the first number, or alone
        if x[begin + p] != x[begin + p]:
            total = np.nan
        p += 1
    return top, np.float32(total)


def powers_of_any(x: Item, begin: int, width: int, maxima: Item) -> Any:
    """`powers_of_row` of float32 without a word to `maxima`, and the same of float64, a number at a time."""
    if x.dtype == np.float32:
        return powers_of_row(x, begin, width, maxima, -1, 128)
    return _powers_of_doubles(x, begin, width, maxima)


def _powers_of_doubles(x, begin, width, maxima):
    top = -np.inf
    for k in range(begin, begin + width):
        top = x[k] if x[k] > top or x[k] != x[k] else top
    total = 0.0
    for k in range(begin, begin + width):
        total += np.exp(x[k] - top)
    return top, total


def _load_masked(builder: Builder, data: Value, n: Value, like: Item) -> Any:
    """The first numbers at an address as a vector, -inf beyond the n-th, and in which lanes there are numbers."""
    lanes, size = like.count, 8 if like.element == F64 else 4
    numbers = ir.Constant(vector_type(I32, lanes), list(range(lanes)))
    there = builder.icmp_signed("<", numbers, splat(builder, builder.trunc(n, I32), lanes))
    place = builder.bitcast(data, like.as_pointer())
    name = f"llvm.masked.load.v{lanes}f{8 * size}.p0"
    return call_function(builder, name, like, place, I32(size), there, constant_lanes(like, -np.inf)), there


def _over_block(begin: Item, each: Callable[..., Any], join: Callable[..., Any]) -> Callable[..., Any]:
    """Code that folds ``each(vector)`` by `join` over ``x[p:p + n]``, over a whole block where `n` is None."""

    def generate(context: Context, builder: Builder, kind: Kind, x: Value, p: Value, n: Value, *more: Any) -> Any:
        data = builder.gep(context.make_array(kind)(context, builder, x).data, [p])
        number, size = (F64, 8) if kind.dtype == types.float64 else (F32, 4)
        if n is None:
            lanes = _WORDS * 4 // size
            like = vector_type(number, lanes)
            found = constant_lanes(like, begin)
            splats = [splat(builder, value, lanes) for value in more]
            for start in range(0, _BLOCK, lanes):
                place = builder.bitcast(builder.gep(data, [I32(start)]), like.as_pointer())
                found = join(builder, found, each(builder, builder.load(place, align=size), *splats))
            return fold_vector(builder, found, join)
        lanes = 16
        like = vector_type(number, lanes)
        splats = [splat(builder, value, lanes) for value in more]
        found = cgutils.alloca_once_value(builder, constant_lanes(like, begin))
        with cgutils.for_range_slice(builder, I64(0), n, I64(lanes), inc=True) as (start, _):
            vector, there = _load_masked(builder, builder.gep(data, [start]), builder.sub(n, start), like)
            result = builder.select(there, each(builder, vector, *splats), constant_lanes(like, begin))
            builder.store(join(builder, builder.load(found), result), found)
        return fold_vector(builder, builder.load(found), join)

    return generate


def _larger(builder: Builder, a: Value, b: Value) -> Any:
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)  # NaN is never larger; `a` never is one


def _select_larger(builder: Builder, a: Value, b: Value) -> Any:
    other = builder.or_(builder.fcmp_ordered(">", b, a), builder.fcmp_unordered("uno", b, b))
    return builder.select(other, b, a)


def _powers(builder: Builder, x: Value, top: Value) -> Any:
    """``2 ** t``: t is split into an integer, which goes into the exponent, and a rest for a polynomial."""
    like, integers = x.type, vector_type(I32, x.type.count)
    t = builder.fmul(builder.fsub(x, top), constant_lanes(like, LOG2_E))
    t = builder.select(
        builder.fcmp_ordered("<", t, constant_lanes(like, -126.0)), constant_lanes(like, -126.0), t
    )  # NaN stays
    shifted = builder.fadd(t, constant_lanes(like, SHIFT))
    rest = builder.fsub(t, builder.fsub(shifted, constant_lanes(like, SHIFT)))
    power = constant_lanes(like, _EXP2[-1])
    for factor in _EXP2[-2::-1]:
        power = call_function(
            builder, f"llvm.fmuladd.v{like.count}f32", like, power, rest, constant_lanes(like, factor)
        )
    exponent = builder.shl(builder.bitcast(shifted, integers), constant_lanes(integers, 23))
    result = builder.bitcast(builder.add(builder.bitcast(power, integers), exponent), like)
    return builder.select(builder.fcmp_unordered("uno", t, t), t, result)  # the bits of a NaN would become a number


# adding 1.5 * 2^23 rounds to an integer, which is then in the low bits
SHIFT = 12582912.0
LOG2_E = float(np.float32(1.4426950408889634))
# 2 ** f for f between -1/2 and 1/2, the polynomial of least relative error, 9e-8, that is exact at 0
_EXP2 = [
    float(np.float32(c))
    for c in (
        1.0,
        0.693146977599166,
        0.2402224208537667,
        0.0555073374324839,
        0.009671512639575691,
        0.0013264727198255832,
    )
]

_fold_largest = _over_block(-np.inf, lambda _, x: x, _larger)
_fold_maximum = _over_block(-np.inf, lambda _, x: x, _select_larger)
_fold_powers = _over_block(0.0, _powers, lambda builder, a, b: builder.fadd(a, b))


@intrinsic
def _largest(typingctx: Context, x: Kind, p: Kind, n: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return _fold_largest(context, builder, sig.args[0], args[0], args[1], args[2])

    return x.dtype(x, types.int64, types.int64), generate


@intrinsic
def _largest_of_block(typingctx: Context, x: Kind, p: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return _fold_largest(context, builder, sig.args[0], args[0], args[1], None)

    return x.dtype(x, types.int64), generate


@intrinsic
def _largest_of(typingctx: Context, x: Kind, p: Kind, bits: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        data = builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])
        like = vector_type(F32, 16)
        wanted = builder.bitcast(builder.trunc(args[2], ir.IntType(16)), vector_type(I1, 16))
        place, none = builder.bitcast(data, like.as_pointer()), constant_lanes(like, -np.inf)
        vector = call_function(builder, "llvm.masked.load.v16f32.p0", like, place, I32(4), wanted, none)
        return fold_vector(builder, _larger(builder, none, vector), _larger)

    return types.float32(x, types.int64, types.int64), generate


@intrinsic
def _maximum(typingctx: Context, x: Kind, p: Kind, n: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return _fold_maximum(context, builder, sig.args[0], args[0], args[1], args[2])

    return x.dtype(x, types.int64, types.int64), generate


@intrinsic
def _maximum_of_block(typingctx: Context, x: Kind, p: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return _fold_maximum(context, builder, sig.args[0], args[0], args[1], None)

    return x.dtype(x, types.int64), generate


@intrinsic
def _place_in_few(typingctx: Context, x: Kind, p: Kind, n: Kind, value: Kind) -> Any:
    """Find the first of ``x[p:p + min(n, 16)]`` that equals a value; 16 where there is none."""

    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        data = builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])
        vector, there = _load_masked(builder, data, args[2], vector_type(args[3].type, 16))
        same = builder.and_(there, builder.fcmp_ordered("==", vector, splat(builder, args[3], 16)))
        bits = builder.or_(builder.zext(builder.bitcast(same, ir.IntType(16)), I32), I32(1 << 16))
        return builder.zext(call_function(builder, "llvm.cttz.i32", I32, bits, I1(1)), I64)

    return types.int64(x, types.int64, types.int64, x.dtype), generate


@intrinsic
def _sum(typingctx: Context, x: Kind, p: Kind, n: Kind, top: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return _fold_powers(context, builder, sig.args[0], *args)

    return types.float32(x, types.int64, types.int64, types.float32), generate


@intrinsic
def _sum_of_block(typingctx: Context, x: Kind, p: Kind, top: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return _fold_powers(context, builder, sig.args[0], args[0], args[1], None, args[2])

    return types.float32(x, types.int64, types.float32), generate


@part(largest)
def _largest_compiled(x, p, n):
    return lambda x, p, n: _largest_of_block(x, p) if n == 128 else _largest(x, p, n)


@part(largest_of)
def _largest_of_compiled(x, p, bits):
    return lambda x, p, bits: _largest_of(x, p, bits)


@part(maximum)
def _maximum_compiled(x, p, n):
    return lambda x, p, n: _maximum_of_block(x, p) if n == 128 else _maximum(x, p, n)


@part(place_in)
def _place_in_compiled(x, p, n, value):
    def find(x, p, n, value):
        k = 0
        j = _place_in_few(x, p, n, value)
        while j == 16 and k + 16 < n:
            k += 16
            j = _place_in_few(x, p + k, n - k, value)
        return k + j

    return find


@part(sum_of_powers)
def _powers_compiled(x, p, n, top):
    return lambda x, p, n, top: _sum_of_block(x, p, top) if n == 128 else _sum(x, p, n, top)


@part(powers_of_any)
def _powers_of_any_compiled(x, begin, width, maxima):
    if x.dtype == types.float32:
        return lambda x, begin, width, maxima: powers_of_row(x, begin, width, maxima, -1, 128)
    return _powers_of_doubles
