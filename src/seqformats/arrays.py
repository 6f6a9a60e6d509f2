"""The seam to array libraries: whose array is this, where does it live, allocate one like it, see its bytes.

No array library but NumPy is ever imported here: one is known only if the caller has imported it already.  Adding a
library means adding a class and one line in `_KNOWN`.
"""

import ctypes
import functools
import operator
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .errors import ConversionError, DeviceError, said
from .limits import check_finite, remember

Array = Any
Shape = tuple[int, ...]

# From this size on the system hands out zeroed pages lazily, so the padding need not be written at all.
LAZY_ZEROS = 1 << 25

_no_bytes = np.empty(0, np.uint8)
_no_bytes.flags.writeable = False
_zero_bytes = np.zeros(1 << 16, np.uint8)
_zero_bytes.flags.writeable = False


def size_of(shape: Sequence[int]) -> int:
    """The number of items in an array of this shape."""
    size = 1
    for k in shape:
        size *= k
    return size


def zero_item(size: int) -> Array:
    """`size` zero bytes, read-only and shared."""
    return _zero_bytes[:size] if size <= _zero_bytes.size else np.zeros(size, np.uint8)


def not_exact(fill: object, dtype: object, near: object) -> ConversionError:
    """The error for a padding value that the dtype cannot hold."""
    return ConversionError(
        f"fill={said(fill)} is not exact in {dtype} (it would become {said(near)}); give a value of that dtype"
    )


def wrong_item(fill: object, given: Shape, item_shape: Shape) -> ConversionError:
    """The error for a padding value of a wrong shape."""
    return ConversionError(
        f"fill must be one value or one item of shape {item_shape}, but has shape {given}: {said(fill)}"
    )


def host_value(value: Any) -> Array:
    """A value or an item given by the user, as a NumPy array; ConversionError where it is neither."""
    if isinstance(value, (list, tuple)):
        check_finite(value)
    try:
        return np.asarray(to_host(value))
    except ValueError as error:
        raise ConversionError(f"{said(value)} is neither one value nor one item: {error}") from None


def device_name(device: Any) -> str:
    """A device by name, whatever object stands for it."""
    own = type(device).__module__ != "builtins" and not is_array(device)
    return str(device) if own or isinstance(device, str) else said(device)


