"""Sum the rows of every sequence, column by column, in the order of the rows; or their mean, or sum / sqrt(length).

`x` holds the sequences in any layout, see `locate` for the arguments; ``out (n * width,)``.  `mode`: 0 the sum, 1 the
mean, 2 divided by the square root of the length (Paddle's "sqrt").  An empty sequence gives zeros.
"""

import math
from typing import TYPE_CHECKING, Any

from .._kernel import (
    along,
    at_most,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    each,
    in_lanes,
    load,
    locate,
    pointer,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, tree_sum


@in_lanes
def total(
    x: Any, out: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, mode: int, one: int, count: int
) -> None:
    """Some columns of a sequence, of which item 0 is at p: their sums (means, ...) to ``out[at:]``."""
    sums = each(out, 0, count)
    t = 0
    while t < length:
        sums += load(x, p + along(t, steps, step) * width, count, out)
        t += one
    if mode != 0 and length != 0:
        sums = sums / each(out, float(length) if mode == 1 else math.sqrt(length), count)
    store(out, at, sums)


@shared
def total_by_rows(x: Any, out: Any, first: int, at: int, steps: Any, width: int, length: int, step: int) -> int:
    """The sums of the columns that 16 lanes can share, four rows at a time, as wide ones are best read; how many."""
    even = width & -16
    some = unknown(16)
    k = 0
    while k < even:
        store(out, at + k, each(out, 0, 16))
        k += some
    t = 0
    while t + 4 <= length:
        a, b = (first + along(t, steps, step)) * width, (first + along(t + 1, steps, step)) * width
        c, d = (first + along(t + 2, steps, step)) * width, (first + along(t + 3, steps, step)) * width
        k = 0
        while k < even:
            sums = load(out, at + k, 16, out) + load(x, a + k, 16, out)
            sums += load(x, b + k, 16, out)
            sums += load(x, c + k, 16, out)
            sums += load(x, d + k, 16, out)
            store(out, at + k, sums)
            k += some
        t += 4
    while t < length:
        a = (first + along(t, steps, step)) * width
        k = 0
        while k < even:
            store(out, at + k, load(out, at + k, 16, out) + load(x, a + k, 16, out))
            k += some
        t += 1
    return even


@compiled
def cpu(
    x: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    mode: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    rows, sums = pointer(x), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one, count = unknown(1), columns_at_once(width)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        if width >= 64:
            even = total_by_rows(rows, sums, first, i * width, steps, width, length, step)
            while mode != 0 and length != 0 and k < even:
                number = float(length) if mode == 1 else math.sqrt(length)
                store(sums, i * width + k, load(sums, i * width + k, 16, sums) / each(sums, number, 16))
                k += 16
            k = even
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if count == 32:
                total(rows, sums, p, at, steps, width, length, step, mode, one, 32)
            elif count == 4:
                total(rows, sums, p, at, steps, width, length, step, mode, one, 4)
            else:
                total(rows, sums, p, at, steps, width, length, step, mode, one, 1)
            k += count


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    mode: int,
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    Thread y of a column adds up every so many rows, and the parts are added in pairs.  How many there are depends on
    the width alone, so the order of summation depends on the sequence alone.
    """
    parts = gpu.shared.array(128, out.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            parts[place] = 0
            total = parts[place]  # zero in the dtype of out
            if k < width:
                t = gpu.threadIdx.y
                while t < length:
                    total += x[(first + along(t, steps, step)) * width + k]
                    t += gpu.blockDim.y
            parts[place] = total
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
