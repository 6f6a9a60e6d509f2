"""Arguments of attention kernels beside the rows: masks, positions, segments, cumulated lengths."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from ..arrays import Array, Library, adopt, freeze, is_array, library_of
from ..converters.convert import as_own
from ..converters.layouts import check_at_least
from ..errors import CHOICE, KIND, LEVEL, OVERFLOW, ROOM, quote
from ..formats.annotations import Given
from ..formats.bare import is_batch, read_column
from ..formats.leaves import calculate
from ..formats.pairs import is_encoding
from ..formats.rows import mask_beside
from ..formats.structure import MAX_INT64, Structure, flag, integers, whole
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Operand, operand
from ..launch.kernel import kernel
from ..memory_checks import allocate
from .annotations import B, Counts, Lengths
from .calculation import flat_layout, layout_for, rows_like, settle
from .rearrange import per_sequence

number_rows, block_mask_kernel = kernel("number_rows"), kernel("block_mask")


@by_level(keeps=False, kinds=())
def mask(lengths: Lengths, *, width: int | None = None, side: str | None = None, level: int = INNERMOST) -> Array:
    """Mark the places of a padded batch that hold an item.

    Parameters
    ----------
    lengths : integers in an array of any shape or a list, or an encoding
    width : int, optional
        The room of a sequence; without it that of a `Masked`, else the longest.
    side : "right" or "left", optional
        Where the padding is; without it that of a `Masked`, else "right".
    level : int
        See `position_ids`.

    Returns
    -------
    array
        bool ``(*lengths.shape, width)``, in the library and on the device of `lengths` (of an encoding's data); from a
        list a NumPy array (Paddle's sequence_mask).

    Raises
    ------
    ConversionError
        For a `width` below the longest or another `side`.
    StructureError
        For negative lengths.

    See Also
    --------
    Masked.from_mask : The way back, of a batch.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.mask([1, 3], side="left")
    array([[False, False,  True],
           [ True,  True,  True]])
    """
    if level is not INNERMOST and _has_levels(lengths, level):
        return at_level(mask, level, lengths, width=width, side=side)
    library: Library
    lengths = read_column(lengths)
    if is_array(lengths):
        library, like = adopt(lengths, "lengths")
        lead = tuple(like.shape)
        structure = Structure.of_lengths(integers(library.to_numpy(like).reshape(-1), "lengths"))
    else:
        structure, like = read_structure(lengths)
        if not is_encoding(lengths):
            like = np.empty(0)
        elif len(form := as_own(lengths)._form()) == 2:  # a rectangle in the caller's order, as a mask is
            width = form[0] if width is None else width
            side = form[1] if side is None else side
        library, lead = library_of(like), (structure.n,)
    side = "right" if side is None else side
    if not isinstance(side, str) or side not in ("right", "left"):
        raise CHOICE(f'side must be "right" or "left", not {quote(side)}')
    room = structure.longest if width is None else check_at_least(width, "width", 0)
    if room < structure.longest:
        i = int(structure.lengths.argmax())
        raise ROOM(f"width={room} is too small: sequence {i} has {structure.longest} items")
    reshaped: Array = mask_beside(library, like, structure, room, side).reshape((*lead, room))
    return reshaped


@overload
def position_ids(x: Lengths, start: Counts = ..., *, layout: Literal[False] = ..., level: int = ...) -> Array: ...
@overload
def position_ids(x: B, start: Counts = ..., *, layout: Literal[True], level: int = ...) -> B: ...
@by_level(keeps=True)
def position_ids(x: Given, start: Counts = 0, *, layout: bool = False, level: int = INNERMOST) -> Any:
    """The place of every item in its sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or n lengths
    start : int or n integers
        Where to begin: for all sequences, or for each.
    layout : bool
        True for a result laid out as `x`, which must then be a batch.
    level : int
        The level of a `LoD` or of nested lists whose sequences are meant, each with all its rows, as in `convert`;
        negative numbers count from the innermost level.  With `layout` the levels of the result are those of `x`.

    Returns
    -------
    array, or what `x` is
        ``(rows,)`` int64, in the caller's order of sequences, in the library and on the device of `x`; or with `layout`
        a batch as `x` is, of such numbers, its padding 0.

    Raises
    ------
    StructureError
        For positions beyond int64.
    TypeError
        For a `layout` of lengths alone.

    See Also
    --------
    segment_ids : The sequence of every item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.position_ids(sf.Ragged(np.zeros(5), [3, 0, 2]))
    array([0, 1, 2, 0, 1])
    """
    if level is not INNERMOST and _has_levels(x, level):
        return at_level(position_ids, level, x, start, layout=layout)
    own, structure, like = _read_lengths(x, layout)
    first = per_sequence(start, structure.n, "start")
    beyond = first > MAX_INT64 - np.maximum(structure.lengths - 1, 0)
    if beyond.any():
        i = int(beyond.argmax())
        raise OVERFLOW(f"start[{i}] is {first[i]}; {structure.lengths[i]} positions from there go beyond int64")
    return _number(own, structure, like, (freeze(first), 0))


@overload
def segment_ids(x: Lengths, *, layout: Literal[False] = ..., level: int = ...) -> Array: ...
@overload
def segment_ids(x: B, *, layout: Literal[True], level: int = ...) -> B: ...
@by_level(keeps=True)
def segment_ids(x: Given, *, layout: bool = False, level: int = INNERMOST) -> Any:
    """The sequence of every item, by its number.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or n lengths
    layout : bool
        True for a result laid out as `x`, which must then be a batch.
    level : int
        The level of a `LoD` or of nested lists whose sequences are meant, each with all its rows, as in `convert`;
        negative numbers count from the innermost level.  With `layout` the levels of the result are those of `x`.

    Returns
    -------
    array, or what `x` is
        ``(rows,)`` int64, in the caller's order of sequences, in the library and on the device of `x`; or with `layout`
        a batch as `x` is, of such numbers, its padding 0.

    Raises
    ------
    TypeError
        For a `layout` of lengths alone.

    See Also
    --------
    position_ids : The place of every item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.segment_ids(sf.Ragged(np.zeros(5), [3, 0, 2]))
    array([0, 0, 0, 2, 2])
    """
    if level is not INNERMOST and _has_levels(x, level):
        return at_level(segment_ids, level, x, layout=layout)
    return _number(*_read_lengths(x, layout), (freeze(np.zeros(1, np.int64)), 1))


def _has_levels(x: Lengths, level: int) -> bool:
    """Tell whether this is a batch, which may have levels, and not lengths, of which there is one level."""
    if is_batch(x) or (isinstance(x, (list, tuple)) and not x):
        return True
    if whole(level, "level") not in (0, -1):
        raise LEVEL(f"there is no level {quote(level)}, since lengths are those of one level")
    return False


def _read_lengths(x: Lengths, layout: bool) -> tuple[Operand | None, Structure, Array]:
    """The batch, where the result is laid out as it is; its structure; an array beside which the result stands."""
    flag(layout, "layout")
    if not layout:
        return (None, *read_structure(x))
    if not is_batch(x) and not (isinstance(x, (list, tuple)) and not x):
        raise KIND(f"layout=True is for a batch, which has a layout, and not for {type(x).__name__}")
    batch = operand(x)
    return batch, batch.own._structure, batch.own._sample()


def read_structure(x: Lengths) -> tuple[Structure, Array]:
    """The structure of a batch, or of the lengths given, and an array beside which the result stands."""
    if is_array(x):
        library, like = adopt(x, "lengths")
        if "int" in library.dtype_name(like.dtype):
            return Structure.of_lengths(integers(x, "lengths")), like
    elif isinstance(x, (list, tuple)) and not is_batch(x):
        return Structure.of_lengths(integers(x, "lengths")), np.empty(0)
    own = operand(x).own
    return own._structure, own._sample()


def _number(batch: Operand | None, structure: Structure, like: Array, args: tuple[Array, int]) -> Any:
    library = library_of(like)
    dtype = library.dtype("int64")
    at = flat_layout(structure, (), dtype) if batch is None else layout_for(batch.own, (), dtype)

    def number(beside: Array) -> Array:
        made = rows_like(library, at, (), dtype, beside)
        if structure.rows:
            number_rows.start(library, (), (made,), (at._layout(), *args), 1, structure)
        return settle(library, made)

    out = calculate(number, like)
    if batch is None:
        return out
    y = batch.own._with_data(out)
    return y if batch.result is None else batch.result(y)


@by_level(keeps=False)
def cu_seqlens(x: Lengths, *, level: int = INNERMOST) -> Array:
    """The cumulated lengths of the sequences, as variable-length attention kernels take them.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or n lengths
    level : int
        See `position_ids`.

    Returns
    -------
    array
        ``(n + 1,)`` int32, beginning with 0, in the library and on the device of `x`.

    Raises
    ------
    StructureError
        For 2^31 rows or more.

    See Also
    --------
    Ragged.offsets : The same in int64, on the host.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.cu_seqlens(sf.Ragged(np.zeros(5), [3, 0, 2]))
    array([0, 3, 3, 5], dtype=int32)
    """
    if level is not INNERMOST and _has_levels(x, level):
        return at_level(cu_seqlens, level, x)
    structure, like = read_structure(x)
    if structure.rows >= 2**31:
        raise OVERFLOW(f"{structure.rows} rows are more than int32 can count; split the batch")
    return library_of(like).from_host(structure.offsets.astype(np.int32), like)


@by_level(keeps=False)
def block_mask(x: Lengths, *, causal: bool = False, level: int = INNERMOST) -> Array:
    """Mark the pairs of rows that see each other: those of the same sequence.

    Parameters
    ----------
    x : an encoding, a list of arrays, nested lists, or n lengths
    causal : bool
        True if a row sees only itself and what comes before it.
    level : int
        See `position_ids`.

    Returns
    -------
    array
        bool ``(rows, rows)``, in the caller's order of sequences, in the library and on the device of `x`.

    Raises
    ------
    TypeError
        For a `causal` that is neither True nor False.

    See Also
    --------
    segment_ids : Of which sequence each row is.

    Notes
    -----
    All sequences stand one after the other; those rows see each other that are of the same sequence.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.block_mask(sf.Ragged(np.zeros(3), [2, 1]), causal=True).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    if level is not INNERMOST and _has_levels(x, level):
        return at_level(block_mask, level, x, causal=causal)
    flag(causal, "causal")
    structure, like = read_structure(x)
    library, rows = library_of(like), structure.rows
    out = allocate(library.empty, (rows, rows), library.bool_dtype, like)
    if rows:
        block_mask_kernel.start(library, (), (out,), (structure.offsets, int(causal)), rows, structure)
    return out
