"""Gradients: `vjp`, and the rules of the conversions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from . import _flow, registry
from .arrays import Array, adopt, is_array, library_of
from .convert import (
    as_encoding,
    as_own,
    check_target,
    convert,
    convert_like,
    count,
    device_kind,
    in_kind_of,
    is_already,
    is_encoding,
    is_list_of_arrays,
    kind_of,
    leg_vjp,
    no_encoding,
    restored,
)
from .errors import DeviceError, StructureError, said
from .formats import Encoding, List, LoD, Pairs, shown

Pullback = Callable[[Any], Any]


class Call(NamedTuple):
    """What an operation is about to do, its arguments being checked."""

    operands: Any  # an encoding, an array, or a tuple of these: what the gradient is for
    rule: Callable[
        [Any, bool], tuple[Any, Pullback | None]
    ]  # (operands, back) -> the result, and if `back` its pullback
    home: Callable[[Any], Any] | None = None  # gives the result as the caller gets it
    home_dx: Callable[[Any], Any] | None = None  # gives the gradient as the caller gets it
    again: Callable[[Any, Any], Any] | None = (
        None  # for operations that are not linear: (x, dy) -> dx, to differentiate
    )


def operation(plan: Callable[..., Call]) -> Callable[..., Any]:
    """Make a public operation, with its gradient, of a function that checks the arguments and says what to do.

    The operation runs the rule, inside the autograd graph of the caller's framework where an operand asks for it; and
    `vjp` finds the same rule.  See `at_once` for the way past both.
    """
    quick, takes = getattr(plan, "at_once", (None, 0))

    @functools.wraps(plan)
    def run(*args: Any, **options: Any) -> Any:
        if quick is not None and not options and len(args) == takes:
            y = quick(*args)
            if y is not None:
                return y
        call = plan(*args, **options)
        if _flow.wants_grad(call.operands):
            y = _flow.apply(lambda x: call.rule(x, True), call.operands, call.again)
        else:
            y = call.rule(call.operands, False)[0]
        return y if call.home is None else call.home(y)

    @registry.gradient(run)
    def rule(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Pullback]:
        call = plan(*args, **options)
        y, back = call.rule(call.operands, True)
        assert back is not None
        like = _flow.hollow(y)
        if _flow.wants_grad(call.operands):  # the result belongs to the caller's graph
            y = _flow.apply(lambda x: call.rule(x, True), call.operands, call.again)

        def pullback(dy: Any) -> Any:
            dy = fitting(dy, like)
            if call.again is not None and _flow.wants_grad((call.operands, dy)):
                dx = call.again(call.operands, dy)
            else:
                dx = back(dy)
            return dx if call.home_dx is None else call.home_dx(dx)

        return y if call.home is None else call.home(y), pullback

    return run


def at_once(quick: Callable[..., Any], takes: int = 1) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Let the decorated plan of an operation have a shorter way for so many arguments and no options.

    ``quick(*args)`` is the result, or None for whatever it is not made for: then there was nothing done.
    """

    def give(plan: Callable[..., Call]) -> Callable[..., Call]:
        plan.at_once = quick, takes  # type: ignore[attr-defined]
        return plan

    return give


def fitting(dy: Any, y: Any) -> Any:
    """`cotangent`; DeviceError for one of another library."""
    if isinstance(y, _flow.Leaf) and is_array(dy):
        dy = adopt(dy, "the gradient")[1]
        if dy.dtype == y.dtype and dy.shape == y.shape:
            return dy
    dy = cotangent(dy, y)
    for a, b in zip(_flow.leaves(dy), _flow.leaves(y), strict=True):
        if not library_of(a).has_dtype(b.dtype):
            raise DeviceError(f"the gradient holds {a.dtype} of {library_of(a).name}, but the result {b.dtype}")
    return dy


def single(x: Any, what: str = "take x.one and x.two") -> tuple[Any, Pullback | None, Pullback | None]:
    """One batch as ``(own, home, home_dx)``: an encoding of this library, and the ways back to the caller's kind.

    `home` is for a result, `home_dx` for a gradient; None where there is nothing to do.
    """
    if isinstance(x, Encoding):
        return x, None, None
    if isinstance(x, (list, tuple)):
        return as_encoding(x), *(2 * (lambda y: in_kind_of(y, x),))
    if isinstance(x, Pairs) or not is_encoding(x):
        raise (
            TypeError(f"Pairs are no single batch; {what}")
            if isinstance(x, Pairs)
            else no_encoding(x, "no single batch")
        )
    own = as_own(x)
    kind, is_own = type(x), type(own)
    return own, lambda y: convert(y, kind), lambda dx: vjp(convert, x, is_own)[1](dx)


