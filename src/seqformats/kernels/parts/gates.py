"""Parts of recurrent layers: the steps of packed rows, and the sigmoid function and the hyperbolic tangent of lanes.

Neither function overflows; both are exact to about 2 units in the last place, also around 0, and keep NaN.
"""

from typing import Any, NamedTuple

from .code import Item
from .lanes import choose, each, in_lanes
from .options import shared
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
