"""CuPy: its arrays, all of them on GPUs."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..errors import DEVICE, DTYPE, quote
from .library import Array, DType, Library, Operand, Shape, device_name, watch
from .numpy import NUMPY

CuPyArray: TypeAlias = Any  # cupy.ndarray, of a package that need not be there


class CuPy(Library):
    """CuPy arrays."""

    name = "cupy"
    stream_bound = True

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]

    def adopt(self, x: CuPyArray, what: str) -> CuPyArray:
        return x if x.flags.c_contiguous else self.cupy.ascontiguousarray(x)

    def kind(self, x: CuPyArray) -> str:
        return "cuda"

    def device(self, x: CuPyArray) -> str:
        return f"cuda:{x.device.id}"

    def index(self, x: CuPyArray) -> int:
        return int(x.device.id)

    def contiguous(self, x: CuPyArray) -> bool:
        return bool(x.flags.c_contiguous)

    def empty(self, shape: Shape, dtype: DType, like: CuPyArray) -> CuPyArray:
        with like.device:
            return watch.took(self.cupy.empty(shape, dtype), zeros=False)

    def zeros(self, shape: Shape, dtype: DType, like: CuPyArray) -> CuPyArray:
        with like.device:
            return watch.took(self.cupy.zeros(shape, dtype), zeros=True)

    def astype(self, x: CuPyArray, dtype: DType) -> CuPyArray:
        made = x.astype(dtype, copy=False)
        return x if made is x else watch.cast(x, made)

    def item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        return NUMPY.item(fill, dtype, item_shape)

    def concatenate(self, arrays: Sequence[CuPyArray]) -> CuPyArray:
        return self.cupy.concatenate(arrays)

    def stack(self, items: Sequence[object], like: CuPyArray) -> CuPyArray:
        with like.device:
            return self.cupy.stack([self.cupy.asarray(item) for item in items])

    def overwrite(self, x: CuPyArray, index: Array, value: Operand) -> None:
        if not isinstance(value, self.cupy.ndarray):  # it writes a number that equals 0 as zeros, and so does -0.0
            value = self.from_host(np.array(value, x.dtype), x)
        x[self.from_host(index, x)] = value

    def take(self, x: CuPyArray, index: CuPyArray, axis: int) -> CuPyArray:
        return self.cupy.take(x, self.from_host(index, x), axis)

    def gather(self, x: CuPyArray, index: CuPyArray, there: CuPyArray, out: CuPyArray) -> CuPyArray:
        return self.cupy.take(x, there, 0, out)

    def exp(self, x: CuPyArray) -> CuPyArray:
        return self.cupy.exp(x)

    def function(self, name: str) -> Callable[..., Any] | None:
        return getattr(self.cupy, name, None)

    def where(self, condition: CuPyArray, x: CuPyArray | float, y: CuPyArray | float) -> CuPyArray:
        return self.cupy.where(condition, x, y)

    def address(self, x: CuPyArray) -> int:
        return int(x.data.ptr)

    def copy(self, x: CuPyArray) -> CuPyArray:
        return x.copy()

    def to_numpy(self, x: CuPyArray) -> Array:
        host: Array = self.cupy.asnumpy(x)
        return host

    def import_array(self, x: Array, source: Library) -> CuPyArray:
        try:
            if source.kind(x) == "cpu":
                return self.cupy.asarray(source.to_numpy(x))
            return self.adopt(self.cupy.from_dlpack(x) if hasattr(x, "__dlpack__") else self.cupy.asarray(x), "x")
        except (ValueError, RuntimeError) as error:
            raise DTYPE(f"CuPy has no dtype for {x.dtype}: {error}") from None

    def from_host(self, x: Array, like: CuPyArray) -> CuPyArray:
        with like.device:
            return self.cupy.asarray(x)

    def to_device(self, x: CuPyArray, device: object) -> CuPyArray:
        kind, _, number = device_name(device).partition(":")
        if kind != "cuda":
            raise DEVICE(f"CuPy arrays live on GPUs, not on {quote(device)}; cupy.asnumpy(...) makes a NumPy array")
        if not number or int(number) == x.device.id:
            return x
        with self.cupy.cuda.Device(int(number)):
            return self.cupy.array(x)

    def stream(self, like: CuPyArray) -> int:
        with like.device:
            return int(self.cupy.cuda.get_current_stream().ptr)

    def upload(self, packed: Array, like: CuPyArray) -> CuPyArray:
        with like.device:
            return self.cupy.asarray(packed)  # through pinned memory of CuPy's own, ordered by the current stream
