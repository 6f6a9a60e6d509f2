"""Products of small matrices, a tile in registers: what attention is made of.

Everything lies in flat memory behind pointers.  Each number of a product is added up in the order of the depth, one
multiply-add after the other where the CPU has it, so it does not depend on the tile that it is calculated in.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .code import I32, I64, Builder, Context, Item, Value, call_function, splat, vector_type
from .lanes import Lanes, each, in_lanes, load, lower, store, unknown
from .options import shared

ROWS = 8
"""How many rows of a product are calculated together."""
FEW = 4
"""The same where there are only a few."""
SQUARE = 8
"""The side of the square that `turn` mirrors."""


class Product(NamedTuple):
    """8 rows of a product of matrices, all in one array."""

    place: int  # of the result, whose rows are `gap` apart
    gap: int
    begin: int  # of the left matrix, whose rows are `row` apart, and whose columns `step`
    row: int
    step: int
    first: int  # of the right matrix, whose rows are `wide` apart
    wide: int
    depth: int  # how many columns the left one has, and rows the right one
    adds: int  # is it added to what is there?


def multiply(x: Item, product: Product, count: int) -> None:
    """A `Product`, with rows of `count` numbers, a constant.

    ``x[place + r * gap + c]`` becomes the sum over t of ``x[begin + r * row + t * step] * x[first + t * wide + c]``.
    """
    multiply_rows(x, product, count, ROWS)


def multiply_few(x: Item, product: Product, count: int) -> None:
    """Calculate the first 4 rows of a `Product` alone, to the same bits."""
    multiply_rows(x, product, count, FEW)


def multiply_rows(x: Item, product: Product, count: int, rows: int) -> None:
    """Calculate some rows of a `Product`, interpreted."""
    place, gap, begin, row, step, first, wide, depth, adds = product
    size = x.itemsize
    left = np.lib.stride_tricks.as_strided(x[begin:], (rows, depth), (row * size, step * size))
    right = np.lib.stride_tricks.as_strided(x[first:], (depth, count), (wide * size, size))
    with np.errstate(all="ignore"):
        for r in range(rows):
            some = x[place + r * gap : place + r * gap + count]
            total = some.copy() if adds else np.zeros(count, x.dtype)
            for t in range(depth):
                total = total + left[r, t] * right[t]
            some[:] = total


def turn(x: Item, begin: int, gap: int, out: Item, place: int, wide: int) -> None:
    """Mirror a square of 8 by 8 numbers: ``out[place + c * wide + r] = x[begin + r * gap + c]``."""
    for r in range(SQUARE):
        for c in range(SQUARE):
            out[place + c * wide + r] = x[begin + r * gap + c]


def fold_add(lanes: Item) -> Any:
    """The sum of lanes, added in pairs."""
    lanes = lanes.copy()
    while lanes.size > 1:
        half = lanes.size // 2
        with np.errstate(all="ignore"):
            lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def fold_each(a: Item, b: Item, c: Item, d: Item) -> Any:
    """Four lanes: the `fold_add` of each."""
    return np.array([fold_add(a), fold_add(b), fold_add(c), fold_add(d)])


def _number(kind: Item) -> Any:
    return ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType()


def _registers(context: Context, kind: Item) -> tuple[int, int]:
    """Count the rows, and the numbers of each, that the registers of this CPU hold at a time."""
    wide = "+avx512f" in context.codegen()._get_host_cpu_features()
    return (ROWS, 1024 // kind.bitwidth) if wide else (ROWS // 2, 512 // kind.bitwidth)


@lower(multiply)
def _multiply(x: Item, product: Item, count: Item) -> Any:
    return _code_of_rows(x, product, count, ROWS)


@lower(multiply_few)
def _multiply_few(x: Item, product: Item, count: Item) -> Any:
    return _code_of_rows(x, product, count, FEW)


def _code_of_rows(x: Item, product: Item, count: Item, some: int) -> Any:
    lanes, kind = int(count.literal_value), x.dtype

    def code(context: Context, builder: Builder, base: Value, fields: Value, _: Value) -> None:
        args = [base, *cgutils.unpack_tuple(builder, fields)]
        function = _alone(
            builder,
            f"multiply.{kind}.{lanes}.{some}",
            [arg.type for arg in args],
            lambda inner, *given: _product(context, inner, kind, (some, lanes), *given),
        )
        builder.call(function, args)

    return types.void(x, product, count), code


def _alone(builder: Builder, name: str, kinds: Any, body: Any) -> Any:
    """A function of its own in the code of a kernel: what is called in many places is compiled once."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), kinds), f"seqformats.{name}"
    )
    if function.is_declaration:
        function.linkage = "internal"
        function.attributes.add("noinline")
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        body(inner, *function.args)
        inner.ret_void()
    return function


