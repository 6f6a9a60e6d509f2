"""Sums of many rows, in an order that rounds little and depends on the sequence alone.

A sum of float32 rounds at each addition, and after some thousands its digits are gone.  So rows are added up by their
place in the sequence: 4 of them in their order, 8 of these sums in theirs, which makes a block of 32 rows; 32 blocks in
float64, which makes a chunk; and the chunks in float64.  Up to 3 rows that are left are added one by one to their
block.  The sum of positive float32 is wrong by at most 12 / 2**24 before the last rounding, which is 8e-7, and by less
than 1e-10 for what 1e8 rows add in float64; a division rounds once more.
Complex64 is treated alike, with complex128 for the blocks; float64 and integers are added in the same order and stay
what they are.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .code import I32, I64, Builder, Context, Item, Kind, Value, vector_type
from .common import Columns, item_at
from .drivers import by_columns
from .lanes import each, in_kind, in_lanes, load, lower, store, unknown
from .moves import at_most
from .options import shared
from .record import Array

COLUMNS = 1024  # of a `room`
CHUNK = 1024  # rows of a chunk
CACHED = 1 << 21  # bytes of items up to which they are likely to be in the cache
_WIDE = {"float32": "float64", "complex64": "complex128"}


def add_block(blocks: Item, lanes: Item, first: bool) -> None:
    """Add lanes to those in a `room`, or, where it is the first block, put them there."""
    some = blocks[: len(lanes)]
    some[:] = lanes if first else some + lanes


def round_sum(blocks: Item, lanes: Item) -> Any:
    """The sum of lanes and those in a `room`, in the dtype of the lanes."""
    return (blocks[: len(lanes)] + lanes).astype(lanes.dtype)


def room(like: Item) -> Any:
    """A pointer to room for twice 1024 numbers in the dtype in which blocks and chunks are added up.

    It is there for as long as the kernel runs: compiled code has it on its stack.  Blocks come first, then chunks.
    """
    return np.ndarray(2 * COLUMNS, _WIDE.get(like.dtype.name, like.dtype))


def scratch(like: Item) -> Any:
    """Make room in the items' own dtype; `like` may be a number, too."""
    return np.ndarray(COLUMNS, like.dtype)


def _wide_kind(kind: Kind) -> Any:
    return {types.float32: types.float64, types.complex64: types.complex128}.get(kind, kind)


def _real(kind: Kind) -> Any:
    return getattr(kind, "underlying_float", kind)


def _parts(builder: Builder, lanes: Value, value: Value) -> Any:
    """Lanes, some at a time, in the kind of a `room`, and the place there of each.

    The parts are no wider than the lanes, since CPUs slow down where code of 256 bits meets a few of 512.
    """
    own = value.type
    kind = _real(lanes.kind)
    size = min(8 if own.count > 8 else 4, own.count)
    for begin in range(0, own.count, size):
        places = ir.Constant(vector_type(I32, size), list(range(begin, begin + size)))
        part = builder.shuffle_vector(value, ir.Constant(own, ir.Undefined), places)
        yield begin, in_kind(builder, part, kind, _wide_kind(kind))


def _place(builder: Builder, blocks: Value, begin: int, like: Value) -> Any:
    at = builder.gep(builder.bitcast(blocks, like.element.as_pointer()), [I64(begin)])
    return builder.bitcast(at, like.as_pointer())


@lower(add_block)
def _add_block(blocks: Item, lanes: Item, first: Item) -> Any:
    def code(_: Value, builder: Builder, to: Value, value: Value, begins: Value) -> None:
        for begin, part in _parts(builder, lanes, value):
            place = _place(builder, to, begin, part.type)
            before = builder.select(begins, ir.Constant(part.type, None), builder.load(place, align=8))
            add = builder.fadd if isinstance(_real(lanes.kind), types.Float) else builder.add
            builder.store(add(before, part), place, align=8)

    return types.void(blocks, lanes, types.boolean), code


