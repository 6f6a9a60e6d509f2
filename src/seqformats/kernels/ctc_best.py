"""The most likely path of every sequence of frames, and what is left of it without repeats and blanks.

`x` holds the frames in any layout, see `Layout`, each of `width` log-probabilities, or of logits where `logits` is 1.
What belongs to sequence i begins at ``cum[i]`` of its layout: ``tokens`` and ``times (frames,)`` int64, the tokens that
are left and their frames, and ``values (frames,)`` float64, room for the log-probability of each frame.  ``scores``
``(n,)`` are their sums, and ``counts (n,)`` how many tokens are left, or -1 - t where frame t holds NaN or +inf.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .parts import CALCULATES, Array, Integers, KernelSpec, Layout, along, compiled, locate, powers_of_any, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import exp, gpu, ln


@shared
def best_of_frame(x: Array, begin: int, width: int) -> Any:
    """The most likely token of a frame, of equal ones the smallest; -1 where there is NaN or +inf."""
    best = x[begin]
    token = 0 if best == best else -1
    k = 1
    while k < width and token >= 0:
        value = x[begin + k]
        if not value <= best:
            token = k if value == value else -1
            best = value
        k += 1
    return token if best < math.inf else -1


@shared
def collapse(tokens: Integers, times: Integers, values: Array, begin: int, length: int, blank: int) -> Any:
    """What is left of a path, to where the path was, and the sum of its values."""
    count = 0
    before = blank
    total = values[begin] if length != 0 else 0.0
    for t in range(length):
        token = tokens[begin + t]
        if token < 0:
            count = -1 - t
            break
        if t != 0:
            total += values[begin + t]
        if token not in (blank, before):
            tokens[begin + count] = token
            times[begin + count] = t
            count += 1
        before = token
    return count, total


@compiled
def cpu(
    x: Array,
    tokens: Integers,
    times: Integers,
    values: Array,
    scores: Array,
    counts: Integers,
    at: Layout,
    blank: int,
    logits: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        begin = at.cum[i]
        for t in range(length):
            place = (first + along(at, t)) * width
            token = best_of_frame(x, place, width)
            tokens[begin + t] = token
            values[begin + t] = 0.0
            if token >= 0 and logits == 0:
                values[begin + t] = x[place + token]
            elif token >= 0 and x[place + token] > -math.inf:
                _, total = powers_of_any(x, place, width, x)
                values[begin + t] = -math.log(np.float64(total))
            elif token >= 0:
                values[begin + t] = -math.inf
        count, score = collapse(tokens, times, values, begin, length, blank)
        counts[i] = count
        scores[i] = score


def cuda(
    x: Array,
    tokens: Integers,
    times: Integers,
    values: Array,
    scores: Array,
    counts: Integers,
    at: Layout,
    blank: int,
    logits: int,
    width: int,
) -> None:
    """All units, a block each, a thread some of its frames."""
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        begin = at.cum[i]
        t = gpu.threadIdx.x
        while t < length:
            place = (first + along(at, t)) * width
            token = best_of_frame(x, place, width)
            tokens[begin + t] = token
            values[begin + t] = 0
            if token >= 0:
                top = x[place + token]
                values[begin + t] = top
                if logits != 0 and top > -math.inf:
                    total = x.dtype.type(0)
                    for k in range(width):
                        total += exp(x[place + k] - top)
                    values[begin + t] = -ln(total)
            t += gpu.blockDim.x
        gpu.syncthreads()
        if gpu.threadIdx.x == 0:
            count, score = collapse(tokens, times, values, begin, length, blank)
            counts[i] = count
            scores[i] = score
        u += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", (("f4", "f8", "f4"), ("f8", "f8", "f4")), 1 << 20)
