"""The gradients of `advantage_rows`, from the beginning of every sequence on.

``dadvantages`` and ``dreturns`` are the gradients of what it has written, the latter empty where it had no values; the
other arrays are those of `advantage_rows`.  ``drewards``, ``dvalues`` and ``dafter`` are the gradients for what it has
taken: the second is empty where there were no values, the last begins as zeros, or is empty where nobody asks.

With g the gradient of the advantage of a step: ``g = dadvantage + dreturn + gamma * lam * (g of the step before)``,
which is that of its reward, and of all rewards behind it that belong to it.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, times


class Given(NamedTuple):
    """Gradients of results, and arrays of `advantage_rows`."""

    dadvantages: Array
    dreturns: Array
    gamma: Array
    lam: Array
    marks: Array
    ends: Array


class Made(NamedTuple):
    """Gradients for its arrays."""

    drewards: Array
    dvalues: Array
    dafter: Array


class Run(NamedTuple):
    """Everything that belongs to all sequences."""

    given: Given
    made: Made
    at: Layout
    masked: int
    ending: int
    valued: int
    asked: int
    discounts: int  # are there some?  Else one for all
    decays: int
    by_row: int


@p.in_lanes
def differentiate(run: Run, u: int, count: int) -> None:
    """Go through the sequences of so many units, a lane each, as `advantage_rows` does."""
    dadvantages, dreturns, gamma, lam, marks, ends = run.given
    drewards, dvalues, dafter = run.made
    one, zero, unit = p.unknown(1), p.each(gamma, 0.0, count), p.each(gamma, 1.0, count)
    lengths, factor, decay = zero, zero, zero
    longest, begin, uneven = 0, 0, count > 1
    for k in range(count):
        i, first, length = p.locate(run.at, u + k)
        begin, longest = first - k, p.at_least(length, longest)
        discount = gamma[i if run.discounts else 0]
        lengths, factor = p.with_lane(lengths, k, float(length)), p.with_lane(factor, k, discount)
        decay = p.with_lane(decay, k, discount * lam[i if run.decays else 0])
    g, last = zero, zero
    t = 0
    while t < longest:
        row = begin + p.along(run.at, t)
        time = p.each(gamma, float(t), count)
        whole = p.load(dreturns, row, count, gamma) if run.valued else zero
        found = p.load(dadvantages, row, count, gamma) + whole + decay * g
        value = whole - found + factor * g
        if run.masked:
            is_step = p.nonzero(p.load(marks, row, count, gamma))
            found, value = p.choose(is_step, found, g), p.choose(is_step, value, zero)
        if uneven:
            is_there = time < lengths
            found, value = p.choose(is_there, found, zero), p.choose(is_there, value, zero)
        g = found
        p.store(drewards, row, g)
        if run.valued:
            p.store(dvalues, row, value)
        if uneven or run.ending or t + 1 == longest:
            stops = time == lengths - unit
            last = p.choose(stops, factor * g, last)
            if run.ending:
                stops = stops | p.nonzero(p.load(ends, row, count, gamma))
            if run.asked and run.by_row != 0:
                p.store(dafter, row, p.choose(stops, factor * g, zero))
            g = p.choose(stops, zero, g)
        t += one
    if run.asked and run.by_row == 0:
        for k in range(count):
            i, _, length = p.locate(run.at, u + k)
            if length > 0:
                dafter[i] = p.lane_of(last, k)


@p.compiled
def cpu(given: Given, made: Made, at: Layout, by_row: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; columns of a rectangle 16 at a time, so that lines of a cache are used whole."""
    _, _, gamma, lam, marks, ends = given
    _, dvalues, dafter = made
    run = Run(
        p.pointer(given),
        p.pointer(made),
        p.pointer(at),
        int(marks.size > 0),
        int(ends.size > 0),
        int(dvalues.size > 0),
        int(dafter.size > 0),
        int(gamma.size > 1),
        int(lam.size > 1),
        by_row,
    )
    u = lo
    while u < hi:
        if at.step > 1 and hi - u >= 16:
            differentiate(run, u, 16)
            u += 16
        else:
            differentiate(run, u, 1)
            u += 1


def cuda(given: Given, made: Made, at: Layout, by_row: int, width: int) -> None:
    """All units, a thread each."""
    dadvantages, dreturns, gamma, lam, marks, ends = given
    drewards, dvalues, dafter = made
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        discount = gamma[i if gamma.size > 1 else 0]
        decay = discount * lam[i if lam.size > 1 else 0]
        g = p.zero_in(gamma)
        for t in range(0 if gpu.threadIdx.x == 0 and gpu.blockIdx.y == 0 else length, length, 1):
            row = first + p.along(at, t)
            before, value = g, p.zero_in(gamma)
            if marks.size == 0 or marks[row] != 0:
                whole = p.number_in(gamma, dreturns[row]) if dvalues.size != 0 else p.zero_in(gamma)
                g = p.number_in(gamma, dadvantages[row]) + whole + times(decay, before)
                value = whole - g + times(discount, before)
            drewards[row] = p.item_in(drewards, g)
            if dvalues.size != 0:
                dvalues[row] = p.item_in(dvalues, value)
            if t == length - 1 or (ends.size != 0 and ends[row] != 0):
                if dafter.size != 0 and (by_row != 0 or t == length - 1):
                    dafter[row if by_row != 0 else i] = p.item_in(dafter, discount * g)
                g = p.zero_in(gamma)


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "units", tuple((kind, kind, "f8", "f8", "u1", "u1", kind, kind, kind) for kind in p.FLOATS)
)
