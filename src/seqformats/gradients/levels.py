"""`level=` of operations: the sequences of an outer level in the place of the innermost ones.

Operations know innermost sequences alone.  With another level a batch is read as a `LoD` over the same rows that ends
with that level, each of whose sequences has all its rows.  No row moves, and a tensor stays in its graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .. import registry
from ..converters.convert import rows_of
from ..formats import Encoding, LoD, level_index, structure_of
from ..formats.leaves import without_data
from .cotangent import device_of, fitting
from .operation import Operand, Pullback, operand

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

INNERMOST = -1
"""The level that is meant without another one; this very object says that nothing else was asked for."""


class _Levels(NamedTuple):
    """Rule of an operation for levels."""

    keeps: bool  # has each item a result, so that all levels stay?  Else the levels below are dropped
    batch: int  # the place of the batch among the arguments
    beside: tuple[str, ...]  # names of arguments that may be batches over the same sequences, and have gradients
    marks: tuple[str, ...]  # and of those that have none


_operations: dict[Callable[..., Any], _Levels] = {}


class _Outer(NamedTuple):
    """A batch that is read down to one of its levels."""

    is_list: bool
    operand: Operand  # with all levels
    inner: Any  # the same rows, with the levels down to the one that was asked for

    @classmethod
    def of(cls, x: object, level: int) -> _Outer | None:
        """The batch down to `level`; None where that is its innermost level, so that nothing is to be changed."""
        is_list = isinstance(x, (list, tuple))
        if is_list and not x:
            return None  # no sequences, on whatever level
        found = operand(x)
        own = found.own
        k = level_index(own, level)
        if k == len(own._levels) - 1:
            return None
        return cls(is_list, found, LoD._over(rows_of(own), (*own._levels[:k], structure_of(own, k))))

    def without_data(self) -> _Outer:
        """Its structures and the ways back alone."""
        found = self.operand
        return self._replace(operand=found._replace(own=without_data(found.own)), inner=without_data(self.inner))

    def whole(self, y: Any) -> Any:
        """Each batch of a result over the inner sequences with all levels."""
        if type(y) is tuple:
            return tuple([self.whole(part) for part in y])
        own: Encoding = self.operand.own
        return own._with_data(rows_of(y)) if isinstance(y, Encoding) else y

    def narrow(self, y: Any) -> Any:
        """The reverse of `whole`."""
        if type(y) is tuple:
            return tuple([self.narrow(part) for part in y])
        return self.inner._with_data(rows_of(y)) if isinstance(y, Encoding) else y

    def result(self, y: Any) -> Any:
        """A result, or a tuple of some, in the caller's kind."""
        if isinstance(y, tuple):
            parts = [self.result(part) for part in y]
            return type(y)(*parts) if hasattr(y, "_fields") else tuple(parts)
        back = self.operand.result
        return y if back is None or not isinstance(y, Encoding) else back(y)

    def gradient(self, dx: Any) -> Any:
        """The gradient of the batch as the caller gets it."""
        back = self.operand.gradient
        found = self.whole(dx)
        return found if back is None or not isinstance(dx, Encoding) else back(found)


def by_level(
    *, keeps: bool, batch: int = 0, beside: tuple[str, ...] = (), marks: tuple[str, ...] = ()
) -> Callable[[F], F]:
    """Let `at_level` and `vjp` know an operation that takes ``level=``, whose gradient rule is there already.

    Parameters
    ----------
    keeps : bool
        Whether each item has a result, so that the whole structure stays; else the levels below are dropped.
    batch : int
        The place of the batch among the arguments.
    beside, marks : tuples of str
        Names of arguments that may be batches over the same sequences: those that have gradients, and those without.
    """

    def decorate(public: F) -> F:
        _operations[public] = _Levels(keeps, batch, beside, marks)
        rule = registry.known_gradient(public)
        if rule is not None:
            registry.gradient(public)(lambda args, options: _vjp(public, rule, args, options))
        return public

    return decorate


def at_level(public: Callable[..., Any], level: int, *args: Any, **options: Any) -> R:  # type: ignore[type-var]
    """Call ``public(*args, **options)`` with the sequences of `level` in the place of the innermost ones.

    Type checkers take the type of the result from where it is returned.
    """
    how = _operations[public]
    outer = _Outer.of(args[how.batch], level)
    if outer is None:
        same: R = public(*args, **options)
        return same
    args, options, _ = _inner(public, outer, level, args, options)
    found: R = _finished(how, outer, public(*args, **options))
    return found


def _finished(how: _Levels, outer: _Outer, y: Any) -> Any:
    """The result in the caller's kind, with all levels where each item has one."""
    if how.keeps:
        return outer.result(outer.whole(y))
    return outer.result(y) if outer.is_list else y


def _inner(
    public: Callable[..., Any], outer: _Outer, level: int, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], list[_Outer | None]]:
    """The arguments over the inner sequences, and which batches beside the first were read so, None for others."""
    how, others = _operations[public], list[_Outer | None]()
    if how.beside or how.marks:
        names = list(inspect.signature(public).parameters)
        args, options = args[:1], dict(options, **dict(zip(names[1:], args[1:], strict=False)))
    for name in (*how.beside, *how.marks):
        given, beside = options.get(name), None
        is_batch = registry.kind_of(given) is not None or isinstance(given, (list, tuple))  # else rows, or a number
        if is_batch and len(operand(given).own._levels) == len(outer.operand.own._levels):
            beside = _Outer.of(given, level)
        if beside is not None:
            options[name] = beside.inner
        if name in how.beside:
            others.append(beside)
    k = how.batch
    return (*args[:k], outer.inner, *args[k + 1 :]), options, others


def _vjp(
    public: Callable[..., Any], rule: registry.Rule, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Pullback]:
    """The rule of an operation, with whatever level."""
    how, options = _operations[public], dict(options)
    level = options.pop("level", INNERMOST)
    outer = None if level is INNERMOST else _Outer.of(args[how.batch], level)
    if outer is None:
        return rule(args, options)
    args, options, others = _inner(public, outer, level, args, options)
    y, pullback = rule(args, options)
    result = _finished(how, outer, y)
    shape, device = outer.without_data(), device_of(y)
    like = without_data(outer.whole(y)) if how.keeps else None
    ways = [shape, *[None if beside is None else beside.without_data() for beside in others]]

    def back(dy: Any) -> Any:
        dx = pullback(shape.narrow(fitting(dy, like, device)) if how.keeps else dy)
        if how.batch:  # what has a gradient is no batch over these sequences
            return dx
        if not isinstance(dx, tuple):
            return shape.gradient(dx)
        found = [part if way is None else way.gradient(part) for way, part in zip(ways, dx, strict=False)]
        return (*found, *dx[len(ways) :])

    return result, back
