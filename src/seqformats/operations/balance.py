"""Sequences over ranks and micro-batches, so that all of these cost alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import NUMPY, Array
from ..converters.layouts import check_at_least
from ..errors import ARGUMENT, EMPTY, LONG, OVERFLOW
from ..formats import LoD, Ragged
from ..formats.structure import MAX_INT64, Structure, flag
from ..memory_checks import allocate
from .annotations import Lengths
from .costs import Cost, costs_of, falling, rise
from .divide import MAX_SEARCHED, Task, divide, fit, group, least_bins
from .inspection import lengths_given


class Balance(NamedTuple):
    """The sequences of each rank, as `balance` has divided them.

    Attributes
    ----------
    parts : Ragged or LoD
        Original positions, int64, that rise in each part: a sequence per rank, or ranks > micro-batches > positions.
    costs : array
        What each part costs, float64: ``(ranks,)``, or ``(ranks, micro_batches)``.
    bound : float
        What the costliest part costs at least, whoever divides.

    Examples
    --------
    >>> import seqformats as sf
    >>> sf.balance([5, 4, 3, 3, 3], 2).bound
    9.0
    """

    parts: Ragged | LoD
    costs: Array
    bound: float


def balance(
    lengths: Lengths,
    ranks: int,
    *,
    cost: Cost | None = None,
    max_items: int | None = None,
    micro_batches: int | None = None,
    equal_counts: bool = False,
) -> Balance:
    """Divide sequences among ranks, and their micro-batches, so that the costliest costs as little as can be found.

    Parameters
    ----------
    lengths : n integers, or an encoding
    ranks : int
        How many parts, one a rank.
    cost : optional
        What a sequence costs; without it, its items.  A tuple ``(a, b)`` or ``(a, b, c)``: ``a L + b L^2 + c`` for
        length L.  A function: it gets all lengths, ``(n,)`` int64, and returns as many numbers.  An array or a list:
        the cost of each sequence.  Costs are finite and not negative.
    max_items : int, optional
        The most items of a micro-batch, whatever it costs.
    micro_batches : int, optional
        How many micro-batches each rank has.  With `max_items` alone: as few as are found to do, the same number on
        each rank; without both, a rank has one part.
    equal_counts : bool
        True if the numbers of sequences may differ by one at most.

    Returns
    -------
    Balance
        ``parts``, ``costs`` and ``bound``.  Of micro-batches those of one number cost alike on all ranks, the costliest
        first, and each has at least one sequence; so has each rank, if there are as many sequences as ranks.

    Raises
    ------
    StructureError
        For a sequence over `max_items`, fewer sequences than micro-batches, `micro_batches` for which no way was found
        to keep `max_items`, and costs that are negative, not finite or not one per sequence.
    ConversionError
        For options that are too small.
    TypeError
        If an argument is no length, cost or option.

    See Also
    --------
    pack_bins : As few bins of one capacity as can be found.
    buckets : Batches of similar lengths.

    Notes
    -----
    The result depends on lengths and options alone; there is no random number, and equal costs go by position.

    Three beginnings are tried: the costliest sequence first, into the part that costs least [1]_; the largest
    differencing method [2]_, of single sequences and of runs of one sequence a part [3]_; best fit, where room is
    tight.  Each is improved by moves, exchanges and divisions of two parts anew until it reaches the bound, or nearly.
    Of up to 12 sequences the result is the best there is.

    References
    ----------
    .. [1] R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17, 1969.
    .. [2] N. Karmarkar and R. M. Karp, "The differencing method of set partitioning", UC Berkeley, 1982.
    .. [3] W. Michiels, J. Korst and E. Aarts, "On the guaranteed performance of the Karmarkar-Karp differencing
       method for multiprocessor scheduling", 2003.

    Examples
    --------
    >>> import seqformats as sf
    >>> plan = sf.balance([5, 4, 3, 3, 3], 2)
    >>> plan.parts.to_nested(), plan.costs
    ([[0, 1], [2, 3, 4]], array([9., 9.]))
    >>> plan = sf.balance([5, 4, 3, 3, 3, 6], 2, cost=(1, 2), max_items=9)
    >>> plan.parts.to_nested()
    [[[5], [2, 3]], [[1, 4], [0]]]
    """
    count = check_at_least(ranks, "ranks", 1)
    limit = None if max_items is None else check_at_least(max_items, "max_items", 0)
    micro = None if micro_batches is None else check_at_least(micro_batches, "micro_batches", 1)
    equal = flag(equal_counts, "equal_counts")
    sizes = Structure.of_lengths(lengths_given(lengths)).lengths
    costs = costs_of(sizes, cost)
    with np.errstate(over="ignore"):
        if not np.isfinite(costs.sum()):
            raise OVERFLOW("costs add up to more than float64 can hold; divide them by a number")
    if limit is not None and (sizes > limit).any():
        i = int(sizes.argmax())
        raise LONG(f"sequence {i} has {sizes[i]} items, more than max_items={limit}")
    order = falling(sizes if rise(cost) else costs)
    limited = (sizes[:0], MAX_INT64) if limit is None else (sizes[order], limit)
    task = Task(costs[order], *limited, equal)
    if limit is None and micro is None:
        of, bound = divide(task, min(count, max(sizes.size, 1)))
        assert of is not None  # without a limit there is always a way
        return _ranks(of, order, costs, count, bound)
    of, bound, micro = _micro_batches(task, count, micro)
    return _steps(of, order, costs, (count, micro), bound)


def _micro_batches(task: Task, ranks: int, wanted: int | None) -> tuple[Array, float, int]:
    """The micro-batch of each sequence, the bound, and how many micro-batches a rank has."""
    n = task.costs.size

    def try_count(count: int) -> tuple[Array, float] | None:
        if n < ranks * count:
            raise EMPTY(f"{n} sequences leave some of {ranks} x {count} micro-batches empty")
        of, bound = divide(task, ranks * count)
        return None if of is None else (of, bound)

    if wanted is not None:
        found = try_count(wanted)
        if found is None:
            raise ARGUMENT(f"no way was found to keep max_items={task.capacity} in {ranks} x {wanted} micro-batches")
        return (*found, wanted)
    if not n:
        raise EMPTY(f"0 sequences leave some of {ranks} x 1 micro-batches empty")
    low, high = 0, max(1, -(-_pack(task) // ranks))
    found = try_count(high)
    while found is None:  # more room each time, and then as few as do
        low, high = high, min(high + high // 8 + 1, max(n // ranks, high + 1))
        found = try_count(high)
    while low and high - low > 1:
        middle = (low + high) // 2
        less = try_count(middle)
        if less is None:
            low = middle
        else:
            found, high = less, middle
    return (*found, high)


def _pack(task: Task) -> int:
    """Count the bins that best fit takes; of so few sequences that all ways are searched, those there are at least."""
    if task.costs.size <= MAX_SEARCHED:
        return least_bins(task.sizes, task.capacity)
    return fit(task.sizes[falling(task.sizes)], task.capacity)[1]


def _ranks(of: Array, order: Array, costs: Array, ranks: int, bound: float) -> Balance:
    """A part a rank, those with the first sequences first."""
    used = int(of.max(initial=-1)) + 1
    first = _first(of, order, used)
    place = np.empty(used, np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(used)
    return _laid_out(place[of], order, costs, (ranks,), bound)


def _steps(of: Array, order: Array, costs: Array, shape: tuple[int, int], bound: float) -> Balance:
    """Micro-batches in rows of like cost, a rank each; the rank that costs least so far gets the costliest of a row."""
    ranks, count = shape
    loads = np.bincount(of, costs[order], ranks * count)
    ranked = np.lexsort((_first(of, order, loads.size), -loads)).reshape(count, ranks)
    totals, place = np.zeros(ranks), np.empty(loads.size, np.int64)
    for k in range(count):
        takers = np.argsort(totals, kind="stable")
        place[ranked[k]] = takers * count + k
        totals[takers] += loads[ranked[k]]
    return _laid_out(place[of], order, costs, shape, bound)


def _first(of: Array, order: Array, bins: int) -> Array:
    """The first position in each bin."""
    first = np.full(bins, of.size)
    np.minimum.at(first, of, order)
    return first


def _laid_out(of: Array, order: Array, costs: Array, shape: tuple[int, ...], bound: float) -> Balance:
    """The positions of each part, by the parts of the sequences in falling order."""
    parts: Array = allocate(NUMPY.zeros, shape, np.int64, of).reshape(-1)
    at = np.empty_like(of)
    at[order] = of
    positions = group(at, parts)
    loads = np.bincount(at, costs, parts.size) if at.size else np.zeros(parts.size)
    bound = min(bound, float(loads.max()))  # which may be rounded otherwise
    inner = Structure.of_lengths(parts)
    if len(shape) == 1:
        return Balance(Ragged._freeze(positions, inner), loads, bound)
    outer = Structure.of_lengths(np.full(shape[0], shape[1], np.int64))
    return Balance(LoD._from_levels(positions, (outer, inner)), loads.reshape(shape), bound)
