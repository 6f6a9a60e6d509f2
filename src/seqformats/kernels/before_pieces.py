"""Sum the pieces before every piece of long sequences, on one side, column by column.

``x (pieces * width,)`` are the sums of the pieces, as `sum_pieces` has them, ``out`` those before each; ``pieces (n +
1,)`` is how many there are before each sequence.  `back` is 1 for the way from the end.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(x: Array, out: Array, pieces: Integers, back: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        begin, end = pieces[i], pieces[i + 1]
        for k in range(width):
            total = out.dtype.type(-0.0)  # to which -0.0 can be added
            for piece in range(begin, end):
                place = (begin + end - 1 - piece if back else piece) * width + k
                out[place] = total
                total += x[place]


def cuda(x: Array, out: Array, pieces: Integers, back: int, width: int) -> None:
    """All sequences, a thread a column of each; eight pieces are on their way at a time."""
    for i in range(p.first_unit(), pieces.size - 1, p.units_of_grid()):
        count, by = pieces[i + 1] - pieces[i], (1 - 2 * back) * width
        for k in range(p.first_column(), width, p.columns_of_grid()):
            total = out.dtype.type(-0.0)
            place = (pieces[i] + (count - 1) * back) * width + k
            for _ in range(count >> 3):
                a, b, c, d, e, f, g, h = p.eight_from(x, place, by)
                out[place] = total
                total += a
                out[place + by] = total
                total += b
                out[place + 2 * by] = total
                total += c
                out[place + 3 * by] = total
                total += d
                out[place + 4 * by] = total
                total += e
                out[place + 5 * by] = total
                total += f
                out[place + 6 * by] = total
                total += g
                out[place + 7 * by] = total
                total += h
                place += 8 * by
            for _ in range(count & 7):
                value = x[place]
                out[place] = total
                total += value
                place += by


_WIDE = dict.fromkeys("f8" if kind[0] == "f" else to for kind, to in p.SUMS)
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(_WIDE, 2))
