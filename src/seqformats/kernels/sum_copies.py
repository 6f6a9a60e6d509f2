"""Add up the copies of every sequence: the gradient of repeating it.

Sequence i of `x` stands there ``counts[i]`` times, its copies one after the other from row ``starts[i]`` on; in `out`
it has the rows ``cum[i]`` to ``cum[i + 1]``, `width` items each.  Copies are added up as rows are in `sum_rows`.
"""

from . import parts as p
from .parts import Array, Columns, Integers
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Array, starts: Integers, cum: Integers, counts: Integers, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`: each is added up as a sequence of copies, of which every number is a column."""
    rows, sums, steps = p.pointer(x), p.pointer(out), p.pointer(cum)
    blocks, four = p.room(sums), p.scratch(sums)
    for i in range(lo, hi):
        begin, place, size = starts[i] * width, cum[i] * width, (cum[i + 1] - cum[i]) * width
        k = 0
        if size >= 64:
            turn = p.in_turn(counts[i], size, x.itemsize, 1)
            k = p.total_by_rows(rows, sums, blocks, four, Columns(begin, counts[i], size, steps, 1), place, 0.0, turn)
        p.total_columns((rows, sums, blocks, 0.0), Columns(begin, counts[i], size, steps, 1), place, k, size)


def cuda(x: Array, out: Array, starts: Integers, cum: Integers, counts: Integers, width: int) -> None:
    """All rows of `out`, a line of threads each."""
    for r in range(p.first_unit(), cum[cum.size - 1], p.units_of_grid()):
        i = p.search(cum, r)
        length = cum[i + 1] - cum[i]
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            total = out.dtype.type(0)
            blocks = p.wide(total)
            for c in range(counts[i]):
                total += x[(starts[i] + c * length + r - cum[i]) * width + k]
                if c & 7 == 7:
                    blocks += p.wide(total)
                    total = out.dtype.type(0)
            out[r * width + k] = blocks + p.wide(total)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.NUMBERS, 2))
