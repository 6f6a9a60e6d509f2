"""The best of every 32 scores of a row on a GPU, and what their exponentials add up to; see `best_tokens`.

A row falls into chunks of 32 scores for each thread of a block, `lanes` of them.  Scores that lie `lanes` apart in a
chunk are a group: one thread reads them, all threads side by side.  ``blocks[r * chunks * lanes + g]`` has two float32
of group g of row r: above the largest score, -inf where there is none, below the sum of ``exp(score - largest)``,
infinite where one is NaN or +inf.  Where `form` is 1 nothing is added; where it is 2 limits act on the scores before.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..beam.rows import Limits
from .parts import CALCULATES, Array, Integers, KernelSpec, alike, compiled, exp, limited, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import bits_of, gpu, quick_exp


@shared
def group_of(x: Array, row: int, k: int, end: int, by: int, r: int, limits: Limits, form: int) -> Any:
    """The largest of every so many scores of a row from the k-th on, and the sum of exponentials below it."""
    none, infinite = np.float32(-math.inf), np.float32(math.inf)
    top, total = none, np.float32(0)
    while k < end:
        value = x[row + k]
        if form == 2:
            value = limited(value, k, r, limits)
        if not value < infinite:
            total = infinite
        elif value > top:
            total = total * exp(top - value) + (np.float32(0) if form == 1 else np.float32(1))
            top = value
        elif form != 1 and value > none:
            total += exp(value - top)
        k += by
    return top, total


@compiled
def cpu(x: Array, blocks: Integers, limits: Limits, form: int, chunks: int, width: int, lo: int, hi: int) -> None:
    """Chunks `lo` to `hi`, counted row by row; the scores of a group one after the other."""
    lanes = blocks.size // (x.size // width * chunks)
    for u in range(lo, hi):
        r = u // chunks
        begin = (u - r * chunks) * lanes * 32
        end = min(begin + lanes * 32, width)
        for lane in range(lanes):
            top, total = group_of(x, r * width, begin + lane, end, lanes, r, limits, form)
            above, below = np.float32(top).view(np.int32), np.float32(total).view(np.int32)
            blocks[u * lanes + lane] = np.int64(above) << 32 | np.int64(below)


@shared
def four_joined(top: Any, total: Any, four: tuple[Any, Any, Any, Any], form: int) -> Any:
    """The largest score so far, and the sum of exponentials below it, with four more."""
    a, b, c, d = four
    high = max(max(a, b), max(c, d))
    if not (a < math.inf and b < math.inf and c < math.inf and d < math.inf):
        total = np.float32(math.inf)
    if high > top:
        total = total * quick_exp(top - high)
        top = high
    if form != 1 and top > -math.inf:
        total += (quick_exp(a - top) + quick_exp(b - top)) + (quick_exp(c - top) + quick_exp(d - top))
    return top, total


def cuda(x: Array, blocks: Integers, limits: Limits, form: int, chunks: int, width: int) -> None:
    """All chunks, a block each; a thread has eight scores of its group on their way at a time."""
    lanes = gpu.blockDim.x
    none = x.dtype.type(-math.inf)
    u = gpu.blockIdx.x
    while u * lanes < blocks.size:
        r = int(np.uint32(u) // np.uint32(chunks))  # which takes a GPU a quarter of the time for numbers of 32 bits
        row = r * width
        k = (u - r * chunks) * lanes * 32
        end = min(k + lanes * 32, width)
        k += gpu.threadIdx.x
        top = none
        total = x.dtype.type(0)
        while form != 2 and k + 7 * lanes < end:
            a, b = x[row + k], x[row + k + lanes]
            c, d = x[row + k + 2 * lanes], x[row + k + 3 * lanes]
            e, f = x[row + k + 4 * lanes], x[row + k + 5 * lanes]
            g, h = x[row + k + 6 * lanes], x[row + k + 7 * lanes]
            top, total = four_joined(top, total, (a, b, c, d), form)
            top, total = four_joined(top, total, (e, f, g, h), form)
            k += 8 * lanes
        if form != 2 and k + 3 * lanes < end:
            a, b = x[row + k], x[row + k + lanes]
            c, d = x[row + k + 2 * lanes], x[row + k + 3 * lanes]
            top, total = four_joined(top, total, (a, b, c, d), form)
            k += 4 * lanes
        while k < end:
            a = x[row + k]
            if form == 2:
                a = limited(a, k, r, limits)
            top, total = four_joined(top, total, (a, none, none, none), form)
            k += lanes
        if not total < math.inf:
            total = x.dtype.type(math.inf)
        blocks[u * lanes + gpu.threadIdx.x] = bits_of(top) << 32 | bits_of(total)
        u += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "scores", alike(("f4",), 4))
