"""Lanes one by one: a value put in or taken out, and numbers collected from many places."""

from typing import Any

from llvmlite import ir
from numba import types

from .code import I32, I64, Builder, Context, Item, Value
from .lanes import Lanes, constant, lowered, vector_of


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


@lowered(with_lane)
def _with_lane(lanes: Item, k: Item, value: Item) -> Any:
    plain = types.unliteral(value)

    def code(context: Context, builder: Builder, vector: Value, place: Value, number: Value) -> Any:
        return builder.insert_element(vector, context.cast(builder, number, plain, lanes.kind), place)

    return lanes(lanes, types.int64, plain), code


@lowered(lane_of)
def _lane_of(lanes: Item, k: Item) -> Any:
    return lanes.kind(lanes, types.int64), lambda _, builder, vector, place: builder.extract_element(vector, place)


@lowered(collect)
def _collect(x: Item, begin: Item, places: Item, p: Item, count: Item) -> Any:
    n = constant(count)

    def code(_: Value, builder: Builder, base: Value, first: Value, table: Value, place: Value, __: Value) -> Any:
        value = ir.Constant(vector_of(x.dtype, n), None)
        for k in range(n):
            item = builder.load(builder.gep(table, [builder.add(place, I64(k))]))
            number = builder.load(builder.gep(base, [builder.add(first, item)]))
            value = builder.insert_element(value, number, I32(k))
        return value

    return Lanes(x.dtype, n)(x, types.int64, places, types.int64, count), code
