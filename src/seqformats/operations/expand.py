"""Repeating: rows and sequences as often as a structure says."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import core, registry
from ..arrays import Array, Library, adopt, freeze, is_array, library_of, with_autograd
from ..arrays.dtypes import differentiable, sums_in
from ..converters.convert import restore, rows_of
from ..converters.like import convert_like
from ..errors import ARGUMENT, COUNTS, DEVICES, DTYPE, KIND, LIBRARY, NO_GRADIENT, SHAPE
from ..formats import Encoding, LoD, Ragged, is_own, structure_of
from ..formats.annotations import Operands, Shaped
from ..formats.call_plans import MOST_PLACES, by_plan_of, get_or_make, is_on_gpu
from ..formats.leaves import wants_grad, without_data
from ..formats.rows import Source, put
from ..formats.structure import Structure
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Pullback, linear, linear_call, operand, operand_beside, quickly_by
from ..launch.kernel import planning
from ..memory_checks import check_room
from .annotations import B, Batch, Counts, X
from .calculation import flat_layout
from .inspection import lengths
from .rearrange import per_sequence
from .select import sum_of_copies
from .spread import repeat_items, repeat_rows, repeating, spread, sum_items


def expand(x: X, like: Batch, *, level: int = INNERMOST, out: Array | None = None) -> X:
    """Sequence i of `x`, or row i of a plain array, as often as sequence i of a level of `like` has items.

    Parameters
    ----------
    x : an array ``(n, *item)``, or an encoding (or bare list) of n sequences
        Items of any dtype.
    like : an encoding or a bare list
        Only its structure is used.
    level : int
        The level of a `LoD`; negative numbers count from the innermost level.  Its n sequences say how often, by the
        sequences of the next level or the rows that they have.
    out : array, optional
        Takes the rows, where `x` is an array, a `Ragged` or a `LoD`: at least as many as needed, of the same item
        shape, dtype and library; the result's data is its first rows.

    Returns
    -------
    same kind as `x`
        An array, or the encoding (Paddle's sequence_expand).

    Raises
    ------
    StructureError
        If the number of sequences is different.
    IndexError
        If the level does not exist.
    TypeError
        If `out` cannot hold the result.

    See Also
    --------
    repeat : By counts, without a batch.
    expand_as : Rows over the items of another batch.

    Notes
    -----
    The gradient adds up the copies in order.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, 2, 3, 4]), [2, 2])
    >>> y = sf.LoD(np.zeros(8), [[0, 2, 4], [0, 3, 6, 7, 8]])
    >>> sf.expand(x, y, level=0).data
    array([1, 2, 1, 2, 3, 4, 3, 4])
    >>> sf.expand(np.array([10, 20, 30]), sf.Ragged(np.zeros(5), [2, 0, 3]))
    array([10, 10, 30, 30, 30])
    """
    flat = out is None and level is INNERMOST
    if flat:
        quick: X | None = _repeating_flat.enter(like, x)
        if quick is not None:
            return quick
        if is_own(like) and like._structure.late and is_array(x):
            expanded: X = _expanded_there(x, like._structure)
            return expanded
    y = _expansion(x, like, level=level, out=out).run()
    if flat and is_own(like) and is_array(x) and hasattr(x, "dtype"):  # a column of Arrow has none
        repeat_rows.teach(_repeating_flat, (x.dtype,), x.dtype)
    return y


def _expanded_there(x: Array, structure: Structure) -> Any:
    """`expand` of rows, where the lengths are on a device and need not come."""
    rows = _with_rows(adopt(x, "x")[1])
    if rows.shape[0] != structure.n:
        raise COUNTS(f"x has {rows.shape[0]} rows, but like has {structure.n} sequences on this level")
    return spread(rows, flat_layout(structure, tuple(rows.shape[1:]), rows.dtype)).data


_repeating_flat = core.Spread(moves=True, flat=True)


def _expansion(x: X, like: Batch, *, level: int = INNERMOST, out: Array | None = None) -> Call[X]:
    """`expand` for whatever is given, with its gradient."""
    return _repeat(x, lengths(like, level), out, "like has {n} sequences on this level")


registry.gradient(expand)(lambda args, options: _expansion(*args, **options).vjp())


@quickly_by(core.repeat)
def repeat(x: X, counts: Counts, *, out: Array | None = None) -> Call[X]:
    """Sequence i of `x`, or row i of a plain array, ``counts[i]`` times.

    Parameters
    ----------
    x : an array ``(n, *item)``, or an encoding (or bare list) of n sequences
        Items of any dtype.
    counts : n integers, or one for all
        How often, not negative.
    out : array, optional
        See `expand`.

    Returns
    -------
    same kind as `x`

    Raises
    ------
    StructureError
        If the number of counts differs from that of the sequences, or if one is negative.
    TypeError
        If `out` cannot hold the result.

    See Also
    --------
    expand : As often as another batch has items.

    Notes
    -----
    The gradient adds up the copies in order.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.repeat(sf.Ragged(np.array([1, 2, 3]), [2, 1]), [2, 1]).lengths
    array([2, 2, 1])
    """
    n = len(_with_rows(adopt(x, "x")[1]) if is_array(x) else operand(x).own)
    return _repeat(x, per_sequence(counts, n, "counts"), out, "there are {n} counts")


def expand_as(x: Batch | Shaped, like: B, *, out: Array | None = None, level: int = INNERMOST) -> B:
    """Row i of `x`, repeated for each item of sequence i of `like`.

    Parameters
    ----------
    x : an array ``(n, *item)``, or an encoding with n rows
        Items of any dtype.
    like : an encoding or bare list
        It has n sequences, on its innermost level if it has several.  Only its structure is used.
    out : array, optional
        See `expand`, for a `like` that is a `Ragged` or a `LoD`.
    level : int
        The level of `like` whose sequences get the rows, each with all its rows, as in `convert`.

    Returns
    -------
    what `like` is
        With its full structure (Paddle's sequence_expand_as).

    Raises
    ------
    StructureError
        If the number of rows is different.
    TypeError
        If `out` cannot hold the result.

    See Also
    --------
    expand : Whole sequences instead of rows.
    reduce_sum : Its gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.expand_as(np.array([10, 20]), sf.LoD(np.zeros(3), [[0, 2], [0, 1, 3]])).to_nested()
    [[[10], [20, 20]]]
    """
    if level is not INNERMOST:
        return at_level(expand_as, level, x, like, out=out)
    if out is None:
        y: B | None = repeating.enter(like, x)
        if y is not None:
            return y
    if out is None and isinstance(like, Encoding) and issubclass(type(like), Encoding) and is_array(x):
        library, rows = adopt(x, "x")
        if rows.shape[:1] == (like._structure.n,) and not (with_autograd and wants_grad(rows)):
            return repeat_items(library, rows, like)
    return _expand(x, like, out=out).run()


registry.gradient(expand_as)(lambda args, options: _expand(*args, **options).vjp())
by_level(keeps=True, batch=1, gradients=("x",))(expand_as)


def _expand(x: Batch | Shaped, like: B, *, out: Array | None = None) -> Call[B]:
    """`expand_as` for whatever is given, with its gradient."""
    own, result, _ = operand(like)
    structure = own._structure
    gradient = None
    if is_array(x):
        library, rows = adopt(x, "x")
    else:
        given, _, of_x = operand_beside(x, own._sample())
        rows = rows_of(given)
        library = library_of(rows)

        def gradient(dx: Array) -> Any:
            y = convert_like(Ragged._freeze(dx, given._structure), given)
            return y if of_x is None else of_x(y)

    if _with_rows(rows).shape[0] != structure.n:
        raise COUNTS(f"x has {len(rows)} rows, but like has {structure.n} innermost sequences")
    item = tuple(rows.shape[1:])
    name = library.dtype_name(rows.dtype)
    if out is not None and not own._flat:
        raise KIND(f"out= takes the rows of a Ragged or a LoD, but like is a {type(own).__name__}")
    shape = without_data(own)
    target = take_rows(out, library, rows, structure.rows, item)

    def forward(z: Array) -> Any:
        return repeat_items(library, z, shape, target)

    return linear_call(rows, forward, sum_items, result, gradient, check=lambda: _summable(name))


def _with_rows(x: Array) -> Array:
    if len(x.shape) < 1:
        raise SHAPE("x must have the axes (n, *item), but is a single number")
    return x


def _repeat(x: X, counts: Array, out: Array | None, have: str) -> Call[X]:
    if is_array(x):
        library, rows = adopt(x, "x")
        return _repeated_rows(library, _with_rows(rows), counts, out, have)
    own, result, gradient = operand(x)
    if len(own) != counts.size:
        raise COUNTS(f"x has {len(own)} sequences, but {have.format(n=counts.size)}")
    library = library_of(own._sample())
    name = library.dtype_name(own.dtype)
    if out is not None and not own._flat:
        raise KIND(f"out= takes the rows of an array, a Ragged or a LoD, but x is a {type(own).__name__}")
    outer = structure_of(own, 0)  # of a LoD, each outermost sequence with all its rows
    make = functools.partial(_copies, counts, outer.lengths)
    if planning and counts.size <= MOST_PLACES and is_on_gpu(own):
        copies, index, copied = get_or_make(outer, ("copies", counts.tobytes()), make)
    else:
        copies, index, copied = make()
    target = take_rows(out, library, own._sample(), copied.rows, own.item_shape)

    def forward(z: Operands) -> Any:
        if target is None:
            return z._choose(index)
        put(Source(*z._read()).restrict(copied, freeze(outer.offsets[index])), target, copied.flat)
        return LoD._from_levels(target, z._levels_of(index)) if z.keeps_levels else Ragged._freeze(target, copied)

    def back(shape: Encoding, dy: Encoding) -> Any:
        given = rows_of(dy)
        key = "copies", copies.lengths.tobytes(), given.shape, given.dtype, given.__class__
        rows = by_plan_of(copied, (given,), key, sum_of_copies, given, copies, copied, outer)
        return restore(Ragged._freeze(rows, outer), shape)

    def rule(z: Encoding, wanted: bool) -> tuple[Any, Pullback | None]:
        y = forward(z)
        if not wanted:
            return y, None
        _summable(name)
        to_own = functools.partial(back, without_data(z))
        return y, lambda dy: linear(to_own, forward, dy)

    return Call(own, rule, result, gradient)


def _copies(counts: Array, lengths: Array) -> tuple[Structure, Array, Structure]:
    """The structure of so many copies of each sequence, of which one each is, and that of all copies."""
    copies = Structure.of_lengths(counts.copy(), None, "counts")
    check_room(copies.rows, 8, "sequences")
    index = np.repeat(np.arange(counts.size), counts)
    return copies, index, Structure.of_lengths(lengths[index])


def _repeated_rows(library: Library, rows: Array, counts: Array, out: Array | None, have: str) -> Call[Any]:
    """The rows of a plain array, each as often as `counts` says."""
    if rows.shape[0] != counts.size:
        raise COUNTS(f"x has {rows.shape[0]} rows, but {have.format(n=counts.size)}")
    structure = Structure.of_lengths(counts.copy(), None, "counts")
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    shape = flat_layout(structure, item, rows.dtype)
    target = take_rows(out, library, rows, structure.rows, item)

    def forward(z: Array | Encoding) -> Array:
        made: Array = repeat_items(library, z.data if isinstance(z, Encoding) else z, shape, target).data
        return made

    return linear_call(rows, forward, lambda d: sum_items(Ragged._freeze(d, structure)), check=lambda: _summable(name))


def _summable(name: str) -> None:
    sums_in(name)
    differentiable(name, "a repetition")


def take_rows(out: Array | None, library: Library, like: Array, rows: int, item: tuple[int, ...]) -> Array | None:
    """The first `rows` rows of an array that the caller has given for the result, checked."""
    if out is None:
        return None
    if not is_array(out) or library_of(out) is not library:
        raise LIBRARY(f"out must be an array of {library.name}, as x is, not {type(out).__name__}")
    if not library.writable(out):
        raise KIND("out must be writable, C-contiguous and without a gradient")
    if library.wants_grad((like,)):
        raise NO_GRADIENT("a result in out= has no gradient; leave out= away, or give x.detach()")
    if library.device(out) != library.device(like):
        raise DEVICES(f"out is on {library.device(out)}, but x on {library.device(like)}")
    if out.dtype != like.dtype:
        raise DTYPE(f"out has dtype {out.dtype}, but x has {like.dtype}")
    if tuple(out.shape[1:]) != item or len(out.shape) < 1:
        raise SHAPE(f"out must have the axes (rows, *item) with item shape {item}, but has {tuple(out.shape)}")
    if out.shape[0] < rows:
        raise SHAPE(f"out has {out.shape[0]} rows, but {rows} are needed")
    if library.overlap(out, like):
        raise ARGUMENT("out lies in the same memory as x")
    library.mark_written(out)
    used: Array = out[:rows]
    return used
