"""`level=` of operations: the sequences of an outer level in the place of the innermost ones.

Operations know innermost sequences alone.  With another level a batch is read as a `LoD` over the same rows that ends
with that level, each of whose sequences has all its rows.  No row moves, and a tensor stays in its graph.

There is one mechanism, `at_level`, and two ways to it.  An operation with a fast path calls it in its first line, as a
function around it would take as long as all the rest; others are decorated with `operation_by_level`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .. import registry
from ..arrays import is_array
from ..converters.convert import rows_of
from ..errors import LEVEL, quote
from ..formats import Encoding, LoD, level_index, structure_of
from ..formats.annotations import Operands
from ..formats.bare import is_batch, is_list
from ..formats.leaves import without_data
from ..formats.overlapping import with_levels
from ..formats.structure import whole
from .cotangent import device_of, fitting
from .operation import Call, Operand, Pullback, operand, with_gradient

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

INNERMOST = -1
"""The level that is meant without another one; this very object says that nothing else was asked for."""


class _Levels(NamedTuple):
    """Rule of an operation for levels."""

    # has each item a result, so that all levels stay?  Else the levels below are dropped; it may depend on the options
    keeps: bool | Callable[[dict[str, Any]], bool]
    batch: int  # the place of the batch among the arguments
    beside: tuple[str, ...]  # names of the others that may be batches over as many sequences
    gradients: tuple[str, ...]  # names of arguments, in the order of their gradients as far as they are given
    kinds: tuple[str, ...] | None  # names of the arguments in whose kind each part of a result is; None: the batch


_operations: dict[Callable[..., Any], _Levels] = {}


class Outer(NamedTuple):
    """A batch that is read down to one of its levels."""

    is_list: bool
    operand: Operand  # with all levels
    inner: Any  # the same rows, with the levels down to the one that was asked for

    @classmethod
    def from_batch(cls, x: object, level: int) -> Outer | None:
        """The batch down to `level`; None where that is its innermost level, so that nothing is to be changed."""
        bare = is_list(x)
        if bare and not x:
            return None  # no sequences, on whatever level
        found = operand(x)
        own = found.own
        k = level_index(own, level)
        if k == len(own._levels) - 1:
            return None
        return cls(bare, found, LoD._from_levels(rows_of(own), (*own._levels[:k], structure_of(own, k))))

    def without_data(self) -> Outer:
        """Its structures and the ways back alone."""
        found = self.operand
        return self._replace(operand=found._replace(own=without_data(found.own)), inner=without_data(self.inner))

    def whole(self, y: Operands) -> Any:
        """Each batch of a result over the inner sequences with all levels."""
        if type(y) is tuple:
            return tuple([self.whole(part) for part in y])
        if not isinstance(y, Encoding):
            return y
        own: Encoding = self.operand.own
        below = y._levels[len(self.inner._levels) :]
        return with_levels(y, (*own._levels, *below)) if below else own._with_data(rows_of(y))

    def narrow(self, y: Operands) -> Any:
        """The reverse of `whole`."""
        if type(y) is tuple:
            return tuple([self.narrow(part) for part in y])
        if not isinstance(y, Encoding):
            return y
        below = y._levels[len(self.operand.own._levels) :]
        return with_levels(y, (*self.inner._levels, *below)) if below else self.inner._with_data(rows_of(y))

    def result(self, y: Operands) -> Any:
        """A result, or a tuple of some, in the caller's kind."""
        if isinstance(y, tuple):
            parts = [self.result(part) for part in y]
            return type(y)(*parts) if hasattr(y, "_fields") else tuple(parts)
        back = self.operand.result
        return y if back is None or not isinstance(y, Encoding) else back(y)

    def gradient(self, dx: object) -> Any:
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
    gradients: tuple[str, ...] | None = None,
    kinds: tuple[str, ...] | None = None,
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
    gradients : tuple of str, optional
        Names of the arguments whose gradients there are, in their order, as far as they are given; without it the batch
        and `beside`.
    kinds : tuple of str, optional
        Names of the arguments in whose kind the parts of a result are; () for an encoding, whatever is given.  Without
        it all are of the kind of the batch.
    """

    def decorate(public: F) -> F:
        ordered = (_names(public)[batch], *beside) if gradients is None else gradients
        _operations[public] = _Levels(keeps, batch, (*beside, *marks), ordered, kinds)
        rule = registry.known_gradient(public)
        if rule is not None:
            registry.gradient(public)(lambda args, options: _vjp(public, rule, args, options))
        return public

    return decorate


def operation_by_level(
    *, enter: Callable[..., Any] | None = None, **how: Any
) -> Callable[[Callable[P, Call[R]]], Callable[P, R]]:
    """`operation` for a function that names ``level``, and does nothing with it itself; `how` is as of `by_level`.

    `enter` is a fast path for the innermost level, None where it gives None.
    """

    def decorate(prepare: Callable[P, Call[R]]) -> Callable[P, R]:
        @functools.wraps(prepare)
        def run(*args: Any, level: int = INNERMOST, **options: Any) -> Any:
            if level is INNERMOST:
                found: R | None = None if enter is None else enter(*args, **options)
                return prepare(*args, **options).run() if found is None else found
            return at_level(run, level, *args, **options)

        return by_level(**how)(with_gradient(run, prepare))

    return decorate


def at_level(public: Callable[..., Any], level: int, *args: Any, **options: Any) -> R:  # type: ignore[type-var]
    """Call ``public(*args, **options)`` with the sequences of `level` in the place of the innermost ones.

    Type checkers take the type of the result from where it is returned.
    """
    how, given = _operations[public], _by_name(public, args, options)
    batch, outer = _outer(public, level, given)
    if outer is None:
        same: R = public(*args, **options)
        return same
    read = _read(public, batch, outer, level, given)
    if outer.is_list and not outer.operand.own.rows and not _keeps(how, given):
        given[batch] = outer.inner.to_nested()  # as `x` itself, without a dtype
    found: R = _finish(how, read, outer, public(**given), given)
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


def _finish(how: _Levels, read: dict[str, Outer], outer: Outer, y: Operands, given: dict[str, Any]) -> Any:
    """The result in the caller's kind, with all levels where each item has one."""
    keeps = _keeps(how, given)
    y = outer.whole(y) if keeps else y
    if how.kinds is None:
        return outer.result(y) if keeps or outer.is_list else y
    ways = [read.get(name) for name in how.kinds]
    return tuple([part if way is None else way.result(part) for part, way in zip(y, ways, strict=True)]) if ways else y


