"""The arrays that hold the items of a batch: taken out, put in again, done without, connected in a graph.

Where an input asks for a gradient, an operation runs through `connect`, which takes encodings apart into their arrays
and lets the library of these connect them in its graph; see `Library.connect`.  So every operation with a rule trains
in every library that has a graph; PyTorch is the first.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import core
from ..arrays import Array, DType, Library, Shape, functional, is_array, library_of, library_of_type, with_autograd
from ..errors import NO_GRADIENT
from ..memory_checks import check_finite
from ..reading import are_numbers
from .annotations import Given, Operands, Shaped
from .encoding import Encoding
from .pairs import Pairs

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Rule = Callable[[Any, bool], tuple[Any, Callable[[Any], Any] | None]]
SecondOrder = Callable[[Any, Any], Any]


class ShapeDtype:
    """Shape and dtype of an array that need not be kept."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype


def leaves(x: object) -> list[Any]:
    """The arrays that hold the items of an encoding, a user's dataclass, a tuple or an array."""
    if issubclass(type(x), Encoding):  # isinstance believes an object that says so itself
        return x._leaves()  # type: ignore[attr-defined, no-any-return]
    if isinstance(x, ShapeDtype) or is_array(x):
        return [x]
    if isinstance(x, (list, tuple)):
        return _leaves_of_lists(x)
    if isinstance(x, Pairs):
        return leaves(x.one) + leaves(x.two)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [leaf for name in _array_fields(x) for leaf in leaves(getattr(x, name))]
    return []


def _leaves_of_lists(x: Sequence[Any]) -> list[Array]:
    """List the leaves of lists in lists, to any depth."""
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


def _array_fields(x: DataclassInstance) -> list[str]:
    """The fields of a user's dataclass that hold items: arrays that are no integers on the host."""
    found = []
    for field in dataclasses.fields(x):
        value = getattr(x, field.name)
        structure = isinstance(value, np.ndarray) and value.dtype.kind in "iub"
        if isinstance(value, (Encoding, Pairs, ShapeDtype)) or (is_array(value) and not structure):
            found.append(field.name)
    return found


def check_data(x: object) -> None:
    """StructureError where the data of an encoding is no longer what was validated."""
    if isinstance(x, Encoding):
        if not isinstance(x._sample(), ShapeDtype):
            x._look()
    elif isinstance(x, (list, tuple)):
        for part in x:
            check_data(part)


def rebuild(x: object, new: Sequence[Shaped]) -> Any:
    """`x` with other leaves, in the order of `leaves`; the structure is shared."""
    return _rebuild(x, iter(new))


def _rebuild(x: object, new: Iterator[Shaped]) -> Any:
    if isinstance(x, Encoding):
        return x._with_leaves([next(new) for _ in x._leaves()])
    if isinstance(x, ShapeDtype) or is_array(x):
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


def without_data(x: object) -> Any:
    """`x` without its arrays: structure, shapes and dtypes alone.  Those without items may as well stay."""
    if isinstance(x, Encoding):
        if x._in_one_array:
            shape, dtype = x._shape, x._dtype
            return x._with_data(_shape_of(x.data, shape, dtype) if 0 in shape else ShapeDtype(shape, dtype))
        return x._with_leaves([_shape_of(leaf, leaf.shape, leaf.dtype) for leaf in x._leaves()])
    if is_array(x):
        return _shape_of(x, x.shape, x.dtype)
    return rebuild(x, [_shape_of(leaf, leaf.shape, leaf.dtype) for leaf in leaves(x)])


def _shape_of(x: Given, shape: Shape, dtype: DType) -> Any:
    """Remember an array that had this shape and dtype."""
    if 0 in shape and not isinstance(x, ShapeDtype) and x.shape == shape:
        return library_of(x).alias(x)
    return ShapeDtype(shape, dtype)


def autocast(x: Encoding) -> Encoding:
    """`x`, whose dtype is one of `AUTOCAST`, as it is to be added up: in float32 where its library wants that now.

    The cast is in the graph of the library, so a gradient comes back in the dtype of `x`.
    """
    sample = x._sample()
    library = library_of(sample)
    if not library.autocasts(sample):
        return x
    if x._in_one_array or not x._leaves():  # what is cast cannot be compared with what was validated any more
        return x._each(lambda leaf: library.astype(leaf, "float32"))
    return cast_leaves(x, "float32")  # of which each is compared with its length where it is read


def cast_leaves(x: Encoding, dtype: DType) -> Encoding:
    """`x` with its items in another dtype of their library, in its graph."""
    return x._with_leaves([library_of(leaf).astype(leaf, dtype) for leaf in x._leaves()])


def _all_numbers(x: Given) -> bool:
    """Tell whether there is no array in lists, or operands.  A walk over each number takes far longer."""
    return are_numbers(tuple(x)) or (
        type(x) is tuple and all(type(part) in (list, tuple) and (not part or are_numbers(tuple(part))) for part in x)
    )


def wants_grad(x: object) -> bool:
    """Tell whether any leaf of `x` asks for a gradient right now."""
    if not with_autograd or type(x) is np.ndarray or core.asks_nothing(x):
        return False
    if isinstance(x, Encoding):
        if x._in_one_array:
            data: Any = x.data
            if type(data) is np.ndarray:
                return False
            own = library_of(data)
            return own.autograd and own.wants_grad((data,))
        return _asks(x)
    if type(x) is tuple:  # the operands of a call
        for part in x:
            if isinstance(part, Encoding):
                if _asks(part):
                    return True
            elif type(part) is not np.ndarray:
                break
        else:
            return False
    if type(x) in (list, tuple) and _all_numbers(x):
        return False
    for leaf in leaves(x):
        library = library_of_type(type(leaf))
        if library is not None and library.autograd and library.wants_grad((leaf,)):
            return True
    return False


