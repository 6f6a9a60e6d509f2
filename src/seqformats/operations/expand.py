"""Repeating: rows and sequences as often as a structure says."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import registry
from ..arrays import Array, Library, adopt, frozen, is_array, library_of, with_autograd
from ..arrays.dtypes import differentiable, sums_in
from ..conversion.convert import restored, rows_of
from ..conversion.like import convert_like
from ..errors import DeviceError, StructureError
from ..formats import Encoding, LoD, Ragged, structure_of
from ..formats.leaves import wants_grad, without_data
from ..formats.rows import move
from ..formats.structure import Structure
from ..gradients.operation import Call, linear, operand, operation
from ..limits import check_room
from .over import one_after_the_other
from .questions import lengths
from .rearrange import per_sequence
from .reduce import repeated, summed
from .select import sum_of_copies


@operation
def expand(x: Any, like: Any, *, level: int = -1, out: Any = None) -> Any:
    """Sequence i of `x`, or row i of a plain array, as often as sequence i of a level of `like` has items.

    Parameters
    ----------
    x : an array ``(n, *item)``, or an encoding (or bare list) of n sequences; any dtype
    like : an encoding (or bare list); only its structure is looked at
    level : of a `LoD`, negative from the innermost; its n sequences say how often, by the sequences of the next level
        or the rows that they have
    out : an array that takes the rows, where `x` is an array, a `Ragged` or a `LoD`: at least as many as needed, of the
        same item shape, dtype and library; the result's data is its first rows

    Returns what `x` is: an array, or the encoding (Paddle's sequence_expand).  The gradient adds up the copies in
    order.

    Errors: StructureError for another number of sequences, IndexError for a level that does not exist, TypeError for an
    `out` that cannot be.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.array([1, 2, 3, 4]), [2, 2])
    >>> y = sf.LoD(np.zeros(8), [[0, 2, 4], [0, 3, 6, 7, 8]])
    >>> sf.expand(x, y, level=0).data
    array([1, 2, 1, 2, 3, 4, 3, 4])
    >>> sf.expand(np.array([10, 20, 30]), sf.Ragged(np.zeros(5), [2, 0, 3]))
    array([10, 10, 30, 30, 30])
    """
    return _repeated(x, lengths(like, level), out, "like has {n} sequences on this level")


@operation
def repeat(x: Any, counts: Any, *, out: Any = None) -> Any:
    """Sequence i of `x`, or row i of a plain array, ``counts[i]`` times.

    Parameters
    ----------
    x : an array ``(n, *item)``, or an encoding (or bare list) of n sequences; any dtype
    counts : n integers, not negative, or one for all
    out : see `expand`

    Returns what `x` is.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.repeat(sf.Ragged(np.array([1, 2, 3]), [2, 1]), [2, 1]).lengths
    array([2, 2, 1])
    """
    n = len(_with_rows(adopt(x, "x")[1]) if is_array(x) else operand(x).own)
    return _repeated(x, per_sequence(counts, n, "counts"), out, "there are {n} counts")


def expand_as(x: Any, like: Any, *, out: Any = None) -> Any:
    """Row i of `x`, repeated over the innermost sequence i of `like`.

    Parameters
    ----------
    x : an array ``(n, *item)``, or an encoding with n rows; any dtype
    like : an encoding (or bare list) with n innermost sequences; only its structure is looked at
    out : see `expand`, for a `like` that is a `Ragged` or a `LoD`

    Returns the encoding of `like`, with its full structure (Paddle's sequence_expand_as).

    Errors: StructureError for another number of rows.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.expand_as(np.array([10, 20]), sf.LoD(np.zeros(3), [[0, 2], [0, 1, 3]])).to_nested()
    [[[10], [20, 20]]]
    """
    if out is None and isinstance(like, Encoding) and is_array(x):
        library, rows = adopt(x, "x")
        if rows.shape[:1] == (like._structure.n,) and not (with_autograd and wants_grad(rows)):
            return repeated(library, rows, like)
    return _expanded(x, like, out=out).run()


registry.gradient(expand_as)(lambda args, options: _expanded(*args, **options).vjp())


def _expanded(x: Any, like: Any, *, out: Any = None) -> Call:
    """`expand_as` for whatever is given, with its gradient."""
    own, result, _ = operand(like)
    structure = own._structure
    gradient = None
    if is_array(x):
        library, rows = adopt(x, "x")
    else:
        given, _, of_x = operand(x)
        rows = rows_of(given)
        library = library_of(rows)

        def gradient(dx: Array) -> Any:
            y = convert_like(Ragged._sealed(dx, given._structure), given)
            return y if of_x is None else of_x(y)

    if _with_rows(rows).shape[0] != structure.n:
        raise StructureError(f"x has {len(rows)} rows, but like has {structure.n} innermost sequences")
    item = tuple(rows.shape[1:])
    name = library.dtype_name(rows.dtype)
    if out is not None and not own._flat:
        raise TypeError(f"out= takes the rows of a Ragged or a LoD, but like is a {type(own).__name__}")
    shape = without_data(own)
    target = into(out, library, rows, structure.rows, item)

    def forward(z: Array) -> Any:
        return repeated(library, z, shape, target)

    def rule(z: Array, back: bool) -> tuple[Any, Any]:
        y = forward(z)
        if back:
            _summable(name)
        return y, lambda dy: linear(summed, forward, dy)

    return Call(rows, rule, result, gradient)


def _with_rows(x: Array) -> Array:
    if len(x.shape) < 1:
        raise StructureError("x must have the axes (n, *item), but is a single number")
    return x


def _repeated(x: Any, counts: Array, out: Any, have: str) -> Call:
    if is_array(x):
        library, rows = adopt(x, "x")
        return _repeated_rows(library, _with_rows(rows), counts, out, have)
    own, result, gradient = operand(x)
    if len(own) != counts.size:
        raise StructureError(f"x has {len(own)} sequences, but {have.format(n=counts.size)}")
    copies = Structure.of_lengths(counts.copy(), None, "counts")
    library = library_of(own._sample())
    name = library.dtype_name(own.dtype)
    if out is not None and not own._flat:
        raise TypeError(f"out= takes the rows of an array, a Ragged or a LoD, but x is a {type(own).__name__}")
    outer = structure_of(own, 0)  # of a LoD, each outermost sequence with all its rows
    check_room(copies.rows, 8, "sequences")
    index = np.repeat(np.arange(len(own)), counts)
    copied = Structure.of_lengths(outer.lengths[index])
    target = into(out, library, own._sample(), copied.rows, own.item_shape)
    shape = without_data(own)

    def forward(z: Any) -> Any:
        if target is None:
            return z._chosen(index)
        move(z._read().restricted(copied, frozen(outer.offsets[index])), target, copied.flat)
        return LoD._over(target, z._levels_of(index)) if z.keeps_levels else Ragged._sealed(target, copied)

    def back(dy: Any) -> Any:
        rows = sum_of_copies(rows_of(dy), copies, copied, outer)
        return restored(Ragged._sealed(rows, outer), shape)

    def rule(z: Any, wanted: bool) -> tuple[Any, Any]:
        y = forward(z)
        if wanted:
            _summable(name)
        return y, lambda dy: linear(back, forward, dy)

    return Call(own, rule, result, gradient)


def _repeated_rows(library: Library, rows: Array, counts: Array, out: Any, have: str) -> Call:
    """The rows of a plain array, each as often as `counts` says."""
    if rows.shape[0] != counts.size:
        raise StructureError(f"x has {rows.shape[0]} rows, but {have.format(n=counts.size)}")
    structure = Structure.of_lengths(counts.copy(), None, "counts")
    name, item = library.dtype_name(rows.dtype), tuple(rows.shape[1:])
    shape = one_after_the_other(structure, item, rows.dtype)
    target = into(out, library, rows, structure.rows, item)

    def forward(z: Any) -> Array:
        return repeated(library, z.data if isinstance(z, Encoding) else z, shape, target).data

    def rule(z: Array, back: bool) -> tuple[Any, Any]:
        y = forward(z)
        if back:
            _summable(name)
        return y, lambda dy: linear(lambda d: summed(Ragged._sealed(d, structure)), forward, dy)

    return Call(rows, rule)


def _summable(name: str) -> None:
    sums_in(name)
    differentiable(name, "a repetition")


def into(out: Any, library: Library, like: Array, rows: int, item: tuple[int, ...]) -> Array | None:
    """The first `rows` rows of an array that the caller has given for the result, checked."""
    if out is None:
        return None
    if not is_array(out) or library_of(out) is not library:
        raise TypeError(f"out must be an array of {library.name}, as x is, not {type(out).__name__}")
    if not library.writable(out):
        raise TypeError("out must be writable, C-contiguous and without a gradient")
    if library.wants_grad((like,)):
        raise TypeError("a result in out= has no gradient; leave out= away, or give x.detach()")
    if library.device(out) != library.device(like):
        raise DeviceError(f"out is on {library.device(out)}, but x on {library.device(like)}")
    if out.dtype != like.dtype:
        raise TypeError(f"out has dtype {out.dtype}, but x has {like.dtype}")
    if tuple(out.shape[1:]) != item or len(out.shape) < 1:
        raise StructureError(f"out must have the axes (rows, *item) with item shape {item}, but has {tuple(out.shape)}")
    if out.shape[0] < rows:
        raise StructureError(f"out has {out.shape[0]} rows, but {rows} are needed")
    if library.overlap(out, like):
        raise StructureError("out lies in the same memory as x")
    library.written(out)
    used: Array = out[:rows]
    return used