class Library:
    """What the library needs to know of an array library.  Methods take arrays that `adopt` has returned."""

    name = ""
    bool_dtype: Any = np.dtype(bool)
    autograd = False  # True where arrays may carry a gradient that an operation must not lose
    arithmetic = True  # False where arrays cannot be compared and calculated with on their device
    stream_bound = False  # True where memory that is given back may be taken again by its own stream alone

    def adopt(self, x: Array, what: str) -> Array:
        """`x` as a C-contiguous array of this library, itself where it can; TypeError where it has no plain items."""
        raise NotImplementedError

    def kind(self, x: Array) -> str:
        """The kind of device, by which kernels are found: "cpu", "cuda", ..."""
        raise NotImplementedError

    def device(self, x: Array) -> str:
        """The device by name: "cpu", "cuda:0", ..."""
        raise NotImplementedError

    def contiguous(self, x: Array) -> bool:
        """Is it still one C-contiguous block?"""
        raise NotImplementedError

    def itemsize(self, dtype: Any) -> int:
        """Bytes of one item of this dtype."""
        return int(dtype.itemsize)

    def empty(self, shape: Shape, dtype: Any, like: Array) -> Array:
        """A new array beside `like`, its contents undefined."""
        raise NotImplementedError

    def zeros(self, shape: Shape, dtype: Any, like: Array) -> Array:
        """A new array beside `like` of zeros (zero bytes)."""
        raise NotImplementedError

    def address(self, x: Array) -> int:
        """Where the memory of `x` begins."""
        raise NotImplementedError

    def native(self, x: Array) -> Array:
        """`x` flat, as an aligned NumPy array of native byte order; bools as bytes."""
        raise NotImplementedError

    def operand(self, x: Array) -> Array:
        """`native`, to be read only: one view for all arrays, so that a kernel is compiled once."""
        flat = self.native(x)
        flat.setflags(False)
        return flat

    def result(self, x: Array) -> Array:
        """`native`, to be written: never a copy."""
        return self.native(x)

    def aligned(self, x: Array) -> Array:
        """`x`, or a copy of it whose address suits its items."""
        return x if self.address(x) % self.itemsize(x.dtype) == 0 else self.copy(x)

    def astype(self, x: Array, dtype: str) -> Array:
        """`x` in the dtype of this NumPy name ("float32"), itself where it has it."""
        raise NotImplementedError

    def dtype_name(self, dtype: Any) -> str:
        """The NumPy name of a dtype: "float32", "bfloat16"."""
        try:
            return _names[dtype]
        except KeyError:  # NumPy puts it together anew each time, at many times the cost of a small sum
            name = dtype.str if dtype.kind in "SU" else dtype.name  # "str96" is no name that NumPy takes back
            return remember(_names, dtype, str(name))  # type: ignore[no-any-return]

    def dtype(self, name: str) -> Any:
        """The dtype of this NumPy name."""
        return np.dtype(name)

    def alias(self, x: Array) -> Array:
        """The same memory outside the autograd graph, for a pullback to keep."""
        return x

    def item(self, fill: Any, dtype: Any, item_shape: Shape) -> Array:
        """The bytes of one padding item; ConversionError where `fill` is not exact in `dtype`."""
        raise NotImplementedError

    def writable(self, x: Array) -> bool:
        """May a result be written into `x`?"""
        return self.contiguous(x)

    def written(self, x: Array) -> None:
        """Tell the library that `x` has been written, where it keeps an account of that."""

    def product(self, x: Array, y: Array) -> Array:
        """The matrix product; TypeError where the library has none."""
        try:
            return x @ y
        except (TypeError, NotImplementedError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "not implemented" not in str(error):
                raise
            raise TypeError(f"{self.name} has no matrix product of {x.dtype}") from None

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        """One new array of all rows."""
        raise NotImplementedError

    def stack(self, items: Sequence[Any], like: Array) -> Array:
        """One new array ``(len(items), *item)`` of items that are scalars or arrays."""
        raise NotImplementedError

    def split(self, x: Array, lengths: Array, offsets: Array) -> tuple[Array, ...]:
        """Views of the rows of each sequence."""
        return tuple([x[a:b] for a, b in pairwise(offsets.tolist())])

    def take(self, x: Array, index: Array, axis: int) -> Array:
        """A new array: `index` (host, int64) picks along `axis`."""
        raise NotImplementedError

    def gather(self, x: Array, index: Array, there: Array, out: Array) -> Array:
        """``x[index]`` along the first axis, in `out`; `there` is the index (host, int64) beside `x`."""
        raise NotImplementedError

    def overlap(self, x: Array, y: Array) -> bool:
        """May the two, which are contiguous, have memory in common?"""
        a, b = self.address(x), self.address(y)
        sizes = [size_of(z.shape) * self.itemsize(z.dtype) for z in (x, y)]
        return a < b + sizes[1] and b < a + sizes[0]

    def addresses(self, arrays: Sequence[Array]) -> Array:
        """The memory address of each array, int64."""
        return np.array([self.address(x) for x in arrays], np.int64)

    def scan(self, items: tuple[Any, ...]) -> tuple[Array, Array] | None:
        """Lengths and addresses where all items are plain arrays alike, which is quickly seen; else None."""
        return None

    def copy(self, x: Array) -> Array:
        """A copy that shares no memory."""
        raise NotImplementedError

    def to_numpy(self, x: Array) -> Array:
        """A NumPy array with the same values, copied to the host where need be."""
        raise NotImplementedError

    def from_host(self, x: Array, like: Array) -> Array:
        """A NumPy array as one of this library, on the device of `like`."""
        raise NotImplementedError

    def to_device(self, x: Array, device: Any) -> Array:
        """The same values on a device of this library."""
        raise NotImplementedError

    def overwrite(self, x: Array, index: Array, value: Any) -> None:
        """``x[index] = value`` for rows `index` (host, int64)."""
        x[self.from_host(index, x)] = value

    def wants_grad(self, arrays: Sequence[Array]) -> bool:
        """Does one of these arrays ask for a gradient right now?"""
        return False

    def stream(self, like: Array) -> int:
        """The handle of the current stream on the device of `like`."""
        raise NotImplementedError

    def upload(self, packed: Array, like: Array) -> Array:
        """Bytes (host, uint8) copied beside `like` on the current stream, without waiting for anything."""
        raise NotImplementedError

    def share(self, x: Array, like: Array) -> None:
        """Keep the memory of `x` from being taken again before the current stream is done with it."""


_names: dict[Any, str] = {}
with_autograd: list[Library] = []
"""The loaded libraries whose arrays may carry a gradient."""
_DTYPES = {name: np.dtype(name) for name in ("bool", "float32", "float64", "int32", "int64", "uint64")}


class NumPy(Library):
    """NumPy arrays."""

    name = "numpy"

    def adopt(self, x: Array, what: str) -> Array:
        if type(x) is not np.ndarray:
            if isinstance(x, np.ma.MaskedArray):
                if np.frombuffer(np.ma.getmaskarray(x).tobytes(), bool).any():  # of each field, where there are some
                    raise TypeError(f"{what} is a masked array with masked items; give x.filled(value) or x.data")
                x = x.data
            x = np.asarray(x)
        if x.dtype.hasobject:
            raise TypeError(
                f"{what} has dtype {x.dtype}, whose items are Python objects; they cannot be moved as bytes"
            )
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)

    def kind(self, x: Array) -> str:
        return "cpu"

    def device(self, x: Array) -> str:
        return "cpu"

    def contiguous(self, x: Array) -> bool:
        return bool(x.flags.c_contiguous)

    def empty(self, shape: Shape, dtype: Any, like: Array) -> Array:
        return np.empty(shape, dtype)

    def zeros(self, shape: Shape, dtype: Any, like: Array) -> Array:
        return np.zeros(shape, dtype)

    def address(self, x: Array) -> int:
        return x.__array_interface__["data"][0]  # type: ignore[no-any-return]

    def native(self, x: Array) -> Array:
        dtype = x.dtype
        if not (dtype.isnative and x.flags.aligned):
            x = np.require(x, dtype.newbyteorder("="), ["C", "A"])
        flat = x.reshape(-1)
        return flat.view(np.uint8) if dtype.kind == "b" else flat

    def result(self, x: Array) -> Array:
        dtype = x.dtype
        assert dtype.isnative, "a kernel would write into a copy"
        return x.reshape(-1).view(np.uint8) if dtype.kind == "b" else x.reshape(-1)

    def astype(self, x: Array, dtype: str) -> Array:
        if x.dtype is _DTYPES.get(dtype) and x.flags.aligned:
            return x
        with np.errstate(all="ignore"):  # sums that are too large for float16 are infinite there
            return np.require(x, dtype, ["C", "A"])

    def item(self, fill: Any, dtype: Any, item_shape: Shape) -> Array:
        value = host_value(fill)
        if value.shape not in ((), item_shape):
            raise wrong_item(fill, value.shape, item_shape)
        try:
            if value.dtype.kind == "c" and dtype.kind != "c" and not value.imag.any():
                value = value.real
            with np.errstate(all="ignore"):
                cast = value.astype(dtype) if value.dtype.kind != "c" or dtype.kind == "c" else value.real.astype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ConversionError(f"fill={said(fill)} is not a value of {dtype}: {error}") from None
        if not same_values(value, cast):
            raise not_exact(fill, dtype, cast.tolist())
        return np.ascontiguousarray(np.broadcast_to(cast, item_shape)).reshape(-1).view(np.uint8)

    def writable(self, x: Array) -> bool:
        return bool(x.flags.c_contiguous and x.flags.writeable)

    def product(self, x: Array, y: Array) -> Array:
        name = self.dtype_name(x.dtype)
        if name in ("float16", "bfloat16"):  # NumPy would add up in half precision
            return (x.astype(np.float32) @ y.astype(np.float32)).astype(name)
        return super().product(x, y)

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        out = np.empty((sum(len(x) for x in arrays), *arrays[0].shape[1:]), arrays[0].dtype)
        return np.concatenate(arrays, out=out)  # which by itself would give native byte order

    def stack(self, items: Sequence[Any], like: Array) -> Array:
        return self.adopt(np.array(items), "the result")

    def take(self, x: Array, index: Array, axis: int) -> Array:
        return np.take(x, index, axis)

    def gather(self, x: Array, index: Array, there: Array, out: Array) -> Array:
        return np.take(x, index, 0, out, "clip")  # the default checks the index by way of a copy

    def overlap(self, x: Array, y: Array) -> bool:
        return np.may_share_memory(x, y)

    def copy(self, x: Array) -> Array:
        return x.copy()

    def to_numpy(self, x: Array) -> Array:
        return x

    def from_host(self, x: Array, like: Array) -> Array:
        return x

    def to_device(self, x: Array, device: Any) -> Array:
        if device_name(device) == "cpu":
            return x
        if not device_name(device).startswith("cuda"):
            raise DeviceError(f'NumPy arrays go to "cuda", as Numba device arrays, but not to {said(device)}')
        try:
            from . import _cuda
        except ImportError as error:
            raise DeviceError(f"NumPy arrays on {said(device)} are Numba device arrays; numba-cuda: {error}") from None
        return _cuda.from_host(x, _cuda.at(device))


