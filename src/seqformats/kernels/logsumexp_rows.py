"""The logarithm of the sum of exponentials of every sequence, column by column, with the maximum taken out first.

`x` holds the sequences in any layout, see `locate` for the arguments; ``out (n * width,)``; ``sums (n * width,)`` is
room for the work.  An empty sequence gives -inf.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import along, best_of_column, beyond, compiled, compiled_for_cuda, exp, locate, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import column_max, column_powers, gpu, ln


@shared
def narrow(x: Any, out: Any) -> None:
    """One sequence of a few columns, its items one after the other, column by column."""
    width = out.size
    for k in range(width):
        top = best_of_column(x, k, width, 0)
        if math.isinf(top):
            top = out.dtype.type(0)  # inf - inf would be NaN
        total = out.dtype.type(0)
        j = k
        while j < x.size:
            total += exp(x[j] - top)
            j += width
        out[k] = top + np.log(total)


@compiled
def cpu(
    x: Any,
    out: Any,
    sums: Any,
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
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        top = out[i * width : (i + 1) * width]
        if width < 4 and step == 1 and length != 0:
            narrow(x[first * width : (first + length) * width], top)
            continue
        total = sums[i * width : (i + 1) * width]
        for k in range(top.size):
            top[k] = 0
            total[k] = 0
            if length != 0:
                top[k] = x[first * width + k]
        for t in range(1, length):
            r = first + along(t, steps, step)
            row = x[r * width : (r + 1) * width]
            for k in range(row.size):
                top[k] = row[k] if beyond(row[k], top[k], 0) else top[k]
        for k in range(top.size):
            if math.isinf(top[k]):
                top[k] = 0  # inf - inf would be NaN
        for t in range(length):
            r = first + along(t, steps, step)
            row = x[r * width : (r + 1) * width]
            for k in range(row.size):
                total[k] += exp(row[k] - top[k])
        for k in range(top.size):
            top[k] += np.log(total[k])


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    out: Any,
    sums: Any,  # noqa: ARG001  shared memory is room enough
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
