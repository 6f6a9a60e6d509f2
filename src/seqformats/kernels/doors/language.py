"""What doors are written in: words of memory, and functions of CPython by their names.

Every value is a word of 64 bits: an address or a whole number.  A new object belongs to who has made it; one that is
taken out of another has to be kept by `keep` where it is put into a third.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...native.words import NONE, TUPLE_ITEMS, WHOLE
from ..parts import call, peek, peek_byte, peek_int, shared
from ..parts.code import I32, I64, Builder, Context, Kind, Signature, Values

__all__ = ["call", "peek", "peek_byte", "peek_int", "shared"]


F32, F64 = ir.FloatType(), ir.DoubleType()


def _words(count: int) -> Any:
    return types.int64(*[types.int64] * count)


def _function_of_python(name: str, count: int, gives: bool = True) -> Callable[..., Any]:
    """The function of CPython of this name, for so many words."""

    def made(typingctx: Context, *args: Kind) -> Any:
        def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
            kind = ir.FunctionType(I64 if gives else ir.VoidType(), [I64] * count)
            result = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)
            return result if gives else I64(0)

        return _words(count), generate

    signatures = {
        0: lambda typingctx: made(typingctx),
        1: lambda typingctx, a: made(typingctx, a),
        2: lambda typingctx, a, b: made(typingctx, a, b),
    }
    return intrinsic(signatures[count])


keep = _function_of_python("Py_IncRef", 1, gives=False)
let_go = _function_of_python("Py_DecRef", 1, gives=False)
number_of = _function_of_python("PyLong_AsSsize_t", 1)
new_number = _function_of_python("PyLong_FromSsize_t", 1)
new_tuple = _function_of_python("PyTuple_New", 1)
new_object = _function_of_python("PyType_GenericAlloc", 2)
tuple_of_list = _function_of_python("PyList_AsTuple", 1)
let_others_run = _function_of_python("PyEval_SaveThread", 0)
go_on = _function_of_python("PyEval_RestoreThread", 1, gives=False)
clear_error = _function_of_python("PyErr_Clear", 0, gives=False)
has_failed = _function_of_python("PyErr_Occurred", 0)
out_of_memory = _function_of_python("PyErr_NoMemory", 0)


@intrinsic
def poke(typingctx: Context, address: Kind, word: Kind) -> Any:
    """Write a word."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        builder.store(values[1], builder.inttoptr(values[0], I64.as_pointer()))
        return I64(0)

    return _words(2), generate


@intrinsic
def poke_int(typingctx: Context, address: Kind, word: Kind) -> Any:
    """Write a C int."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        builder.store(builder.trunc(values[1], I32), builder.inttoptr(values[0], I32.as_pointer()))
        return I64(0)

    return _words(2), generate


@intrinsic
def poke_inverse(typingctx: Context, address: Kind, count: Kind, size: Kind) -> Any:
    """Write 1 / count as a float of so many bytes, 4 or 8."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        inverse = builder.fdiv(ir.Constant(F64, 1.0), builder.sitofp(values[1], F64))
        with builder.if_else(builder.icmp_signed("==", values[2], I64(4))) as (single, double):
            with single:
                builder.store(builder.fptrunc(inverse, F32), builder.inttoptr(values[0], F32.as_pointer()))
            with double:
                builder.store(inverse, builder.inttoptr(values[0], F64.as_pointer()))
        return I64(0)

    return _words(3), generate


@intrinsic
def stack(typingctx: Context, which: Kind) -> Any:
    """The address of 64 words that live as long as the call; another one for each place in the code."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(I64, 64))
        return builder.ptrtoint(room, I64)

    return _words(1), generate


@intrinsic
def run(typingctx: Context, function: Kind, words: Kind) -> Any:
    """Call a kernel whose arguments lie at an address."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        kind = ir.FunctionType(I64, [I64]).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), [values[1]])

    return _words(2), generate


@intrinsic
def call_with_three(typingctx, function, a, b, c):
    """`call` with three words."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        kind = ir.FunctionType(I64, [I64] * 3).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), values[1:])

    return _words(4), generate


def _calling(count: int, *ints: int) -> Callable[..., Any]:
    """What calls a function with so many words that lie at an address; some, by their places, are C ints."""

    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        first = builder.inttoptr(values[1], I64.as_pointer())
        words = [builder.load(builder.gep(first, [I64(k)])) for k in range(count)]
        for place in ints:
            words[place] = builder.trunc(words[place], I32)
        kind = ir.FunctionType(I64, [word.type for word in words]).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), words)

    return generate


@intrinsic
def new_from_descr(typingctx, function, words):
    """PyArray_NewFromDescr: with type, dtype, axes, shape, strides, data, flags and an object."""
    return _words(2), _calling(8, 2, 6)


@intrinsic
def empty_strided(typingctx, function, words):
    """aoti_torch_empty_strided: with axes, shape, strides, dtype, device, its number, and a place for the tensor."""
    return _words(2), _calling(7, 3, 4, 5)


# --- objects ---------------------------------------------------------------------------------------------------------

TYPE_OF = 8  # bytes from the address of an object to its type
TUPLE_SIZE, ITEMS_IN_LIST = 16, 24
WITH_HASH = 32  # where the items of a tuple begin behind a hash: from Python 3.14 on
FREE_FROM = 1 << 18  # bytes of work, from which on other threads run meanwhile; see `native.loading.SMALL`


@shared
def at(base: int, place: int) -> int:
    """A word of an array of words."""
    return peek(base + 8 * place)


@shared
def inside(common: int, tuple_: int) -> int:
    """Where the items of a tuple begin."""
    return tuple_ + at(common, TUPLE_ITEMS)


@shared
def is_whole(common: int, given: int, place: int) -> bool:
    """Is an object an int of at most 64 bits?  Then it is written to `place`."""
    if peek(given + TYPE_OF) != at(common, WHOLE):
        return False
    number = number_of(given)
    if number == -1 and has_failed():
        clear_error()
        return False
    poke(place, number)
    return True


@shared
def new_named(common: int, kind: int, count: int) -> int:
    """A new named tuple, whose items are to be put in; 0 with an error set."""
    made = new_object(kind, count)
    if made != 0 and at(common, TUPLE_ITEMS) == WITH_HASH:
        poke(inside(common, made) - 8, -1)  # not known yet
    return made


@shared
def none(common: int) -> int:
    """None, to be returned."""
    keep(at(common, NONE))
    return at(common, NONE)


@shared
def work(function: int, words: int, size: int) -> int:
    """Run a kernel over `size` bytes; other threads run meanwhile, where there are many."""
    if size < FREE_FROM:
        return run(function, words)
    state = let_others_run()
    result = run(function, words)
    go_on(state)
    return result


@shared
def share(slot: int, thing: int) -> int:
    """Put an object that is another's, too, in an empty slot."""
    keep(thing)
    return poke(slot, thing)


@shared
def replace(slot: int, thing: int) -> int:
    """Put an object, which belongs to the slot from now on, in the place of what is there."""
    old = peek(slot)
    poke(slot, thing)
    if old != 0:
        let_go(old)
    return 0
