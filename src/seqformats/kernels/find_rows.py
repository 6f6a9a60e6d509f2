"""Where every sequence first has a given item, column by column: the places of maxima.

`x` holds the sequences in any layout, see `locate` for the arguments; ``wanted (n * width,)``, items that are there,
and their places ``out (n * width,)``, -1 for an empty sequence.  Where a column has a NaN, NaN is wanted.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import (
    along,
    at_most,
    choose,
    columns_at_once,
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
def first_place(
    x: Any,
    wanted: Any,
    out: Any,
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
    """Where some columns of a sequence have ``wanted[at:]``, counted in the dtype of `counter`."""
    items = load(wanted, at, count, x)
    where = each(counter, -1, count)
    t = length - one
    while t >= 0:
        value = load(x, p + along(t, steps, step) * width, count, x)
        where = choose((value == items) | (value != value), each(counter, t, count), where)
        t -= one
    store(out, at, where)


@compiled
def cpu(
    x: Any,
    wanted: Any,
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
    rows, items, where = pointer(x), pointer(wanted), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one = unknown(1)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        count = columns_at_once(width) if length < 1 << 31 else 1  # narrow counters are fast ones
        k = 0
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if count == 32:
                first_place(rows, items, where, p, at, steps, width, length, step, one, np.int32(0), 32)
            elif count == 4:
                first_place(rows, items, where, p, at, steps, width, length, step, one, np.int32(0), 4)
            else:
                first_place(rows, items, where, p, at, steps, width, length, step, one, np.int64(0), 1)
            k += count


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    wanted: Any,
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
    found = gpu.shared.array(128, cum.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            where = length
            if k < width:
                item = wanted[i * width + k]
                t = gpu.threadIdx.y
                while t < length and where == length:
                    value = x[(first + along(t, steps, step)) * width + k]
                    if value == item or value != value:
                        where = t
                    t += gpu.blockDim.y
            found[place] = where
            gpu.syncthreads()
            half = gpu.blockDim.y >> 1
            while half > 0:
                if gpu.threadIdx.y < half:
                    found[place] = min(found[place], found[place + half * gpu.blockDim.x])
                gpu.syncthreads()
                half >>= 1
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = found[place] if length != 0 else -1
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
