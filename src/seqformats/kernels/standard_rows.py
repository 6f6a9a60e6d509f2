"""The items of every sequence around their mean and over their deviation, column by column, in float64.

``x`` and ``out`` hold the sequences in one layout, see `Layout`; ``marks``, a byte an item, lie in the same or are
empty.  Items with a mark of 0 do not count, and get 0.  ``how (2,)``: what is subtracted from the number of items
before the squares are divided by it, and what is added to the deviation.

`others` 1: around the mean of the other items; `scaled` 0: not over a deviation.  ``moments`` is empty, or has the
number of items, their sum and that of their squares, of which mean and deviation are made instead.

There are two passes, and what is added up are differences from the first item that counts: equal items get exactly 0.
So do items that are too few for a deviation, or a mean of others, and all where nothing would be divided by.
"""

from typing import NamedTuple

import numpy as np

from ..operations.choices import Scaling
from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, sqrt


class Given(NamedTuple):
    """The items, their moments if these are given, and which of them count."""

    x: Array
    moments: Array
    how: Array
    marks: Array


@p.compiled
def cpu(given: Given, out: Array, at: Layout, scaling: Scaling, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, moments, how, marks = given
    others, scaled = scaling
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        for k in range(width):
            number, start, total, squares = 0.0, 0.0, 0.0, 0.0
            if moments.size > 0:
                number = moments[0]
                total, squares = moments[1], moments[2] - moments[1] * (moments[1] / max(number, 1.0))
                squares = max(squares, 0.0)
            else:
                for t in range(length):
                    row = first + p.along(at, t)
                    if marks.size == 0 or marks[row] != 0:
                        if number == 0.0:
                            start = float(x[row * width + k])
                        total += float(x[row * width + k]) - start
                        number += 1.0
            mean = total / max(number, 1.0)
            if moments.size == 0 and scaled != 0:
                for t in range(length):
                    row = first + p.along(at, t)
                    if marks.size == 0 or marks[row] != 0:
                        away = (float(x[row * width + k]) - start) - mean
                        squares += away * away
            factor = 1.0
            if others != 0:
                factor = number / (number - 1.0) if number > 1.0 else 0.0
            if scaled != 0:
                over = np.sqrt(squares / (number - how[0])) + how[1] if number > how[0] else 0.0
                factor = factor / over if over != 0.0 else 0.0
            for t in range(length):
                row = first + p.along(at, t)
                value = 0.0
                if marks.size == 0 or marks[row] != 0:
                    away = (float(x[row * width + k]) - start) - mean
                    value = away * factor if factor != 0.0 else 0.0
                out[row * width + k] = value


@p.block_per_sequence
def cuda(
    given: Given, out: Array, at: Layout, scaling: Scaling, width: int, *, first: int, length: int, k: int, slot: int
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    x, moments, how, marks = given
    others, scaled = scaling
    parts = p.natural(gpu.shared.array(128, how.dtype))
    one = p.number_in(how, 1)
    start, number, total, squares = p.zero_in(how), p.zero_in(how), p.zero_in(how), p.zero_in(how)
    if moments.size != 0:
        number, total = moments[0], moments[1]
        squares = moments[2] - total * (total / max(number, one))
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
    mean = total / max(number, one)
    if moments.size == 0 and scaled != 0:
        t = gpu.threadIdx.y
        while t < length and k < width:
            row = first + p.along(at, t)
            if marks.size == 0 or marks[row] != 0:
                away = (p.number_in(how, x[row * width + k]) - start) - mean
                squares += away * away
            t += gpu.blockDim.y
        parts[slot] = squares
        p.tree_sum(parts, slot)
        squares = parts[gpu.threadIdx.x]
        gpu.syncthreads()
    factor = one
    if others != 0:
        factor = number / (number - one) if number > one else p.zero_in(how)
    if scaled != 0:
        over = sqrt(squares / (number - how[0])) + how[1] if number > how[0] else p.zero_in(how)
        factor = factor / over if over != 0 else p.zero_in(how)
    t = gpu.threadIdx.y
    while t < length and k < width:
        row = first + p.along(at, t)
        value = p.zero_in(how)
        if factor != 0 and (marks.size == 0 or marks[row] != 0):
            value = ((p.number_in(how, x[row * width + k]) - start) - mean) * factor
        out[row * width + k] = p.item_in(out, value)
        t += gpu.blockDim.y


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", tuple((kind, "f8", "f8", "u1", kind) for kind in p.FLOATS))
