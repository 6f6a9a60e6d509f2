"""Some columns of a row, in registers.

Lanes are an array of a few numbers when interpreted, and one LLVM vector when compiled, which LLVM divides into what
the CPU has.  Whatever the number of lanes, each is calculated in the same way.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.core.typing.templates import AbstractTemplate, infer, infer_global, signature
from numba.extending import lower_builtin, models, register_model

from .code import (
    F32,
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
    splat,
    vector_type,
)
from .options import part, shared


def pointer(x: Item) -> Any:
    """Point to the items of a flat array: to be read, written and handed on without counting references.

    Of a `Layout`, or another tuple, the same tuple with pointers in place of its arrays.
    """
    return x


def unknown(value: int) -> int:
    """An integer that the compiler knows nothing about: loops that count by it are not unrolled.

    Unrolled loops are slow for the short sequences that they mostly meet, and slow to compile.
    """
    return value


@shared
def columns_at_once(width: int, some: int = 4) -> int:
    """Choose how many columns a kernel takes in lanes: 32, `some`, 4 or 1, of which each takes its time to compile.

    The last of a row may be some that it has taken before.
    """
    return 32 if width >= 32 else some if width >= some else 4 if width >= 4 else 1


def load(x: Item, p: int, count: int, like: Item) -> Any:
    """Lanes: ``x[p:p + count]`` in the dtype of `like`; `count` is a constant, `x` and `like` are pointers."""
    return x[p : p + count].astype(like.dtype)


def prefetch(x: Item, p: int, count: int) -> None:
    """Say that ``x[p:p + count]`` will soon be read; it need not exist."""


def store(x: Item, p: int, lanes: Item) -> None:
    """``x[p:p + count] = lanes``, in the dtype of `x`."""
    x[p : p + len(lanes)] = lanes


def each(like: Item, value: Item, count: int) -> Any:
    """Lanes of one value, in the dtype of `like`, which is a pointer, a number or lanes."""
    return np.full(count, value, like.dtype)


def choose(mask: Item, a: Item, b: Item) -> Any:
    """Lanes of `a` where the mask says so, of `b` elsewhere."""
    return np.where(mask, a, b)


def nonzero(lanes: Item) -> Any:
    """A mask: is each lane another number than zero?  NaN is; of complex lanes one part is enough."""
    return lanes != 0


def in_any(mask: Item) -> bool:
    """Tell whether the mask is true in a lane."""
    return bool(mask.any())


def larger(best: Item, value: Item) -> Any:
    """The larger of each lane; NaN is beyond every number, and of equal ones it is `best`."""
    return np.where((value > best) | (value != value), value, best)


def largest_lane(lanes: Item) -> Any:
    """One lane, the largest of several, as `larger` has it."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = larger(lanes[:half], lanes[half:])
    return lanes


def flip_order(lanes: Item, least: int) -> Any:
    """Lanes in the reverse order where `least` is 1: the largest of those are the least, mirrored."""
    if not least:
        return lanes
    return -lanes if lanes.dtype.kind == "f" else ~lanes


def conjugate(lanes: Item) -> Any:
    """The complex conjugate of each lane; other numbers are their own."""
    return np.conj(lanes)


def log(x: Item) -> Any:
    """The natural logarithm of lanes that are 0, at least 1, or NaN; of float32 with an error of 1 ulp."""
    with np.errstate(divide="ignore"):
        return np.log(x)


