"""Numba's device arrays, and arrays of other libraries on a GPU seen as such.

Numba can allocate, copy and slice them; what else an array library offers is made of kernels here.  Everything runs on
Numba's default stream.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..errors import DEVICE, DTYPE, quote
from ..kernels.parts.compiler import gpu, need, simulated
from ..launch.driver import driver
from ..launch.kernel import Work, kernel
from ..layout import Layout
from .library import Array, DType, Library, Operand, Shape, device_name, size_of, watch
from .lookup import to_host
from .numpy import NUMPY

need()
DeviceArray: TypeAlias = Any  # numba.cuda's, of a package that need not be there


class NumbaDevice(Library):
    """Numba's device arrays."""

    name = "numba"
    arithmetic = False
    most_in_one = 0 if simulated else 1 << 16

    def adopt(self, x: DeviceArray, what: str) -> DeviceArray:
        if x.size == 0 and not simulated and type(x) is not _nothing():
            return allocate(x.shape, x.dtype, index_of(x))
        return x if x.is_c_contiguous() else self.from_host(self.to_numpy(x), x)

    def kind(self, x: DeviceArray) -> str:
        return "cuda"

    def device(self, x: DeviceArray) -> str:
        return f"cuda:{index_of(x)}"

    def index(self, x: DeviceArray) -> int:
        return index_of(x)

    def contiguous(self, x: DeviceArray) -> bool:
        return bool(x.is_c_contiguous())

    def empty(self, shape: Shape, dtype: DType, like: DeviceArray) -> DeviceArray:
        return watch.took(_allocate_like(like, shape, np.dtype(dtype)), zeros=False)

    def maker(self, shape: Shape, dtype: DType) -> Callable[[DeviceArray], DeviceArray]:
        wanted, size = np.dtype(dtype), size_of(shape) * np.dtype(dtype).itemsize
        if simulated or not size:
            return functools.partial(_allocate_like, shape=shape, dtype=dtype)
        return functools.partial(_take, shape, _strides(shape, wanted), wanted, int(size))

    def memory(self, like: DeviceArray, size: int) -> tuple[Any, int]:
        memory = like.gpu_data.context.memalloc(size)
        return memory, int(memory.device_ctypes_pointer.value)

    def viewer(self, offset: int, shape: Shape, dtype: DType) -> Callable[[Any], DeviceArray]:
        wanted = np.dtype(dtype)
        end = offset + size_of(shape) * wanted.itemsize
        return functools.partial(_view, offset, end, shape, _strides(shape, wanted), wanted)

    def rows(self, x: DeviceArray, begin: int, end: int) -> DeviceArray:
        shape, row = (end - begin, *x.shape[1:]), size_of(x.shape[1:]) * x.dtype.itemsize
        if simulated or not shape[0] or not row or end > x.shape[0] or not x.is_c_contiguous():
            return x[begin:end]
        return _view(begin * row, end * row, shape, x.strides, x.dtype, x.gpu_data)

    def zeros(self, shape: Shape, dtype: DType, like: DeviceArray) -> DeviceArray:
        if simulated:
            return watch.took(gpu.to_device(np.zeros(shape, dtype)), zeros=True)
        made = _allocate_like(like, shape, np.dtype(dtype))
        if made.size and made.dtype.itemsize:
            found = driver()
            with found.use_device(index_of(made)):
                found.check(found.MemsetD8Async(self.address(made), 0, made.alloc_size, 0), "zeros on the device")
        return watch.took(made, zeros=True)

    def address(self, x: DeviceArray) -> int:
        return int(x.ctypes.data if simulated else x.device_ctypes_pointer.value or 0)

    def ready(self, x: DeviceArray, shape: Shape, dtype: DType) -> int:
        return self.address(x) if x.shape == shape and x.dtype == dtype and x.is_c_contiguous() else 0

    def item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        return NUMPY.item(fill, dtype, item_shape)

    def astype(self, x: DeviceArray, dtype: DType) -> DeviceArray:
        wanted = np.dtype(dtype)
        if x.dtype == wanted:
            return x
        if not {x.dtype.str[1:], wanted.str[1:]} <= CASTS or not (x.dtype.isnative and wanted.isnative):
            return self.from_host(self.to_numpy(x).astype(wanted), x)
        out = allocate(tuple(x.shape), wanted, index_of(x))
        if size_of(x.shape):
            with gpu.gpus[index_of(x)]:
                _cast[_GRID](x.reshape(-1), out.reshape(-1))
        return watch.cast(x, out)

    def product(self, x: DeviceArray, y: DeviceArray) -> DeviceArray:
        raise DTYPE("Numba's device arrays have no matrix product; give arrays of torch or CuPy")

    def copy(self, x: DeviceArray) -> DeviceArray:
        return self.concatenate([x])

    def to_numpy(self, x: DeviceArray) -> Array:
        if size_of(x.shape) == 0 or x.dtype.itemsize == 0:
            return np.empty(x.shape, x.dtype)
        if not simulated and x.is_c_contiguous():
            return self._copy_to_host(x, x.shape)
        with gpu.gpus[index_of(x)]:  # which waits for it
            if not x.is_c_contiguous():
                return np.ascontiguousarray(x.copy_to_host())
            host: Array = x.reshape(-1).view(_BYTE).copy_to_host().view(x.dtype).reshape(tuple(x.shape))
            return host

    def first_to_numpy(self, x: DeviceArray, rows: int) -> Array:
        if simulated or not (rows and x.is_c_contiguous()):
            return super().first_to_numpy(x, rows)
        return self._copy_to_host(x, (rows, *x.shape[1:]))

    def _copy_to_host(self, x: DeviceArray, shape: Shape) -> Array:
        """Copy the begin of an array; the driver waits for what writes it, as for all in the default stream."""
        host, found = np.empty(shape, x.dtype), driver()
        with found.use_device(index_of(x)):
            found.check(found.MemcpyDtoH(NUMPY.address(host), self.address(x), host.nbytes), "a copy to the host")
        return host

    def import_array(self, x: Array, source: Library) -> DeviceArray:
        return from_host(source.to_numpy(x), device_index("cuda")) if source.kind(x) == "cpu" else foreign(x)

    def from_host(self, x: Array, like: DeviceArray) -> DeviceArray:
        return from_host(x, index_of(like))

    def to_device(self, x: DeviceArray, device: object) -> DeviceArray:
        if device_name(device) == "cpu":
            return self.to_numpy(x)
        index = device_index(device)
        return x if index == index_of(x) else from_host(self.to_numpy(x), index)

    def concatenate(self, arrays: Sequence[DeviceArray]) -> DeviceArray:
        first = arrays[0]
        cum = np.cumsum([0, *[a.shape[0] for a in arrays]])
        out = allocate((int(cum[-1]), *first.shape[1:]), first.dtype, index_of(first))
        self._copy_rows(tuple(arrays), out, self.addresses(arrays), cum, size_of(first.shape[1:]))
        return out

    def stack(self, items: Sequence[object], like: DeviceArray) -> DeviceArray:
        return self.from_host(np.array([to_host(item) for item in items]), like)

    def take(self, x: DeviceArray, index: Array, axis: int) -> DeviceArray:
        outer, inner = size_of(x.shape[:axis]), size_of(x.shape[axis + 1 :])
        out = allocate((*x.shape[:axis], index.size, *x.shape[axis + 1 :]), x.dtype, index_of(x))
        starts = (np.arange(outer)[:, None] * x.shape[axis] + index).reshape(-1)
        self._copy_rows(x, out, starts, np.arange(starts.size + 1), inner)
        return out

    def gather(self, x: DeviceArray, index: Array, there: DeviceArray, out: DeviceArray) -> DeviceArray:
        self._copy_rows(x, out, index, np.arange(index.size + 1), size_of(x.shape[1:]))
        return out

    def _copy_rows(self, src: DeviceArray, out: DeviceArray, starts: Array, cum: Array, inner: int) -> None:
        """Blocks of rows of `inner` items, from row ``starts[i]``, or where `src` is a tuple from that address."""
        read = Layout(starts, cum, cum, -1, 0, 1, int(type(src) is tuple))
        write = Layout(cum, cum, cum, -1, 0, 1, 0)
        work = Work(starts.size, int(cum[-1]))
        kernel("copy_blocks").start(self, (src,), (out,), (read, write), inner * out.dtype.itemsize, None, work)

    def overwrite(self, x: DeviceArray, index: Array, value: Operand) -> None:
        # rows are runs of one row, and those at `index` are free room
        item = np.ascontiguousarray(np.broadcast_to(np.asarray(to_host(value)).astype(x.dtype), x.shape[1:]))
        used = np.ones(x.shape[0], np.int64)
        used[index] = 0
        cum = np.concatenate([[0], np.cumsum(used)])
        fill = item.reshape(-1).view(np.uint8)
        work = Work(x.shape[0], index.size)
        kernel("pad_blocks").start(self, (fill,), (x,), (cum, 1, 0), item.nbytes, None, work)

    def stream(self, like: DeviceArray) -> int:
        return 0

    def upload(self, packed: Array, like: DeviceArray) -> DeviceArray:
        return upload(packed, index_of(like))


