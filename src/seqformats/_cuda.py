"""Numba's device arrays as a library.

They can be allocated, copied and sliced; what else an array library offers is made of kernels here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arrays import Array, Library, Shape, device_name, size_of
from .errors import DeviceError, said
from .kernels.parts.gpu import gpu, simulated
from .launch.cuda import BYTE, THREADS, Start, between, new_event
from .launch.kernel import Work, kernel
from .layout import Layout


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
        return x.reshape(-1).view(BYTE).copy_to_host().view(x.dtype).reshape(tuple(x.shape))


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
            event, room = new_event(), gpu.pinned_array(max(packed.size, 1 << 16), np.uint8)
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
            event = new_event()
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
    read = Layout(starts, cum, cum, -1, 0, 1, int(type(src) is tuple))
    write = Layout(cum, cum, cum, -1, 0, 1, 0)
    work = Work(starts.size, int(cum[-1]))
    kernel("copy_blocks").start(library, (src,), (out,), (read, write), inner * out.dtype.itemsize, None, work)


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
            start = Start(library, out, None)
            threads = min(size, THREADS)
            args = start.view(x, size, x.dtype), start.view(out, size, dtype)
            _cast[between(-(-size // threads)), threads, start.stream](*args)
    return out


def overwrite(library: Library, x: Array, index: Array, value: Any) -> None:
    """``x[index] = value`` for rows (host, int64) of `x`: rows as runs of one row, of which those are free."""
    item = np.ascontiguousarray(np.broadcast_to(np.asarray(value).astype(x.dtype), x.shape[1:]))
    used = np.ones(x.shape[0], np.int64)
    used[index] = 0
    cum = np.concatenate([[0], np.cumsum(used)])
    work = Work(x.shape[0], index.size)
    bytes_of_item = item.reshape(-1).view(np.uint8)
    kernel("pad_blocks").start(library, (bytes_of_item,), (x,), (cum, 1, 0), item.nbytes, None, work)