def root(x: Item) -> Any:
    """The square root of lanes."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


def in_lanes(function: Callable[..., Any]) -> Any:
    """Make the decorated plain function one that CPU kernels call with a constant `count`, compiled for each."""
    part(function, prefer_literal=True, strict=False)(lambda *_: function)
    return function


class Lanes(types.Type):
    """Numbers of a kind, one a lane.  A comparison gives integers as wide, -1 for true, by which CPUs select."""

    def __init__(self, kind: Kind, count: int) -> None:
        self.kind, self.count = kind, count
        super().__init__(f"Lanes({kind}, {count})")


def _number_of(kind: Kind) -> Any:
    if isinstance(kind, types.Float):
        return F32 if kind.bitwidth == 32 else ir.DoubleType()
    return ir.IntType(_bits_of(kind))


def vector_of(kind: Kind, count: int) -> Any:
    """A complex number is two lanes, which sums treat alike, and so do quotients by a real number.

    One number is the first of four lanes: a choice between numbers would be a jump, which random ones would mislead.
    """
    if isinstance(kind, types.Complex):
        return vector_type(_number_of(kind.underlying_float), 2 * count)
    return vector_type(_number_of(kind), 4 if count == 1 else count)


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Item, kind: Kind) -> None:
        super().__init__(manager, kind, vector_of(kind.kind, kind.count))


def lower(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], None]:
    """Compile calls of `function` as the decorated one says: from the types of arguments to a signature and its code.

    It returns None where it has no answer.  Unlike an overload this costs no compilation of its own.
    """

    def register(answer: Callable[..., Any]) -> None:
        class Template(AbstractTemplate):
            key = function
            prefer_literal = True

            def generic(self, args: Values, kws: Item) -> Any:
                found = answer(*args)
                return found and found[0]

        infer(Template)
        infer_global(function, types.Function(Template))

        @lower_builtin(function, types.VarArg(types.Any))
        def lower(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            result = answer(*sig.args)[1](context, builder, *args)
            return context.get_dummy_value() if result is None else result

    return register


def constant(count: Item) -> int:
    """Read a number that the compiler knows."""
    if not isinstance(count, types.IntegerLiteral):
        raise RequireLiteralValue(f"a constant number of lanes, not {count}")
    return int(count.literal_value)


def _alone(kind: Kind, count: int) -> bool:
    return count == 1 and not isinstance(kind, types.Complex)


def in_kind(builder: Builder, value: Value, given: Value, wanted: Value) -> Any:
    """A vector of numbers as one of another kind; complex numbers become complex ones."""
    given, wanted = (getattr(kind, "underlying_float", kind) for kind in (given, wanted))
    if given == wanted:
        return value
    to = vector_type(_number_of(wanted), value.type.count)
    if isinstance(given, types.Float):
        return (builder.fpext if wanted.bitwidth > given.bitwidth else builder.fptrunc)(value, to)
    signed = isinstance(given, types.Integer) and given.signed
    if isinstance(wanted, types.Float):
        return (builder.sitofp if signed else builder.uitofp)(value, to)
    if to.element.width <= value.type.element.width:
        return value if to == value.type else builder.trunc(value, to)
    return (builder.sext if signed else builder.zext)(value, to)


@lower(pointer)
def _pointer(x: Item) -> Any:
    if isinstance(x, types.BaseTuple):
        kinds = [types.CPointer(kind.dtype) if isinstance(kind, types.Array) else kind for kind in x]
        pointers = types.BaseTuple.from_types(kinds, getattr(x, "instance_class", tuple))

        def tuple_code(context: Context, builder: Builder, value: Value) -> Any:
            parts = zip(x, cgutils.unpack_tuple(builder, value), strict=True)
            found = [
                context.make_array(kind)(context, builder, part).data if isinstance(kind, types.Array) else part
                for kind, part in parts
            ]
            return context.make_tuple(builder, pointers, found)

        return pointers(x), tuple_code

    def code(context: Context, builder: Builder, array: Value) -> Any:
        return context.make_array(x)(context, builder, array).data

    return types.CPointer(x.dtype)(x), code


@lower(unknown)
def _unknown(value: Item) -> Any:
    kind = ir.FunctionType(I64, [I64])
    return types.int64(types.int64), lambda _, builder, x: builder.asm(kind, "", "=r,0", [x], False)


@lower(load)
def _load(x: Item, p: Item, count: Item, like: Item) -> Any:
    n = constant(count)
    vector = vector_of(x.dtype, n)

    def code(_: Value, builder: Builder, base: Value, place: Value, *__: Any) -> Any:
        at = builder.gep(base, [place])
        if _alone(x.dtype, n):
            value = builder.insert_element(ir.Constant(vector, None), builder.load(at, align=1), I32(0))
        else:
            value = builder.load(builder.bitcast(at, vector.as_pointer()), align=1)
        return in_kind(builder, value, x.dtype, like.dtype)

    return Lanes(like.dtype, n)(x, types.int64, count, like), code


@lower(prefetch)
def _prefetch(x: Item, p: Item, count: Item) -> Any:
    n = constant(count)

    def code(_: Value, builder: Builder, base: Value, place: Value, __: Value) -> None:
        lines = vector_of(x.dtype, n).count * _bits_of(getattr(x.dtype, "underlying_float", x.dtype)) // (8 * 64)
        begin = builder.bitcast(builder.gep(base, [place]), ir.IntType(8).as_pointer())
        for line in range(max(lines, 1)):
            at = builder.gep(begin, [I64(64 * line)])
            call_function(builder, "llvm.prefetch.p0i8", ir.VoidType(), at, I32(0), I32(3), I32(1))

    return types.void(x, types.int64, count), code


@lower(store)
def _store(x: Item, p: Item, lanes: Item) -> Any:
    def code(_: Value, builder: Builder, base: Value, place: Value, value: Value) -> None:
        value = in_kind(builder, value, lanes.kind, x.dtype)
        at = builder.gep(base, [place])
        if _alone(lanes.kind, lanes.count):
            builder.store(builder.extract_element(value, I32(0)), at, align=1)
        else:
            builder.store(value, builder.bitcast(at, value.type.as_pointer()), align=1)

    return types.void(x, types.int64, lanes), code


@lower(each)
def _each_lane(like: Item, value: Item, count: Item) -> Any:
    n = constant(count)
    plain = types.unliteral(value)
    own = like.kind if isinstance(like, Lanes) else getattr(like, "dtype", like)
    kind = getattr(own, "underlying_float", own)

    def code(context: Context, builder: Builder, _: Value, number: Value, __: Value) -> Any:
        number = context.cast(builder, number, plain, kind)
        return splat(builder, number, vector_of(own, n).count)

    return Lanes(own, n)(like, plain, count), code


@lower(choose)
def _choose(mask: Item, a: Item, b: Item) -> Any:
    def code(_: Value, builder: Builder, truth: Value, x: Value, y: Value) -> Any:
        bits, wanted = truth.type.element.width, _bits_of(a.kind)
        if bits != wanted:
            change = builder.sext if bits < wanted else builder.trunc
            truth = change(truth, vector_type(ir.IntType(wanted), truth.type.count))
        zero = ir.Constant(truth.type, None)
        return builder.select(builder.icmp_signed("<", truth, zero), x, y)

    return a(mask, a, b), code


@lower(nonzero)
def _nonzero(lanes: Item) -> Any:
    number = getattr(lanes.kind, "underlying_float", lanes.kind)
    mask = Lanes(types.Integer.from_bitwidth(_bits_of(number), True), lanes.count)
    wide = vector_of(mask.kind, mask.count)

    def code(_: Value, builder: Builder, value: Value) -> Any:
        zero = ir.Constant(value.type, None)
        unlike = builder.fcmp_unordered if isinstance(number, types.Float) else builder.icmp_unsigned
        truth = unlike("!=", value, zero)
        if number is not lanes.kind:  # lane k is in places 2k and 2k + 1; of one number the first of all four lanes
            undefined = ir.Constant(truth.type, ir.Undefined)
            places = [2 * min(k, lanes.count - 1) for k in range(wide.count)]
            real, imaginary = (
                builder.shuffle_vector(
                    truth, undefined, ir.Constant(vector_type(I32, wide.count), [p + part for p in places])
                )
                for part in (0, 1)
            )
            truth = builder.or_(real, imaginary)
        return builder.sext(truth, wide)

    return mask(lanes), code


@lower(in_any)
def _in_any(mask: Item) -> Any:
    def code(_: Value, builder: Builder, truth: Value) -> Any:
        lanes = builder.icmp_signed("<", truth, ir.Constant(truth.type, None))
        bits = builder.bitcast(lanes, ir.IntType(truth.type.count))
        return builder.icmp_unsigned("!=", bits, bits.type(0))

    return types.boolean(mask), code


def _larger_of(builder: Builder, kind: Kind, a: Value, b: Value) -> Any:
    if isinstance(kind, types.Float):
        above = builder.or_(builder.fcmp_ordered(">", b, a), builder.fcmp_unordered("uno", b, b))
    else:
        above = _comparison(builder, kind)(">", b, a)
    return builder.select(above, b, a)


@lower(larger)
def _larger(best: Item, value: Item) -> Any:
    return best(best, value), lambda _, builder, a, b: _larger_of(builder, best.kind, a, b)


@lower(largest_lane)
def _largest_lane(lanes: Item) -> Any:
    def code(_: Value, builder: Builder, value: Value) -> Any:
        count = value.type.count
        while count > 1:  # the last four stay in a vector, of which the first lane counts
            count //= 2
            size = max(count, 4)
            halves = [[min(k + begin, value.type.count - 1) for k in range(size)] for begin in (0, count)]
            undefined = ir.Constant(value.type, ir.Undefined)
            low, high = (
                builder.shuffle_vector(value, undefined, ir.Constant(vector_type(I32, size), places))
                for places in halves
            )
            value = _larger_of(builder, lanes.kind, low, high)
        return value

    return Lanes(lanes.kind, 1)(lanes), code


@lower(flip_order)
def _lower_flip_order(lanes: Item, least: Item) -> Any:
    bits = ir.IntType(_bits_of(lanes.kind))

    def code(_: Value, builder: Builder, value: Value, flag: Value) -> Any:
        flip = 1 << (bits.width - 1) if isinstance(lanes.kind, types.Float) else -1  # the sign, or every bit
        mask = builder.select(builder.icmp_signed("==", flag, I64(0)), bits(0), bits(flip))
        numbers = vector_type(bits, value.type.count)
        mirror = builder.xor(builder.bitcast(value, numbers), splat(builder, mask, numbers.count))
        return builder.bitcast(mirror, value.type)

    return lanes(lanes, types.int64), code


@lower(conjugate)
def _lower_conjugate(lanes: Item) -> Any:
    if not isinstance(lanes.kind, types.Complex):
        return lanes(lanes), lambda _, __, value: value
    return lanes(lanes), lambda _, builder, value: builder.fmul(value, _signs(value.type, 1.0, -1.0))


def _signs(like: Item, real: float, imaginary: float) -> Any:
    """A factor for the real parts of complex lanes, and one for the imaginary ones."""
    return ir.Constant(like, [real, imaginary] * (like.count // 2))


def _product(builder: Builder, kind: Kind, floats: bool, a: Value, b: Value) -> Any:
    """``a * b``; of complex numbers as it is written on paper, whatever is infinite."""
    if not isinstance(kind, types.Complex):
        return (builder.fmul if floats else builder.mul)(a, b)

    def shuffle(value: Value, first: int, second: int) -> Any:
        places = [place for k in range(0, value.type.count, 2) for place in (k + first, k + second)]
        places = ir.Constant(vector_type(I32, len(places)), places)
        return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), places)

    crossed = builder.fmul(builder.fmul(shuffle(a, 1, 1), shuffle(b, 1, 0)), _signs(a.type, -1.0, 1.0))
    return builder.fadd(builder.fmul(shuffle(a, 0, 0), b), crossed)


def _comparison(builder: Builder, kind: Kind) -> Any:
    signed = isinstance(kind, types.Integer) and kind.signed
    return builder.icmp_signed if signed else builder.icmp_unsigned


def _bits_of(kind: Kind) -> int:
    return 8 if kind == types.boolean else int(kind.bitwidth)


def _between_lanes(sign: Item, code: Callable[..., Any], compares: bool = False) -> None:
    """Compile an operator between lanes of one kind."""

    @infer_global(sign)
    class Template(AbstractTemplate):
        def generic(self, args: Values, kws: Item) -> Any:
            if len(args) == 2 and isinstance(args[0], Lanes) and args[0] == args[1]:
                kind = args[0].kind
                mask = types.Integer.from_bitwidth(_bits_of(kind), True) if compares else kind
                return signature(Lanes(mask, args[0].count), *args)
            return None

    @lower_builtin(sign, Lanes, Lanes)
    def lower(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        kind = sig.args[0].kind
        return code(builder, kind, isinstance(kind, (types.Float, types.Complex)), *args)


def _operators() -> None:
    def arithmetic(in_floats: str, in_integers: str) -> Callable[..., Any]:
        return lambda builder, _, floats, a, b: getattr(builder, in_floats if floats else in_integers)(a, b)

    def comparison(sign: str) -> Callable[..., Any]:
        def code(builder: Builder, kind: Kind, floats: bool, a: Value, b: Value) -> Any:
            if floats:
                truth = (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, a, b)
            else:
                truth = _comparison(builder, kind)(sign, a, b)
            return builder.sext(truth, vector_type(ir.IntType(_bits_of(kind)), a.type.count))

        return code

    for signs, floats, integers in (
        ((operator.add, operator.iadd), "fadd", "add"),
        ((operator.sub,), "fsub", "sub"),
        ((operator.truediv,), "fdiv", "add"),  # integers are divided in floats; kernels ask for it in dead code alone
        ((operator.and_,), "and_", "and_"),
        ((operator.or_,), "or_", "or_"),
        ((operator.xor,), "xor", "xor"),
    ):
        for sign in signs:
            _between_lanes(sign, arithmetic(floats, integers))
    _between_lanes(operator.mul, _product)
    for sign, text in (
        (operator.lt, "<"),
        (operator.gt, ">"),
        (operator.eq, "=="),
        (operator.ne, "!="),
    ):
        _between_lanes(sign, comparison(text), compares=True)


_operators()
