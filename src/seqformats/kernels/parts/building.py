"""Kernels as machine code that needs neither Numba nor its objects: functions of one argument, numbers in memory.

Numba infers the types and LLVM makes an object file of the result, position-independent, as linkers take it.
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

from ...native.signature import BODY, Signature, Word
from .code import I64, Builder, Context, Kind
from .options import Part
from .record import RARE, KernelSpec, group, kinds_of, tuples

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
            if made.name == self.symbol:
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


def build(function: Callable[..., Any], signature: Signature, symbol: str) -> bytes:
    """Compile a kernel for arguments of these types into an object file.

    It has a function that others call, under this symbol, and the kernel itself, which only debuggers see, under that
    and `BODY`.
    """
    typing, target = cpu_target.typing_context, cpu_target.target_context
    kinds = tuple(group(function, map(kind_of, signature), types.BaseTuple.from_types))
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
        _write_by_words(target, module, found, symbol, flags.boundscheck)
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
    kinds = list(kinds_of(spec.cpu))
    made = []
    ahead = [dtypes for dtypes in spec.takes or ((),) if spec.rare or RARE.isdisjoint(dtypes)]
    for dtypes in (*ahead, *spec.on_host):
        left = iter(dtypes)
        made.append(tuple([word_of(kind, left) for kind in kinds]))
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


# --- the function for others ------------------------------------------------------------------------------------------


def _write_by_words(context: Context, module: ir.Module, found: Any, name: str, checks: bool) -> None:
    """``kernel(words)``, whose arguments are so many words of 64 bits, one after the other in memory.

    Of an array they are its address and the lengths of its axes, of items that lie side by side; of a named tuple those
    of its fields.  It returns an integer; the parts of a tuple come to the first words.  Where indices are checked, one
    that is out of bounds sets an IndexError of Python.
    """
    descriptor = found.fndesc
    function = ir.Function(module, ir.FunctionType(I64, [I64]), name)
    function.attributes.add("uwtable")  # debuggers find who has called it
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
    status, result = _call(context, builder, found, values)
    if checks:
        with builder.if_then(status.is_error, likely=False):
            _set_error(builder)
    kind = descriptor.restype
    if isinstance(kind, types.BaseTuple):
        for k, part in enumerate(kind.types):
            address = builder.add(function.args[0], I64(8 * k))
            number = _wide(builder, builder.extract_value(result, k), part)
            builder.store(number, builder.inttoptr(address, I64.as_pointer()))
    builder.ret(_wide(builder, result, kind) if isinstance(kind, types.Integer) else I64(0))


def _wide(builder: Builder, number: Any, kind: types.Integer) -> Any:
    """An integer in 64 bits."""
    if kind.bitwidth == 64:
        return number
    return builder.sext(number, I64) if kind.signed else builder.zext(number, I64)


def _set_error(builder: Builder) -> None:
    """Set an IndexError, whether this thread has the GIL or not."""
    module, i32, byte = builder.module, ir.IntType(32), POINTER

    def call(name: str, result: Any, *args: Any) -> Any:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return builder.call(cgutils.get_or_insert_function(module, kind, name), args)

    state = call("PyGILState_Ensure", i32)
    kind = ir.GlobalVariable(module, byte, "PyExc_IndexError")
    text = cgutils.make_bytearray(b"an index is out of bounds in a kernel\0")
    data = builder.bitcast(cgutils.global_constant(builder, "text", text), byte)
    call("PyErr_SetString", ir.VoidType(), builder.load(kind), data)
    call("PyGILState_Release", ir.VoidType(), state)


def _call(context: Context, builder: Builder, found: Any, values: list[Any]) -> Any:
    """The status and the result of a call of the kernel."""
    descriptor = found.fndesc
    kernel = context.call_conv.get_function_type(descriptor.restype, descriptor.argtypes)
    function = cgutils.get_or_insert_function(builder.module, kernel, descriptor.llvm_func_name)
    return context.call_conv.call_function(
        builder, function, descriptor.restype, descriptor.argtypes, values, attrs=("noinline",)
    )
