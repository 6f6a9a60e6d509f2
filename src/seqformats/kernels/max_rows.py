"""The largest (or least) item of every sequence, column by column.

`x` holds the sequences in any layout, see `locate` for the arguments; ``out (n * width,)``.  NaN is beyond every
number.  An empty sequence gives zeros.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import (
    along,
    at_least,
    at_most,
    beyond,
    clear,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    in_lanes,
    larger,
    load,
    locate,
    mirrored,
    pointer,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@in_lanes
def largest(
    x: Any, out: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, least: int, one: int, count: int
) -> None:
    """The largest (least) items of some columns of a sequence, of which item 0 is at p, to ``out[at:]``."""
    best = mirrored(load(x, p + along(0, steps, step) * width, count, x), least)
    t = one
    while t < length:
        best = larger(best, mirrored(load(x, p + along(t, steps, step) * width, count, x), least))
        t += one
    store(out, at, mirrored(best, least))


@shared
def largest_by_rows(
    x: Any, out: Any, first: int, at: int, steps: Any, width: int, length: int, step: int, least: int
) -> int:
    """Those of the columns that 16 lanes can share, as wide rows are best read, four at a time; how many they are."""
    even = width & -16
    some = unknown(16)
    a = (first + along(0, steps, step)) * width
    k = 0
    while k < even:
        store(out, at + k, load(x, a + k, 16, x))
        k += some
    t = 1
    while t < length:
        # the last four may have been seen before
        t = at_most(t, at_least(length - 4, 0))
        a = (first + along(t, steps, step)) * width
        b = (first + along(at_most(t + 1, length - 1), steps, step)) * width
        c = (first + along(at_most(t + 2, length - 1), steps, step)) * width
        d = (first + along(at_most(t + 3, length - 1), steps, step)) * width
        k = 0
        while k < even:
            best = larger(mirrored(load(out, at + k, 16, x), least), mirrored(load(x, a + k, 16, x), least))
            best = larger(best, mirrored(load(x, b + k, 16, x), least))
            best = larger(best, mirrored(load(x, c + k, 16, x), least))
            best = larger(best, mirrored(load(x, d + k, 16, x), least))
            store(out, at + k, mirrored(best, least))
            k += some
        t += 4
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
    least: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    rows, best = pointer(x), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one, count = unknown(1), columns_at_once(width)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        if length == 0:
            clear(out, i * width, width * out.itemsize)
            k = width
        elif width >= 64:
            k = largest_by_rows(rows, best, first, i * width, steps, width, length, step, least)
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if count == 32:
                largest(rows, best, p, at, steps, width, length, step, least, one, 32)
            elif count == 4:
                largest(rows, best, p, at, steps, width, length, step, least, one, 4)
            else:
                largest(rows, best, p, at, steps, width, length, step, least, one, 1)
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
    least: int,
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    values = gpu.shared.array(128, x.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            values[place] = 0
            best = values[place]  # zero in the dtype of x
            if k < width and length != 0:
                # threads with no row of their own begin with the first, which does no harm
                best = x[(first + along(0, steps, step)) * width + k]
                t = gpu.threadIdx.y
                while t < length:
                    value = x[(first + along(t, steps, step)) * width + k]
                    if beyond(value, best, least):
                        best = value
                    t += gpu.blockDim.y
            values[place] = best
            gpu.syncthreads()
            half = gpu.blockDim.y >> 1
            while half > 0:
                if gpu.threadIdx.y < half and beyond(values[place + half * gpu.blockDim.x], values[place], least):
                    values[place] = values[place + half * gpu.blockDim.x]
                gpu.syncthreads()
                half >>= 1
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = values[place]
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
