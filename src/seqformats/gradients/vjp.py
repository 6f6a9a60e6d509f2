"""`vjp`: the result of an operation and its pullback; the rules of the conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .. import registry
from ..arrays import Array, is_array
from ..converters.columns import source_options
from ..converters.convert import (
    check_target,
    conversion_vjp,
    convert,
    converted_rows,
    no_encoding,
    restore,
)
from ..converters.layouts import MOVERS, is_already
from ..converters.like import convert_like, in_kind_of, like_columns
from ..errors import KIND, SLOPE
from ..formats import Encoding, List, LoD, Pairs
from ..formats.annotations import Given, Operands
from ..formats.bare import as_encoding, is_list, is_list_of_arrays
from ..formats.leaves import wants_grad, without_data
from ..formats.structure import flag
from ..formats.trees import check_batches, columns_of, is_tree
from .columns import tree_vjp
from .cotangent import cotangent

Pullback = Callable[[Any], Any]
P = ParamSpec("P")
R = TypeVar("R")


def vjp(op: Callable[P, R], *args: P.args, **options: P.kwargs) -> tuple[R, Pullback]:
    """The result of an operation and its pullback, the vector-Jacobian product.

    Parameters
    ----------
    op : function
        `convert`, `convert_like`, or another operation of this library with a gradient.
    *args, **options
        What `op` is called with.

    Returns
    -------
    result : ``op(*args, **options)``
    pullback : function
        ``pullback(dy)`` is the gradient for the first argument, in its encoding and structure; a tuple of gradients for
        `concat` and `join_batches` (one a part), `conv` (x, weight) and `scatter` (base, updates).  `dy` is an encoding
        over the same sequences as the result, or an array laid out like the result's data; one that does not fit raises
        StructureError; for no sequences at all ``[]`` will do.  `dy` is cast to the result's dtype, so that a gradient
        has the dtype of what it is for; where that is one of integers, it keeps its own.  Of a tree of columns (see
        `convert`) it takes and gives trees; a column whose gradient is None, or missing in a dict, has None.

    Raises
    ------
    TypeError
        For an operation without a gradient, and for arithmetic on integers; a move of rows has a pullback for every
        dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(3.0), [1, 2])
    >>> y, pullback = sf.vjp(sf.convert, x, sf.Masked)
    >>> pullback(np.array([[1.0, 9.0], [2.0, 3.0]]))
    Ragged(shape (3,), float64, cpu, 2 sequences of lengths [1, 2])
    """
    return registry.gradient_rule(op)(args, options)


def wrap_bare(x: object, **asked: Any) -> tuple[Any, Callable[[Any], Any]]:
    """A bare list as an encoding, and the way to give its gradient back as a bare list.

    `asked` says in which dtype and library.
    """
    if not is_list(x):
        return as_encoding(x), lambda dx: dx
    kind = type(x)
    y = convert(x, List if x and is_list_of_arrays(x) else LoD, **asked) if asked else as_encoding(x)
    return y, lambda dx: kind(in_kind_of(dx, x))


@registry.gradient(convert)
def _convert(args: registry.Arguments, options: registry.Options) -> tuple[Any, Pullback]:
    """Step by step, back through the pullbacks of the route."""
    if len(args) != 2:
        raise KIND("vjp(convert, x, To, **options) takes x and To")
    given, To = args
    check_target(To)
    asked, options = options, dict(options)
    copy = options.pop("copy", False)
    flag(copy, "copy")
    if is_tree(given):
        return _convert_tree(given, To, options, copy)
    if isinstance(given, (list, tuple)):
        read = {name: options.pop(name) for name in ("dtype", "library") if name in options}
        if not given and "level" in options:  # no sequences, on whatever level
            read.setdefault("dtype", np.float64)
        x, bare_again = wrap_bare(given, **read)
    else:
        x, bare_again = wrap_bare(given)
    if isinstance(x, Pairs):
        given_copy = {**options, "copy": copy}
        (one, back_one), (two, back_two) = (
            (part, lambda dy: dy) if is_array(part) else _convert((part, To), given_copy) for part in (x.one, x.two)
        )
        return Pairs(one, two), lambda dy: _pair(dy, back_one, back_two)
    kind = registry.kind_of(x)
    if kind is None:
        raise no_encoding(x)
    nested = To is list
    y: Any = x
    pullbacks: list[Pullback] = []
    clean = True  # is the padding of the gradient read?
    route = registry.route(kind, To, registry.device_kind(x), options)
    given_to = route.place(options)
    if kind is not To or (options and not is_already(x, options)):
        for step, placed in zip(route.steps, given_to, strict=True):
            if step.target is list:
                break
            y, pullback = conversion_vjp(step, y, placed)
            pullbacks.append(pullback)
            clean = step.pullback is not None or step.function not in MOVERS
    shape = without_data(y) if isinstance(y, Encoding) else y
    result = convert(y, list) if nested else convert(y, To, copy=True) if copy else y
    if wants_grad(x):  # the result belongs to the caller's graph
        result = convert(given, To, **asked)

    def pull(dy: Operands) -> Any:
        dy = cotangent(dy, shape, clean)
        for pullback in reversed(pullbacks):
            dy = pullback(dy)
        return bare_again(restore(dy, x) if isinstance(x, Encoding) and not pullbacks else dy)

    return result, pull


def _convert_tree(x: object, To: type, options: registry.Options, copy: object) -> tuple[Any, Pullback]:
    """Batch by batch; the gradient of rows is what comes back for them."""
    tree = columns_of(x)
    check_batches(tree, "convert needs")
    each = source_options(tree, To, options)

    def rule(column: Given, k: int) -> tuple[Any, Pullback]:
        if not is_array(column):
            return _convert((column, To), {**each[k], "copy": copy})
        return _rows(column, converted_rows(tree, k, each[k], bool(copy)))

    return tree_vjp(tree, rule)


def _rows(x: Array, y: Array) -> tuple[Array, Pullback]:
    """Rows that stay as they are, and a gradient that does too."""
    like = without_data(x)
    return y, lambda dy: cotangent(dy, like)


def _pair(dy: object, back_one: Pullback, back_two: Pullback) -> Pairs:
    if not isinstance(dy, Pairs):
        raise SLOPE(f"the gradient of Pairs must be Pairs too, not {type(dy).__name__}")
    return Pairs(back_one(dy.one), back_two(dy.two))


@registry.gradient(convert_like)
def _convert_like(args: registry.Arguments, options: registry.Options) -> tuple[Any, Pullback]:
    """The structure is not differentiated, so the gradient is the way back to `y`."""
    if len(args) != 2 or options:
        raise KIND("vjp(convert_like, y, x) takes y and x")
    given, like = args
    if is_tree(given) or is_tree(like):
        tree, alike = like_columns(given, like)
        return tree_vjp(tree, lambda y, k: _rows(y, y) if is_array(y) else _convert_like((y, alike[k]), {}))
    y, bare_again = wrap_bare(given)
    result = convert_like(y, like)
    encoded = as_encoding(result)
    shape = without_data(encoded)
    return result, lambda dz: bare_again(convert_like(cotangent(dz, shape), y))
