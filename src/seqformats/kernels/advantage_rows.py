"""Advantages and returns of every sequence of steps, in float64 from its end on, by generalized advantage estimation.

``rewards`` and ``values``, or none for values of zero, hold a number an item in one layout, see `Layout`, as do
``advantages`` and ``returns``; ``marks`` and ``ends``, a byte an item, lie in the same or are empty.  Items with a mark
of 0 are no steps: their values are not looked at, their results are 0, and their rewards belong to the step before them
in the same episode.  An episode ends with an item whose byte in ``ends`` is not 0, and with the sequence.

``gamma`` and ``lam`` are one number or one a sequence.  ``after`` are the values of what would have followed: `by_row`
1 for one an item, read where an episode ends, 0 for one a sequence, read at its end; or none, for zeros.

With v the value of the step before which it stands in the loop: ``advantage = (reward + gamma * v - value) + gamma *
lam * advantage``, and a return is an advantage plus the value.  Reference: Schulman, Moritz, Levine, Jordan and Abbeel,
"High-Dimensional Continuous Control Using Generalized Advantage Estimation" (2016), equation 16.
"""

from typing import NamedTuple

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    KernelSpec,
    Layout,
    along,
    at_least,
    choose,
    compiled,
    each,
    in_lanes,
    load,
    locate,
    nonzero,
    pointer,
    store,
    unknown,
    with_lane,
)
from .parts.device import first_unit, units_of_grid
from .parts.names import gpu, item_in, number_in, times, zero_in


class Run(NamedTuple):
    """Everything that belongs to all sequences."""

    rewards: Array
    values: Array
    gamma: Array
    lam: Array
    marks: Array
    ends: Array
    after: Array
    advantages: Array
    returns: Array
    at: Layout
    masked: int
    ending: int
    valued: int
    known: int
    discounts: int  # are there some?  Else one for all
    decays: int
    by_row: int


@in_lanes
def estimate(run: Run, u: int, count: int) -> None:
    """Go through the sequences of so many units, a lane each; no jump depends on their items.

    Several are columns of one rectangle, whose rows lie side by side.  Their padding is written as 0.
    """
    one, zero, uneven = unknown(1), each(run.gamma, 0.0, count), count > 1
    lengths, factor, decay, following = zero, zero, zero, zero
    longest, begin = 0, 0
    for k in range(count):
        i, first, length = locate(run.at, u + k)
        begin, longest = first - k, at_least(length, longest)
        discount = run.gamma[i if run.discounts else 0]
        lengths, factor = with_lane(lengths, k, float(length)), with_lane(factor, k, discount)
        decay = with_lane(decay, k, discount * run.lam[i if run.decays else 0])
        if run.known and length > 0:
            place = first + along(run.at, length - 1) if run.by_row != 0 else i
            following = with_lane(following, k, run.after[place])
    advantage, strays = zero, zero
    t = longest - 1
    while t >= 0:
        row = begin + along(run.at, t)
        time = each(run.gamma, float(t), count)
        if run.ending:
            stops = nonzero(load(run.ends, row, count, run.gamma)) & (time < lengths - each(run.gamma, 1.0, count))
            value = load(run.after, row, count, run.gamma) if run.known and run.by_row != 0 else zero
            advantage, strays = choose(stops, zero, advantage), choose(stops, zero, strays)
            following = choose(stops, value, following)
        reward = load(run.rewards, row, count, run.gamma) + strays
        value = load(run.values, row, count, run.gamma) if run.valued else zero
        found = (reward + factor * following - value) + decay * advantage
        total = found + value
        if run.masked or uneven:
            is_there = time < lengths
            is_step = is_there
            if run.masked:
                is_step = nonzero(load(run.marks, row, count, run.gamma)) & is_there
            advantage = choose(is_step, found, advantage)
            following = choose(is_step, value, following)
            strays = choose(is_step, zero, choose(is_there, reward, zero))
            found, total = choose(is_step, found, zero), choose(is_step, total, zero)
        else:
            advantage, following = found, value
        store(run.advantages, row, found)
        if run.valued:
            store(run.returns, row, total)
        t -= one


@compiled
def cpu(
    rewards: Array,
    values: Array,
    gamma: Array,
    lam: Array,
    marks: Array,
    ends: Array,
    after: Array,
    advantages: Array,
    returns: Array,
    at: Layout,
    by_row: int,
    width: int,  # noqa: ARG001  as in every kernel
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; columns of a rectangle 16 at a time, so that lines of a cache are used whole."""
    run = Run(
        pointer(rewards),
        pointer(values),
        pointer(gamma),
        pointer(lam),
        pointer(marks),
        pointer(ends),
        pointer(after),
        pointer(advantages),
        pointer(returns),
        pointer(at),
        int(marks.size > 0),
        int(ends.size > 0),
        int(values.size > 0),
        int(after.size > 0),
        int(gamma.size > 1),
        int(lam.size > 1),
        by_row,
    )
    u = lo
    while u < hi:
        if at.step > 1 and hi - u >= 16:
            estimate(run, u, 16)
            u += 16
        else:
            estimate(run, u, 1)
            u += 1


def cuda(
    rewards: Array,
    values: Array,
    gamma: Array,
    lam: Array,
    marks: Array,
    ends: Array,
    after: Array,
    advantages: Array,
    returns: Array,
    at: Layout,
    by_row: int,
    width: int,  # noqa: ARG001  as in every kernel
) -> None:
    """All units, a thread each."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        discount = gamma[i if gamma.size > 1 else 0]
        decay = discount * lam[i if lam.size > 1 else 0]
        advantage, strays, following = zero_in(gamma), zero_in(gamma), zero_in(gamma)
        if after.size != 0 and length > 0:
            following = number_in(gamma, after[first + along(at, length - 1) if by_row != 0 else i])
        t = length - 1 if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0 else -1
        while t >= 0:
            row = first + along(at, t)
            if ends.size != 0 and ends[row] != 0 and t != length - 1:
                advantage, strays, following = zero_in(gamma), zero_in(gamma), zero_in(gamma)
                if after.size != 0 and by_row != 0:
                    following = number_in(gamma, after[row])
            reward = number_in(gamma, rewards[row]) + strays
            made, total = zero_in(gamma), zero_in(gamma)
            strays = reward
            if marks.size == 0 or marks[row] != 0:
                value = number_in(gamma, values[row]) if values.size != 0 else zero_in(gamma)
                advantage = (reward + times(discount, following) - value) + times(decay, advantage)
                following, strays = value, zero_in(gamma)
                made, total = advantage, advantage + value
            advantages[row] = item_in(advantages, made)
            if values.size != 0:
                returns[row] = item_in(returns, total)
            t -= 1
        u += units_of_grid()


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "units", tuple((kind, kind, "f8", "f8", "u1", "u1", kind, kind, kind) for kind in FLOATS)
)