# --- memory ----------------------------------------------------------------------------------------------------------

_BYTE = np.dtype(np.uint8)


def device_index(device: object) -> int:
    """The number of a device from its name, "cuda" or "cuda:1"; DeviceError where there is none."""
    kind, _, number = device_name(device).partition(":")
    if kind != "cuda" or not (number.isdecimal() or not number):
        raise DEVICE(f'there is no device {quote(device)}; NumPy arrays go to "cuda" or "cuda:0" and back to "cpu"')
    try:
        count = len(gpu.gpus)
    except Exception as error:  # whatever a package without a driver raises
        raise DEVICE(f"no GPU can be used: {str(error).strip()}") from None
    index = int(number) if number else _current()
    if index >= count:
        raise DEVICE(f"there is no device {quote(device)}; GPUs here: {count}")
    return index


def _current() -> int:
    return int(gpu.current_context().device.id) if not simulated else 0


def index_of(x: DeviceArray) -> int:
    """The number of the device where an array lies; Numba takes a while to say, and need not where there is one."""
    return 0 if simulated or _is_alone() else int(x.gpu_data.context.device.id)


@functools.cache
def _is_alone() -> bool:
    """Tell whether there is one GPU."""
    return driver().count() == 1


def allocate(shape: Shape, dtype: DType, index: int) -> DeviceArray:
    """A new array, undefined."""
    shape = tuple(map(int, shape))
    with gpu.gpus[index]:
        if 0 in shape and not simulated:
            return _of_nothing(shape, np.dtype(dtype))
        return gpu.device_array(shape, dtype)


