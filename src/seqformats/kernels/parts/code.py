"""Words for writing LLVM instructions."""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils


def vector_type(kind: Any, lanes: int) -> Any:
    """A vector of so many numbers."""
    return ir.VectorType(kind, lanes)


F32, I1, I32, I64 = ir.FloatType(), ir.IntType(1), ir.IntType(32), ir.IntType(64)


def constant_lanes(like: Any, value: Any) -> Any:
    """A constant in every lane."""
    return ir.Constant(like, [value] * like.count)


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """A number in every lane."""
    undefined = ir.Constant(vector_type(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, I32(0))
    return builder.shuffle_vector(one, undefined, constant_lanes(vector_type(I32, lanes), 0))


def called(builder: Any, name: str, result: Any, *args: Any) -> Any:
    """What the function of this name, an intrinsic of LLVM say, returns for some arguments."""
    signature = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), args)


def folded(builder: Any, vector: Any, join: Callable[..., Any]) -> Any:
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
