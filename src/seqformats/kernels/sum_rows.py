"""Sum the rows of every sequence, column by column; or their mean, or sum / sqrt(length).

The order of summation is that of `parts.sums`.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  `mode`: 0 the sum, 1 the
mean, 2 divided by the square root of the length (Paddle's "sqrt").  An empty sequence gives zeros.
"""

import math
from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    MEANS,
    STREAMS,
    SUMS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    columns_of,
    compiled,
    in_turn,
    locate,
    pointer,
    room,
    scratch,
    total,
    total_by_rows,
    total_columns,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import column_sum, put_total, short_sum
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, natural


@compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    turn = in_turn(at.cum[at.cum.size - 1], width, x.itemsize, at.step)
    rows, sums, at = pointer(x), pointer(out), pointer(at)
    blocks, four = room(sums), scratch(sums)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        divisor = 0.0
        if mode != 0:
            divisor = float(columns.length) if mode == 1 else math.sqrt(columns.length)
        given = rows, sums, blocks, divisor
        k = 0
        if width > 64:
            k = total_by_rows(rows, sums, blocks, four, columns, i * width, divisor, turn)
        if width == 64:  # a row that the registers hold is read as it lies
            total(given, columns, i * width, 64)
        else:
            total_columns(given, columns, i * width, k, width)


def cuda(x: Array, out: Array, at: Layout, mode: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    The order of summation is that of the CPU, and so is the sum, bit for bit.
    """
    parts = natural(gpu.shared.array(128, out.dtype))
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other in `column_sum`
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            total = column_sum(x, parts, k, columns)
            if gpu.threadIdx.y == 0 and k < width:
                put_total(out, i * width + k, total, length, mode)
            column += columns_of_grid()
        u += gpu.gridDim.x


def short(x: Array, out: Array, at: Layout, mode: int, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            put_total(out, i * width + k, short_sum(x, out, columns), length, mode)
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", (*SUMS, *MEANS), STREAMS, short, fours=True)
