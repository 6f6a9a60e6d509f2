"""Sum the rows of every sequence, column by column; or their mean, or sum / sqrt(length).

The order of summation is that of `parts.sums`.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  `mode`: 0 the sum, 1 the
mean, 2 divided by the square root of the length (Paddle's "sqrt").  An empty sequence gives zeros.
"""

import math

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    turn = p.in_turn(at.cum[at.cum.size - 1], width, x.itemsize, at.step)
    rows, sums, at = p.pointer(x), p.pointer(out), p.pointer(at)
    blocks, four = p.room(sums), p.scratch(sums)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        divisor = 0.0
        if mode != 0:
            divisor = float(columns.length) if mode == 1 else math.sqrt(columns.length)
        given = rows, sums, blocks, divisor
        k = 0
        if width > 64:
            k = p.total_by_rows(rows, sums, blocks, four, columns, i * width, divisor, turn)
        if width == 64:  # a row that the registers hold is read as it lies
            p.total(given, columns, i * width, 64)
        else:
            p.total_columns(given, columns, i * width, k, width)


@p.block_per_sequence
def cuda(x: Array, out: Array, at: Layout, mode: int, width: int, *, i: int, k: int, columns: Columns) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    The order of summation is that of the CPU, and so is the sum, bit for bit.
    """
    parts = p.natural(gpu.shared.array(128, out.dtype))
    total = p.column_sum(x, parts, k, columns)
    if gpu.threadIdx.y == 0 and k < width:
        p.put_total(out, i * width + k, total, columns.length, mode)


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, mode: int, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    p.put_total(out, i * width + k, p.short_sum(x, out, columns), columns.length, mode)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", (*p.SUMS, *p.MEANS), p.STREAMS, short, fours=True)
