"""The most likely path of every sequence of frames, and what is left of it without repeats and blanks.

`x` holds the frames in any layout, see `Layout`, each of `width` log-probabilities, or of logits where `logits` is 1
(`best_known` has its other values).
What belongs to sequence i begins at ``cum[i]`` of its layout: ``values (frames,)`` float64, room for the worth of each
frame, and in both halves of ``label (2 * frames,)`` int64 the tokens that are left, and in which frames they
begin.  ``scores (n,)`` are the sums of the values, and ``counts (n,)`` how many tokens are left, or -1 - t where
frame t holds NaN or +inf.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from . import parts as p
from .parts import Array, Integers, Layout
from .parts.columns import frame_powers
from .parts.names import gpu


class Made(NamedTuple):
    """Labels, and what belongs to them."""

    label: Integers
    values: Array
    scores: Array
    counts: Integers


@p.shared
def collapse(label: Integers, values: Array, begin: int, length: int, frames: int, blank: int) -> Any:
    """Collapse a path in place; return the sum of its values."""
    count = 0
    before = blank
    total = values[begin] if length != 0 else 0.0
    for t in range(length):
        token = label[begin + t]
        if token < 0:
            count = -1 - t
            break
        if t != 0:
            total += values[begin + t]
        if token not in (blank, before):
            label[begin + count] = token
            label[frames + begin + count] = t
            count += 1
        before = token
    return count, total


@p.compiled
def cpu(x: Array, made: Made, at: Layout, blank: int, logits: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    label, values, scores, counts = made
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        begin = at.cum[i]
        for t in range(length):
            place = (first + p.along(at, t)) * width
            token, value = p.best_known(x, place, width, logits)
            label[begin + t] = token
            values[begin + t] = value
            if logits > 0 and value > -math.inf:
                _, total = p.powers_of_any(x, place, width, x)
                values[begin + t] = -math.log(np.float64(total))
        counts[i], scores[i] = collapse(label, values, begin, length, at.cum[at.cum.size - 1], blank)


def cuda(x: Array, made: Made, at: Layout, blank: int, logits: int, width: int) -> None:
    """All units, a block each, a thread some of its frames."""
    label, values, scores, counts = made
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        begin = at.cum[i]
        for t in range(gpu.threadIdx.x, length, gpu.blockDim.x):
            place = (first + p.along(at, t)) * width
            token, value = p.best_known(x, place, width, logits)
            label[begin + t] = token
            values[begin + t] = value
            if logits > 0 and value > -math.inf:
                values[begin + t] = -p.ln(frame_powers(x, place, width, value))
        gpu.syncthreads()
        if gpu.threadIdx.x == 0:
            counts[i], scores[i] = collapse(label, values, begin, length, at.cum[at.cum.size - 1], blank)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", (("f4", "f8", "f4"), ("f8", "f8", "f4")), 1 << 20)
