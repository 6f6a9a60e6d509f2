"""The gradient of the softmax of every sequence, or of its logarithm, of the sums of the pieces; see `slope_pieces`.

``totals (n * width,)`` are those of the sequences; `x`, `y` and `out` hold these in the same layout, see `Layout`.
"""

import math
from typing import TYPE_CHECKING

from .parts import CALCULATES, FLOATS, Array, Columns, KernelSpec, Layout, alike, compiled, item_at, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import softmax_slope
    from .parts.device import first_of_line, four_rows, word_of_line


@compiled
def cpu(totals: Array, x: Array, y: Array, out: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`, number by number."""
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        for k in range(width):
            columns, total = Columns(first * width + k, length, width, at.steps, at.step), totals[i * width + k]
            for t in range(length):
                d = item_at(columns, t)
                out[d] = x[d] - math.exp(y[d]) * total if log else y[d] * (x[d] - total)


def cuda(totals: Array, x: Array, y: Array, out: Array, at: Layout, log: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = first_of_line(), word_of_line()
    if r < at.cum[at.cum.size - 1] and k < width:
        (i0, _, row0), (i1, _, row1), (i2, _, row2), (i3, _, row3) = four_rows(at, r)
        a, b = x[row0 * width + k], x[row1 * width + k]
        c, d = x[row2 * width + k], x[row3 * width + k]
        e, f = y[row0 * width + k], y[row1 * width + k]
        g, h = y[row2 * width + k], y[row3 * width + k]
        out[row0 * width + k] = softmax_slope(a, e, totals[i0 * width + k], log)
        out[row1 * width + k] = softmax_slope(b, f, totals[i1 * width + k], log)
        out[row2 * width + k] = softmax_slope(c, g, totals[i2 * width + k], log)
        out[row3 * width + k] = softmax_slope(d, h, totals[i3 * width + k], log)


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "lines", alike(FLOATS, 4))
