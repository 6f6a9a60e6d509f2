"""What doors are written in: words of memory, functions of CPython by their names, arrays, structures.

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

from ...native.words import (
    COUNT,
    DATA,
    DTYPE,
    INDICES,
    INT64,
    KINDS,
    LENGTHS,
    LENGTHS_OF,
    LONGEST,
    MASKED,
    NDARRAY,
    NEW_ARRAY,
    NONE,
    OFFSETS,
    ORDER,
    PADDED,
    RAGGED,
    RIGHT,
    ROWS,
    SET_BASE,
    SHAPE,
    SIDE,
    SIZES,
    STABLE,
    STRUCTURE,
    STRUCTURED,
    TRUE,
    TUPLE_ITEMS,
    TYPE,
    WIDE,
)
from ..parts import call, peek, peek_byte, peek_int, shared
from ..parts.code import I32, I64, Builder, Context, Kind, Signature, Values

__all__ = ["call", "peek", "peek_byte", "peek_int", "shared"]


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
def _call8(typingctx, function, a, b, c, d, e, f, g, h):
    def generate(context: Context, builder: Builder, signature: Signature, values: Values) -> Any:
        kind = ir.FunctionType(I64, [I64] * 2 + [I32] + [I64] * 3 + [I32, I64]).as_pointer()
        words = list(values[1:])
        words[2], words[6] = builder.trunc(words[2], I32), builder.trunc(words[6], I32)
        return builder.call(builder.inttoptr(values[0], kind), words)

    return _words(9), generate


# --- objects ---------------------------------------------------------------------------------------------------------

TYPE_OF = 8  # bytes from the address of an object to its type
TUPLE_SIZE, ITEMS_IN_LIST = 16, 24
WITH_HASH = 32  # where the items of a tuple begin behind a hash: from Python 3.14 on
ARRAY, AXES, DIMENSIONS, DESCR, FLAGS = 16, 24, 32, 56, 64
DTYPE_FLAGS, ITEM_SIZE = 32, 40  # in a dtype
PLAIN = 0x101  # C-contiguous and aligned
WRITABLE = 0x400
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
def new_array(common: int, descr: int, axes: int, shape: int) -> int:
    """A new array of this dtype, `axes` lengths beginning at `shape`; 0 with an error set."""
    return new_with_data(common, descr, axes, shape, 0, 0)


@shared
def new_with_data(common: int, descr: int, axes: int, shape: int, data: int, flags: int) -> int:
    """The same over items that are there, with these flags."""
    keep(descr)
    return _call8(at(common, NEW_ARRAY), at(common, NDARRAY), descr, axes, shape, 0, data, flags, 0)


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
def is_plain(common: int, array: int) -> bool:
    """Is this an array of NumPy itself, in C order and aligned?"""
    return peek(array + TYPE_OF) == at(common, NDARRAY) and peek_int(array + FLAGS) & PLAIN == PLAIN


@shared
def has_objects(array: int) -> bool:
    """Are the items of an array Python's objects, at least in part?"""
    return peek(peek(array + DESCR) + DTYPE_FLAGS) & 1 == 1


@shared
def has_shape(common: int, shape: int, array: int) -> bool:
    """Has the array the shape that a tuple says?"""
    axes = peek_int(array + AXES)
    if peek(shape + TUPLE_SIZE) != axes:
        return False
    dimensions = peek(array + DIMENSIONS)
    for k in range(axes):
        if number_of(peek(inside(common, shape) + 8 * k)) != at(dimensions, k):
            return False
    return True


# --- structures ------------------------------------------------------------------------------------------------------


@shared
def new_integers(common: int, count: int) -> int:
    """A new array of so many int64, which is to be read through views alone: see `new_view`."""
    shape = stack(2)
    poke(shape, count)
    return new_array(common, at(common, INT64), 1, shape)


