"""Find where every sequence first has an item, of the places in its pieces that `find_rows` has found.

``x (pieces * width,)`` are the places in each piece, none of its own where it has no such item; ``pieces (n + 1,)`` how
many pieces there are before each sequence, ``rows (pieces + 1,)`` the rows before each piece; ``out (n * width,)``, -1
where it is nowhere.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers


@p.shared
def first_of(x: Array, rows: Integers, piece: int, end: int, begin: int, k: int, width: int) -> Any:
    """Find the first place in column k of a sequence that begins at row `begin`, from this piece on."""
    while piece < end:
        place = x[piece * width + k]
        if 0 <= place < rows[piece + 1] - rows[piece]:
            return rows[piece] - begin + place
        piece += 1
    return -1


@p.compiled
def cpu(x: Array, out: Array, pieces: Integers, rows: Integers, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        piece, end = pieces[i], pieces[i + 1]
        for k in range(width):
            out[i * width + k] = first_of(x, rows, piece, end, rows[piece], k, width)


@p.shared
def in_none(x: Array, rows: Integers, piece: int, k: int, width: int) -> Any:
    """Tell whether the item is in none of eight pieces."""
    a, b, c, d, e, f, g, h = p.eight_from(x, piece * width + k, width)
    j, m, n, o, spot, q, r, s = p.eight_from(rows, piece, 1)
    end = rows[piece + 8]
    few = (a < 0 or a >= m - j) and (b < 0 or b >= n - m) and (c < 0 or c >= o - n) and (d < 0 or d >= spot - o)
    return (
        few and (e < 0 or e >= q - spot) and (f < 0 or f >= r - q) and (g < 0 or g >= s - r) and (h < 0 or h >= end - s)
    )


def cuda(x: Array, out: Array, pieces: Integers, rows: Integers, width: int) -> None:
    """All sequences, a thread a column of each; eight pieces are on their way at a time."""
    for i in range(p.first_unit(), pieces.size - 1, p.units_of_grid()):
        end = pieces[i + 1]
        for k in range(p.first_column(), width, p.columns_of_grid()):
            piece = pieces[i]
            while piece + 8 <= end and in_none(x, rows, piece, k, width):
                piece += 8
            out[i * width + k] = first_of(x, rows, piece, end, rows[pieces[i]], k, width)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("i8", "i8"),))
