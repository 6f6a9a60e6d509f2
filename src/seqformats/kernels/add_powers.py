"""Add up what `power_pieces` has found of the pieces of every sequence, column by column, to the same of the sequence.

``tops (pieces * width,)`` and ``totals``, of the pieces; ``pieces (n + 1,)`` how many there are before each sequence;
``top (n * width,)`` and `total`, of the sequences.  An infinite sum becomes NaN, as a softmax wants it.
"""

import math

from . import parts as p
from .parts import Array, Integers


@p.compiled
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
    for i in range(p.first_unit(), pieces.size - 1, p.units_of_grid()):
        first, end = pieces[i] * width, pieces[i + 1] * width
        k = p.first_column()
        while k < width and first < end:
            best = tops[first + k]
            place = first + k
            while place + 7 * width < end:
                a, b, c, d, e, f, g, h = p.eight_from(tops, place, width)
                best = max(best, max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h))))
                place += 8 * width
            while place < end:
                best = max(best, tops[place])
                place += width
            powers = p.wide(tops.dtype.type(0))
            place = first + k
            while place + 7 * width < end:
                a, b, c, d, e, f, g, h = p.eight_from(tops, place, width)
                j, m, n, o, spot, q, r, s = p.eight_from(totals, place, width)
                powers += p.wide(j * p.rescaling(tops, a, best))
                powers += p.wide(m * p.rescaling(tops, b, best))
                powers += p.wide(n * p.rescaling(tops, c, best))
                powers += p.wide(o * p.rescaling(tops, d, best))
                powers += p.wide(spot * p.rescaling(tops, e, best))
                powers += p.wide(q * p.rescaling(tops, f, best))
                powers += p.wide(r * p.rescaling(tops, g, best))
                powers += p.wide(s * p.rescaling(tops, h, best))
                place += 8 * width
            while place < end:
                powers += p.wide(totals[place] * p.rescaling(tops, tops[place], best))
                place += width
            top[i * width + k] = best
            found = total.dtype.type(powers)
            total[i * width + k] = found + (found - found)
            k += p.columns_of_grid()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 4))