def _first_field(_: NumPy, x: Array) -> int:
    """`NumPy.address` in a tenth of the time: by NumPy's public C layout the first field behind the object header."""
    return _word_at(id(x) + _HEADER).value


_word_at, _HEADER = ctypes.c_ssize_t.from_address, object.__basicsize__
NUMPY = NumPy()
if sys.implementation.name == "cpython" and _first_field(NUMPY, _zero_bytes[8:]) == NUMPY.address(_zero_bytes[8:]):
    NumPy.address = _first_field  # type: ignore[assignment, method-assign]


def same_values(value: Array, cast: Array) -> bool:
    """Did the cast keep every value?  Python compares integers and floats exactly; NaN and NaT equal themselves."""
    if value.dtype.kind in "mMUS" or cast.dtype.kind in "mMUS":
        if value.dtype.kind != cast.dtype.kind:
            return False
        return bool(np.all((cast == value) | ((value != value) & (cast != cast))))
    pairs = zip(value.reshape(-1).tolist(), cast.reshape(-1).tolist(), strict=True)
    return all(a == b or (a != a and b != b) for a, b in pairs)


_requires_grad = operator.attrgetter("requires_grad")


class Torch(Library):
    """PyTorch tensors, on the CPU and on CUDA."""

    name = "torch"
    autograd = True

    def __init__(self) -> None:
        self.torch = sys.modules["torch"]
        with_autograd.append(self)
        self.bool_dtype = self.torch.bool

    def adopt(self, x: Array, what: str) -> Array:
        torch = self.torch
        if x.layout is not torch.strided:
            raise TypeError(f"{what} is a tensor with layout {x.layout}; only dense tensors hold plain rows")
        if x.is_quantized:
            raise TypeError(f"{what} is a quantized tensor; give x.dequantize() or x.int_repr()")
        if x.is_nested:
            raise TypeError(f"{what} is a nested tensor; give a list of its parts, x.unbind()")
        if x.is_meta:
            raise TypeError(f"{what} is a meta tensor, which has no items")
        if x.dtype.is_complex and x.is_conj():
            x = x.resolve_conj()
        if x.is_neg():
            x = x.resolve_neg()
        x = x if x.is_contiguous() else x.contiguous()
        if not self._has_memory(x):
            raise TypeError(f"{what} is a tensor without memory behind it")
        return x

    def kind(self, x: Array) -> str:
        return "cpu" if x.is_cpu else str(x.device.type)

    def device(self, x: Array) -> str:
        return "cpu" if x.is_cpu else str(x.device)

    def contiguous(self, x: Array) -> bool:
        return bool(x.is_contiguous()) and self._has_memory(x)

    def _has_memory(self, x: Array) -> bool:
        """A tensor's memory can be taken away, or never have been there."""
        end = (x.storage_offset() + x.numel()) * x.dtype.itemsize
        return bool(x.numel() == 0 or (x.data_ptr() != 0 and x.untyped_storage().nbytes() >= end))

    def empty(self, shape: Shape, dtype: Any, like: Array) -> Array:
        return self._allocate(np.empty, shape, dtype, like)

    def zeros(self, shape: Shape, dtype: Any, like: Array) -> Array:
        return self._allocate(np.zeros, shape, dtype, like)

    def _allocate(self, make: Callable[..., Array], shape: Shape, dtype: Any, like: Array) -> Array:
        torch = self.torch
        if not like.is_cpu or 0 in shape:
            make = torch.empty if make is np.empty else torch.zeros
            return make(shape, dtype=dtype, device=like.device)
        # NumPy asks for huge pages, torch does not: 40 MB cost a quarter of the time
        same = _DTYPES.get(self.dtype_name(dtype))
        if same is not None:
            return torch.from_numpy(make(shape, same))
        # A tensor of its own over that memory, since autograd forbids to change a view in place
        memory = torch.from_numpy(make(size_of(shape) * dtype.itemsize, np.uint8)).untyped_storage()
        return torch.empty(0, dtype=dtype).set_(memory, 0, shape)

    def address(self, x: Array) -> int:
        return x.data_ptr()  # type: ignore[no-any-return]

    def native(self, x: Array) -> Array:
        return NUMPY.native((x.detach() if x.requires_grad else x).numpy())

    def astype(self, x: Array, dtype: str) -> Array:
        wanted = getattr(self.torch, dtype)
        return x if x.dtype is wanted else x.to(wanted)

    def dtype_name(self, dtype: Any) -> str:
        try:
            return _names[dtype]
        except KeyError:
            return remember(_names, dtype, str(dtype).removeprefix("torch."))  # type: ignore[no-any-return]

    def dtype(self, name: str) -> Any:
        return getattr(self.torch, name)

    def alias(self, x: Array) -> Array:
        return x.detach()

    def item(self, fill: Any, dtype: Any, item_shape: Shape) -> Array:
        torch = self.torch
        if isinstance(fill, torch.Tensor):
            if self.wants_grad((fill,)):
                raise TypeError("fill has no gradient; give fill.detach()")
            value = fill.detach().cpu().resolve_conj().resolve_neg()
        else:
            given = host_value(fill)
            value = np.ascontiguousarray(given).reshape(given.shape)  # NumPy gives a scalar an axis
        if tuple(value.shape) not in ((), item_shape):
            raise wrong_item(fill, tuple(value.shape), item_shape)
        try:
            whole = value if isinstance(value, torch.Tensor) else torch.from_numpy(value.reshape(-1))
            cast = (whole.real if whole.is_complex() and not dtype.is_complex else whole).to(dtype)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ConversionError(f"fill={said(fill)} is not a value of {dtype}: {error}") from None
        before, after = value.reshape(-1).tolist(), cast.reshape(-1).tolist()
        if not all(a == b or (a != a and b != b) for a, b in zip(before, after, strict=True)):
            raise not_exact(fill, dtype, cast.tolist())
        # one item alone counts as contiguous whatever its strides, and is then no bytes
        item = cast.reshape(tuple(value.shape)).expand(item_shape).clone(memory_format=torch.contiguous_format).view(-1)
        return item.view(torch.uint8).numpy() if item.numel() else _no_bytes

    def writable(self, x: Array) -> bool:
        return self.contiguous(x) and not x.requires_grad

    def written(self, x: Array) -> None:
        x[:0].zero_()  # counts as a change of the whole tensor, so autograd notices where it had been saved

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        return self.torch.cat(tuple(arrays))

    def stack(self, items: Sequence[Any], like: Array) -> Array:
        torch = self.torch
        return torch.stack([item if isinstance(item, torch.Tensor) else torch.as_tensor(item) for item in items]).to(
            like.device
        )

    def split(self, x: Array, lengths: Array, offsets: Array) -> tuple[Array, ...]:
        return tuple(x.split_with_sizes(lengths.tolist())) if lengths.size else ()

    def take(self, x: Array, index: Array, axis: int) -> Array:
        plain = self._selectable(x)
        chosen = plain.index_select(axis, self.from_host(index, x))
        return chosen if plain is x else chosen.view(x.dtype)  # integers alone, so no graph is lost

    def gather(self, x: Array, index: Array, there: Array, out: Array) -> Array:
        self.torch.index_select(self._selectable(x), 0, there, out=self._selectable(out))
        return out

    def overwrite(self, x: Array, index: Array, value: Any) -> None:
        plain = self._selectable(x)
        if x.is_floating_point():
            value = float(value)  # torch takes no integer beyond int64
        elif plain is not x:
            value = np.array(value, self.dtype_name(x.dtype)).view(self.dtype_name(plain.dtype)).item()
        plain[self.from_host(index, x)] = value

    def _selectable(self, x: Array) -> Array:
        """`x`, or where torch can neither select nor assign its dtype, the same bits as another."""
        other = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}.get(self.dtype_name(x.dtype))
        return x if other is None else x.view(self.dtype(other))

    def scan(self, items: tuple[Any, ...]) -> tuple[Array, Array] | None:
        first = items[0]
        dtype, device, plain = first.dtype, first.device, (self.torch.Tensor, self.torch.nn.Parameter)
        if device.type not in ("cpu", "cuda") or first.is_quantized or dtype.is_complex or first.dim() < 1:
            return None
        lengths, addresses = [], []
        try:
            tail = first.shape[1:]
            for x in items:
                shape = x.shape
                if type(x) not in plain or x.dtype is not dtype or x.device != device or shape[1:] != tail:
                    return None
                if not x.is_contiguous() or x.is_neg() or not self._has_memory(x):
                    return None
                lengths.append(shape[0])
                addresses.append(x.data_ptr())
        except (RuntimeError, IndexError, AttributeError):  # sparse, nested, without an axis, no tensor at all
            return None
        return np.array(lengths, np.int64), np.array(addresses, np.int64)

    def copy(self, x: Array) -> Array:
        return x.clone()

    def to_numpy(self, x: Array) -> Array:
        try:
            return x.detach().cpu().numpy()
        except TypeError:
            raise TypeError(f"NumPy has no dtype for {x.dtype}; give a tensor of another one") from None

    def from_host(self, x: Array, like: Array) -> Array:
        return self.torch.from_numpy(np.array(x)).to(like.device, non_blocking=True)

    def to_device(self, x: Array, device: Any) -> Array:
        try:
            return x.to(self.torch.device(device))
        except (TypeError, ValueError, RuntimeError, AssertionError, OverflowError) as error:
            raise DeviceError(f"torch cannot reach the device {said(device)}: {error}") from None

    def wants_grad(self, arrays: Sequence[Array]) -> bool:
        return bool(self.torch.is_grad_enabled()) and any(map(_requires_grad, arrays))

    def stream(self, like: Array) -> int:
        return int(self.torch.cuda.current_stream(like.device).cuda_stream)

    def upload(self, packed: Array, like: Array) -> Array:
        # torch takes pinned memory again only after the copy
        pinned = self.torch.empty(packed.size, dtype=self.torch.uint8, pin_memory=True)
        pinned.numpy()[:] = packed
        return pinned.to(like.device, non_blocking=True)

    def share(self, x: Array, like: Array) -> None:
        x.record_stream(self.torch.cuda.current_stream(like.device))


