"""The running sum along every piece of long sequences, from what `before_pieces` has found before it.

`x` and `out` hold the pieces in the same blocks, see `Layout`; ``before (pieces * width,)``.  `back` is 1 for the way
from the end.
"""

from typing import TYPE_CHECKING

from .parts import CALCULATES, SUMS, Array, Columns, KernelSpec, Layout, compiled, item_at, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import four_along, sums_along
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu, zero_in


@compiled
def cpu(x: Array, before: Array, out: Array, at: Layout, back: int, width: int, lo: int, hi: int) -> None:
    """Pieces `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        _, first, length = locate(at, i)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, 1)
            total = before[i * width + k]
            for t in range(length):
                d = item_at(columns, length - 1 - t if back else t)
                total += x[d]
                out[d] = total


def cuda(x: Array, before: Array, out: Array, at: Layout, back: int, width: int) -> None:
    """All pieces, a thread a column of each; while four rows are added the next eight are on their way."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < at.cum.size - 1:
        _, first, length = locate(at, i)
        begin, by = (length - 1) * back, 1 - 2 * back
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, 1)
            total = before[i * width + k]
            following = (zero_in(x), zero_in(x), zero_in(x), zero_in(x))
            after = following
            if length >= 4:
                following = four_along(x, columns, begin, by)
            if length >= 8:
                after = four_along(x, columns, begin + 4 * by, by)
            t = 0
            while t + 4 <= length:
                four, following = following, after
                if t + 12 <= length:
                    after = four_along(x, columns, begin + (t + 8) * by, by)
                total = sums_along(out, columns, begin + t * by, by, total, four)
                t += 4
            while t < length:
                place = item_at(columns, begin + t * by)
                total += x[place]
                out[place] = total
                t += 1
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


_IN_WIDE = tuple((kind, "f8" if kind[0] == "f" else to, to) for kind, to in SUMS)
KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", _IN_WIDE)
