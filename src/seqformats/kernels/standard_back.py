"""The gradient of `standard_rows` for its items: ``dx``, of ``dy``, the gradient of what it has written.

All else is as there.  With e the distances from the mean, s the deviation and f what distances are multiplied by: ``dx
= f * (dy - mean(dy)) - e * f * sum(dy * e) / ((s + eps) * s * (number - ddof))``.  Where s is 0 the second part is left
out.  Of given moments, which do not move with the items, ``dx = f * dy``.
"""

from typing import NamedTuple

import numpy as np

from ..operations.choices import Scaling
from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, sqrt


class Given(NamedTuple):
    """Gradients, and what `standard_rows` has taken."""

    dy: Array
    x: Array
    moments: Array
    how: Array
    marks: Array


@p.compiled
def cpu(given: Given, dx: Array, at: Layout, scaling: Scaling, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    dy, x, moments, how, marks = given
    others, scaled = scaling
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        for k in range(width):
            number, start, total, squares, slopes, both = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            if moments.size > 0:
                number = moments[0]
                squares = moments[2] - moments[1] * (moments[1] / max(number, 1.0))
                squares = max(squares, 0.0)
            else:
                for t in range(length):
                    row = first + p.along(at, t)
                    if marks.size == 0 or marks[row] != 0:
                        if number == 0.0:
                            start = float(x[row * width + k])
                        total += float(x[row * width + k]) - start
                        slopes += float(dy[row * width + k])
                        number += 1.0
            mean, slope = total / max(number, 1.0), slopes / max(number, 1.0)
            if moments.size == 0 and scaled != 0:
                for t in range(length):
                    row = first + p.along(at, t)
                    if marks.size == 0 or marks[row] != 0:
                        away = (float(x[row * width + k]) - start) - mean
                        squares += away * away
                        both += float(dy[row * width + k]) * away
            factor, turn = 1.0, 0.0
            if others != 0:
                factor = number / (number - 1.0) if number > 1.0 else 0.0
            if scaled != 0:
                deviation = np.sqrt(squares / (number - how[0])) if number > how[0] else 0.0
                factor = factor / (deviation + how[1]) if number > how[0] and deviation + how[1] != 0.0 else 0.0
                if deviation > 0.0:
                    turn = factor * both / ((deviation + how[1]) * deviation * (number - how[0]))
            for t in range(length):
                row = first + p.along(at, t)
                value = 0.0
                if marks.size == 0 or marks[row] != 0:
                    value = factor * (float(dy[row * width + k]) - slope)
                    if turn != 0.0:
                        value -= turn * ((float(x[row * width + k]) - start) - mean)
                dx[row * width + k] = value


@p.block_per_sequence
def cuda(
    given: Given, dx: Array, at: Layout, scaling: Scaling, width: int, *, first: int, length: int, k: int, slot: int
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    dy, x, moments, how, marks = given
    others, scaled = scaling
    parts = p.natural(gpu.shared.array(128, how.dtype))
    one = p.number_in(how, 1)
    start, number, total, squares = p.zero_in(how), p.zero_in(how), p.zero_in(how), p.zero_in(how)
    slopes, both = p.zero_in(how), p.zero_in(how)
    if moments.size != 0:
        number = moments[0]
        squares = moments[2] - moments[1] * (moments[1] / max(number, one))
        squares = max(squares, p.zero_in(how))
    else:
        t = 0
        while t < length and marks.size != 0 and marks[first + p.along(at, t)] == 0:
            t += 1
        if t < length and k < width:
            start = p.number_in(how, x[(first + p.along(at, t)) * width + k])
        t = gpu.threadIdx.y
        while t < length and k < width:
            row = first + p.along(at, t)
            if marks.size == 0 or marks[row] != 0:
                total += p.number_in(how, x[row * width + k]) - start
                slopes += p.number_in(how, dy[row * width + k])
                number += one
            t += gpu.blockDim.y
        parts[slot] = number
        p.tree_sum(parts, slot)
        number = parts[gpu.threadIdx.x]
        gpu.syncthreads()  # before the memory is used again
        parts[slot] = total
        p.tree_sum(parts, slot)
        total = parts[gpu.threadIdx.x]
        gpu.syncthreads()
        parts[slot] = slopes
        p.tree_sum(parts, slot)
        slopes = parts[gpu.threadIdx.x]
        gpu.syncthreads()
    mean, slope = total / max(number, one), slopes / max(number, one)
    if moments.size == 0 and scaled != 0:
        t = gpu.threadIdx.y
        while t < length and k < width:
            row = first + p.along(at, t)
            if marks.size == 0 or marks[row] != 0:
                away = (p.number_in(how, x[row * width + k]) - start) - mean
                squares += away * away
                both += p.number_in(how, dy[row * width + k]) * away
            t += gpu.blockDim.y
        parts[slot] = squares
        p.tree_sum(parts, slot)
        squares = parts[gpu.threadIdx.x]
        gpu.syncthreads()
        parts[slot] = both
        p.tree_sum(parts, slot)
        both = parts[gpu.threadIdx.x]
        gpu.syncthreads()
    factor, turn = one, p.zero_in(how)
    if others != 0:
        factor = number / (number - one) if number > one else p.zero_in(how)
    if scaled != 0:
        deviation = sqrt(squares / (number - how[0])) if number > how[0] else p.zero_in(how)
        factor = factor / (deviation + how[1]) if number > how[0] and deviation + how[1] != 0 else p.zero_in(how)
        if deviation > 0:
            turn = factor * both / ((deviation + how[1]) * deviation * (number - how[0]))
    t = gpu.threadIdx.y
    while t < length and k < width:
        row = first + p.along(at, t)
        value = p.zero_in(how)
        if marks.size == 0 or marks[row] != 0:
            value = factor * (p.number_in(how, dy[row * width + k]) - slope)
            if turn != 0:
                value -= turn * ((p.number_in(how, x[row * width + k]) - start) - mean)
        dx[row * width + k] = p.item_in(dx, value)
        t += gpu.blockDim.y


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "sequences", tuple((kind, kind, "f8", "f8", "u1", kind) for kind in p.FLOATS)
)
