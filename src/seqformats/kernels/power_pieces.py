"""Add up the powers of a softmax, of every piece of long sequences, column by column; see `operations.pieces`.

`x` holds the pieces in blocks, see `Layout`; ``tops (pieces * width,)`` are numbers near their largest items, `totals`
the sums of ``exp(item - top)``.  The top of -inf alone is the lowest finite number.
"""

import math

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, tops: Array, totals: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Pieces `lo` to `hi`, number by number."""
    lowest = x.dtype.type(-1.7976931348623157e308 if x.itemsize == 8 else -3.4028234663852886e38)
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        for k in range(width):
            top = lowest
            for t in range(length):
                item = x[(first + t) * width + k]
                if item > top and item < math.inf:
                    top = item
            total = 0.0
            for t in range(length):
                item = x[(first + t) * width + k]
                total += math.inf if item == math.inf else math.exp(item - top)
            tops[i * width + k] = top
            totals[i * width + k] = total


@p.block_per_sequence(step="1")
def cuda(
    x: Array, tops: Array, totals: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns, slot: int
) -> None:
    """All pieces, a block each; see `softmax_rows` for its threads."""
    parts = p.natural(gpu.shared.array(128, x.dtype))
    top, total = p.column_powers(x, parts, slot, k, columns)
    if gpu.threadIdx.y == 0 and k < width:
        tops[i * width + k] = top
        totals[i * width + k] = total


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 3))