def vjp(op: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Pullback]:
    """The result of an operation and its pullback, the vector-Jacobian product.

    Parameters
    ----------
    op : `convert`, `convert_like`, or another operation of this library with a gradient
    args, options : what `op` is called with

    Returns
    -------
    result : ``op(*args, **options)``
    pullback : ``pullback(dy)`` is the gradient for the first argument, in its encoding and structure; a tuple of
        gradients for `concat` and `join_batches` (one a part), `conv` (x, weight) and `scatter` (base, updates).  `dy`
        is an encoding over the same sequences as the result, or an array laid out like the result's data; one that does
        not fit raises StructureError; for no sequences at all ``[]`` will do.  `dy` is cast to the result's dtype, so
        that a gradient has the dtype of what it is for; where that is one of integers, it keeps its own.

    A move of rows has a pullback for every dtype; arithmetic on integers has none and raises TypeError.

    >>> import numpy as np
    >>> import seqformats as sf
    >>> x = sf.Ragged(np.arange(3.0), [1, 2])
    >>> y, pullback = sf.vjp(sf.convert, x, sf.Masked)
    >>> pullback(np.array([[1.0, 9.0], [2.0, 3.0]]))
    Ragged(shape (3,), float64, cpu, 2 sequences of lengths [1, 2])
    """
    return registry.gradient_rule(op)(args, options)


def cotangent(dy: Any, y: Any) -> Any:
    """`dy` laid out like `y` and in its dtype, where that is one of floats; StructureError where it does not fit.

    So a gradient has the dtype of what it belongs to, whatever a loss was calculated in; a move of integers has the
    gradient's own.
    """
    dy = _laid_out(dy, y)
    found, wanted = _flow.leaves(dy), _flow.leaves(y)
    if len(found) != len(wanted) or all(a.dtype == b.dtype for a, b in zip(found, wanted, strict=True)):
        return dy
    return _flow.rebuild(dy, [in_dtype(a, b.dtype) for a, b in zip(found, wanted, strict=True)])


def in_dtype(x: Array, dtype: Any) -> Array:
    """A gradient in the dtype of what it belongs to, where that is one of floats."""
    library = library_of(x)
    if isinstance(x.dtype, np.dtype) is not isinstance(dtype, np.dtype):
        return x  # of another library
    given, name = library.dtype_name(x.dtype), library.dtype_name(dtype)
    floats = name.startswith(_FLOATS)
    beyond = "complex" in given and "complex" not in name
    if beyond or (floats and not given.startswith(_NUMBERS)):  # NumPy would read strings and dates as numbers
        raise TypeError(f"a gradient of dtype {x.dtype} does not fit {dtype}, the dtype of what it is for")
    return library.astype(x, name) if floats else x


_FLOATS = ("float", "bfloat", "complex")
_NUMBERS = (*_FLOATS, "int", "uint", "bool")


def _laid_out(dy: Any, y: Any) -> Any:
    if is_array(dy):
        return _laid_out_like(dy, y)
    is_rows = isinstance(y, _flow.Leaf) or is_array(y)
    none = isinstance(dy, (list, tuple)) and not dy and (is_rows or is_encoding(y))
    if none and (y.shape[0] if is_rows else count(y)) == 0:
        return y  # no sequences, and `y` is as empty: see `_flow.hollow`
    if is_rows and (is_encoding(dy) or isinstance(dy, (list, tuple))):
        shape = tuple(y.shape)
        raise StructureError(f"the gradient must be an array of shape {shape} as the result, not {type(dy).__name__}")
    dy = as_encoding(dy)
    if not is_encoding(dy):
        raise TypeError(f"a gradient must be an encoding or an array, not {registry.label(type(dy))}")
    if isinstance(y, Pairs) or isinstance(dy, Pairs):
        if type(y) is not type(dy):
            raise TypeError(f"the gradient of {type(y).__name__} must be one too, not {type(dy).__name__}")
        return dy
    have, need = as_own(dy), as_own(y)
    if not have._structure.like(need._structure):
        given, lengths = (shown(z._structure.lengths) for z in (have, need))
        raise StructureError(f"the gradient has sequences of lengths {given}, but the result has {lengths}")
    if have.item_shape != need.item_shape:
        raise StructureError(f"the gradient has item shape {have.item_shape}, but the result has {need.item_shape}")
    laid = restored(have, need)
    return laid if isinstance(y, Encoding) else convert(laid, type(y))