def _keeps(how: _Levels, given: dict[str, Any]) -> bool:
    return how.keeps(given) if callable(how.keeps) else how.keeps


def _outer(public: Callable[..., Any], level: int, given: dict[str, Any]) -> tuple[str, Outer | None]:
    """The name of the batch whose levels count, and this down to one of them; None where nothing is to be changed.

    Where an array is in its place, which has one level, the first batch beside it counts.
    """
    how = _operations[public]
    batch = _names(public)[how.batch]
    if is_array(given.get(batch)):
        batch = next((name for name in how.beside if is_batch(given.get(name))), "")
    if batch in given:
        return batch, Outer.from_batch(given[batch], level)
    if given and whole(level, "level") not in (0, -1):
        raise LEVEL(f"there is no level {quote(level)}, since an array has one")
    return "", None


def _read(public: Callable[..., Any], batch: str, outer: Outer, level: int, given: dict[str, Any]) -> dict[str, Outer]:
    """Put the batches down to `level` among the arguments, and say under which names."""
    how, found = _operations[public], {batch: outer}
    for name in [name for name in how.beside if name != batch]:
        one = given.get(name)
        if is_batch(one) and len(operand(one).own._levels) == len(outer.operand.own._levels):
            beside = Outer.from_batch(one, level)
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
    level = given.pop("level", INNERMOST)
    batch, outer = ("", None) if level is INNERMOST else _outer(public, level, given)
    if outer is None:
        return rule(args, {name: one for name, one in options.items() if name != "level"})
    read = {name: one.without_data() for name, one in _read(public, batch, outer, level, given).items()}
    y, pullback = rule((), given)
    keeps = _keeps(how, given)
    result = _finish(how, read, outer, y, given)
    shape, device = read[batch], device_of(y)
    like = without_data(outer.whole(y)) if keeps else None
    ways = [read.get(name) for name in how.gradients if given.get(name) is not None]

    def back(dy: Operands) -> Any:
        dx = pullback(shape.narrow(fitting(dy, like, device)) if keeps else dy)
        if not isinstance(dx, tuple):
            return dx if ways[0] is None else ways[0].gradient(dx)
        found = [part if way is None else way.gradient(part) for way, part in zip(ways, dx, strict=False)]
        return (*found, *dx[len(ways) :])

    return result, back
