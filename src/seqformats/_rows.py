"""What operations share: kernels that go over the sequences of any encoding, where its items lie.

A kernel finds item t of a sequence by a `layout.Layout` (see `kernels.parts.common`),
so a padded batch is worked on as it is, and a result in the same layout is written in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _flow, layout
from .arrays import NUMPY, Array, Library, Shape, library_of, plain, size_of
from .convert import checked_data, convert, ragged_to_list
from .formats import List, Masked, Packed, Padded, Ragged, build_ragged
from .launch.kernel import kernel
from .limits import NO_ROOM, no_room, remember
from .structure import Structure

# dtype of the items -> dtype in which they are added up
SUMS_IN = {
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
    "bool": "int64",
    "int8": "int64",
    "int16": "int64",
    "int32": "int64",
    "int64": "int64",
    "uint8": "uint64",
    "uint16": "uint64",
    "uint32": "uint64",
    "uint64": "uint64",
}
HALF = ("float16", "bfloat16")
ORDERED = [name for name in SUMS_IN if not name.startswith("complex")]


class Layout(NamedTuple):
    """Where the items of the sequences lie."""

    arrays: tuple[Array, Array, Array]  # starts, cum, steps
    numbers: tuple[int, int, int]  # stride, left, step
    lead: Shape  # the shape of data before the items
    lengths: Array  # of the units, in their order
    padded: bool  # is there room that no item takes?


at_rows = functools.partial(tuple.__new__, layout.Layout)  # in half the time


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
        kernel(name).start(
            library,
            inputs,
            outputs,
            (at_rows((*layout.arrays, *layout.numbers, 0)), *arrays, *numbers),
            width,
            structure,
        )


def move(
    name: str, library: Library, layout: Layout, structure: Any, src: Array, out: Array, item: Shape, *numbers: int
) -> None:
    """Start a kernel that moves items of shape `item` over the sequences; `numbers` are its own."""
    row = size_of(item) * library.itemsize(src.dtype)
    if row and structure.rows:
        kernel(name).start(
            library, (src,), (out,), (at_rows((*layout.arrays, *layout.numbers, 0)), *numbers), row, structure
        )


def calculated_at_once(
    name: str, result: Callable[[str], str | None], *numbers: int, by_item: bool = False
) -> Callable[[Any], Any]:
    """The way of `grad.at_once` for a kernel that calculates one item a sequence, or an item `by_item`.

    Small batches are mostly plain: a `Ragged` on the host whose items need no cast (``result(name)`` is the dtype of
    the result, None where they do) and no gradient.  Then this is all there is to do, in a third of the time.
    """
    known: dict[Any, Any] = {}
    start = kernel(name).start

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
        n, width = structure.n, size_of(shape[1:])
        if to is None or not (n and width):
            return None
        out = library.empty(shape if by_item else (n, *shape[1:]), to, data)
        cum = structure.offsets
        start(library, (data,), (out,), (at_rows((cum, cum, cum, -1, 0, 1, 0)), *numbers), width, structure)
        return build_ragged(out, structure) if by_item else out

    return quick


def spread_at_once(name: str, inputs: tuple[Array, ...], shape: Any, *numbers: int) -> Any:
    """The other way: rows, one a sequence, to the items of a `Ragged` like `shape`; None for what is not plain."""
    if type(shape) is not Ragged:
        return None
    rows, structure = inputs[0], shape._structure
    dtype, item = rows.dtype, rows.shape[1:]
    library = plain(rows, dtype, rows.shape)
    if library is None or library.dtype_name(dtype) not in _FLOATS or (library is NUMPY and not dtype.isnative):
        return None
    n, width = structure.n, size_of(item)
    if not (n and width):
        return None
    out = library.empty((structure.rows, *item), dtype, rows)
    cum = structure.offsets
    at = at_rows((cum, cum, cum, -1, 0, 1, 0))
    kernel(name).start(library, inputs, (out,), (at, *numbers), width, structure)
    return build_ragged(out, structure)


def placed_at_once(name: str, rows: Array, shape: Any, *numbers: int, zeros: bool = False) -> Any:
    """The same by a kernel that moves rows of any dtype, into new memory or `zeros`."""
    if type(shape) is not Ragged:
        return None
    dtype, item, structure = rows.dtype, rows.shape[1:], shape._structure
    library = plain(rows, dtype, rows.shape)
    row = size_of(item) * dtype.itemsize
    cum = structure.offsets
    if library is None or not (structure.rows and row):
        return None
    out = (library.zeros if zeros else library.empty)((structure.rows, *item), dtype, rows)
    at = at_rows((cum, cum, cum, -1, 0, 1, 0))
    kernel(name).start(library, (rows,), (out,), (at, *numbers), row, structure)
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


# --- dtypes ----------------------------------------------------------------------------------------------------------


def name_of(x: Any) -> str:
    """The NumPy name of the dtype of an encoding."""
    return library_of(x._like()).dtype_name(x._dtype)


def sums_in(name: str) -> str:
    """The dtype in which items of this dtype are added up; TypeError where they cannot be."""
    if name not in SUMS_IN:
        raise TypeError(f"items of dtype {name} cannot be added up; those that can: {', '.join(SUMS_IN)}")
    return SUMS_IN[name]


def in_floats(name: str, what: str) -> tuple[str, str]:
    """In which dtype exponentials, say, are calculated, and which the result has; TypeError where there is none."""
    if name not in SUMS_IN or name.startswith("complex"):
        raise TypeError(
            f"items of dtype {name} have no order, and so {what} neither; those that have one: {', '.join(ORDERED)}"
        )
    if name in HALF:
        return "float32", name
    return (name, name) if name.startswith("float") else ("float64", "float64")


def float_kept(name: str) -> str | None:
    """`name` where exponentials are calculated in items as they are; None for other dtypes."""
    return name if name in _FLOATS else None


_FLOATS = ("float32", "float64")


def differentiable(name: str, what: str) -> None:
    """TypeError for integers and bools."""
    if SUMS_IN.get(name) in ("int64", "uint64"):
        raise TypeError(f"{what} of {name} has no gradient; give the items a float dtype")
