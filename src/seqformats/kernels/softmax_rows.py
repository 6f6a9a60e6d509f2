"""Softmax along every sequence, column by column, with the maximum taken out first; or its logarithm.

`x` and `out` hold the sequences in the same layout, see `locate` for the arguments; `log` is 1 for the logarithm.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import (
    add_block,
    along,
    at_least,
    at_most,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    each,
    exp,
    in_lanes,
    larger,
    load,
    locate,
    pointer,
    prefetch,
    room,
    rounded,
    store,
    unknown,
)
from .._kernel import log as logarithm

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import column_max, column_powers, gpu, ln


@in_lanes
def softmax(
    x: Any,
    out: Any,
    blocks: Any,
    p: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    log: int,
    ahead: int,
    one: int,
    count: int,
) -> None:
    """Some columns of a sequence, of which item 0 is at p."""
    top = load(x, p + along(0, steps, step) * width, count, out)
    t = one
    while t < length:
        d = p + along(t, steps, step) * width
        if count >= 32:
            prefetch(x, d + ahead, count)
        value = load(x, d, count, out)
        top = larger(top, value)
        t += one
    total = each(out, 0, count)
    t = 0
    end = at_most(length, 8)
    while True:
        part = each(out, 0, count)
        while t < end:
            d = p + along(t, steps, step) * width
            value = load(x, d, count, out) - top
            power = exp(value)
            part += power
            store(out, d, value if log else power)
            t += one
        total += part
        if end == length:
            break
        if end & 63 == 0:
            add_block(blocks, total, end == 64)
            total = each(out, 0, count)
        end = at_most(end + 8, length)
    if length > 64:
        total = rounded(blocks, total)
    shift = logarithm(total) if log else total
    t = 0
    while t < length:
        d = p + along(t, steps, step) * width
        value = load(out, d, count, out)
        store(out, d, value - shift if log else value / shift)
        t += one


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
    log: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    rows, to = pointer(x), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    blocks = room(to)
    one, count, ahead = unknown(1), columns_at_once(width, 8), at_least(8 * step * width, 1024)
    for u in range(lo, hi):
        _, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        while k < width and length != 0:
            k = at_most(k, width - count)
            p = first * width + k
            if count == 32:
                softmax(rows, to, blocks, p, steps, width, length, step, log, ahead, one, 32)
            elif count == 8:
                softmax(rows, to, blocks, p, steps, width, length, step, log, ahead, one, 8)
            elif count == 4:
                softmax(rows, to, blocks, p, steps, width, length, step, log, ahead, one, 4)
            else:
                softmax(rows, to, blocks, p, steps, width, length, step, log, ahead, one, 1)
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
    log: int,
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    parts = gpu.shared.array(128, x.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        _, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            top = column_max(x, parts, place, k, first, length, steps, width, step)
            total = column_powers(x, parts, place, k, first, length, steps, width, step, top)
            if k < width:
                shift = ln(total) if log else total
                t = gpu.threadIdx.y
                while t < length:
                    d = (first + along(t, steps, step)) * width + k
                    out[d] = x[d] - top - shift if log else exp(x[d] - top) / shift
                    t += gpu.blockDim.y
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
