"""Items at chosen places of every sequence, and the way back: what filtering, sorting and gathering are made of.

`places` are int64, flat, over the rows of the result in the caller's order: the place of each in its own sequence.
They are on the host, or beside the items, and nothing is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array, Library, library_of, to_host
from ..arrays.dtypes import HALF, differentiable, sums_in
from ..converters.convert import convert, restore, rows_of
from ..converters.like import convert_like
from ..errors import COUNTS, INDEX, SHAPE, WHOLE
from ..formats import Encoding, Ragged, structure_of
from ..formats.call_plans import MOST_PLACES, by_plan
from ..formats.leaves import without_data
from ..formats.structure import INT64, MAX_INT64, Structure
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Operation, Pullback, linear, operand
from ..launch.kernel import Kernel, kernel, planning
from ..memory_checks import allocate
from .annotations import B, Batch
from .calculation import flat_layout, name_of

pick_rows, add_rows, wrap_places = kernel("pick_rows"), kernel("add_rows"), kernel("wrap_places")

Rule = Callable[[Encoding, bool], tuple[Any, Pullback]]
"""Of a `gradients.operation.Call`."""

_EXACT = {"float32": "float64", "complex64": "complex128"}
"""In which dtype sums are kept, where that is not the items' own."""


def pick(z: Encoding, places: Array, structure: Structure, *, by_column: bool = False) -> Any:
    """The items of every sequence at `places`, in the kind of `z`, with the lengths of `structure`.

    With `by_column` each column of an item has a place of its own.
    """
    sample = z._sample()
    library = library_of(sample)
    columns = math.prod(z.item_shape) if by_column else 1
    return move(pick_rows, z, structure, _bring_places(places, library, sample), columns, 0, columns=columns)


