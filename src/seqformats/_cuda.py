"""The one file that names the CUDA package (numba-cuda, which takes over ``numba.cuda``).

It holds what every CUDA kernel shares, starts kernels, and handles Numba's device arrays.  Importing it loads the
package but opens no context on a GPU.

A kernel for CUDA finds names among its globals that are put there before it is compiled: `gpu`, the package, what is
listed in `_NAMES`, and its own shared functions for this device.  With
NUMBA_ENABLE_CUDASIM=1 the package is a simulator that runs kernels in Python, and the others are plain functions.
"""

import ctypes
import functools
import importlib
import math
import types as python
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from . import registry
from ._kernel import along, beyond, locate, shared
from ._launch import Work
from .arrays import Array, Library, Shape, device_name, size_of
from .errors import DeviceError, said

gpu: Any = cuda
simulated = not hasattr(gpu, "as_cuda_array")


def _with_all_names() -> None:
    """Import what numba-cuda, up to 0.30, needs `numpy.row_stack` for, another name of `vstack`: NumPy 2.5 has it no
    more, and no kernel could be compiled."""
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

# Threads of a block, and how many of them lie side by side in a row.  The simulator takes 0.07 ms a thread.
_THREADS, _ACROSS = (16, 4) if simulated else (256, 128)
# Kernels over sequences have shared memory for 128; the order of sums depends on the number.
_SUM_THREADS, _SUM_ACROSS = (16, 4) if simulated else (128, 128)
# Kernels loop over what the grid does not cover.
_MOST_BLOCKS = 4 if simulated else 1 << 16
_MOST_RUNS = 4 if simulated else 65535
# Numba warns of every grid with fewer blocks than this; blocks without work end at once.
_LEAST_BLOCKS = 1 if simulated else 128

# A machine word of so many bytes.  There is no 16-byte integer, so complex128 stands for one.
WORDS: dict[int, Any] = {1 << k: np.dtype(code) for k, code in enumerate(("u1", "u2", "u4", "u8", "c16"))}
_BYTE = WORDS[1]

# --- what kernels share ----------------------------------------------------------------------------------------------


def _search(cum: Any, row: int) -> int:
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


def _move_word(out: Any, d: int, src: Any, s: int) -> None:
    """``out[d] = src[s]``, one machine word; where `src` is an integer, `s` is the address of the word."""
    if isinstance(src, int):
        ctypes.memmove(out.ctypes.data + int(d) * out.itemsize, int(s), out.itemsize)
    else:
        out[d] = src[s]


def _bits_of(value: Any) -> Any:
    """The bits of a float32 as an integer."""
    return int(np.float32(value).view(np.int32))


def _float_of(bits: int) -> Any:
    """The float32 of these bits."""
    return np.int32(bits).view(np.float32)


def _wide(value: Any) -> Any:
    """A float32 as a float64, and other numbers as they are: in what sums of some rows are added up."""
    return np.float64(value) if isinstance(value, np.float32) else value


