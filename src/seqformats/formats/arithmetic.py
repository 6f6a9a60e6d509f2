"""Arithmetic of encodings: operators, and what NumPy's and PyTorch's own functions do with a batch.

All work item by item on the arrays that hold the items, in the library of these and in its graph.  Here is what needs
no more than one array: a number, or a batch of the same structure, beside a batch without padding.  Everything else is
the service `arithmetic`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np

from .. import core, hints, registry
from ..arrays import Array, DType, Library, adopt
from ..arrays.library import Operand
from ..errors import DTYPE, KIND
from .annotations import Operands, Shaped

if TYPE_CHECKING:
    from .structure import Structure

NUMBER_TYPES = frozenset((bool, int, float, complex))
REFLECTED: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {}
"""Functions of two operands in the other order, and those in the usual one."""


def map_one(operate: Callable[[Any], Any], x: Arithmetic) -> Any:
    """A function of one operand, of a batch."""
    found = core.map_items(operate, x)
    if found is not None:
        return found
    if not x._direct:
        return _by_rows(operate, x, ())
    if not x._look().arithmetic:
        return registry.service("arithmetic").elementwise(operate, (x,))
    try:
        return x._with_data(adopt(operate(x.data), "the result")[1])  # parts of complex numbers are views
    except (TypeError, RuntimeError) as error:
        fail(error, operate, (x,))


def map_two(operate: Callable[[Any, Any], Any], x: Arithmetic, other: Operand) -> Any:
    """A function of two operands, of a batch and what stands to its right."""
    found = core.map_items(operate, x, other)
    if found is not None:
        return found
    kind = type(other)
    alike = kind is type(x) and other._structure is x._structure
    if not x._direct:
        return _by_rows(operate, x, (other,))
    simple = x._look().arithmetic  # which raises where it is not what was validated
    data, beside = x.data, other
    if alike and other._shape == x._shape:
        other._look()
        beside = other.data
        simple = simple and type(beside) is type(data) and (not x.keeps_levels or x._levels == other._levels)
    elif kind not in NUMBER_TYPES:
        simple = False
    if not simple:
        return registry.service("arithmetic").elementwise(operate, (x, other))
    try:
        return x._with_data(operate(data, beside))
    except (TypeError, RuntimeError) as error:
        fail(error, operate, (x, other))


def _by_rows(operate: Callable[..., Any], x: Arithmetic, others: tuple[Operand, ...]) -> Any:
    """A function of a batch that is not in one array without padding."""
    return registry.service("arithmetic").elementwise_of_rows(operate, x, others)


def _unary(name: str) -> Callable[[Any], Any]:
    """Make the method of an operator of one operand."""
    operate = getattr(operator, name)
    return lambda self: map_one(operate, self)


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """Make the method of an operator of two operands; `swapped` if the batch is the second of them."""
    operate = getattr(operator, name)
    if swapped:
        operate = _swap(operate)
    return lambda self, other: map_two(operate, self, other)


def _comparison(name: str, of_none: bool) -> Callable[[Any, Any], Any]:
    """Make the method of ``==`` or ``!=``, which may be asked of None."""
    compare = _binary(name)

    def method(self: Arithmetic, other: object) -> Any:
        return of_none if other is None else compare(self, other)

    return method


def _swap(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Make a function of two operands take them in the other order."""

    def swap(a: Operands, b: Operands) -> Any:
        return operate(b, a)

    swap.__name__ = operate.__name__
    REFLECTED[swap] = operate
    return swap


