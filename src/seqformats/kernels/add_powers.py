"""Add up what `power_pieces` has found of the pieces of every sequence, column by column, to the same of the sequence.

``tops (pieces * width,)`` and ``totals``, of the pieces; ``pieces (n + 1,)`` how many there are before each sequence;
``top (n * width,)`` and `total`, of the sequences.  An infinite sum becomes NaN, as a softmax wants it.
"""

import math
from typing import TYPE_CHECKING

from .parts import CALCULATES, FLOATS, Array, Integers, KernelSpec, alike, compiled

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import eight_from, rescaling
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu, wide


@compiled
def cpu(tops: Array, totals: Array, top: Array, total: Array, pieces: Integers, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        first, end = pieces[i], pieces[i + 1]
        for k in range(width):
            best, powers = -math.inf, 0.0
            for piece in range(first, end):
                best = max(best, tops[piece * width + k])
            for piece in range(first, end):
                powers += totals[piece * width + k] * math.exp(max(tops[piece * width + k] - best, -80.0))
            top[i * width + k] = best
            total[i * width + k] = powers + (powers - powers)


def cuda(tops: Array, totals: Array, top: Array, total: Array, pieces: Integers, width: int) -> None:
    """All sequences, a thread a column of each; eight pieces are on their way at a time."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < pieces.size - 1:
        first, end = pieces[i] * width, pieces[i + 1] * width
        k = first_column()
        while k < width and first < end:
            best = tops[first + k]
            place = first + k
            while place + 7 * width < end:
                a, b, c, d, e, f, g, h = eight_from(tops, place, width)
                best = max(best, max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h))))
                place += 8 * width
            while place < end:
                best = max(best, tops[place])
                place += width
            powers = wide(tops.dtype.type(0))
            place = first + k
            while place + 7 * width < end:
                a, b, c, d, e, f, g, h = eight_from(tops, place, width)
                j, m, n, o, p, q, r, s = eight_from(totals, place, width)
                powers += wide(j * rescaling(tops, a, best))
                powers += wide(m * rescaling(tops, b, best))
                powers += wide(n * rescaling(tops, c, best))
                powers += wide(o * rescaling(tops, d, best))
                powers += wide(p * rescaling(tops, e, best))
                powers += wide(q * rescaling(tops, f, best))
                powers += wide(r * rescaling(tops, g, best))
                powers += wide(s * rescaling(tops, h, best))
                place += 8 * width
            while place < end:
                powers += wide(totals[place] * rescaling(tops, tops[place], best))
                place += width
            top[i * width + k] = best
            found = total.dtype.type(powers)
            total[i * width + k] = found + (found - found)
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", alike(FLOATS, 4))
