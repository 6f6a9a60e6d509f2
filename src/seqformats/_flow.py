"""Gradients that flow by themselves, over the table behind `vjp`.

Where an input asks for a gradient, an operation runs through `apply`, which takes encodings apart into their arrays and
lets the library of these connect them in its graph; see `Library.connected`.  So every operation with a rule trains in
every library that has a graph; PyTorch is the first.
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import Array, Library, is_array, library_of, library_of_type, with_autograd
from .formats import Encoding, List, Pairs, Ragged, build_list, build_ragged
from .limits import check_finite, remember

Rule = Callable[[Any], tuple[Any, Callable[[Any], Any] | None]]


class Leaf:
    """What is remembered of an array that need not be kept: its shape and dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype


def leaves(x: Any) -> list[Any]:
    """The arrays that hold the items of an encoding, a user's dataclass, a tuple or an array."""
    if isinstance(x, List):
        return list(x.items)
    if isinstance(x, Encoding):
        return [x.data]  # type: ignore[attr-defined]
    if isinstance(x, Leaf) or is_array(x):
        return [x]
    if isinstance(x, (list, tuple)):
        return _leaves_of_lists(x)
    if isinstance(x, Pairs):
        return leaves(x.one) + leaves(x.two)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [leaf for name in _array_fields(x) for leaf in leaves(getattr(x, name))]
    return []


def _leaves_of_lists(x: Any) -> list[Array]:
    """Those of lists in lists, to any depth."""
    if any(isinstance(part, (list, tuple)) for part in x):
        check_finite(x)
    found: list[Array] = []
    path = [iter(x)]
    while path:
        for part in path[-1]:
            if isinstance(part, (list, tuple)):
                path.append(iter(part))
                break
            found += leaves(part)
        else:
            path.pop()
    return found


def _array_fields(x: Any) -> list[str]:
    """The fields of a user's dataclass that hold items: arrays that are no integers on the host."""
    found = []
    for field in dataclasses.fields(x):
        value = getattr(x, field.name)
        structure = isinstance(value, np.ndarray) and value.dtype.kind in "iub"
        if isinstance(value, (Encoding, Pairs, Leaf)) or (is_array(value) and not structure):
            found.append(field.name)
    return found


def rebuild(x: Any, new: Sequence[Any]) -> Any:
    """`x` with other leaves, in the order of `leaves`; the structure is shared."""
    given = iter(new)
    return _rebuild(x, given)


def _rebuild(x: Any, new: Any) -> Any:
    if isinstance(x, List):
        items = tuple([next(new) for _ in x.items])
        return build_list(items, x._structure, items[0] if items else x._like())
    if isinstance(x, Encoding):
        return with_data(x, next(new))
    if isinstance(x, Leaf) or is_array(x):
        return next(new)
    if isinstance(x, (list, tuple)):
        return type(x)([_rebuild(part, new) for part in x])
    if isinstance(x, Pairs):
        return Pairs(_rebuild(x.one, new), _rebuild(x.two, new))
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        twin = copy.copy(x)
        for name in _array_fields(x):
            object.__setattr__(twin, name, _rebuild(getattr(x, name), new))
        return twin
    return x


def with_data(x: Any, data: Any) -> Any:
    """The same encoding (but a `List`) over other data with the same leading shape, without a check."""
    kind = type(x)
    if kind is Ragged:
        return build_ragged(data, x._structure)
    twin = object.__new__(kind)
    put = object.__setattr__
    for name in _slots.get(kind) or _find_slots(kind):
        put(twin, name, getattr(x, name))
    put(twin, "data", data)
    put(twin, "_shape", data.shape)
    put(twin, "_dtype", data.dtype)
    return twin


_slots: dict[type, tuple[str, ...]] = {}


def _find_slots(kind: type) -> tuple[str, ...]:
    """What an encoding holds beside its data."""
    names = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    own = tuple([n for n in names if n not in ("__weakref__", "data", "_shape", "_dtype")])
    return remember(_slots, kind, own)


def hollow(x: Any) -> Any:
    """`x` without its arrays: structure, shapes and dtypes alone.  Those without items may as well stay."""
    if isinstance(x, Encoding) and not isinstance(x, List):
        return with_data(x, _hollow(x.data, x._shape, x._dtype))  # type: ignore[attr-defined]
    if is_array(x):
        return _hollow(x, x.shape, x.dtype)
    return rebuild(x, [_hollow(leaf, leaf.shape, leaf.dtype) for leaf in leaves(x)])


def _hollow(x: Any, shape: Any, dtype: Any) -> Any:
    """What is remembered of an array that had this shape and dtype."""
    if 0 in shape and not isinstance(x, Leaf) and x.shape == shape:
        return library_of(x).alias(x)
    return Leaf(shape, dtype)


def wants_grad(x: Any) -> bool:
    """Does any leaf of `x` ask for a gradient right now?"""
    if not with_autograd or type(x) is np.ndarray:
        return False
    if isinstance(x, Encoding):  # one library, so a look at one array is mostly enough
        own = library_of(x._like())
        return own.autograd and own.wants_grad(x.items if isinstance(x, List) else (x.data,))  # type: ignore[attr-defined]
    for leaf in leaves(x):
        library = library_of_type(type(leaf))
        if library is not None and library.autograd and library.wants_grad((leaf,)):
            return True
    return False


def apply(rule: Rule, x: Any, again: Callable[[Any, Any], Any] | None = None) -> Any:
    """``rule(x)[0]``, connected to the autograd graph of the library of `x`; see `wants_grad`.

    The pullback of an operation that is not linear depends on `x`; ``again(x, dy)`` is the same pullback, made of
    operations that are in the graph, for those who differentiate a second time.
    """
    call = _Call(rule, x, again)
    arrays = leaves(x)
    outputs = _library_with_graph(arrays).connected(call, arrays)
    return rebuild(call.result, outputs)


def _library_with_graph(arrays: Sequence[Array]) -> Library:
    """The library in whose graph a call is: of the arrays, which are of one library, or of NumPy beside it."""
    for array in arrays:
        library = library_of_type(type(array))
        if library is not None and library.autograd and library.wants_grad((array,)):
            return library
    raise TypeError("none of these arrays asks for a gradient")


class _Call:
    """One call on its way through the graph of a library, which takes and returns arrays only."""

    __slots__ = ("again", "pullback", "result", "rule", "x")

    def __init__(self, rule: Rule, x: Any, again: Callable[[Any, Any], Any] | None) -> None:
        self.rule, self.x, self.again = rule, x, again
        self.result: Any = None
        self.pullback: Callable[[Any], Any] | None = None

    @property
    def twice(self) -> bool:
        return self.again is not None

    def forward(self, arrays: Sequence[Array]) -> tuple[Array, ...]:
        result, self.pullback = self.rule(rebuild(self.x, arrays))
        # the arrays belong to the graph, not to this object
        self.x = None if self.again is None else hollow(self.x)
        self.result = hollow(result)
        return tuple(leaves(result))

    def backward(self, gradients: list[Array], arrays: Sequence[Array]) -> list[Array]:
        assert self.pullback is not None
        given = rebuild(self.result, gradients)
        if self.again is not None and arrays:
            return leaves(self.again(rebuild(self.x, arrays), given))
        return leaves(self.pullback(given))
