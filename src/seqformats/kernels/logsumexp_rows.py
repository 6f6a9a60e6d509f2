"""The logarithm of the sum of exponentials of every sequence, column by column, with the maximum taken out first.

`x` holds the sequences in any layout, see `locate` for the arguments; ``out (n * width,)``.  An empty
sequence gives -inf.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

import math
from typing import TYPE_CHECKING, Any

from .._kernel import (
    add_block,
    along,
    at_least,
    at_most,
    choose,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    each,
    exp,
    in_lanes,
    larger,
    load,
    locate,
    log,
    pointer,
    prefetch,
    room,
    rounded,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import column_max, column_powers, gpu, ln


@in_lanes
def logsumexp_few(
    x: Any, out: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, one: int, count: int
) -> None:
    """Some columns of a sequence of up to 8 rows, of which item 0 is at p: the same as `logsumexp`, for less."""
    top = load(x, p + along(0, steps, step) * width, count, out)
    t = one
    while t < length:
        top = larger(top, load(x, p + along(t, steps, step) * width, count, out))
        t += one
    infinite = (top == each(out, math.inf, count)) | (top == each(out, -math.inf, count))
    top = choose(infinite, each(out, 0, count), top)
    total = each(out, 0, count)
    t = 0
    while t < length:
        total += exp(load(x, p + along(t, steps, step) * width, count, out) - top)
        t += one
    store(out, at, top + log(total))


@in_lanes
def logsumexp(
    x: Any,
    out: Any,
    blocks: Any,
    p: int,
    at: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    ahead: int,
    one: int,
    count: int,
) -> None:
    """Some columns of a sequence, of which item 0 is at p, to ``out[at:]``."""
    top = load(x, p + along(0, steps, step) * width, count, out)
    t = one
    while t < length:
        place = p + along(t, steps, step) * width
        if count >= 32:
            prefetch(x, place + ahead, count)
        value = load(x, place, count, out)
        top = larger(top, value)
        t += one
    infinite = (top == each(out, math.inf, count)) | (top == each(out, -math.inf, count))
    top = choose(infinite, each(out, 0, count), top)  # inf - inf would be NaN
    total = each(out, 0, count)
    t = 0
    end = at_most(length, 8)
    while True:
        part = each(out, 0, count)
        while t < end:
            part += exp(load(x, p + along(t, steps, step) * width, count, out) - top)
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
    store(out, at, top + log(total))


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
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    rows, logs = pointer(x), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    blocks = room(logs)
    one, count, ahead = unknown(1), columns_at_once(width, 8), at_least(8 * step * width, 1024)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        while k < width and length == 0:
            store(logs, i * width + k, each(logs, -math.inf, 1))
            k += 1
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if length <= 8 and count == 4:
                logsumexp_few(rows, logs, p, at, steps, width, length, step, one, 4)
            elif count == 32:
                logsumexp(rows, logs, blocks, p, at, steps, width, length, step, ahead, one, 32)
            elif count == 8:
                logsumexp(rows, logs, blocks, p, at, steps, width, length, step, ahead, one, 8)
            elif count == 4:
                logsumexp(rows, logs, blocks, p, at, steps, width, length, step, ahead, one, 4)
            else:
                logsumexp(rows, logs, blocks, p, at, steps, width, length, step, ahead, one, 1)
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
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    parts = gpu.shared.array(128, x.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            top = column_max(x, parts, place, k, first, length, steps, width, step)
            if math.isinf(top):
                top = out.dtype.type(0)  # inf - inf would be NaN
            total = column_powers(x, parts, place, k, first, length, steps, width, step, top)
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = top + ln(total)
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
