"""The running sum along every piece of long sequences, from what `before_pieces` has found before it.

`x` and `out` hold the pieces in the same blocks, see `Layout`; ``before (pieces * width,)``.  `back` is 1 for the way
from the end.
"""

from . import parts as p
from .parts import Array, Columns, Layout


@p.compiled
def cpu(x: Array, before: Array, out: Array, at: Layout, back: int, width: int, lo: int, hi: int) -> None:
    """Pieces `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, 1)
            total = before[i * width + k]
            for t in range(length):
                d = p.item_at(columns, length - 1 - t if back else t)
                total += x[d]
                out[d] = total


def cuda(x: Array, before: Array, out: Array, at: Layout, back: int, width: int) -> None:
    """All pieces, a thread a column of each; while four rows are added the next eight are on their way."""
    for i in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        _, first, length = p.locate(at, i)
        begin, by = (length - 1) * back, 1 - 2 * back
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length, width, at.steps, 1)
            total = before[i * width + k]
            following = (p.zero_in(x), p.zero_in(x), p.zero_in(x), p.zero_in(x))
            after = following
            if length >= 4:
                following = p.four_along(x, columns, begin, by)
            if length >= 8:
                after = p.four_along(x, columns, begin + 4 * by, by)
            t = 0
            while t + 4 <= length:
                four, following = following, after
                if t + 12 <= length:
                    after = p.four_along(x, columns, begin + (t + 8) * by, by)
                total = p.sums_along(out, columns, begin + t * by, by, total, four)
                t += 4
            while t < length:
                place = p.item_at(columns, begin + t * by)
                total += x[place]
                out[place] = total
                t += 1


_IN_WIDE = tuple((kind, "f8" if kind[0] == "f" else to, to) for kind, to in p.SUMS)
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", _IN_WIDE)
