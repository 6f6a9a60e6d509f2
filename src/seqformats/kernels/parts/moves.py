"""Bytes and addresses: moves of rows.

Each is a plain function with the same meaning, and instructions that compiled code has in its place.
"""

import ctypes
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import lower_builtin, type_callable

from .code import (
    I32,
    I64,
    Builder,
    Context,
    Item,
    Kind,
    Kinds,
    Signature,
    Value,
    Values,
    call_function,
    call_outlined,
    splat,
)
from .record import Array

Square = tuple[int, int, int, int]


def move(out: Item, d: int, src: Item, s: int, size: int) -> None:
    """Copy `size` bytes from `s` in `src` to `d` in `out`.  Nothing is checked here.

    Each is an address, and then `s` or `d` counts bytes; or a flat array, and then it counts items.
    """
    ctypes.memmove(_place(out, d), _place(src, s), int(size))


def _place(base: Item, at: int) -> int:
    """The address of a place in a flat array, or after an address."""
    return int(base.ctypes.data + at * base.itemsize if isinstance(base, np.ndarray) else base + at)


def peek_byte(address: int) -> int:
    """The byte at a memory address."""
    return ctypes.c_int8.from_address(address).value


def move_row(out: int, d: int, src: int, s: int, size: int) -> None:
    """`move` for one row, often a few bytes only: powers of 2 up to 64 are loads and stores, others a memcpy."""
    move(out, d, src, s, size)


def move_run(out: int, d: int, d_step: int, src: int, s: int, s_step: int, size: int, count: int) -> None:
    """`count` moves of `size` bytes, each `d_step` and `s_step` bytes after the one before.

    Up to 64 bytes are one or two loads and stores, chosen once for all moves.
    """
    for k in range(count):
        move(out, d + k * d_step, src, s + k * s_step, size)


def repeat_words(out: int, src: int, cum: Array, size: int, lo: int, hi: int) -> None:
    """Word u of `src` to the words ``cum[u]`` to ``cum[u + 1]`` of `out`, for u from `lo` to `hi`.

    A word has `size` bytes, which are 1, 2, 4, 8, 16 or 32; `out` and `src` are addresses.
    """
    for u in range(lo, hi):
        for t in range(cum[u], cum[u + 1]):
            move(out, t * size, src, u * size, size)


def move_square(out: int, to: Square, src: int, come: Square, size: int) -> None:
    """Four rows of four words each, transposed: word k of source row j becomes word j of target row k.

    `to` and `come` are the bytes where the rows begin; a word has `size` bytes, which are 1, 2, 4 or 8.
    """
    for j, d in enumerate((0, size, 2 * size, 3 * size)):
        for k, row in enumerate(to):
            move(out, row + d, src, come[j] + k * size, size)


def will_read(address: int) -> None:
    """Tell the memory that the byte there and its neighbours will soon be read; they need not exist."""


def will_write(address: int) -> None:
    """Tell the memory that the byte there and its neighbours will soon be written."""


def clear(out: Item, d: int, size: int) -> None:
    """Set `size` bytes to zero, from `d` in `out` on; see `move`."""
    ctypes.memset(_place(out, d), 0, int(size))


def at_most(value: int, limit: int) -> int:
    """The lesser of two integers: ``min`` for a fraction of what that takes to compile."""
    return min(value, limit)


def at_least(value: int, limit: int) -> int:
    """The larger of two integers; see `at_most`."""
    return max(value, limit)


def _base(kind: Kind) -> Any:
    """Flat bytes, or an address."""
    return kind if isinstance(kind, types.Array) else types.int64


def _address(context: Context, builder: Builder, kind: Kind, base: Value, place: Value) -> Any:
    """A byte pointer to item `place` of a flat array, or to the address `base + place`."""
    byte = ir.IntType(8).as_pointer()
    if isinstance(kind, types.Array):
        return builder.bitcast(builder.gep(context.make_array(kind)(context, builder, base).data, [place]), byte)
    return builder.inttoptr(builder.add(base, place), byte)


_BYTES = 128  # in flight at a time
_LONG = 1024  # bytes of a block that is worth some more care
_LONG_RUN = 256  # of a run of repeated words
_BYTES32 = ir.VectorType(ir.IntType(8), 32).as_pointer()


