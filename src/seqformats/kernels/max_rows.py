"""The largest (or least) item of every sequence, column by column, and its place.

`x` holds the sequences in any layout, see `locate` for the arguments; ``out (n * width,)``; ``places (n * width,)`` or
empty: the place in the sequence of the first of equal items.  NaN is beyond every number.  An empty sequence gives
zeros and place -1.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import (
    along,
    beyond,
    choose,
    compiled,
    compiled_for_cuda,
    each,
    in_lanes,
    load,
    locate,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@in_lanes
def further(value: Any, best: Any, least: int) -> Any:
    """The larger (lesser) of each lane; NaN is beyond every number, and no number is beyond it."""
    better = value < best if least else value > best
    return choose(better | (value != value), value, best)


@in_lanes
def largest(
    x: Any, out: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, least: int, one: int, count: int
) -> None:
    """The largest (least) items of some columns of a sequence, of which item 0 is at p, to ``out[at:]``."""
    best = load(x, p + along(0, steps, step) * width, count, x)
    t = one
    while t < length:
        best = further(load(x, p + along(t, steps, step) * width, count, x), best, least)
        t += one
    store(out, at, best)


@in_lanes
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
        t = min(t, max(length - 4, 0))
        a = (first + along(t, steps, step)) * width
        b = (first + along(min(t + 1, length - 1), steps, step)) * width
        c = (first + along(min(t + 2, length - 1), steps, step)) * width
        d = (first + along(min(t + 3, length - 1), steps, step)) * width
        k = 0
        while k < even:
            best = further(load(x, a + k, 16, x), load(out, at + k, 16, x), least)
            best = further(load(x, b + k, 16, x), best, least)
            best = further(load(x, c + k, 16, x), best, least)
            store(out, at + k, further(load(x, d + k, 16, x), best, least))
            k += some
        t += 4
    return even


@in_lanes
def first_of(
    x: Any,
    best: Any,
    places: Any,
    p: int,
    at: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    one: int,
    counter: Any,
    count: int,
) -> None:
    """Where the items ``best[at:]`` of some columns are found first, counted in the dtype of `counter`."""
    wanted = load(best, at, count, x)
    where = each(counter, 0, count)
    t = length - one
    while t >= 0:
        value = load(x, p + along(t, steps, step) * width, count, x)
        # where there is a NaN, it is wanted
        where = choose((value == wanted) | (value != value), each(counter, t, count), where)
        t -= one
    store(places, at, where)


@compiled
def cpu(
    x: Any,
    out: Any,
    places: Any,
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
    rows, best, where = pointer(x), pointer(out), pointer(places)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one = unknown(1)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        if width >= 64 and length != 0 and least:  # constants, for loops that compare in one way only
            k = largest_by_rows(rows, best, first, i * width, steps, width, length, step, 1)
        elif width >= 64 and length != 0:
            k = largest_by_rows(rows, best, first, i * width, steps, width, length, step, 0)
        while k < width:
            p, at, rest = first * width + k, i * width + k, width - k
            if length == 0:
                store(best, at, each(best, 0, 1))
                k += 1
            elif rest >= 32:
                largest(rows, best, p, at, steps, width, length, step, least, one, 32)
                k += 32
            elif rest >= 4:
                largest(rows, best, p, at, steps, width, length, step, least, one, 4)
                k += 4
            else:
                largest(rows, best, p, at, steps, width, length, step, least, one, 1)
                k += 1
        k = width if places.size == 0 else 0
        while k < width:
            p, at, rest = first * width + k, i * width + k, width - k
            if length == 0:
                store(where, at, each(where, -1, 1))
                k += 1
            elif rest >= 32 and length < 1 << 31:  # narrow counters are fast ones
                first_of(rows, best, where, p, at, steps, width, length, step, one, np.int32(0), 32)
                k += 32
            elif rest >= 4 and length < 1 << 31:
                first_of(rows, best, where, p, at, steps, width, length, step, one, np.int32(0), 4)
                k += 4
            else:
                first_of(rows, best, where, p, at, steps, width, length, step, one, np.int64(0), 1)
                k += 1


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    out: Any,
    places: Any,
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
    found = gpu.shared.array(128, cum.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            values[place] = 0
            best = values[place]  # zero in the dtype of x
            where = found[place]
            where = -1
            if k < width:
                t = gpu.threadIdx.y
                while t < length:
                    value = x[(first + along(t, steps, step)) * width + k]
                    if where < 0 or beyond(value, best, least):
                        best = value
                        where = t
                    t += gpu.blockDim.y
            values[place] = best
            found[place] = where
            gpu.syncthreads()
            half = gpu.blockDim.y >> 1
            while half > 0:
                if gpu.threadIdx.y < half:
                    other = place + half * gpu.blockDim.x
                    # of equal items the first: neither is beyond the other
                    if found[other] >= 0 and (
                        beyond(values[other], values[place], least)
                        or (found[other] < found[place] and not beyond(values[place], values[other], least))
                    ):
                        values[place] = values[other]
                        found[place] = found[other]
                gpu.syncthreads()
                half >>= 1
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = values[place]
                if places.size != 0:
                    places[i * width + k] = found[place]
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