class CuPy(Library):
    """CuPy arrays."""

    name = "cupy"
    stream_bound = True

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]

    def adopt(self, x: Array, what: str) -> Array:
        return x if x.flags.c_contiguous else self.cupy.ascontiguousarray(x)

    def kind(self, x: Array) -> str:
        return "cuda"

    def device(self, x: Array) -> str:
        return f"cuda:{x.device.id}"

    def contiguous(self, x: Array) -> bool:
        return bool(x.flags.c_contiguous)

    def empty(self, shape: Shape, dtype: Any, like: Array) -> Array:
        with like.device:
            return self.cupy.empty(shape, dtype)

    def zeros(self, shape: Shape, dtype: Any, like: Array) -> Array:
        with like.device:
            return self.cupy.zeros(shape, dtype)

    def astype(self, x: Array, dtype: str) -> Array:
        return x.astype(dtype, copy=False)

    def item(self, fill: Any, dtype: Any, item_shape: Shape) -> Array:
        return NUMPY.item(fill, dtype, item_shape)

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        return self.cupy.concatenate(arrays)

    def stack(self, items: Sequence[Any], like: Array) -> Array:
        with like.device:
            return self.cupy.stack([self.cupy.asarray(item) for item in items])

    def take(self, x: Array, index: Array, axis: int) -> Array:
        return self.cupy.take(x, self.from_host(index, x), axis)

    def gather(self, x: Array, index: Array, there: Array, out: Array) -> Array:
        return self.cupy.take(x, there, 0, out)

    def address(self, x: Array) -> int:
        return int(x.data.ptr)

    def copy(self, x: Array) -> Array:
        return x.copy()

    def to_numpy(self, x: Array) -> Array:
        return self.cupy.asnumpy(x)

    def from_host(self, x: Array, like: Array) -> Array:
        with like.device:
            return self.cupy.asarray(x)

    def to_device(self, x: Array, device: Any) -> Array:
        kind, _, number = device_name(device).partition(":")
        if kind != "cuda":
            raise DeviceError(f"CuPy arrays live on GPUs, not on {said(device)}; cupy.asnumpy(...) makes a NumPy array")
        if not number or int(number) == x.device.id:
            return x
        with self.cupy.cuda.Device(int(number)):
            return self.cupy.array(x)

    def stream(self, like: Array) -> int:
        with like.device:
            return int(self.cupy.cuda.get_current_stream().ptr)

    def upload(self, packed: Array, like: Array) -> Array:
        with like.device:
            return self.cupy.asarray(packed)  # through pinned memory of CuPy's own, ordered by the current stream


