"""Subtract, from every item of a sequence, the one before it; or the transpose of that.

With `back` 0, ``x`` holds whole sequences as `at` says, in blocks, and ``out (rows, width)`` their differences, those
of sequence i in rows ``cum[i]`` to ``cum[i + 1]``, one less than items.  With `back` 1, ``x`` holds numbers for such
differences, and ``out`` whole sequences: what each item adds to them.
"""

from . import parts as p
from .parts import Array, Integers, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, at: Layout, cum: Integers, back: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        count, begin = (cum[i + 1] - cum[i]) * width, cum[i] * width
        first *= width
        if back == 0:
            low, high, made = x[first : first + count], x[first + width : first + width + count], out[begin:][:count]
            for k in range(made.size):
                made[k] = high[k] - low[k]
        else:
            given, slopes = x[begin : begin + count], out[first : first + length * width]
            for k in range(slopes.size):
                slopes[k] = 0
            low, high = slopes[:count], slopes[slopes.size - count :]
            for k in range(count):
                high[k] = given[k]
            for k in range(count):
                low[k] -= given[k]


def cuda(x: Array, out: Array, at: Layout, cum: Integers, back: int, width: int) -> None:
    """All rows of whole sequences, a line of threads each."""
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, t, d = p.find(at, r)
        count, begin = cum[i + 1] - cum[i], cum[i]
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            if back == 0:
                if t < count:
                    out[(begin + t) * width + k] = x[(d + 1) * width + k] - x[d * width + k]
            else:
                total = out.dtype.type(0)
                if t > 0 and t <= count:
                    total = x[(begin + t - 1) * width + k]
                if t < count:
                    total -= x[(begin + t) * width + k]
                out[d * width + k] = total


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike((*p.NUMBERS, *p.COMPLEX), 2), p.STREAMS)
