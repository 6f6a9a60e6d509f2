"""What operations share: kernels that go over the sequences of any encoding, where its items lie.

A kernel finds item t of a sequence by a `Layout`, so a padded batch is worked on as it is, and a result in the same
layout is written in place.  What a first call finds out about a dtype (in which one the kernel calculates, which one
the result has) is kept, so that a small batch does not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import NUMPY, Array, Library, Shape, library_of
from ..arrays.dtypes import HALF, Dtypes, sums_in
from ..conversion.convert import convert
from ..formats import Encoding, Ragged
from ..formats.leaves import ShapeDtype, leaves, rebuild
from ..formats.structure import Structure
from ..launch.kernel import kernel
from ..limits import NO_ROOM, no_room, remember


class Calculation:
    """A kernel that calculates over the sequences of any encoding.

    Parameters
    ----------
    name : of the kernel
    dtypes : ``dtypes(name)``, for the dtype of the items; TypeError where there is nothing to calculate
    numbers : what the kernel takes beside the layout
    by_item : is the result an item an item, in the layout of the batch, or one a sequence?

    The plan of a call is what the library of the data and its dtype decide; it is made once.
    """

    def __init__(self, name: str, dtypes: Callable[[str], Dtypes], *numbers: int, by_item: bool = False) -> None:
        self.kernel = kernel(name)
        self.dtypes = dtypes
        self.numbers = numbers
        self.by_item = by_item
        self.plans: dict[Any, tuple[str | None, Any, str | None]] = {}

    def __call__(self, given: Encoding, finish: bool = True) -> Any:
        """The result: an array ``(n, *item)``, or the encoding; without `finish` its data, in the dtype of the kernel."""
        x = given if given._in_one_array else convert(given, Ragged)
        library, data, shape, structure = x._look(), x.data, x._shape, x._structure
        try:
            cast, dtype, back = self.plans[type(data), x._dtype]
        except KeyError:
            cast, dtype, back = self.prepare(library, type(data), x._dtype)
        if cast is not None:
            data = library.astype(data, cast)
        item = shape[x._lead :]
        if self.by_item:
            out = rows_like(library, x, item, dtype, data)
        else:
            out = library.empty((structure.n, *item), dtype, data)
        width = math.prod(item)
        if width and structure.n:
            self.kernel.start(library, (data,), (out,), (x._layout(), *self.numbers), width, structure)
        if not finish:
            return out
        if back is not None:
            out = library.astype(out, back)
        return given._with_data(out) if self.by_item else out

    def prepare(self, library: Library, kind: type, dtype: Any) -> tuple[str | None, Any, str | None]:
        """In which dtype the kernel takes the items, None: as they are; that of its result; and of what is returned."""
        name = library.dtype_name(dtype)
        taken, made, given = self.dtypes(name)
        plan = (taken if taken != name else None, library.dtype(made), given if given != made else None)
        return remember(self.plans, (kind, dtype), plan)


class Spreading:
    """A kernel that calculates of rows, one a sequence, the items of all sequences: the gradients of reductions.

    Parameters
    ----------
    name : of the kernel, which takes the rows and whatever else first
    numbers : what it takes beside the layout
    """

    def __init__(self, name: str, *numbers: int) -> None:
        self.kernel = kernel(name)
        self.numbers = numbers
        self.plans: dict[Any, tuple[str | None, Any, str]] = {}

    def __call__(self, shape: Any, rows: Array, *others: Array, dtype: str | None = None) -> Any:
        """The result laid out as `shape`, in the dtype of the rows or the one of that name."""
        library = NUMPY if type(rows) is np.ndarray else library_of(rows)
        try:
            cast, made, name = self.plans[type(rows), rows.dtype]
        except KeyError:
            cast, made, name = self.prepare(library, type(rows), rows.dtype)
        if cast is not None:
            rows = library.astype(rows, cast)
        structure, item = shape._structure, rows.shape[1:]
        at = shape if shape._in_one_array else one_after_the_other(structure, item, made)
        out = rows_like(library, at, item, made, rows)
        width = math.prod(item)
        if width and structure.n:
            self.kernel.start(library, (rows, *others), (out,), (at._layout(), *self.numbers), width, structure)
        if cast is not None or (dtype is not None and dtype != name):
            out = library.astype(out, dtype or name)
        return shape._with_data(out)

    def prepare(self, library: Library, kind: type, dtype: Any) -> tuple[str | None, Any, str]:
        """In which dtype the kernel takes the rows, None: as they are; that of its result; and the name of the rows'."""
        name = library.dtype_name(dtype)
        cast = sums_in(name) if name in HALF else None
        return remember(self.plans, (kind, dtype), (cast, library.dtype(cast or name), name))


def rows_like(library: Library, x: Encoding, item: Shape, dtype: Any, like: Array) -> Array:
    """A new array beside `like` for items in the layout of `x`, whose data need not be there; its padding is zero."""
    make = library.zeros if x._lead == 2 and x._padding() else library.empty
    shape = (*x._shape[: x._lead], *item)
    try:
        return make(shape, dtype, like)
    except NO_ROOM as error:
        raise no_room(shape, error) from None


def in_one_array(x: Encoding) -> Encoding:
    """The encoding with its data in one array, after a look at whether that is still what was validated."""
    if not x._in_one_array:
        return convert(x, Ragged)  # type: ignore[no-any-return]
    x._look()
    return x


def laid_out_as(x: Encoding) -> tuple[Encoding, Callable[[Array], Any]]:
    """What gives the layout of a result like `x`, and how to seal its data; data need not be there."""
    if x._in_one_array:
        return x, x._with_data
    return one_after_the_other(x._structure, x.item_shape, x._dtype), x._with_data


def one_after_the_other(structure: Structure, item: Shape, dtype: Any) -> Ragged:
    """A `Ragged` without data, that gives a layout."""
    return Ragged._sealed(ShapeDtype((structure.rows, *item), dtype), structure)


def combined(function: Callable[..., Array], x: Any, *others: Any) -> Any:
    """An encoding laid out as `x` and all others, its data calculated of theirs."""
    arrays = zip(*[leaves(y) for y in (x, *others)], strict=True)
    return rebuild(x, [function(*a) for a in arrays])


def scratch(library: Library, shape: Shape, name: str, like: Array) -> Array:
    """Memory for what a kernel keeps while it works, beside `like`; on the host NumPy's, the quickest to get."""
    if library.kind(like) == "cpu":
        return np.empty(shape, name)
    return library.empty(shape, library.dtype(name), like)


def name_of(x: Encoding) -> str:
    """The NumPy name of the dtype of an encoding."""
    return library_of(x._sample()).dtype_name(x._dtype)
