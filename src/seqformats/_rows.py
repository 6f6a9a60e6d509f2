"""What operations share: kernels that go over the sequences of any encoding, where its items lie.

A kernel finds item t of a sequence by the arrays and numbers of a `Layout` (see `_kernel.locate` and `_kernel.along`),
so a padded batch is worked on as it is, and a result in the same layout is written in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _flow, _launch, registry
from .arrays import NUMPY, Array, Library, Shape, library_of, plain, size_of
from .arrays.dtypes import FLOATS
from .convert import checked_data, convert, ragged_to_list
from .formats import List, Masked, Packed, Padded, Ragged, build_ragged
from .limits import NO_ROOM, no_room, remember
from .structure import Structure


class Layout(NamedTuple):
    """Where the items of the sequences lie."""

    arrays: tuple[Array, Array, Array]  # starts, cum, steps
    numbers: tuple[int, int, int]  # stride, left, step
    lead: Shape  # the shape of data before the items
    lengths: Array  # of the units, in their order
    padded: bool  # is there room that no item takes?


def layout_of(x: Any) -> Layout:
    """The layout of an encoding, whose data need not be there; of a `List`, that of its arrays one after the other."""
    structure = x._structure
    if isinstance(x, (Ragged, List)):
        return flat(structure)
    cum = structure.offsets
    if isinstance(x, Padded):
        order = structure.order
        lead = tuple(x._shape[:2])
        return Layout(
            (order.indices, cum, order.steps), (-1, 0, lead[1]), lead, order.lengths, structure.rows < lead[0] * lead[1]
        )
    if isinstance(x, Packed):
        order = structure.order
        return Layout((order.indices, cum, order.steps), (-1, 0, 0), (structure.rows,), order.lengths, False)
    if isinstance(x, Masked):
        lead = tuple(x._shape[:2])
        numbers = (lead[1], int(x.side == "left"), 1)
        return Layout((cum, cum, cum), numbers, lead, structure.lengths, structure.rows < lead[0] * lead[1])
    return flat(structure)


def flat(structure: Structure) -> Layout:
    """Sequences one after the other."""
    cum = structure.offsets
    return _layout(((cum, cum, cum), (-1, 0, 1), (structure.rows,), structure.lengths, False))


_layout = functools.partial(tuple.__new__, Layout)  # in half the time


def ready(x: Any) -> tuple[Any, Layout, Library]:
    """The encoding with its data in one array, its layout, and whose array that is: a `List` is packed.

    There has been a look at whether its data is still what was validated.
    """
    r = convert(x, Ragged) if isinstance(x, List) else x
    return r, layout_of(r), checked_data(r)


def new_rows(library: Library, layout: Layout, item_shape: Shape, dtype: Any, like: Array) -> Array:
    """A new array beside `like` for items in this layout; its padding is zero."""
    make = library.zeros if layout.padded else library.empty
    shape = (*layout.lead, *item_shape)
    try:
        return make(shape, dtype, like)
    except NO_ROOM as error:
        raise no_room(shape, error) from None


def scratch(library: Library, shape: Shape, name: str, like: Array) -> Array:
    """Room for what a kernel keeps while it works, beside `like`; on the host NumPy's, which is the quickest to get."""
    if library.kind(like) == "cpu":
        return np.empty(shape, name)
    return library.empty(shape, library.dtype(name), like)


def in_layout(x: Any, data: Array) -> Any:
    """`data`, laid out as the data of `x`, in the encoding of `x` and over its structure."""
    if isinstance(x, List):
        return ragged_to_list(build_ragged(data, x._structure))
    return _flow.with_data(x, data)


def calculate(
    name: str,
    library: Library,
    layout: Layout,
    structure: Any,
    inputs: tuple[Array, ...],
    outputs: tuple[Array, ...],
    width: int,
    *numbers: int,
    arrays: tuple[Array, ...] = (),
) -> None:
    """Start a kernel that calculates over the sequences; `arrays` and `numbers` are its own."""
    if width and structure.n:
        row = width * library.itemsize(inputs[0].dtype)
        work = (structure.n, structure.rows, row, layout.lengths)
        _launch.arithmetic(
            name,
            library,
            inputs,
            outputs,
            (*layout.arrays, *arrays),
            (width, *layout.numbers, *numbers),
            work,
            structure,
        )


