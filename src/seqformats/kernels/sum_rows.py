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
    item_at,
    locate,
    pointer,
    room,
    scratch,
    total,
    total_by_rows,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import four_of, tree_sum
    from .parts.gpu import gpu, natural, wide


@compiled
def cpu(x: Array, out: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    rows, sums, units = pointer(x), pointer(out), at.cum.size - 1
    at = pointer(at)
    count, blocks, four = columns_at_once(width), room(sums), scratch(sums)
    turn = in_turn(at.cum[units], width, x.itemsize, at.step)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        divisor = 0.0
        if mode != 0:
            divisor = float(length) if mode == 1 else math.sqrt(length)
        k = 0
        if width >= 64:
            columns = Columns(first * width, length, width, at.steps, at.step)
            k = total_by_rows(rows, sums, blocks, four, columns, i * width, divisor, turn)
        while k < width:
            k = at_most(k, width - count)
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if count == 32:
                total(rows, sums, blocks, columns, place, divisor, 32)
            elif count == 4:
                total(rows, sums, blocks, columns, place, divisor, 4)
            else:
                total(rows, sums, blocks, columns, place, divisor, 1)
            k += count


def cuda(x: Array, out: Array, at: Layout, mode: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    Thread y of a column adds up every so many rows, eight at a time and these sums in float64 where they are float32,
    and the parts are added in pairs.  How many there are depends on the width alone, so the order of summation depends
    on the sequence alone.  Of positive float32 the sum is wrong by at most 15 / 2**24: 7 additions of eight rows, a
    rounding, 7 pairs.
    """
    parts = gpu.shared.array(128, out.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            parts[place] = 0
            total = parts[place]  # zero in the dtype of out
            blocks = wide(total)
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            if k < width:
                t = gpu.threadIdx.y
                taken = 0
                while t + 3 * gpu.blockDim.y < length:
                    a, b, c, d = four_of(x, columns, t)
                    total += a
                    total += b
                    total += c
                    total += d
                    t += 4 * gpu.blockDim.y
                    taken += 4
                    if taken & 7 == 0:
                        blocks += wide(total)
                        total = parts[place]
                while t < length:
                    total += x[natural(item_at(columns, t))]
                    t += gpu.blockDim.y
                    taken += 1
                    if taken & 7 == 0:
                        blocks += wide(total)
                        total = parts[place]
            parts[place] = blocks + wide(total)
            tree_sum(parts, place)
            if gpu.threadIdx.y == 0 and k < width:
                number = out.dtype.type(length)  # an integer would divide in float64
                if mode == 2:
                    number = out.dtype.type(math.sqrt(number))
                if mode != 0 and length != 0:
                    out[i * width + k] = parts[place] / number
                else:  # not one expression with the other: integers would pass through float64
                    out[i * width + k] = parts[place]
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", (*SUMS, *MEANS), STREAMS)
