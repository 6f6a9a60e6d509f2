"""Moves of a batch to another dtype, another array library, another device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..arrays import Array, DType, Library, dtype_in, is_array, library_of
from ..converters.library import Change, change_arrays, in_dtype, in_library
from ..converters.library import cast as cast_items
from ..errors import BATCH, NO_GRADIENT
from ..formats import Encoding
from ..formats.bare import is_column, is_list_of_arrays
from ..formats.pairs import is_encoding
from ..formats.trees import columns_of, is_tree, map_columns, options_of
from ..gradients.operation import Call, linear_call, operand, operation
from .annotations import XT, B


@operation
def astype(x: B, dtype: DType) -> Call[B]:
    """Cast the items of a batch to another dtype.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
    dtype : a dtype of the library of `x`, of another library, or what NumPy takes for one
        ``"float32"``, ``np.int64``, ``torch.bfloat16``.

    Returns
    -------
    same kind as `x`
        Cast as its library casts: floats lose their fraction on the way to integers.  `x` itself, or its memory, where
        it has this dtype.  The structure is shared.

    Raises
    ------
    TypeError
        If `dtype` is no dtype of the library of `x`, or is not complex and the items are.
    ConversionError
        For an item that has no value there, as some text in place of a number.

    See Also
    --------
    to : Also to another library or device.

    Notes
    -----
    The gradient of floats and complex numbers is cast back; that of anything else is a TypeError.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.astype(sf.Ragged(np.array([1, 2, 3]), [1, 2]), "float32")
    Ragged(shape (3,), float32, cpu, 2 sequences of lengths [1, 2])
    """
    own, result, gradient = operand(x)
    library = library_of(own._sample())
    before, after = own.dtype, dtype_in(library, dtype)

    def there(z: Encoding) -> Any:
        return change_arrays(z, lambda library, array: cast_items(library, array, after))

    def back(dy: Encoding) -> Any:
        for each in (before, after):
            if not library.dtype_name(each).startswith(("float", "bfloat", "complex")):
                raise NO_GRADIENT(
                    f"a cast from {before} to {after} has no gradient; floats and complex numbers have one"
                )
        return change_arrays(dy, lambda library, array: cast_items(library, _real(library, array, before), before))

    return linear_call(own, there, back, result, gradient)


def _real(library: Library, x: Array, dtype: DType) -> Array:
    """Take the real part of complex numbers that belong to real ones, which have a share in that alone."""
    if not library.dtype_name(x.dtype).startswith("complex") or library.dtype_name(dtype).startswith("complex"):
        return x
    if library.arithmetic:
        return library.adopt(x.real, "the gradient")
    return library.from_host(library.to_numpy(x).real, x)


def to(x: XT, library: str | None = None, *, device: object = None, dtype: DType = None) -> XT:
    """Bring a batch, or array, to another array library, another device or another dtype.

    Parameters
    ----------
    x : an encoding, a list of arrays, an array, or a tree of columns
        In a tree (see `convert`) every column changes, the rows too.
    library : "numpy", "torch", "cupy" or "numba" (its device arrays), optional
        The library of the arrays in the result; it is imported if it is not yet.
    device : "cpu", "cuda", "cuda:1", or what the array library takes, optional
    dtype : as in `astype`, optional
        For a tree these three may be dicts by the names of columns: ``dtype={"vectors": "float16"}``.

    Returns
    -------
    same kind as `x`
        First in that library, then on that device, then in that dtype; what is not given stays.  Memory is shared where
        both libraries can reach it, but that of read-only arrays, which PyTorch does not have.  The structure is
        shared in any case.

    Raises
    ------
    TypeError
        If it is not a batch, for a dtype that the library does not have, and for a tensor that asks for a gradient and
        would leave PyTorch, where its graph ends: give ``data.detach()``.
    ConversionError
        If no library has this name, or it is not installed.
    DeviceError
        If the device does not exist, or if the library cannot reach it.

    See Also
    --------
    to_device : The same for a device alone.
    astype : The same for a dtype alone, with a gradient.

    Notes
    -----
    Lists of Python numbers come in by ``sf.convert(x, sf.Ragged, library="torch", dtype="int32")``.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.convert([np.array([1, 2]), np.array([3])], sf.Masked)
    >>> sf.to(x, "numpy", device="cpu", dtype="float64").data
    array([[1., 2.],
           [3., 0.]])
    """
    if not isinstance(x, Encoding) and is_tree(x):
        tree = columns_of(x)
        each = options_of(tree, {"library": library, "device": device, "dtype": dtype})
        return cast(XT, map_columns(tree, lambda column, k: to(column, **each[k]), each))
    _check_arrays(x)
    changes: list[Change] = []
    if library is not None:
        changes.append(in_library(library))
    if device is not None:
        changes.append(_parse_device(device))
    if dtype is not None:
        changes.append(in_dtype(dtype))
    y: Any = x
    for change in changes:
        y = change_arrays(y, change)
    return cast(XT, y)


def to_device(x: XT, device: object) -> XT:
    """Bring an encoding to another device.

    Parameters
    ----------
    x : an encoding, a list of arrays, an array, or a tree of columns
    device : "cpu", "cuda", "cuda:1", or what the array library takes

    Returns
    -------
    same kind as `x`
        torch stays torch and CuPy stays CuPy; NumPy arrays become Numba device arrays on a GPU and come back as NumPy
        arrays.  The structure is on the host anyhow and is shared.

    Raises
    ------
    TypeError
        If the argument is none of these.
    DeviceError
        If the device does not exist.

    See Also
    --------
    to : Also to another library.
    Ragged.device : Where a batch is.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.to_device(sf.Ragged(np.arange(3), [1, 2]), "cpu").device
    'cpu'
    """
    if not isinstance(x, Encoding) and is_tree(x):
        return cast(XT, map_columns(columns_of(x), lambda column, _: to_device(column, device)))
    _check_arrays(x)
    return cast(XT, change_arrays(x, _parse_device(device)))


def _parse_device(device: object) -> Change:
    def change(library: Library, x: Array) -> Array:
        return library.to_device(x, device)

    return change


def _check_arrays(x: object) -> None:
    """Raise TypeError for an object that holds no arrays."""
    if is_array(x) or is_encoding(x) or is_column(x) or (isinstance(x, (list, tuple)) and is_list_of_arrays(x)):
        return
    lists = isinstance(x, Sequence) and not isinstance(x, (str, bytes))
    hint = "; sf.convert(x, sf.Ragged, library=..., dtype=...) takes nested lists" if lists else ""
    raise BATCH(f"{type(x).__name__} is neither an encoding nor an array nor a list of arrays{hint}")
