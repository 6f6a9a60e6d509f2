"""Windows by the times of items: for every item those of its sequence that are near it in time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Array, library_of, to_host
from ..converters.convert import rows_of
from ..errors import DTYPE, RANGE, SHAPE, quote
from ..formats import Encoding, LoD, Ragged
from ..formats.leaves import wants_grad
from ..formats.overlapping import over_rows
from ..formats.structure import MAX_INT64, Structure
from ..gradients.levels import INNERMOST, operation_by_level
from ..gradients.operation import Call, Pullback, operand, operand_beside
from .annotations import Batch, Value
from .companions import check_same_lengths
from .options import choice
from .pick import pick, pullback_of
from .search import searchsorted

_CLOSED = {
    "both": ("left", "right"),
    "left": ("left", "left"),
    "right": ("right", "right"),
    "neither": ("right", "left"),
}
"""Sides for the beginning and the end of a window: which of the items that stand just there it has."""


@operation_by_level(keeps=True, marks=("keys",), kinds=())
def window_by(
    x: Batch,
    keys: Batch,
    before: Value,
    after: Value,
    *,
    closed: str = "both",
    level: int = INNERMOST,  # noqa: ARG001  see `operation_by_level`
) -> Call[LoD[Any]]:
    """Make a window around every item, of the items of its sequence whose keys are near its own.

    Parameters
    ----------
    x : an encoding, a list of arrays or nested lists
        Items of any dtype.
    keys : an encoding, a list of arrays or nested lists
        A number for each item, item shape () or (1,), which rise in each sequence: times say.
    before, after : number
        From how much below the key of the item to how much above it; not negative.
    closed : "both", "left", "right" or "neither"
        The ends that belong to a window: whether it has the items that are just that far away.
    level : int
        The level whose sequences windows are in, as in `convert`; the whole structure stays above them.

    Returns
    -------
    LoD
        One level deeper than `x`: in each sequence a window for each item, in the window its items.  Its rows are
        written out when somebody asks for its ``data``; ``reduce_*`` read those of `x` instead.

    Raises
    ------
    StructureError
        If `keys` have other lengths than `x`, or are no single numbers.
    ConversionError
        For a number that is negative or NaN, and for another `closed`.
    TypeError
        If `keys` are no real numbers.

    See Also
    --------
    window : Windows of as many items.
    ema : An average that forgets.
    merge_asof : The last item of another batch.

    Notes
    -----
    The rolling window of pandas and Polars with a length of time; theirs is ``closed="right"``.  `keys` are copied from
    a GPU to the host, where lengths are; whether they rise is not checked.  A reduction reads each window, so that its
    time grows with their sizes.  Where `x` asks for a gradient the rows are written out at once.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> times = sf.Ragged(np.array([0.0, 1.0, 5.0, 6.0, 9.0]), [4, 1])
    >>> x = sf.Ragged(np.array([1.0, 2.0, 4.0, 8.0, 7.0]), [4, 1])
    >>> windows = sf.window_by(x, times, 2.0, 0.0)
    >>> windows.to_nested()
    [[[1.0], [1.0, 2.0], [4.0], [4.0, 8.0]], [[7.0]]]
    >>> sf.reduce_mean(windows).data
    array([1. , 1.5, 4. , 6. , 7. ])
    """
    own, _, gradient = operand(x)
    times = _times(keys, own)
    choice(closed, "closed", _CLOSED)
    reach = (
        _reach(before, "before", times, closed in ("both", "left")),
        _reach(after, "after", times, closed in ("both", "right")),
    )
    structure = own._structure
    first, last = (
        searchsorted(times, Ragged._freeze(edge, structure), side).data
        for edge, side in zip(_edges(times.data, reach), _CLOSED[closed], strict=True)
    )
    begins = np.repeat(structure.offsets[:-1], structure.lengths) + first
    windows = Structure.of_lengths(np.maximum(last - first, 0))

    def rule(z: Encoding, back: bool) -> tuple[Any, Pullback | None]:
        if not back and not wants_grad(own) and library_of(z._sample()).kind(z._sample()) != "program":
            return over_rows(z, begins, windows), None
        offsets = windows.offsets[structure.offsets]
        whole = Structure.of_offsets(offsets)  # all rows of the windows of each sequence
        places = np.repeat(first - windows.offsets[:-1], windows.lengths) + np.arange(windows.rows)
        y = LoD._from_levels(rows_of(pick(z, places, whole)), (*z._levels, windows))
        if not back:
            return y, None
        gather = pullback_of(z, places, whole)
        return y, lambda dy: gather(Ragged._freeze(rows_of(dy), whole))

    return Call(own, rule, None, gradient)


def _times(keys: Batch, x: Encoding) -> Ragged[Any]:
    """Take the keys to the host, as int64 or float64."""
    given = operand_beside(keys, x._sample()).own
    check_same_lengths(given._structure, x._structure, "keys", "x")
    if given.item_shape not in ((), (1,)):
        raise SHAPE(f"keys must have one number per item, item shape () or (1,), but have {given.item_shape}")
    rows = to_host(rows_of(given)).reshape(-1)
    if rows.dtype.kind not in "biuf" and given.rows:
        raise DTYPE(f"keys must be real numbers, but have dtype {rows.dtype}")
    return Ragged._freeze(rows.astype("f8" if rows.dtype.kind not in "biu" else "i8"), x._structure)


def _reach(given: object, what: str, times: Encoding, closed: bool) -> Any:
    """Take a length of time that is not negative; for int64 a whole one, which includes the same items."""
    number: Any = given
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, float, np.number)) or not number >= 0:
        raise RANGE(f"{what} must be a number that is not negative, not {quote(given)}")
    if times.dtype.kind == "f":
        return float(number)
    number = min(number, MAX_INT64)
    return math.floor(number) if closed else math.ceil(number)


def _edges(times: Array, reach: tuple[float, float]) -> tuple[Array, Array]:
    """The lowest and the highest key of each window; int64 stays in its range."""
    before, after = reach
    if times.dtype.kind == "f":
        return times - before, times + after
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    return np.maximum(times, low + before) - before, np.minimum(times, high - after) + after
