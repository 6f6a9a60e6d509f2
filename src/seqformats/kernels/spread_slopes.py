"""The gradient of the softmax of every sequence, or of its logarithm, of the sums of the pieces; see `slope_pieces`.

``totals (n * width,)`` are those of the sequences; `x`, `y` and `out` hold these in the same layout, see `Layout`.
"""

import math

from . import parts as p
from .parts import Array, Columns, Layout


@p.compiled
def cpu(totals: Array, x: Array, y: Array, out: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`, number by number."""
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for k in range(width):
            columns, total = Columns(first * width + k, length, width, at.steps, at.step), totals[i * width + k]
            for t in range(length):
                d = p.item_at(columns, t)
                out[d] = x[d] - math.exp(y[d]) * total if log else y[d] * (x[d] - total)


def cuda(totals: Array, x: Array, y: Array, out: Array, at: Layout, log: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = p.first_of_line(), p.word_of_line()
    if r < at.cum[at.cum.size - 1] and k < width:
        (i0, _, row0), (i1, _, row1), (i2, _, row2), (i3, _, row3) = p.four_rows(at, r)
        a, b = x[row0 * width + k], x[row1 * width + k]
        c, d = x[row2 * width + k], x[row3 * width + k]
        e, f = y[row0 * width + k], y[row1 * width + k]
        g, h = y[row2 * width + k], y[row3 * width + k]
        out[row0 * width + k] = p.softmax_slope(a, e, totals[i0 * width + k], log)
        out[row1 * width + k] = p.softmax_slope(b, f, totals[i1 * width + k], log)
        out[row2 * width + k] = p.softmax_slope(c, g, totals[i2 * width + k], log)
        out[row3 * width + k] = p.softmax_slope(d, h, totals[i3 * width + k], log)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "lines", p.alike(p.FLOATS, 4))