def _asks(x: Encoding) -> bool:
    """Tell whether an encoding asks: it has one library, so a look at one array is mostly enough."""
    sample = x._sample()
    if type(sample) is np.ndarray:
        return False
    own = library_of(sample)
    return own.autograd and own.wants_grad(x._leaves())


def connect(rule: Rule, x: object, second_order: SecondOrder | None = None, *, by_column: bool = False) -> Any:
    """``rule(x, True)[0]``, connected to the autograd graph of the library of `x`; see `wants_grad`.

    A rule gives the result and, where that is asked for, its pullback.  That of an operation that is not linear depends
    on `x`; ``second_order(x, dy)`` is the same pullback, made of operations that are in the graph, for those who
    differentiate a second time.  `by_column` says that each number of an item is treated as if it were alone, so that
    items may get another axis in front.
    """
    if isinstance(x, Encoding) and x._in_one_array:
        data: Any = x.data
        arrays, library = [data], library_of(data)
    else:
        arrays = leaves(x)
        library = _library_with_graph(arrays)
    if library.functional:
        check_data(x)
    call = Connected(rule, x, second_order, by_column)
    return call.rebuilt(library.connect(call, arrays))


def settle(y: Operands) -> Any:
    """A result with its items in the dtypes that their library has for them; see `Library.settle`."""
    if not functional or type(y) is np.ndarray:
        return y
    made = leaves(y)
    found = [library_of(leaf).settle(leaf) for leaf in made]
    return y if all(a is b for a, b in zip(made, found, strict=True)) else rebuild(y, found)


def calculate(function: Callable[[Any], Any], x: object) -> Any:
    """``function(x)``, which has no gradient: outside of any graph, but as a program where the library has those."""
    if with_autograd and wants_grad(x) and _library_with_graph(leaves(x)).functional:
        return connect(lambda z, _: (function(z), None), x)
    return function(x)


def _library_with_graph(arrays: Sequence[Array]) -> Library:
    """The library in whose graph a call is: of the arrays, which are of one library, or of NumPy beside it."""
    for array in arrays:
        library = library_of_type(type(array))
        if library is not None and library.autograd and library.wants_grad((array,)):
            return library
    raise NO_GRADIENT("none of these arrays asks for a gradient")


class Connected:
    """One call on its way through the graph of a library, which takes and returns arrays only."""

    __slots__ = ("by_column", "pullback", "result", "rule", "second_order", "twice", "x")

    def __init__(self, rule: Rule, x: object, second_order: SecondOrder | None, by_column: bool) -> None:
        self.rule, self.x, self.second_order, self.by_column = rule, x, second_order, by_column
        self.twice = second_order is not None  # does the gradient depend on what is put in?
        self.result: Any = None  # without its arrays; None where it is one array
        self.pullback: Callable[[Any], Any] | None = None

    @property
    def leads(self) -> list[int]:
        """The number of axes of each input array before those of an item."""
        return _leads(self.x)

    @property
    def result_leads(self) -> list[int]:
        """The number of axes of each result before those of an item, once there are results."""
        return [1] if self.result is None else _leads(self.result)

    def forget(self) -> None:
        """Keep nothing of what is put in but its structure, for a call that is run `again`."""
        self.x = rebuild(self.x, [ShapeDtype(leaf.shape, leaf.dtype) for leaf in leaves(self.x)])

    def forward(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results, outside the graph; what the gradient needs of them is kept."""
        x = self.x
        if not (isinstance(x, Encoding) and x._in_one_array and x.data is arrays[0]):
            x = rebuild(x, arrays)
        result, self.pullback = self.rule(x, True)
        # the arrays belong to the graph, not to this object
        self.x = None if self.second_order is None else without_data(x)
        if is_array(result):
            return (result,)
        self.result = without_data(result)
        return leaves(result)

    def again(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """The results for other arrays, which may ask for a gradient; nothing but their structure is kept."""
        x = rebuild(self.x, arrays)
        if wants_grad(x):
            result = connect(self.rule, x, self.second_order, by_column=self.by_column)
        else:
            result = self.rule(x, False)[0]
        self.result = None if is_array(result) else without_data(result)
        return leaves(result)

    def rebuilt(self, outputs: Sequence[Array]) -> Any:
        """The result with these arrays."""
        like = self.result
        if like is None:
            return outputs[0]
        if isinstance(like, Encoding) and like._in_one_array:
            return like._with_data(outputs[0])
        return rebuild(like, outputs)

    def backward(self, gradients: Sequence[Array], arrays: Sequence[Array]) -> Sequence[Array]:
        """The gradients of what was put in; `arrays` is that, where they are differentiated themselves."""
        assert self.pullback is not None
        dy = self.rebuilt(gradients)
        dx = (
            self.second_order(rebuild(self.x, arrays), dy)
            if self.second_order is not None and arrays
            else self.pullback(dy)
        )
        if isinstance(dx, Encoding) and dx._in_one_array:
            return (dx.data,)
        return leaves(dx)


def _leads(x: object) -> list[int]:
    """Count the axes of each leaf before those of an item; of rows one."""
    if isinstance(x, Encoding):
        return [x._lead] * len(x._leaves())
    if isinstance(x, (list, tuple)):
        return [lead for part in x for lead in _leads(part)]
    if isinstance(x, Pairs):
        return _leads(x.one) + _leads(x.two)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return [lead for name in _array_fields(x) for lead in _leads(getattr(x, name))]
    return [1] * len(leaves(x))
