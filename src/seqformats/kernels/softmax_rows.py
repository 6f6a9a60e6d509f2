"""Softmax along every sequence, column by column, with the maximum taken out first; or its logarithm.

`x` and `out` hold the sequences in the same layout, see `locate` for the arguments; ``state (n * 2 * width,)`` is room
for the maximum and the sum of each; `log` is 1 for the logarithm.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import along, best_of_column, beyond, compiled, compiled_for_cuda, exp, locate, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import column_max, column_powers, gpu, ln


@shared
def narrow(x: Any, out: Any, top: Any, log: int) -> None:
    """One sequence of a few columns, its items one after the other: loops down the columns, but exp over all in one."""
    width = top.size
    for k in range(width):
        best = best_of_column(x, k, width, 0)
        j = k
        while j < x.size:
            out[j] = x[j] - best
            j += width
        top[k] = best
    for j in range(out.size):
        out[j] = exp(out[j])
    for k in range(width):
        total = out[k]
        j = k + width
        while j < out.size:
            total += out[j]
            j += width
        if log:
            total = np.log(total)
            j = k
            while j < out.size:
                out[j] = x[j] - top[k] - total
                j += width
        else:
            j = k
            while j < out.size:
                out[j] = out[j] / total
                j += width


@compiled
def cpu(
    x: Any,
    out: Any,
    state: Any,
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
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        top = state[2 * i * width : (2 * i + 1) * width]
        if width < 16 and step == 1:
            if length != 0:
                begin, end = first * width, (first + length) * width
                narrow(x[begin:end], out[begin:end], top, log)
            continue
        total = state[(2 * i + 1) * width : (2 * i + 2) * width]
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
        for t in range(length):
            r = first + along(t, steps, step)
            row = x[r * width : (r + 1) * width]
            to = out[r * width : (r + 1) * width]
            for k in range(row.size):
                power = exp(row[k] - top[k])
                total[k] += power
                to[k] = row[k] - top[k] if log else power
        for k in range(total.size):
            total[k] = np.log(total[k]) if log else total[k]
        for t in range(length):
            r = first + along(t, steps, step)
            to = out[r * width : (r + 1) * width]
            for k in range(to.size):
                to[k] = to[k] - total[k] if log else to[k] / total[k]


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    out: Any,
    state: Any,  # noqa: ARG001  shared memory is room enough
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
