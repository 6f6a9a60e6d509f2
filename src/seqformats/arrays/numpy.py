"""NumPy: the library that is always there, in whose arrays everything on the host is kept."""

import ctypes
import functools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DEVICE, EXACT, ITEMS, ConversionError, quote
from ..memory_checks import check_finite
from .library import Array, DType, Library, Shape, device_name, part, size_of

NO_BYTES = np.empty(0, np.uint8)
NO_BYTES.flags.writeable = False
_zero_bytes = np.zeros(1 << 16, np.uint8)
_zero_bytes.flags.writeable = False

# One object a dtype, since a dtype is looked up by name again and again.
COMMON_DTYPES = {name: np.dtype(name) for name in ("bool", "float32", "float64", "int32", "int64", "uint64")}


def zero_item(size: int) -> Array:
    """`size` zero bytes, read-only and shared."""
    return _zero_bytes[:size] if size <= _zero_bytes.size else np.zeros(size, np.uint8)


def freeze(array: Array) -> Array:
    """A view of a private array, which is read-only from now on, together with what it was cut from.

    NumPy lets an array that owns its memory be made writable again, but a view only where its base is writable.  So
    nothing that is handed out owns its memory, and ``x.lengths.setflags(write=True)`` is refused; only who unlocks the
    base first, ``x.lengths.base``, is past helping.  What the extension makes is memory of a bytes object, which nobody
    can unlock; by way of `np.frombuffer` that would take three times as long as a view, and one more copy.
    """
    base = array.base
    if isinstance(base, np.ndarray):
        base.setflags(write=False)
    array.setflags(False)
    view: Array = array[...]
    return view


NO_INTS = freeze(np.zeros(0, np.int64))
"""Whole numbers that are not there."""


def distinct(x: Array) -> Array:
    """Whole numbers sorted, each once.

    `np.unique`, and all of NumPy that calls it, may import `numpy.ma`: a thread that forks meanwhile leaves its child
    with the lock of that module, for ever.
    """
    rising = np.sort(x)
    first = np.ones(rising.size, bool)
    np.not_equal(rising[1:], rising[:-1], out=first[1:])
    return rising[first]


def is_among(x: Array, those: Array) -> Array:
    """Tell which of some whole numbers are among others; see `distinct` for why not `np.isin`."""
    if not those.size:
        return np.zeros(x.shape, bool)
    rising = np.sort(those)
    among: Array = rising[np.minimum(np.searchsorted(rising, x), rising.size - 1)] == x
    return among