class NumbaDevice(Library):
    """Numba's device arrays, and arrays of other libraries on a GPU seen as such.

    Numba can allocate and copy them; the rest is made of kernels.  Everything runs on Numba's default stream.
    """

    name = "numba"
    arithmetic = False

    def __init__(self) -> None:
        from . import _cuda

        self.cuda = _cuda

    def adopt(self, x: Array, what: str) -> Array:
        return x if x.is_c_contiguous() else self.from_host(self.to_numpy(x), x)

    def kind(self, x: Array) -> str:
        return "cuda"

    def device(self, x: Array) -> str:
        return f"cuda:{self.cuda.index_of(x)}"

    def contiguous(self, x: Array) -> bool:
        return bool(x.is_c_contiguous())

    def empty(self, shape: Shape, dtype: Any, like: Array) -> Array:
        return self.cuda.allocate(shape, dtype, self.cuda.index_of(like))

    def zeros(self, shape: Shape, dtype: Any, like: Array) -> Array:
        return self.cuda.allocate(shape, dtype, self.cuda.index_of(like), zeros=True)

    def astype(self, x: Array, dtype: str) -> Array:
        return x if x.dtype == dtype else self.cuda.cast(self, x, np.dtype(dtype))

    def item(self, fill: Any, dtype: Any, item_shape: Shape) -> Array:
        return NUMPY.item(fill, dtype, item_shape)

    def product(self, x: Array, y: Array) -> Array:
        raise TypeError("Numba's device arrays have no matrix product; give arrays of torch or CuPy")

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        return self.cuda.concatenate(self, arrays)

    def stack(self, items: Sequence[Any], like: Array) -> Array:
        return self.from_host(np.array([to_host(item) for item in items]), like)

    def take(self, x: Array, index: Array, axis: int) -> Array:
        return self.cuda.take(self, x, index, axis)

    def gather(self, x: Array, index: Array, there: Array, out: Array) -> Array:
        return self.cuda.gather(self, x, index, out)

    def address(self, x: Array) -> int:
        return int(self.cuda.address_of(x))

    def copy(self, x: Array) -> Array:
        return self.cuda.concatenate(self, [x])

    def to_numpy(self, x: Array) -> Array:
        return self.cuda.to_host(x)

    def from_host(self, x: Array, like: Array) -> Array:
        return self.cuda.from_host(x, self.cuda.index_of(like))

    def to_device(self, x: Array, device: Any) -> Array:
        if device_name(device) == "cpu":
            return self.to_numpy(x)
        index = self.cuda.at(device)
        return x if index == self.cuda.index_of(x) else self.cuda.from_host(self.to_numpy(x), index)

    def overwrite(self, x: Array, index: Array, value: Any) -> None:
        self.cuda.overwrite(self, x, index, to_host(value))

    def stream(self, like: Array) -> int:
        return 0

    def upload(self, packed: Array, like: Array) -> Array:
        return self.cuda.upload(packed, self.cuda.index_of(like))


