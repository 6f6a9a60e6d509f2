"""Sum every piece of 1,024 rows of long sequences, column by column; see `operations.pieces`.

`x` holds the pieces in blocks, see `Layout`; ``parts (pieces * width,)``, in the dtype in which `parts.sums` adds them
up.  Of `out` only the dtype counts, in which rows are added up.
"""

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, parts: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Pieces `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, 1)
            blocks, total = parts.dtype.type(0), out.dtype.type(0)
            t = 0
            while t + 4 <= length:
                four = out.dtype.type(0)
                for row in range(t, t + 4):
                    four += x[p.item_at(columns, row)]
                total += four
                t += 4
                if t & 31 == 0:
                    blocks += total
                    total = out.dtype.type(0)
            for row in range(t, length):
                total += x[p.item_at(columns, row)]
            parts[i * width + k] = blocks + total


@p.block_per_sequence(step="1")
def cuda(x: Array, parts: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns) -> None:
    """All pieces, a block each; see `sum_rows` for its threads."""
    fours = p.natural(gpu.shared.array(128, out.dtype))
    total = p.column_sum(x, fours, k, columns)
    if gpu.threadIdx.y == 0 and k < width:
        parts[i * width + k] = total


_IN_WIDE = tuple((kind, "f8" if kind[0] == "f" else to, to) for kind, to in p.SUMS)
KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "sequences", (*_IN_WIDE, *((kind, to, to) for kind, to in p.MEANS)), p.STREAMS
)
