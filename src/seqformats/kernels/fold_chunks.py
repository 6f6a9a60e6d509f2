"""Add up what several chunks have for the items of the sequences that they are of, or take the mean of it.

Row r of the sequences, ``out (rows * width,)``, which is in run u, is row ``r + shifts[c]`` of the chunks,
``x (.. * width,)``, for the ``counts[u]`` chunks c from ``first[u]`` on; run u has the rows ``cum[u]`` to
``cum[u + 1]``.  `mode`: 0 the sum, 1 the mean.  Chunks are added up as rows are in `sum_rows`, in their order; an item
that no chunk holds is zero.
"""

from . import parts as p
from .parts import Array, Columns
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, chunks: p.Chunks, mode: int, width: int, lo: int, hi: int) -> None:
    """Runs `lo` to `hi`: of each every number is a column, and every chunk a row."""
    cum, first, counts, shifts = chunks
    rows, sums = p.pointer(x), p.pointer(out)
    blocks = p.room(sums)
    for u in range(lo, hi):
        place, size, many = cum[u] * width, (cum[u + 1] - cum[u]) * width, counts[u]
        divisor = float(many) if mode == 1 and many > 1 else 0.0
        steps = p.pointer(shifts[first[u] : first[u] + many])
        if many == 0:
            p.clear(out, place, size * out.itemsize)
        else:
            p.total_columns((rows, sums, blocks, divisor), Columns(place, many, width, steps, 0), place, 0, size)


def cuda(x: Array, out: Array, chunks: p.Chunks, mode: int, width: int) -> None:
    """All rows of `out`, a line of threads each."""
    cum, first, counts, shifts = chunks
    for r in range(p.first_unit(), cum[cum.size - 1], p.units_of_grid()):
        u = p.search(cum, r)
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            total = out.dtype.type(0)
            blocks = p.wide(total)
            for c in range(counts[u]):
                total += x[(r + shifts[first[u] + c]) * width + k]
                if c & 7 == 7:
                    blocks += p.wide(total)
                    total = out.dtype.type(0)
            total = out.dtype.type(blocks + p.wide(total))
            if mode == 1 and counts[u] > 1:
                total /= out.dtype.type(counts[u])  # an integer would divide in float64
            out[r * width + k] = total


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", (*p.alike(p.FLOATS, 2), *p.MEANS))