# One object a library, whatever the types of its arrays (torch.Tensor, torch.nn.Parameter).
_torch, _cupy, _numba_device = (functools.cache(library) for library in (Torch, CuPy, NumbaDevice))


def _is_torch(kind: type) -> Library | None:
    torch = sys.modules.get("torch")
    return _torch() if torch is not None and hasattr(torch, "Tensor") and issubclass(kind, torch.Tensor) else None


def _is_numpy(kind: type) -> Library | None:
    return NUMPY if issubclass(kind, np.ndarray) else None


def _is_cupy(kind: type) -> Library | None:
    cupy = sys.modules.get("cupy")
    return _cupy() if cupy is not None and issubclass(kind, cupy.ndarray) else None


def _is_numba_device(kind: type) -> Library | None:
    return _numba_device() if getattr(kind, "__cuda_ndarray__", False) else None


# In this order an array's type is asked whose it is; each answers None unless its library is loaded and owns the type.
_KNOWN: list[Callable[[type], Library | None]] = [_is_numpy, _is_torch, _is_cupy, _is_numba_device]

_by_type: dict[type, Library | None] = {np.ndarray: NUMPY}


def library_of_type(kind: type) -> Library | None:
    """The library that owns arrays of this type, if it is known."""
    try:
        return _by_type[kind]
    except KeyError:
        pass
    for ask in _KNOWN:
        library = ask(kind)
        if library is not None:
            remember(_by_type, kind, library)
            return library
    return None


