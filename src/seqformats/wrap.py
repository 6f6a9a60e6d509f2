"""Wrappers: a function that wants one layout, called with any.

A wrapper converts every argument that is an encoding, calls the function, and gives the result back in the encoding
and with the structure of the first one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, overload

from .errors import KIND
from .formats import Encoding, List, LoD, Masked, Packed, Padded, Ragged
from .formats.annotations import Shaped
from .formats.structure import flag
from .wrapping.annotations import P, Wrapping, WrappingMasked, WrappingPadded, WrappingRows, X
from .wrapping.flatten import flattening
from .wrapping.trees import TreeWrapper
from .wrapping.wrapper import Function

# --- what a type checker sees, see wrapping/annotations.py -----------------------------------------------------------


def _same(wrapper: Any) -> Any:
    """Return a wrapper, to which the names below give a type."""
    return wrapper


_lists: Callable[[Function], Wrapping[List]] = _same
_ragged: Callable[[Function], Wrapping[Ragged]] = _same
_packed: Callable[[Function], Wrapping[Packed]] = _same
_lods: Callable[[Function], Wrapping[LoD]] = _same
_padded: Callable[[Function], WrappingPadded] = _same
_masked: Callable[[Function], WrappingMasked] = _same
_rows: Callable[[Function], WrappingRows] = _same


# --- the wrappers ----------------------------------------------------------------------------------------------------


def _make_wrapper(name: str, To: type[Encoding], fn: Function | None, options: dict[str, Any], **how: Any) -> Any:
    wrapper = TreeWrapper(name, To, options, **how)
    return wrapper.wrap if fn is None else wrapper.wrap(fn)


@_lists
def with_list(fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None, **options: Any) -> Any:
    """Wrap `fn`, which takes a `List` and returns one or a list of arrays, so that any encoding can be given.

    Parameters, result and errors are those of `with_padded`.

    See Also
    --------
    with_padded

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> ends = sf.with_list(lambda x: [item[-1:] for item in x.items])
    >>> ends(sf.Ragged(np.arange(5), [2, 3])).data
    array([1, 4])
    """
    return _make_wrapper("with_list", List, fn, options, backprop=backprop, like=like)


@_ragged
def with_ragged(
    fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None, **options: Any
) -> Any:
    """Wrap `fn`, which takes a `Ragged`, so that it can be called with any encoding.

    Parameters, result and errors are those of `with_padded`.

    See Also
    --------
    with_padded

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> double = sf.with_ragged(lambda x: x.data * 2)
    >>> double([np.array([1, 2]), np.array([3])])
    [array([2, 4]), array([6])]
    """
    return _make_wrapper("with_ragged", Ragged, fn, options, backprop=backprop, like=like)


@_padded
def with_padded(
    fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None, **options: Any
) -> Any:
    """Wrap `fn`, which takes a `Padded`, so that it can be called with any encoding.

    Parameters
    ----------
    fn : function, optional
        It sees a `Padded` and returns one with the same number of sequences (other lengths, item shape or dtype are
        allowed), or an array whose shape begins as that of the data it saw.  Of a returned tuple the first element is
        the result, the rest is passed on.  Without `fn` the call is a decorator.
    backprop : bool
        Whether `fn` returns ``(y, backprop)``.  Then the wrapped function does too, and its ``backprop(dy)`` takes and
        gives gradients in the caller's encoding and dtype.
    like : array ``(anything, *item)``, optional
        It gives dtype, item shape and library to a bare list without any item, ``[]`` or ``[[], []]``; without it that
        is float64 with item shape ().
    **options : of the conversion
        fill, width, multiple_of, truncate, level; and dtype, of numbers in bare lists.

    Returns
    -------
    function
        It converts every argument that is an encoding (a bare list only as the first one, after `self`) and passes the
        others on.  The result comes back in the encoding of the first one, with its own structure, all levels of a
        `LoD` included.  What `fn` writes into the padding is dropped; sequences that an option (`truncate`) has cut
        come back cut.  A column of Arrow, whatever `from_arrow` takes, counts as the `Ragged` or `LoD` that it is
        there, and that comes back; Arrow takes it as it is.

        The first argument may be a tree of columns (see `convert`): `fn` sees it with its batches converted, its rows
        in the caller's order.  Batches in a tree that `fn` returns go back by name, each to the encoding of the column
        that was given under its name, and under a new name to that of the first column; an array with one row per
        sequence, a number or None is kept.  A single batch goes back to the encoding of the first one.

    Raises
    ------
    TypeError
        For an option that no conversion knows; from the wrapped function where no argument is an encoding.
    StructureError
        From the wrapped function where `fn` returns another number of sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> @sf.with_padded
    ... def cumulated(x):
    ...     return np.cumsum(x.data, axis=0)
    >>> cumulated(sf.LoD(np.array([1, 2, 3]), [[0, 1, 2], [0, 2, 3]])).to_nested()
    [[[1, 3]], [[3]]]
    """
    return _make_wrapper("with_padded", Padded, fn, options, backprop=backprop, like=like)


@_packed
def with_packed(
    fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None, **options: Any
) -> Any:
    """Wrap `fn`, which takes a `Packed`, so that it can be called with any encoding.

    Parameters, result and errors are those of `with_padded`.

    See Also
    --------
    with_padded

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.with_packed(lambda x: -x.data)([np.array([1, 2]), np.array([3])])
    [array([-1, -2]), array([-3])]
    """
    return _make_wrapper("with_packed", Packed, fn, options, backprop=backprop, like=like)


@_masked
def with_masked(
    fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None, **options: Any
) -> Any:
    """Wrap `fn`, which takes a `Masked`, so that it can be called with any encoding.

    Parameters, result and errors are those of `with_padded`; `side` is one more option.

    See Also
    --------
    with_padded

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> @sf.with_masked(side="left", multiple_of=4)
    ... def last(x):
    ...     return x.data * (np.arange(x.data.shape[1]) == x.data.shape[1] - 1)
    >>> last([np.array([1, 2]), np.array([3])])
    [array([0, 2]), array([3])]

    Columns by name:

    >>> @sf.with_masked
    ... def model(batch):
    ...     return {"scores": batch["ids"].data * batch["weights"].data, "pooled": batch["ids"].data.sum(axis=1)}
    >>> model({"ids": [[1, 2], [3]], "weights": [[0.5, 0.5], [2.0]], "label": [0, 1]})
    {'scores': [[0.5, 1.0], [6.0]], 'pooled': array([3, 3])}
    """
    return _make_wrapper("with_masked", Masked, fn, options, backprop=backprop, like=like)


@_lods
def with_lod(fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None, **options: Any) -> Any:
    """Wrap `fn`, which takes a `LoD` with all levels of the argument, so that it can be called with any encoding.

    Parameters, result and errors are those of `with_padded`.

    See Also
    --------
    with_padded

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.with_lod(lambda x: x.data + len(x.lod))([[[1, 2], [3]], [[4]]])
    [[[3, 4], [5]], [[6]]]
    """
    return _make_wrapper("with_lod", LoD, fn, options, backprop=backprop, like=like)


@_rows
def with_array(fn: Function | None = None, *, backprop: bool = False, like: Shaped | None = None) -> Any:
    """Wrap `fn`, which takes the rows alone and returns as many, so that it can be called with any encoding.

    The rows are an array ``(rows, *item)`` without padding, in the caller's order; those of a `Packed` that is the only
    batch are in its order.  A plain array is passed as it is.  Parameters, result and errors are those of
    `with_padded`.

    See Also
    --------
    with_padded

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> project = sf.with_array(lambda rows: rows @ np.ones((2, 3)))
    >>> project(sf.Ragged(np.ones((4, 2)), [1, 3]))
    Ragged(shape (4, 3), float64, cpu, 2 sequences of lengths [1, 3])
    """
    return _make_wrapper("with_array", Ragged, fn, {}, backprop=backprop, like=like, rows=True)


@overload
def with_flatten(fn: Callable[Concatenate[list[Any], P], Sequence[Any] | Shaped]) -> Callable[Concatenate[X, P], X]: ...
@overload
def with_flatten(fn: Callable[..., Any], *, backprop: bool = ...) -> Any: ...
@overload
def with_flatten(fn: None = ..., *, backprop: bool = ...) -> Callable[[Function], Any]: ...
def with_flatten(fn: Function | None = None, *, backprop: bool = False) -> Function:
    """Wrap `fn`, which takes the innermost items as one flat list and returns as many, for nested lists.

    Parameters
    ----------
    fn : function, optional
        Without it the call is a decorator.  Items may be anything that is no list.
    backprop : bool
        Whether `fn` returns ``(y, backprop)``.  Then the wrapped function does too: the inner ``backprop`` takes the
        gradients of its items as one flat list and returns those of the items that `fn` saw, the outer one takes and
        gives them nested as the caller has them.

    Returns
    -------
    function
        An encoding is passed to `fn` as nested lists, and its rows come back as an array of its library.

    Raises
    ------
    TypeError
        From the wrapped function where the first argument is no nested list or encoding.
    StructureError
        From the wrapped function where `fn` returns another number of items or items are not all equally deep.

    Examples
    --------
    >>> import seqformats as sf
    >>> shout = sf.with_flatten(lambda words: [word.upper() for word in words])
    >>> shout([["to", "be"], [], ["or"]])
    [['TO', 'BE'], [], ['OR']]
    """
    backprop = flag(backprop, "backprop")
    if fn is None:
        return functools.partial(with_flatten, backprop=backprop)
    if not callable(fn):
        raise KIND(f"with_flatten wraps a function, not {type(fn).__name__}")
    return flattening(fn, backprop)
