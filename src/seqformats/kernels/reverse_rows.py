"""Move the rows of every sequence to the same sequence in reverse order.

`src` and `out` hold the sequences in the same layout, see `Layout`.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    KernelSpec,
    Layout,
    along,
    compiled,
    locate,
    move_row,
    move_run,
    pointer,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import find, gpu, move_word


@compiled
def cpu(src: int, out: int, at: Layout, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at = pointer(at)
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        if at.step != 0:
            last = first + (length - 1) * at.step
            move_run(out, first * row, at.step * row, src, last * row, -at.step * row, row, length)
        else:
            for t in range(length):
                d = first + at.steps[t]
                s = first + at.steps[length - 1 - t]
                move_row(out, d * row, src, s * row, row)


def cuda(src: Array, out: Array, at: Layout, row: int) -> None:
    """All rows, a line of threads each; `src` and `out` are machine words, `row` words a row."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < at.cum[at.cum.size - 1]:
        i, t, d = find(at, r)
        s = d - along(at, t) + along(at, at.cum[i + 1] - at.cum[i] - 1 - t)
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d * row + w, src, s * row + w)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, "rows")
