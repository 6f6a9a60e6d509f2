"""The largest items of every sequence of those of its pieces, which `topk_rows` has found or this, and their means.

``x (pieces * most * width,)``, falling in every piece, and their `places` there; ``pieces (n + 1,)`` is how many pieces
there are before each sequence, ``rows (pieces + 1,)`` the rows before each piece.  The results `out`, `tops` and
`where` and `wanted` are those of `topk_rows`.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Constants, Integers


class Pieces(NamedTuple):
    """The largest items so far, by pieces."""

    tops: Array
    where: Integers
    pieces: Integers
    rows: Integers


@p.shared
def most_of(where: Integers, pieces: Integers, width: int) -> Any:
    """Count the items of each sequence, and of each piece, that there is room for."""
    return where.size // ((pieces.size - 1) * width)


@p.shared
def merge(x: Array, places: Integers, given: Pieces, i: int, k: int, width: int) -> Any:
    """Column k of sequence i; how many rows the sequence has."""
    tops, where, pieces, rows = given
    most = most_of(where, pieces, width)
    begin, first = i * most * width + k, pieces[i]
    end = begin
    for a in range(begin, begin + most * width, width):
        tops[a] = 0
        where[a] = -1
    for piece in range(first, pieces[i + 1]):
        place = piece * most * width + k
        for _ in range(p.at_most(rows[piece + 1] - rows[piece], most)):
            value = x[place]
            at = end
            if end == begin + most * width:
                at -= width
                if not p.is_better(value, tops[at], 0):
                    break  # nor is anything after it
            else:
                end += width
            while at > begin and p.is_better(value, tops[at - width], 0):
                tops[at] = tops[at - width]
                where[at] = where[at - width]
                at -= width
            tops[at] = value
            where[at] = rows[piece] - rows[first] + places[place]
            place += width
    return rows[pieces[i + 1]] - rows[first]


@p.compiled
def cpu(x: Array, places: Integers, out: Array, given: Pieces, wanted: Constants, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, number by number."""
    tops, where, pieces, _ = given
    most, ks = most_of(where, pieces, width), wanted.numbers
    for i in range(lo, hi):
        for k in range(width):
            length = merge(x, places, given, i, k, width)
            for q in range(ks.size):
                total = 0.0
                for a in range(p.at_most(ks[q], length)):
                    total += tops[(i * most + a) * width + k]
                out[(i * ks.size + q) * width + k] = total / ks[q]


def cuda(x: Array, places: Integers, out: Array, given: Pieces, wanted: Constants, width: int) -> None:
    """All sequences, a thread a column of each."""
    tops, where, pieces, _ = given
    most, ks = most_of(where, pieces, width), wanted.numbers
    for i in range(p.first_unit(), pieces.size - 1, p.units_of_grid()):
        for k in range(p.first_column(), width, p.columns_of_grid()):
            length = merge(x, places, given, i, k, width)
            for q in range(ks.size):
                mean = p.mean_of_first(tops, out, i * most * width + k, width, ks[q], length)
                out[(i * ks.size + q) * width + k] = mean


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", tuple((*kinds, "i8") for kinds in p.alike(p.FLOATS, 3)))