def _product(context: Context, builder: Builder, kind: Item, shape: tuple[int, int], *args: Any) -> None:
    to, at, between, from_, down, along, start, across, deep, keeps = args
    high, lanes = shape
    rows, some = (min(pair) for pair in zip(_registers(context, kind), shape, strict=True))
    vector = vector_type(_number(kind), some)
    name = f"llvm.fmuladd.v{some}f{kind.bitwidth}"

    def there(base: Value, number: Value) -> Any:
        return builder.bitcast(builder.gep(base, [number]), vector.as_pointer())

    for top in range(0, high, rows):
        for side in range(0, lanes, some):
            places = [builder.add(at, builder.add(builder.mul(between, I64(top + r)), I64(side))) for r in range(rows)]
            begins = [builder.gep(to, [builder.add(from_, builder.mul(down, I64(top + r)))]) for r in range(rows)]
            base = builder.gep(to, [builder.add(start, I64(side))])
            zero = ir.Constant(vector, None)
            totals = [cgutils.alloca_once_value(builder, zero) for _ in range(rows)]
            for total in totals:
                builder.store(zero, total)
            with builder.if_then(builder.icmp_signed("!=", keeps, I64(0))):
                for total, p in zip(totals, places, strict=True):
                    builder.store(builder.load(there(to, p), align=kind.bitwidth // 8), total)
            with cgutils.for_range(builder, deep) as loop:
                other = builder.load(there(base, builder.mul(loop.index, across)), align=kind.bitwidth // 8)
                far = builder.mul(loop.index, along)
                for total, pointer in zip(totals, begins, strict=True):
                    factor = splat(builder, builder.load(builder.gep(pointer, [far])), some)
                    builder.store(call_function(builder, name, vector, factor, other, builder.load(total)), total)
            for total, p in zip(totals, places, strict=True):
                builder.store(builder.load(total), there(to, p), align=kind.bitwidth // 8)


@lower(turn)
def _turn(x: Item, begin: Item, gap: Item, out: Item, place: Item, wide: Item) -> Any:
    kind, one = x.dtype, types.int64

    def code(_: Value, builder: Builder, *args: Any) -> None:
        kinds = [arg.type for arg in args]
        function = _alone(builder, f"turn.{kind}", kinds, lambda inner, *given: _transpose_tile(inner, kind, *given))
        builder.call(function, args)

    return types.void(x, one, one, out, one, one), code


def _transpose_tile(builder: Builder, kind: Item, *args: Any) -> None:
    come, from_, between, to, at, across = args
    vector = vector_type(_number(kind), SQUARE)

    def there(base: Value, first: Value, gap: Value, r: int) -> Any:
        place = builder.gep(base, [builder.add(first, builder.mul(gap, I64(r)))])
        return builder.bitcast(place, vector.as_pointer())

    rows = [builder.load(there(come, from_, between, r), align=kind.bitwidth // 8) for r in range(SQUARE)]
    side = SQUARE // 2
    while side:  # squares of this side change places, smaller and smaller ones
        low, high = (
            [k if not k & side else k - side + SQUARE for k in range(SQUARE)],
            [k + side if not k & side else k + SQUARE for k in range(SQUARE)],
        )
        for r in range(SQUARE):
            if not r & side:
                pair = rows[r], rows[r + side]
                rows[r], rows[r + side] = (
                    builder.shuffle_vector(*pair, ir.Constant(vector_type(I32, SQUARE), places))
                    for places in (low, high)
                )
        side //= 2
    for r, row in enumerate(rows):
        builder.store(row, there(to, at, across, r), align=kind.bitwidth // 8)


@lower(fold_add)
def _fold_add(lanes: Item) -> Any:
    def code(_: Value, builder: Builder, value: Value) -> Any:
        count = value.type.count
        while count > 1:
            count //= 2
            undefined = ir.Constant(value.type, ir.Undefined)
            low, high = (
                builder.shuffle_vector(
                    value, undefined, ir.Constant(vector_type(I32, count), list(range(k, k + count)))
                )
                for k in (0, count)
            )
            value = builder.fadd(low, high)
        return builder.extract_element(value, I32(0))

    return lanes.kind(lanes), code


@lower(fold_each)
def _fold_each(a: Item, *others: Item) -> Any:
    def code(_: Value, builder: Builder, *lanes: Value) -> Any:
        def add_halves(x: Value, y: Value, low: list[int], high: list[int]) -> Any:
            kind = vector_type(I32, len(low))
            return builder.fadd(*[builder.shuffle_vector(x, y, ir.Constant(kind, places)) for places in (low, high)])

        four = list(lanes)
        while four[0].type.count > 4:
            half = four[0].type.count // 2
            undefined = ir.Constant(four[0].type, ir.Undefined)
            four = [add_halves(x, undefined, [*range(half)], [*range(half, 2 * half)]) for x in four]
        ones, others = [add_halves(x, y, [0, 1, 4, 5], [2, 3, 6, 7]) for x, y in (four[:2], four[2:])]
        return add_halves(ones, others, [0, 2, 4, 6], [1, 3, 5, 7])

    return Lanes(a.kind, 4)(a, *others), code


@in_lanes
def pack_row(x: Item, place: int, width: int, out: Item, to: int, wide: int, factor: float) -> None:
    """``out[to:to + width] = x[place:place + width] * factor``, and zeros up to `wide`, a multiple of 16."""
    k, one = 0, unknown(1)
    while k + 16 <= width:
        store(out, to + k, load(x, place + k, 16, out) * each(out, factor, 16))
        k += 16 * one
    if k < width:
        store(out, to + k, each(out, 0, 16))
        while k + 4 <= width:
            store(out, to + k, load(x, place + k, 4, out) * each(out, factor, 4))
            k += 4 * one
        while k < width:
            store(out, to + k, load(x, place + k, 1, out) * each(out, factor, 1))
            k += one


@in_lanes
def give_row(x: Item, place: int, out: Item, to: int, width: int) -> None:
    """``out[to:to + width] = x[place:place + width]``."""
    k, one = 0, unknown(1)
    while k + 16 <= width:
        store(out, to + k, load(x, place + k, 16, out))
        k += 16 * one
    while k + 4 <= width:
        store(out, to + k, load(x, place + k, 4, out))
        k += 4 * one
    while k < width:
        store(out, to + k, load(x, place + k, 1, out))
        k += one


@in_lanes
def copy_numbers(x: Item, place: int, out: Item, to: int, size: int) -> None:
    """``out[to:to + size] = x[place:place + size]``, a multiple of 16."""
    k = 0
    while k < size:
        store(out, to + k, load(x, place + k, 16, out))
        k += 16


@in_lanes
def add_row(x: Item, place: int, out: Item, to: int, width: int, factor: float) -> None:
    """``out[to:to + width] += x[place:place + width] * factor``."""
    k, one = 0, unknown(1)
    while k + 16 <= width:
        store(out, to + k, load(out, to + k, 16, out) + load(x, place + k, 16, out) * each(out, factor, 16))
        k += 16 * one
    while k + 4 <= width:
        store(out, to + k, load(out, to + k, 4, out) + load(x, place + k, 4, out) * each(out, factor, 4))
        k += 4 * one
    while k < width:
        store(out, to + k, load(out, to + k, 1, out) + load(x, place + k, 1, out) * each(out, factor, 1))
        k += one


@shared
def clear_rows(out: Item, to: int, size: int) -> None:
    """Zeros, so many, a multiple of 16."""
    k = 0
    while k < size:
        store(out, to + k, each(out, 0, 16))
        k += 16


@shared
def mirror(x: Item, begin: int, rows: int, columns: int, out: Item, place: int) -> None:
    """Mirror a matrix whose sides are multiples of 8, ``(rows, columns)`` to ``(columns, rows)``."""
    c = 0
    while c < columns:
        r = 0
        while r < rows:
            turn(x, begin + r * columns + c, columns, out, place + c * rows + r, rows)
            r += 8
        c += 8
