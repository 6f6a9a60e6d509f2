"""JAX: its arrays, and what stands for them where JAX traces a program.

Arrays with values on the host are read where they lie, by the kernels of the host, once JAX has them ready.  What is
made new is memory of NumPy that JAX takes as it is, which is filled before anybody else has seen it: nothing is ever
written but through the NumPy array that owns it, and only where JAX is seen to have taken it.  Arrays without values
(tracers), and those elsewhere, go through `Jax.connect` as `Cell`, whose kind of device is "program": there kernels
are programs of JAX, see `launch.program`.
"""

from __future__ import annotations

import contextlib
import operator
import re
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..errors import CHANGED, DEVICE, DEVICES, DTYPE, ITEMS, MIXED, TRACED, quote
from .library import (
    Array,
    Differentiable,
    DType,
    Key,
    Library,
    Operand,
    Shape,
    device_name,
    functional,
    size_of,
    with_autograd,
)
from .numpy import NUMPY

JaxArray: TypeAlias = Any  # jax.Array, of a package that need not be there

_ALIGNED = 64  # bytes, as JAX wants memory of others before it takes it as it is


class Jax(Library):
    """JAX arrays."""

    name = "jax"
    autograd = True
    functional = True

    def __init__(self) -> None:
        self.jax = jax = sys.modules["jax"]
        self.numpy = jax.numpy
        self.tracer = jax.core.Tracer
        self.wide = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        self.own: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
        with_autograd.append(self)
        functional.append(self)

    def on_host(self, x: JaxArray) -> bool:
        """Tell whether it has values, in the memory of the host."""
        # a deleted array must not be asked where it is, which ends the process
        return not isinstance(x, (Cell, self.tracer)) and not x.is_deleted() and bool(x.platform() == "cpu")

    def adopt(self, x: JaxArray, what: str) -> JaxArray:
        if isinstance(x, Cell):
            return x
        if self.jax.dtypes.issubdtype(x.dtype, self.jax.dtypes.extended):
            raise ITEMS(f"{what} has dtype {x.dtype}, which is no number; jax.random.key_data(keys) gives numbers")
        if _NARROW.fullmatch(x.dtype.name):
            raise ITEMS(f"{what} has dtype {x.dtype}, whose items are less than a byte; give x.astype('int8')")
        if isinstance(x, self.tracer):
            return x
        if x.is_deleted():
            raise ITEMS(f"{what} is a JAX array that has been deleted or donated")
        if len(x.devices()) > 1:
            raise ITEMS(f"{what} is on {len(x.devices())} devices; give jax.device_put(x, one_device)")
        return x if self._dense(x) else self._copy_from_host(np.asarray(x), x)

    def kind(self, x: JaxArray) -> str:
        return "cpu" if self.on_host(x) else "program"

    def device(self, x: JaxArray) -> str:
        # what is traced says nothing of a device, and most likely runs on the default one
        device = self.jax.devices()[0] if isinstance(x, (Cell, self.tracer)) else next(iter(x.sharding.device_set))
        return "cpu" if device.platform == "cpu" and not device.id else f"{device.platform}:{device.id}"

    def contiguous(self, x: JaxArray) -> bool:
        if isinstance(x, (Cell, self.tracer)):
            return True
        if x.is_deleted():
            raise CHANGED("data is a JAX array that has been deleted or donated; build a new batch")
        if len(x.devices()) > 1:
            raise MIXED(f"data is on {len(x.devices())} devices; give jax.device_put(x, one_device)")
        return self._dense(x)

    def _dense(self, x: JaxArray) -> bool:
        """Tell whether its items lie in order.  On other devices that does not matter."""
        return x.platform() != "cpu" or bool(np.asarray(x).flags.c_contiguous)

    # --- dtypes ---

    def dtype_like(self, given: object) -> DType:
        known = isinstance(given, np.dtype) and given.kind in "biufcV" and given.itemsize <= 16
        if not known:
            return None
        try:
            found = self.jax.dtypes.canonicalize_dtype(given)
        except TypeError:
            return None
        return None if _NARROW.fullmatch(np.dtype(found).name) else np.dtype(found)

    def astype(self, x: JaxArray, dtype: DType) -> JaxArray:
        dtype = np.dtype(dtype)
        if type(x) is np.ndarray or x.dtype == dtype:
            return x if x.dtype == dtype else NUMPY.astype(x, dtype)
        if isinstance(x, Cell):
            return Cell(self, self._cast(x.value, dtype))
        return self._copy_from_host(NUMPY.astype(np.asarray(x), dtype), x) if self.on_host(x) else self._cast(x, dtype)

    def settle(self, x: JaxArray) -> JaxArray:
        dtype = self.jax.dtypes.canonicalize_dtype(x.dtype)
        return x if x.dtype == dtype else self.astype(x, dtype)

    def _cast(self, x: JaxArray, dtype: DType) -> JaxArray:
        """A conversion in JAX, which keeps 64 bits to itself where they are not switched on."""
        if x.dtype.kind == "c" and dtype.kind in "fV":
            x = x.real
        return self.jax.lax.convert_element_type(x, self.jax.dtypes.canonicalize_dtype(dtype))

    def item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        if isinstance(fill, self.tracer):
            raise TRACED("fill must be a value, not what JAX traces; give a number")
        return NUMPY.item(fill, dtype, item_shape)

    # --- memory ---

    def empty(self, shape: Shape, dtype: DType, like: JaxArray) -> JaxArray:
        return self._allocate(np.empty, shape, dtype, like)

    def zeros(self, shape: Shape, dtype: DType, like: JaxArray) -> JaxArray:
        return self._allocate(np.zeros, shape, dtype, like)

    def _allocate(self, make: Callable[..., Array], shape: Shape, dtype: DType, like: JaxArray) -> JaxArray:
        if isinstance(like, Cell):
            zeros = self.numpy.zeros(shape, self.jax.dtypes.canonicalize_dtype(dtype))
            return Cell(self, zeros, np.dtype(dtype))
        self._check_values(like)
        if isinstance(like, self.jax.Array) and not self.on_host(like):
            raise DEVICE(f"this works on the host, not on {self.device(like)}; sf.to_device(x, 'cpu') brings it there")
        out = self._put(_allocate_aligned(make, shape, np.dtype(dtype)), like)
        if size_of(shape) and self._memory(out) is None:
            raise DEVICES(f"JAX has copied what should be a result on {self.device(out)}, which cannot be written")
        return out

    def _check_values(self, x: JaxArray) -> None:
        """TypeError for what only stands for values."""
        if isinstance(x, (Cell, self.tracer)):
            raise TRACED(
                "this works on the values of arrays, which are not there where JAX traces a program; call it outside "
                "of jax.jit, jax.grad and jax.vmap"
            )

    def _put(self, x: Array, like: JaxArray) -> JaxArray:
        """Private memory (`_allocate_aligned`) as an array of JAX beside `like`; without a copy where that can be."""
        wide = self.wide(True) if x.dtype.itemsize >= 8 else contextlib.nullcontext()
        with self.jax.ensure_compile_time_eval(), wide:  # within a program that is traced it would be traced too
            out = self.jax.device_put(x, self._place(like))
        if x.size and out.platform() == "cpu":
            address = NUMPY.address(x)
            if out.unsafe_buffer_pointer() == address:
                self.own[address] = x.base
        return out

    def _place(self, like: JaxArray) -> Any:
        """The device of `like`; None where JAX would take that one by itself, and may move the array later."""
        if not isinstance(like, self.jax.Array) or isinstance(like, self.tracer):
            return None
        (device,) = like.devices()
        usual = self.jax.config.jax_default_device or self.jax.local_devices()[0]
        return device if like.committed or device != usual else None

    def _memory(self, x: JaxArray) -> Array | None:
        """The bytes of NumPy that an array is made of, which JAX keeps alive; None where it is not one from here."""
        address = x.unsafe_buffer_pointer()
        owner = self.own.get(address)
        if owner is None:
            return None
        begin = address - NUMPY.address(owner)
        memory: Array = owner[begin : begin + size_of(x.shape) * x.dtype.itemsize]
        return memory

    def _copy_from_host(self, x: Array, like: JaxArray) -> JaxArray:
        """A copy of an array of the host beside `like`."""
        out = _allocate_aligned(np.empty, x.shape, x.dtype.newbyteorder("="))
        out[...] = x
        return self._put(out, like)

    def address(self, x: JaxArray) -> int:
        if isinstance(x, Cell):
            return NUMPY.address(x.shadow())
        if isinstance(x, self.tracer):
            return 0  # nothing is read there: what is new beside it cannot be made
        return NUMPY.address(np.asarray(x))

    def target(self, x: JaxArray) -> int:
        return self.address(x) if isinstance(x, (Cell, self.tracer)) else NUMPY.address(self._writable(x))

    def native(self, x: JaxArray) -> Array:
        self._check_values(x)
        return NUMPY.native(np.asarray(x))

    def operand(self, x: JaxArray) -> Array:
        flat: Array = self.native(x)[...]
        flat.setflags(False)
        return flat

    def result(self, x: JaxArray) -> Array:
        return NUMPY.result(self._writable(x))

    def _writable(self, x: JaxArray) -> Array:
        """An array from here that only we know yet, as one that can be written."""
        if not size_of(x.shape):
            return np.empty(x.shape, x.dtype)
        memory = self._memory(x)
        if memory is None:
            raise DEVICES("this array is memory of JAX, into which nobody may write")
        out: Array = memory.view(x.dtype).reshape(x.shape)
        return out

    def align(self, x: JaxArray) -> JaxArray:
        return x

    def writable(self, x: JaxArray) -> bool:
        return False

    def overlap(self, x: JaxArray, y: JaxArray) -> bool:
        return False  # nobody writes into either

    # --- moves ---

    def copy(self, x: JaxArray) -> JaxArray:
        if isinstance(x, Cell):
            return Cell(self, x.value)
        return self._copy_from_host(np.asarray(x), x) if self.on_host(x) else self.numpy.array(x)

    def to_numpy(self, x: JaxArray) -> Array:
        self._check_values(x)
        return np.asarray(x)

    def import_array(self, x: Array, source: Library) -> JaxArray:
        if source.kind(x) != "cpu":
            try:
                return self.numpy.from_dlpack(x)
            except Exception as error:  # of either library
                raise DEVICE(f"JAX cannot reach the device {source.device(x)}: {error}") from None
        host = source.to_numpy(x)
        dtype = self.dtype_like(host.dtype.newbyteorder("="))
        if dtype is None:
            raise DTYPE(f"JAX has no dtype for {host.dtype}; give items of another one")
        return self._copy_from_host(host.astype(dtype, copy=False), None)

    def from_host(self, x: Array, like: JaxArray) -> JaxArray:
        if isinstance(like, self.tracer):
            return x  # a constant of the program
        return (
            Cell(self, self.numpy.asarray(x)) if isinstance(like, Cell) else self._copy_from_host(np.asarray(x), like)
        )

    def to_device(self, x: JaxArray, device: object) -> JaxArray:
        kind, _, number = device_name(device).partition(":")
        try:
            where = self.jax.devices(kind)[int(number or 0)] if isinstance(device, str) else device
            return self.jax.device_put(x, where)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            raise DEVICE(f"JAX cannot reach the device {quote(device)}: {error}") from None

    def _apply(self, in_numpy: Callable[..., Array], in_jax: Callable[..., Any], *arrays: JaxArray) -> JaxArray:
        """A function of arrays: NumPy's where all have values on the host, else JAX's, of cells where one is one."""
        own = [x for x in arrays if isinstance(x, (Cell, self.jax.Array))]
        if all(map(self.on_host, own)):
            return self._copy_from_host(np.asarray(in_numpy(*map(self._show, arrays))), own[0])
        found = in_jax(*[x.value if isinstance(x, Cell) else x for x in arrays])
        return Cell(self, found) if any(isinstance(x, Cell) for x in own) else found

    def _show(self, x: JaxArray) -> JaxArray:
        return np.asarray(x) if isinstance(x, self.jax.Array) else x

    def concatenate(self, arrays: Sequence[JaxArray]) -> JaxArray:
        return self._apply(lambda *given: np.concatenate(given), lambda *given: self.numpy.concatenate(given), *arrays)

    def stack(self, items: Sequence[object], like: JaxArray) -> JaxArray:
        return self._apply(lambda _, *given: np.stack(given), lambda _, *given: self.numpy.stack(given), like, *items)

    def split(self, x: JaxArray, lengths: Array, offsets: Array) -> tuple[JaxArray, ...]:
        pairs = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
        if self.on_host(x):  # JAX would compile a slice for each length
            seen = np.asarray(x)
            return tuple([self._copy_from_host(seen[a:b], x) for a, b in pairs])
        return tuple([x[a:b] for a, b in pairs])

    def take(self, x: JaxArray, index: Array, axis: int) -> JaxArray:
        return self._apply(
            lambda given: np.take(given, index, axis), lambda given: self.numpy.take(given, index, axis), x
        )

    def gather(self, x: JaxArray, index: Array, there: Array, out: JaxArray) -> JaxArray:
        return self.take(x, index, 0)

    def overwrite(self, x: JaxArray, index: Array, value: Operand) -> None:
        if type(x) is np.ndarray or isinstance(x, Cell):
            x[index] = value
        else:
            self._writable(x)[index] = value

    # --- arithmetic ---

    def product(self, x: JaxArray, y: JaxArray) -> JaxArray:
        return self._apply(NUMPY.product, self._product, x, y)

    def _product(self, x: JaxArray, y: JaxArray) -> JaxArray:
        """In float32 at least, and not in what a device thinks is near enough."""
        return self.numpy.matmul(x, y, precision="highest")

    def exp(self, x: JaxArray) -> JaxArray:
        return self._apply(np.exp, self.numpy.exp, x)

    def function(self, name: str) -> Callable[..., Any] | None:
        return getattr(self.numpy, name, None)

    def where(self, condition: JaxArray, x: Operand, y: Operand) -> JaxArray:
        def on_host(condition: Array, a: Array, b: Array) -> Array:
            dtype = self.numpy.result_type(x, y)  # by the rules of JAX, not of NumPy
            return np.where(condition, np.asarray(a, dtype), np.asarray(b, dtype))

        return self._apply(on_host, self.numpy.where, condition, x, y)

    # --- the programs that JAX traces ---

    def wants_grad(self, arrays: Sequence[JaxArray]) -> bool:
        """Tell whether they go through `connect`.  Those without values do, and those that are not on the host."""
        return any(isinstance(x, self.jax.Array) and not self.on_host(x) for x in arrays)

    def connect(self, call: Differentiable, arrays: Sequence[JaxArray]) -> tuple[JaxArray, ...]:
        """Run the calculation as a program of JAX, whose gradients are JAX's own."""
        given: list[Any] = [Cell(self, x) if isinstance(x, self.jax.Array) else x for x in arrays]
        found = [x.value if isinstance(x, Cell) else x for x in call.again(given)]
        return tuple([self.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in found])


