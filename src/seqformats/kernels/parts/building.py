"""Kernels as machine code that needs neither Numba nor its objects: a function for C, and one that Python calls.

Numba infers the types and LLVM makes an object file of the result, position-independent, as linkers take it.  Beside
the kernel that holds its *entry*, with the signature of CPython's fast calls, which takes the arguments out of Python's
and NumPy's objects, by the public layout of tuples and arrays and by public functions of CPython.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils, compiler
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.np.arrayobj import populate_array

from ...native.objects import (
    AXES,
    DATA,
    DESCR,
    DIMENSIONS,
    FLAGS,
    KIND,
    SIZE,
    TUPLE_SIZE,
    TUPLE_SUBCLASS,
    TYPE,
)
from ...native.signature import BODY, ENTRY, Signature, Word
from .code import I32, I64, Builder, Context, Kind, Value
from .options import Part
from .record import RARE, KernelSpec, tuples

POINTER = ir.IntType(8).as_pointer()


class _Object(JITCodeLibrary):
    """A library that ends as an object file instead of code in this process."""

    def __init__(self, codegen: Any, symbol: str, body: str) -> None:
        super().__init__(codegen, symbol)
        self.symbol, self.body = symbol, body
        self.made = b""

    def _optimize_final_module(self) -> None:
        """First hide what is not to be called, so that what is not used is left out.

        Numba's names count what a process has compiled; with others the same kernel becomes the same file.
        """
        module = self._final_module
        for number, made in enumerate((*module.functions, *module.global_variables)):
            if made.name in (self.symbol, self.symbol + ENTRY):
                made.linkage = "external"
            elif not made.is_declaration:
                made.name = self.symbol + (BODY if made.name == self.body else f".part.{number}")
                made.linkage = "internal"
        super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        module = self._final_module
        options: dict[str, Any] = {"opt": config.OPT}
        self._codegen._customize_tm_options(options)
        options |= {"reloc": "pic", "codemodel": "default", "jit": False}
        self.made = llvm.Target.from_triple(module.triple).create_target_machine(**options).emit_object(module)
        self._finalized = True


def build(function: Callable[..., Any], signature: Signature, symbol: str, door: bool = False) -> bytes:
    """Compile a kernel for arguments of these types into an object file; or a door, whose arguments are three words.

    Of a kernel there are a function that other machine code calls, under its symbol, the entry, which Python calls,
    under that and `ENTRY`, and the kernel itself, which only debuggers see, under that and `BODY`.  Of a door there is
    but an entry, under its symbol.
    """
    typing, target = cpu_target.typing_context, cpu_target.target_context
    kinds = tuple([kind_of(word) for word in signature])
    flags = compiler.Flags()
    flags.error_model = "numpy"
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.boundscheck = bool(config.BOUNDSCHECK)
    with global_compiler_lock:
        typing.refresh()
        target.refresh()
        found = compiler.compile_extra(typing, target, function, kinds, None, flags, {}, pipeline_class=Part)
        library = _Object(target.codegen(), symbol, found.fndesc.llvm_func_name)
        module = library.create_ir_module(symbol)
        if door:
            _write_door(target, module, found, symbol)
        else:
            _write_entry(target, module, found, symbol + ENTRY)
            _write_by_words(target, module, found, symbol)
        library.add_ir_module(module)
        library.add_linking_library(found.library)
        library.finalize()
    return library.made


def kind_of(word: Word) -> Kind:
    """The type that Numba has for an argument."""
    if isinstance(word, tuple):
        name, *parts = word
        return types.BaseTuple.from_types([kind_of(part) for part in parts], tuples()[name])
    if word in ("i", "d"):
        return types.int64 if word == "i" else types.float64
    dtype, _, axes = word.partition(":")
    return types.Array(getattr(types, _NAMES[dtype]), int(axes or 1), "C")


_NAMES = {
    **{f"{kind}{size}": f"{name}{8 * size}" for kind, name in (("i", "int"), ("u", "uint")) for size in (1, 2, 4, 8)},
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}


def signatures_of(spec: KernelSpec) -> list[Signature]:
    """The types of the arguments of a kernel in each of the ways in which the library often calls it."""
    annotations = {name: kind for name, kind in spec.cpu.__annotations__.items() if name != "return"}
    made = []
    for dtypes in spec.takes or ((),):
        if not (spec.rare or RARE.isdisjoint(dtypes)):
            continue
        left = iter(dtypes)
        made.append(tuple([word_of(kind, left) for kind in annotations.values()]))
        if next(left, None) is not None:
            raise TypeError(f"{spec.cpu.__module__} takes fewer arrays than it says: {dtypes}")
    return made


def word_of(annotation: Any, dtypes: Iterator[str]) -> Word:
    """One argument; `dtypes` are those of the arrays that no annotation tells."""
    name = getattr(annotation, "__forward_arg__", None) or getattr(annotation, "__name__", annotation)
    if name in tuples():
        return (name, *[word_of(kind, dtypes) for kind in tuples()[name].__annotations__.values()])
    known = {"int": "i", "float": "d", "Integers": "i8", "Bytes": "u1", "Singles": "f4", "Table": "i8:2"}
    if name in known:
        return known[name]
    axes = {"Array": "", "Grid": ":2"}[name]
    return next(dtypes) + axes


# --- the entry -------------------------------------------------------------------------------------------------------


class _Entry:
    """Writes the function that Python calls."""

    def __init__(self, context: Context, builder: Builder, world: Value, failed: ir.Block) -> None:
        self.context = context
        self.builder = builder
        self.world = world
        self.failed = failed
        self.bytes: Any = I64(0)
        """In all arrays so far."""

    def word(self, address: Value, offset: int, kind: Any = I64) -> Any:
        """What stands so many bytes behind an address."""
        builder = self.builder
        place = builder.inttoptr(builder.add(address, I64(offset)), kind.as_pointer())
        return builder.load(place)

    def tuple_items(self) -> Any:
        """How far behind the address of a tuple its items begin, which depends on the version of Python."""
        return self.word(self.world, 40)

    def wrong(self, condition: Value) -> None:
        """Refuse the call where this holds."""
        going_on = self.builder.append_basic_block()
        self.builder.cbranch(condition, self.failed, going_on)
        self.builder.position_at_end(going_on)

    def value(self, given: Value, kind: Kind) -> Any:
        """An argument, of the object at an address."""
        builder = self.builder
        if isinstance(kind, types.Array):
            return self.array(given, kind)
        if isinstance(kind, types.BaseTuple):
            flags = self.word(self.word(given, TYPE), FLAGS)
            self.wrong(builder.icmp_signed("==", builder.and_(flags, I64(TUPLE_SUBCLASS)), I64(0)))
            self.wrong(builder.icmp_signed("!=", self.word(given, TUPLE_SIZE), I64(len(kind.types))))
            items = builder.add(given, self.tuple_items())
            parts = [self.value(self.word(items, 8 * k), part) for k, part in enumerate(kind.types)]
            return self.context.make_tuple(builder, kind, parts)
        real = isinstance(kind, types.Float)
        made = _c_function(builder, "PyFloat_AsDouble" if real else "PyLong_AsLongLong", given)
        if real:
            made = builder.bitcast(made, I64)
        odd = builder.icmp_signed("==", made, ir.Constant(I64, -0x4010000000000000 if real else -1))  # -1 in both
        with builder.if_then(odd, likely=False):
            error = _c_function(builder, "PyErr_Occurred")
            self.wrong(builder.icmp_signed("!=", error, I64(0)))
        return builder.bitcast(made, ir.DoubleType()) if real else made

    def array(self, given: Value, kind: types.Array) -> Any:
        """The same for an array of NumPy, whose type and items must be as they were said to be."""
        context, builder = self.context, self.builder
        self.wrong(builder.icmp_signed("!=", self.word(given, TYPE), self.word(self.world, 0)))
        self.wrong(builder.icmp_signed("!=", self.word(given, AXES, I32), I32(kind.ndim)))
        dtype = self.word(given, DESCR)
        letter = {types.Float: "f", types.Complex: "c"}.get(type(kind.dtype)) or ("i" if kind.dtype.signed else "u")
        self.wrong(builder.icmp_signed("!=", self.word(dtype, KIND, ir.IntType(8)), ir.IntType(8)(ord(letter))))
        size = I64(kind.dtype.bitwidth // 8)
        self.wrong(builder.icmp_signed("!=", self.word(dtype, SIZE), size))
        dimensions = self.word(given, DIMENSIONS)
        shape = [self.word(dimensions, 8 * k) for k in range(kind.ndim)]
        strides = [size]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        count = size
        for length in shape:
            count = builder.mul(count, length)
        self.bytes = builder.add(self.bytes, count)
        made = context.make_array(kind)(context, builder)
        item = context.get_data_type(kind.dtype).as_pointer()
        data = builder.inttoptr(self.word(given, DATA), item)
        populate_array(made, data, shape, strides, size, None)
        return made._getvalue()


def _c_function(builder: Builder, name: str, *args: Value) -> Any:
    """A call of CPython; its words are 64 bits wide, but what PyFloat_AsDouble gives."""
    result = ir.DoubleType() if name == "PyFloat_AsDouble" else I64
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [I64] * len(args)), name)
    return builder.call(function, args)


def _write_entry(context: Context, module: ir.Module, found: Any, name: str) -> None:
    """``entry(world, args, count)``, a METH_FASTCALL function whose `self` is an array of int64.

    Its words: the address of ``numpy.ndarray``, from how many bytes of arrays on other threads may run meanwhile, None,
    and what to raise, TypeError and IndexError.
    """
    descriptor = found.fndesc
    entry = ir.Function(module, ir.FunctionType(I64, [I64, I64, I64]), name)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    failed = entry.append_basic_block("failed")
    own, args, count = entry.args
    world = builder.load(builder.inttoptr(builder.add(own, I64(DATA)), I64.as_pointer()))
    writer = _Entry(context, builder, world, failed)
    writer.wrong(builder.icmp_signed("!=", count, I64(len(descriptor.argtypes))))
    values = [writer.value(writer.word(args, 8 * k), kind) for k, kind in enumerate(descriptor.argtypes)]
    apart = builder.icmp_signed(">=", writer.bytes, writer.word(world, 8))
    state = cgutils.alloca_once_value(builder, I64(0))
    with builder.if_then(apart):
        builder.store(_c_function(builder, "PyEval_SaveThread"), state)
    status, result = _call(context, builder, found, values)
    with builder.if_then(apart):
        void = cgutils.get_or_insert_function(module, ir.FunctionType(ir.VoidType(), [I64]), "PyEval_RestoreThread")
        builder.call(void, [builder.load(state)])
    with builder.if_then(status.is_error, likely=False):
        _raise(builder, writer.word(world, 32), "an index is out of bounds in a kernel")
    builder.ret(_returned(context, builder, writer, descriptor.restype, result))

    builder.position_at_end(failed)
    with builder.if_then(builder.icmp_signed("==", _c_function(builder, "PyErr_Occurred"), I64(0))):
        _raise(builder, writer.word(world, 24), "a kernel was given what it was not compiled for")
    builder.ret(I64(0))


def _write_by_words(context: Context, module: ir.Module, found: Any, name: str) -> None:
    """``kernel(words)``, whose arguments are so many words of 64 bits, one after the other in memory.

    Of an array they are its address and how many items it has, which lie side by side; of a named tuple those of its
    fields.
    """
    descriptor = found.fndesc
    function = ir.Function(module, ir.FunctionType(I64, [I64]), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    place = 0

    def word() -> Any:
        nonlocal place
        address = builder.add(function.args[0], I64(8 * place))
        place += 1
        return builder.load(builder.inttoptr(address, I64.as_pointer()))

    def value(kind: Kind) -> Any:
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [value(part) for part in kind.types])
        if not isinstance(kind, types.Array):
            given = word()
            return builder.bitcast(given, ir.DoubleType()) if isinstance(kind, types.Float) else given
        made = context.make_array(kind)(context, builder)
        data, *shape = [word() for _ in range(1 + kind.ndim)]
        strides = [I64(kind.dtype.bitwidth // 8)]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        item = context.get_data_type(kind.dtype).as_pointer()
        populate_array(made, builder.inttoptr(data, item), shape, strides, strides[-1], None)
        return made._getvalue()

    values = [value(kind) for kind in descriptor.argtypes]
    _, result = _call(context, builder, found, values)
    whole = isinstance(descriptor.restype, types.Integer) and descriptor.restype.bitwidth == 64
    builder.ret(result if whole else I64(0))


def _call(context: Context, builder: Builder, found: Any, values: list[Any]) -> Any:
    """The status and the result of a call of the kernel."""
    descriptor = found.fndesc
    kernel = context.call_conv.get_function_type(descriptor.restype, descriptor.argtypes)
    function = cgutils.get_or_insert_function(builder.module, kernel, descriptor.llvm_func_name)
    return context.call_conv.call_function(
        builder, function, descriptor.restype, descriptor.argtypes, values, attrs=("noinline",)
    )


def _write_door(context: Context, module: ir.Module, found: Any, name: str) -> None:
    """``entry(world, args, count)``, a METH_FASTCALL function whose `self` is an array of int64, as of `_write_entry`.

    The door gets the address of the items of that array, and returns the address of an object, or 0 with an error set.
    """
    entry = ir.Function(module, ir.FunctionType(I64, [I64, I64, I64]), name)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    own, args, count = entry.args
    world = builder.load(builder.inttoptr(builder.add(own, I64(DATA)), I64.as_pointer()))
    _, result = _call(context, builder, found, [world, args, count])
    builder.ret(result)


def _raise(builder: Builder, kind: Value, text: str) -> None:
    data = cgutils.global_constant(builder, "text", cgutils.make_bytearray(text.encode() + b"\0"))
    void = ir.FunctionType(ir.VoidType(), [I64, I64])
    function = cgutils.get_or_insert_function(builder.module, void, "PyErr_SetString")
    builder.call(function, [kind, builder.ptrtoint(data, I64)])
    builder.ret(I64(0)) if not builder.block.is_terminated else None


def _returned(
    context: Context, builder: Builder, writer: _Entry, kind: Kind, result: Value, begun: tuple[Value, ...] = ()
) -> Any:
    """A result as an object: None, a whole number, or a tuple of these.

    `begun` are the tuples that it is for, which are let go where there is no memory.
    """
    if not isinstance(kind, (types.BaseTuple, types.Integer)):
        none = writer.word(writer.world, 16)
        _of_object(builder, "Py_IncRef", none)
        return none
    if isinstance(kind, types.BaseTuple):
        made = _c_function(builder, "PyTuple_New", I64(len(kind.types)))
    else:
        wide = builder.sext(result, I64) if kind.bitwidth < 64 else result
        made = _c_function(builder, "PyLong_FromLongLong", wide)
    with builder.if_then(builder.icmp_signed("==", made, I64(0)), likely=False):
        for one in begun:
            _of_object(builder, "Py_DecRef", one)
        builder.branch(writer.failed)
    if isinstance(kind, types.BaseTuple):
        for k, part in enumerate(kind.types):
            item = _returned(context, builder, writer, part, builder.extract_value(result, k), (*begun, made))
            place = builder.add(builder.add(made, writer.tuple_items()), I64(8 * k))
            builder.store(item, builder.inttoptr(place, I64.as_pointer()))
    return made


def _of_object(builder: Builder, name: str, thing: Value) -> None:
    """A call of CPython that counts a reference."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [I64]), name)
    builder.call(function, [thing])
