"""Add up the pieces of every sequence, which `sum_pieces` has summed, to what `sum_rows` makes of the rows.

``x (pieces * width,)`` are the sums of the pieces, ``pieces (n + 1,)`` how many there are before each sequence, ``rows
(n + 1,)`` the rows before each, ``out (n * width,)``.  `mode`: 0 the sum, 1 the mean, 2 divided by the square root of
the length.
"""

import math

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(x: Array, out: Array, pieces: Integers, rows: Integers, mode: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        length = rows[i + 1] - rows[i]
        for k in range(width):
            total = x.dtype.type(0)
            for piece in range(pieces[i], pieces[i + 1]):
                total += x[piece * width + k]
            place = i * width + k
            out[place] = total
            if mode != 0 and length != 0:
                out[place] = out[place] / out.dtype.type(length if mode == 1 else math.sqrt(length))


def cuda(x: Array, out: Array, pieces: Integers, rows: Integers, mode: int, width: int) -> None:
    """All sequences, a thread a column of each; sixteen pieces are on their way at a time."""
    for i in range(p.first_unit(), pieces.size - 1, p.units_of_grid()):
        for k in range(p.first_column(), width, p.columns_of_grid()):
            total = x.dtype.type(0)
            place, end = pieces[i] * width + k, pieces[i + 1] * width
            while place + 15 * width < end:
                a, b, c, d, e, f, g, h = p.eight_from(x, place, width)
                j, m, n, o, spot, q, r, s = p.eight_from(x, place + 8 * width, width)
                total = (((((((total + a) + b) + c) + d) + e) + f) + g) + h
                total = (((((((total + j) + m) + n) + o) + spot) + q) + r) + s
                place += 16 * width
            while place < end:
                total += x[place]
                place += width
            p.put_total(out, i * width + k, total, rows[i + 1] - rows[i], mode)


_IN_WIDE = tuple(("f8" if kind[0] == "f" else to, to) for kind, to in p.SUMS)
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", tuple(dict.fromkeys((*_IN_WIDE, ("f8", "f8")))))
