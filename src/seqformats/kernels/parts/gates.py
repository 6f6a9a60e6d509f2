"""Parts of recurrent layers: the steps of packed rows, their inputs, sigmoid and hyperbolic tangent of lanes.

Neither function overflows; both are exact to about 2 units in the last place, also around 0, and keep NaN.
"""

from typing import Any, NamedTuple

from .code import Item
from .lanes import choose, each, in_lanes
from .moves import at_most
from .options import shared
from .tiles import Product, give_row, multiply
from .vectors import exp


class Step(NamedTuple):
    """One step of packed rows, and the one that follows."""

    row: int  # its first row
    alive: int  # its sequences
    old: int  # so many of them have been in a step before
    follow: int  # the first row of the next one
    others: int  # the sequences of that


@shared
def step_at(begins: Item, steps: int, s: int, back: int) -> Any:
    """The step that is done after `s` others, from the last to the first where `back` is 1."""
    t = steps - 1 - s if back != 0 else s
    row = begins[t]
    alive = begins[t + 1] - row
    old, follow, others = 0, 0, 0
    if s > 0:
        old = begins[t + 2] - begins[t + 1] if back != 0 else alive
    if s + 1 < steps:
        ahead = t - 1 if back != 0 else t + 1
        follow = begins[ahead]
        others = begins[ahead + 1] - follow
    return Step(row, alive, old, follow, others)


class Inputs(NamedTuple):
    """Memory in which a unit has the inputs of some steps, and what they add to the gates."""

    items: int  # (rows, deep)
    gates: int  # (rows, line)
    weights: int  # (line / 32, deep, 32)
    deep: int
    line: int


@shared
def enter(given: Item, x: Item, begins: Item, s: int, back: int, u: int, units: int, to: Inputs) -> int:
    """Write what the inputs of the sequences u, u + `units`, ... add to the gates, for some steps from the s-th on.

    The steps are those until 64 rows are together, so that the weights are read once for many; their rows lie one
    after the other.  Returns the step that follows.
    """
    steps, rows = begins.size - 1, 0
    while s < steps and rows < 64:
        t = steps - 1 - s if back != 0 else s
        i, alive = u, begins[t + 1] - begins[t]
        while i < alive:
            give_row(given, (begins[t] + i) * to.deep, x, to.items + rows * to.deep, to.deep)
            rows += 1
            i += units
        s += 1
    top = 0
    while top < to.deep:
        size = at_most(to.deep - top, 256)
        for panel in range(to.line // 32):
            first, r = to.weights + (panel * to.deep + top) * 32, 0
            while r < rows:
                place, begin = to.gates + r * to.line + panel * 32, to.items + r * to.deep + top
                multiply(x, Product(place, to.line, begin, to.deep, 1, first, 32, size, top), 32)
                r += 8
        top += 256
    return s


@in_lanes
def sigmoid(x: Item, count: int) -> Any:
    """``1 / (1 + exp(-x))`` of each lane."""
    zero, one = each(x, 0, count), each(x, 1, count)
    negative = x < zero
    power = exp(choose(negative, x, zero - x))
    return choose(negative, power, one) / (one + power)


@in_lanes
def tanh(x: Item, count: int) -> Any:
    """The hyperbolic tangent of each lane.

    Below 0.625 it is a rational function, ``tanh`` of the Cephes library, and beyond that made of a power.
    """
    zero, one = each(x, 0, count), each(x, 1, count)
    negative = x < zero
    power = exp(choose(negative, x + x, zero - x - x))
    square = x * x
    small = square < each(x, 0.390625, count)
    above = each(x, -9.64399179425052238628e-1, count) * square + each(x, -9.92877231001918586564e1, count)
    above = (above * square + each(x, -1.61468768441708447952e3, count)) * square * x
    below = (square + each(x, 1.12811678491632931402e2, count)) * square + each(x, 2.23548839060100448583e3, count)
    below = below * square + each(x, 4.84406305325125486048e3, count)
    large = choose(negative, power - one, one - power)
    ratio = choose(small, above, large) / choose(small, below, one + power)
    return choose(small, x + ratio, ratio)
