"""Lay tokens out in a rectangle, and beside them a mask, positions and labels: what a language model takes.

`x` holds the tokens in any layout, see `Layout`; `ids`, `mask`, `places` and `labels` are ``(n * width,)``, and
`labels` may have no place at all.  A sequence keeps `most` tokens at most, its last ones where `tail` is 1, and has its
padding on the left where `left` is 1: `pad` and, of the labels, `ignore`; 0 of the others.
"""

from typing import NamedTuple

from ..operations.choices import Rectangle
from . import parts as p
from .parts import Array, Integers, Layout
from .parts.names import gpu


class Made(NamedTuple):
    """Inputs of a language model."""

    ids: Integers
    mask: Integers
    places: Integers
    labels: Integers


@p.compiled
def cpu(x: Array, made: Made, at: Layout, form: Rectangle, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    ids, mask, places, labels = made
    most, tail, left, pad, ignore = form
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        count = p.at_most(length, most)
        skip = (length - count) * tail
        free = i * width + (1 - left) * count
        begin = i * width + left * (width - count)
        for out, value in ((ids, pad), (mask, 0), (places, 0)):
            part = out[free : free + width - count]
            for t in range(part.size):
                part[t] = value
        part = ids[begin : begin + count]
        if at.step == 1:
            source = x[first + skip : first + skip + count]
            for t in range(part.size):
                part[t] = source[t]
        else:
            for t in range(part.size):
                part[t] = x[first + p.along(at, skip + t)]
        part = mask[begin : begin + count]
        for t in range(part.size):
            part[t] = 1
        part = places[begin : begin + count]
        for t in range(part.size):
            part[t] = t
        if labels.size != 0:
            part = labels[free : free + width - count]
            for t in range(part.size):
                part[t] = ignore
            part = labels[begin : begin + count]
            source = ids[begin : begin + count]
            for t in range(part.size):
                part[t] = source[t]


def cuda(x: Array, made: Made, at: Layout, form: Rectangle, width: int) -> None:
    """All units, a line of threads each."""
    ids, mask, places, labels = made
    most, tail, left, pad, ignore = form
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        count = length if length < most else most
        skip = (length - count) * tail
        begin = left * (width - count)
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            t = k - begin
            inside = t >= 0 and t < count
            place = i * width + k
            token = x[first + p.along(at, skip + t)] if inside else pad
            ids[place] = token
            mask[place] = 1 if inside else 0
            places[place] = t if inside else 0
            if labels.size != 0:
                labels[place] = token if inside else ignore


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", (("i4",), ("i8",)), p.STREAMS)
