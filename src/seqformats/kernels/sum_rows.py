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
    at_most,
    columns_at_once,
    compiled,
    in_turn,
    locate,
    pointer,
    room,
    scratch,
    total,
    total_by_rows,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import column_sum, put_total, short_sum
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, natural


@compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    rows, sums, units = pointer(x), pointer(out), at.cum.size - 1
    at = pointer(at)
    count = 64 if width == 64 else columns_at_once(width)  # a row that the registers hold is read as it lies
    blocks, four = room(sums), scratch(sums)
    turn = in_turn(at.cum[units], width, x.itemsize, at.step)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        divisor = 0.0
        if mode != 0:
            divisor = float(length) if mode == 1 else math.sqrt(length)
        k = 0
        if width > 64:
            columns = Columns(first * width, length, width, at.steps, at.step)
            k = total_by_rows(rows, sums, blocks, four, columns, i * width, divisor, turn)
        while k < width:
            k = at_most(k, width - count)
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if count == 64:
                total(rows, sums, blocks, columns, place, divisor, 64)
            elif count == 32:
                total(rows, sums, blocks, columns, place, divisor, 32)
            elif count == 4:
                total(rows, sums, blocks, columns, place, divisor, 4)
            else:
                total(rows, sums, blocks, columns, place, divisor, 1)
            k += count


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
