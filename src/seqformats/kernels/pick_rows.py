"""Move the items at chosen places of every sequence to a sequence of them, or back to their places.

The whole sequences lie as `at` says, in blocks; the chosen items one after the other, those of sequence i in the rows
``cum[i]`` to ``cum[i + 1]``, and row r is the item at ``places[r]`` of its sequence.  With `back` 1 they go there, else
they come from there.  Where `at` is absolute, it is a list's arrays, and `src` is 0.  With more `columns` than 1 each
column of a row has a place of its own, and `row` is the size of one of them.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Integers, Layout


class Picks(NamedTuple):
    """The chosen places."""

    cum: Integers
    places: Integers
    columns: int
    back: int


@p.compiled
def cpu(src: int, out: int, at: Layout, picks: Picks, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a column."""
    cum, places, columns, back = picks
    at, cum, places = p.pointer(at), p.pointer(cum), p.pointer(places)
    whole = row * columns
    unit = 1 if at.absolute else whole
    for i in range(lo, hi):
        _, first, _ = p.locate(at, i)
        begin = first * unit
        if columns == 1 and back == 0:
            for r in range(cum[i], cum[i + 1]):
                p.move_row(out, r * row, src, begin + places[r] * row, row)
        else:
            for r in range(cum[i], cum[i + 1]):
                for k in range(columns):
                    c = r * columns + k
                    place = begin + places[c] * whole + k * row
                    if back == 0:
                        p.move_row(out, c * row, src, place, row)
                    else:
                        p.move_row(out, place, src, c * row, row)


def cuda(src: Array | int, out: Array, at: Layout, picks: Picks, row: int) -> None:
    """All chosen rows, a line of threads for four; `src` and `out` are machine words, `row` words a column."""
    cum, places, columns, back = picks
    whole = row * columns
    unit = 1 if at.absolute else whole
    word = out.itemsize if at.absolute else 1
    r, w, last = p.first_of_line(), p.word_of_line(), cum[cum.size - 1] - 1
    if r <= last and w < row:
        r1, r2, r3 = min(r + 1, last), min(r + 2, last), min(r + 3, last)
        i0 = p.search(cum, r)
        i1 = p.run_on(cum, i0, r1)
        i2 = p.run_on(cum, i1, r2)
        i3 = p.run_on(cum, i2, r3)
        begin0, begin1 = p.locate(at, i0)[1] * unit, p.locate(at, i1)[1] * unit
        begin2, begin3 = p.locate(at, i2)[1] * unit, p.locate(at, i3)[1] * unit
        for k in range(columns):
            c0, c1, c2, c3 = r * columns + k, r1 * columns + k, r2 * columns + k, r3 * columns + k
            p0 = begin0 + (places[c0] * whole + k * row + w) * word
            p1 = begin1 + (places[c1] * whole + k * row + w) * word
            p2 = begin2 + (places[c2] * whole + k * row + w) * word
            p3 = begin3 + (places[c3] * whole + k * row + w) * word
            d0, d1, d2, d3 = c0 * row + w, c1 * row + w, c2 * row + w, c3 * row + w
            if back:
                p0, d0, p1, d1, p2, d2, p3, d3 = d0, p0, d1, p1, d2, p2, d3, p3
            a, b = p.load_word(out, src, p0), p.load_word(out, src, p1)
            c, d = p.load_word(out, src, p2), p.load_word(out, src, p3)
            p.store_word(out, d0, a)
            p.store_word(out, d1, b)
            p.store_word(out, d2, c)
            p.store_word(out, d3, d)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines")
