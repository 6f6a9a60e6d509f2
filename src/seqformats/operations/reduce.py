"""Reductions: one item per sequence.

Each has a kernel, a record and a function.  `reduce`, which takes a name, tests and benchmarks go through the records.
"""

from __future__ import annotations

from typing import Any, overload

from .. import hints, registry
from ..arrays import Array, library_of
from ..arrays.dtypes import SUMS_IN, Dtypes, exponentials, means, sums
from ..converters.convert import convert, restore, without_padding
from ..errors import CHOICE, DTYPE, KIND, TOGETHER, quote
from ..formats import Encoding, Ragged
from ..formats.leaves import without_data
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Call, Pullback
from .annotations import Batch, Empty, Flat, Nested, Reduced
from .calculation import Calculation, Spreading, combine
from .counts import ALL, ANY, COUNT, MODE, NUNIQUE
from .extremes import FIRST, LAST, MAX, MIN
from .moments import STD, VAR
from .pieces import powers_times, twice
from .quantiles import MEDIAN
from .reduction import LOWEST, ONE, ZERO, Reduction, rows_or_data
from .spread import slopes_pullback, spread
from .sums import MEAN, SQRT, SUM, reduce_sum

__all__ = ["reduce", "reduce_logsumexp", "reduce_norm", "reduce_prod"]
"""The public names, in the order of the alphabet."""

# --- gradients of second order ---------------------------------------------------------------------------------------


def _logsumexp_second_order(x: Encoding, dy: Reduced) -> Encoding:
    """Calculate the gradient of logsumexp by operations that have gradients themselves."""
    shape = without_data(x)
    logs = rows_or_data(reduce_logsumexp(x))
    library = library_of(logs)
    logs = library.where(logs == LOWEST, 0.0, logs)
    powers = combine(lambda a, b: library.exp(a - b), x, spread(logs, shape))
    totals = rows_or_data(reduce_sum(powers))  # 1, but for the rounding of the logarithms
    totals = library.where(totals == 0, 1.0, totals)  # a sequence of -inf alone has no slope
    slopes = combine(lambda a, b: a * b, powers, spread(rows_or_data(dy) / totals, shape))
    return without_padding(slopes)


def _prod_second_order(x: Encoding, dy: Reduced) -> Encoding:
    """Calculate the gradient of a product, product / item, by operations that have gradients themselves."""
    r = convert(x, Ragged)
    if bool((r.data == 0).any()):
        raise TOGETHER(
            "a product with a zero among its items has a first gradient, but no second one; "
            "leave out create_graph=True, or take the items apart"
        )
    shape = without_data(r)
    products, rows = spread(reduce_prod(r), shape), spread(rows_or_data(dy), shape)
    slopes = combine(lambda item, product, row: row * (product / item).conj(), r, products, rows)
    return restore(slopes, without_data(x))


def _norm_second_order(x: Encoding, dy: Reduced) -> Encoding:
    """Calculate the gradient of a norm, item / norm, by operations that have gradients themselves."""
    norms = rows_or_data(reduce_norm(x))
    library, still = library_of(norms), norms == 0
    shape, norms = without_data(x), library.where(still, 1.0, norms)
    slopes = spread(library.where(still, 0.0, rows_or_data(dy)), shape)
    return without_padding(combine(lambda item, norm, slope: item / norm * slope, x, spread(norms, shape), slopes))


# --- the records -----------------------------------------------------------------------------------------------------


def _products(name: str) -> Dtypes:
    """Find the dtype in which items are multiplied: as they would be added up."""
    if name not in SUMS_IN:
        raise DTYPE(f"items of dtype {name} cannot be multiplied; those that can: {', '.join(SUMS_IN)}")
    return sums(name)


def _norms(name: str) -> Dtypes:
    """Find the dtype in which norms are calculated: as means are."""
    found = means(name)
    if name.startswith("complex"):
        raise DTYPE(f"items of dtype {name} have no norm here; take that of their real and imaginary parts")
    return found


PROD = Reduction(
    "prod",
    Calculation("prod_rows", _products, long=twice),
    slopes_pullback(Spreading("prod_back", laid=[False, True])),
    what="a product",
    default=ONE,
    second_order=_prod_second_order,
    sums=True,
)
LOGSUMEXP = Reduction(
    "logsumexp",
    Calculation("logsumexp_rows", exponentials("a logsumexp"), long=twice),
    slopes_pullback(Spreading("spread_exp", laid=[False, True, False], long=powers_times)),
    what="a logsumexp",
    default=LOWEST,
    second_order=_logsumexp_second_order,
    sums=True,
)
NORM = Reduction(
    "norm",
    Calculation("norm_rows", _norms, long=twice),
    slopes_pullback(Spreading("norm_back", laid=[False, True, False])),
    what="a norm",
    second_order=_norm_second_order,
    sums=True,
)

_SUMS = (SUM, MEAN, SQRT, PROD, LOGSUMEXP, NORM)
_OTHERS = (MAX, MIN, FIRST, LAST, VAR, STD, MEDIAN, MODE, COUNT, NUNIQUE, ANY, ALL)
REDUCTIONS = {record.name: record for record in (*_SUMS, *_OTHERS)}
"""Every reduction by its name."""
_BY_NAME = {name: record for record in REDUCTIONS.values() for name in (record.name, *record.synonyms)}


