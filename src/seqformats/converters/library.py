"""Bring a batch to another array library, device or dtype; the structure is shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import Array, DType, Library, adopt, dtype_in, library_named
from ..errors import DTYPE, EXACT, LOST
from ..formats import Encoding
from ..formats.annotations import Given
from ..formats.bare import read_column
from ..formats.leaves import leaves, rebuild

Change = Callable[[Library, Array], Array]


def change_arrays(x: Given, change: Change) -> Any:
    """A batch, or an array, with every array of its items changed."""
    x = read_column(x)
    if isinstance(x, Encoding):
        x._look()
        if not x._leaves():  # a list of no arrays, which says what they would be
            return x._with_data(_change(x._sample(), change))
    return rebuild(x, [_change(leaf, change) for leaf in leaves(x)])


def _change(leaf: Array, change: Change) -> Array:
    library, array = adopt(leaf)
    return change(library, array)


def bring(x: Given, library: object, dtype: DType) -> Any:
    """A batch in the library of this name, then in this dtype; None: as it is."""
    if library is not None:
        x = change_arrays(x, in_library(library))
    return x if dtype is None else change_arrays(x, in_dtype(dtype))


def in_library(name: object) -> Change:
    """Make a function that brings an array to the library of this name, over the same memory where that can be."""
    target = library_named(name)

    def change(library: Library, x: Array) -> Array:
        if library is target:
            return x
        if library.autograd and library.wants_grad((x,)):
            raise LOST(
                f"an array of {library.name} that asks for a gradient cannot go to {target.name}, where the gradient "
                "would be lost; give data.detach()"
            )
        return target.import_array(x, library)

    return change


def in_dtype(dtype: DType) -> Change:
    """Make a function that casts an array to a dtype of its library, of another, or a name of NumPy's."""

    def change(library: Library, x: Array) -> Array:
        return cast(library, x, dtype_in(library, dtype))

    return change


def cast(library: Library, x: Array, dtype: DType) -> Array:
    """`x` in this dtype of its library; ConversionError where an item has no value there."""
    if x.dtype == dtype:
        return x
    given, wanted = library.dtype_name(x.dtype), library.dtype_name(dtype)
    if given.startswith("complex") and not wanted.startswith("complex"):
        raise DTYPE(f"complex items do not fit {wanted}; give their real part")
    try:
        return library.astype(x, dtype)
    except (ValueError, OverflowError) as error:
        raise EXACT(f"an item of {given} has no value in {wanted}: {error}") from None
    except (TypeError, RuntimeError) as error:
        raise DTYPE(f"items of {given} cannot be cast to {wanted}: {error}") from None