class NumPy(Library):
    """NumPy arrays."""

    name = "numpy"

    def adopt(self, x: Array, what: str) -> Array:
        if type(x) is not np.ndarray:
            masked = sys.modules.get("numpy.ma")  # while nobody has imported it there is no masked array
            if masked is not None and isinstance(x, getattr(masked, "MaskedArray", ())):
                if np.frombuffer(masked.getmaskarray(x).tobytes(), bool).any():  # of each field, where there are some
                    raise ITEMS(f"{what} is a masked array with masked items; give x.filled(value) or x.data")
                x = masked.getdata(x)
            x = np.asarray(x)
        if x.dtype.hasobject:
            raise ITEMS(f"{what} has dtype {x.dtype}, whose items are Python objects; they cannot be moved as bytes")
        return x if x.flags.c_contiguous else np.ascontiguousarray(x)

    def kind(self, x: Array) -> str:
        return "cpu"

    def device(self, x: Array) -> str:
        return "cpu"

    def dtype(self, name: str) -> DType:
        found = COMMON_DTYPES.get(name)
        return np.dtype(name) if found is None else found  # reading a name takes as long as making a small array

    def contiguous(self, x: Array) -> bool:
        return bool(x.flags.c_contiguous)

    def empty(self, shape: Shape, dtype: DType, like: Array) -> Array:
        return np.empty(shape, dtype)

    def zeros(self, shape: Shape, dtype: DType, like: Array) -> Array:
        return np.zeros(shape, dtype)

    def address(self, x: Array) -> int:
        return int(x.__array_interface__["data"][0])

    target = address

    def native(self, x: Array) -> Array:
        dtype = x.dtype
        if not (dtype.isnative and x.flags.aligned):
            x = np.require(x, dtype.newbyteorder("="), ["C", "A"])
        flat = x.ravel()
        return flat.view(np.uint8) if dtype.kind == "b" else flat

    def result(self, x: Array) -> Array:
        assert x.dtype.isnative, "a kernel would write into a copy"
        flat = x.ravel()
        return flat.view(np.uint8) if x.dtype.kind == "b" else flat

    def floats(self, x: Any) -> Array | None:
        return x if type(x) is np.ndarray and x.dtype is COMMON_DTYPES["float32"] and x.flags.carray else None

    def astype(self, x: Array, dtype: DType) -> Array:
        if type(dtype) is str and x.dtype is COMMON_DTYPES.get(dtype) and x.flags.aligned:
            return x
        with np.errstate(all="ignore"):  # sums that are too large for float16 are infinite there
            return np.require(x, dtype, ["C", "A"])

    def item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        if type(fill) in _PLAIN and fill != 0 and size_of(item_shape) <= _FEW:
            return _item_of_number(fill, dtype, item_shape)
        return self._new_item(fill, dtype, item_shape)

    def _new_item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        value = host_value(fill)
        if value.shape not in ((), item_shape):
            raise wrong_item(fill, value.shape, item_shape)
        try:
            if value.dtype.kind == "c" and dtype.kind != "c" and not value.imag.any():
                value = value.real
            with np.errstate(all="ignore"):
                cast = value.astype(dtype) if value.dtype.kind != "c" or dtype.kind == "c" else value.real.astype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise EXACT(f"fill={quote(fill)} is not a value of {dtype}: {error}") from None
        if not same_values(value, cast):
            raise not_exact(fill, dtype, cast.tolist())
        return np.ascontiguousarray(np.broadcast_to(cast, item_shape)).reshape(-1).view(np.uint8)

    def writable(self, x: Array) -> bool:
        return bool(x.flags.c_contiguous and x.flags.writeable)

    def exp(self, x: Array) -> Array:
        return np.exp(x)

    def where(self, condition: Array, x: Array | float, y: Array | float) -> Array:
        return np.where(condition, x, y)

    def product(self, x: Array, y: Array) -> Array:
        name = self.dtype_name(x.dtype)
        if name in ("float16", "bfloat16"):  # NumPy would add up in half precision
            return (x.astype(np.float32) @ y.astype(np.float32)).astype(name)
        return super().product(x, y)

    def bits(self, x: Array) -> Array | None:
        name = self.dtype_name(x.dtype)
        if not (x.flags.carray and x.dtype.isnative) or name not in ("float16", "bfloat16"):
            return None
        found: Array | None = x.view(np.int16 if name == "float16" else np.uint16)
        return found

    def products(self, ones: Sequence[Array], others: Sequence[Array]) -> Array:
        dtype = ones[0].dtype
        if dtype.char not in "fd" or not dtype.isnative:
            return super().products(ones, others)
        counts = [(len(x), len(y)) for x, y in zip(ones, others, strict=True)]
        out: Array = np.empty(sum([a * b for a, b in counts]), dtype)
        begin = 0
        for x, y, (a, b) in zip(ones, others, counts, strict=True):
            end = begin + a * b
            np.matmul(x, y.swapaxes(0, 1), out=out[begin:end].reshape(a, b))
            begin = end
        return out

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        out: Any = np.empty((sum(len(x) for x in arrays), *arrays[0].shape[1:]), arrays[0].dtype)
        np.concatenate(arrays, out=out)  # which by itself would give native byte order
        made: Array = out
        return made

    def stack(self, items: Sequence[object], like: Array) -> Array:
        return self.adopt(np.array(items), "the result")

    def take(self, x: Array, index: Array, axis: int) -> Array:
        return np.take(x, index, axis)

    def gather(self, x: Array, index: Array, there: Array, out: Array) -> Array:
        into: Any = out
        np.take(x, index, 0, into, "clip")  # the default checks the index by way of a copy
        return out

    def overlap(self, x: Array, y: Array) -> bool:
        return np.may_share_memory(x, y)

    def copy(self, x: Array) -> Array:
        return x.copy()

    def to_numpy(self, x: Array) -> Array:
        return x

    def import_array(self, x: Array, source: Library) -> Array:
        return source.to_numpy(x)

    def from_host(self, x: Array, like: Array) -> Array:
        return x

    def to_device(self, x: Array, device: object) -> Array:
        if device_name(device) == "cpu":
            return x
        if not device_name(device).startswith("cuda"):
            raise DEVICE(f'NumPy arrays go to "cuda", as Numba device arrays, but not to {quote(device)}')
        try:
            numba = part("numba")
        except ImportError as error:
            raise DEVICE(f"NumPy arrays on {quote(device)} are Numba device arrays; numba-cuda: {error}") from None
        there: Array = numba.from_host(x, numba.device_index(device))
        return there