@overload
def reduce(x: Nested, kind: str, *, empty: Empty | None = None, level: int = INNERMOST) -> Any: ...
@overload
def reduce(x: Flat, kind: str, *, empty: Empty | None = None, level: int = INNERMOST) -> Array: ...
def reduce(x: Batch, kind: str, *, empty: Empty | None = None, level: int = INNERMOST) -> Reduced:
    """Reduce every sequence by the name of a reduction, as Paddle's sequence_pool.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch.
    kind : str
        The name of the reduction, in capitals or not: "sum" for `reduce_sum`, and so on; "average" is the mean.
    empty : number or "raise", optional
        See `reduce_sum`; by default that of the reduction.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        See the function of that reduction.

    Raises
    ------
    ConversionError
        If no reduction has this name; the message lists all names.
    TypeError
        If `kind` is no str, or the reduction raises one.
    StructureError
        If a sequence is empty and ``empty="raise"``.

    See Also
    --------
    reduce_sum : The sum; it describes what all reductions have in common.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce(sf.Ragged(np.array([1.0, 2.0, 3.0]), [2, 0, 1]), "max")
    array([2., 0., 3.])
    """
    if level is not INNERMOST:
        return at_level(reduce, level, x, kind, empty=empty)
    record = _by_name(kind)
    return record.run(x, record.default if empty is None else empty)


def _by_name(kind: object) -> Reduction:
    if not isinstance(kind, str):
        raise KIND(f"a reduction is called by its name, not {quote(kind)}")
    if kind.lower() not in _BY_NAME:
        hint = hints.suggest(kind, _BY_NAME)
        raise CHOICE(f"no reduction is called {quote(kind)}; there are: {', '.join(_BY_NAME)}{hint}")
    return _BY_NAME[kind.lower()]


@registry.gradient(reduce)
def _reduce(args: tuple[object, ...], options: dict[str, object]) -> tuple[Reduced, Pullback]:
    def reduce_given(x: Batch, kind: str, *, empty: Empty | None = None) -> Call[Reduced]:
        record = _by_name(kind)
        return record.prepare(x, record.default if empty is None else empty)

    return reduce_given(*args, **options).vjp()  # type: ignore[arg-type]


by_level(keeps=False)(reduce)


# --- the functions ---------------------------------------------------------------------------------------------------


@by_level(keeps=False)
@PROD.register
def reduce_prod(x: Batch, *, empty: Empty = ONE, level: int = INNERMOST) -> Reduced:
    """The product of every sequence.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As of `reduce_sum`, the dtypes too: float16 and bfloat16 are multiplied in float32.

    Raises
    ------
    TypeError
        For dtypes without a product.
    StructureError
        If a sequence is empty and ``empty="raise"``.
    ConversionError
        For an `empty` that the dtype of the result cannot hold; and for a gradient that is differentiated again, where
        an item is zero.

    See Also
    --------
    reduce_sum : The sum.

    Notes
    -----
    Items are multiplied in their order, on a GPU in several parts; a NaN in a sequence gives NaN.  The gradient is that
    of all other items, before and after, without a division, so that it is right where items are zero.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_prod(sf.Ragged(np.array([2.0, 3.0, 4.0]), [2, 0, 1]))
    array([6., 1., 4.])
    """
    if level is not INNERMOST:
        return at_level(reduce_prod, level, x, empty=empty)
    return PROD.run(x, empty)


@by_level(keeps=False)
@LOGSUMEXP.register
def reduce_logsumexp(x: Batch, *, empty: Empty = LOWEST, level: int = INNERMOST) -> Reduced:
    """The logarithm of the sum of exponentials of every sequence, without overflow.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_mean`.

    Raises
    ------
    TypeError
        If the dtype has no order, such as complex numbers.
    StructureError
        If a sequence is empty and ``empty="raise"``.
    ConversionError
        If the dtype of the result cannot represent `empty`.

    See Also
    --------
    log_softmax : Each item without it.

    Notes
    -----
    The exponentials are added up as in `reduce_sum`, so that long sequences lose nothing.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_logsumexp(sf.Ragged(np.array([1000.0, 1000.0]), [2])).round(3)
    array([1000.693])
    """
    if level is not INNERMOST:
        return at_level(reduce_logsumexp, level, x, empty=empty)
    return LOGSUMEXP.run(x, empty)


@by_level(keeps=False)
@NORM.register
def reduce_norm(x: Batch, *, empty: Empty = ZERO, level: int = INNERMOST) -> Reduced:
    """The Euclidean norm of every sequence, column by column: the root of the sum of the squares.

    Parameters
    ----------
    x : encoding, list of arrays or nested lists
        The batch, items of any shape.
    empty : number or "raise"
        The result for an empty sequence.
    level : int
        See `reduce_sum`.

    Returns
    -------
    array, LoD or list
        As for `reduce_mean`.

    Raises
    ------
    TypeError
        For complex numbers and other dtypes that have no order.
    StructureError
        If a sequence is empty and ``empty="raise"``.
    ConversionError
        If the dtype of the result cannot represent `empty`.

    See Also
    --------
    reduce_sum : The sum.
    reduce_std : The root of the mean square beside the mean.

    Notes
    -----
    Squares are added up in float64: those of float32 are never too large, and those of float64 are beyond 1e154, as
    NumPy's.  A NaN in a sequence gives NaN.  The gradient is the item divided by the norm, and zero where that is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.reduce_norm(sf.Ragged(np.array([3.0, 4.0, -2.0]), [2, 0, 1]))
    array([5., 0., 2.])
    """
    if level is not INNERMOST:
        return at_level(reduce_norm, level, x, empty=empty)
    return NORM.run(x, empty)
