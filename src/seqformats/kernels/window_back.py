"""Add up what each row has given to its neighbours' windows: the gradient of `window_rows`.

`x` holds windows of ``(before + 1 + after) * width`` items a row and `out` rows of `width`, in the same layout, see
`locate` for the arguments.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, at_least, at_most, compiled, compiled_for_cuda, fold_windows, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


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
    before: int,
    after: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    count = before + 1 + after
    size = count * width
    for u in range(lo, hi):
        _, first, length = locate(starts, cum, u, stride, left, step)
        if step != 0:
            fold_windows(out, first * width, step * width, x, first * size, step * size, width, before, count, length)
        else:
            for t in range(length):
                d = first + steps[t]
                total = out[d * width : (d + 1) * width]
                for k in range(total.size):
                    total[k] = 0
                # place q of the window of row s is row t
                for q in range(at_least(t + before - length + 1, 0), at_most(count, t + before + 1)):
                    s = (first + steps[t + before - q]) * count + q
                    part = x[s * width : (s + 1) * width]
                    for k in range(part.size):
                        total[k] += part[k]


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
    before: int,
    after: int,
) -> None:
    """All rows, a line of threads each."""
    count = before + 1 + after
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i, t, d = find(starts, cum, steps, r, stride, left, step)
        first = d - along(t, steps, step)
        length = cum[i + 1] - cum[i]
        k = gpu.threadIdx.x
        while k < width:
            total = out.dtype.type(0)
            for q in range(max(t + before - length + 1, 0), min(count, t + before + 1)):
                total += x[((first + along(t + before - q, steps, step)) * count + q) * width + k]
            out[d * width + k] = total
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