@shared
def new_view(common: int, block: int, first: int, count: int) -> int:
    """A read-only view of some integers of a block, which nobody can write to any more; 0 with an error set."""
    shape = stack(3)
    poke(shape, count)
    descr = at(common, INT64)
    keep(descr)
    data = peek(block + ARRAY) + 8 * first
    view = _call8(at(common, NEW_ARRAY), at(common, NDARRAY), descr, 1, shape, 0, data, PLAIN, 0)
    if view == 0:
        return 0
    keep(block)
    call(at(common, SET_BASE), view, block)
    poke_int(block + FLAGS, peek_int(block + FLAGS) & ~WRITABLE)
    return view


@shared
def new_structure(common: int, block: int, n: int, rows: int, longest: int) -> int:
    """A structure of a block of n lengths and, after them, n + 1 offsets; 0 with an error set.

    The block belongs to it from now on.
    """
    lengths = new_view(common, block, 0, n)
    offsets = new_view(common, block, n, n + 1) if lengths else 0
    let_go(block)
    return structure_of(common, lengths, offsets, n, rows, longest)


@shared
def structure_of(common: int, lengths: int, offsets: int, n: int, rows: int, longest: int) -> int:
    """A structure of two views, which belong to it from now on; 0 with an error set, as where one of them is 0."""
    made = new_object(at(common, STRUCTURE), 0) if lengths and offsets else 0
    if made == 0:
        if lengths:
            let_go(lengths)
        if offsets:
            let_go(offsets)
        return 0
    poke(made + at(common, LENGTHS), lengths)
    poke(made + at(common, OFFSETS), offsets)
    counts = stack(12)
    poke(counts, new_number(n))
    poke(counts + 8, new_number(rows))
    poke(counts + 16, new_number(longest))
    poke(made + at(common, COUNT), peek(counts))
    poke(made + at(common, ROWS), peek(counts + 8))
    poke(made + at(common, LONGEST), peek(counts + 16))
    keep(at(common, TRUE))
    poke(made + at(common, STABLE), at(common, TRUE))
    for k in range(3):
        if at(counts, k) == 0:
            let_go(made)
            return 0
    return made


@shared
def new_ragged(common: int, data: int, structure: int) -> int:
    """A `Ragged`, whose array and structure belong to it from now on; 0 with an error set."""
    return new_batch(common, RAGGED, data, structure)


@shared
def new_batch(common: int, kind: int, data: int, structure: int) -> int:
    """An encoding, by its place, of an array and a structure that belong to it from now on; 0 with an error set.

    One by steps is as wide as the longest sequence, and the order of its structure is known.
    """
    about = common + 8 * (KINDS + kind * WIDE)
    made = new_object(at(about, TYPE), 0)
    shape = shape_of(common, data) if made else 0
    if shape == 0:
        if made:
            let_go(made)
        let_go(data)
        let_go(structure)
        return 0
    descr = peek(data + DESCR)
    lengths = peek(structure + at(common, LENGTHS))
    if kind >= PADDED:
        order = peek(structure + at(common, ORDER))
        lengths = peek(inside(common, order))
        share(made + at(about, INDICES), peek(inside(common, order) + 8))
        share(made + at(about, SIZES), peek(inside(common, order) + 16))
    if kind == MASKED:
        share(made + at(about, SIDE), at(common, RIGHT))
    share(made + at(about, LENGTHS_OF), lengths)
    share(made + at(about, DTYPE), descr)
    poke(made + at(about, DATA), data)
    poke(made + at(about, STRUCTURED), structure)
    poke(made + at(about, SHAPE), shape)
    return made


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


@shared
def shape_of(common: int, array: int) -> int:
    """The shape of an array, a new tuple; 0 with an error set."""
    axes, dimensions = peek_int(array + AXES), peek(array + DIMENSIONS)
    made = new_tuple(axes)
    if made == 0:
        return 0
    for k in range(axes):
        number = new_number(at(dimensions, k))
        if number == 0:
            let_go(made)
            return 0
        poke(inside(common, made) + 8 * k, number)
    return made
