"""Gradients in the layout and the dtype of what they belong to."""

from __future__ import annotations

from typing import Any

from .. import registry
from ..arrays import Array, DType, adopt, is_array, library_of, with_autograd
from ..converters.convert import as_own, convert, restore
from ..errors import BATCH, DEVICES, DTYPE, KIND, SLOPE
from ..formats import Encoding, Pairs
from ..formats.annotations import Operands
from ..formats.bare import as_encoding
from ..formats.encoding import abridge
from ..formats.leaves import ShapeDtype, leaves, rebuild
from ..formats.pairs import count, is_encoding


def device_of(y: object) -> str | None:
    """Return the device of a result's first array; None where there is none, or where a program decides."""
    for leaf in leaves(y):
        if not isinstance(leaf, ShapeDtype):
            library = library_of(leaf)
            return None if library.kind(leaf) == "program" else library.device(leaf)
    return None


def fitting(dy: object, y: object, device: str | None = None) -> Any:
    """`cotangent`; DeviceError for one of another library, or on another device than `device` if that is given.

    A result of several batches has a gradient for each.
    """
    if type(y) is tuple:
        if not isinstance(dy, (list, tuple)) or len(dy) != len(y):
            found = f"{len(dy)}" if isinstance(dy, (list, tuple)) else f"a {type(dy).__name__}"
            raise SLOPE(f"the gradient must be {len(y)} batches, one for each result, not {found}")
        return tuple([fitting(one, like, device) for one, like in zip(dy, y, strict=True)])
    if isinstance(y, ShapeDtype) and is_array(dy):
        library, dy = adopt(dy, "the gradient")
        if dy.dtype == y.dtype and dy.shape == y.shape and (device is None or library.device(dy) == device):
            return dy
    elif (own := _alike(dy, y, True)) is not None and (
        device is None or library_of(own.data).device(own.data) == device
    ):
        return own
    bare = isinstance(dy, (list, tuple)) and not leaves(dy)
    dy = cotangent(dy, y)
    if bare:
        dy = rebuild(dy, [_take_number(a, b.dtype) for a, b in zip(leaves(dy), leaves(y), strict=True)])
    for a, b in zip(leaves(dy), leaves(y), strict=True):
        if not library_of(a).has_dtype(b.dtype):
            raise DEVICES(f"the gradient holds {a.dtype} of {library_of(a).name}, but the result {b.dtype}")
    given = None if device is None else device_of(dy)
    if given is not None and given != device:
        raise DEVICES(f"the gradient is on {given}, but the result on {device}; sf.to_device(dy, {device!r}) moves it")
    return dy


def _alike(dy: Any, y: Any, clean: bool) -> Any:
    """A gradient, if it has the layout, shape and dtype of what it is for, and no padding to be cleaned."""
    if not (
        type(dy) is type(y)
        and isinstance(dy, Encoding)
        and dy._structure is y._structure
        and dy._in_one_array
        and not dy.keeps_levels
        and dy._shape == y._shape
        and dy._dtype == y._dtype
        and dy._unshaped == y._unshaped
        and not (clean and dy._padding())
    ):
        return None
    dy._look()
    return dy


def _take_number(x: Array, dtype: DType) -> Array:
    """Python's numbers, which are of no library, in that of what they are the gradient for."""
    source = library_of(x)
    own = next((library for library in with_autograd if library.has_dtype(dtype)), source)
    return x if own is source else in_dtype(own.import_array(x, source), dtype)


def cotangent(dy: object, y: object, clean: bool = True) -> Any:
    """`dy` laid out like `y` and in its dtype, where that is one of floats; StructureError where it does not fit.

    It may have anything in its padding if it need not be `clean`.
    So a gradient has the dtype of what it belongs to, whatever a loss was calculated in; a move of integers has the
    gradient's own.
    """
    if (own := _alike(dy, y, clean)) is not None:
        return own
    dy = _laid_out(dy, y, clean)
    given, wanted = leaves(dy), leaves(y)
    if len(given) != len(wanted) or all(a.dtype == b.dtype for a, b in zip(given, wanted, strict=True)):
        return dy
    return rebuild(dy, [in_dtype(a, b.dtype) for a, b in zip(given, wanted, strict=True)])


def in_dtype(x: Array, dtype: DType) -> Array:
    """A gradient in the dtype of what it belongs to, where that is one of floats."""
    library = library_of(x)
    if not library.has_dtype(dtype):
        return x  # of another library
    given, name = library.dtype_name(x.dtype), library.dtype_name(dtype)
    floats = name.startswith(_FLOATS)
    beyond = "complex" in given and "complex" not in name
    if beyond or (floats and not given.startswith(_NUMBERS)):  # NumPy would read strings and dates as numbers
        raise DTYPE(f"a gradient of dtype {x.dtype} does not fit {dtype}, the dtype of what it is for")
    return library.astype(x, name) if floats else x


_FLOATS = ("float", "bfloat", "complex")
_NUMBERS = (*_FLOATS, "int", "uint", "bool")


def _laid_out(dy: object, y: Operands, clean: bool) -> Any:
    if is_array(dy):
        return _laid_out_like(dy, y)
    is_rows = isinstance(y, ShapeDtype) or is_array(y)
    none = isinstance(dy, (list, tuple)) and not dy and (is_rows or is_encoding(y))
    if none and (y.shape[0] if is_rows else count(y)) == 0:
        return y  # no sequences, and `y` is as empty: see `leaves.without_data`
    if is_rows and (is_encoding(dy) or isinstance(dy, (list, tuple))):
        shape = tuple(y.shape)
        raise SLOPE(f"the gradient must be an array of shape {shape} as the result, not {type(dy).__name__}")
    bare, dy = isinstance(dy, (list, tuple)), as_encoding(dy)
    if not is_encoding(dy):
        raise BATCH(f"a gradient must be an encoding or an array, not {registry.label(type(dy))}")
    if isinstance(y, Pairs) or isinstance(dy, Pairs):
        if type(y) is not type(dy):
            raise KIND(f"the gradient of {type(y).__name__} must be one too, not {type(dy).__name__}")
        return dy
    have, need = as_own(dy), as_own(y)
    if not have._structure.same_lengths(need._structure):
        given, lengths = (abridge(z._structure.lengths) for z in (have, need))
        raise SLOPE(f"the gradient has sequences of lengths {given}, but the result has {lengths}")
    if bare and have.rows == 0:
        return y  # lists that hold nothing say nothing of a library, a dtype or an item shape
    if have.item_shape != need.item_shape:
        raise SLOPE(f"the gradient has item shape {have.item_shape}, but the result has {need.item_shape}")
    laid = restore(have, need, clean)
    return laid if isinstance(y, Encoding) else convert(laid, type(y))


def _laid_out_like(dy: Array, y: object) -> Any:
    _, array = adopt(dy, "the gradient")
    own = leaves(y)
    if len(own) != 1:
        raise SLOPE(f"the gradient of a {type(y).__name__} must be one too, not a single array")
    if tuple(array.shape) != tuple(own[0].shape):
        raise SLOPE(f"the gradient has shape {tuple(array.shape)}, but the result's data has {tuple(own[0].shape)}")
    return rebuild(y, [array])
