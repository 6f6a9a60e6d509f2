"""Shared parts of CUDA kernels: intrinsics, search, sums of a block; and how they become code.

Importing it loads the package for CUDA, which `compiler` names, so a kernel's file imports `names` instead: `bind`
puts what is listed in `_NAMES` in their place before a kernel is compiled, and its own shared functions for this
device.  In the simulator, and where there is no such package, the intrinsics are plain functions.
"""

import ctypes
import functools
import math
import sys
import types as python
from collections.abc import Callable
from typing import Any

import numpy as np

from . import compiler
from . import names as stubs
from .code import Builder, Context, Item, Kind, Signature, Value, Values
from .columns import SHARED as OF_COLUMNS
from .common import is_better
from .compiler import inline, missing, simulated
from .device import SHARED
from .keys import KEYS
from .loops import without_counts
from .meeting import SHARED as OF_MEETING
from .moments import SHARED as OF_MOMENTS
from .record import Array

gpu: Any = compiler.gpu
_plain = simulated or bool(missing)
"""Are these plain functions, which nothing compiles?"""


def _search(cum: Array, row: int) -> int:
    """The last i with ``cum[i] <= row``: the sequence that holds a row.  `cum` begins with 0 and ends above `row`."""
    low = np.uint32(0)
    left = np.uint32(cum.size - 1)
    while left > 1:
        half = np.uint32(left >> np.uint32(1))
        if cum[low + half] <= row:
            low = np.uint32(low + half)
        left = np.uint32(left - half)
    return int(low)


def _move_word(out: Item, d: int, src: Array | int, s: int) -> None:
    """``out[d] = src[s]``, one machine word; where `src` is an integer, `s` is the address of the word."""
    if isinstance(src, int):
        ctypes.memmove(out.ctypes.data + int(d) * out.itemsize, int(s), out.itemsize)
    else:
        out[d] = src[s]


def _load_word(out: Item, src: Array | int, s: int) -> Any:
    """The machine word at place `s` of `src`, counted in words of `out`; where `src` is an integer, at address `s`."""
    if isinstance(src, int):
        return np.ndarray(1, out.dtype, (ctypes.c_char * out.itemsize).from_address(int(s)))[0]
    if src.itemsize != out.itemsize:
        return src[s * out.itemsize : (s + 1) * out.itemsize].view(out.dtype)[0]
    return src[s]


def _store_word(out: Item, d: int, word: Item) -> None:
    """``out[d] = word``, in one access."""
    out[d] = word


def _no_word(out: Item) -> Any:
    """A machine word of zeros."""
    return out.dtype.type(0)


def _natural(array: Item) -> Any:
    """Mark an array whose places are natural numbers, see `places`; the memory of a block, say."""
    return array


def _bits_of(value: Item) -> Any:
    """The bits of a float32 as an integer."""
    return int(np.float32(value).view(np.int32))


def _float_of(bits: int) -> Any:
    """The float32 of these bits."""
    return np.int32(bits).view(np.float32)


def _wide(value: Item) -> Any:
    """A float32 as a float64, and other numbers as they are: in what sums of some rows are added up."""
    if isinstance(value, Four):
        return value.astype(np.float64)
    return np.float64(value) if isinstance(value, np.float32) else value


class Four(np.ndarray):
    """Four numbers that are one item, in the simulator; as any number it stays what it is when others are added."""

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        return self + other


def _zero_in(out: Item) -> Any:
    """An item of zero, or zeros."""
    return out.dtype.type(0) if out.dtype.itemsize == out.itemsize else np.zeros(4, out.dtype).view(Four)


def _item_in(out: Item, value: Item) -> Any:
    """An item in the dtype of `out`."""
    return value.astype(out.dtype) if isinstance(value, Four) else out.dtype.type(value)


def _number_in(out: Item, value: Item) -> Any:
    """A number in the dtype of `out`, even where items are four."""
    return out.dtype.type(value)


def _size_of(x: Item) -> int:
    """The bytes of an item, which the compiler knows."""
    return int(x.itemsize)


