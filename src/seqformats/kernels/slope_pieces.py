"""Add up the slopes of a softmax, of every piece of long sequences, column by column; see `operations.pieces`.

`x`, the gradients, and `y`, the softmax or its logarithm, hold the pieces in the same blocks, see `Layout`; ``parts
(pieces * width,)`` are the sums of ``x * y``, or where `log` is 1 of `x`.
"""

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, y: Array, parts: Array, at: Layout, log: int, width: int, lo: int, hi: int) -> None:
    """Pieces `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        for k in range(width):
            total = 0.0
            for t in range(first, first + length):
                total += x[t * width + k] if log else x[t * width + k] * y[t * width + k]
            parts[i * width + k] = total


@p.block_per_sequence(step="1")
def cuda(
    x: Array, y: Array, parts: Array, at: Layout, log: int, width: int, *, i: int, k: int, columns: Columns, slot: int
) -> None:
    """All pieces, a block each; see `softmax_back` for its threads."""
    sums = p.natural(gpu.shared.array(128, x.dtype))
    total = p.column_slopes(x, y, sums, slot, k, columns, log)
    if gpu.threadIdx.y == 0 and k < width:
        parts[i * width + k] = total


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.FLOATS, 3))
