"""Softmax and running sums along each sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import library_of
from ..arrays.dtypes import HALF, differentiable, exponentials, sums
from ..converters.convert import without_padding
from ..formats import Encoding
from ..formats.leaves import without_data
from ..gradients.levels import INNERMOST, at_level, by_level
from ..gradients.operation import Back, Operation, Pullback, linear
from . import pieces
from .annotations import B
from .calculation import Calculation, Spreading, combine, in_one_array, name_of
from .reduction import rows_or_data
from .spread import spread
from .sums import reduce_sum

softmax_back = [Spreading("softmax_back", log, laid=[True, True], long=pieces.slopes) for log in (0, 1)]
"""The gradients of softmax and its logarithm by those of the result, and by the result."""


def _softmax(log: int, second_order: Callable[[Encoding, Encoding], Encoding]) -> Operation:
    """Make the operation softmax, or its logarithm."""
    values = Calculation("softmax_rows", exponentials("a softmax"), log, by_item=True, long=pieces.powers)
    back = softmax_back[log]

    def rule(x: Encoding) -> tuple[Encoding, Pullback]:
        library, name, shape = library_of(x._sample()), name_of(x), without_data(x)
        out = values.data_of(x)
        made = library.dtype_name(out.dtype)
        y = x._with_data(library.astype(out, name) if name in HALF else out)
        differentiable(name, "a softmax")
        kept = library.alias(out)

        def pullback(dy: Encoding) -> Any:
            return back(shape, library.astype(in_one_array(dy).data, made), kept, dtype=name)

        return y, Back(pullback, back.path, shape, kept)

    return Operation(values, rule, second_order=second_order, by_column=True, sums=True, planned=True)


def _softmax_second_order(x: Encoding, dy: Encoding) -> Any:
    """The gradient of softmax, made of operations that have gradients themselves."""
    y = softmax(x)
    total = spread(rows_or_data(reduce_sum(combine(lambda a, b: a * b, y, dy))), without_data(x))
    return without_padding(combine(lambda a, b, c: a * (b - c), y, dy, total))


def _log_softmax_second_order(x: Encoding, dy: Encoding) -> Any:
    y = log_softmax(x)
    total = spread(rows_or_data(reduce_sum(dy)), without_data(x))
    exp = library_of(y._sample()).exp
    return without_padding(combine(lambda a, b, c: b - exp(a) * c, y, dy, total))


SOFTMAX, LOG_SOFTMAX = _softmax(0, _softmax_second_order), _softmax(1, _log_softmax_second_order)


@by_level(keeps=True)
@SOFTMAX.register
def softmax(x: B, *, level: int = INNERMOST) -> B:
    """Softmax along every sequence, column by column, with the maximum taken out first.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    level : int
        The level of a `LoD` or of nested lists along whose sequences it goes, each with all its rows, as in `convert`;
        negative numbers count from the innermost level.  The levels of the result are those of `x`.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype (float16 and bfloat16 give float32 under ``torch.autocast``), integers and bools give
        float64.

    Raises
    ------
    TypeError
        If the dtype has no order.

    See Also
    --------
    log_softmax : Its logarithm.

    Notes
    -----
    A sequence with NaN or +inf, or of -inf alone, gives NaN, as in PyTorch.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.softmax(sf.Ragged(np.array([100.0, 1000.0, 7.0]), [2, 1])).data
    array([0., 1., 1.])
    """
    if level is not INNERMOST:
        return at_level(softmax, level, x)
    return SOFTMAX.run(x)


@by_level(keeps=True)
@LOG_SOFTMAX.register
def log_softmax(x: B, *, level: int = INNERMOST) -> B:
    """The logarithm of `softmax`, without its loss of small numbers.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        As of `softmax`.

    Raises
    ------
    TypeError
        If the dtype has no order.

    See Also
    --------
    softmax : The rules for dtypes, NaN and infinities.
    reduce_logsumexp : What it takes away from each item.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.log_softmax(sf.Ragged(np.array([100.0, 1000.0, 7.0]), [2, 1])).data
    array([-900.,    0.,    0.])
    """
    if level is not INNERMOST:
        return at_level(log_softmax, level, x)
    return LOG_SOFTMAX.run(x)


_cumsum = Calculation("cumsum_rows", sums, 0, by_item=True, long=pieces.running)
_cumsum_back = Spreading("cumsum_rows", 1, laid=[True], long=pieces.running)


def _cumsum_rule(x: Encoding) -> tuple[Encoding, Pullback]:
    y = _cumsum(x)
    differentiable(name_of(x), "a running sum")
    shape = without_data(x)

    def back(dy: Encoding) -> Encoding:
        return _cumsum_back(shape, in_one_array(dy).data)

    return y, Back(lambda dy: linear(back, _cumsum, dy), _cumsum_back.path, shape)


CUMSUM = Operation(_cumsum, _cumsum_rule, by_column=True, sums=True, planned=True)


@by_level(keeps=True)
@CUMSUM.register
def cumsum(x: B, *, level: int = INNERMOST) -> B:
    """The running sum along every sequence, column by column.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any shape.
    level : int
        See `softmax`.

    Returns
    -------
    same kind as `x`
        Floats keep their dtype (float16 and bfloat16 are added up as float32 is, and give that under
        ``torch.autocast``), integers and bools give int64, unsigned ones uint64.

    Raises
    ------
    TypeError
        For dtypes without a sum.

    See Also
    --------
    reduce_sum : The last of them.

    Notes
    -----
    From its 17th item on the sum of float32 runs in float64, rounded for each; so does its gradient, the running sum
    from the end.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> sf.cumsum(sf.Ragged(np.array([1, 2, 3, 4]), [3, 1])).data
    array([1, 3, 6, 4])
    """
    if level is not INNERMOST:
        return at_level(cumsum, level, x)
    return CUMSUM.run(x)
