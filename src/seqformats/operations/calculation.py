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
from ..arrays.dtypes import HALF, Dtypes
from ..converters.convert import convert
from ..formats import Encoding, Ragged
from ..formats.call_plans import by_plan
from ..formats.leaves import ShapeDtype, leaves, rebuild
from ..formats.structure import Structure
from ..launch.kernel import kernel, variant_of
from ..memory_checks import NO_ROOM, allocate, no_room, remember
from .pieces import Job, are_long


class Calculation:
    """A kernel that calculates over the sequences of any encoding.

    Parameters
    ----------
    name : str
        The name of the kernel.
    dtypes : callable or None
        ``dtypes(name)``, for the dtype of the items; it raises TypeError where there is nothing to calculate.  None for
        a kernel that moves rows of bytes, whose result has the dtype of the batch.
    *numbers : int
        What the kernel takes beside the layout.
    by_item : bool
        True if the result has one item for each item, in the layout of the batch, False if one for each sequence.
    narrow : bool
        True if an item of the result is one number, whose kernel takes the width of an item last.
    long : callable, optional
        What is called with a `Job` where sequences are so long that a GPU does them in pieces; see `operations.pieces`.
    path : optional
        The fast path, one of `core`; without it a `core.Calculate`.

    Notes
    -----
    The plan of a call is what the library of the data and its dtype decide; it is made once.
    """

    def __init__(
        self,
        name: str,
        dtypes: Callable[[str], Dtypes] | None,
        *numbers: int,
        by_item: bool = False,
        narrow: bool = False,
        long: Callable[[Job], None] | None = None,
        path: Any = None,
    ) -> None:
        self.kernel = kernel(name)
        self.long = long
        self.dtypes = dtypes
        self.numbers = numbers
        self.by_item = by_item
        self.narrow = narrow
        self.plans: dict[Any, tuple[str | None, Any, str | None, int | None]] = {}
        words = (*numbers, 1) if narrow else numbers
        self.path = path or core.Calculate(words, moves=dtypes is None, by_item=by_item, narrow=narrow)
        self.default: tuple[object, ...] = ()  # what the path has to be given last

    def __call__(self, given: Encoding, *others: Array, finish: bool = True) -> Any:
        """The result: an array ``(n, *item)``, or the encoding; without `finish` data, in the dtype of the kernel.

        The kernel takes the `others` behind the items.
        """
        x = given if given._in_one_array else convert(given, Ragged)
        out = by_plan(x, (x.data, *others), (self, finish), self._data, x, others, finish)
        return given._with_data(out) if finish and self.by_item else out

    def _data(self, x: Encoding, others: tuple[Array, ...], finish: bool) -> Array:
        """The data of the result."""
        library, data, shape = x._look(), x.data, x._shape
        try:
            cast, dtype, back, variant = self.plans[type(data), x._dtype]
        except KeyError:
            cast, dtype, back, variant = self.prepare(library, type(data), x._dtype)
        if cast is not None:
            data = library.astype(data, cast)
        item = shape[x._lead :]
        if self.by_item:
            out = rows_like(library, x, () if self.narrow else item, dtype, data)
        else:
            out = library.empty((x._structure.n, *item), dtype, data)
        self.start(library, (data, *others), out, x, math.prod(item), None if others else variant)
        if not finish:
            return out
        if cast is back is None:
            self.kernel.teach(self.path, (x._dtype,), dtype, variant)
        if back is not None:
            out = library.astype(out, back)
        return library.settle(out) if library.functional else out

    def start(
        self, library: Library, inputs: tuple[Array, ...], out: Array, at: Encoding, width: int, variant: int | None
    ) -> None:
        """Calculate the items of the result, of items or rows of this width, over the sequences of `at`."""
        structure, args = at._structure, (at._layout(), *self.numbers)
        if self.dtypes is None:
            width *= out.dtype.itemsize
        if self.narrow:
            self.kernel.start(library, inputs, (out,), (*args, width), 1, structure, variant=variant)
        elif self.long is not None and width and are_long(library, structure, out):
            self.long(Job(self.kernel, library, inputs, out, args, width, structure))
        else:
            self.kernel.start(library, inputs, (out,), args, width, structure, variant=variant)

    def data_of(self, x: Encoding) -> Any:
        """Data of the result in the dtype of the kernel, as a rule wants it, outside of any graph."""
        found = self.path.enter(x, *self.default)
        if found is None:
            return self(x, finish=False)
        return found.data if self.by_item else found

    def prepare(self, library: Library, kind: type, dtype: DType) -> tuple[str | None, Any, str | None, int | None]:
        """The dtypes of what the kernel takes, of its result and of what is returned, and which code is for them.

        The first and the third are None where nothing is to be changed.
        """
        plan: tuple[str | None, Any, str | None, int | None] = None, dtype, None, None
        if self.dtypes is not None:
            name = library.dtype_name(dtype)
            taken, made, given = self.dtypes(name)
            cast, back = (taken if taken != name else None), (given if given != made else None)
            plan = cast, library.dtype(made), back, variant_of(taken, made)
        return remember(self.plans, (kind, dtype), plan)


