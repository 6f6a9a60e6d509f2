"""Starting kernels on CUDA: copies of structure arrays on the device, grids, streams.

Importing it loads the package for CUDA but opens no context on a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, Library, size_of
from ..kernels.parts.gpu import compiled, gpu, simulated
from ..kernels.parts.record import MOVES
from ..layout import Layout
from .grids import geometry
from .kernel import Kernel, Work

# A machine word of so many bytes.  There is no 16-byte integer, so complex128 stands for one.
WORDS: dict[int, Any] = {1 << k: np.dtype(code) for k, code in enumerate(("u1", "u2", "u4", "u8", "c16"))}
BYTE = WORDS[1]
Kinds = tuple[tuple[str, ...], ...]
"""The `takes` of a kernel."""


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


class Start:
    """One start of a kernel: the stream it goes to, and host arrays brought there first."""

    def __init__(self, library: Library, like: Array, structure: Any, takes: Kinds = ()) -> None:
        self.library, self.like, self.structure, self.takes = library, like, structure, takes
        self.pointer = library.stream(like)
        self.stream = _stream(_index(library, like), self.pointer)

    def view(self, x: Array, size: int, dtype: Any, offset: int = 0) -> Any:
        """`size` items of another dtype in the memory of `x`, from byte `offset` on, as kernels take them."""
        if simulated:
            return x.reshape(-1).view(BYTE)[offset : offset + size * dtype.itemsize].view(dtype)
        return gpu.as_cuda_array(_Memory(x, self.library.address(x) + offset, size, dtype), sync=False)

    def typed(self, x: Array) -> Any:
        """All items of an array, flat, in a dtype that kernels calculate with."""
        if not getattr(x.dtype, "isnative", True):  # of another order of bytes, which Numba's arrays may have
            x = self.library.astype(x, x.dtype.newbyteorder("="))
        dtype, parts = self.kind_of(x)
        return self.view(x, size_of(x.shape) * parts, dtype)

    def kind_of(self, x: Array) -> tuple[Any, int]:
        """The dtype in which the kernel calculates with the items of an array, and how many of it an item has."""
        name = self.library.dtype_name(x.dtype)
        if name == "bool":
            return BYTE, 1
        dtype = np.dtype(name)
        if dtype.kind == "c" and not any(dtype.str[1:] in kinds for kinds in self.takes):
            return np.dtype(f"f{dtype.itemsize // 2}"), 2
        return dtype, 1

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
                    event = new_event()
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
        if (order := structure.known_order()) is not None:
            own += [order.indices, order.steps]
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


def new_event() -> Any:
    """An event of the package, which measures no time."""
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


def start(
    kernel: Kernel,
    library: Library,
    inputs: tuple[Any, ...],
    outputs: tuple[Any, ...],
    args: tuple[Any, ...],
    size: int,
    work: Work,
    structure: Any,
) -> None:
    """Start a kernel on the current stream of the array's library; nothing waits for it.

    See `Kernel.start` and `Kernel.start_named`.
    """
    spec = kernel.load()
    if work.units == 0 or size == 0 or (spec.does == MOVES and work.rows == 0):
        return
    code = compiled(kernel.on("cuda"))
    out = outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]
    with gpu.gpus[_index(library, out)]:
        begin = Start(library, out, structure, spec.takes)
        prepare = _moved if spec.does == MOVES else _calculated
        data, size = prepare(begin, inputs, outputs, args, size)
        grid, block, more = geometry(spec.over, work, size)
        code[grid, block, begin.stream](*data, size, *more)


Prepared = tuple[list[Any], int]
"""Data and arguments as a kernel takes them, and the size."""


def _moved(begin: Start, inputs: tuple[Any, ...], outputs: tuple[Array, ...], args: Any, size: int) -> Prepared:
    """For a kernel that moves rows: machine words, as wide as the rows and every address allow.

    Arrays among `args` may be on the device.
    """
    library, src, out = begin.library, inputs[0], outputs[0]
    item = None
    if type(src) is np.ndarray and src.any():
        item = src
    elif type(src) is np.ndarray or (type(src) is tuple and not src):  # zeros
        src = library.zeros((size // library.itemsize(out.dtype),), out.dtype, out)
    given = _arrays_of(args)
    sent, buffer = begin.uploaded([x for x in given if type(x) is np.ndarray], item)
    host = iter(sent)
    there = [next(host) if type(x) is np.ndarray else begin.typed(x) for x in given]
    if item is not None:
        src = buffer
    bits = 16 | size | library.address(out)
    if type(src) is tuple:
        bits |= int(np.bitwise_or.reduce(args[0].starts if type(args[0]) is Layout else args[0]))
    else:
        bits |= library.address(src)
    word = WORDS[bits & -bits]
    source = 0 if type(src) is tuple else begin.view(src, _bytes(library, src) // word.itemsize, word)
    target = begin.view(out, _bytes(library, out) // word.itemsize, word)
    return [source, target, *_with(args, there)], size // word.itemsize


def _calculated(begin: Start, inputs: tuple[Any, ...], outputs: tuple[Any, ...], args: Any, size: int) -> Prepared:
    """For a kernel that calculates: flat arrays; complex numbers are pairs of floats where it does not take them.

    Inputs may be on the host, and arrays among `args` on the device.
    """
    library = begin.library
    given, results = _arrays_of((*inputs, *args)), _arrays_of(outputs)
    host = iter(begin.uploaded([x for x in given if type(x) is np.ndarray])[0])
    views = [next(host) if type(x) is np.ndarray else begin.typed(library.aligned(x)) for x in given]
    data = _with((*inputs, *args), views)
    data[len(inputs) : len(inputs)] = _with(outputs, [begin.typed(x) for x in results])
    return data, size * begin.kind_of(results[0])[1]


def _arrays_of(args: tuple[Any, ...]) -> list[Array]:
    """The arrays among arguments, those in layouts and other named tuples too."""
    found: list[Array] = []
    for x in args:
        if type(x) is Layout:
            found += x[:3]
        elif isinstance(x, tuple):
            found += _arrays_of(x)
        elif not isinstance(x, (int, np.integer)):
            found.append(x)
    return found


def _with(args: tuple[Any, ...], arrays: Iterable[Any]) -> list[Any]:
    """The arguments with others in place of these arrays, and whole numbers as Python's."""
    left = iter(arrays)
    made: list[Any] = []
    for x in args:
        if type(x) is Layout:
            made.append(Layout(next(left), next(left), next(left), *map(int, x[3:])))
        elif isinstance(x, tuple):
            kind: Any = type(x)
            made.append(kind(*_with(x, left)))
        else:
            made.append(int(x) if isinstance(x, (int, np.integer)) else next(left))
    return made


def _bytes(library: Library, x: Array) -> int:
    return library.itemsize(x.dtype) * size_of(x.shape)
