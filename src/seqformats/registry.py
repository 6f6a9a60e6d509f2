"""The tables of the library: conversions by (from, to), gradient rules by operation.

`convert`, the wrappers, the gradients, `explain`, the tests and the documentation all read the same tables, and a user
can add to each of them.
"""

import heapq
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from typing import Any, NamedTuple, TypeVar

from . import core, hints
from .errors import KIND, NO_GRADIENT, OPTION, ROUTE, quote
from .lazy_import import import_now
from .memory_checks import remember

Function = TypeVar("Function", bound=Callable[..., Any])

# --- conversions -----------------------------------------------------------------------------------------------------


class Conversion(NamedTuple):
    """One entry of the table."""

    source: type
    target: type
    function: Callable[..., Any]
    pullback: Callable[[Any, Any], Any] | None
    options: tuple[str, ...]
    shares: bool
    devices: tuple[str, ...] | None
    everywhere: bool  # does it work on every device, and change the type?

    @property
    def cost(self) -> int:
        """Sharing memory is nearly free; the small cost makes the shortest of free routes win."""
        return 1 if self.shares else 100


class Route(NamedTuple):
    """The steps from one encoding to another; none where a type to itself has nothing that could be changed."""

    source: type
    target: type
    steps: tuple[Conversion, ...]

    @property
    def shares(self) -> bool:
        """Tell whether the result may share memory with the source."""
        return all(step.shares for step in self.steps)

    @property
    def options(self) -> tuple[str, ...]:
        """The options that `place` accepts."""
        names = {name for step in self.steps[:-1] for name in step.options if name in OF_THE_SOURCE}
        return tuple(sorted(names.union(*[step.options for step in self.steps[-1:]])))

    def place(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """The options for each step: those of the source for the first that knows them, the others for the last."""
        if not options:
            return [{}] * len(self.steps)
        placed: list[dict[str, Any]] = [{} for _ in self.steps]
        for name, value in options.items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise OPTION(
                    f"no option {quote(name)} on the way from {label(self.source)} to {label(self.target)}; "
                    f"options there: {known}{hints.for_option(name, self.options)}"
                )
            at = len(self.steps) - 1
            if name in OF_THE_SOURCE:
                at = next(i for i, step in enumerate(self.steps) if name in step.options)
            placed[at][name] = value
        return placed


OF_THE_SOURCE = frozenset(("level", "dtype", "library"))
"""Options that say what is read, not what is made of it."""

_conversions: dict[tuple[type, type], Conversion] = {}
_routes: dict[tuple[type, type, str], Route | None] = {}
_encoding_types: set[type] = set()
_bound_to_devices = False


def device_kind(x: object) -> str:
    """Find the kind of device of a batch, where a conversion is bound to one."""
    return str(getattr(x, "device", "cpu")).partition(":")[0] if _bound_to_devices else "cpu"


def label(kind: type) -> str:
    """Return the name of a type in messages: with its module where another encoding has the same name."""
    name, front = kind.__name__, sys.modules[__package__]
    others = [*_encoding_types, getattr(front, name, kind)]
    if all(other is kind or other.__name__ != name for other in others):
        return name
    return f"{__package__ if getattr(front, name, None) is kind else kind.__module__}.{name}"


def keeps_levels(kind: type) -> bool:
    """Tell whether an encoding holds several levels: LoD and nested lists do, a dataclass says it by `keeps_levels`."""
    return kind is list or bool(getattr(kind, "keeps_levels", False))


def conversion(
    source: type,
    target: type,
    pullback: Callable[[Any, Any], Any] | None = None,
    *,
    shares: bool = False,
    devices: tuple[str, ...] | None = None,
) -> Callable[[Function], Function]:
    """Register the decorated function as the conversion from `source` to `target`.

    The function takes an object of type `source` and returns one of type `target`, with the same sequences in the same
    order.  Its keyword-only parameters become options of `convert`.  From then on `convert`, the wrappers and `vjp`
    use it, alone or as a step of a longer route.

    Parameters
    ----------
    source, target : dataclass types
        Or `list` for nested lists.
    pullback : ``pullback(dy, x) -> dx``, optional
        The gradient: `dy` is a `target`, `x` what was converted, `dx` a `source`.  Without it the gradient is the way
        back, ``convert(dy, source)``, which must then be registered too.
    shares : bool
        True if the result shares memory with the source.  Such a step costs nothing in a route.
    devices : kinds of device, optional
        Those that it works on ("cpu", "cuda"); None for all.

    Returns
    -------
    a decorator
        It gives the function back as it is.

    Raises
    ------
    TypeError
        For a source or target that is no dataclass.

    Notes
    -----
    A dataclass with the class attribute ``keeps_levels = True`` says that it holds every level of a `LoD`.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np
    >>> import seqformats as sf
    >>> @dataclasses.dataclass(frozen=True)
    ... class Reversed:
    ...     data: np.ndarray
    ...     lengths: np.ndarray
    >>> @sf.conversion(sf.Ragged, Reversed)
    ... def to_reversed(x):
    ...     return Reversed(x.data[::-1].copy(), x.lengths[::-1])
    >>> sf.convert([np.array([1, 2]), np.array([3])], Reversed).data
    array([3, 2, 1])
    """
    for kind in (source, target):
        if not (isinstance(kind, type) and (kind is list or is_dataclass(kind))):
            raise KIND(f"a conversion goes between dataclass types or list, not {quote(kind)}")

    def register(function: Function) -> Function:
        everywhere = devices is None and source is not target
        _add(Conversion(source, target, function, pullback, options_of(function), shares, devices, everywhere))
        return function

    return register


def options_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The keyword-only parameters of a function."""
    return tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY)


def enter(source: type, target: type, function: Callable[..., Any], options: tuple[str, ...]) -> None:
    """Enter a conversion whose options are known otherwise than by the signature of its function."""
    _add(Conversion(source, target, function, None, options, False, None, source is not target))


def _add(entry: Conversion) -> None:
    global _bound_to_devices
    _conversions[entry.source, entry.target] = entry
    _encoding_types.update({entry.source, entry.target} - {list})
    _bound_to_devices = _bound_to_devices or entry.devices is not None
    _routes.clear()
    entrances.clear()


def conversions() -> dict[tuple[type, type], Conversion]:
    """The table of direct conversions.

    Returns
    -------
    dict
        Of (from, to) the entry.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.conversions()[sf.Ragged, sf.Padded].options
    ('fill', 'width', 'multiple_of', 'truncate')
    """
    return dict(_conversions)


def route(source: type, target: type, device: str = "cpu", options: Iterable[str] = ()) -> Route:
    """The cheapest route; ConversionError where there is none.

    An encoding that loses levels is never passed through where both ends keep them.  Where the last step does not know
    the options, as that from an encoding of a user's, a change of the target's own layout follows that does.
    """
    found = _routes.get((source, target, device if _bound_to_devices else "")) or find_route(source, target, device)
    if found is None:
        raise ROUTE(_no_route(source, target, device))
    if options and source is not target and not OF_THE_SOURCE.union(found.options).issuperset(options):
        return Route(source, target, (*found.steps, *(_search(target, target, device) or ())))
    return found


def find_route(source: type, target: type, device: str = "cpu") -> Route | None:
    """Return the route as `route` does, None where there is none."""
    key = (source, target, device if _bound_to_devices else "")
    try:
        return _routes[key]
    except KeyError:
        pass
    steps = _search(source, target, device)
    return remember(_routes, key, None if steps is None else Route(source, target, steps))


def _search(source: type, target: type, device: str) -> tuple[Conversion, ...] | None:
    """Dijkstra's algorithm over the table."""
    if source is target:  # a change of layout: only the direct entry makes sense
        entry = _conversions.get((source, target))
        return () if entry is None else (entry,)
    deep = keeps_levels(source) and keeps_levels(target)
    heap: list[tuple[int, int, type, tuple[Conversion, ...]]] = [(0, 0, source, ())]
    done: set[type] = set()
    count = 0
    while heap:
        cost, _, kind, steps = heapq.heappop(heap)
        if kind is target:
            return steps
        if kind in done:
            continue
        done.add(kind)
        for entry in _conversions.values():
            if entry.source is not kind or entry.target in done:
                continue
            if entry.devices is not None and device not in entry.devices:
                continue
            if deep and not keeps_levels(entry.target):
                continue
            count += 1
            heapq.heappush(heap, (cost + entry.cost, count, entry.target, (*steps, entry)))
    return None


def _no_route(source: type, target: type, device: str) -> str:
    targets = {t for _, t in _conversions} - {source}
    reached = sorted(label(t) for t in targets if _search(source, t, device) is not None)
    text = f"no conversion from {label(source)} to {label(target)}"
    if device != "cpu":
        text += f" on {device}"
    if reached:
        return f"{text}; {label(source)} converts to: {', '.join(reached)}"
    known = sorted({label(s) for s, _ in _conversions})
    return f"{text}; known encodings: {', '.join(known)}"


def is_encoding_type(kind: type) -> bool:
    """Tell whether the table of conversions knows a type, other than the bare list."""
    return kind in _encoding_types


def kind_of(x: object) -> type | None:
    """The type by which the table of conversions knows this object."""
    for kind in type(x).__mro__:
        if kind in _encoding_types:
            return kind
    return None


entrances: dict[type, Any] = {}
"""The fast paths of conversions without options, by their targets: ``entrances[To].convert(x)``, or None.

Each takes the classes that it has been told of by `let_in`; with every change of the table all go."""


def let_in(source: type, target: type) -> None:
    """Have the fast path to `target` take what is of this class, since the table has a move of the library's for it."""
    path = entrances.get(target) or entrances.setdefault(target, core.Conversion(target))
    path.allow(source)


direct = _conversions.get
"""``direct((source, target))`` is the entry of the table, or None."""


# --- gradients -------------------------------------------------------------------------------------------------------

Arguments = tuple[Any, ...]
Options = dict[str, Any]
Rule = Callable[[Arguments, Options], tuple[Any, Callable[[Any], Any]]]

_gradients: dict[Callable[..., Any], Rule] = {}


def gradient(operation: Callable[..., Any]) -> Callable[[Rule], Rule]:
    """Register the decorated rule for `operation`: ``rule(args, options) -> (result, pullback)``."""

    def register(rule: Rule) -> Rule:
        _gradients[operation] = rule
        return rule

    return register


def known_gradient(operation: Callable[..., Any]) -> Rule | None:
    """The rule of an operation, if it has been registered so far."""
    return _gradients.get(operation)


def gradient_rule(operation: Callable[..., Any]) -> Rule:
    """The rule of an operation; TypeError where it has none."""
    try:
        return _gradients[operation]
    except (KeyError, TypeError, ValueError):
        own = [operation for operation in gradients() if operation.__module__.partition(".")[0] == __package__]
        known = sorted(operation.__qualname__ for operation in own)
        name = getattr(operation, "__name__", None) or quote(operation)
        hint = hints.for_operation(name, known)
        raise NO_GRADIENT(f"{name} has no gradient rule{hint}") from None


def gradients() -> dict[Callable[..., Any], Rule]:
    """The whole table of rules, by operation.

    A module of operations enters its rules when it is loaded, which is when one of its names is first asked for; so
    those that nobody has asked for yet are loaded here.
    """
    pkgutil = import_now("pkgutil", None)  # which takes as long to load as a tenth of this package

    import_now(".gradients.vjp", __package__)
    for module in pkgutil.iter_modules(import_now(".operations", __package__).__path__):
        import_now(f".operations.{module.name}", __package__)
    import_now(".ctc.loss", __package__)
    return dict(_gradients)


# --- services --------------------------------------------------------------------------------------------------------
# What an encoding needs from further out (indexing, nested lists) it asks for by name, so that imports point one way.

_services: dict[str, Any] = {}
_MODULES = {
    "arithmetic": "operations.elementwise",
    "arrow": "arrow",
    "converters": "converters.services",
    "leaves": "formats.leaves",
    "select": "operations.select",
    "tensors": "torch.services",
}
"""Services that are modules, which are imported when they are first asked for."""


def service(name: str) -> Any:
    """A module of `_MODULES`, or a function registered by `provides`."""
    if name not in _services and name in _MODULES:
        _services[name] = import_now(f".{_MODULES[name]}", __package__)
    return _services[name]


def provides(name: str) -> Callable[[Function], Function]:
    """Register the decorated function as the service `name`."""

    def register(function: Function) -> Function:
        _services[name] = function
        return function

    return register
