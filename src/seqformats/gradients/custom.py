"""`operation`: a function of a user's as an operation with a gradient."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload

from ..arrays import adopt, is_array, library_of, with_autograd
from ..converters.convert import as_own
from ..converters.layouts import check_at_least
from ..errors import DEVICES, KIND, NO_GRADIENT, RESULT, RETURNED, TOGETHER, StructureError, quote
from ..formats import Encoding, Pairs
from ..formats.annotations import Operands
from ..formats.leaves import leaves, rebuild, wants_grad, without_data
from ..formats.pairs import is_encoding
from . import operation as inner
from .cotangent import cotangent
from .operation import Call, Operand, Pullback, each_gradient, linear, operand, rows_or_batch

P = ParamSpec("P")
R = TypeVar("R")
Function: TypeAlias = Any  # a function of a user's, or None


@overload
def operation(function: Callable[P, R], transpose: Callable[..., Any]) -> Callable[P, R]: ...
@overload
def operation(function: Callable[P, tuple[R, Pullback]], *, inputs: int = 1) -> Callable[P, R]: ...
@overload
def operation(*, transpose: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@overload
def operation(*, inputs: int) -> Callable[[Callable[P, tuple[R, Pullback]]], Callable[P, R]]: ...
def operation(function: Function = None, transpose: Function = None, *, inputs: int = 1) -> Any:
    """Make an operation with a gradient: of a linear function and its transpose, or of a rule.

    Parameters
    ----------
    function : callable
        Beside a `transpose`, ``function(x, *args, **options) -> y``, linear in `x`.  Alone, a rule:
        ``function(x, *args, **options) -> (y, pullback)``, where ``pullback(dy)`` is the gradient for `x`.
    transpose : callable, optional
        ``transpose(dy, *args, **options) -> dx``.  Each of the two functions is the gradient of the other.  If it has
        a keyword-only parameter `like`, it gets there the batch that it makes a gradient for, without its items: for
        functions that change lengths.
    inputs : int
        Number of arguments that have gradients, the first ones; for a rule.  With several, ``pullback(dy)`` is a tuple
        of as many gradients, None for one that is zero.

    Returns
    -------
    function
        The operation, called with the same arguments, those that have gradients by place; or, without a `function`, a
        decorator.  Its first argument may be any encoding, a list of arrays or nested lists, an encoding of a user's,
        or an array of rows, and each further one of `inputs` such a batch or any array; the result is in the kind of a
        list or of a user's encoding that was given first.

    Raises
    ------
    TypeError
        If an argument is no function.  The operation raises it if a result is neither an encoding nor an array, or if
        a tensor after the first `inputs` arguments asks for a gradient.
    StructureError
        The pullback raises it if a gradient does not fit its batch.
    DeviceError
        The operation raises it if a result is of another library than the batch.

    See Also
    --------
    vjp : The result and the gradient.
    kernel : One's own kernel on CPU and CUDA.
    conversion : One's own encoding.

    Notes
    -----
    The function gets an encoding of this library, whatever the caller has, outside of any autograd graph, and returns
    an encoding or an array in the same array library.  A gradient is brought into the layout and the dtype of what it
    is for: by `dy` into those of `y`, after `transpose` or `pullback` into those of `x`.  PyTorch's autograd takes the
    operation too.  A linear pair can be differentiated again and again; a rule as often as what it is made of: for a
    second derivative it is run once more, on tensors of the graph.

    Examples
    --------
    A linear pair:

    >>> import numpy as np
    >>> import seqformats as sf
    >>> scaled = sf.with_array(lambda rows, factor: factor * rows)
    >>> scale = sf.operation(scaled, transpose=scaled)
    >>> y, pullback = sf.vjp(scale, sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2]), 10.0)
    >>> y.data
    array([10., 20., 30.])
    >>> pullback(np.array([1.0, 0.0, 2.0])).data
    array([10.,  0., 20.])

    A rule:

    >>> @sf.operation
    ... def squares(x):
    ...     rows = x.data
    ...     return sf.Ragged(rows**2, x.lengths), lambda dy: sf.Ragged(2 * rows * dy.data, x.lengths)
    >>> y, pullback = sf.vjp(squares, sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2]))
    >>> pullback(np.ones(3)).data
    array([2., 4., 6.])

    With a parameter that is learned:

    >>> @sf.operation(inputs=2)
    ... def scale_by(x, factor):
    ...     def pullback(dy):
    ...         return sf.Ragged(factor * dy.data, x.lengths), (x.data * dy.data).sum(keepdims=True)
    ...     return sf.Ragged(factor * x.data, x.lengths), pullback
    >>> y, pullback = sf.vjp(scale_by, sf.Ragged(np.array([1.0, 2.0, 3.0]), [1, 2]), np.array([10.0]))
    >>> pullback(np.ones(3))[1]
    array([6.])
    """
    count = check_at_least(inputs, "inputs", 1)
    if function is None and (transpose is not None or count > 1):
        return functools.partial(operation, transpose=transpose, inputs=count)
    if transpose is not None and count > 1:
        raise TOGETHER("a linear function has one input; a rule without transpose= may have several")
    for given, what in ((function, "function"), *([] if transpose is None else [(transpose, "transpose")])):
        if not callable(given):
            raise KIND(f"operation takes functions, but {what} is {quote(given)}")
    wants_like = transpose is not None and _has_like(transpose)

    def prepare(*args: Operands, **options: Any) -> Call[Any]:
        if len(args) < count:
            raise KIND(f"{name} takes {count} batches or arrays by place, but was given {len(args)}")
        others = args[count:]
        if with_autograd and wants_grad((others, tuple(options.values()))):
            have = f"argument of {name} alone has a gradient"
            if count > 1:
                have = f"{count} arguments of {name} alone have gradients"
            raise NO_GRADIENT(f"the first {have}; give the others detached")
        batches = [
            rows_or_batch(args[0]),
            *[Operand(adopt(x, "an input")[1]) if is_array(x) else operand(x) for x in args[1:count]],
        ]
        owns = tuple([batch.own for batch in batches])
        likes = [without_data(own) for own in owns]
        if transpose is None:
            call = _of_rule(name, lambda *zs: function(*zs, *others, **options), likes)
        else:
            more = {**options, "like": likes[0]} if wants_like else options
            call = _of_pair(
                name, lambda z: function(z, *others, **options), lambda dy: transpose(dy, *others, **more), likes[0]
            )
        back = batches[0].result
        kind = None if back is None else lambda y: back(y) if isinstance(y, Encoding) else y
        if count == 1:
            return call._replace(operands=owns[0], result=kind, gradient=batches[0].gradient)
        return call._replace(operands=owns, result=kind, gradient=each_gradient(batches))

    name = getattr(function, "__name__", None) or quote(function)
    return inner.operation(functools.wraps(function)(prepare))


def _has_like(function: Callable[..., Any]) -> bool:
    try:
        found = inspect.signature(function).parameters.get("like")
    except (TypeError, ValueError):  # one written in C, say
        return False
    return found is not None and found.kind is found.KEYWORD_ONLY


def _of_pair(name: str, function: Pullback, transpose: Pullback, like: object) -> Call[Any]:
    """A linear operation: each of the two functions is the gradient of the other."""

    def there(z: Operands) -> Any:
        return _result(name, function(z), z)

    def back(dy: Operands) -> Any:
        return _fit_gradient(name, transpose(dy), like)

    return Call(None, lambda z, _: (there(detach(z)), lambda dy: linear(back, there, dy)))


def _of_rule(name: str, rule: Callable[..., Any], likes: Sequence[Any]) -> Call[Any]:
    """Make the call of any other operation; `likes` are the inputs without their data."""
    several = len(likes) > 1

    def run(zs: Operands) -> tuple[Any, Pullback]:
        given = zs if several else (zs,)
        found = rule(*given)
        if not (isinstance(found, tuple) and len(found) == 2 and callable(found[1])):
            raise RETURNED(
                f"{name} must return (y, pullback), but gave {quote(found)}; a linear function is made an operation "
                "with its transpose: sf.operation(function, transpose)"
            )
        back = found[1]

        def pullback(dy: Operands) -> Any:
            return _fitted_all(name, back(dy), likes, dy) if several else _fit_gradient(name, back(dy), likes[0])

        return _result(name, found[0], given[0]), pullback

    return Call(None, lambda zs, _: run(detach(zs)), second_order=lambda zs, dy: run(zs)[1](dy))


def _fitted_all(name: str, dxs: object, likes: Sequence[Any], dy: object) -> tuple[Any, ...]:
    """Fit the gradients of several inputs, zeros in the library of `dy` where a rule gives None."""
    if not isinstance(dxs, tuple) or len(dxs) != len(likes):
        raise RETURNED(f"the pullback of {name} must return a tuple of {len(likes)} gradients, but gave {quote(dxs)}")
    sample = leaves(dy)[0]
    make = library_of(sample).zeros
    return tuple(
        [
            rebuild(y, [make(leaf.shape, leaf.dtype, sample) for leaf in leaves(y)])
            if dx is None
            else _fit_gradient(name, dx, y)
            for dx, y in zip(dxs, likes, strict=True)
        ]
    )


def detach(x: Operands) -> Any:
    """Return a batch outside of the autograd graph, where the gradient of a user's function is its rule."""
    if not (with_autograd and wants_grad(x)):
        return x
    return rebuild(x, [library_of(leaf).alias(leaf) for leaf in leaves(x)])


def _result(name: str, y: Operands, x: Operands) -> Any:
    """Return the result of a user's function as an encoding of this library or an array."""
    if is_array(y):
        y = adopt(y, f"the result of {name}")[1]
    elif is_encoding(y) and not isinstance(y, Pairs):
        y = as_own(y)
    else:
        raise RETURNED(f"{name} must return an encoding or an array, not {type(y).__name__}")
    one, other = (library_of(z._sample() if isinstance(z, Encoding) else z) for z in (y, x))
    if one is not other:
        raise DEVICES(f"{name} returned an array of {one.name}, but its batch is one of {other.name}")
    return y


def _fit_gradient(name: str, dx: object, like: object) -> Any:
    """A gradient laid out as what it is for, in its dtype."""
    try:
        return cotangent(dx, like)
    except StructureError as error:
        raise RESULT(f"{name}, back to what it was called with: {error}") from None