class Spreading(Calculation):
    """A `Calculation` of arrays that are no batch, whose result is laid out as one: the gradients of operations.

    Parameters
    ----------
    name : str
        The name of the kernel, which takes the arrays first.
    *numbers : int
        What it takes beside the layout.
    laid : sequence of bool
        Which of the arrays are laid out as the result, and do not have one row per sequence.
    moves : bool
        Whether the kernel moves rows of bytes.
    long : callable, optional
        As of a `Calculation`.
    """

    def __init__(
        self,
        name: str,
        *numbers: int,
        laid: Sequence[bool] = (False,),
        moves: bool = False,
        long: Callable[[Job], None] | None = None,
    ) -> None:
        places = [k for k, x in enumerate(laid) if x]
        path = core.Spread(numbers, moves=moves, alike=True, arrays=len(laid), laid=places)
        super().__init__(name, None if moves else _in_place, *numbers, by_item=True, long=long, path=path)
        self.laid = laid

    def __call__(self, shape: Encoding, *arrays: Array, dtype: str | None = None) -> Encoding:  # type: ignore[override]
        """The result laid out as `shape`, in the dtype of the first array or the one of that name."""
        key = self, arrays[0].dtype, arrays[0].shape, dtype
        return shape._with_data(by_plan(shape, arrays, key, self._spread, shape, arrays, dtype))

    def _spread(self, shape: Encoding, arrays: tuple[Array, ...], dtype: str | None) -> Array:
        """The data of the result."""
        rows = arrays[0]
        library, given = NUMPY if type(rows) is np.ndarray else library_of(rows), rows.dtype
        try:
            cast, made, back, _ = self.plans[type(rows), given]
        except KeyError:
            cast, made, back, _ = self.prepare(library, type(rows), given)
        if cast is not None:
            arrays = tuple([library.astype(x, cast) if x.dtype == given else x for x in arrays])
        item = rows.shape[shape._lead if self.laid[0] else 1 :]
        at = layout_for(shape, item, made)
        out = rows_like(library, at, item, made, rows)
        self.start(library, arrays, out, at, math.prod(item), None)
        wanted = dtype or back
        if wanted is not None and wanted != library.dtype_name(made):
            return library.astype(out, wanted)
        self._teach(arrays, made)
        return out

    def _teach(self, arrays: tuple[Array, ...], made: DType) -> None:
        """Tell the fast path of the kernel that has made, of arrays like these, a result of the dtype `made`."""
        dtypes = tuple([x.dtype for x in arrays])
        if self.path.knows(*dtypes):
            return
        if self.dtypes is None:
            self.kernel.teach(self.path, dtypes, made)
            return
        names = [library_of(x).dtype_name(x.dtype) for x in arrays]
        names.append(library_of(arrays[0]).dtype_name(made))
        if not set(HALF).intersection(names):  # of which no kernel takes any
            self.kernel.teach(self.path, dtypes, made, variant_of(*names))


def _in_place(name: str) -> Dtypes:
    """Keep the dtype, but calculate with half precision in float32."""
    return Dtypes("float32", "float32", name) if name in HALF else Dtypes(name, name, name)


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
    return [part if library is NUMPY else library.import_array(part, NUMPY) for part in both]


def in_one_array(x: Encoding) -> Encoding:
    """The encoding with its data in one array, after a look at whether that is still what was validated."""
    if not x._in_one_array:
        found: Encoding = convert(x, Ragged)
        return found
    x._look()
    return x


def in_blocks(x: Encoding) -> Encoding:
    """`in_one_array`, with every sequence in one piece."""
    return in_one_array(convert(x, Ragged) if x._by_steps else x)


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
        return np.empty(shape, NUMPY.dtype(name))
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
