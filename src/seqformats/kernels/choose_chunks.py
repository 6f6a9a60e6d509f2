"""Move, column by column, the item that one chunk has for every item of the sequences, or move it back.

Row r of the sequences is in column k row ``rows[r * width + k]`` of the chunks, or zero where that is -1.  `x` are the
chunks and `out` the sequences; with `back` 1 the other way round, and then `out` is zero before.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
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
    r = p.first_unit()
    while r * width < rows.size:
        for k in range(p.first_column(), width, p.columns_of_grid()):
            d = r * width + k
            place = rows[d] * width + k
            if back:
                if rows[d] >= 0:
                    out[place] = x[d]
            elif rows[d] >= 0:
                out[d] = x[place]
            else:
                out[d] = 0
        r += p.units_of_grid()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.NUMBERS, 2))