def _in_vectors(
    builder: Builder, to: Value, size: Value, fill: Callable[[list[Value]], None], few: Callable[[], None]
) -> None:
    """Call `fill` with places of vectors of 32 bytes, until `size` bytes at `to` are done; `few` below 128 of them.

    Blocks of some KB from anywhere are the rule here, and there plain vectors are faster than the C library's choice.
    The memory of an array begins anywhere, and to write across the end of a line of the cache takes twice the time.  So
    all vectors but the first and the last are aligned, in long blocks to lines.
    """

    def block(at: Value) -> None:
        fill([builder.add(at, I64(k)) for k in range(0, _BYTES, 32)])

    step = I64(_BYTES)
    with builder.if_else(builder.icmp_signed("<", size, step)) as (short, long):
        with short:
            few()
        with long:
            last = builder.sub(size, step)
            with builder.if_then(builder.icmp_signed(">", last, I64(0))):
                fill([I64(0)])
                whole = builder.icmp_signed(">", size, I64(_LONG))
                with builder.if_then(whole):
                    fill([I64(32)])
                line = builder.select(whole, I64(63), I64(31))
                begin = builder.and_(builder.neg(builder.ptrtoint(to, I64)), line)
                with cgutils.for_range_slice(builder, begin, last, step, inc=True) as (at, _):
                    block(at)
            block(last)  # of which some may have been done already


def means(function: Item, *result: Any) -> Callable[[Any], Any]:
    """Let compiled code have the decorated generator of instructions in place of a plain function.

    This is what `numba.extending.overload` is for, but that takes a run of the whole compiler for each function that a
    kernel calls.  Numbers become int64; without a `result` there is none.
    """
    parameters = inspect.signature(function)

    def decorate(generate: Item) -> Any:
        @type_callable(function)
        def typing(context: Context) -> Any:
            def typer(*args: Any) -> Any:
                wanted = [x if isinstance(x, (types.Array, types.BaseTuple)) else types.int64 for x in args]
                return signature(result[0] if result else types.void, *wanted)

            typer.pysig = parameters  # type: ignore[attr-defined]
            return typer

        @lower_builtin(function, types.VarArg(types.Any))
        def lower(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            value = generate(context, builder, sig.args, args)
            return value if result else context.get_dummy_value()

        return generate

    return decorate


@means(peek_byte, types.int64)
def _peek_byte(context: Context, builder: Builder, kinds: Kinds, args: Values) -> Any:
    value = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()), align=1)
    return builder.sext(value, ir.IntType(64))


def _move(context: Context, builder: Builder, kinds: Kinds, args: Values, words: tuple[int, ...] = ()) -> None:
    to = _address(context, builder, kinds[0], args[0], args[1])
    come = _address(context, builder, kinds[2], args[2], args[3])
    other, end = (builder.append_basic_block(name) for name in ("other", "end"))
    choice = builder.switch(args[4], other)
    for count in words:
        block = builder.append_basic_block(f"bytes{count}")
        choice.add_case(ir.Constant(args[4].type, count), block)
        builder.position_at_end(block)
        wide = [I64(k) for k in range(0, count, 32)]
        word = _BYTES32 if count >= 32 else ir.IntType(8 * count).as_pointer()
        places = [builder.bitcast(builder.gep(come, [k]), word) for k in wide]
        values = [builder.load(place, align=1) for place in places]
        for k, value in zip(wide, values, strict=True):
            builder.store(value, builder.bitcast(builder.gep(to, [k]), word), align=1)
        builder.branch(end)
    builder.position_at_end(other)
    _copy(builder, to, come, args[4])
    builder.branch(end)
    builder.position_at_end(end)


def _copy(builder: Builder, to: Value, come: Value, size: Value) -> None:
    """Copy `size` bytes between pointers."""

    def fill(places: list[Value]) -> None:
        values = [builder.load(builder.bitcast(builder.gep(come, [k]), _BYTES32), align=1) for k in places]
        for k, value in zip(places, values, strict=True):
            builder.store(value, builder.bitcast(builder.gep(to, [k]), _BYTES32), align=1)

    _in_vectors(builder, to, size, fill, lambda: cgutils.raw_memcpy(builder, to, come, size, 1))


means(move)(_move)
means(move_row)(functools.partial(_move, words=(1, 2, 4, 8, 16, 32, 64)))