def _laid_out_like(dy: Any, y: Any) -> Any:
    _, array = adopt(dy, "the gradient")
    found = _flow.leaves(y)
    if len(found) != 1:
        raise StructureError(f"the gradient of a {type(y).__name__} must be one too, not a single array")
    if tuple(array.shape) != tuple(found[0].shape):
        raise StructureError(
            f"the gradient has shape {tuple(array.shape)}, but the result's data has {tuple(found[0].shape)}"
        )
    return _flow.rebuild(y, [array])


def bared(x: Any, dtype: Any = None) -> tuple[Any, Callable[[Any], Any]]:
    """A bare list as an encoding, and the way to give its gradient back as a bare list; `dtype` of numbers in it."""
    if not isinstance(x, (list, tuple)):
        return x, lambda dx: dx
    kind = type(x)
    if dtype is None and is_list_of_arrays(x):
        return List(tuple(x)), lambda dx: kind(dx.items)
    return LoD.from_nested(x, dtype), lambda dx: kind(convert(dx, list))


@registry.gradient(convert)
def _convert(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Pullback]:
    """Leg by leg, back through the pullbacks of the route."""
    if len(args) != 2:
        raise TypeError("vjp(convert, x, To, **options) takes x and To")
    given, To = args
    check_target(To)
    asked, options = options, dict(options)
    copy = options.pop("copy", False)
    if not isinstance(copy, (bool, np.bool_)):
        raise TypeError(f"copy must be True or False, not {said(copy)}")
    if isinstance(given, (list, tuple)) and (not given or not is_list_of_arrays(given)):
        levels = not given and "level" in options  # no sequences, on whatever level
        x, home_dx = bared(given, options.pop("dtype", np.float64 if levels else None))
    else:
        x, home_dx = bared(given)
    if isinstance(x, Pairs):
        given_copy = {**options, "copy": copy}
        (one, back_one), (two, back_two) = (_member(part, To, given_copy) for part in (x.one, x.two))
        return Pairs(one, two), lambda dy: _pair(dy, back_one, back_two)
    kind = kind_of(x)
    if kind is None:
        raise no_encoding(x)
    nested = To is list
    y: Any = x
    pullbacks: list[Pullback] = []
    route = registry.route(kind, To, device_kind(x), options)
    given_to = route.place(options)
    if kind is not To or (options and not is_already(x, options)):
        for leg, placed in zip(route.legs, given_to, strict=True):
            if leg.target is list:
                break
            y, pullback = leg_vjp(leg, y, placed)
            pullbacks.append(pullback)
    shape = _flow.hollow(y) if isinstance(y, Encoding) else y
    result = convert(y, list) if nested else convert(y, To, copy=True) if copy else y
    if _flow.wants_grad(x):  # the result belongs to the caller's graph
        result = convert(given, To, **asked)

    def pull(dy: Any) -> Any:
        dy = cotangent(dy, shape)
        for pullback in reversed(pullbacks):
            dy = pullback(dy)
        return home_dx(restored(dy, x) if isinstance(x, Encoding) and not pullbacks else dy)

    return result, pull


def _member(x: Any, To: type, options: dict[str, Any]) -> tuple[Any, Pullback]:
    """One of a pair; an array stays as it is."""
    return (x, lambda dy: dy) if is_array(x) else _convert((x, To), options)


def _pair(dy: Any, back_one: Pullback, back_two: Pullback) -> Pairs:
    if not isinstance(dy, Pairs):
        raise StructureError(f"the gradient of Pairs must be Pairs too, not {type(dy).__name__}")
    return Pairs(back_one(dy.one), back_two(dy.two))


@registry.gradient(convert_like)
def _convert_like(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Pullback]:
    """The structure is not differentiated, so the gradient is the way back to `y`."""
    if len(args) != 2 or options:
        raise TypeError("vjp(convert_like, y, x) takes y and x")
    given, like = args
    y, home_dx = bared(given)
    result = convert_like(y, like)
    encoded = as_encoding(result)
    shape = _flow.hollow(encoded)
    return result, lambda dz: home_dx(convert_like(cotangent(dz, shape), y))
