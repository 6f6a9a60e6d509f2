"""The best of every 32 scores of a row on a GPU, and what their exponentials add up to; see `best_tokens`.

A row falls into chunks of 32 scores for each thread of a block, `lanes` of them.  Scores that lie `lanes` apart in a
chunk are a group: one thread reads them, all threads side by side.  ``blocks[r * chunks * lanes + g]`` has two float32
of group g of row r: above the largest score, -inf where there is none, below the sum of ``exp(score - largest)``,
infinite where one is NaN or +inf.  Where `form` is 2 limits act on the other scores before.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..beam.rows import Limits
from .parts import CALCULATES, Array, Integers, KernelSpec, alike, compiled, exp, limited, shared
from .parts.columns import LARGEST

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import eight_from
    from .parts.gpu import bits_of, gpu, greater, quick_exp


@shared
def group_of(x: Array, row: int, k: int, end: int, by: int, r: int, limits: Limits, form: int) -> Any:
    """The largest of every so many scores of a row from the k-th on, and the sum of exponentials below it."""
    none, infinite = np.float32(-math.inf), np.float32(math.inf)
    top, total = none, np.float32(0)
    while k < end:
        value = x[row + k]
        if form == 2 and value < infinite:  # what is bad stays so
            value = limited(value, k, r, limits)
        if not value < infinite:
            total = infinite
        elif value > top:
            total = total * exp(top - value) + np.float32(1)
            top = value
        elif value > none:
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
def eight_joined(top: Any, total: Any, eight: Any) -> Any:
    """The largest score so far, or the least float32, and the sum of exponentials below it, with eight more.

    The sum becomes NaN with a score that is NaN or +inf, and stays it.
    """
    a, b, c, d, e, f, g, h = eight
    high = greater(greater(greater(a, b), greater(c, d)), greater(greater(e, f), greater(g, h)))
    best = greater(top, high)
    total = total * quick_exp(top - best)
    total += (quick_exp(a - best) + quick_exp(b - best)) + (quick_exp(c - best) + quick_exp(d - best))
    total += (quick_exp(e - best) + quick_exp(f - best)) + (quick_exp(g - best) + quick_exp(h - best))
    return best, total


@shared
def up_to_eight(x: Array, row: int, k: int, end: int, by: int) -> Any:
    """Every so many scores of a row from the k-th on, and -inf in place of those behind the end."""
    none = np.float32(-math.inf)
    a = x[row + k]
    b = x[row + k + by] if k + by < end else none
    c = x[row + k + 2 * by] if k + 2 * by < end else none
    d = x[row + k + 3 * by] if k + 3 * by < end else none
    e = x[row + k + 4 * by] if k + 4 * by < end else none
    f = x[row + k + 5 * by] if k + 5 * by < end else none
    g = x[row + k + 6 * by] if k + 6 * by < end else none
    return a, b, c, d, e, f, g, none


@shared
def one_joined(top: Any, total: Any, score: Any) -> Any:
    """The same with one more."""
    best = greater(top, score)
    return best, total * quick_exp(top - best) + quick_exp(score - best)


def cuda(x: Array, blocks: Integers, limits: Limits, form: int, chunks: int, width: int) -> None:
    """All chunks, a block each; a thread has eight scores of its group on their way at a time."""
    lanes = gpu.blockDim.x
    least = x.dtype.type(-LARGEST)
    u = gpu.blockIdx.x
    while u * lanes < blocks.size:
        r = int(np.uint32(u) // np.uint32(chunks))  # which takes a GPU a quarter of the time for numbers of 32 bits
        row = r * width
        k = (u - r * chunks) * lanes * 32
        end = min(k + lanes * 32, width)
        k += gpu.threadIdx.x
        top = least
        total = x.dtype.type(0)
        while form != 2 and k + 7 * lanes < end:
            top, total = eight_joined(top, total, eight_from(x, row + k, lanes))
            k += 8 * lanes
        if form != 2 and k < end:
            top, total = eight_joined(top, total, up_to_eight(x, row, k, end, lanes))
        while form == 2 and k < end:
            score = x[row + k]
            if score < math.inf:  # what is bad stays so
                score = limited(score, k, r, limits)
            top, total = one_joined(top, total, score)
            k += lanes
        if total == 0:  # which no power beside the largest score leaves
            top = x.dtype.type(-math.inf)
        if not total < math.inf:
            total = x.dtype.type(math.inf)
        blocks[u * lanes + gpu.threadIdx.x] = bits_of(top) << 32 | bits_of(total)
        u += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "scores", alike(("f4",), 4))
