"""The gradient of softmax along every sequence, ``y * (x - sum(x * y))``, or of its logarithm, ``x - exp(y) * sum(x)``.

`x`, the gradient, `y`, the result, and `out` hold the sequences in the same layout, see `locate` for the arguments;
``sums (n * width,)`` is room for the work; `log` is 1 for the logarithm.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, compiled, compiled_for_cuda, exp, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, tree_sum


@compiled
def cpu(
    x: Any,
    y: Any,
    out: Any,
    sums: Any,
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
        total = sums[i * width : (i + 1) * width]
        for k in range(total.size):
            total[k] = 0
        for t in range(length):
            r = first + along(t, steps, step)
            slope = x[r * width : (r + 1) * width]
            row = y[r * width : (r + 1) * width]
            for k in range(row.size):
                total[k] += slope[k] if log else slope[k] * row[k]
        for t in range(length):
            r = first + along(t, steps, step)
            slope = x[r * width : (r + 1) * width]
            row = y[r * width : (r + 1) * width]
            to = out[r * width : (r + 1) * width]
            for k in range(row.size):
                to[k] = slope[k] - exp(row[k]) * total[k] if log else row[k] * (slope[k] - total[k])


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    y: Any,
    out: Any,
    sums: Any,  # noqa: ARG001  shared memory is room enough
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
            if k < width:
                t = gpu.threadIdx.y
                while t < length:
                    d = (first + along(t, steps, step)) * width + k
                    total += x[d] if log else x[d] * y[d]
                    t += gpu.blockDim.y
            parts[place] = total
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
