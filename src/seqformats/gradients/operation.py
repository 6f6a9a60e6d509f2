"""Operations: checked arguments, a gradient rule, and conversion back to the caller's kind of batch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from .. import registry
from ..arrays import AUTOCAST, NUMPY, Array, adopt, is_array, library_of, with_autograd
from ..converters.convert import as_own, convert
from ..converters.like import in_kind_of
from ..errors import BATCH, KIND, SHAPE
from ..formats import Encoding, Pairs
from ..formats.annotations import Given, Operands
from ..formats.bare import is_list, is_list_of_arrays
from ..formats.call_plans import by_plan, follow
from ..formats.leaves import autocast, calculate, cast_leaves, connect, settle, wants_grad, without_data
from ..formats.pairs import is_encoding
from ..formats.trees import Tree, at_column, check_columns, columns_of, map_columns
from ..launch.kernel import planning
from .columns import tree_vjp
from .cotangent import device_of, fitting
from .vjp import vjp

Pullback = Callable[[Any], Any]
P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X")
Y = TypeVar("Y")
F = TypeVar("F", bound=Callable[..., Any])


class Back:
    """A pullback with a fast path: ``path.enter(shape, dy, *kept)`` is its result, or None."""

    __slots__ = ("kept", "path", "shape", "way")

    def __init__(self, way: Pullback, path: Any, shape: Encoding, *kept: Array) -> None:
        self.way, self.path, self.shape, self.kept = way, path, shape, kept

    def __call__(self, dy: Operands) -> Any:
        """By the fast path, or else the other."""
        dx = self.path.enter(self.shape, dy, *self.kept)
        return self.way(dy) if dx is None else dx

    def with_fast_path(self, pullback: Pullback) -> Pullback:
        """A pullback for whatever is given, for which the fast path is tried first."""
        path, shape, kept = self.path, self.shape, self.kept

        def run_fast(dy: object) -> Any:
            dx = path.enter(shape, dy, *kept) if kept else path.enter(shape, dy)
            return pullback(dy) if dx is None else dx

        return run_fast


class Operand(NamedTuple):
    """One batch, as an operation takes it."""

    own: Any  # an encoding of this library
    result: Pullback | None = None  # gives a result in the caller's kind; None: as it is
    gradient: Pullback | None = None  # the same for a gradient


def operand(x: object, what: str = "take x.one and x.two") -> Operand:
    """A batch of the caller's as an encoding of this library, and the ways back; `what` helps where it is Pairs."""
    if issubclass(type(x), Encoding):  # isinstance believes an object that says so itself
        return Operand(x)
    if isinstance(x, Pairs):
        raise BATCH(f"Pairs are no single batch; {what}")
    own = as_own(x, "no single batch")
    if is_list(x):
        return Operand(own, *(2 * (lambda y: in_kind_of(y, x),)))
    if not is_encoding(x):  # a column
        return Operand(own)
    kind: Any = type(x)
    is_own = type(own)
    return Operand(own, lambda y: convert(y, kind), lambda dx: vjp(convert, x, is_own)[1](dx))


def operand_beside(x: object, like: Array) -> Operand:
    """`operand` for a batch that goes with the array `like`: numbers in lists, of no library, become some of its."""
    found = operand(x)
    return brought_beside(found, like) if _is_bare(x, found.own) else found


def operands_of(*batches: Any) -> list[Operand]:
    """`operand` for batches that go together: lists of numbers are of the library of the first that is none."""
    if all(issubclass(type(x), Encoding) for x in batches):
        return [Operand(x) for x in batches]
    found = [operand(x) for x in batches]
    bare = [_is_bare(x, one.own) for x, one in zip(batches, found, strict=True)]
    like = next((one.own._sample() for one, is_bare in zip(found, bare, strict=True) if not is_bare), None)
    if like is None or not any(bare):
        return found
    return [brought_beside(one, like) if is_bare else one for one, is_bare in zip(found, bare, strict=True)]