def _better(best: Item, value: Item, least: int) -> Any:
    """The larger (least) item, and of equal ones `best`; NaN is beyond every number.  Of four each on its own."""
    if isinstance(best, Four):
        first = ((value < best) if least else (value > best)) | ((value != value) & (best == best))
        found: Any = np.where(first, value, best)
        return found.view(Four)
    return value if is_better(value, best, least) else best


def _greater(a: Item, b: Item) -> Any:
    """The larger number, and of NaN and a number the number; of four each on its own."""
    found: Any = np.fmax(a, b)
    return found.view(Four) if isinstance(a, Four) else found


def _quick_exp(value: Item) -> Any:
    """``exp(value)`` of what is at most 1, to be added to others near 1: the smaller it is, the less exact.

    A float32 is divided by the logarithm of 2 and rounded, which makes the power of two wrong by |value| / 2**24 of
    itself, beside the 3 / 2**24 of the instruction.  A sum of n powers, one of them near 1, is wrong by no more than
    (3 + log(n)) / 2**24 of itself, since what is further below than log(n) adds nothing to speak of.
    """
    return np.exp(value)


def _where_above(a: Item, b: Item, x: Item, y: Item) -> Any:
    """`x` where ``a > b``, else `y`; of four each on its own."""
    if isinstance(a, Four):
        found: Any = np.where(a > b, x, y)
        return found.view(Four)
    return x if a > b else y


def _is_above(a: Item, b: Item) -> bool:
    """Tell whether ``a > b``, of four numbers for at least one."""
    return bool(np.any(a > b))