def _first_field(_: NumPy, x: Array) -> int:
    """`NumPy.address` in a tenth of the time: by NumPy's public C layout the first field behind the object header."""
    return _word_at(id(x) + _HEADER).value


_word_at, _HEADER = ctypes.c_ssize_t.from_address, object.__basicsize__
NUMPY = NumPy()
if sys.implementation.name == "cpython" and _first_field(NUMPY, _zero_bytes[8:]) == NUMPY.address(_zero_bytes[8:]):
    NumPy.address = NumPy.target = _first_field  # type: ignore[assignment, method-assign]


# --- one item, given by the user -------------------------------------------------------------------------------------

_PLAIN, _FEW = (int, float), 256  # numbers whose items are remembered, and the most of them in an item


@functools.lru_cache(256, typed=True)
def _item_of_number(fill: object, dtype: DType, item_shape: Shape) -> Array:
    """`NumPy.item` of a number that is not zero, to be read only: the same numbers come again and again."""
    made = NUMPY._new_item(fill, dtype, item_shape)
    made.flags.writeable = False
    return made


_ON_HOST = (int, float, complex, str, bytes, list, tuple, np.generic)


def host_value(value: object) -> Array:
    """A value or an item given by the user, as a NumPy array; ConversionError where it is neither."""
    if isinstance(value, (list, tuple)):
        check_finite(value)
    try:
        return np.asarray(value if isinstance(value, _ON_HOST) else part("lookup").to_host(value))
    except ValueError as error:
        raise EXACT(f"{quote(value)} is neither one value nor one item: {error}") from None


def not_exact(fill: object, dtype: DType, near: object) -> ConversionError:
    """The error for a padding value that the dtype cannot hold."""
    return EXACT(
        f"fill={quote(fill)} is not exact in {dtype} (it would become {quote(near)}); give a value of that dtype"
    )


def wrong_item(fill: object, given: Shape, item_shape: Shape) -> ConversionError:
    """The error for a padding value of a wrong shape."""
    return EXACT(f"fill must be one value or one item of shape {item_shape}, but has shape {given}: {quote(fill)}")


def same_values(value: Array, cast: Array) -> bool:
    """Tell whether a cast kept every value.  Integers and floats are compared exactly; NaN and NaT equal themselves."""
    if value.dtype.kind in "mMUS" or cast.dtype.kind in "mMUS":
        if value.dtype.kind != cast.dtype.kind:
            return False
        return bool(np.all((cast == value) | ((value != value) & (cast != cast))))
    pairs = zip(value.reshape(-1).tolist(), cast.reshape(-1).tolist(), strict=True)
    return all(a == b or (a != a and b != b) for a, b in pairs)
