"""Interface to an array library: whose memory it is, what its items are, how they move.

`Library` is the interface; each library is one file of this folder, and a line in `lookup.py`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..errors import DTYPE, quote
from ..lazy_import import import_now
from ..memory_checks import remember

Shape: TypeAlias = tuple[int, ...]
DType: TypeAlias = Any  # what a library calls a dtype: np.dtype, torch.dtype, ...
Key: TypeAlias = Any  # what an array is indexed with
Operand: TypeAlias = Any  # what an operator of arrays takes: an array, a number, ...

# From this size on the system hands out zeroed pages lazily, so the padding need not be written at all.
LAZY_ZEROS = 1 << 25


class Array(Protocol):
    """An array.

    Arrays of every library have the first members, from `shape` to the operators.  The others are those of NumPy's
    arrays, in which structure and all that is worked on in Python is kept; where an array may be of another library,
    its `Library` is asked instead.
    """

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def ndim(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Key, /) -> Any: ...
    def __setitem__(self, key: Key, value: Operand, /) -> None: ...
    # Any, or Pyright would compare the many forms of these two of NumPy's arrays with each other, without an end
    def reshape(self, *args: Any, **options: Any) -> Any: ...
    def view(self, *args: Any, **options: Any) -> Any: ...
    def tolist(self) -> Any: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __ne__(self, other: object, /) -> Any: ...
    def __lt__(self, other: Operand, /) -> Array: ...
    def __le__(self, other: Operand, /) -> Array: ...
    def __gt__(self, other: Operand, /) -> Array: ...
    def __ge__(self, other: Operand, /) -> Array: ...
    def __add__(self, other: Operand, /) -> Array: ...
    def __radd__(self, other: Operand, /) -> Array: ...
    def __sub__(self, other: Operand, /) -> Array: ...
    def __rsub__(self, other: Operand, /) -> Array: ...
    def __mul__(self, other: Operand, /) -> Array: ...
    def __rmul__(self, other: Operand, /) -> Array: ...
    def __truediv__(self, other: Operand, /) -> Array: ...
    def __rtruediv__(self, other: Operand, /) -> Array: ...
    def __floordiv__(self, other: Operand, /) -> Array: ...
    def __mod__(self, other: Operand, /) -> Array: ...
    def __matmul__(self, other: Operand, /) -> Array: ...
    def __and__(self, other: Operand, /) -> Array: ...
    def __or__(self, other: Operand, /) -> Array: ...
    def __xor__(self, other: Operand, /) -> Array: ...
    def __lshift__(self, other: Operand, /) -> Array: ...
    def __rshift__(self, other: Operand, /) -> Array: ...
    def __neg__(self) -> Array: ...
    def __invert__(self) -> Array: ...

    # --- NumPy's alone ---

    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def base(self) -> Any: ...
    @property
    def flags(self) -> Any: ...
    @property
    def ctypes(self) -> Any: ...
    @property
    def real(self) -> Any: ...
    @property
    def imag(self) -> Any: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __array__(self, dtype: DType = ..., /) -> np.ndarray: ...
    def __iter__(self) -> Any: ...
    def all(self, *args: Any, **options: Any) -> Any: ...
    def any(self, *args: Any, **options: Any) -> Any: ...
    def argmax(self, *args: Any, **options: Any) -> Any: ...
    def astype(self, *args: Any, **options: Any) -> Array: ...
    def copy(self, *args: Any, **options: Any) -> Array: ...
    def item(self, *args: Any, **options: Any) -> Any: ...
    def max(self, *args: Any, **options: Any) -> Any: ...
    def min(self, *args: Any, **options: Any) -> Any: ...
    def nonzero(self) -> Any: ...
    def ravel(self) -> Array: ...
    def setflags(self, *args: Any, **options: Any) -> None: ...
    def sum(self, *args: Any, **options: Any) -> Any: ...
    def swapaxes(self, *args: Any, **options: Any) -> Array: ...
    def tobytes(self, *args: Any, **options: Any) -> bytes: ...


class Differentiable(Protocol):
    """A call with a gradient, as the graph of a library sees it: arrays in, arrays out."""

    @property
    def twice(self) -> bool:
        """Tell whether the gradient depends on the inputs, so that a second one needs them."""

    def forward(self, arrays: Sequence[Array]) -> Sequence[Any]:
        """The results, outside the graph."""

    def backward(self, gradients: Sequence[Array], arrays: Sequence[Array]) -> Sequence[Array]:
        """The gradients of what was put in, from those of the results.

        `arrays` is what was put in, once more, where these gradients are differentiated themselves, and `twice`.
        """

    @property
    def by_column(self) -> bool:
        """Tell whether each number of an item is treated alone, so that items may get another axis in front."""

    @property
    def leads(self) -> Sequence[int]:
        """The number of axes of each input array before those of an item."""

    @property
    def result_leads(self) -> Sequence[int]:
        """The number of axes of each result before those of an item, once there are results."""

    def forget(self) -> None:
        """Keep nothing of what was put in but its structure, before it is run `again`."""

    def again(self, arrays: Sequence[Array]) -> Sequence[Any]:
        """The results for other arrays, which may ask for a gradient; what `forward` keeps is not touched."""


def size_of(shape: Sequence[int]) -> int:
    """The number of items in an array of this shape."""
    size = 1
    for k in shape:
        size *= k
    return size


def device_name(device: object) -> str:
    """A device by name, whatever object stands for it."""
    own = type(device).__module__ != "builtins" and not hasattr(device, "shape")  # an array is no device
    return str(device) if own or isinstance(device, str) else quote(device)


def part(name: str) -> ModuleType:
    """Another file of this folder, imported where it is first needed: one that stands above those that ask for it."""
    return import_now(f".{name}", __package__)


class Watch(threading.local):
    """Has the recorder of the call that this thread makes a plan of, see `launch.plans`."""

    recorder: Any = None

    def took(self, x: Any, zeros: bool) -> Any:
        """Tell of new memory on a device, of zeros or undefined; the array."""
        if self.recorder is not None:
            self.recorder.took(x, zeros)
        return x

    def cast(self, x: Any, made: Any) -> Any:
        """Tell of an array in another dtype; the new array."""
        if self.recorder is not None:
            self.recorder.cast(x, made)
        return made


watch = Watch()


class Library:
    """An array library: methods take arrays that `adopt` gave; new ones lie beside `like`, and on hosts are NumPy's."""

    name = ""
    bool_dtype: DType = np.dtype(bool)
    autograd = False  # True where arrays may carry a gradient that an operation must not lose
    arithmetic = True  # False where arrays cannot be compared and calculated with on their device
    fills_places = False  # True where `fill_places` is quicker than moves of few rows by kernels
    numpy_scalars = True  # False where a number of NumPy has no dtype, and one that is a bool is no number at all
    functional = False  # True where operations may have to run as a program of the library; see `connect`
    has_sparse = False  # True where a gradient may be a sparse array
    most_in_one = 0  # bytes up to which arrays that a call makes on a device have one memory, where many cost the host
    stream_bound = False  # True where memory that is given back may be taken again by its own stream alone

    # --- what an array is, and where ---

    def adopt(self, x: Array, what: str) -> Array:
        """`x` as a C-contiguous array of this library, itself where it can; TypeError where it has no plain items."""
        raise NotImplementedError

    def kind(self, x: Array) -> str:
        """The kind of device, by which kernels are found: "cpu", "cuda", ..."""
        raise NotImplementedError

    def device(self, x: Array) -> str:
        """The device by name: "cpu", "cuda:0", ..."""
        raise NotImplementedError

    def index(self, x: Array) -> int:
        """The number of the device among those of its kind."""
        return int(self.device(x).partition(":")[2] or 0)

    # --- dtypes ---

    def itemsize(self, dtype: DType) -> int:
        """Bytes of one item of this dtype."""
        return int(dtype.itemsize)

    def dtype_name(self, dtype: DType) -> str:
        """The NumPy name of a dtype: "float32", "bfloat16"."""
        try:
            return DTYPE_NAMES[dtype]
        except KeyError:  # NumPy puts it together anew each time, at many times the cost of a small sum
            name = dtype.str if dtype.kind in "SU" else dtype.name  # "str96" is no name that NumPy takes back
            return remember(DTYPE_NAMES, dtype, str(name))

    def dtype(self, name: str) -> DType:
        """The dtype of this NumPy name."""
        return np.dtype(name)

    def has_dtype(self, dtype: DType) -> bool:
        """Tell whether this is a dtype of this library."""
        return isinstance(dtype, np.dtype)

    def dtype_like(self, given: object) -> DType:
        """The dtype of this library for one of NumPy, or a name that NumPy does not know; None where there is none."""
        return given if self.has_dtype(given) else None

    def astype(self, x: Array, dtype: DType) -> Array:
        """`x` in the dtype of this NumPy name ("float32"), or in this of the library, itself where it has it."""
        raise NotImplementedError

    def settle(self, x: Array) -> Array:
        """A result in the dtype that the library has for it, where `functional`; kernels know no other integers."""
        return x

    def item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        """The bytes of one padding item, on the host; ConversionError where `fill` is not exact in `dtype`."""
        raise NotImplementedError

    # --- memory ---

    def empty(self, shape: Shape, dtype: DType, like: Array) -> Array:
        """A new array beside `like`, its contents undefined."""
        raise NotImplementedError

    def maker(self, shape: Shape, dtype: DType) -> Callable[[Array], Array]:
        """`empty` for one shape and dtype, on a device, as a function of `like`."""
        return functools.partial(self.empty, shape, dtype)

    def memory(self, like: Array, size: int) -> tuple[Any, int]:
        """Memory for several arrays beside `like`, of so many bytes, and its address; see `most_in_one`."""
        raise NotImplementedError

    def viewer(self, offset: int, shape: Shape, dtype: DType) -> Callable[[Any], Array]:
        """A C-contiguous array that begins so many bytes behind the begin of such memory, as a function of this."""
        raise NotImplementedError

    def rows(self, x: Array, begin: int, end: int) -> Array:
        """``x[begin:end]``, over the same memory."""
        found: Array = x[begin:end]
        return found

    def zeros(self, shape: Shape, dtype: DType, like: Array) -> Array:
        """A new array beside `like` of zeros (zero bytes)."""
        raise NotImplementedError

    def address(self, x: Array) -> int:
        """Give the address of the memory of `x`."""
        raise NotImplementedError

    def addresses(self, arrays: Sequence[Array]) -> Array:
        """The memory address of each array, int64."""
        return np.array([self.address(x) for x in arrays], np.int64)

    def target(self, x: Array) -> int:
        """`address`, of an array from `empty` or `zeros` that will be written."""
        return self.address(x)

    def contiguous(self, x: Array) -> bool:
        """Tell whether an array is one C-contiguous block."""
        raise NotImplementedError

    def native(self, x: Array) -> Array:
        """`x` flat, as an aligned NumPy array of native byte order; bools as bytes."""
        raise NotImplementedError

    def operand(self, x: Array) -> Array:
        """`native`, to be read only: one view for all arrays, so that a kernel is compiled once."""
        flat = self.native(x)
        flat.setflags(False)
        return flat

    def bits(self, x: Array) -> Array | None:
        """Share the memory of half precision on the host as NumPy's int16, of bfloat16 as uint16; None elsewhere."""
        return None

    def floats(self, x: object) -> Array | None:
        """The memory of anything as a NumPy array of its shape, where that is quick, else None.

        Of a plain C-contiguous array of this library, of float32 and on the host, that wants no gradient.
        """
        return None

    def result(self, x: Array) -> Array:
        """`native`, to be written: never a copy."""
        return self.native(x)

    def align(self, x: Array) -> Array:
        """`x`, or a copy of it whose address suits its items."""
        return x if self.address(x) % self.itemsize(x.dtype) == 0 else self.copy(x)

    def writable(self, x: Array) -> bool:
        """Tell whether a result may be written into `x`."""
        return self.contiguous(x)

    def mark_written(self, x: Array) -> None:
        """Tell the library that `x` has been written, where it keeps an account of that."""

    def overlap(self, x: Array, y: Array) -> bool:
        """Tell whether two contiguous arrays may have memory in common."""
        a, b = self.address(x), self.address(y)
        sizes = [size_of(z.shape) * self.itemsize(z.dtype) for z in (x, y)]
        return a < b + sizes[1] and b < a + sizes[0]

    def ready(self, x: Array, shape: Shape, dtype: DType) -> int:
        """The address of an array of a device, if it is as it was when it was validated, and no mode asks; else 0."""
        return self.address(x) if x.shape == shape and x.dtype == dtype and self.contiguous(x) else 0

    # --- lists of arrays ---

    def scan(self, items: tuple[object, ...]) -> tuple[Array, Array] | None:
        """Lengths and addresses of plain C-contiguous arrays of one device, dtype and item shape; None for others.

        None too where Python does not find that out quickly.
        """
        return None

    # --- moves ---

    def copy(self, x: Array) -> Array:
        """A copy that shares no memory."""
        raise NotImplementedError

    def to_numpy(self, x: Array) -> Array:
        """A NumPy array with the same values, copied to the host where need be."""
        raise NotImplementedError

    def first_to_numpy(self, x: Array, rows: int) -> Array:
        """`to_numpy` of the first rows."""
        return self.to_numpy(x[:rows])

    def import_array(self, x: Array, source: Library) -> Array:
        """An array of another library as one of this, over the same memory where both can reach it.

        TypeError where this library has no such dtype, DeviceError where it does not reach the device.
        """
        raise NotImplementedError

    def from_host(self, x: Array, like: Array) -> Array:
        """A NumPy array as one of this library, on the device of `like`."""
        raise NotImplementedError

    def to_device(self, x: Array, device: object) -> Array:
        """Bring the values to a device of this library."""
        raise NotImplementedError

    def send(self, x: Array, device: object, non_blocking: bool) -> Array:
        """`to_device`, which need not wait for the copy where it is `non_blocking` and the library has such copies."""
        return self.to_device(x, device)

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        """One new array of all rows."""
        raise NotImplementedError

    def stack(self, items: Sequence[object], like: Array) -> Array:
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

    def overwrite(self, x: Array, index: Array, value: Operand) -> None:
        """``x[index] = value`` for rows `index` (host, int64)."""
        x[self.from_host(index, x)] = value

    def sparse(self, index: Array, rows: Array, shape: Shape) -> Array:
        """A sparse array with `rows` at different places, rising (host, int64); where it `has_sparse` ones."""
        raise NotImplementedError

    # --- arithmetic, within the autograd graph where there is one ---

    def product(self, x: Array, y: Array) -> Array:
        """The matrix product; TypeError where the library has none."""
        try:
            out: Array = x @ y
        except (TypeError, NotImplementedError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "not implemented" not in str(error):
                raise
            raise DTYPE(f"{self.name} has no matrix product of {x.dtype}") from None
        return out

    def products(self, ones: Sequence[Array], others: Sequence[Array]) -> Array:
        """``x @ y.T`` of each pair of matrices, one behind the other in one array; there is one at least."""
        pairs = zip(ones, others, strict=True)
        return self.concatenate([self.product(x, y.swapaxes(0, 1)).reshape(-1) for x, y in pairs])

    def exp(self, x: Array) -> Array:
        """The exponential of every item."""
        raise NotImplementedError

    def function(self, name: str) -> Callable[..., Any] | None:
        """The function of single numbers that NumPy has by this name; None where the library has none."""
        return None

    def where(self, condition: Array, x: Array | float, y: Array | float) -> Array:
        """The items of `x` where the condition holds, else those of `y`; one of the two may be a number."""
        raise NotImplementedError

    def fill_places(self, x: Array, marks: Array, value: float) -> Array:
        """Put `value` into a copy of `x` where `marks`, which broadcast to it, are True; in its graph."""
        raise NotImplementedError

    def full(self, values: Sequence[float], like: Array) -> tuple[Array, ...]:
        """Arrays without axes, one for each number, of the dtype of `like` and beside it; where `fills_places`."""
        raise NotImplementedError

    # --- the autograd graph ---

    def wants_grad(self, arrays: Sequence[Array]) -> bool:
        """Tell whether one of these arrays asks for a gradient right now."""
        return False

    def alias(self, x: Array) -> Array:
        """Share the memory outside the autograd graph, for a pullback to keep."""
        return x

    def connect(self, call: Differentiable, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """``call.forward(arrays)``, connected to the autograd graph; see `wants_grad`."""
        raise NotImplementedError

    # --- mixed precision ---

    def autocasts(self, x: Array) -> bool:
        """Tell whether autocast wants items like those of `x` (see `AUTOCAST`) added up as float32 right now."""
        return False

    # --- streams of a device ---

    def stream(self, like: Array) -> int:
        """The handle of the current stream on the device of `like`."""
        raise NotImplementedError

    def lane(self, like: Array) -> tuple[int, int]:
        """The number of the device of `like`, and `stream`."""
        return self.index(like), self.stream(like)

    def upload(self, packed: Array, like: Array) -> Array:
        """Bytes (host, uint8) copied beside `like` on the current stream, without waiting for anything."""
        raise NotImplementedError

    def share(self, x: Array, like: Array) -> None:
        """Keep the memory of `x` from being taken again before the current stream is done with it."""


DTYPE_NAMES: dict[Hashable, str] = {}
"""The NumPy names of dtypes, of all libraries."""
with_autograd: list[Library] = []
"""The loaded libraries whose arrays may carry a gradient."""
functional: list[Library] = []
"""The loaded libraries whose results may have to be settled; see `Library.settle`."""
AUTOCAST: set[DType] = set()
"""The dtypes that loaded libraries may want in float32 where they are added up; see `Library.autocasts`."""
