"""Words for writing LLVM instructions."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing import templates
from numba.types import Type

Context: TypeAlias = BaseContext
Builder: TypeAlias = ir.IRBuilder
Signature: TypeAlias = templates.Signature
Kind: TypeAlias = Type
Value: TypeAlias = ir.Value
Values: TypeAlias = Sequence[Value]
Kinds: TypeAlias = Sequence[Kind]
Item: TypeAlias = Any  # a number of any dtype, or some in lanes, as a kernel has it


def vector_type(kind: Kind, lanes: int) -> Any:
    """A vector of so many numbers."""
    return ir.VectorType(kind, lanes)


F32, F64, I1, I32, I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)


def constant_lanes(like: Item, value: Item) -> Any:
    """A constant in every lane."""
    return ir.Constant(like, [value] * like.count)


def splat(builder: Builder, value: Value, lanes: int) -> Any:
    """A number in every lane."""
    undefined = ir.Constant(vector_type(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(one, undefined, constant_lanes(vector_type(I32, lanes), 0))


def call_function(builder: Builder, name: str, result: Value, *args: Any) -> Any:
    """Call the function of this name, an intrinsic of LLVM say, with some arguments."""
    signature = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


def call_outlined(builder: Builder, name: str, args: Values, body: Callable[..., None]) -> None:
    """Call a function, which `body` writes with its own builder and arguments where the module has none yet.

    Its loops are not unrolled, which would make them slower for short runs, and longer to compile.
    """
    kind = ir.FunctionType(ir.VoidType(), [arg.type for arg in args])
    function = cgutils.get_or_insert_function(builder.module, kind, f"seqformats_{name}")
    if function.is_declaration:
        function.linkage = "internal"
        for attribute in ("noinline", "optsize"):
            function.attributes.add(attribute)
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        body(inner, *function.args)
        inner.ret_void()
    builder.call(function, args)


def fold_vector(builder: Builder, vector: Value, join: Callable[..., Any]) -> Any:
    """One number of all in a vector: its halves are joined until one is left."""
    count = vector.type.count
    while count > 1:
        count //= 2
        undefined = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(vector, undefined, ir.Constant(vector_type(I32, count), list(range(k, k + count))))
            for k in (0, count)
        )
        vector = join(builder, low, high)
    return builder.extract_element(vector, I32(0))
