"""`level=` of operations: the sequences of an outer level in the place of the innermost ones.

Operations know innermost sequences alone.  With another level a batch is read as a `LoD` over the same rows that ends
with that level, each of whose sequences has all its rows.  No row moves, and a tensor stays in its graph.
"""

from __future__ import annotations

import functools
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

    # has each item a result, so that all levels stay?  Else the levels below are dropped; it may depend on the options
    keeps: bool | Callable[[dict[str, Any]], bool]
    batch: int  # the place of the batch among the arguments
    beside: tuple[str, ...]  # names of arguments that may be batches over as many sequences, and have gradients
    marks: tuple[str, ...]  # and of those that have none
    alone: bool  # is the gradient that of the first of these, and not of the batch?


_operations: dict[Callable[..., Any], _Levels] = {}


class Outer(NamedTuple):
    """A batch that is read down to one of its levels."""

    is_list: bool
    operand: Operand  # with all levels
    inner: Any  # the same rows, with the levels down to the one that was asked for

    @classmethod
    def of(cls, x: object, level: int) -> Outer | None:
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

    def without_data(self) -> Outer:
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
    *,
    keeps: bool | Callable[[dict[str, Any]], bool],
    batch: int = 0,
    beside: tuple[str, ...] = (),
    marks: tuple[str, ...] = (),
    alone: bool = False,
) -> Callable[[F], F]:
    """Let `at_level` and `vjp` know an operation that takes ``level=``, whose gradient rule is there already.

    Parameters
    ----------
    keeps : bool, or a function of the options by name
        Whether each item has a result, so that the whole structure stays; else the levels below are dropped.
    batch : int
        The place of the batch among the arguments.
    beside, marks : tuples of str
        Names of arguments that may be batches over as many sequences: those that have gradients, and those without.
    alone : bool
        Whether the gradient is that of the first of `beside` alone.
    """

    def decorate(public: F) -> F:
        _operations[public] = _Levels(keeps, batch, beside, marks, alone)
        rule = registry.known_gradient(public)
        if rule is not None:
            registry.gradient(public)(lambda args, options: _vjp(public, rule, args, options))
        return public

    return decorate


def at_level(public: Callable[..., Any], level: int, *args: Any, **options: Any) -> R:  # type: ignore[type-var]
    """Call ``public(*args, **options)`` with the sequences of `level` in the place of the innermost ones.

    Type checkers take the type of the result from where it is returned.
    """
    how, given = _operations[public], _by_name(public, args, options)
    outer = Outer.of(given[_names(public)[how.batch]], level)
    if outer is None:
        same: R = public(*args, **options)
        return same
    read = _read(public, outer, level, given)
    if outer.is_list and not outer.operand.own.rows and not _keeps(how, given):
        given[next(iter(read))] = outer.inner.to_nested()  # as `x` itself, without a dtype
    found: R = _finish(how, outer, public(**given), given)
    return found


@functools.cache
def _names(public: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments of an operation."""
    return tuple(inspect.signature(public).parameters)


def _by_name(public: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Name all arguments; TypeError where there are too many."""
    if len(args) > len(_names(public)):
        public(*args, **options)  # which says so
    return {**dict(zip(_names(public), args, strict=False)), **options}


def _finish(how: _Levels, outer: Outer, y: Any, given: dict[str, Any]) -> Any:
    """The result in the caller's kind, with all levels where each item has one."""
    if _keeps(how, given):
        return outer.result(outer.whole(y))
    return outer.result(y) if outer.is_list else y


def _keeps(how: _Levels, given: dict[str, Any]) -> bool:
    return how.keeps(given) if callable(how.keeps) else how.keeps


def _read(public: Callable[..., Any], outer: Outer, level: int, given: dict[str, Any]) -> dict[str, Outer]:
    """Put the batches down to `level` among the arguments, and say under which names."""
    how, found = _operations[public], {_names(public)[_operations[public].batch]: outer}
    for name in (*how.beside, *how.marks):
        one = given.get(name)
        is_batch = registry.kind_of(one) is not None or isinstance(one, (list, tuple))  # else rows, or a number
        if is_batch and len(operand(one).own._levels) == len(outer.operand.own._levels):
            beside = Outer.of(one, level)
            if beside is not None:
                found[name] = beside
    for name, of in found.items():  # lists without items have no dtype, and stay lists
        given[name] = of.inner.to_nested() if of is not outer and of.is_list and not of.inner.rows else of.inner
    return found


def _vjp(
    public: Callable[..., Any], rule: registry.Rule, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[Any, Pullback]:
    """The rule of an operation, with whatever level."""
    how, given = _operations[public], _by_name(public, args, options)
    level, batch = given.pop("level", INNERMOST), _names(public)[how.batch]
    outer = None if level is INNERMOST or batch not in given else Outer.of(given[batch], level)
    if outer is None:
        return rule(args, {name: one for name, one in options.items() if name != "level"})
    read = {name: one.without_data() for name, one in _read(public, outer, level, given).items()}
    y, pullback = rule((), given)
    keeps = _keeps(how, given)
    result = _finish(how, outer, y, given)
    shape, device = read[batch], device_of(y)
    like = without_data(outer.whole(y)) if keeps else None
    ways = [read.get(name) for name in (*(() if how.alone else (batch,)), *how.beside)]

    def back(dy: Any) -> Any:
        dx = pullback(shape.narrow(fitting(dy, like, device)) if keeps else dy)
        if how.batch:  # what has a gradient is no batch over these sequences
            return dx
        if not isinstance(dx, tuple):
            return dx if ways[0] is None else ways[0].gradient(dx)
        found = [part if way is None else way.gradient(part) for way, part in zip(ways, dx, strict=False)]
        return (*found, *dx[len(ways) :])

    return result, back
