"""Move, column by column, the item that one chunk has for every item of the sequences, or move it back.

Row r of the sequences is in column k row ``rows[r * width + k]`` of the chunks, or zero where that is -1.  `x` are the
chunks and `out` the sequences; with `back` 1 the other way round, and then `out` is zero before.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    NUMBERS,
    Array,
    Integers,
    KernelSpec,
    alike,
    compiled,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


@compiled
def cpu(x: Array, rows: Integers, out: Array, back: int, width: int, lo: int, hi: int) -> None:
    """Rows `lo` to `hi` of the sequences."""
    for r in range(lo, hi):
        for k in range(width):
            d = r * width + k
            place = rows[d] * width + k
            if back and rows[d] >= 0:
                out[place] = x[d]
            elif back == 0:
                out[d] = x[place] if rows[d] >= 0 else 0


def cuda(x: Array, rows: Integers, out: Array, back: int, width: int) -> None:
    """All rows of the sequences, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r * width < rows.size:
        k = first_column()
        while k < width:
            d = r * width + k
            place = rows[d] * width + k
            if back:
                if rows[d] >= 0:
                    out[place] = x[d]
            elif rows[d] >= 0:
                out[d] = x[place]
            else:
                out[d] = 0
            k += columns_of_grid()
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", alike(NUMBERS, 2))
