"""Add up what `power_pieces` has found of the pieces of every sequence, column by column, to the same of the sequence.

``tops (pieces * width,)`` and ``totals``, of the pieces; ``pieces (n + 1,)`` how many there are before each sequence;
``top (n * width,)`` and `total`, of the sequences.  An infinite sum becomes NaN, as a softmax wants it.
"""

import math
from typing import TYPE_CHECKING

from .parts import CALCULATES, FLOATS, Array, Integers, KernelSpec, alike, compiled

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column, rescaling
    from .parts.gpu import gpu, natural, wide


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
    """All sequences, a thread a column of each; four pieces are on their way at a time."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < pieces.size - 1:
        first, end = pieces[i] * width, pieces[i + 1] * width
        k = first_column()
        while k < width and first < end:
            best = tops[first + k]
            place = first + k
            while place < end:
                best = max(best, tops[natural(place)])
                place += width
            powers = wide(tops.dtype.type(0))
            place = first + k
            while place + 3 * width < end:
                a, b = tops[natural(place)], tops[natural(place + width)]
                c, d = tops[natural(place + 2 * width)], tops[natural(place + 3 * width)]
                powers += wide(totals[natural(place)] * rescaling(tops, a, best))
                powers += wide(totals[natural(place + width)] * rescaling(tops, b, best))
                powers += wide(totals[natural(place + 2 * width)] * rescaling(tops, c, best))
                powers += wide(totals[natural(place + 3 * width)] * rescaling(tops, d, best))
                place += 4 * width
            while place < end:
                powers += wide(totals[natural(place)] * rescaling(tops, tops[natural(place)], best))
                place += width
            top[i * width + k] = best
            found = total.dtype.type(powers)
            total[i * width + k] = found + (found - found)
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", alike(FLOATS, 4))