def brought_beside(found: Operand, like: Array) -> Operand:
    """A batch of NumPy's arrays as one of those of `like`, where that is."""
    if type(like) is np.ndarray:
        return found
    library = library_of(like)
    device = library.device(like)

    def bring(leaf: Array) -> Array:
        y = library.import_array(leaf, NUMPY)
        return y if library.device(y) == device else library.to_device(y, device)

    own = found.own
    return found._replace(own=own._with_leaves([bring(leaf) for leaf in own._leaves()]))


def _is_bare(x: object, own: Encoding) -> bool:
    """Tell whether these are nested lists of numbers, and not of arrays of some library."""
    is_list = isinstance(x, (list, tuple)) and not (x and is_list_of_arrays(x))
    return is_list and type(own._sample()) is np.ndarray


def rows_or_batch(x: object) -> Operand:
    """`operand` for what may also be a plain array of rows."""
    if not is_array(x):
        return operand(x)
    rows = adopt(x, "x")[1]
    if len(rows.shape) < 1:
        raise SHAPE("x must have the axes (n, *item), but is a single number")
    return Operand(rows)


def to_be_summed(found: Operand) -> Operand:
    """A batch whose items are to be added up: as `autocast` has it, the gradient in its own dtype."""
    own = found.own
    if own._dtype not in AUTOCAST:
        return found
    wide, dtype, back = autocast(own), own._dtype, found.gradient
    if wide is own:
        return found

    def gradient(dx: Encoding) -> Any:
        narrow = cast_leaves(dx, dtype)
        return narrow if back is None else back(narrow)

    return Operand(wide, found.result, gradient)


def each_gradient(batches: Sequence[Operand]) -> Pullback:
    """The way back of gradients for several batches, each to its caller's kind."""
    return lambda dxs: tuple(
        [dx if batch.gradient is None else batch.gradient(dx) for dx, batch in zip(dxs, batches, strict=True)]
    )


class Call(NamedTuple, Generic[R]):
    """A call of an operation whose arguments have been checked; the type is that of its result."""

    operands: Any  # an encoding, an array, or a tuple of these: what the gradient is for
    # (operands, back) -> the result, and if `back` its pullback
    rule: Callable[[Any, bool], tuple[Any, Pullback | None]]
    result: Callable[[Any], Any] | None = None  # gives the result as the caller gets it
    gradient: Callable[[Any], Any] | None = None  # gives the gradient as the caller gets it
    # for operations that are not linear: (x, dy) -> dx, to differentiate a second time
    second_order: Callable[[Any, Any], Any] | None = None
    by_column: bool = False  # is each number of an item treated as if it were alone?
    has_gradient: bool = True

    def run(self) -> R:
        """The result, inside the autograd graph of the caller's framework where an operand asks for it."""
        if not self.has_gradient:
            y = calculate(lambda z: self.rule(z, False)[0], self.operands)
        elif wants_grad(self.operands):
            y = connect(self.rule, self.operands, self.second_order, by_column=self.by_column)
        else:
            y = settle(self.rule(self.operands, False)[0])
        result: R = y if self.result is None else self.result(y)
        return result

    def vjp(self) -> tuple[R, Pullback]:
        """The result and its pullback."""
        y, back = self.rule(self.operands, True)
        assert back is not None
        y = settle(y)
        like, device = without_data(y), device_of(y)
        in_graph = wants_grad(self.operands)
        if in_graph:  # the result belongs to the caller's graph
            y = connect(self.rule, self.operands, self.second_order, by_column=self.by_column)

        def pullback(dy: object) -> Any:
            dy = fitting(dy, like, device)
            if self.second_order is not None and wants_grad((self.operands, dy)):
                dx = self.second_order(self.operands, dy)
            else:
                dx = back(dy)
            return dx if self.gradient is None else self.gradient(dx)

        found: Pullback = pullback
        if type(back) is Back and self.gradient is None and not (in_graph and self.second_order is not None):
            found = back.with_fast_path(pullback)
        return y if self.result is None else self.result(y), found


class Columns(NamedTuple):
    """A call of an operation for the columns of a tree: a `Call` for each, None for None."""

    tree: Tree
    calls: Sequence[Call[Any] | None]

    def run(self) -> Any:
        """The tree of the results."""
        return map_columns(self.tree, lambda _, k: cast(Call[Any], self.calls[k]).run())

    def vjp(self) -> tuple[Any, Pullback]:
        """Return the tree of the results and its pullback; None stands where integers have no gradient."""
        return tree_vjp(self.tree, lambda _, k: _vjp_if_asked(cast(Call[Any], self.calls[k])))