@lower(round_sum)
def _lower_round_sum(blocks: Item, lanes: Item) -> Any:
    kind = _real(lanes.kind)

    def code(_: Value, builder: Builder, come: Value, value: Value) -> Any:
        add = builder.fadd if isinstance(kind, types.Float) else builder.add
        parts = []
        for begin, part in _parts(builder, lanes, value):
            part = add(builder.load(_place(builder, come, begin, part.type), align=8), part)
            parts.append(in_kind(builder, part, _wide_kind(kind), kind))
        while len(parts) > 1:
            count = 2 * parts[0].type.count
            places = ir.Constant(vector_type(I32, count), list(range(count)))
            parts = [builder.shuffle_vector(*pair, places) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    return lanes(blocks, lanes), code


def _numbers(kind: Kind, like: Item, count: int) -> Any:
    def code(context: Context, builder: Builder, _: Value) -> Any:
        number = context.get_data_type(kind)
        with builder.goto_entry_block():  # `cgutils.alloca_once` would fill it with zeros, number by number
            place = builder.alloca(ir.ArrayType(number, count))
        place.align = 64
        return builder.bitcast(place, number.as_pointer())

    return types.CPointer(kind)(like), code


@lower(room)
def _room(like: Item) -> Any:
    return _numbers(_wide_kind(like.dtype), like, 2 * COLUMNS)


@lower(scratch)
def _scratch(like: Item) -> Any:
    return _numbers(getattr(like, "dtype", like), like, COLUMNS)


@shared
def in_turn(rows: int, width: int, itemsize: int, step: int) -> bool:
    """Tell whether rows are best read one after the other, so that the CPU foresees which come next.

    That is so where they stand like that in memory, and are too many for the cache: reading four at a time took up to
    twice as long on a Zen 4, and as long as a plain pass over the memory otherwise.  What is in the cache is read four
    rows at a time, which writes the result a quarter as often.
    """
    return step == 1 and rows * width * itemsize > CACHED


@in_lanes
def add_chunk(blocks: Array, begin: int, first: bool, count: int) -> None:
    """Add some sums of blocks of a `room` to those of chunks, or, where it is the first chunk, put them there."""
    part = load(blocks, begin, count, blocks)
    if not first:
        part += load(blocks, 1024 + begin, count, blocks)
    store(blocks, 1024 + begin, part)


@in_lanes
def total(given: Any, columns: Columns, place: int, count: int) -> None:
    """The sums of some columns of a sequence, by `divisor` unless it is 0, to ``out[place:]``; `blocks` is a `room`."""
    x, out, blocks, divisor = given
    sums, length, one = each(out, 0, count), columns.length, unknown(1)
    t = 0
    while length >= 8 and t + 4 <= length:  # fewer rows are added in the same order one by one
        part = load(x, item_at(columns, t), count, out)
        part += load(x, item_at(columns, t + 1), count, out)
        part += load(x, item_at(columns, t + 2), count, out)
        part += load(x, item_at(columns, t + 3), count, out)
        sums += part
        t += 4
        if t & 31 == 0:
            add_block(blocks, sums, t & 1023 == 32)
            sums = each(out, 0, count)
            if t & 1023 == 0:
                add_chunk(blocks, 0, t == 1024, count)
    while t < length:
        sums += load(x, item_at(columns, t), count, out)
        t += one
    if length >= 1024:
        add_block(blocks, sums, length & 1023 < 32)
        add_chunk(blocks, 0, False, count)
        sums = load(blocks, 1024, count, out)
    elif length >= 32:
        sums = round_sum(blocks, sums)
    if divisor != 0:
        sums = sums / each(out, divisor, count)
    store(out, place, sums)


total_columns = by_columns()(total)


@shared
def add_at_once(x: Array, out: Array, columns: Columns, t: int, begin: int, place: int, size: int) -> None:
    """Add rows `t` to ``t + 3``, of some columns, to what is there of their block of 32 rows."""
    a, b = item_at(columns, t) + begin, item_at(columns, t + 1) + begin
    c, d = item_at(columns, t + 2) + begin, item_at(columns, t + 3) + begin
    k, some, none = 0, unknown(16), each(out, 0, 16)
    while k < size:
        part = load(x, a + k, 16, out)
        part += load(x, b + k, 16, out)
        part += load(x, c + k, 16, out)
        part += load(x, d + k, 16, out)
        if t & 31 != 0:
            part += load(out, place + k, 16, out)
        else:
            part += none
        store(out, place + k, part)
        k += some


@shared
def add_in_turn(x: Array, out: Array, four: Array, columns: Columns, t: int, begin: int, place: int, size: int) -> None:
    """Add up in the same order of additions, reading row after row; `four` is a `scratch`."""
    some, none = unknown(16), each(out, 0, 16)  # zeros, to which -0.0 is added as in `total`
    a, k = item_at(columns, t) + begin, 0
    while k < size:
        store(four, k, load(x, a + k, 16, out))
        k += some
    for row in range(t + 1, t + 3):
        a, k = item_at(columns, row) + begin, 0
        while k < size:
            store(four, k, load(four, k, 16, out) + load(x, a + k, 16, out))
            k += some
    a, k = item_at(columns, t + 3) + begin, 0
    while k < size:
        part = load(four, k, 16, out) + load(x, a + k, 16, out)
        if t & 31 != 0:
            part += load(out, place + k, 16, out)
        else:
            part += none
        store(out, place + k, part)
        k += some


@shared
def total_by_rows(
    x: Array, out: Array, blocks: Array, four: Array, columns: Columns, place: int, divisor: float, turn: bool
) -> int:
    """Sum the columns that 16 lanes can share, four rows at a time or `in_turn`, as wide ones are best read.

    How many they are.  `blocks` is a `room` and `four` a `scratch`, so many columns are added up at once.
    """
    length, width = columns.length, columns.width
    even = width & -16
    some = unknown(16)
    begin = 0
    while begin < even:
        size = at_most(even - begin, 1024)
        t = 0
        while t + 4 <= length:
            if turn:
                add_in_turn(x, out, four, columns, t, begin, place, size)
            else:
                add_at_once(x, out, columns, t, begin, place, size)
            t += 4
            if t & 31 == 0:
                k = 0
                while k < size:
                    block = load(out, place + k, 16, blocks)
                    if t & 1023 != 32:
                        block += load(blocks, k, 16, blocks)
                    store(blocks, k, block)
                    k += some
                k = 0
                while t & 1023 == 0 and k < size:
                    add_chunk(blocks, k, t == 1024, 16)
                    k += some
        if t & 31 == 0:
            k = 0
            while k < size:
                store(out, place + k, each(out, 0, 16))
                k += some
        while t < length:
            a = item_at(columns, t) + begin
            k = 0
            while k < size:
                store(out, place + k, load(out, place + k, 16, out) + load(x, a + k, 16, out))
                k += some
            t += 1
        k = 0
        while length >= 1024 and k < size:
            part = load(out, place + k, 16, blocks)
            if length & 1023 >= 32:
                part = load(blocks, k, 16, blocks) + part
            store(out, place + k, load(blocks, 1024 + k, 16, blocks) + part)
            k += some
        while length >= 32 and k < size:
            store(out, place + k, load(blocks, k, 16, blocks) + load(out, place + k, 16, blocks))
            k += some
        k = 0
        while divisor != 0 and k < size:
            store(out, place + k, load(out, place + k, 16, out) / each(out, divisor, 16))
            k += some
        place += size
        begin += size
    return even


@in_lanes
def centre(x: Array, wide: Array, columns: Columns, count: int) -> Any:
    """The means of some columns of a sequence: lanes in the dtype of `wide`, a `room`, in which they are added up."""
    sums, length, one = each(wide, 0.0, count), columns.length, unknown(1)
    t = 0
    while t + 4 <= length:
        part = load(x, item_at(columns, t), count, wide)
        part += load(x, item_at(columns, t + 1), count, wide)
        part += load(x, item_at(columns, t + 2), count, wide)
        part += load(x, item_at(columns, t + 3), count, wide)
        sums += part
        t += 4
    while t < length:
        sums += load(x, item_at(columns, t), count, wide)
        t += one
    return sums / each(wide, float(length), count)
