"""Losses of policies, and their means over the steps of a batch."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, SupportsFloat, SupportsIndex

import numpy as np

from ..arrays import Array, Library, is_array, library_of
from ..arrays.dtypes import differentiable
from ..errors import CHOICE, KIND, RANGE, TOGETHER, quote
from ..formats import Encoding
from ..formats.annotations import Given, Shaped
from ..formats.leaves import without_data
from ..formats.structure import whole
from ..gradients.operation import Call, Pullback, linear, operand, operation, to_be_summed
from ..launch.kernel import Work, kernel
from ..operations.annotations import B, Batch
from ..operations.calculation import in_one_array, layout_for, name_of, rows_like, two_like
from ..operations.companions import (
    NO_FLOATS,
    batch_beside,
    constant,
    copy_constant,
    data_beside,
    floats_for,
    marks_beside,
    of_numbers,
    rows_beside,
    settled_like,
)
from ..operations.options import number
from ..operations.standardize import second_order_of
from .groups import sums_beside

policy_rows, policy_back = kernel("policy_rows"), kernel("policy_back")
mean_sums, mark_spread = kernel("mean_sums"), kernel("mark_spread")

Level = Literal["token", "sequence"]


class _Policy(NamedTuple):
    """Two policies that are compared, and by which advantages; all is checked."""

    shape: Encoding  # of the log-probabilities, without data
    at: Encoding  # the same in one array
    kind: str
    name: str
    old: Array
    advantages: Array
    by_row: bool
    how: Array
    marks: Array
    mean: bool
    what: str

    def calculate(self, library: Library, logp: Array) -> tuple[Array, Array]:
        """Data of the ratios or losses, and of their slopes."""
        structure = self.at._structure
        out, slopes = two_like(library, self.at, self.kind, logp)
        given = logp, self.old, self.advantages, self.how, self.marks
        args = self.at._layout(), int(self.by_row), int(self.mean)
        policy_rows.start(library, given, (out, slopes), args, 1, structure)
        return out, slopes

    def pull(self, library: Library, dy: Array, slopes: Array, marks: Array) -> Array:
        """The gradient for the log-probabilities."""
        structure = self.at._structure
        out = rows_like(library, self.at, (), library.dtype(self.kind), dy)
        args = self.at._layout(), int(self.mean)
        policy_back.start(library, (dy, slopes, NO_FLOATS, marks), (out,), args, 1, structure)
        return out

    def rule(self, z: Encoding, back: bool) -> tuple[Encoding, Pullback | None]:
        """The rule of the operation."""
        library, given = library_of(z._sample()), name_of(z)
        out, slopes = self.calculate(library, library.astype(in_one_array(z).data, self.kind))
        y = self.shape._with_data(settled_like(library, out, self.name))
        if not back:
            return y, None
        differentiable(given, self.what)
        marks = copy_constant(self.marks)

        def pullback(dy: Encoding) -> Encoding:
            data = library.astype(in_one_array(dy).data, self.kind)
            return self.shape._with_data(library.astype(self.pull(library, data, slopes, marks), given))

        return y, pullback


def _level(level: object) -> bool:
    """Tell whether the mean over a sequence counts."""
    if not isinstance(level, str) or level not in ("token", "sequence"):
        raise CHOICE(f"level must be 'token' or 'sequence', not {quote(level)}")
    return level == "sequence"


def _limit(limit: object) -> float:
    found = number(limit, "limit")
    if not found > 0:
        raise RANGE(f"limit must be above 0, not {quote(limit)}")
    return found


def _bounds(clip: object) -> tuple[float, float]:
    """Return the smallest and the largest ratio that is not clipped."""
    if clip is None:
        return -math.inf, math.inf
    pair = clip if isinstance(clip, (list, tuple)) else (clip, clip)
    if len(pair) != 2:
        raise KIND(f"clip must be a number, (low, high) or None, not {quote(clip)}")
    low, high = number(pair[0], "clip"), number(pair[1], "clip")
    if not (low >= 0 and high >= 0):
        raise RANGE(f"clip must not be negative, but is {quote(clip)}")
    return 1 - low, 1 + high


def _compare(
    logp: Given,
    old: Given,
    advantages: Given,
    where: object,
    how: tuple[float, float, float],
    level: object,
    limit: object,
) -> Call[Any]:
    """The call that compares two policies: their loss with advantages, or for None their ratios.

    `advantages` are one number per sequence, an array, or one per step, a batch.
    """
    found = to_be_summed(operand(logp))
    own = of_numbers(found.own, "logp")
    constant("old", old)
    before = batch_beside(old, own, "old", "logp").own
    what = "a ratio" if advantages is None else "a loss"
    names = name_of(own), name_of(before)
    kind, name = floats_for(what, *names)[0], floats_for(what, names[0])[1]
    shape: Encoding = without_data(own)
    at = layout_for(shape, (), own._dtype)
    worth, by_row = NO_FLOATS.astype(kind), False
    if advantages is not None:
        constant("advantages", advantages)
        if is_array(advantages):
            rows = rows_beside(advantages, own, "advantages")
            floats_for("advantages", library_of(rows).dtype_name(rows.dtype))
            worth = library_of(rows).astype(rows, kind)
        else:
            batch = batch_beside(advantages, own, "advantages", "logp").own
            floats_for("advantages", name_of(batch))
            worth, by_row = data_beside(batch, at, kind), True
    numbers = np.array([*how, _limit(limit)])
    marks = marks_beside(where, own, at, "where")
    policy = _Policy(
        shape, at, kind, name, data_beside(before, at, kind), worth, by_row, numbers, marks, _level(level), what
    )
    return Call(own, policy.rule, found.result, found.gradient, second_order_of(what))


@operation
def ratios(
    logp: B,
    old: Batch,
    *,
    where: Batch | Shaped | None = None,
    level: Level = "token",
    limit: SupportsFloat = 20.0,
) -> Call[B]:
    """Divide the probabilities of two policies: ``exp(logp - old)``, of each step or of whole sequences.

    Parameters
    ----------
    logp, old : batches
        Log-probabilities of what was done, a number per item; they may be NaN where an item is no step.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`.  The others have a ratio of 1 and no gradient.
    level : "token" or "sequence"
        The ratio of each step, or for all steps of a sequence the exponential of the mean of ``logp - old``.
    limit : float
        What is beyond ``[-limit, limit]`` is taken for the limit, and has no gradient.

    Returns
    -------
    same kind as `logp`
        Floats keep their dtype, integers and bools give float64.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    TypeError
        If `where` does not hold bools, and if `old` asks for a gradient, since it is a constant here.

    See Also
    --------
    policy_loss : The loss that is made of them.

    Notes
    -----
    Ratios of sequences are those of GSPO (Zheng et al., "Group Sequence Policy Optimization", 2025), with their true
    gradient: that of a ratio for each of its steps is the ratio over the number of steps.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> logp, old = sf.Ragged(np.log([0.5, 0.2, 0.3]), [2, 1]), sf.Ragged(np.log([0.25, 0.2, 0.6]), [2, 1])
    >>> sf.rl.ratios(logp, old).data
    array([2. , 1. , 0.5])
    >>> sf.rl.ratios(logp, old, level="sequence").data.round(3)
    array([1.414, 1.414, 0.5  ])
    """
    return _compare(logp, old, None, where, (0.0, 0.0, 0.0), level, limit)


@operation
def policy_loss(
    logp: B,
    old: Batch,
    advantages: Batch | Shaped,
    *,
    where: Batch | Shaped | None = None,
    clip: SupportsFloat | tuple[SupportsFloat, SupportsFloat] | None = 0.2,
    dual: SupportsFloat | None = None,
    level: Level = "token",
    limit: SupportsFloat = 20.0,
) -> Call[B]:
    """Give every step its clipped loss: ``-min(ratio * A, clip(ratio, 1 - low, 1 + high) * A)``.

    Parameters
    ----------
    logp, old : batches
        Log-probabilities of what was done, a number per item, of the policy that learns and of the one that has acted;
        they may be NaN where an item is no step.
    advantages : a batch, or array ``(n,)``
        One per item, or one per sequence.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`.  The others have a loss of 0 and no gradient.
    clip : float, (low, high) or None
        By how much a ratio may be below and above 1; None: by any.
    dual : float, optional
        Where an advantage is negative, the loss is at most ``-dual * A``.
    level : "token" or "sequence"
        As of `ratios`.
    limit : float
        As of `ratios`.

    Returns
    -------
    same kind as `logp`
        A loss per item.  Floats keep their dtype, integers and bools give float64.

    Raises
    ------
    StructureError
        If lengths or shapes do not fit.
    ConversionError
        If an option is none of these.
    TypeError
        If `where` does not hold bools, and if `old` or `advantages` ask for a gradient, since they are constants here.

    See Also
    --------
    mean_loss : What makes one number of them.
    gae, group_advantages : Where advantages come from.

    Notes
    -----
    The objective of PPO (Schulman et al., 2017); with two limits that of DAPO (Yu et al., 2025); `dual` is of Ye et
    al., "Mastering Complex Control in MOBA Games" (2020).

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> logp, old = sf.Ragged(np.log([0.5, 0.2, 0.3]), [2, 1]), sf.Ragged(np.log([0.25, 0.2, 0.6]), [2, 1])
    >>> sf.rl.policy_loss(logp, old, np.array([1.0, -1.0]), clip=(0.2, 0.28)).data
    array([-1.28, -1.  ,  0.8 ])
    """
    if advantages is None:
        raise KIND("advantages must be a batch, or an array with one per sequence, not None")
    low, high = _bounds(clip)
    most = 0.0 if dual is None else number(dual, "dual")
    if dual is not None and not most > 0:
        raise RANGE(f"dual must be above 0, or None for no such limit, not {quote(dual)}")
    return _compare(logp, old, advantages, where, (low, high, most), level, limit)


@operation
def mean_loss(
    losses: Batch,
    *,
    where: Batch | Shaped | None = None,
    per: Level = "token",
    length: SupportsFloat | None = None,
    total: SupportsFloat | None = None,
    ranks: SupportsIndex = 1,
) -> Call[Array]:
    """Make one number of the losses of steps: their mean, or the mean over sequences.

    Parameters
    ----------
    losses : an encoding, a list of arrays or nested lists
        A number per item; they may be NaN where an item is no step.
    where : a batch or an array of bools, optional
        Which items are steps, one bool per item as for `filter`.
    per : "token" or "sequence"
        The sum over all steps by their number; or the mean over sequences of their own mean.
    length : float, optional
        With ``per="sequence"``: a length for all sequences, by which their sums are divided instead of their steps.
    total : float, optional
        How many steps, or sequences with a step, there are in all micro-batches and on all ranks; by default those of
        this batch.  0 says that there are none anywhere; if this batch has some, the loss is not finite.
    ranks : int
        A factor, since data parallel trainers take the mean of the gradients of their ranks.

    Returns
    -------
    array ``()``
        Floats keep their dtype, integers and bools give float64.  Without any step 0.  A sequence without steps counts
        nowhere.  The sum over parts of a batch with the same `total` is that of the whole.

    Raises
    ------
    StructureError
        If `where` has other lengths.
    ConversionError
        If an option is none of these, or does not go with the others.
    TypeError
        If `where` does not hold bools.

    See Also
    --------
    policy_loss : The losses of steps.
    reduce_count : ``sf.reduce_count(where).sum()`` is the `total` of steps.

    Examples
    --------
    >>> import numpy as np
    >>> import seqformats as sf
    >>> losses = sf.Ragged(np.array([1.0, 2.0, 3.0, 6.0]), [3, 1])
    >>> sf.rl.mean_loss(losses), sf.rl.mean_loss(losses, per="sequence")
    (array(3.), array(4.))
    >>> sf.rl.mean_loss(losses, per="sequence", length=12)
    array(0.5)
    """
    found = to_be_summed(operand(losses))
    own = of_numbers(found.own, "losses")
    if not isinstance(per, str) or per not in ("token", "sequence"):
        raise CHOICE(f"per must be 'token' or 'sequence', not {quote(per)}")
    if length is not None and per == "token":
        raise TOGETHER("length goes with per='sequence', whose sums are divided by it")
    each = 0.0 if length is None else _not_negative(length, "length")
    if length is not None and not each:
        raise RANGE("length must be above 0, since sums are divided by it")
    of_all = -1.0 if total is None else _not_negative(total, "total")
    count = whole(ranks, "ranks")
    if count < 1:
        raise RANGE(f"ranks must be at least 1, not {quote(ranks)}")
    how = np.array([each, of_all, number(count, "ranks")])
    given = name_of(own)
    kind, name = floats_for("a loss", given)
    shape: Encoding = without_data(own)
    at = layout_for(shape, (), own._dtype)
    marks = marks_beside(where, own, at, "where")
    structure = at._structure

    def mean(z: Encoding) -> tuple[Library, Array, Array]:
        """The mean, ``(1,)``, and the weight of an item of each sequence, ``(n,)``, float64."""
        library = library_of(z._sample())
        items = library.astype(in_one_array(z).data, kind)
        sums, wide = sums_beside(library, items, at, marks), library.dtype("float64")
        out, weights = library.zeros((1,), wide, items), library.empty((structure.n,), wide, items)
        if structure.n:
            args = (int(per == "sequence"),)
            mean_sums.start(library, (sums, how), (out, weights), args, 1, None, Work(1, structure.n))
        return library, out, weights

    def forward(z: Encoding) -> Array:
        library, out, _ = mean(z)
        y: Array = settled_like(library, out, name).reshape(())
        return y

    def rule(z: Encoding, back: bool) -> tuple[Array, Pullback | None]:
        library, out, weights = mean(z)
        y = settled_like(library, out, name).reshape(())
        if not back:
            return y, None
        differentiable(given, "a loss")
        fixed = copy_constant(marks)

        def transpose(dy: Array) -> Encoding:
            made = rows_like(library, at, (), library.dtype(kind), dy)
            slope = library.astype(dy, "float64").reshape(1)
            mark_spread.start(library, (weights, slope, fixed), (made,), (at._layout(),), 1, structure)
            return shape._with_data(library.astype(made, given))

        return y, lambda dy: linear(transpose, forward, dy)

    return Call(own, rule, None, found.gradient)


def _not_negative(value: object, what: str) -> float:
    found = number(value, what)
    if not 0 <= found < math.inf:
        raise RANGE(f"{what} must not be negative, but is {quote(value)}")
    return found