def _vjp_if_asked(call: Call[Any]) -> tuple[Any, Pullback]:
    """Return the result and the pullback of a call; no gradient is an error only where one is asked for."""
    try:
        return call.vjp()
    except TypeError as error:
        refused = error

    def pullback(_: object) -> Any:
        raise KIND(str(refused))

    return call.run(), pullback


def each_column(x: object, meant: Callable[[int], Y], prepare: Callable[[Any, Y], Call[Any]]) -> Any:
    """The `Columns` of a tree, all of which are checked before anything is done.

    Each is by ``prepare(column, meant(n))``: what the arguments say of the n sequences is found out once.
    """
    tree = columns_of(x)
    check_columns(tree)
    shared = meant(tree.n)
    calls = [
        None if column is None else at_column(path, prepare, column, shared)
        for path, column in zip(tree.paths, tree.columns, strict=True)
    ]
    return Columns(tree, calls)


def operation(prepare: Callable[P, Call[R]]) -> Callable[P, R]:
    """Make a public operation, with its gradient, of a function that checks the arguments and says what to do."""

    @functools.wraps(prepare)
    def run(*args: P.args, **options: P.kwargs) -> R:
        return prepare(*args, **options).run()

    return with_gradient(run, prepare)


def quickly_by(enter: Callable[..., Any]) -> Callable[[Callable[P, Call[R]]], Callable[P, R]]:
    """`operation` for one that has a fast path, to which arguments by place are given."""

    def decorate(prepare: Callable[P, Call[R]]) -> Callable[P, R]:
        @functools.wraps(prepare)
        def run(*args: P.args, **options: P.kwargs) -> R:
            found: R | None = None if options else enter(*args)
            return prepare(*args, **options).run() if found is None else found

        return with_gradient(run, prepare)

    return decorate


def with_gradient(run: Callable[P, R], prepare: Callable[P, Call[R]]) -> Callable[P, R]:
    """Let `vjp` know the gradient of ``run``, which is `prepare` and more."""
    registry.gradient(run)(lambda args, options: prepare(*args, **options).vjp())
    return run


class Same(Protocol):
    """A function whose result is of the kind of its batch."""

    def __call__(self, x: R, *options: Any) -> R:
        """Return the result for any batch."""


