"""Kernels that go over the sequences of any encoding, where its items lie.

A kernel finds item t of a sequence by a `Layout`, so a padded batch is worked on as it is, and a result in the same
layout is written in place.  What a first call finds out about a dtype (in which one the kernel calculates, which one
the result has) is kept, so that a small batch does not wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import core
from ..arrays import NUMPY, Array, DType, Library, Shape, library_of
from ..arrays.dtypes import HALF, Dtypes, sums_in
from ..converters.convert import convert
from ..formats import Encoding, Ragged
from ..formats.leaves import ShapeDtype, leaves, rebuild
from ..formats.planned import by_plan
from ..formats.structure import Structure
from ..launch.kernel import Kernel, kernel, variant_of
from ..limits import NO_ROOM, allocate, no_room, remember
from .pieces import are_long


class Calculation:
    """A kernel that calculates over the sequences of any encoding.

    Parameters
    ----------
    name : str
        The name of the kernel.
    dtypes : callable
        ``dtypes(name)``, for the dtype of the items; it raises TypeError where there is nothing to calculate.
    *numbers : int
        What the kernel takes beside the layout.
    by_item : bool
        True if the result has one item for each item, in the layout of the batch, False if one for each sequence.
    long : callable, optional
        What is called with the kernel, and what it would be started with, where sequences are so long that a GPU does
        them in pieces; see `operations.pieces`.

    Notes
    -----
    The plan of a call is what the library of the data and its dtype decide; it is made once.
    """

    def __init__(
        self,
        name: str,
        dtypes: Callable[[str], Dtypes],
        *numbers: int,
        by_item: bool = False,
        long: Callable[..., None] | None = None,
    ) -> None:
        self.kernel = kernel(name)
        self.long = long
        self.dtypes = dtypes
        self.numbers = numbers
        self.by_item = by_item
        self.plans: dict[Any, tuple[str | None, Any, str | None, int]] = {}
        self.path = core.Calculate(numbers, by_item=by_item)
        self.default: tuple[object, ...] = ()  # what the path has to be given last

    def __call__(self, given: Encoding, finish: bool = True) -> Any:
        """The result: an array ``(n, *item)``, or the encoding; without `finish` data, in the dtype of the kernel."""
        x = given if given._in_one_array else convert(given, Ragged)
        out = by_plan(x, (x.data,), (self, finish), self._data, x, finish)
        return given._with_data(out) if finish and self.by_item else out

    def _data(self, x: Encoding, finish: bool) -> Array:
        """The data of the result."""
        library, data, shape, structure = x._look(), x.data, x._shape, x._structure
        try:
            cast, dtype, back, variant = self.plans[type(data), x._dtype]
        except KeyError:
            cast, dtype, back, variant = self.prepare(library, type(data), x._dtype)
        if cast is not None:
            data = library.astype(data, cast)
        item = shape[x._lead :]
        if self.by_item:
            out = rows_like(library, x, item, dtype, data)
        else:
            out = library.empty((structure.n, *item), dtype, data)
        width = math.prod(item)
        if width and structure.n:
            args = (x._layout(), *self.numbers)
            self.start(library, data, out, args, width, structure, variant)
        if not finish:
            return out
        if cast is back is None:
            self.kernel.teach(self.path, (x._dtype,), dtype, variant)
        if back is not None:
            out = library.astype(out, back)
        return library.settle(out) if library.functional else out

    def start(
        self,
        library: Library,
        data: Array,
        out: Array,
        args: tuple[Any, ...],
        width: int,
        structure: Structure,
        variant: int,
    ) -> None:
        """Calculate the items of the result."""
        if self.long is not None and are_long(library, structure, out):
            self.long(self.kernel, library, data, out, args, width, structure)
        else:
            self.kernel.start(library, (data,), (out,), args, width, structure, variant=variant)

    def data_of(self, x: Encoding) -> Any:
        """Data of the result in the dtype of the kernel, as a rule wants it, outside of any graph."""
        found = self.path.enter(x, *self.default)
        if found is None:
            return self(x, False)
        return found.data if self.by_item else found

    def prepare(self, library: Library, kind: type, dtype: DType) -> tuple[str | None, Any, str | None, int]:
        """The dtypes of what the kernel takes, of its result and of what is returned, and which code is for them.

        The first and the third are None where nothing is to be changed.
        """
        name = library.dtype_name(dtype)
        taken, made, given = self.dtypes(name)
        cast, back = (taken if taken != name else None), (given if given != made else None)
        plan = (cast, library.dtype(made), back, variant_of(taken, made))
        return remember(self.plans, (kind, dtype), plan)


class Spreading:
    """A kernel that calculates of rows, one per sequence, the items of all sequences: the gradients of reductions.

    Parameters
    ----------
    name : str
        The name of the kernel, which takes the rows and whatever else first.
    *numbers : int
        What it takes beside the layout.
    laid : sequence of bool
        Which of the other arrays are laid out as the result, and do not have one row per sequence.
    long : callable, optional
        As of a `Calculation`, with all arrays that the kernel takes.
    """

    def __init__(
        self, name: str, *numbers: int, laid: Sequence[bool] = (), long: Callable[..., None] | None = None
    ) -> None:
        self.kernel = kernel(name)
        self.long = long
        self.numbers = numbers
        self.others = len(laid)
        places = [1 + k for k, x in enumerate(laid) if x]
        self.path = core.Spread(numbers, alike=True, arrays=1 + len(laid), laid=places)
        self.plans: dict[Any, tuple[str | None, Any, str]] = {}

    def __call__(self, shape: Encoding, rows: Array, *others: Array, dtype: str | None = None) -> Encoding:
        """The result laid out as `shape`, in the dtype of the rows or the one of that name."""
        y: Encoding = shape._with_data(
            by_plan(shape, (rows, *others), (self, rows.dtype, dtype), self._data, shape, rows, others, dtype)
        )
        return y

    def _data(self, shape: Encoding, rows: Array, others: tuple[Array, ...], dtype: str | None) -> Array:
        """The data of the result."""
        library = NUMPY if type(rows) is np.ndarray else library_of(rows)
        try:
            cast, made, name = self.plans[type(rows), rows.dtype]
        except KeyError:
            cast, made, name = self.prepare(library, type(rows), rows.dtype)
        if cast is not None:
            rows = library.astype(rows, cast)
        structure, item = shape._structure, rows.shape[1:]
        at = shape if shape._in_one_array else flat_layout(structure, item, made)
        out = rows_like(library, at, item, made, rows)
        width = math.prod(item)
        if width and structure.n:
            given, args = (rows, *others), (at._layout(), *self.numbers)
            if self.long is not None and are_long(library, structure, out):
                self.long(self.kernel, library, given, out, args, width, structure)
            else:
                self.kernel.start(library, given, (out,), args, width, structure)
        changes = cast is not None or (dtype is not None and dtype != name)
        if changes:
            out = library.astype(out, dtype or name)
        else:
            teach(self.path, self.kernel, (rows, *others), made)
        return out

    def prepare(self, library: Library, kind: type, dtype: DType) -> tuple[str | None, Any, str]:
        """In which dtype the kernel takes the rows, None: as they are; that of its result; the name of the rows'."""
        name = library.dtype_name(dtype)
        cast = sums_in(name) if name in HALF else None
        return remember(self.plans, (kind, dtype), (cast, library.dtype(cast or name), name))


