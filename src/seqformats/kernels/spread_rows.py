"""Give every row of a sequence the sequence's own row, scaled: the gradient of a mean, and of sum / sqrt(length).

``x (n * width,)``; `out` holds the sequences in any layout, see `locate` for the arguments.  For `mode` see `sum_rows`.
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
    move,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


@in_lanes
def spread(
    x: Any,
    out: Any,
    p: int,
    at: int,
    steps: Any,
    width: int,
    length: int,
    alike: int,
    step: int,
    mode: int,
    one: int,
    count: int,
) -> None:
    """Some columns of ``x[at:]``, scaled, to the first `alike` rows of a sequence, of which item 0 is at p."""
    row = load(x, at, count, x) / each(x, float(length) if mode == 1 else math.sqrt(length), count)
    t = 0
    while t < alike:
        store(out, p + along(t, steps, step) * width, row)
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
    mode: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    row, rows = pointer(x), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one, count = unknown(1), columns_at_once(width, 8)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        # wide rows are best written one after the other: the first from here, the others from that
        alike = 1 if width >= 256 and length != 0 else length
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if count == 32:
                spread(row, rows, p, at, steps, width, length, alike, step, mode, one, 32)
            elif count == 8:
                spread(row, rows, p, at, steps, width, length, alike, step, mode, one, 8)
            elif count == 4:
                spread(row, rows, p, at, steps, width, length, alike, step, mode, one, 4)
            else:
                spread(row, rows, p, at, steps, width, length, alike, step, mode, one, 1)
            k += count
        for t in range(alike, length):
            d, begin = first + along(t, steps, step), first + along(0, steps, step)
            move(out, d * width, out, begin * width, width * out.itemsize)


@compiled_for_cuda(over="rows")
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
    """All rows, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i, _, d = find(starts, cum, steps, r, stride, left, step)
        number = x.dtype.type(cum[i + 1] - cum[i])  # an integer would divide in float64
        if mode == 2:
            number = x.dtype.type(math.sqrt(number))
        k = gpu.threadIdx.x
        while k < width:
            out[d * width + k] = x[i * width + k] / number
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
