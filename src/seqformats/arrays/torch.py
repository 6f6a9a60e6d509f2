"""PyTorch: its tensors, on the CPU and on CUDA, and its autograd graph."""

import functools
import importlib
import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .. import core
from ..errors import DEVICE, DTYPE, EXACT, ITEMS, NO_GRADIENT, TRACED, quote
from ..memory_checks import remember
from . import by_item
from .library import (
    AUTOCAST,
    DTYPE_NAMES,
    Array,
    Differentiable,
    DType,
    Library,
    Operand,
    Shape,
    part,
    size_of,
    watch,
    with_autograd,
)
from .numpy import COMMON_DTYPES, NO_BYTES, NUMPY, host_value, not_exact, wrong_item

Tensor: TypeAlias = Any  # torch.Tensor, of a package that need not be there

_OF_NUMPY: dict[DType, np.dtype] = {}
"""The same dtypes of NumPy, where it has them."""
_requires_grad = operator.attrgetter("requires_grad")


class Torch(Library):
    """PyTorch tensors, on the CPU and on CUDA."""

    name = "torch"
    has_sparse = True
    autograd = True
    numpy_scalars = False
    fills_places = True

    def __init__(self) -> None:
        self.torch = torch = sys.modules["torch"]
        self.from_numpy = torch.from_numpy
        self.plain, self.parameter, self.float32 = torch.Tensor, torch.nn.Parameter, torch.float32
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # a tenth of what a stream object takes
        self.modes = getattr(torch._C, "_len_torch_dispatch_stack", int)  # how many in Python are active
        for name, dtype in COMMON_DTYPES.items():
            if hasattr(torch, name):
                _OF_NUMPY[getattr(torch, name)] = dtype
        self.forward_mode = torch.autograd.forward_ad
        self.transforms_are_active = torch._C._are_functorch_transforms_active
        with_autograd.append(self)
        if hasattr(torch.amp, "is_autocast_available"):  # before, autocast was asked in other ways
            AUTOCAST.update((torch.float16, torch.bfloat16))
        self.bool_dtype = self.torch.bool
        core.use_torch(torch)

    def adopt(self, x: Tensor, what: str) -> Tensor:
        torch = self.torch
        if x.is_nested:
            raise ITEMS(f"{what} is a nested tensor; sf.from_njt(x) takes one, sf.convert(x, sf.Ragged) too")
        if x.layout is not torch.strided:
            raise ITEMS(f"{what} is a tensor with layout {x.layout}; only dense tensors hold plain rows")
        if x.is_quantized:
            raise ITEMS(f"{what} is a quantized tensor; give x.dequantize() or x.int_repr()")
        if x.is_meta:
            raise ITEMS(f"{what} is a meta tensor, which has no items")
        if x.dtype.is_complex and x.is_conj():
            x = x.resolve_conj()
        if x.is_neg():
            x = x.resolve_neg()
        x = x if x.is_contiguous() else x.contiguous()
        if not self._has_memory(x):
            raise ITEMS(f"{what} is a tensor without memory behind it")
        return x

    def kind(self, x: Tensor) -> str:
        return "cpu" if x.is_cpu else str(x.device.type)

    def device(self, x: Tensor) -> str:
        return "cpu" if x.is_cpu else str(x.device)

    def index(self, x: Tensor) -> int:
        index: int = x.get_device()
        return index

    def contiguous(self, x: Tensor) -> bool:
        return core.is_plain(x) or ((x.is_contiguous() or self.is_wrapped(x)) and self._has_memory(x))

    def _has_memory(self, x: Tensor) -> bool:
        """A tensor's memory can be taken away, or never have been there."""
        end = (x.storage_offset() + x.numel()) * x.dtype.itemsize
        try:
            return bool(x.numel() == 0 or (x.data_ptr() != 0 and x.untyped_storage().nbytes() >= end))
        except RuntimeError:
            if self.is_wrapped(x):
                return True
            raise TRACED(
                f"a {type(x).__name__} without items came to seqformats outside of a graph that it can be put into; "
                "torch.compile(model) can, and torch.export.export(model, ..., strict=True)"
            ) from None

    def empty(self, shape: Shape, dtype: DType, like: Tensor) -> Tensor:
        same = _OF_NUMPY.get(dtype)
        if not like.is_cpu:
            return watch.took(self.torch.empty(shape, dtype=dtype, device=like.device), zeros=False)
        if same is not None and 0 not in shape:  # the usual case, in half the time
            made = self.from_numpy(np.empty(shape, same))
            return made if type(made) is self.plain else self._with_memory(made)
        return self._allocate((np.empty, self.torch.empty), shape, dtype, like)

    def maker(self, shape: Shape, dtype: DType) -> Callable[[Tensor], Tensor]:
        make = self.torch.empty
        return lambda like: make(shape, dtype=dtype, device=like.device)

    def zeros(self, shape: Shape, dtype: DType, like: Tensor) -> Tensor:
        return self._allocate((np.zeros, self.torch.zeros), shape, dtype, like)

    def _allocate(self, make: tuple[Callable[..., Any], ...], shape: Shape, dtype: DType, like: Tensor) -> Tensor:
        torch, (on_host, elsewhere) = self.torch, make
        if not like.is_cpu:
            return watch.took(elsewhere(shape, dtype=dtype, device=like.device), zeros=elsewhere is torch.zeros)
        if 0 in shape:
            return elsewhere(shape, dtype=dtype)
        # NumPy asks for huge pages, torch does not: 40 MB cost a quarter of the time
        same = COMMON_DTYPES.get(self.dtype_name(dtype))
        if same is not None:
            made = self.from_numpy(on_host(shape, same))
            return made if type(made) is self.plain else self._with_memory(made)
        # A tensor of its own over that memory, since autograd forbids to change a view in place
        data = self.from_numpy(on_host(size_of(shape) * dtype.itemsize, np.uint8))
        storage = (data if type(data) is self.plain else self._with_memory(data)).untyped_storage()
        return torch.empty(0, dtype=dtype).set_(storage, 0, shape)

    def _with_memory(self, x: Tensor) -> Tensor:
        """A new tensor of a type that a mode has made of it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nobody should ask
            if x.data_ptr():
                return x
        raise TRACED(
            f"PyTorch gives a {type(x).__name__} without memory for a result, since FakeTensorMode is active; call "
            "seqformats outside of it"
        )

    def address(self, x: Tensor) -> int:
        try:
            address: int = x.data_ptr()
        except RuntimeError:
            address = NUMPY.address(self.show(x))
        return address

    target = address  # one call less

    def ready(self, x: Tensor, shape: Shape, dtype: DType) -> int:
        found: int | None = core.address_of(x, shape, dtype)
        if found is not None:
            return found
        if (
            x.dtype is not dtype
            or x.shape != shape
            or not x.is_contiguous()
            or (x.requires_grad and self.torch.is_grad_enabled())
            or self.transforms_are_active()
            or self.forward_mode._current_level >= 0
            or self.modes()
            or (x.__class__ is not self.plain and x.__class__ is not self.parameter)
            or x.untyped_storage().nbytes() < x.nbytes + x.storage_offset() * x.itemsize  # somebody made it smaller
        ):
            return 0
        address: int = x.data_ptr()
        return address

    def native(self, x: Tensor) -> Array:
        try:
            return NUMPY.native((x.detach() if x.requires_grad else x).numpy())
        except RuntimeError:
            return NUMPY.native(self.show(x))

    def floats(self, x: Any) -> Array | None:
        if type(x) is not self.plain or x.dtype is not self.float32 or x.requires_grad or self._transforms():
            return None
        try:
            found = x.numpy()
        except (RuntimeError, TypeError):  # without memory, or of another device
            return None
        return found if found.flags.carray and self._has_memory(x) else None

    def bits(self, x: Tensor) -> Array | None:
        torch = self.torch
        if type(x) not in (self.plain, torch.nn.Parameter) or x.device.type != "cpu" or not self._has_memory(x):
            return None
        if x.dtype not in (torch.float16, torch.bfloat16) or self._transforms() or not x.is_contiguous():
            return None
        found: Array = x.detach().view(torch.int16).numpy()
        return found if x.dtype == torch.float16 else found.view(np.uint16)

    def unwrap(self, x: Tensor) -> Tensor:
        """Return the tensor that `torch.func.grad` or `jvp` have wrapped, or the tensor itself."""
        inside = self.torch._C._functorch
        while inside.is_gradtrackingtensor(x):
            x = inside.get_unwrapped(x)
        return x

    def show(self, x: Tensor) -> Array:
        """The memory of the plain tensor in one that `torch.func.grad` or `jvp` has wrapped, for what has no gradient.

        It may be a plain one that is beside such.

        TypeError where there is none: several stand behind one that `vmap` has wrapped, and none behind a fake one.
        """
        inside, given = self.torch._C._functorch, x
        x = self.unwrap(x)
        if inside.is_functorch_wrapped_tensor(x):
            raise TRACED(
                "what is asked for depends on the items themselves, and torch.func.vmap has several tensors where one "
                "is seen; do it before vmap, or in a loop"
            )
        if self.is_wrapped(x):
            raise TRACED("what is asked for depends on the items themselves, and a fake tensor has none")
        if x is given and not self.transforms_are_active():
            raise ITEMS("the memory of this tensor cannot be read")
        with importlib.import_module("torch._functorch.pyfunctorch").temporarily_clear_interpreter_stack():
            host: Array = x.detach().numpy()  # which else would be wrapped again
            return host

    def astype(self, x: Tensor, dtype: DType) -> Tensor:
        wanted = getattr(self.torch, dtype) if type(dtype) is str else dtype
        return x if x.dtype is wanted else watch.cast(x, x.to(wanted))

    def dtype_name(self, dtype: DType) -> str:
        try:
            return DTYPE_NAMES[dtype]
        except KeyError:
            return remember(DTYPE_NAMES, dtype, str(dtype).removeprefix("torch."))

    def dtype(self, name: str) -> DType:
        return getattr(self.torch, name)

    def dtype_like(self, given: object) -> DType:
        name = NUMPY.dtype_name(given) if isinstance(given, np.dtype) else given
        found = getattr(self.torch, name, None) if isinstance(name, str) and name.isidentifier() else None
        return found if self.has_dtype(found) else None

    def has_dtype(self, dtype: DType) -> bool:
        return isinstance(dtype, self.torch.dtype)

    def alias(self, x: Tensor) -> Tensor:
        return x.detach()

    def item(self, fill: object, dtype: DType, item_shape: Shape) -> Array:
        torch = self.torch
        if isinstance(fill, torch.Tensor):
            if self.wants_grad((fill,)):
                raise NO_GRADIENT("fill has no gradient; give fill.detach()")
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
            raise EXACT(f"fill={quote(fill)} is not a value of {dtype}: {error}") from None
        before, after = value.reshape(-1).tolist(), cast.reshape(-1).tolist()
        if not all(a == b or (a != a and b != b) for a, b in zip(before, after, strict=True)):
            raise not_exact(fill, dtype, cast.tolist())
        # one item alone counts as contiguous whatever its strides, and is then no bytes
        item = cast.reshape(tuple(value.shape)).expand(item_shape).clone(memory_format=torch.contiguous_format).view(-1)
        return self.native(item.view(torch.uint8)) if item.numel() else NO_BYTES

    def writable(self, x: Tensor) -> bool:
        return self.contiguous(x) and not x.requires_grad

    def mark_written(self, x: Tensor) -> None:
        x[:0].zero_()  # counts as a change of the whole tensor, so autograd notices where it had been saved

    def exp(self, x: Tensor) -> Tensor:
        return self.torch.exp(x)

    def function(self, name: str) -> Callable[..., Any] | None:
        torch = self.torch
        found: Callable[..., Any] | None = getattr(torch, by_item.find_torch_name(name) or "no function", None)
        if found is None:
            return None

        def of_tensors(*operands: Any) -> Tensor:
            """With numbers as tensors without axes, which promote as numbers do and which every function takes."""
            like = next(x for x in operands if isinstance(x, torch.Tensor))
            return found(*[torch.as_tensor(x, device=like.device) for x in operands])

        of_tensors.__name__ = name
        return of_tensors

    def fill_places(self, x: Tensor, marks: Tensor, value: float) -> Tensor:
        return x.masked_fill(marks, value)

    def full(self, values: Sequence[float], like: Tensor) -> tuple[Tensor, ...]:
        return tuple([self.torch.tensor(value, dtype=like.dtype, device=like.device) for value in values])

    def where(self, condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
        return self.torch.where(condition, x, y)

    def concatenate(self, arrays: Sequence[Tensor]) -> Tensor:
        return self.torch.cat(tuple(arrays))

    def stack(self, items: Sequence[object], like: Tensor) -> Tensor:
        torch = self.torch
        return torch.stack([item if isinstance(item, torch.Tensor) else torch.as_tensor(item) for item in items]).to(
            like.device
        )

    def products(self, ones: Sequence[Tensor], others: Sequence[Tensor]) -> Tensor:
        """The products ``x @ y.T`` of matrices pair by pair, one flat tensor after the other."""
        if self.wants_grad((ones[0], others[0])):
            return super().products(ones, others)
        like, mm = ones[0], self.torch.mm
        shapes = [(x.shape[0], y.shape[0]) for x, y in zip(ones, others, strict=True)]
        sizes = [a * b for a, b in shapes]
        out = self.empty((sum(sizes),), like.dtype, like)
        for x, y, piece, shape in zip(ones, others, out.split_with_sizes(sizes), shapes, strict=True):
            mm(x, y.t(), out=piece.view(shape))
        return out

    def split(self, x: Tensor, lengths: Array, offsets: Array) -> tuple[Tensor, ...]:
        return tuple(x.split_with_sizes(lengths.tolist())) if lengths.size else ()

    def take(self, x: Tensor, index: Array, axis: int) -> Tensor:
        plain = self._selectable(x)
        chosen = plain.index_select(axis, self.from_host(index, x))
        return chosen if plain is x else chosen.view(x.dtype)  # integers alone, so no graph is lost

    def gather(self, x: Tensor, index: Array, there: Tensor, out: Tensor) -> Tensor:
        self.torch.index_select(self._selectable(x), 0, there, out=self._selectable(out))
        return out

    def sparse(self, index: Array, rows: Tensor, shape: Shape) -> Tensor:
        places = self.from_host(index.reshape(1, -1), rows)
        return self.torch.sparse_coo_tensor(places, rows, shape, is_coalesced=True, check_invariants=False)

    def overwrite(self, x: Tensor, index: Array, value: Operand) -> None:
        plain = self._selectable(x)
        if x.is_floating_point():
            value = float(value)  # torch takes no integer beyond int64
        elif plain is not x:
            value = np.array(value, self.dtype_name(x.dtype)).view(self.dtype_name(plain.dtype)).item()
        plain[self.from_host(index, x)] = value

    def _selectable(self, x: Tensor) -> Tensor:
        """`x`, or where torch can neither select nor assign its dtype, the same bits as another."""
        other = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}.get(self.dtype_name(x.dtype))
        return x if other is None else x.view(self.dtype(other))

    def scan(self, items: tuple[Tensor, ...]) -> tuple[Array, Array] | None:
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

    def copy(self, x: Tensor) -> Tensor:
        return x.clone()

    def to_numpy(self, x: Tensor) -> Array:
        try:
            host: Array = x.detach().cpu().numpy()
        except RuntimeError:
            if not self.is_wrapped(x):
                raise
            return self.show(x)
        except TypeError:
            raise DTYPE(f"NumPy has no dtype for {x.dtype}; give a tensor of another one") from None
        return host

    def import_array(self, x: Array, source: Library) -> Tensor:
        torch = self.torch
        if source.kind(x) != "cpu":
            try:
                return torch.as_tensor(x, device=source.device(x))
            except (TypeError, ValueError, RuntimeError, AssertionError) as error:
                raise DEVICE(f"torch cannot reach the device {source.device(x)}: {error}") from None
        host = source.to_numpy(x)
        dtype = self.dtype_like(host.dtype)
        if dtype is None:
            raise DTYPE(f"torch has no dtype for {host.dtype}; give items of another one")
        if not (host.flags.carray and host.dtype.isnative):
            # torch warns of memory that nobody may write to, and knows no other order of bytes
            host = np.require(host, host.dtype.newbyteorder("="), ["C", "A", "W"])
        if dtype is torch.bfloat16:  # NumPy has it from another package
            return torch.from_numpy(host.view(np.int16)).view(dtype)
        return torch.from_numpy(host)

    def from_host(self, x: Array, like: Tensor) -> Tensor:
        host = np.array(x)
        host = host.astype(host.dtype.newbyteorder("="), copy=False)
        try:
            made = self.torch.from_numpy(host)
        except TypeError:
            raise DTYPE(f"torch has no dtype for {host.dtype}; give items of another one") from None
        return made.to(like.device, non_blocking=True)

    def to_device(self, x: Tensor, device: object) -> Tensor:
        return self.send(x, device, False)

    def send(self, x: Tensor, device: object, non_blocking: bool) -> Tensor:
        try:
            return x.to(self.torch.device(device), non_blocking=non_blocking)
        except (TypeError, ValueError, RuntimeError, AssertionError, OverflowError) as error:
            raise DEVICE(f"torch cannot reach the device {quote(device)}: {error}") from None

    def wants_grad(self, arrays: Sequence[Tensor]) -> bool:
        if self.torch.is_grad_enabled() and any(map(_requires_grad, arrays)):
            return True
        return self._transforms() and any(map(self._carries, arrays))

    def _transforms(self) -> bool:
        """May there be tensors that carry more than `requires_grad` says: wrapped by torch.func, or with tangents?"""
        return bool(self.transforms_are_active()) or self.forward_mode._current_level >= 0

    def _carries(self, x: Tensor) -> bool:
        """Tell whether this is such a tensor."""
        if self.is_wrapped(x):
            return True
        forward_mode = self.forward_mode
        if forward_mode._current_level < 0 or not self.torch._C._is_fwd_grad_enabled():
            return False
        return bool(forward_mode.unpack_dual(x).tangent is not None)

    def is_wrapped(self, x: Tensor) -> bool:
        """Tell whether a transformation of torch.func wraps this tensor, so that there is no memory behind it.

        Plain tensors are never asked: one that cannot show its memory is.
        """
        return bool(self.torch._C._functorch.is_functorch_wrapped_tensor(x))

    def connect(self, call: Differentiable, arrays: Sequence[Tensor]) -> tuple[Tensor, ...]:
        functions = _functions()
        operate = functions.operate
        if self._transforms() and (self.transforms_are_active() or any(map(self._carries, arrays))):
            operate = functions.transform
        outputs: tuple[Tensor, ...] = operate(self, call, *arrays)
        return outputs

    def autocasts(self, x: Tensor) -> bool:
        torch, kind = self.torch, self.kind(x)
        return bool(torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind))

    def stream(self, like: Tensor) -> int:
        return self.lane(like)[1]

    def lane(self, like: Tensor) -> tuple[int, int]:
        index, handle = like.get_device(), self.raw_stream
        if handle is None:
            return index, int(self.torch.cuda.current_stream(index).cuda_stream)
        return index, handle(index)

    def upload(self, packed: Array, like: Tensor) -> Tensor:
        # torch takes pinned memory again only after the copy, which it cannot know of the replays of a graph
        pinned = self.torch.empty(packed.size, dtype=self.torch.uint8, pin_memory=True)
        pinned.numpy()[:] = packed
        return pinned.to(like.device, non_blocking=True)

    def share(self, x: Tensor, like: Tensor) -> None:
        x.record_stream(self.torch.cuda.current_stream(like.device))


@functools.cache
def _functions() -> Any:
    """The functions of the graph that stand for every call; loaded here, where torch is known to be there."""
    return part("functions")
