"""Words of Python objects, and lists made by the public C functions.

Each is a plain function with the same meaning, and instructions that compiled code has in its place.
"""

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .code import I64, Builder, Context, Item, Kind, Kinds, Signature, Value, Values
from .moves import means
from .options import part


def peek_byte(address: int) -> int:
    """The byte at a memory address."""
    return ctypes.c_int8.from_address(address).value


def peek(address: int) -> int:
    """The 64-bit integer at a memory address."""
    return ctypes.c_int64.from_address(int(address)).value


def peek_int(address: int) -> int:
    """The C int at a memory address."""
    return ctypes.c_int32.from_address(int(address)).value


def call(function: int, x: int, y: int) -> int:
    """Call the C function at an address, which may use Python objects, with two integers.

    Of a type narrower than a word only its own bits have a meaning.  What goes wrong is 0 or -1, whatever the function
    calls so; then it may have set a Python error, which is to be cleared.
    """
    try:
        words = [ctypes.c_int64] * 3
        return int(ctypes.PYFUNCTYPE(*words)(int(function))(int(x), int(y)))
    except Exception:  # it has been set and is cleared now
        return -1


def give(rows: int, i: int, x: Item, lo: int, hi: int, inside: int) -> int:
    """``rows[i] = x[lo:hi].tolist()``, float64 or int64, for the list at the address `rows`.

    `inside` is where a list object keeps the address of its items.  The result is the address of the new list, 0
    without memory.
    """
    row = x[lo:hi].tolist()
    ctypes.cast(int(rows), ctypes.py_object).value[i] = row
    return id(row)


def give_room(rows: int, i: int, size: int) -> int:
    """Take memory for a new list whose `size` items are still to be given."""
    row = [None] * size
    ctypes.cast(int(rows), ctypes.py_object).value[i] = row
    return id(row)


def _peek(bits: int) -> Any:
    def load(context: Context, builder: Builder, kinds: Kinds, args: Values) -> Any:
        value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
        return builder.sext(value, ir.IntType(64)) if bits < 64 else value

    return load


means(peek, types.int64)(_peek(64))
means(peek_int, types.int64)(_peek(32))
means(peek_byte, types.int64)(_peek(8))


@means(call, types.int64)
def _call(context: Context, builder: Builder, kinds: Kinds, args: Values) -> Any:
    return builder.call(builder.inttoptr(args[0], ir.FunctionType(I64, [I64, I64]).as_pointer()), args[1:])


def _giver(context: Context, builder: Builder, rows: Value, i: Value, size: Value, fill: Value) -> Any:
    """By the public C functions: a new list, which `fill` may fill, and True where that went well."""
    python = context.get_python_api(builder)
    row = python.list_new(size)
    ok = cgutils.alloca_once_value(builder, cgutils.is_not_null(builder, row))
    with builder.if_then(builder.load(ok)):
        fill(python, row, ok)
        python.list_setitem(builder.inttoptr(rows, python.pyobj), i, row)
    with builder.if_then(builder.not_(builder.load(ok)), likely=False):
        python.err_clear()
    return builder.select(builder.load(ok), builder.ptrtoint(row, ir.IntType(64)), ir.Constant(ir.IntType(64), 0))


@intrinsic
def _give(typingctx: Context, rows: Kind, i: Kind, x: Kind, lo: Kind, hi: Kind, inside: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        kind, (rows, i, x, lo, hi, inside) = sig.args[2], args
        size, data = builder.sub(hi, lo), builder.gep(context.make_array(kind)(context, builder, x).data, [lo])

        def fill(python: Value, row: Value, ok: Value) -> None:
            make = python.float_from_double if isinstance(kind.dtype, types.Float) else python.long_from_longlong
            place = builder.gep(builder.bitcast(row, ir.IntType(8).as_pointer()), [inside])
            items = builder.load(builder.bitcast(place, python.pyobj.as_pointer().as_pointer()))
            with cgutils.for_range(builder, size) as loop:
                item = make(builder.load(builder.gep(data, [loop.index])))
                with builder.if_then(cgutils.is_null(builder, item), likely=False):
                    builder.store(cgutils.false_bit, ok)
                    loop.do_break()
                builder.store(item, builder.gep(items, [loop.index]))

        return _giver(context, builder, rows, i, size, fill)

    return types.int64(types.int64, types.int64, x, types.int64, types.int64, types.int64), generate


@intrinsic
def _give_room(typingctx: Context, rows: Kind, i: Kind, size: Kind) -> Any:
    def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
        rows, i, size = args
        return _giver(context, builder, rows, i, size, lambda *_: None)

    return types.int64(types.int64, types.int64, types.int64), generate


@part(give)
def _give_compiled(rows, i, x, lo, hi, inside):
    return lambda rows, i, x, lo, hi, inside: _give(rows, i, x, lo, hi, inside)


@part(give_room)
def _give_room_compiled(rows, i, size):
    return lambda rows, i, size: _give_room(rows, i, size)
