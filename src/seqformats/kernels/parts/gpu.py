"""What CUDA kernels share: intrinsics, search, sums of a block; and how they become code.

It is the one file of the kernels that names the CUDA package (numba-cuda, which takes over ``numba.cuda``).  Importing
it loads the package but opens no context on a GPU, so a kernel's file imports it for type checkers alone: a kernel for
CUDA finds what is listed in `_NAMES` among its globals, put there before it is compiled, and its own shared functions
for this device.  With NUMBA_ENABLE_CUDASIM=1 the package is a simulator that runs kernels in Python, and the others are
plain functions.
"""

import ctypes
import functools
import importlib
import math
import types as python
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import cuda, types

from ...layout import Layout
from .code import Builder, Context, Item, Kind, Signature, Values
from .common import Columns, along, beyond, item_at, locate
from .options import shared
from .record import Array

gpu: Any = cuda
simulated = not hasattr(gpu, "as_cuda_array")


def _with_all_names() -> None:
    """Import what numba-cuda, up to 0.30, needs `numpy.row_stack` for, another name of `vstack`.

    NumPy 2.5 has it no more, and no kernel could be compiled.
    """
    if simulated or hasattr(np, "row_stack"):
        return
    names: Any = np
    names.row_stack = np.vstack
    try:
        importlib.import_module("numba.cuda.np.arrayobj")
    except ImportError:  # elsewhere in another release
        pass
    finally:
        del names.row_stack


_with_all_names()


def _search(cum: Array, row: int) -> int:
    """The last i with ``cum[i] <= row``: the sequence that holds a row.  `cum` begins with 0 and ends above `row`."""
    low = 0
    high = cum.size - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if cum[middle] <= row:
            low = middle
        else:
            high = middle
    return low


def _move_word(out: Item, d: int, src: Array | int, s: int) -> None:
    """``out[d] = src[s]``, one machine word; where `src` is an integer, `s` is the address of the word."""
    if isinstance(src, int):
        ctypes.memmove(out.ctypes.data + int(d) * out.itemsize, int(s), out.itemsize)
    else:
        out[d] = src[s]


def _bits_of(value: Item) -> Any:
    """The bits of a float32 as an integer."""
    return int(np.float32(value).view(np.int32))


def _float_of(bits: int) -> Any:
    """The float32 of these bits."""
    return np.int32(bits).view(np.float32)


def _wide(value: Item) -> Any:
    """A float32 as a float64, and other numbers as they are: in what sums of some rows are added up."""
    return np.float64(value) if isinstance(value, np.float32) else value


def _intrinsics() -> tuple[Any, Any, Any, Any, Any]:
    """These as code: an intrinsic is part of the kernel, and needs no GPU to be compiled."""
    from llvmlite import ir
    from numba.cuda.extending import intrinsic

    @intrinsic
    def move_word(typingctx: Context, out: Kind, d: Kind, src: Kind, s: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            size = sig.args[0].dtype.bitwidth // 8
            # a pair of 64-bit integers is one 16-byte access, which two fields of a complex number are not
            word = ir.VectorType(ir.IntType(64), 2) if size == 16 else ir.IntType(8 * size)
            to = builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])
            if isinstance(sig.args[2], types.Array):
                come = builder.gep(context.make_array(sig.args[2])(context, builder, args[2]).data, [args[3]])
                come = builder.bitcast(come, word.as_pointer())
            else:
                come = builder.inttoptr(args[3], word.as_pointer(1))  # address space 1 is global memory
            value = builder.load(come, align=size)
            builder.store(value, builder.bitcast(to, word.as_pointer()), align=size)
            return context.get_dummy_value()

        base = src if isinstance(src, types.Array) else types.int64
        return types.void(out, types.int64, base, types.int64), generate

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

    @intrinsic
    def wide(typingctx: Context, value: Kind) -> Any:
        def generate(context: Context, builder: Builder, sig: Signature, args: Values) -> Any:
            return context.cast(builder, args[0], sig.args[0], sig.return_type)

        return (types.float64 if value == types.float32 else value)(value), generate

    return move_word, search, bits_of, float_of, wide


move_word: Any
search: Any
bits_of: Any
float_of: Any
wide: Any
move_word, search, bits_of, float_of, wide = (
    (_move_word, _search, _bits_of, _float_of, _wide) if simulated else _intrinsics()
)