def move(
    name: str, library: Library, layout: Layout, structure: Any, src: Array, out: Array, item: Shape, *numbers: int
) -> None:
    """Start a kernel that moves items of shape `item` over the sequences; `numbers` are its own."""
    row = size_of(item) * library.itemsize(src.dtype)
    if row and structure.rows:
        work = (structure.n, structure.rows, row, layout.lengths)
        _launch.move(name, library, src, out, layout.arrays, (*layout.numbers, *numbers), work, structure)


def calculated_at_once(
    kernel: str, result: Callable[[str], str | None], *numbers: int, by_item: bool = False
) -> Callable[[Any], Any]:
    """The way of `grad.at_once` for a kernel that calculates one item a sequence, or an item `by_item`.

    Small batches are mostly plain: a `Ragged` on the host whose items need no cast (``result(name)`` is the dtype of
    the result, None where they do) and no gradient.  Then this is all there is to do, in a third of the time.
    """
    known: dict[Any, Any] = {}

    def quick(x: Any) -> Any:
        if type(x) is not Ragged:
            return None
        data, dtype, shape, structure = x.data, x._dtype, x._shape, x._structure
        library = plain(data, dtype, shape)
        if library is None:
            return None
        try:
            to = known[dtype]
        except KeyError:
            to = result(library.dtype_name(dtype))
            to = remember(known, dtype, None if to is None else library.dtype(to))
        n, rows, width = structure.n, shape[0], size_of(shape[1:])
        if to is None or not (n and width) or _launch.is_large(rows * width * dtype.itemsize, kernel):
            return None
        out = library.empty(shape if by_item else (n, *shape[1:]), to, data)
        given, taken = library.operand(data), library.result(out)
        cum = structure.offsets
        start = registry.entry(kernel, (given.dtype.num, taken.dtype.num))
        start(given, taken, cum, cum, cum, width, -1, 0, 1, *numbers, 0, n)
        return build_ragged(out, structure) if by_item else out

    return quick


def spread_at_once(kernel: str, inputs: tuple[Array, ...], shape: Any, *numbers: int) -> Any:
    """The other way: rows, one a sequence, to the items of a `Ragged` like `shape`; None for what is not plain."""
    if type(shape) is not Ragged:
        return None
    rows, structure = inputs[0], shape._structure
    dtype, item = rows.dtype, rows.shape[1:]
    library = plain(rows, dtype, rows.shape)
    if library is None or library.dtype_name(dtype) not in FLOATS or (library is NUMPY and not dtype.isnative):
        return None
    n, width = structure.n, size_of(item)
    if not (n and width) or _launch.is_large(structure.rows * width * dtype.itemsize, kernel):
        return None
    out = library.empty((structure.rows, *item), dtype, rows)
    data = (*map(library.operand, inputs), library.result(out))
    cum = structure.offsets
    start = registry.entry(kernel, tuple([x.dtype.num for x in data]))
    start(*data, cum, cum, cum, width, -1, 0, 1, *numbers, 0, n)
    return build_ragged(out, structure)


def placed_at_once(kernel: str, rows: Array, shape: Any, *numbers: int, zeros: bool = False) -> Any:
    """The same by a kernel that moves rows of any dtype, into new memory or `zeros`."""
    if type(shape) is not Ragged:
        return None
    dtype, item, structure = rows.dtype, rows.shape[1:], shape._structure
    library = plain(rows, dtype, rows.shape)
    row = size_of(item) * dtype.itemsize
    n, cum = structure.n, structure.offsets
    if library is None or not (structure.rows and row) or _launch.is_large(structure.rows * row, kernel):
        return None
    out = (library.zeros if zeros else library.empty)((structure.rows, *item), dtype, rows)
    source, target = library.address(rows), library.address(out)
    registry.entry(kernel)(source, target, cum, cum, cum, -1, 0, 1, *numbers, row, 0, n)
    return build_ragged(out, structure)


def linear(forward: Callable[[Any], Any], transpose: Callable[[Any], Any], x: Any) -> Any:
    """``forward(x)``, connected to the caller's autograd graph; each function is the gradient of the other."""
    if _flow.wants_grad(x):
        return _flow.apply(lambda z: (forward(z), lambda dy: linear(transpose, forward, dy)), x)
    return forward(x)


def combined(function: Callable[..., Array], x: Any, *others: Any) -> Any:
    """An encoding laid out as `x` and all others, its data calculated of theirs."""
    arrays = zip(*[_flow.leaves(y) for y in (x, *others)], strict=True)
    return _flow.rebuild(x, [function(*a) for a in arrays])


def name_of(x: Any) -> str:
    """The NumPy name of the dtype of an encoding."""
    return library_of(x._like()).dtype_name(x._dtype)