def teach(path: Any, kernel: Kernel, arrays: Sequence[Any], made: DType) -> None:
    """Tell a fast path of the kernel that has made, of arrays like these, a result of the dtype `made`."""
    dtypes = tuple([x.dtype for x in arrays])
    if not path.knows(*dtypes):
        library = library_of(arrays[0])
        names = [library_of(x).dtype_name(x.dtype) for x in arrays]
        if not set(HALF).intersection((*names, library.dtype_name(made))):  # of which no kernel takes any
            kernel.teach(path, dtypes, made, variant_of(*names, library.dtype_name(made)))


def settle(library: Library, out: Array) -> Array:
    """A result in the dtype that the library has for it."""
    return library.settle(out) if library.functional else out


def rows_like(library: Library, x: Encoding, item: Shape, dtype: DType, like: Array) -> Array:
    """A new array beside `like` for items in the layout of `x`, whose data need not be there; its padding is zero."""
    make = library.zeros if x._gapped and x._padding() else library.empty
    shape = (*x._shape[: x._lead], *item)
    try:
        return make(shape, dtype, like)
    except NO_ROOM as error:
        raise no_room(shape, error) from None


def two_like(library: Library, x: Encoding, name: str, like: Array) -> list[Array]:
    """Two of `rows_like`, of one number per item and the dtype of this name, on the host in one piece of memory.

    Where two large results are let go together, the allocator of glibc would give their pages back to the system, which
    makes them anew with the next call: that takes several times as long as a kernel that has 2 ns for an item.
    """
    if library.functional or library.kind(like) != "cpu":
        return [rows_like(library, x, (), library.dtype(name), like) for _ in range(2)]
    make = NUMPY.zeros if x._gapped and x._padding() else NUMPY.empty
    shape = (2, *x._shape[: x._lead])
    both = allocate(make, shape, NUMPY.dtype(name), np.empty(0, np.float64))
    return [part if library is NUMPY else library.taken(part, NUMPY) for part in both]


def in_one_array(x: Encoding) -> Encoding:
    """The encoding with its data in one array, after a look at whether that is still what was validated."""
    if not x._in_one_array:
        found: Encoding = convert(x, Ragged)
        return found
    x._look()
    return x


def layout_for(shape: Encoding, item: Shape, dtype: DType) -> Encoding:
    """Return the batch whose layout a result like `shape` gets: itself, or, of a `List`, a `Ragged` of its sequences.

    Nobody's data need be there; ``shape._with_data(result)`` is the result.
    """
    return shape if shape._in_one_array else flat_layout(shape._structure, item, dtype)


def flat_layout(structure: Structure, item: Shape, dtype: DType) -> Ragged:
    """A `Ragged` without data, which says that the sequences lie one after the other."""
    data: Any = ShapeDtype((structure.rows, *item), dtype)
    return Ragged._freeze(data, structure)


def combine(function: Callable[..., Array], x: Encoding, *others: Encoding) -> Encoding:
    """An encoding laid out as `x` and all others, its data calculated of theirs."""
    arrays = zip(*[leaves(y) for y in (x, *others)], strict=True)
    y: Encoding = rebuild(x, [function(*a) for a in arrays])
    return y


def scratch(library: Library, shape: Shape, name: str, like: Array) -> Array:
    """Memory for what a kernel keeps while it works, beside `like`; on the host NumPy's, the quickest to get."""
    if library is NUMPY or library.kind(like) == "cpu":
        return np.empty(shape, name)
    return library.empty(shape, library.dtype(name), like)


def allocate_workspace(library: Library, structure: Structure, width: int, like: Array) -> Array:
    """Room for all items like these, in which a kernel puts columns in order; on devices it compares instead.

    What it is given there it does not touch.
    """
    if library.kind(like) != "cpu":
        return like
    return scratch(library, (structure.rows * width,), library.dtype_name(like.dtype), like)


def name_of(x: Encoding) -> str:
    """The NumPy name of the dtype of an encoding."""
    return library_of(x._sample()).dtype_name(x._dtype)
