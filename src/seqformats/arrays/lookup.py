"""The table of array libraries, and how arrays of other libraries are read.

Only NumPy is imported here.  Another library is known if the caller has imported it, or names it.  A new one needs a
file in this folder, and lines in `_KNOWN`, `_CLASSES` and `TITLES`.
"""

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import numpy as np

from ..errors import BATCH, CHOICE, DEVICE, DTYPE, ITEMS, KIND, TOGETHER, quote
from ..memory_checks import check_finite, remember
from .library import Array, DType, Library, Shape, part
from .numpy import NUMPY

T = TypeVar("T")
X = TypeVar("X")


_made_of: dict[str, Library] = {}  # by package: the one object for all its types of arrays
_making = threading.Lock()


def _import_library(package: str, library: str) -> Library:
    """Return the `Library` of a package: an object of that class, in the file of this folder for the package."""
    if package not in _made_of:
        importlib.import_module(package)
        kind = getattr(part(package), library)  # imported before the lock is taken, since imports have locks, too
        with _making:  # where threads ask at once, they get the same object
            if package not in _made_of:
                _made_of[package] = kind()
    return _made_of[package]


def _find_package(package: str, array: str, library: str) -> Callable[[type], Library | None]:
    """Make an entry of `_KNOWN`: the library for a type of array, if it is one of a package that is imported."""

    def ask(kind: type) -> Library | None:
        owner = getattr(sys.modules.get(package), array, None)  # None while the package is being imported, too
        return _import_library(package, library) if owner is not None and issubclass(kind, owner) else None

    return ask


def _is_numpy(kind: type) -> Library | None:
    return NUMPY if issubclass(kind, np.ndarray) else None


def _is_jax(kind: type) -> Library | None:
    """Know arrays of JAX, those that it traces, and the `Cell` that stands for an array in this library."""
    package = sys.modules.get("jax")
    if package is None or not hasattr(package, "Array"):
        return None
    own = issubclass(kind, (package.Array, package.core.Tracer)) or kind.__module__ == f"{__package__}.jax"
    return _import_library("jax", "Jax") if own else None


def _is_numba_device(kind: type) -> Library | None:
    return _import_library("numba", "NumbaDevice") if getattr(kind, "__cuda_ndarray__", False) else None


# Asked in this order; each returns its library for a type of its arrays, else None.
_KNOWN: list[Callable[[type], Library | None]] = [
    _is_numpy,
    _find_package("torch", "Tensor", "Torch"),
    _find_package("cupy", "ndarray", "CuPy"),
    _is_jax,
    _is_numba_device,
]

_CLASSES = {"torch": "Torch", "cupy": "CuPy", "jax": "Jax", "numba": "NumbaDevice"}
"""Classes of the libraries that a caller may name beside NumPy, by package."""
TITLES = {"numpy": "NumPy", "torch": "PyTorch", "cupy": "CuPy", "jax": "JAX", "numba": "Numba"}
"""Names of the libraries in sentences, by what a caller calls them."""

_by_type: dict[type, Library | None] = {np.ndarray: NUMPY}


def library_of_type(kind: type) -> Library | None:
    """Return the library whose arrays have this type; None where none is known."""
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


def library_named(name: object) -> Library:
    """Import the library that a caller names; ConversionError if the name is unknown, or it is not installed."""
    if not isinstance(name, str):
        raise KIND(f"library must be a name, not {quote(name)}")
    if name == NUMPY.name:
        return NUMPY
    if name not in _CLASSES:
        raise CHOICE(f"library must be one of {', '.join([NUMPY.name, *_CLASSES])}, not {quote(name)}")
    try:
        return _import_library(name, _CLASSES[name])
    except ImportError as error:
        package = "numba-cuda" if name == "numba" else name
        raise TOGETHER(f"{name} cannot be imported ({error}); pip install {package}") from None


def dtype_in(library: Library, given: object) -> DType:
    """Return the dtype of `library` for a dtype of any library, or for anything that NumPy reads as a dtype."""
    if isinstance(given, (list, tuple)):
        check_finite(given)
    meant: Any = given
    for package, kind in _CLASSES.items():
        if type(given).__module__ == package and package in sys.modules:
            other = _import_library(package, kind)
            meant = other.dtype_name(given) if other.has_dtype(given) else given
    why = ""
    try:
        dtype = None if meant is None else np.dtype(meant)
    except Exception as error:  # NumPy calls what it finds there
        dtype, why = None, f": {error}"
    if dtype is not None and dtype.hasobject:
        raise ITEMS(f"dtype cannot be {dtype}, whose items are Python objects")
    found = library.dtype_like(meant if dtype is None else dtype)
    if found is None:
        raise DTYPE(f"dtype must be a dtype of {TITLES[library.name]}, not {quote(given)}{why}")
    return found


def library_of(x: Array) -> Library:
    """Return the library of an array that `adopt` has returned."""
    library = _by_type.get(type(x)) or library_of_type(type(x))
    if library is None:
        raise BATCH(f"{type(x).__name__} is not an array of a library known here")
    return library