def library_of(x: Array) -> Library:
    """The library of an array that `adopt` has returned."""
    library = _by_type.get(type(x)) or library_of_type(type(x))
    if library is None:
        raise TypeError(f"{type(x).__name__} is not an array of a library known here")
    return library


def plain(data: Array, dtype: Any, shape: Shape) -> Library | None:
    """The library of an array on the host, still of this dtype and shape, that asks for no gradient; else None."""
    if type(data) is np.ndarray:
        same = data.shape == shape and data.dtype == dtype and data.flags.c_contiguous
        return NUMPY if same else None
    library = library_of(data)
    if library.autograd and library.wants_grad((data,)):
        return None
    if data.shape != shape or data.dtype != dtype or not library.contiguous(data) or library.kind(data) != "cpu":
        return None
    return library


def is_array(x: object) -> bool:
    """Is this something that `adopt` takes?"""
    known = _array_types.get(type(x))
    return is_array_type(type(x)) if known is None else known


def is_array_type(kind: type) -> bool:
    """Are objects of this type arrays?"""
    known = _array_types.get(kind)
    if known is None:
        known = not issubclass(kind, (type, np.generic)) and (
            any(hasattr(kind, name) for name in _PROTOCOLS) or library_of_type(kind) is not None
        )
        remember(_array_types, kind, known)
    return known