class Arithmetic:
    """Operators of an encoding, and the protocols by which NumPy and PyTorch ask for more.

    The result is laid out as the first batch, over its structure, and its padding is zero.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        data: Any
        _structure: Structure
        _shape: tuple[int, ...]
        _dtype: DType
        _levels: Any
        _gapped: ClassVar[bool]
        _in_one_array: ClassVar[bool]
        _direct: ClassVar[bool]
        keeps_levels: ClassVar[bool]

        def _look(self) -> Library: ...
        def _sample(self) -> Array: ...
        def _with_data(self, data: Shaped) -> Self: ...
        def __len__(self) -> int: ...

        def __add__(self, other: Operand) -> Self: ...
        def __radd__(self, other: Operand) -> Self: ...
        def __sub__(self, other: Operand) -> Self: ...
        def __rsub__(self, other: Operand) -> Self: ...
        def __mul__(self, other: Operand) -> Self: ...
        def __rmul__(self, other: Operand) -> Self: ...
        def __truediv__(self, other: Operand) -> Self: ...
        def __rtruediv__(self, other: Operand) -> Self: ...
        def __floordiv__(self, other: Operand) -> Self: ...
        def __rfloordiv__(self, other: Operand) -> Self: ...
        def __mod__(self, other: Operand) -> Self: ...
        def __rmod__(self, other: Operand) -> Self: ...
        def __pow__(self, other: Operand) -> Self: ...
        def __rpow__(self, other: Operand) -> Self: ...
        def __and__(self, other: Operand) -> Self: ...
        def __rand__(self, other: Operand) -> Self: ...
        def __or__(self, other: Operand) -> Self: ...
        def __ror__(self, other: Operand) -> Self: ...
        def __xor__(self, other: Operand) -> Self: ...
        def __rxor__(self, other: Operand) -> Self: ...
        def __lt__(self, other: Operand) -> Self: ...
        def __le__(self, other: Operand) -> Self: ...
        def __gt__(self, other: Operand) -> Self: ...
        def __ge__(self, other: Operand) -> Self: ...
        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...
        def __neg__(self) -> Self: ...
        def __pos__(self) -> Self: ...
        def __invert__(self) -> Self: ...
        def __abs__(self) -> Self: ...
    else:
        for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
            locals()[f"__{_name}__"] = _binary(f"__{_name}__")
            locals()[f"__r{_name}__"] = _binary(f"__{_name}__", swapped=True)
        for _name in ("lt", "le", "gt", "ge"):
            locals()[f"__{_name}__"] = _binary(f"__{_name}__")
        for _name in ("neg", "pos", "invert", "abs"):
            locals()[f"__{_name}__"] = _unary(f"__{_name}__")
        del _name
        __eq__, __ne__ = _comparison("__eq__", False), _comparison("__ne__", True)

    __hash__ = object.__hash__

    def __init_subclass__(cls) -> None:
        """Note whether a function may be called with the data as they are: one array, without padding."""
        super().__init_subclass__()
        cls._direct = getattr(cls, "_in_one_array", False) and not getattr(cls, "_gapped", False)

    def __matmul__(self, other: Operand) -> Self:
        made: Self = registry.service("arithmetic").matrix_product(self, other)
        return made

    def __rmatmul__(self, other: Operand) -> Self:
        made: Self = registry.service("arithmetic").matrix_product(other, self)
        return made

    def __bool__(self) -> bool:
        if str(self._dtype).endswith("bool"):
            raise KIND(
                "a batch of bools is neither true nor false: sf.reduce_all(x) says whether all items of a sequence "
                "are, sf.equal(x, y) whether two batches are the same, len(x) whether there are sequences"
            )
        return len(self) > 0

    def astype(self, dtype: DType) -> Self:
        """Cast the items to another dtype.

        Parameters
        ----------
        dtype : a dtype of their library, or what NumPy takes for one

        Returns
        -------
        the same encoding
            `x` itself where it has this dtype.  Tensors stay in their graph.

        Raises
        ------
        TypeError
            If `dtype` is no dtype of the library.

        See Also
        --------
        seqformats.astype : The same of any batch, with a gradient for `vjp`.

        Examples
        --------
        >>> import numpy as np
        >>> import seqformats as sf
        >>> sf.Ragged(np.array([1.5, 2.5]), [1, 1]).astype(int).data
        array([1, 2])
        """
        made: Self = registry.service("arithmetic").astype(self, dtype)
        return made

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in hints.ABSENT]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **options: Any) -> Any:
        if method == "__call__" and not options and ufunc.nout == 1 and ufunc.signature is None:
            x = inputs[0]
            if isinstance(x, Arithmetic) and type(x._sample()) is np.ndarray:
                return map_one(ufunc, x) if len(inputs) == 1 else map_two(ufunc, x, inputs[1])
        return registry.service("arithmetic").array_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Callable[..., Any], types: object, args: Any, options: Any) -> Any:
        return registry.service("arithmetic").array_function(function, args, options)

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: object, args: Any = (), options: Any = None
    ) -> Any:
        return registry.service("tensors").torch_function(function, args, options or {})


class _Absent:
    """An attribute that arrays have and encodings have not: asking for it says what does the same."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: object, kind: type) -> NoReturn:
        raise AttributeError(
            f"{kind.__name__!r} object has no attribute {self.name!r}; {hints.for_method(self.name)}",
            name=self.name,
            obj=kind if x is None else x,
        )


for _name in hints.ABSENT:
    setattr(Arithmetic, _name, _Absent(_name))


def fail(error: Exception, function: object, operands: Sequence[Operand]) -> NoReturn:
    """Raise an error of a library once more; where it has no such operation for these items as one that says so."""
    words = str(error)
    if not (isinstance(error, TypeError) or "not implemented" in words or "not supported" in words):
        raise error
    if hasattr(error, "code"):
        raise error
    name = getattr(function, "__name__", str(function)).strip("_")
    given = [f"items of {x._dtype}" if isinstance(x, Arithmetic) else type(x).__name__ for x in operands]
    raise DTYPE(f"there is no {name} of {' and '.join(given)}: {words.splitlines()[0]}") from error