def _transpose(builder: Builder, rows: list[Value]) -> list[Any]:
    """Vectors of a square: single lanes change places, then pairs."""
    n = len(rows)
    for b in (1, 2):
        for i in range(n):
            if not i & b:
                x, y = rows[i], rows[i ^ b]
                places = (
                    [n + (k ^ b) if k & b else k for k in range(n)],
                    [n + k if k & b else k ^ b for k in range(n)],
                )
                rows[i], rows[i ^ b] = (
                    builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), n), p)) for p in places
                )
    return rows


def _write_run(
    builder: Builder, to: Value, d_step: Value, come: Value, s_step: Value, size: Value, count: Value
) -> None:
    """The code of `move_run`, the places being pointers."""

    def words(width: int, *at: Any) -> None:
        kind = (ir.VectorType(ir.IntType(8), width) if width > 8 else ir.IntType(8 * width)).as_pointer()
        with cgutils.for_range(builder, count) as loop:
            places = [builder.gep(p, [builder.mul(loop.index, by)]) for p, by in ((to, d_step), (come, s_step))]
            targets, sources = [[builder.bitcast(builder.gep(p, [k]), kind) for k in at] for p in places]
            values = [builder.load(source, align=1) for source in sources]
            for value, target in zip(values, targets, strict=True):
                builder.store(value, target, align=1)
        builder.ret_void()

    for width in (1, 2, 4, 8, 16, 32):
        with builder.if_then(builder.icmp_signed("==", size, I64(width))):
            words(width, I64(0))
    for width in (4, 8, 16, 32):  # the second word ends where the row ends, and may overlap the first
        inside = [builder.icmp_signed(how, size, I64(k)) for how, k in ((">", width), ("<=", 2 * width))]
        with builder.if_then(builder.and_(*inside)):
            words(width, I64(0), builder.sub(size, I64(width)))
    with cgutils.for_range(builder, count) as loop:
        target, place = (builder.gep(p, [builder.mul(loop.index, by)]) for p, by in ((to, d_step), (come, s_step)))
        _copy(builder, target, place, size)


@means(move_run)
def _move_run(context: Context, builder: Builder, kinds: Kinds, args: Values) -> None:
    to, come = (_address(context, builder, kinds[k], args[k], args[k + 1]) for k in (0, 3))
    call_outlined(builder, "move_run", [to, args[2], come, *args[5:]], _write_run)


@means(at_most, types.int64)
def _at_most_compiled(context: Context, builder: Builder, kinds: Kinds, args: Values) -> Any:
    return builder.select(builder.icmp_signed("<", *args), *args)


@means(at_least, types.int64)
def _at_least_compiled(context: Context, builder: Builder, kinds: Kinds, args: Values) -> Any:
    return builder.select(builder.icmp_signed(">", *args), *args)


@means(move_square)
def _move_square(context: Context, builder: Builder, kinds: Kinds, args: Values) -> None:
    to = [_address(context, builder, kinds[0], args[0], d) for d in cgutils.unpack_tuple(builder, args[1])]
    come = [_address(context, builder, kinds[2], args[2], s) for s in cgutils.unpack_tuple(builder, args[3])]
    end = builder.append_basic_block("end")
    choice = builder.switch(args[4], end)
    for count in (1, 2, 4, 8):
        block = builder.append_basic_block(f"bytes{count}")
        choice.add_case(ir.Constant(args[4].type, count), block)
        builder.position_at_end(block)
        vector = ir.VectorType(ir.IntType(8 * count), 4).as_pointer()
        rows = [builder.load(builder.bitcast(p, vector), align=1) for p in come]
        for p, value in zip(to, _transpose(builder, rows), strict=True):
            builder.store(value, builder.bitcast(p, vector), align=1)
        builder.branch(end)
    builder.position_at_end(end)


def _write_repeated(builder: Builder, out: Value, src: Value, cum: Value, size: Value, lo: Value, hi: Value) -> None:
    """The code of `repeat_words`, the places being pointers: loops for each size."""
    for width in (1, 2, 4, 8, 16, 32):
        with builder.if_then(builder.icmp_signed("==", size, I64(width))):
            _write_words(builder, out, src, cum, width, lo, hi)
            builder.ret_void()


