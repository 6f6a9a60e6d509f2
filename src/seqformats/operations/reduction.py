"""Reductions, and their results for sequences without items."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, cast, overload

import numpy as np

from ..arrays import AUTOCAST, Array, library_of
from ..arrays.dtypes import HALF, SUMS_IN, differentiable
from ..converters.convert import at_once
from ..errors import EMPTY, EXACT, KIND, NO_GRADIENT, quote
from ..formats import Encoding, LoD, Ragged
from ..formats.annotations import Given
from ..formats.call_plans import by_plan, follow
from ..formats.overlapping import Windows, in_place
from ..formats.structure import Structure
from ..gradients.operation import Call, Operand, Operation, Pullback, operand
from ..launch.kernel import planning
from ..memory_checks import remember
from .annotations import Batch, Empty, Flat, Nested, Reduced
from .calculation import Calculation, name_of

MODE_SUM, MODE_MEAN, MODE_SQRT = 0, 1, 2
"""The modes of the kernels `sum_rows` and `spread_rows`."""
ZERO, ONE, LOWEST = 0.0, 1.0, -math.inf
"""What kernels leave for an empty sequence.  These very objects mean that nothing else was asked for."""


class Reducer(Protocol):
    """A public reduction, as a type checker sees it."""

    @overload
    def __call__(self, x: Nested, *, empty: Empty = ..., level: int = ...) -> Any: ...
    @overload
    def __call__(self, x: Flat, *, empty: Empty = ..., level: int = ...) -> Array: ...


def operand_of_reduction(x: Batch) -> Operand:
    """The batch as an encoding of this library; a result goes back to bare lists where those have levels."""
    found = operand(x, "reduce x.one and x.two")
    own, result, gradient = found
    if result is None:
        return found
    if not isinstance(x, (list, tuple)):
        return Operand(own, None, gradient)
    return Operand(own, lambda y: result(y) if isinstance(y, Encoding) else y, gradient)


class Reduction(Operation):
    """An operation with an item per sequence; its option is the result for sequences without items.

    Parameters
    ----------
    name : str
        By which `reduce` knows it; its function is ``reduce_{name}``.
    values : callable
        ``values(x, finish=True)`` is the array ``(n, *item)``; without `finish` in the dtype of the kernel.
    pullback : callable, optional
        ``pullback(x, values)`` is a function of the gradients ``(n, *item)``, which gives that of `x`; None where there
        is no gradient.
    with_pullback : callable, optional
        ``with_pullback(x)`` is the values in the dtype of the kernel, and their pullback, where both are one
        calculation.
    what : str, optional
        The result in messages, where integers have no gradient; None where all dtypes have one.
    default : float
        What the kernel leaves for an empty sequence.
    few : int
        Number of items up to which a sequence is as good as empty.
    synonyms : tuple of str
        Other names by which `reduce` knows it.
    by_column, second_order, sums
        See `Operation`.
    """

    run: Callable[[Batch, Empty], Reduced]  # type: ignore[assignment]  # the result is no batch

    def __init__(
        self,
        name: str,
        values: Callable[..., Array],
        pullback: Callable[[Encoding, Array], Pullback] | None = None,
        *,
        with_pullback: Callable[[Encoding], tuple[Array, Pullback]] | None = None,
        what: str | None = None,
        default: float = ZERO,
        few: int = 0,
        synonyms: tuple[str, ...] = (),
        by_column: bool = True,
        second_order: Callable[[Encoding, Reduced], object] | None = None,
        sums: bool = False,
    ) -> None:
        self.name, self.values, self.pullback, self.what = name, values, pullback, what
        self.with_pullback = with_pullback or self._with_pullback
        self.default, self.few, self.synonyms = default, few, synonyms
        self.in_one_array = isinstance(values, Calculation)  # others read the arrays of a list where they are
        self.learned: dict[Any, str | None] = {}  # those with a gradient; the names of HALF
        super().__init__(
            self._forward,
            self._rule,
            second_order=second_order,
            has_gradient=bool(pullback or with_pullback),
            by_column=by_column,
            sums=sums,
            path=getattr(values, "path", None),
            read=operand_of_reduction,
        )
        if self.path is not None:
            self.path.let_default(default)
        if isinstance(values, Calculation):
            values.default = (default,)

    def in_python(self, x: Given, empty: Empty) -> Reduced:
        """Return the result without the fast path."""
        kind = type(x)
        if planning and empty is self.default and issubclass(kind, Encoding):
            values = None if not x._can_plan or (self.sums and x._dtype in AUTOCAST) else follow(x, self)
            if values is not None:
                return over_levels(values, x) if x.keeps_levels else values
        if kind is list or kind is tuple:
            batch = at_once(x, Ragged) if empty is self.default and self.in_one_array else None
            if batch is not None:
                return self.run(batch, empty)
        elif empty is not self.default and issubclass(kind, Encoding):
            self.check_empty(x, empty)
        windows = in_place(x) if kind is Windows else None
        if windows is not None:
            return over_levels(self.fill_empty(self.values(windows), windows._structure, empty), cast(Encoding, x))
        return cast(Reduced, super().in_python(x, empty))

    def prepare(self, x: object, *options: Any) -> Call[Any]:
        """Prepare the reduction as a `Call`."""
        call = super().prepare(x, *options)
        if options[0] is not self.default:
            self.check_empty(call.operands, options[0])
        return call

    def register(self, public: Callable[..., Reduced]) -> Reducer:  # type: ignore[override]
        """Let `vjp` find this rule by the public function, and type checkers what it returns."""
        return cast(Reducer, super().register(public))

    def check_empty(self, x: Encoding, empty: Empty) -> None:
        """Check what is asked for empty sequences of an encoding."""
        check_empty(x._structure, empty, self.few)

    def _forward(self, x: Encoding, empty: Empty) -> Reduced:
        if empty is not self.default:
            values = self.fill_empty(self.values(x), x._structure, empty)
        elif planning and x._can_plan:
            values = by_plan(x, (x.data,), self, self.values, x)
        else:
            values = self.values(x)
        return over_levels(values, x) if x.keeps_levels else values

    def _rule(self, x: Encoding, empty: Empty) -> tuple[Reduced, Pullback]:
        if not self.has_gradient:
            raise NO_GRADIENT(f"reduce_{self.name} has no gradient; its results are no floats")
        dtype = x._dtype
        if dtype not in self.learned:
            name = name_of(x)
            if self.what is not None:
                differentiable(name, self.what)
            remember(self.learned, dtype, name if name in HALF else None)
        half = self.learned[dtype]
        values, pullback = self.with_pullback(x)
        if half is not None:
            values = library_of(values).astype(values, half)
        if empty is not self.default:
            values = self.fill_empty(values, x._structure, empty)
        result = over_levels(values, x)
        return result, pullback if result is values else lambda dy: pullback(rows_or_data(dy))

    def _with_pullback(self, x: Encoding) -> tuple[Array, Pullback]:
        """The values in the dtype of the kernel, and the function of their gradients."""
        assert self.pullback is not None
        # no graph sees it, so what has one may go through the fast path
        values = None if self.path is None else self.path.enter(x, self.default)
        if values is None:
            values = self.values(x, finish=False)
        return values, self.pullback(x, values)

    def fill_empty(self, values: Array, structure: Structure, empty: Empty) -> Array:
        """The result, with `empty` for empty sequences, where the kernel has left the default."""
        if empty is self.default or isinstance(empty, str):
            return values
        library = library_of(values)
        value = fitting_value(empty, library.dtype_name(values.dtype))
        if value == self.default and str(value)[0] == str(self.default)[0]:  # -0.0 is not 0.0
            return values
        vacant = (structure.lengths <= self.few).nonzero()[0]
        if vacant.size:
            library.overwrite(values, vacant, value)
        return values


def over_levels(values: Array, x: Encoding) -> Reduced:
    """The rows of a reduction over the levels that are left of `x`, where there are some."""
    levels = x._levels
    return LoD._from_levels(values, levels[:-1]) if len(levels) > 1 else values


def rows_or_data(y: Reduced | Encoding) -> Array:
    """The rows of a reduction of an encoding: an array, or the data of a `LoD`."""
    return y.data if isinstance(y, Encoding) else cast(Array, y)


# --- sequences without items -----------------------------------------------------------------------------------------


def check_empty(structure: Structure, empty: object, few: int = 0) -> None:
    """An error for what is no value, and where there should be none, but a sequence has no more items than `few`."""
    if isinstance(empty, str):
        if empty != "raise":
            raise EXACT(f'empty must be a value or "raise", not {quote(empty)}')
        vacant = structure.lengths <= few
        if vacant.any():
            i = int(vacant.argmax())
            how = "is empty" if structure.lengths[i] == 0 else f"has {structure.lengths[i]} items, which are too few"
            raise EMPTY(f"sequence {i} {how}; give empty=0.0 or another value for it")
    elif not isinstance(empty, (int, float, complex, np.number, np.bool_, np.datetime64)):
        raise KIND(f'empty must be a number or "raise", not {quote(empty)}')


def fitting_value(empty: object, name: str) -> object:
    """`empty` as a value of the result: exact in integers, rounded in floats, never out of range."""
    value: Any = empty
    if isinstance(empty, (np.datetime64, np.timedelta64)):
        fits = name.startswith(empty.dtype.name.partition("[")[0])
    else:
        value = empty.item() if isinstance(empty, np.generic) else empty
        fits = _fits(value, name)
        if fits and (
            SUMS_IN.get(name) in ("int64", "uint64")
            or not (name in _LARGEST or name in SUMS_IN or name.startswith("complex"))
        ):
            value = int(value)  # so that neither False nor -0.0 is written out as text
    if not fits:
        raise EXACT(f"empty={quote(empty)} does not fit {name}, the dtype of the result")
    return value


def _fits(value: float | complex, name: str) -> bool:
    if name.startswith("complex"):
        part = f"float{int(name[7:]) // 2}"
        return _fits(value.real, part) and _fits(value.imag, part)
    if isinstance(value, complex):
        return False
    if SUMS_IN.get(name) in ("int64", "uint64"):
        low, high = (0, 1) if name == "bool" else (np.iinfo(name).min, np.iinfo(name).max)
        return bool(value == value and low <= value <= high and value == int(value))
    if name in _LARGEST:
        return not _LARGEST[name] < abs(value) < float("inf")
    return bool(value == 0)  # of other dtypes zero bytes are left


_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