def _find(at: Layout, r: int) -> Any:
    """For the r-th row that is no padding: its sequence, its place in there, and the row of the data where it lies.

    Rows are counted sequence by sequence, or step by step in a time-major layout.
    """
    if at.step == 1:
        i = search(at.cum, r)
        t = r - at.cum[i]
        _, first, _ = locate(at, i)
    else:
        t = search(at.steps, r)
        first = r - at.steps[t]
        i = at.starts[first]
    return i, t, first + along(at, t)


def _tree_sum(parts: Array, place: int) -> None:
    """Add up the parts of each column of threads, in pairs, into its first one; all threads of the block come here."""
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half:
            parts[place] += parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


def _tree_max(parts: Array, place: int) -> None:
    """The same for the largest part."""
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half and beyond(parts[place + half * gpu.blockDim.x], parts[place], 0):
            parts[place] = parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


def _column_max(x: Array, parts: Array, place: int, k: int, columns: Columns) -> Any:
    """The largest item of column k of a sequence, 0 where it is empty; all threads of the block come here.

    The threads of a column share its items; `parts` keeps what each has found, `place` is the thread's own.
    """
    parts[place] = 0
    if columns.length != 0 and k < columns.width:
        parts[place] = x[columns.begin]
        t = gpu.threadIdx.y
        while t < columns.length:
            value = x[item_at(columns, t)]
            if beyond(value, parts[place], 0):
                parts[place] = value
            t += gpu.blockDim.y
    tree_max(parts, place)
    top = parts[gpu.threadIdx.x]
    gpu.syncthreads()  # before the memory is used again
    return top


def _column_powers(x: Array, parts: Array, place: int, k: int, columns: Columns, top: Item) -> Any:
    """The sum of ``exp(item - top)`` over column k of a sequence, in the same way; see `sum_rows` for the order."""
    parts[place] = 0
    total = parts[place]  # zero in the dtype of x
    blocks = wide(total)
    if k < columns.width:
        t = gpu.threadIdx.y
        taken = 0
        while t < columns.length:
            total += exp(x[item_at(columns, t)] - top)
            t += gpu.blockDim.y
            taken += 1
            if taken & 7 == 0:
                blocks += wide(total)
                total = parts[place]
    parts[place] = blocks + wide(total)
    tree_sum(parts, place)
    total = parts[gpu.threadIdx.x]
    gpu.syncthreads()
    return total


def _frame_powers(x: Array, begin: int, width: int, top: Item) -> Any:
    """The sum of ``exp(x[begin:begin + width] - top)``, by 8 and these in float64."""
    none = x.dtype.type(0)
    total = wide(none)
    k = 0
    while k < width:
        few = none
        for j in range(k, min(k + 8, width)):
            few += exp(x[begin + j] - top)
        total += wide(few)
        k += 8
    return x.dtype.type(total)


find: Any = shared(_find)
tree_sum: Any = shared(_tree_sum)
tree_max: Any = shared(_tree_max)
column_max: Any = shared(_column_max)
column_powers: Any = shared(_column_powers)
frame_powers: Any = shared(_frame_powers)

# Python's own raise where a GPU gives infinity.
exp, ln = (np.exp, np.log) if simulated else (math.exp, math.log)

_NAMES = {
    "gpu": gpu,
    "move_word": move_word,
    "search": search,
    "bits_of": bits_of,
    "float_of": float_of,
    "wide": wide,
    "find": find,
    "tree_sum": tree_sum,
    "tree_max": tree_max,
    "column_max": column_max,
    "column_powers": column_powers,
    "frame_powers": frame_powers,
    "exp": exp,
    "ln": ln,
}

_HOUSE = __name__.removesuffix("parts.gpu")


def bound(function: Callable[..., Any], names: dict[str, Any] | None = None) -> Any:
    """The kernel function, with what is special to CUDA among its globals; the function itself stays as it was.

    In a kernel of the house these come before what has the same name for the CPU; a user's own names come before these.

    Shared functions become part of the kernel: inlined, so that they need no GPU to be compiled; in the simulator over
    the globals of the kernel, in which it follows the package.
    """
    if names is None:
        own = (function.__module__ or "").startswith(_HOUSE)
        names = dict(_NAMES) if own else {**_NAMES, **function.__globals__}
    for name, value in function.__globals__.items():
        names.setdefault(name, value)
    for name in function.__code__.co_names:
        if getattr(names.get(name), "shared", False) is True:  # `gpu.shared` is something else
            names[name] = bound(names[name], names) if simulated else _inlined(names[name])
    return python.FunctionType(function.__code__, names, function.__name__, function.__defaults__)


@functools.cache
def _inlined(function: Item) -> Any:
    return gpu.jit(device=True, inline="always")(bound(function))
