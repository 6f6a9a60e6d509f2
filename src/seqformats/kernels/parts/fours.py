"""Four float32 side by side as one item of an array, for CUDA: read and written in one access of 16 bytes.

Four columns of a row are the work of one thread then, which finds their place once.  Each of the four is calculated as
it is alone, so results are the same, bit for bit.  `gpu` has what kernels do with items beside arithmetic.

`gpu` imports it where there is a compiler.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from .code import I32, Builder, Context, Kind, Signature, Value, Values, splat, vector_type
from .compiler import AbstractTemplate, PrimitiveModel, declared, implemented, register_model, signature, types

FOUR = 4


class Fours(types.Type):
    """Four numbers of a kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        super().__init__(f"Fours({kind})")


def vector_of(kind: Kind) -> Any:
    """Give LLVM's type for four numbers of a kind."""
    return vector_type(ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType(), FOUR)


@register_model(Fours)
class _FoursModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: Kind) -> None:
        super().__init__(manager, kind, vector_of(kind.kind))


def cast(builder: Builder, value: Value, given: Kind, wanted: Kind) -> Any:
    """Four numbers of one kind as those of another."""
    if given == wanted:
        return value
    change = builder.fpext if wanted.kind.bitwidth > given.kind.bitwidth else builder.fptrunc
    return change(value, vector_of(wanted.kind))


def each_of(builder: Builder, function: Callable[..., Value], *values: Value) -> Any:
    """Apply a function of one number, or of some, to four of them, or to one."""
    if not isinstance(values[0].type, ir.VectorType):
        return function(*values)
    made = ir.Constant(values[0].type, ir.Undefined)
    for k in range(FOUR):
        number = function(*[builder.extract_element(value, I32(k)) for value in values])
        made = builder.insert_element(made, number, I32(k))
    return made


def _operate(sign: Any, name: str) -> None:
    """Let kernels calculate with four numbers and four others, or one."""

    @declared.register_global(sign)
    class Template(AbstractTemplate):
        def generic(self, args: Values, kws: Any) -> Any:
            fours = len(args) == 2 and isinstance(args[0], Fours) and args[1] in (args[0], args[0].kind)
            return signature(args[0], *args) if fours else None

    @implemented.lower(sign, Fours, Fours)
    def lower(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return getattr(builder, name)(*args)

    @implemented.lower(sign, Fours, types.Float)
    def lower_one(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        return getattr(builder, name)(args[0], splat(builder, args[1], FOUR))


for _sign, _name in (
    (operator.add, "fadd"),
    (operator.iadd, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _operate(_sign, _name)


def _map(function: Any) -> None:
    """Let kernels take a function of four numbers."""

    @declared.register_global(function)
    class Template(AbstractTemplate):
        def generic(self, args: Values, kws: Any) -> Any:
            return signature(args[0], *args) if len(args) == 1 and isinstance(args[0], Fours) else None

    @implemented.lower(function, Fours)
    def lower(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        kind = sig.args[0].kind
        of_one = context.get_function(function, signature(kind, kind))
        return each_of(builder, lambda number: of_one(builder, (number,)), args[0])


_map(math.exp)
_map(math.log)
_map(math.sqrt)