def _allocate_like(like: DeviceArray, shape: Shape, dtype: np.dtype) -> DeviceArray:
    """A new array on the device of another, undefined.

    Where that device is current, Numba need not make it so, which takes it twice as long as to find memory.
    """
    index, size = index_of(like), size_of(shape) * dtype.itemsize
    if simulated or not size or driver().current() != index:
        return allocate(shape, dtype, index)
    return _take(shape, _strides(shape, dtype), dtype, int(size), like)


def _take(shape: Shape, strides: Shape, dtype: np.dtype, size: int, like: DeviceArray) -> DeviceArray:
    """A new array of so many bytes beside another, whose device is current."""
    return _plain()(shape, strides, dtype, 0, like.gpu_data.context.memalloc(size))


def _view(begin: int, end: int, shape: Shape, strides: Shape, dtype: np.dtype, memory: Any) -> DeviceArray:
    """An array of these bytes of memory, which it holds; Numba's own CUDA copies as much as its memory says."""
    return _plain()(shape, strides, dtype, 0, _part()(memory, begin, end))


def _strides(shape: Shape, dtype: np.dtype) -> Shape:
    """Bytes from item to item along each axis of a C-contiguous array."""
    return tuple([dtype.itemsize * size_of(shape[k:]) for k in range(1, len(shape) + 1)])


@functools.cache
def _plain() -> Any:
    """Keep the type of arrays that own their memory."""
    return type(gpu.device_array(0, np.uint8))