class Operation:
    """An operation on one batch: forward calculation, gradient rule, fast path, and the way through Python.

    ``run(x, *options)`` is the result for any batch: by the fast path, or else by `in_python`.

    Parameters
    ----------
    forward : callable
        ``forward(x, *options)`` of an encoding, outside of any graph.
    rule : callable
        ``rule(x, *options) -> (result, pullback)``; an error where there is no gradient, or None.
    check : callable, optional
        ``check(x, *options) -> options``, which raises where they do not fit.
    second_order : callable, optional
        ``second_order(x, dy)``, the pullback made of operations that have gradients, where it is not linear.
    has_gradient : bool
        Whether it has a gradient.
    by_column : bool
        Whether each number of an item is treated as if it were alone.
    sums : bool
        Whether items are added up, which autocast of PyTorch wants in float32.
    path : optional
        The fast path, one of `core`; that of `forward` without it.
    read : callable
        ``read(x)`` is the `Operand` of a batch in the caller's kind.
    planned : bool
        Whether calls on a GPU are kept as plans: the result of `forward` is laid out as the batch, and it does nothing
        there but to take memory, to cast and to start kernels.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        rule: Callable[..., tuple[Any, Pullback]] | None,
        *,
        check: Callable[..., tuple[Any, ...]] | None = None,
        second_order: Callable[[Any, Any], Any] | None = None,
        has_gradient: bool = True,
        by_column: bool = False,
        sums: bool = False,
        path: Any = None,
        read: Callable[[Any], Operand] = operand,
        planned: bool = False,
    ) -> None:
        self.forward = forward
        self.planned = planned
        self.rule: Any = rule
        self.check = check
        self.second_order = second_order
        self.has_gradient = has_gradient
        self.by_column = by_column
        self.sums = sums
        self.read = read
        self.path: Any = getattr(forward, "path", None) if path is None else path
        self.run: Same = self.in_python
        if self.path is not None:
            self.path.twin = self.in_python
            self.run = self.path.run

    def in_python(self, x: Given, *options: Any) -> Any:
        """Return the result without the fast path."""
        if not (isinstance(x, Encoding) and issubclass(type(x), Encoding)):
            return self.prepare(x, *options).run()
        key = None
        if self.planned and planning and x._can_plan and type(x.data) is not np.ndarray:
            key = self._key(x, options)
            if key is not None and (found := follow(x, key)) is not None:
                return x._with_data(found)
        if self.check is not None:
            options = self.check(x, *options)
        if self.sums and x._dtype in AUTOCAST:
            x = autocast(x)
        if not (with_autograd and wants_grad(x)):
            if key is None:
                return self.forward(x, *options)
            return x._with_data(by_plan(x, (x.data,), key, self._data, x, options))
        if not self.has_gradient:
            return calculate(lambda z: self.forward(z, *options), x)
        return connect(functools.partial(self._apply_rule, options), x, self.second_order, by_column=self.by_column)

    def _key(self, x: Encoding, options: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Make the key of a call plan, of whole numbers and flags as they are given; None where there is no plan."""
        if self.sums and x._dtype in AUTOCAST:
            return None
        if not options:
            return (self,)
        kinds = (*map(type, options),)
        return (self, *options, *kinds) if _PLAIN.issuperset(kinds) else None

    def _data(self, x: Encoding, options: tuple[Any, ...]) -> Array:
        data: Array = self.forward(x, *options).data
        return data

    def prepare(self, x: object, *options: object) -> Call[Any]:
        """Prepare the operation as a `Call`."""
        batch = self.read(x)
        checked = options if self.check is None else self.check(batch.own, *options)
        if self.sums and batch.own._dtype in AUTOCAST:
            batch = to_be_summed(batch)
        own, result, gradient = batch
        rule = functools.partial(self._apply_rule, checked)
        return Call(own, rule, result, gradient, self.second_order, self.by_column, self.has_gradient)

    def _apply_rule(self, options: tuple[Any, ...], x: Operands, back: bool) -> tuple[Any, Pullback | None]:
        """The result with options that have been checked, and its pullback if it is wanted."""
        return self.rule(x, *options) if back else (self.forward(x, *options), None)

    def register(self, public: F) -> F:
        """Let `vjp` find this rule by the public function, which takes a batch and the options."""
        return with_rule(public, self.prepare) if self.has_gradient else public


_PLAIN = frozenset((int, bool))
"""Types of options that tell two calls apart as a key; of floats, -0.0 is as 0.0."""


def with_rule(public: F, prepare: Callable[..., Call[Any]]) -> F:
    """Let `vjp` find, by the public function, what makes a `Call` of its arguments in their order."""
    signature = inspect.signature(public)

    @registry.gradient(public)
    def rule(args: registry.Arguments, options: registry.Options) -> tuple[Any, Pullback]:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        bound.arguments.pop("level", None)  # which has been done with, see `by_level`
        return prepare(*bound.arguments.values()).vjp()

    return public


def linear_call(
    operands: Operands,
    forward: Callable[[Any], Any],
    transpose: Callable[[Any], Any],
    result: Pullback | None = None,
    gradient: Pullback | None = None,
    *,
    check: Callable[[], None] | None = None,
) -> Call[Any]:
    """Make the `Call` of a linear operation, of which each function is the gradient of the other.

    `check` is called where a gradient is wanted; it raises where there is none.
    """

    def rule(x: Operands, back: bool) -> tuple[Any, Pullback]:
        if back and check is not None:
            check()
        return forward(x), lambda dy: linear(transpose, forward, dy)

    return Call(operands, rule, result, gradient)


def linear(forward: Callable[[X], Y], transpose: Callable[[Y], X], x: X) -> Y:
    """``forward(x)``, connected to the caller's autograd graph; each function is the gradient of the other."""
    if wants_grad(x):
        y: Y = connect(lambda z, _: (forward(z), lambda dy: linear(transpose, forward, dy)), x)
        return y
    return forward(x)
