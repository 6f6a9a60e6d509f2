"""The cross entropy of every item: the logarithm of the sum of the exponentials of its scores, less that of its class.

`x` holds items of `width` scores in a layout, see `Layout`; ``y`` and ``out`` have one number an item in the same: the
class, which is `ignore` (where `ignores` is 1) for items without a loss, whose `out` is 0, and the loss times
``scale[i]``, of its sequence i.  ``factors`` are the parts of a loss that belong to its class and to all classes alike
(label smoothing), and the latter divided by `width`.  ``kept`` has two numbers an item, in the same layout again: the
largest score, and the logarithm of the sum of the powers beside it; 0 where there is no loss.

Powers of float32 are added up by 128, and these sums in float64; on CUDA by 8.
"""

import math
from typing import NamedTuple

import numpy as np

from ..operations.choices import Ignored
from . import parts as p
from .parts import Array, Integers, Layout
from .parts.names import gpu


class Given(NamedTuple):
    """The scores of all items and their classes, and what is made of a loss."""

    x: Array
    y: Integers
    scale: Array
    factors: Array


class Made(NamedTuple):
    """Losses, and what their gradient needs."""

    out: Array
    kept: Array


@p.compiled
def cpu(given: Given, made: Made, at: Layout, ignored: Ignored, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, y, scale, factors = given
    out, kept = made
    ignore, ignores = ignored
    own, smoothing, share = factors[0], factors[1], factors[2]
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for t in range(length):
            r = first + p.along(at, t)
            if ignores != 0 and y[r] == ignore:
                out[r] = 0
                kept[2 * r] = 0
                kept[2 * r + 1] = 0
                continue
            begin = r * width
            top, total = p.powers_of_any(x, begin, width, kept)
            log = np.log(total)
            kept[2 * r] = top
            kept[2 * r + 1] = log
            loss = (top - x[begin + y[r]]) + log
            if smoothing != 0:
                a = 0.0  # two sums at a time, since an addition waits for the one before
                b = 0.0
                k = 0
                while k + 1 < width:
                    a += top - x[begin + k]
                    b += top - x[begin + k + 1]
                    k += 2
                if k < width:
                    a += top - x[begin + k]
                loss = own * loss + (share * (a + b) + smoothing * log)
            out[r] = loss * scale[i]


def cuda(given: Given, made: Made, at: Layout, ignored: Ignored, width: int) -> None:
    """All items, a block each."""
    x, y, scale, factors = given
    out, kept = made
    ignore, ignores = ignored
    parts = p.natural(gpu.shared.array(128, x.dtype))
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    own, smoothing, share = factors[0], factors[1], factors[2]
    for item in range(gpu.blockIdx.x, at.cum[at.cum.size - 1], gpu.gridDim.x):
        i, _, r = p.find(at, item)
        counts = ignores == 0 or y[r] != ignore  # the same for the whole block, which waits for each other below
        if not counts and me == 0:
            out[r] = 0
            kept[2 * r] = 0
            kept[2 * r + 1] = 0
        if counts:
            begin = r * width
            top = x.dtype.type(-math.inf)
            k = me
            while k < width:
                top = max(top, x[begin + k])
                k += threads
            parts[me] = top
            top = p.max_of_block(parts, me, threads)
            gpu.syncthreads()
            total = x.dtype.type(0)
            apart = x.dtype.type(0)
            blocks = p.wide(total)
            distances = p.wide(apart)
            taken = 0
            k = me
            while k < width:
                away = x[begin + k] - top
                total += p.exp(away)
                apart -= away
                k += threads
                taken += 1
                if taken & 7 == 0:
                    blocks += p.wide(total)
                    distances += p.wide(apart)
                    total = x.dtype.type(0)
                    apart = x.dtype.type(0)
            parts[me] = blocks + p.wide(total)
            log = p.ln(p.sum_of_block(parts, me, threads))
            gpu.syncthreads()
            loss = (top - x[begin + y[r]]) + log
            if smoothing != 0:
                parts[me] = distances + p.wide(apart)
                loss = own * loss + (share * p.sum_of_block(parts, me, threads) + smoothing * log)
                gpu.syncthreads()
            if me == 0:
                kept[2 * r] = top
                kept[2 * r + 1] = log
                out[r] = loss * scale[i]


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", p.alike(p.FLOATS, 5))
