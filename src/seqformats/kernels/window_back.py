"""Add up what each row has given to its neighbours' windows: the gradient of `window_rows`.

`x` holds windows of ``(before + 1 + after) * width`` items a row and `out` rows of `width`, in the same layout, see
`locate` for the arguments.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, at: Layout, before: int, after: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    at = p.pointer(at)
    count = before + 1 + after
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        if at.step != 0:
            p.fold_windows(out, x, first, at.step, width, before, count, length)
        else:
            for t in range(length):
                d = first + at.steps[t]
                total = out[d * width : (d + 1) * width]
                for k in range(total.size):
                    total[k] = 0
                # place q of the window of row s is row t
                for q in range(p.at_least(t + before - length + 1, 0), p.at_most(count, t + before + 1)):
                    s = (first + at.steps[t + before - q]) * count + q
                    part = x[s * width : (s + 1) * width]
                    for k in range(part.size):
                        total[k] += part[k]


def cuda(x: Array, out: Array, at: Layout, before: int, after: int, width: int) -> None:
    """All rows, a line of threads each."""
    count = before + 1 + after
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, t, d = p.find(at, r)
        first = d - p.along(at, t)
        length = at.cum[i + 1] - at.cum[i]
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            total = out.dtype.type(0)
            for q in range(max(t + before - length + 1, 0), min(count, t + before + 1)):
                total += x[((first + p.along(at, t + before - q)) * count + q) * width + k]
            out[d * width + k] = total


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 2))