def _intrinsics() -> tuple[Any, ...]:
    """Make the intrinsics as code: they are part of the kernel, and need no GPU to be compiled."""
    from llvmlite import ir

    from .compiler import intrinsic, types
    from .fours import Fours, cast, each_of
    from .places import SHARED as OF_BLOCK
    from .places import Items, address_of

    def memory_word(kind: Kind) -> Any:
        """A pair of 64-bit integers is one 16-byte access, which two fields of a complex number are not."""
        size = kind.dtype.bitwidth // 8
        return ir.VectorType(ir.IntType(64), 2) if size == 16 else ir.IntType(8 * size)

    def place_of_word(context: Context, builder: Builder, kind: Kind, array: Value, place: Value, word: Value) -> Any:
        """Find the address of a word of an array, or of that at an address."""
        if not isinstance(kind, types.Array):
            return builder.inttoptr(place, word.as_pointer(1))  # address space 1 is global memory
        return address_of(context, builder, kind, array, place, word)

    def word_kind(out: Kind) -> Any:
        return types.UniTuple(types.uint64, 2) if out.dtype.bitwidth == 128 else out.dtype

    @intrinsic
    def move_word(typingctx: Context, out: Kind, d: Kind, src: Kind, s: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            word, size = memory_word(sig.args[0]), sig.args[0].dtype.bitwidth // 8
            come = place_of_word(context, builder, sig.args[2], args[2], args[3], word)
            value = builder.load(come, align=size)
            builder.store(value, place_of_word(context, builder, sig.args[0], args[0], args[1], word), align=size)
            return context.get_dummy_value()

        base = src if isinstance(src, types.Array) else types.int64
        return types.void(out, types.int64, base, types.int64), generate

    @intrinsic
    def load_word(typingctx: Context, out: Kind, src: Kind, s: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            word, size = memory_word(sig.args[0]), sig.args[0].dtype.bitwidth // 8
            value = builder.load(place_of_word(context, builder, sig.args[1], args[1], args[2], word), align=size)
            if size != 16:
                return value
            parts = [builder.extract_element(value, ir.Constant(ir.IntType(32), half)) for half in range(2)]
            return context.make_tuple(builder, sig.return_type, parts)

        base = src if isinstance(src, types.Array) else types.int64
        return word_kind(out)(out, base, types.int64), generate

    @intrinsic
    def store_word(typingctx: Context, out: Kind, d: Kind, value: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            word, size = memory_word(sig.args[0]), sig.args[0].dtype.bitwidth // 8
            value = args[2]
            if size == 16:
                pair = ir.Constant(word, ir.Undefined)
                for half in range(2):
                    part = builder.extract_value(value, half)
                    pair = builder.insert_element(pair, part, ir.Constant(ir.IntType(32), half))
                value = pair
            builder.store(value, place_of_word(context, builder, sig.args[0], args[0], args[1], word), align=size)
            return context.get_dummy_value()

        return types.void(out, types.int64, word_kind(out)), generate

    @intrinsic
    def no_word(typingctx: Context, out: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return context.get_constant_null(sig.return_type)

        return word_kind(out)(out), generate

    @intrinsic
    def natural(typingctx: Context, array: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return args[0]

        return Items(array.dtype, 32, OF_BLOCK)(array), generate

    @intrinsic
    def search(typingctx: Context, cum: Kind, row: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return context.compile_internal(builder, _search, sig, args)

        return types.int64(cum, types.int64), generate

    @intrinsic
    def bits_of(typingctx: Context, value: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return builder.sext(builder.bitcast(args[0], ir.IntType(32)), ir.IntType(64))

        return types.int64(types.float32), generate

    @intrinsic
    def float_of(typingctx: Context, bits: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

        return types.float32(types.int64), generate

    def in_kind(context: Context, builder: Builder, value: Value, given: Kind, wanted: Kind) -> Any:
        if isinstance(given, Fours):
            return cast(builder, value, given, wanted)
        return context.cast(builder, value, given, wanted)

    @intrinsic
    def wide(typingctx: Context, value: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return in_kind(context, builder, args[0], sig.args[0], sig.return_type)

        if isinstance(value, Fours):
            return Fours(types.float64)(value), generate
        return (types.float64 if value == types.float32 else value)(value), generate

    @intrinsic
    def zero_in(typingctx: Context, out: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return context.get_constant_null(sig.return_type)

        return out.dtype(out), generate

    @intrinsic
    def item_in(typingctx: Context, out: Kind, value: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return in_kind(context, builder, args[1], sig.args[1], sig.return_type)

        return out.dtype(out, value), generate

    @intrinsic
    def number_in(typingctx: Context, out: Kind, value: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return context.cast(builder, args[1], sig.args[1], sig.return_type)

        return getattr(out.dtype, "kind", out.dtype)(out, value), generate

    @intrinsic
    def size_of(typingctx: Context, x: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            size = context.get_abi_sizeof(context.get_data_type(sig.args[0].dtype))
            return context.get_constant(types.int64, size)

        return types.int64(x), generate

    @intrinsic
    def better(typingctx: Context, best: Kind, value: Kind, least: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            kind, (old, new, flag) = getattr(best, "kind", best), args
            floats = isinstance(kind, types.Float)
            signed = builder.icmp_signed if isinstance(kind, types.Integer) and kind.signed else builder.icmp_unsigned
            compare = builder.fcmp_unordered if floats else signed
            wanted = builder.icmp_signed("!=", flag, flag.type(0))
            beyond = builder.select(wanted, compare("<", new, old), compare(">", new, old))
            if floats:  # or one of them is NaN, and not the old one
                beyond = builder.and_(beyond, builder.fcmp_ordered("ord", old, old))
            return builder.select(beyond, new, old)

        return best(best, best, types.int64), generate

    @intrinsic
    def greater(typingctx: Context, a: Kind, b: Kind) -> Any:
        code, letter = (32, "f") if getattr(a, "kind", a) == types.float32 else (64, "d")

        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            kind = ir.FloatType() if code == 32 else ir.DoubleType()
            code_of = ir.InlineAsm(
                ir.FunctionType(kind, [kind] * 2), f"max.f{code} $0, $1, $2;", f"={letter},{letter},{letter}"
            )
            return each_of(builder, lambda *pair: builder.call(code_of, pair), *args)

        return a(a, a), generate

    @intrinsic
    def quick_exp(typingctx: Context, value: Kind) -> Any:
        kind = getattr(value, "kind", value)

        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            if kind != types.float32:
                return context.get_function(math.exp, sig)(builder, args)
            number = ir.FloatType()
            to_two = ir.InlineAsm(ir.FunctionType(number, [number]), "ex2.approx.ftz.f32 $0, $1;", "=f,f")
            factor = ir.Constant(number, 1 / math.log(2))
            return each_of(builder, lambda x: builder.call(to_two, [builder.fmul(x, factor)]), *args)

        return value(value), generate

    @intrinsic
    def where_above(typingctx: Context, a: Kind, b: Kind, x: Kind, y: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

        return x(a, a, x, x), generate

    @intrinsic
    def is_above(typingctx: Context, a: Kind, b: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            truth = builder.fcmp_ordered(">", *args)
            if not isinstance(a, Fours):
                return truth
            bits = builder.bitcast(truth, ir.IntType(truth.type.count))
            return builder.icmp_unsigned("!=", bits, bits.type(0))

        return types.boolean(a, a), generate

    words = move_word, load_word, store_word, no_word, natural, search, bits_of, float_of
    return words, (wide, zero_in, item_in, number_in, size_of, better, greater, quick_exp, where_above, is_above)


move_word: Any
load_word: Any
store_word: Any
no_word: Any
natural: Any
search: Any
bits_of: Any
float_of: Any
wide: Any
zero_in: Any
item_in: Any
number_in: Any
size_of: Any
better: Any
greater: Any
quick_exp: Any
where_above: Any
is_above: Any
_of_words, _of_items = (
    (
        (_move_word, _load_word, _store_word, _no_word, _natural, _search, _bits_of, _float_of),
        (_wide, _zero_in, _item_in, _number_in, _size_of, _better, _greater, _quick_exp, _where_above, _is_above),
    )
    if _plain
    else _intrinsics()
)
move_word, load_word, store_word, no_word, natural, search, bits_of, float_of = _of_words
wide, zero_in, item_in, number_in, size_of, better, greater, quick_exp, where_above, is_above = _of_items


def _times(a: Item, b: Item) -> Any:
    """The product of two float64, rounded before anything is added: else both would become one operation."""
    return a * b


times: Any = _times if _plain else compiler.libdevice.dmul_rn

# Python's own raise where a GPU gives infinity.
exp, ln, sqrt = (np.exp, np.log, np.sqrt) if _plain else (math.exp, math.log, math.sqrt)

_NAMES = {
    **{name: globals()[name] for name in stubs.__annotations__},
    **SHARED,
    **OF_COLUMNS,
    **OF_MEETING,
    **OF_MOMENTS,
    **KEYS,
}

_HOUSE = __name__.removesuffix("parts.gpu")
_PARTS = sys.modules[__name__.removesuffix(".gpu")]


def bind(function: Callable[..., Any], names: dict[str, Any] | None = None) -> Any:
    """The kernel function, with what is special to CUDA in place of `names`; the function itself stays as it was.

    In a kernel of the house these come before what has the same name for the CPU; a user's own names come before these.
    They are put among its globals, in the cells that a loop of `drivers` closes over, and into a copy of the package of
    parts under the name that it has there.

    Shared functions become part of the kernel: inlined; in the simulator over the globals of the kernel, in which it
    follows the package.
    """
    if names is None:
        own = (function.__module__ or "").startswith(_HOUSE)
        names = dict(_NAMES) if own else {**_NAMES, **function.__globals__}
    for name, value in function.__globals__.items():
        names.setdefault(name, value)

    def here(value: Any) -> Any:
        if getattr(value, "shared", False) is not True:  # `gpu.shared` is something else
            return value
        return bind(value, names) if _plain else _inline(value)

    code = function.__code__ if simulated else without_counts(function)
    parts = next((name for name in code.co_names if function.__globals__.get(name) is _PARTS), "")
    if parts and names[parts] is _PARTS:
        names[parts] = python.ModuleType("parts")
    for name in code.co_names:
        if name != parts and name in names:
            names[name] = here(names[name])
        if parts and hasattr(_PARTS, name) and not hasattr(names[parts], name):
            setattr(names[parts], name, here(_NAMES.get(name, getattr(_PARTS, name))))
    cells = tuple([python.CellType(here(cell.cell_contents)) for cell in function.__closure__ or ()])
    return python.FunctionType(code, names, function.__name__, function.__defaults__, cells)


@functools.cache
def _inline(function: Item) -> Any:
    """The function as a part of every kernel that calls it."""
    return inline(bind(function))