def _intrinsics() -> tuple[Any, Any, Any, Any, Any]:
    """These as code: an intrinsic is part of the kernel, and needs no GPU to be compiled."""
    from llvmlite import ir
    from numba.cuda.extending import intrinsic

    @intrinsic
    def move_word(typingctx: Any, out: Any, d: Any, src: Any, s: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
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
    def search(typingctx: Any, cum: Any, row: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return context.compile_internal(builder, _search, sig, args)

        return types.int64(cum, types.int64), generate

    @intrinsic
    def bits_of(typingctx: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
            return builder.sext(builder.bitcast(args[0], ir.IntType(32)), ir.IntType(64))

        return types.int64(types.float32), generate

    @intrinsic
    def float_of(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:  # noqa: ARG001
            return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

        return types.float32(types.int64), generate

    @intrinsic
    def wide(typingctx: Any, value: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
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


def _find(starts: Any, cum: Any, steps: Any, r: int, stride: int, left: int, step: int) -> Any:
    """For the r-th row that is no padding: its sequence, its place in there, and the row of the data where it lies.

    Rows are counted sequence by sequence, or step by step in a time-major layout; see `locate` for the arguments.
    """
    if step == 1:
        i = search(cum, r)
        t = r - cum[i]
        _, first, _ = locate(starts, cum, i, stride, left, step)
    else:
        t = search(steps, r)
        first = r - steps[t]
        i = starts[first]
    return i, t, first + along(t, steps, step)


def _tree_sum(parts: Any, place: int) -> None:
    """Add up the parts of each column of threads, in pairs, into its first one; all threads of the block come here."""
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half:
            parts[place] += parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


def _tree_max(parts: Any, place: int) -> None:
    """The same for the largest part."""
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half and beyond(parts[place + half * gpu.blockDim.x], parts[place], 0):
            parts[place] = parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


def _column_max(
    x: Any, parts: Any, place: int, k: int, first: int, length: int, steps: Any, width: int, step: int
) -> Any:
    """The largest item of column k of a sequence, 0 where it is empty; all threads of the block come here.

    The threads of a column share its items; `parts` is the room for what each has found, `place` the thread's own.
    """
    parts[place] = 0
    if length != 0 and k < width:
        parts[place] = x[first * width + k]
        t = gpu.threadIdx.y
        while t < length:
            value = x[(first + along(t, steps, step)) * width + k]
            if beyond(value, parts[place], 0):
                parts[place] = value
            t += gpu.blockDim.y
    tree_max(parts, place)
    top = parts[gpu.threadIdx.x]
    gpu.syncthreads()  # before the room is used again
    return top


def _column_powers(
    x: Any, parts: Any, place: int, k: int, first: int, length: int, steps: Any, width: int, step: int, top: Any
) -> Any:
    """The sum of ``exp(item - top)`` over column k of a sequence, in the same way; see `sum_rows` for the order."""
    parts[place] = 0
    total = parts[place]  # zero in the dtype of x
    blocks = wide(total)
    if k < width:
        t = gpu.threadIdx.y
        taken = 0
        while t < length:
            total += exp(x[(first + along(t, steps, step)) * width + k] - top)
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


find: Any = shared(_find)
tree_sum: Any = shared(_tree_sum)
tree_max: Any = shared(_tree_max)
column_max: Any = shared(_column_max)
column_powers: Any = shared(_column_powers)

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
    "exp": exp,
    "ln": ln,
}


def bound(function: Callable[..., Any], names: dict[str, Any] | None = None) -> Any:
    """The kernel function, with what is special to CUDA among its globals; the function itself stays as it was.

    Shared functions become part of the kernel: inlined, so that they need no GPU to be compiled; in the simulator over
    the globals of the kernel, in which it follows the package.
    """
    names = dict(_NAMES) if names is None else names
    for name, value in function.__globals__.items():
        names.setdefault(name, value)
    for name in function.__code__.co_names:
        if getattr(names.get(name), "shared", False) is True:  # `gpu.shared` is something else
            names[name] = bound(names[name], names) if simulated else _inlined(names[name])
    return python.FunctionType(function.__code__, names, function.__name__, function.__defaults__)


@functools.cache
def _inlined(function: Any) -> Any:
    return gpu.jit(device=True, inline="always")(bound(function))


def compiled(function: Callable[..., Any]) -> Any:
    """The kernel, compiled for the types and the GPU of each first call."""
    return gpu.jit(bound(function))


def devices() -> list[str]:
    """The names of the GPUs; none where there is no driver."""
    try:
        names = [getattr(device, "name", "simulator") for device in gpu.gpus]
    except Exception:  # whatever a package without a driver raises
        return []
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


# --- starting a kernel -----------------------------------------------------------------------------------------------


class _Copy(NamedTuple):
    """A structure array on a device."""

    host: Array  # what was copied; while it lives, its address means it
    array: Any  # int64, for kernels
    buffer: Array  # what keeps the memory, an array of the caller's library
    event: Any  # comes when the copy is there
    pointer: int  # the stream that copied it


class _Start:
    """One start of a kernel: the stream it goes to, and host arrays brought there first."""

    def __init__(self, library: Library, like: Array, structure: Any) -> None:
        self.library, self.like, self.structure = library, like, structure
        self.pointer = library.stream(like)
        self.stream = _stream(_index(library, like), self.pointer)

    def view(self, x: Array, size: int, dtype: Any, offset: int = 0) -> Any:
        """`size` items of another dtype in the memory of `x`, from byte `offset` on, as kernels take them."""
        if simulated:
            return x.reshape(-1).view(_BYTE)[offset : offset + size * dtype.itemsize].view(dtype)
        return gpu.as_cuda_array(_Memory(x, self.library.address(x) + offset, size, dtype), sync=False)

    def typed(self, x: Array) -> Any:
        """All items of an array, flat, in a dtype that kernels calculate with."""
        dtype, parts = _real(self.library.dtype_name(x.dtype))
        return self.view(x, size_of(x.shape) * parts, dtype)

    def uploaded(self, arrays: Sequence[Array], item: Array | None = None) -> tuple[list[Any], Array | None]:
        """Arrays of the host on the device, and a buffer that begins with `item`, bytes.

        What is missing goes up in one copy.  Arrays of the structure stay there, the others live as long as the call.
        """
        copies, own = self.resident()
        missing: dict[int, Array] = {}
        for array in arrays:
            if not array.size:
                continue
            address = array.ctypes.data
            # an array of the structure goes up whole, where this may be only its beginning
            whole: Any = own.get(address, array)
            if address not in copies and (address not in missing or whole.size > missing[address].size):
                missing[address] = whole
        parts: list[Array] = [*([] if item is None else [item]), *missing.values()]
        offsets, packed = _packed(parts)
        buffer: Any = self.library.upload(packed, self.like) if parts else None
        event: Any = None
        ready: dict[int, Any] = {}
        for (address, array), offset in zip(missing.items(), offsets[len(parts) - len(missing) :], strict=True):
            ready[address] = self.view(buffer, array.size, array.dtype, offset)
            if address in own:
                if event is None:
                    event = _event()
                    event.record(self.stream)
                copies[address] = _Copy(array, ready[address], buffer, event, self.pointer)
        found = []
        for array in arrays:
            if not array.size:
                found.append(self.view(self.like, 0, array.dtype))
                continue
            address = array.ctypes.data
            if address not in ready:
                ready[address] = self.met(copies[address])
            there = ready[address]
            found.append(there if there.size == array.size else there[: array.size])
        return found, buffer

    def resident(self) -> tuple[dict[int, _Copy], dict[int, Array]]:
        """What the structure has on this device already, and what it may have there, by address on the host."""
        structure = self.structure
        if structure is None:
            return {}, {}
        key = (self.library.name, self.library.device(self.like), self.pointer if self.library.stream_bound else None)
        own = [structure.offsets]
        if structure._order is not None:
            own += [structure._order.indices, structure._order.steps]
        return structure.device.setdefault(key, {}), {array.ctypes.data: array for array in own if array.size}

    def met(self, copy: _Copy) -> Any:
        """A copy that an earlier call has made, safe to use on this call's stream."""
        if copy.pointer != self.pointer or self.library.stream_bound:
            copy.event.wait(self.stream)
            self.library.share(copy.buffer, self.like)
        return copy.array


@functools.lru_cache(maxsize=128)
def _stream(index: int, pointer: int) -> Any:  # noqa: ARG001  a handle belongs to a device
    return 0 if simulated else gpu.external_stream(pointer)


def _event() -> Any:
    return gpu.event() if simulated else gpu.event(timing=False)


class _Memory:
    """Memory of any array library, as the CUDA array interface shows it."""

    def __init__(self, owner: Array, address: int, size: int, dtype: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "strides": None,
            "typestr": dtype.str,
            "data": (address, False),
            "version": 2,
        }


def sent(library: Library, arrays: Sequence[Array], like: Array) -> list[Array]:
    """Arrays of the host beside `like`, after one copy."""
    offsets, packed = _packed(arrays)
    if not packed.size:
        return [library.empty(array.shape, library.dtype(array.dtype.name), like) for array in arrays]
    buffer = library.upload(packed, like)
    dtypes = [library.dtype(array.dtype.name) for array in arrays]
    parts = zip(arrays, offsets, dtypes, strict=True)
    return [buffer[offset : offset + array.nbytes].view(dtype) for array, offset, dtype in parts]


def _packed(parts: Sequence[Array]) -> tuple[list[int], Array]:
    """Where each array begins, at a multiple of 16 bytes, and all of them one after the other as bytes."""
    offsets, end = [], 0
    for part in parts:
        offsets.append(end)
        end += -(-part.nbytes // 16) * 16
    packed = np.zeros(end, np.uint8)
    for part, offset in zip(parts, offsets, strict=True):
        packed[offset : offset + part.nbytes] = part.view(np.uint8)
    return offsets, packed


def _index(library: Library, x: Array) -> int:
    return int(library.device(x).partition(":")[2] or 0)


def launch(
    kernel: Any,
    library: Library,
    src: Array | tuple[Array, ...],
    out: Array,
    arrays: tuple[Array, ...],
    numbers: tuple[int, ...],
    work: Work,
    structure: Any,
) -> None:
    """Start a kernel that moves rows, on the current stream of the array's library; nothing waits for it.

    `src` is an array beside `out`, a padding item in bytes on the host, or the arrays at the addresses ``arrays[0]``.
    """
    if work.rows == 0 or work.row == 0:
        return
    with gpu.gpus[_index(library, out)]:
        start = _Start(library, out, structure)
        item = None
        if type(src) is np.ndarray:
            if src.any():
                item = src
            else:
                src = library.zeros((work.row // library.itemsize(out.dtype),), out.dtype, out)
        found, buffer = start.uploaded(arrays, item)
        if item is not None:
            src = buffer
        # the widest access that fits the rows and every address
        bits = 16 | work.row | library.address(out)
        if type(src) is tuple:
            bits |= int(np.bitwise_or.reduce(arrays[0]))
        else:
            bits |= library.address(src)
        word = WORDS[bits & -bits]
        row = work.row // word.itemsize
        source = 0 if type(src) is tuple else start.view(src, _bytes(library, src) // word.itemsize, word)
        target = start.view(out, _bytes(library, out) // word.itemsize, word)
        args = (source, target, *found, *map(int, numbers), row)
        if kernel.over == "runs":
            grid, block = _blocks(int(-(-work.rows // work.units)), row, work.units)
            args = (*args, work.units)
        else:
            grid, block = _blocks(int(work.rows), row)
        kernel.compiled[grid, block, start.stream](*args)


def launch_arithmetic(
    kernel: Any,
    library: Library,
    inputs: tuple[Array, ...],
    outputs: tuple[Array, ...],
    arrays: tuple[Array, ...],
    numbers: tuple[int, ...],
    work: Work,
    structure: Any,
) -> None:
    """Start a kernel that calculates, on the current stream of the array's library; ``numbers[0]`` is the width.

    Complex numbers are pairs of floats, so the kernels see real numbers only.  Inputs may be on the host, and `arrays`
    on the device; each may be a named tuple of arrays and whole numbers.
    """
    if work.units == 0 or numbers[0] == 0:
        return
    results = _arrays_in(outputs)
    out = results[0]
    with gpu.gpus[_index(library, out)]:
        start = _Start(library, out, structure)
        given = _arrays_in((*inputs, *arrays))
        host = iter(start.uploaded([x for x in given if type(x) is np.ndarray])[0])
        views = iter([next(host) if type(x) is np.ndarray else start.typed(library.aligned(x)) for x in given])
        args = [_with_arrays(x, views) for x in (*inputs, *arrays)]
        targets = iter([start.typed(x) for x in results])
        args[len(inputs) : len(inputs)] = [_with_arrays(x, targets) for x in outputs]
        width = numbers[0] * _real(library.dtype_name(out.dtype))[1]
        grid: tuple[int, int]
        block: tuple[int, int]
        if kernel.over == "blocks":
            grid, block = (_between(work.units), 1), (_SUM_ACROSS, 1)
        elif kernel.over == "sequences":
            across = _power(width, _SUM_ACROSS)
            grid = (_between(work.units), min(-(-width // across), _MOST_RUNS))
            block = (across, _SUM_THREADS // across)
        else:
            grid, block = _blocks(int(work.rows if kernel.over == "rows" else work.units), width)
        kernel.compiled[grid, block, start.stream](*args, width, *numbers[1:])


def _arrays_in(args: Sequence[Any]) -> list[Array]:
    """The arrays among arguments, those of named tuples too."""
    return [x for arg in args for x in (arg if isinstance(arg, tuple) else (arg,)) if not isinstance(x, int)]


def _with_arrays(arg: Any, arrays: Iterator[Any]) -> Any:
    """An argument with other arrays, of which it takes as many as it has."""
    if isinstance(arg, tuple):
        kind: Any = type(arg)
        return kind(*[x if isinstance(x, int) else next(arrays) for x in arg])
    return arg if isinstance(arg, int) else next(arrays)


def _real(name: str) -> tuple[Any, int]:
    """The dtype in which items are calculated with, and how many of it an item has."""
    if name == "bool":
        return np.dtype("u1"), 1
    if name.startswith("complex"):
        return np.dtype(f"f{int(name[7:]) // 16}"), 2
    return np.dtype(name), 1


def _bytes(library: Library, x: Array) -> int:
    return library.itemsize(x.dtype) * size_of(x.shape)


def _power(size: int, most: int) -> int:
    """The least power of two that is not below `size`, but at most `most`."""
    return min(1 << (size - 1).bit_length(), most)


def _between(blocks: int, least: int = _LEAST_BLOCKS) -> int:
    return max(min(blocks, _MOST_BLOCKS), least)


def _blocks(rows: int, row: int, runs: int = 1) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block: along x threads for the words of a row, along y for rows; the grid's y for `runs` of rows."""
    across = _power(row, _ACROSS)
    down = min(_THREADS // across, _power(rows, _THREADS))
    runs = min(runs, _MOST_RUNS)
    return (_between(-(-rows // down), -(-_LEAST_BLOCKS // runs)), runs), (across, down)


# --- Numba's device arrays -------------------------------------------------------------------------------------------
# They can be allocated, copied and sliced; what else an array library offers is made of kernels here.


def at(device: Any) -> int:
    """The number of a device from its name, "cuda" or "cuda:1"; DeviceError where there is none."""
    kind, _, number = device_name(device).partition(":")
    if kind != "cuda" or not (number.isdecimal() or not number):
        raise DeviceError(f'there is no device {said(device)}; NumPy arrays go to "cuda" or "cuda:0" and back to "cpu"')
    try:
        count = len(gpu.gpus)
    except Exception as error:  # whatever a package without a driver raises
        raise DeviceError(f"no GPU can be used: {str(error).strip()}") from None
    index = int(number) if number else _current()
    if index >= count:
        raise DeviceError(f"there is no device {said(device)}; GPUs here: {count}")
    return index


def _current() -> int:
    return int(gpu.current_context().device.id) if not simulated else 0


def index_of(x: Array) -> int:
    """The number of the device where a Numba array lies."""
    return 0 if simulated else int(x.gpu_data.context.device.id)


def address_of(x: Array) -> int:
    """Where a Numba array begins."""
    return int(x.ctypes.data if simulated else x.device_ctypes_pointer.value or 0)


def allocate(shape: Shape, dtype: Any, index: int, zeros: bool = False) -> Array:
    """A new Numba array, of zeros or undefined."""
    shape = tuple(map(int, shape))
    with gpu.gpus[index]:
        if not simulated:
            array = gpu.device_array(shape, dtype)
            if zeros and array.size:
                array.gpu_data.memset(0, stream=gpu.default_stream())
            return array
        return gpu.to_device(np.zeros(shape, dtype)) if zeros else gpu.device_array(shape, dtype)


def from_host(x: Array, index: int) -> Array:
    """A NumPy array as a Numba array."""
    if x.nbytes == 0:
        return allocate(x.shape, x.dtype, index)
    with gpu.gpus[index]:
        flat = gpu.to_device(np.ascontiguousarray(x).reshape(-1).view(np.uint8))
        return flat.view(x.dtype).reshape(x.shape)


def to_host(x: Array) -> Array:
    """A Numba array as a NumPy array; waits for it."""
    if size_of(x.shape) == 0 or x.dtype.itemsize == 0:
        return np.empty(x.shape, x.dtype)
    with gpu.gpus[index_of(x)]:
        if not x.is_c_contiguous():
            return np.ascontiguousarray(x.copy_to_host())
        return x.reshape(-1).view(_BYTE).copy_to_host().view(x.dtype).reshape(tuple(x.shape))


_pinned: dict[int, list[tuple[Any, Array]]] = {}


def upload(packed: Array, index: int) -> Array:
    """Bytes on the device, without waiting: through page-locked memory, used again when its last copy is done."""
    with gpu.gpus[index]:
        if simulated:
            return gpu.to_device(packed)
        stream = gpu.default_stream()
        rooms = _pinned.setdefault(index, [])
        event: Any = None
        room: Any = None
        for _ in range(len(rooms)):
            try:
                event, room = rooms.pop(0)
            except IndexError:  # another thread took it
                break
            if room.size >= packed.size and event.query():
                break
            rooms.append((event, room))
            event, room = None, None
        if room is None:
            event, room = _event(), gpu.pinned_array(max(packed.size, 1 << 16), np.uint8)
        room[: packed.size] = packed
        out = gpu.device_array(packed.size, np.uint8)
        out.copy_to_device(room[: packed.size], stream=stream)
        event.record(stream)
        rooms.append((event, room))
        return out


def foreign(x: Array) -> Array:
    """An array that shows the CUDA array interface, as a Numba array over the same memory."""
    place = x.__dlpack_device__()[1] if hasattr(x, "__dlpack_device__") else _current()
    with gpu.gpus[place]:
        array = gpu.as_cuda_array(x, sync=False)
        if array.stream:  # whoever wrote it did so there; Numba's own stream goes on after that
            event = _event()
            event.record(array.stream)
            event.wait(gpu.default_stream())
        return array.bind(0)


def take(library: Library, x: Array, index: Array, axis: int) -> Array:
    """A new array: `index` (host, int64) picks along `axis`."""
    outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
    out = library.empty((*x.shape[:axis], index.size, *x.shape[axis + 1 :]), x.dtype, x)
    starts = (np.arange(outer)[:, None] * x.shape[axis] + index).reshape(-1)
    _copy(library, x, out, starts, np.arange(starts.size + 1), inner)
    return out


def gather(library: Library, x: Array, index: Array, out: Array) -> Array:
    """``out[:] = x[index]``, rows (host, int64)."""
    _copy(library, x, out, index, np.arange(index.size + 1), size_of(x.shape[1:]))
    return out


def concatenate(library: Library, arrays: Sequence[Array]) -> Array:
    """One new array of all rows."""
    first = arrays[0]
    cum = np.cumsum([0, *[a.shape[0] for a in arrays]])
    out = library.empty((int(cum[-1]), *first.shape[1:]), first.dtype, first)
    _copy(library, tuple(arrays), out, library.addresses(arrays), cum, size_of(first.shape[1:]))
    return out


def _copy(library: Library, src: Array | tuple[Array, ...], out: Array, starts: Array, cum: Array, inner: int) -> None:
    work = Work(starts.size, int(cum[-1]), inner * out.dtype.itemsize)
    kernel: Any = registry.kernel("copy_blocks", "cuda")
    launch(kernel, library, src, out, (starts, cum, cum), (-1, 0, int(type(src) is tuple), -1, 0), work, None)


def _cast_items(x: Any, out: Any) -> None:
    """``out[i] = x[i]``, in the dtype of `out`."""
    i = gpu.blockIdx.x * gpu.blockDim.x + gpu.threadIdx.x
    while i < out.size:
        out[i] = x[i]
        i += gpu.gridDim.x * gpu.blockDim.x


_cast = gpu.jit(_cast_items)
# What the package's kernels can read and write; other dtypes change on the host.
CASTS = frozenset(("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))


def cast(library: Library, x: Array, dtype: Any) -> Array:
    """A new array in another dtype."""
    if not {x.dtype.str[1:], dtype.str[1:]} <= CASTS or not x.dtype.isnative:
        return from_host(to_host(x).astype(dtype), index_of(x))
    out = library.empty(tuple(x.shape), dtype, x)
    size = size_of(x.shape)
    if size:
        with gpu.gpus[index_of(x)]:
            start = _Start(library, out, None)
            threads = min(size, _THREADS)
            args = start.view(x, size, x.dtype), start.view(out, size, dtype)
            _cast[_between(-(-size // threads)), threads, start.stream](*args)
    return out


def overwrite(library: Library, x: Array, index: Array, value: Any) -> None:
    """``x[index] = value`` for rows (host, int64) of `x`: rows as runs of one row, of which those are free."""
    item = np.ascontiguousarray(np.broadcast_to(np.asarray(value).astype(x.dtype), x.shape[1:]))
    used = np.ones(x.shape[0], np.int64)
    used[index] = 0
    work = Work(x.shape[0], index.size, item.nbytes)
    kernel: Any = registry.kernel("pad_blocks", "cuda")
    cum = np.concatenate([[0], np.cumsum(used)])
    launch(kernel, library, item.reshape(-1).view(np.uint8), x, (cum,), (1, 0), work, None)