_NARROW = re.compile("u?int[124]|float[46]_.*")


def _allocate_aligned(make: Callable[..., Array], shape: Shape, dtype: DType) -> Array:
    """Memory that JAX takes as it is."""
    size = size_of(shape) * dtype.itemsize
    memory = make(size + _ALIGNED, np.uint8)
    begin = -NUMPY.address(memory) % _ALIGNED
    out: Array = memory[begin : begin + size].view(dtype).reshape(shape)
    return out


class Cell:
    """A value of a program that JAX traces, where a kernel can write: arrays of JAX never change.

    It is what stands for arrays inside of `Jax.connect`, and is seen nowhere else.
    """

    __slots__ = ("blank", "dtype", "library", "memory", "shape", "value")

    shape: Shape
    blank: DType  # of zeros where nothing has been written yet, what was asked for; else None

    def __init__(self, library: Jax, value: JaxArray, blank: DType = None) -> None:
        self.library = library
        self.memory: Array | None = None
        self.write(value, blank)

    def write(self, value: JaxArray, blank: DType = None) -> None:
        """Let it be another value."""
        self.value = value
        self.blank = blank
        self.shape = tuple(value.shape)
        self.dtype = value.dtype

    def shadow(self) -> Array:
        """Bytes on the host that have an address in its stead."""
        if self.memory is None:
            self.memory = np.empty(max(self.nbytes, 1), np.uint8)
        return self.memory

    @property
    def nbytes(self) -> int:
        return size_of(self.shape) * int(self.dtype.itemsize)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Key) -> Cell:
        return Cell(self.library, self.value[_plain(key)])

    def __setitem__(self, key: Key, value: Operand) -> None:
        self.write(self.value.at[_plain(key)].set(_plain(value)))

    def reshape(self, *shape: Operand) -> Cell:
        return Cell(self.library, self.value.reshape(*shape))

    def view(self, dtype: DType) -> Cell:
        if self.dtype.kind not in "iub":  # JAX would take it for something without a gradient
            self.library._check_values(self)
        return Cell(self.library, self.value.view(dtype))

    def sum(self, axis: int) -> Cell:
        return Cell(self.library, self.value.sum(axis))

    def swapaxes(self, one: int, two: int) -> Cell:
        return Cell(self.library, self.value.swapaxes(one, two))

    __hash__ = object.__hash__


def _plain(x: Operand) -> Operand:
    return tuple(map(_plain, x)) if isinstance(x, tuple) else x.value if isinstance(x, Cell) else x


def _operators() -> None:
    """Give `Cell` the operators of arrays."""

    def of_two(function: Callable[..., Any], turned: bool) -> Callable[[Cell, Operand], Cell]:
        def calculate(self: Cell, other: Operand) -> Cell:
            a, b = _plain(self), _plain(other)
            return Cell(self.library, function(b, a) if turned else function(a, b))

        return calculate

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "and_", "or_", "xor"):
        function = getattr(operator, name)
        setattr(Cell, f"__{name.rstrip('_')}__", of_two(function, False))
        setattr(Cell, f"__r{name.rstrip('_')}__", of_two(function, True))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Cell, f"__{name}__", of_two(getattr(operator, name), False))
    for name in ("neg", "invert"):
        function = getattr(operator, name)
        setattr(Cell, f"__{name}__", lambda self, function=function: Cell(self.library, function(self.value)))


_operators()
