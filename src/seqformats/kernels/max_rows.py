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
    prefetch,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@in_lanes
def largest(
    x: Any,
    out: Any,
    p: int,
    at: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    least: int,
    ahead: int,
    one: int,
    count: int,
) -> Any:
    """The largest (least) items of some columns of a sequence, of which item 0 is at p, which go to ``out[at:]``."""
    best = load(x, p + along(0, steps, step) * width, count, x)
    t = one
    while t < length:
        place = p + along(t, steps, step) * width
        if count >= 32:
            prefetch(x, place + ahead, count)
        value = load(x, place, count, x)
        # NaN is beyond every number, and no number is beyond it
        better = value < best if least else value > best
        best = choose(better | (value != value), value, best)
        t += one
    store(out, at, best)
    return best


@in_lanes
def first_of_largest(
    x: Any,
    out: Any,
    places: Any,
    p: int,
    at: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    least: int,
    ahead: int,
    one: int,
    counter: Any,
    count: int,
) -> None:
    """`largest`, and the places of the first of equal ones, counted in the dtype of `counter`."""
    best = largest(x, out, p, at, steps, width, length, step, least, ahead, one, count)
    where = each(counter, 0, count)
    t = length - one
    while t >= 0:
        value = load(x, p + along(t, steps, step) * width, count, x)
        where = choose((value == best) | (value != value), each(counter, t, count), where)
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
    asked = places.size != 0
    one, ahead = unknown(1), max(8 * step * width, 1024)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        few = asked and length < 1 << 31  # narrow counters are fast ones
        k = 0
        while k < width:
            p, at, rest = first * width + k, i * width + k, width - k
            if length == 0:
                store(best, at, each(best, 0, 1))
                if asked:
                    store(where, at, each(where, -1, 1))
                k += 1
            elif few and rest >= 32:
                first_of_largest(
                    rows, best, where, p, at, steps, width, length, step, least, ahead, one, np.int32(0), 32
                )
                k += 32
            elif few and rest >= 4:
                first_of_largest(
                    rows, best, where, p, at, steps, width, length, step, least, ahead, one, np.int32(0), 4
                )
                k += 4
            elif asked:
                first_of_largest(
                    rows, best, where, p, at, steps, width, length, step, least, ahead, one, np.int64(0), 1
                )
                k += 1
            elif rest >= 64 and least == 0:  # with constants, or it would be too much for the compiler
                largest(rows, best, p, at, steps, width, length, step, 0, ahead, one, 64)
                k += 64
            elif rest >= 64:
                largest(rows, best, p, at, steps, width, length, step, 1, ahead, one, 64)
                k += 64
            elif rest >= 32:
                largest(rows, best, p, at, steps, width, length, step, least, ahead, one, 32)
                k += 32
            elif rest >= 4:
                largest(rows, best, p, at, steps, width, length, step, least, ahead, one, 4)
                k += 4
            else:
                largest(rows, best, p, at, steps, width, length, step, least, ahead, one, 1)
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
