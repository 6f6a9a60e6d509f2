"""Lanes one by one: a value put in or taken out, and numbers collected from many places."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .code import I32, I64, Builder, Context, Item, Value, vector_type
from .lanes import Lanes, constant, lower, vector_of


def with_lane(lanes: Item, k: int, value: Item) -> Any:
    """Lanes with another value in place k."""
    lanes = lanes.copy()
    lanes[k] = value
    return lanes


def lane_of(lanes: Item, k: int) -> Any:
    """The value in place k."""
    return lanes[k]


def collect(x: Item, begin: int, places: Item, p: int, count: int) -> Any:
    """Lanes: the items of `x` at ``begin + places[p:p + count]``; both are pointers, and `count` is a constant."""
    return x[begin + places[p : p + count]]


def collect_across(x: Item, begin: int, places: Item, p: int, count: int) -> Any:
    """Lanes: lane k is item ``begin + places[p + k] + k`` of `x`."""
    return x[begin + places[p : p + count] + np.arange(count)]


def push_lane(lanes: Item, value: Item) -> Any:
    """Lanes one place further, behind a value; the last one is lost."""
    return np.concatenate([np.full(1, value, lanes.dtype), lanes[:-1]])


@lower(with_lane)
def _with_lane(lanes: Item, k: Item, value: Item) -> Any:
    plain = types.unliteral(value)

    def code(context: Context, builder: Builder, vector: Value, place: Value, number: Value) -> Any:
        return builder.insert_element(vector, context.cast(builder, number, plain, lanes.kind), place)

    return lanes(lanes, types.int64, plain), code


@lower(lane_of)
def _lane_of(lanes: Item, k: Item) -> Any:
    return lanes.kind(lanes, types.int64), lambda _, builder, vector, place: builder.extract_element(vector, place)


def _compile_collect(step: int) -> Any:
    """Compile `collect`, or `collect_across` where items are a step further from lane to lane."""

    def answer(x: Item, begin: Item, places: Item, p: Item, count: Item) -> Any:
        n = constant(count)

        def code(_: Value, builder: Builder, base: Value, first: Value, table: Value, place: Value, __: Value) -> Any:
            value = ir.Constant(vector_of(x.dtype, n), None)
            for k in range(n):
                item = builder.load(builder.gep(table, [builder.add(place, I64(k))]))
                at = builder.add(builder.add(first, item), I64(step * k))
                value = builder.insert_element(value, builder.load(builder.gep(base, [at])), I32(k))
            return value

        return Lanes(x.dtype, n)(x, types.int64, places, types.int64, count), code

    return answer


lower(collect)(_compile_collect(0))
lower(collect_across)(_compile_collect(1))


@lower(push_lane)
def _push_lane(lanes: Item, value: Item) -> Any:
    plain = types.unliteral(value)

    def code(context: Context, builder: Builder, vector: Value, number: Value) -> Any:
        first = context.cast(builder, number, plain, lanes.kind)
        first = builder.insert_element(ir.Constant(vector.type, ir.Undefined), first, I32(0))
        places = [0, *range(lanes.count, 2 * lanes.count - 1)]
        return builder.shuffle_vector(first, vector, ir.Constant(vector_type(I32, lanes.count), places))

    return lanes(lanes, plain), code