_array_types: dict[type, bool] = {}
_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")


def shape_of(x: Array, what: str = "data") -> Shape:
    """The shape of anything that `is_array` takes; TypeError where that is no array after all."""
    try:
        if library_of_type(type(x)) is not None:
            return tuple(x.shape)
    except RuntimeError:  # a nested tensor has none
        pass
    return tuple(adopt(x, what)[1].shape)


def has_items(x: Any) -> bool:
    """Is this a list, a tuple, or an array with an axis?"""
    return isinstance(x, (list, tuple)) or (is_array(x) and len(shape_of(x)) > 0)


def adopt(x: Array, what: str = "data") -> tuple[Library, Array]:
    """An array of any library as (its library, the array, C-contiguous).

    Arrays of other libraries come in through ``__array_interface__`` or DLPack without a copy, as NumPy arrays; on a
    GPU as CuPy's or, through ``__cuda_array_interface__``, as Numba's.  TypeError for everything else, and for arrays
    without plain items.
    """
    if type(x) is np.ndarray and x.flags.c_contiguous and not x.dtype.hasobject:  # the usual case, in half the time
        return NUMPY, x
    library = _by_type.get(type(x)) or library_of_type(type(x))
    if library is None:
        x = _imported(x, what)
        library = library_of(x)
    return library, library.adopt(x, what)


def _imported(x: Array, what: str) -> Array:
    """An array of an unknown library as one of a known one."""
    if not isinstance(x, (type, np.generic)):
        if hasattr(x, "__array_interface__"):
            return _taken_over(np.asarray, x, what)
        if hasattr(x, "__cuda_array_interface__"):
            return _taken_over(_on_gpu, x, what)
        if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
            if _taken_over(lambda y: y.__dlpack_device__()[0], x, what) == 1:
                return _taken_over(np.from_dlpack, x, what)
            cupy = sys.modules.get("cupy")
            if cupy is not None:
                return cupy.from_dlpack(x)
            raise DeviceError(
                f"{what} of type {type(x).__name__} lives on a GPU; import cupy, or give a torch tensor of it"
            )
    raise TypeError(f"{what} must be an array, not {type(x).__name__}; np.asarray(...) makes one")


def _on_gpu(x: Array) -> Array:
    """An array that shows the CUDA array interface, as CuPy's where that is loaded, else as Numba's."""
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return cupy.asarray(x)
    from . import _cuda

    return _cuda.foreign(x)


def _taken_over(take: Callable[[Any], Any], x: Any, what: str) -> Any:
    try:
        return take(x)
    except Exception as error:  # foreign code may raise anything
        raise TypeError(f"{what} of type {type(x).__name__} cannot be taken over: {error!r}") from None


def to_host(x: Any) -> Any:
    """An array of any library as a NumPy array, anything else unchanged."""
    if type(x) is np.ndarray or not is_array(x):
        return x
    library, array = adopt(x)
    return library.to_numpy(array)
