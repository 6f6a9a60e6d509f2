"""The gradient of softmax along every sequence, ``y * (x - sum(x * y))``, or of its logarithm, ``x - exp(y) * sum(x)``.

`x`, the gradient, `y`, the result, and `out` hold the sequences in the same layout, see `locate` for the arguments;
`log` is 1 for the logarithm.

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
    load,
    locate,
    pointer,
    prefetch,
    room,
    rounded,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, tree_sum, wide


@in_lanes
def back_few(
    x: Any, y: Any, out: Any, p: int, steps: Any, width: int, length: int, step: int, log: int, one: int, count: int
) -> None:
    """Some columns of a sequence of up to 8 rows, of which item 0 is at p: the same as `back`, for less."""
    total = each(out, 0, count)
    t = 0
    while t < length:
        d = p + along(t, steps, step) * width
        slope = load(x, d, count, out)
        total += slope if log else slope * load(y, d, count, out)
        t += one
    t = 0
    while t < length:
        d = p + along(t, steps, step) * width
        slope, row = load(x, d, count, out), load(y, d, count, out)
        store(out, d, slope - exp(row) * total if log else row * (slope - total))
        t += one


@in_lanes
def back(
    x: Any,
    y: Any,
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
    total = each(out, 0, count)
    t = 0
    end = at_most(length, 8)
    while True:
        part = each(out, 0, count)
        while t < end:
            d = p + along(t, steps, step) * width
            if count >= 32:
                prefetch(x, d + ahead, count)
                if not log:
                    prefetch(y, d + ahead, count)
            slope = load(x, d, count, out)
            part += slope if log else slope * load(y, d, count, out)
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
    t = 0
    while t < length:
        d = p + along(t, steps, step) * width
        slope, row = load(x, d, count, out), load(y, d, count, out)
        store(out, d, slope - exp(row) * total if log else row * (slope - total))
        t += one


@shared
def back_by_rows(
    x: Any, y: Any, out: Any, blocks: Any, first: int, steps: Any, width: int, length: int, step: int, log: int
) -> int:
    """The columns that 16 lanes can share, some rows at a time, as wide ones are best read and written; how many.

    `blocks` is a `room`, so many columns are taken at once.  The last row of `out` keeps sums until its turn comes.
    """
    even = width & -16
    one, some = unknown(1), unknown(16)
    begin = 0
    while begin < even:
        size = at_most(even - begin, 1024)
        last = (first + along(length - 1, steps, step)) * width + begin
        t = 0
        while t < length:
            end = at_most(t + 8, length)
            k = 0
            while k < size:
                part = each(out, 0, 16)
                r = t
                while r < end:
                    d = (first + along(r, steps, step)) * width + begin + k
                    slope = load(x, d, 16, out)
                    part += slope if log else slope * load(y, d, 16, out)
                    r += one
                if t & 63 != 0:
                    part += load(out, last + k, 16, out)
                store(out, last + k, part)
                k += some
            t = end
            k = 0
            while t & 63 == 0 and k < size:
                block = load(out, last + k, 16, blocks)
                if t != 64:
                    block += load(blocks, k, 16, blocks)
                store(blocks, k, block)
                k += some
        k = 0
        while length >= 64 and k < size:
            block = load(blocks, k, 16, blocks)
            if length & 63 != 0:
                block += load(out, last + k, 16, blocks)
            store(out, last + k, block)
            k += some
        for t in range(length):
            d = (first + along(t, steps, step)) * width + begin
            k = 0
            while k < size:
                slope, row, total = load(x, d + k, 16, out), load(y, d + k, 16, out), load(out, last + k, 16, out)
                store(out, d + k, slope - exp(row) * total if log else row * (slope - total))
                k += some
        begin += size
    return even


@compiled
def cpu(
    x: Any,
    y: Any,
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
    slopes, rows, to = pointer(x), pointer(y), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    blocks = room(to)
    one, count, ahead = unknown(1), columns_at_once(width, 8), at_least(8 * step * width, 1024)
    for u in range(lo, hi):
        _, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        if width >= 256 and length != 0:
            k = back_by_rows(slopes, rows, to, blocks, first, steps, width, length, step, log)
        while k < width:
            k = at_most(k, width - count)
            p = first * width + k
            if length <= 8 and count == 4:
                back_few(slopes, rows, to, p, steps, width, length, step, log, one, 4)
            elif count == 32:
                back(slopes, rows, to, blocks, p, steps, width, length, step, log, ahead, one, 32)
            elif count == 8:
                back(slopes, rows, to, blocks, p, steps, width, length, step, log, ahead, one, 8)
            elif count == 4:
                back(slopes, rows, to, blocks, p, steps, width, length, step, log, ahead, one, 4)
            else:
                back(slopes, rows, to, blocks, p, steps, width, length, step, log, ahead, one, 1)
            k += count


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    y: Any,
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
            parts[place] = 0
            total = parts[place]  # zero in the dtype of x
            blocks = wide(total)
            if k < width:
                t = gpu.threadIdx.y
                taken = 0
                while t < length:
                    d = (first + along(t, steps, step)) * width + k
                    total += x[d] if log else x[d] * y[d]
                    t += gpu.blockDim.y
                    taken += 1
                    if taken & 7 == 0:
                        blocks += wide(total)
                        total = parts[place]
            parts[place] = blocks + wide(total)
            tree_sum(parts, place)
            total = parts[gpu.threadIdx.x]
            if k < width:
                t = gpu.threadIdx.y
                while t < length:
                    d = (first + along(t, steps, step)) * width + k
                    out[d] = x[d] - exp(y[d]) * total if log else y[d] * (x[d] - total)
                    t += gpu.blockDim.y
            gpu.syncthreads()
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