def _write_words(builder: Builder, out: Value, src: Value, cum: Value, width: int, lo: Value, hi: Value) -> None:
    """The loops for words of `width` bytes.

    A run is written 64 bytes at a time, and where it ends within these the next one takes its place.  A long run goes
    on along the lines of the cache, if words or halves of them begin there.
    """
    wide = ir.VectorType(ir.IntType(8), 32)
    room = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(wide, 2)), wide.as_pointer())

    def end_of(u: Value) -> Any:
        return builder.gep(out, [builder.mul(builder.load(builder.gep(cum, [u])), I64(width))])

    def put(vector: Value, *places: Any) -> None:
        for place in places:
            builder.store(vector, builder.bitcast(place, wide.as_pointer()), align=1)

    last = end_of(hi)
    place = cgutils.alloca_once_value(builder, end_of(lo))
    with cgutils.for_range_slice(builder, lo, hi, I64(1), inc=True) as (u, _):
        come = builder.gep(src, [builder.mul(u, I64(width))])
        word = builder.load(builder.bitcast(come, ir.IntType(8 * width).as_pointer()), align=1)
        vector = builder.bitcast(splat(builder, word, 32 // width), wide)
        begin, end = builder.load(place), end_of(builder.add(u, I64(1)))
        size = builder.sub(builder.ptrtoint(end, I64), builder.ptrtoint(begin, I64))
        repeated = cgutils.alloca_once_value(builder, vector)
        with builder.if_then(builder.icmp_signed(">=", size, I64(_LONG_RUN))):
            put(vector, begin, builder.gep(begin, [I64(32)]))
            to_line = builder.and_(builder.neg(builder.ptrtoint(begin, I64)), I64(64 - min(width, 16)))
            builder.store(builder.gep(begin, [to_line]), place)
            if width == 32:
                halves = ir.Constant(ir.VectorType(ir.IntType(32), 32), [*range(16, 32), *range(16)])
                turned = builder.shuffle_vector(vector, vector, halves)
                odd = builder.icmp_signed("!=", builder.and_(to_line, I64(16)), I64(0))
                builder.store(builder.select(odd, turned, vector), repeated)
        vector = builder.load(repeated)
        look, more, many, few, done = (builder.append_basic_block() for _ in range(5))
        builder.branch(look)
        builder.position_at_end(look)
        begin = builder.load(place)
        builder.cbranch(builder.icmp_unsigned("<", begin, end), more, done)
        builder.position_at_end(more)
        beyond = builder.gep(begin, [I64(64)])
        builder.cbranch(builder.icmp_unsigned("<=", beyond, last), many, few)
        builder.position_at_end(many)
        put(vector, begin, builder.gep(begin, [I64(32)]))
        builder.store(beyond, place)
        builder.branch(look)
        builder.position_at_end(few)
        put(vector, room, builder.gep(room, [I32(1)]))
        left = builder.sub(builder.ptrtoint(end, I64), builder.ptrtoint(begin, I64))
        cgutils.raw_memcpy(builder, begin, builder.bitcast(room, begin.type), left, 1)
        builder.branch(done)
        builder.position_at_end(done)
        builder.store(end, place)


@means(repeat_words)
def _repeat_words(context: Context, builder: Builder, kinds: Kinds, args: Values) -> None:
    out, src = (_address(context, builder, types.int64, place, I64(0)) for place in args[:2])
    cum = context.make_array(kinds[2])(context, builder, args[2]).data
    call_outlined(builder, "repeat_words", [out, src, cum, *args[3:]], _write_repeated)


def _will(context: Context, builder: Builder, kinds: Kinds, args: Values, write: int) -> None:
    place = _address(context, builder, kinds[0], args[0], args[0].type(0))
    call_function(builder, "llvm.prefetch.p0", ir.VoidType(), place, I32(write), I32(3), I32(1))


means(will_read)(functools.partial(_will, write=0))
means(will_write)(functools.partial(_will, write=1))


@means(clear)
def _clear(context: Context, builder: Builder, kinds: Kinds, args: Values) -> None:
    to = _address(context, builder, kinds[0], args[0], args[1])

    def fill(places: list[Value]) -> None:
        for k in places:
            builder.store(ir.Constant(_BYTES32.pointee, None), builder.bitcast(builder.gep(to, [k]), _BYTES32), align=1)

    _in_vectors(builder, to, args[2], fill, lambda: cgutils.memset(builder, to, args[2], 0))