def plain(data: Array, dtype: DType, shape: Shape) -> Library | None:
    """Return the library of a contiguous array on the host with this dtype and shape, without a gradient; else None."""
    if type(data) is np.ndarray:
        same = data.shape == shape and data.dtype == dtype and data.flags.c_contiguous
        return NUMPY if same else None
    library = library_of(data)
    if library.autograd and library.wants_grad((data,)):
        return None
    if data.shape != shape or data.dtype != dtype or not library.contiguous(data) or library.kind(data) != "cpu":
        return None
    return library


def is_array(x: object) -> TypeGuard[Array]:
    """Tell whether `adopt` accepts this object."""
    known = _array_types.get(type(x))
    return is_array_type(type(x)) if known is None else known


def is_array_type(kind: type) -> bool:
    """Tell whether objects of this type are arrays."""
    known = _array_types.get(kind)
    if known is None:
        known = not issubclass(kind, (type, np.generic)) and (
            any(hasattr(kind, name) for name in _PROTOCOLS) or library_of_type(kind) is not None
        )
        known = known and not offers_column(kind) and kind.__name__ != "NestedTensor"  # a batch of jagged layout
        remember(_array_types, kind, known)
    return known


def offers_column(kind: type) -> bool:
    """Tell whether objects of this type offer one column by the Arrow PyCapsule interface.

    Tables, which offer several, do not count, nor do columns of plain numbers that can also be read as arrays.
    """
    return (
        any(hasattr(kind, name) for name in _CAPSULES)
        and not any(hasattr(kind, name) for name in _OF_TABLES)
        and not any(base.__name__ in _PLAIN for base in kind.__mro__)
    )


_CAPSULES, _OF_TABLES = ("__arrow_c_array__", "__arrow_c_stream__"), ("columns", "column_names")
_PLAIN = ("NumericArray", "BooleanArray")
_array_types: dict[type, bool] = {}
_PROTOCOLS = ("__array_interface__", "__cuda_array_interface__", "__dlpack__")


def shape_of(x: Any, what: str = "data") -> Shape:
    """Return the shape of an object for which `is_array` is True; TypeError where it cannot be read as an array."""
    try:
        if library_of_type(type(x)) is not None:
            return tuple(x.shape)
    except RuntimeError:  # a nested tensor has none
        pass
    return tuple(adopt(x, what)[1].shape)


def has_items(x: object) -> bool:
    """Tell whether this is a list, a tuple, or an array with an axis."""
    return isinstance(x, (list, tuple)) or (is_array(x) and len(shape_of(x)) > 0)


def adopt(x: Any, what: str = "data") -> tuple[Library, Array]:
    """Read an array of any library; return its library, and the array, C-contiguous.

    Arrays of unknown libraries become NumPy arrays, without a copy, by ``__array_interface__`` or DLPack.  On a GPU
    they become arrays of CuPy, or of Numba by ``__cuda_array_interface__``.  TypeError for everything else, and for
    arrays of Python objects.
    """
    if type(x) is np.ndarray and x.flags.c_contiguous and not x.dtype.hasobject:  # the usual case, in half the time
        return NUMPY, x
    library = _by_type.get(type(x)) or library_of_type(type(x))
    if library is None:
        x = _import_unknown(x, what)
        library = library_of(x)
    return library, library.adopt(x, what)


def _import_unknown(x: Array, what: str) -> Array:
    """Read an array of an unknown library as one of a known library."""
    if not isinstance(x, (type, np.generic)):
        if hasattr(x, "__array_interface__"):
            return _taken_over(np.asarray, x, what)
        if hasattr(x, "__cuda_array_interface__"):
            return _taken_over(_on_gpu, x, what)
        if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
            if _taken_over(lambda y: y.__dlpack_device__()[0], x, what) == 1:
                return _taken_over(_on_host, x, what)
            cupy = sys.modules.get("cupy")
            if cupy is not None:
                array: Array = cupy.from_dlpack(x)
                return array
            raise DEVICE(f"{what} of type {type(x).__name__} lives on a GPU; import cupy, or give a torch tensor of it")
    if hasattr(x, "sequences"):
        raise KIND(f"{what} must be an array, not {type(x).__name__}; x.sequences() has the arrays of a batch")
    raise KIND(f"{what} must be an array, not {type(x).__name__}; np.asarray(...) makes one")


def _on_host(x: Any) -> Array:
    """Read an array by DLPack as a NumPy array."""
    return np.from_dlpack(x)


def _on_gpu(x: Array) -> Array:
    """Read an array by the CUDA array interface, as CuPy's if that is imported, else as Numba's."""
    cupy = sys.modules.get("cupy")
    array: Array = part("numba").foreign(x) if cupy is None else cupy.asarray(x)
    return array


def _taken_over(take: Callable[[X], T], x: X, what: str) -> T:
    try:
        return take(x)
    except Exception as error:  # foreign code may raise anything
        raise ITEMS(f"{what} of type {type(x).__name__} cannot be taken over: {error!r}") from None


def to_host(x: Any) -> Any:
    """Return an array of any library as a NumPy array, and anything else as it is."""
    if type(x) is np.ndarray or not is_array(x):
        return x
    library, array = adopt(x)
    return library.to_numpy(array)