@functools.cache
def _part() -> Any:
    """Keep the type of a part of memory, which is made in a third of the time of a view of it.

    A view counts how many there are; a part holds the memory, and its views are those of that.
    """
    pointer: Any = gpu.MemoryPointer

    class Part(pointer):  # type: ignore[misc]
        def __init__(self, memory: Any, begin: int, end: int) -> None:
            address = memory.device_ctypes_pointer.value + begin
            super().__init__(memory.context, ctypes.c_void_p(address), end - begin)
            self.memory = memory

        @property
        def owner(self) -> Any:
            return self.memory.owner

    return Part


def _of_nothing(shape: Shape, dtype: DType) -> DeviceArray:
    """A new array without items, whose rows are apart, on the current device.

    Numba says that rows without items are 0 bytes apart, so that every slice of them is one row.  Where the axis
    without places has the widest steps it finds no byte from the first item to the last, and a slice needs no memory.
    """
    step = max(dtype.itemsize, 1)
    strides = [step if size else step * (sum(shape) + 1) for size in shape]
    return _nothing()(shape, strides, dtype)


@functools.cache
def _nothing() -> Any:
    """Keep the type of such an array for its slices and other shapes."""
    plain: Any = _plain()

    class Nothing(plain):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> DeviceArray:
            made = super().__getitem__(index)
            return _of_nothing(made.shape, made.dtype)

        def reshape(self, *shape: Any, **options: Any) -> DeviceArray:
            made = super().reshape(*shape, **options)
            return _of_nothing(made.shape, made.dtype)

    return Nothing


def from_host(x: Array, index: int) -> DeviceArray:
    """A NumPy array on a device."""
    if x.nbytes == 0:
        return allocate(x.shape, x.dtype, index)
    with gpu.gpus[index]:
        flat = gpu.to_device(np.ascontiguousarray(x).reshape(-1).view(np.uint8))
        return flat.view(x.dtype).reshape(x.shape)


def foreign(x: DeviceArray) -> DeviceArray:
    """An array that shows the CUDA array interface, as a Numba array over the same memory."""
    place = x.__dlpack_device__()[1] if hasattr(x, "__dlpack_device__") else _current()
    with gpu.gpus[place]:
        array = gpu.as_cuda_array(x, sync=False)
        if array.stream:  # whoever wrote it did so there; Numba's own stream goes on after that
            event = _event()
            event.record(array.stream)
            event.wait(gpu.default_stream())
        return array.bind(0)


_pinned: dict[int, list[tuple[Any, Array]]] = {}


def upload(packed: Array, index: int) -> DeviceArray:
    """Bytes on the device, without waiting: through page-locked memory, used again when its last copy is done."""
    with gpu.gpus[index]:
        if simulated:
            return gpu.to_device(packed)
        stream = gpu.default_stream()
        buffers = _pinned.setdefault(index, [])
        event: Any = None
        buffer: Any = None
        for _ in range(len(buffers)):
            try:
                event, buffer = buffers.pop(0)
            except IndexError:  # another thread took it
                break
            if buffer.size >= packed.size and event.query():
                break
            buffers.append((event, buffer))
            event, buffer = None, None
        if buffer is None:
            event, buffer = _event(), gpu.pinned_array(max(packed.size, 1 << 16), np.uint8)
        buffer[: packed.size] = packed
        out = gpu.device_array(packed.size, np.uint8)
        out.copy_to_device(buffer[: packed.size], stream=stream)
        event.record(stream)
        buffers.append((event, buffer))
        return out


def _event() -> Any:
    return gpu.event() if simulated else gpu.event(timing=False)


# --- another dtype ---------------------------------------------------------------------------------------------------


def _cast_items(x: Array, out: Array) -> None:
    """``out[i] = x[i]``, in the dtype of `out`."""
    i = gpu.blockIdx.x * gpu.blockDim.x + gpu.threadIdx.x
    while i < out.size:
        out[i] = x[i]
        i += gpu.gridDim.x * gpu.blockDim.x


_cast = gpu.jit(_cast_items)
# Blocks and threads: its loop takes what they do not cover.  The simulator takes 0.07 ms a thread.
_GRID = (1, 16) if simulated else (1024, 256)
# What the package's kernels can read and write; other dtypes change on the host.
CASTS = frozenset(("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
