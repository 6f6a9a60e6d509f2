"""The running sum along every piece of long sequences, from what `before_pieces` has found before it.

`x` and `out` hold the pieces in the same blocks, see `Layout`; ``before (pieces * width,)``.  `back` is 1 for the way
from the end.
"""

from typing import TYPE_CHECKING

from .parts import CALCULATES, SUMS, Array, Columns, KernelSpec, Layout, compiled, item_at, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import four_of
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


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
    """All pieces, a thread a column of each; four rows are on their way at a time."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < at.cum.size - 1:
        _, first, length = locate(at, i)
        place, by = (length - 1) * back, 1 - 2 * back
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, 1)
            total = before[i * width + k]
            t = place
            for _ in range(length >> 2):
                a, b, c, d = four_of(x, columns, t, by)
                total += a
                out[item_at(columns, t)] = total
                total += b
                out[item_at(columns, t + by)] = total
                total += c
                out[item_at(columns, t + 2 * by)] = total
                total += d
                out[item_at(columns, t + 3 * by)] = total
                t += 4 * by
            for _ in range(length & 3):
                total += x[item_at(columns, t)]
                out[item_at(columns, t)] = total
                t += by
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


_IN_WIDE = tuple((kind, "f8" if kind[0] == "f" else to, to) for kind, to in SUMS)
KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", _IN_WIDE)