def move(mover: Kernel, z: Encoding, structure: Structure, *args: Any, columns: int = 1) -> Any:
    """The rows that a kernel moves out of `z`, sequence by sequence, with the lengths of `structure`, in its kind.

    The kernel takes where they lie, in blocks, the offsets of `structure`, and `args`; it moves rows, or so many parts
    of each.
    """
    if columns == 1:
        found = mover.move_rows(z, structure, structure.offsets, *args)
        if found is not None:
            return found if z._flat and not z.keeps_levels else convert_like(found, without_data(z))
    library, data, at, _, sample, item, _ = (convert(z, Ragged) if z._by_steps else z)._read()
    rows, dtype = structure.rows, sample.dtype
    out = allocate(library.empty, (rows, *item), dtype, sample)
    row = math.prod(item) * dtype.itemsize
    if row and rows:
        mover.start(library, (data,), (out,), (at, structure.offsets, *args), row // columns, structure)
    return in_kind_of(out, structure, z)


def in_kind_of(rows: Array, structure: Structure, z: Encoding) -> Any:
    """Rows that lie one after the other, with the lengths of `structure`, in the kind of `z`."""
    if z._flat and not z.keeps_levels:
        return z._freeze(rows, structure)
    return convert_like(Ragged._freeze(rows, structure), without_data(z))


def place(
    dy: Encoding,
    places: Array,
    like: Encoding,
    *,
    once: bool = False,
    by_column: bool = False,
    start: Array | None = None,
) -> Any:
    """The transpose of `pick`: what `like` is, with the items of `dy` at `places`, added up in order, and zeros.

    Where no place comes more than `once`, items of any dtype are moved there.  Instead of zeros they may `start` with
    the rows of a batch, one sequence after the other, which are copied.
    """
    rows, structure = rows_of(dy), structure_of(dy)
    blocks = like._in_one_array and not like._by_steps and (start is None or like._flat)
    at = like if blocks else flat_layout(like._structure, tuple(rows.shape[1:]), rows.dtype)
    args = rows, structure, places, at, once, by_column, start
    if start is None and planning and type(places) is not np.ndarray and structure.n <= MOST_PLACES:
        key = "place", once, by_column, rows.shape, rows.dtype, structure.offsets.tobytes(), places.shape
        found = at._with_data(by_plan(at, (rows, places), key, _place_rows, *args))
    else:
        found = at._with_data(_place_rows(*args))
    return found if blocks else restore(found, like)


def _place_rows(
    rows: Array, structure: Structure, places: Array, at: Any, once: bool, by_column: bool, start: Array | None
) -> Array:
    """The data of `place`, laid out as `at`."""
    library, item = library_of(rows), tuple(rows.shape[1:])
    name, width = library.dtype_name(rows.dtype), math.prod(item)
    made = name
    if not once:
        rows = library.astype(rows, "float32" if name in HALF else name)
        added_in = library.dtype_name(rows.dtype)
        made = _EXACT.get(added_in, added_in)
    dtype = rows.dtype if once else library.dtype(made)
    if start is None:
        out = allocate(library.zeros, (*at._shape[: at._lead], *item), dtype, rows)
    else:
        out = library.copy(start) if made == name or once else library.astype(start, made)
    if width and structure.rows:
        args = (at._layout(), structure.offsets, _bring_places(places, library, out))
        if once:
            columns = width if by_column else 1
            size = width // columns * library.itemsize(dtype)
            pick_rows.start(library, (rows,), (out,), (*args, columns, 1), size, structure)
        else:
            add_rows.start(library, (rows,), (out,), args, width, structure)
    return out if made == name else library.astype(out, name)


def pick_call(own: Encoding, places: Array, structure: Structure) -> Rule:
    """The rule of a `Call` that picks where no place comes twice; both ways are linear, to any order."""
    pullback = pullback_of(own, places, structure, once=True)
    return lambda z, _: (pick(z, places, structure), pullback)


def pullback_of(
    own: Encoding, places: Array, structure: Structure, *, once: bool = False, by_column: bool = False
) -> Pullback:
    """The way back from what was picked of `own`."""
    shape = without_data(own)

    def forward(z: Encoding) -> Any:
        return pick(z, places, structure, by_column=by_column)

    def back(dy: Encoding) -> Any:
        return place(dy, places, shape, once=once, by_column=by_column)

    return lambda dy: linear(back, forward, dy)


def _bring_places(places: Array, library: Library, out: Array) -> Array:
    """Places as kernels take them where `out` is: on the host NumPy's, on a GPU from either side."""
    if type(places) is np.ndarray:
        places.setflags(write=False)
        return places
    return library.operand(places) if library.kind(out) == "cpu" else places


def _gathered_rule(x: Encoding, places: Array, structure: Structure) -> tuple[Any, Pullback]:
    name = name_of(x)
    sums_in(name)
    differentiable(name, "a selection with repeated places")
    return pick(x, places, structure), pullback_of(x, places, structure)


def places_in(own: Encoding, index: object, what: str = "x") -> tuple[Array, Structure]:
    """The places that an index names, from the beginning of their sequences, on the host; and its structure."""
    asked = operand(index).own
    structure, lengths = asked._structure, own._structure.lengths
    if structure.n != lengths.size:
        raise COUNTS(f"index has {structure.n} sequences, but {what} has {lengths.size}")
    if asked._shape[asked._lead :] not in ((), (1,)):
        raise SHAPE(f"index must hold one integer per item, but has item shape {asked.item_shape}")
    given = to_host(rows_of(asked)).reshape(-1).copy()  # read once: another thread may change what is checked
    wanted = given if given.dtype is INT64 else _as_int64(given)
    wanted.setflags(write=False)
    places: Array = np.empty(wanted.size, INT64)
    r = wrap_places.run(wanted, places, structure.offsets, lengths)
    if r >= 0:
        i = int(np.searchsorted(structure.offsets, r, side="right")) - 1
        raise INDEX(
            f"index[{i}][{r - structure.offsets[i]}] is {given[r]}, but sequence {i} of {what} has {lengths[i]} items"
        )
    return places, structure


def _as_int64(given: Array) -> Array:
    """Places of any dtype; TypeError for items that are no integers."""
    if not given.size:
        return np.empty(0, INT64)
    if given.dtype.kind not in "iu":
        raise WHOLE(f"index must hold integers, not {given.dtype}")
    held = np.minimum(given, MAX_INT64) if given.dtype == np.uint64 else given  # what is over int64 is beyond any end
    return held.astype(INT64)


GATHER = Operation(pick, _gathered_rule, check=places_in)


@by_level(keeps=False, marks=("index",))
@GATHER.register
def gather(x: B, index: Batch, *, level: int = INNERMOST) -> B:
    """Take the items at chosen places of every sequence, in the order in which they are chosen.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    index : an encoding, a list of arrays or nested lists
        Integers with the item shape () or (1,), over as many innermost sequences as `x`, with lengths of their own:
        item j of sequence i of the result is item ``index[i][j]`` of sequence i of `x`.  Negative ones count from the
        end, and a place may come several times, or never.
    level : int
        See `topk`; `index` has its sequences.

    Returns
    -------
    same kind as `x`
        With the lengths of `index`.

    Raises
    ------
    IndexError
        For a place that does not exist.
    StructureError
        For another number of sequences, or other item shapes of `index`.
    TypeError
        For an `index` that holds no integers; for a gradient of items that cannot be added up.

    See Also
    --------
    filter : Items in their own order.
    select : Whole sequences.

    Notes
    -----
    An `index` on a GPU is copied to the host once, to be checked.  The gradient adds up, in order and in float64, what
    comes from one item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([10, 11, 12, 20]), [3, 1])
    >>> sf.gather(x, [[-1, 0], [0, 0, 0]])
    Ragged(shape (5,), int64, cpu, 2 sequences of lengths [2, 3])
    >>> sf.gather(x, [[-1, 0], [0, 0, 0]]).data
    array([12, 10, 20, 20, 20])
    """
    if level is not INNERMOST:
        return at_level(gather, level, x, index)
    return GATHER.run(x, index)
