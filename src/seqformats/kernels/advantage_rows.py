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

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, times


class Given(NamedTuple):
    """Rewards and values of steps, the factors, and what tells steps and episodes apart."""

    rewards: Array
    values: Array
    gamma: Array
    lam: Array
    marks: Array
    ends: Array
    after: Array


class Results(NamedTuple):
    """Results, a number an item."""

    advantages: Array
    returns: Array


class Run(NamedTuple):
    """Everything that belongs to all sequences."""

    given: Given
    results: Results
    at: Layout
    masked: int
    ending: int
    valued: int
    known: int
    discounts: int  # are there some?  Else one for all
    decays: int
    by_row: int


@p.in_lanes
def estimate(run: Run, u: int, count: int) -> None:
    """Go through the sequences of so many units, a lane each; no jump depends on their items.

    Several are columns of one rectangle, whose rows lie side by side.  Their padding is written as 0.
    """
    rewards, values, gamma, lam, marks, ends, after = run.given
    advantages, returns = run.results
    one, zero, uneven = p.unknown(1), p.each(gamma, 0.0, count), count > 1
    lengths, factor, decay, following = zero, zero, zero, zero
    longest, begin = 0, 0
    for k in range(count):
        i, first, length = p.locate(run.at, u + k)
        begin, longest = first - k, p.at_least(length, longest)
        discount = gamma[i if run.discounts else 0]
        lengths, factor = p.with_lane(lengths, k, float(length)), p.with_lane(factor, k, discount)
        decay = p.with_lane(decay, k, discount * lam[i if run.decays else 0])
        if run.known and length > 0:
            place = first + p.along(run.at, length - 1) if run.by_row != 0 else i
            following = p.with_lane(following, k, after[place])
    advantage, strays = zero, zero
    t = longest - 1
    while t >= 0:
        row = begin + p.along(run.at, t)
        time = p.each(gamma, float(t), count)
        if run.ending:
            stops = p.nonzero(p.load(ends, row, count, gamma)) & (time < lengths - p.each(gamma, 1.0, count))
            value = p.load(after, row, count, gamma) if run.known and run.by_row != 0 else zero
            advantage, strays = p.choose(stops, zero, advantage), p.choose(stops, zero, strays)
            following = p.choose(stops, value, following)
        reward = p.load(rewards, row, count, gamma) + strays
        value = p.load(values, row, count, gamma) if run.valued else zero
        found = (reward + factor * following - value) + decay * advantage
        total = found + value
        if run.masked or uneven:
            is_there = time < lengths
            is_step = is_there
            if run.masked:
                is_step = p.nonzero(p.load(marks, row, count, gamma)) & is_there
            advantage = p.choose(is_step, found, advantage)
            following = p.choose(is_step, value, following)
            strays = p.choose(is_step, zero, p.choose(is_there, reward, zero))
            found, total = p.choose(is_step, found, zero), p.choose(is_step, total, zero)
        else:
            advantage, following = found, value
        p.store(advantages, row, found)
        if run.valued:
            p.store(returns, row, total)
        t -= one


@p.compiled
def cpu(given: Given, results: Results, at: Layout, by_row: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; columns of a rectangle 16 at a time, so that lines of a cache are used whole."""
    _, values, gamma, lam, marks, ends, after = given
    run = Run(
        p.pointer(given),
        p.pointer(results),
        p.pointer(at),
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


def cuda(given: Given, results: Results, at: Layout, by_row: int, width: int) -> None:
    """All units, a thread each."""
    rewards, values, gamma, lam, marks, ends, after = given
    advantages, returns = results
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        discount = gamma[i if gamma.size > 1 else 0]
        decay = discount * lam[i if lam.size > 1 else 0]
        advantage, strays, following = p.zero_in(gamma), p.zero_in(gamma), p.zero_in(gamma)
        if after.size != 0 and length > 0:
            following = p.number_in(gamma, after[first + p.along(at, length - 1) if by_row != 0 else i])
        t = length - 1 if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0 else -1
        while t >= 0:
            row = first + p.along(at, t)
            if ends.size != 0 and ends[row] != 0 and t != length - 1:
                advantage, strays, following = p.zero_in(gamma), p.zero_in(gamma), p.zero_in(gamma)
                if after.size != 0 and by_row != 0:
                    following = p.number_in(gamma, after[row])
            reward = p.number_in(gamma, rewards[row]) + strays
            made, total = p.zero_in(gamma), p.zero_in(gamma)
            strays = reward
            if marks.size == 0 or marks[row] != 0:
                value = p.number_in(gamma, values[row]) if values.size != 0 else p.zero_in(gamma)
                advantage = (reward + times(discount, following) - value) + times(decay, advantage)
                following, strays = value, p.zero_in(gamma)
                made, total = advantage, advantage + value
            advantages[row] = p.item_in(advantages, made)
            if values.size != 0:
                returns[row] = p.item_in(returns, total)
            t -= 1


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "units", tuple((kind, kind, "f8", "f8", "u1", "u1", kind, kind, kind) for kind in p.FLOATS)
)
