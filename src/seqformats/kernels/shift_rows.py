"""Move the rows of every sequence along it: item t of the result is item ``t - by[i]``, where there is one.

`src` and `out` hold the sequences in the same layout, see `Layout`; ``by (n,)``, or where `own` is 0 one for all.
Where there is none, `part` 0 leaves zeros and 1 what is there; with `part` 2 `src` is one row, which goes to these
places alone.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers, Layout


@p.shared
def moved_together(src: int, out: int, at: Layout, by: int, row: int, lo: int, hi: int) -> int:
    """Move some short sequences that lie one after the other as if they were one; how many, 0 for none.

    What comes to a sequence from its neighbour is to be written over.
    """
    _, first, rows = p.locate(at, lo)
    u = lo + 1
    while u < hi and rows * row < 4096:
        _, begin, length = p.locate(at, u)
        if begin != first + rows:
            break
        rows += length
        u += 1
    if u < lo + 2:
        return 0
    shift = p.at_least(p.at_most(by, rows), -rows)
    to, come = p.at_least(shift, 0), p.at_least(-shift, 0)
    p.move(out, (first + to) * row, src, (first + come) * row, (rows - to - come) * row)
    return u - lo


@p.compiled
def cpu(src: int, out: int, at: Layout, by: Integers, own: int, part: int, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at = p.pointer(at)
    together = lo  # up to which they have been moved
    for u in range(lo, hi):
        if u == together and part == 0 and own == 0 and at.step == 1:
            together += moved_together(src, out, at, by[0], row, u, hi)
        i, first, length = p.locate(at, u)
        shift = p.at_least(p.at_most(by[i * own], length), -length)
        begin, end = p.at_least(shift, 0), length + p.at_most(shift, 0)  # of the items that there are
        if part != 2 and u >= together:
            together = u + 1
            if at.step == 1:
                p.move(out, (first + begin) * row, src, (first + begin - shift) * row, (end - begin) * row)
            elif at.step != 0:
                d, s = first + begin * at.step, first + (begin - shift) * at.step
                p.move_run(out, d * row, at.step * row, src, s * row, at.step * row, row, end - begin)
            else:
                for t in range(begin, end):
                    p.move_row(out, (first + at.steps[t]) * row, src, (first + at.steps[t - shift]) * row, row)
        if part != 1:
            t = 0 if shift > 0 else end
            stop = begin if shift > 0 else length
            if part == 0 and at.step == 1:
                p.clear(out, (first + t) * row, (stop - t) * row)
                t = stop
            while t < stop:
                d = (first + p.along(at, t)) * row
                if part == 2:
                    p.move_row(out, d, src, 0, row)
                else:
                    p.clear(out, d, row)
                t += 1


@p.shared
def way_of_row(at: Layout, found: tuple[int, int, int], by: Integers, own: int, part: int) -> Any:
    """Find where a row belongs, where it comes from, and whether anything comes; if not, it is from row 0."""
    i, t, d = found
    near = t - by[i * own]
    there = near >= 0 and near < at.cum[i + 1] - at.cum[i]
    if there and part != 2:
        return d, d - p.along(at, t) + p.along(at, near), True
    return d, 0, there == (part != 2)


def cuda(src: Array, out: Array, at: Layout, by: Integers, own: int, part: int, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row."""
    r, w = p.first_of_line(), p.word_of_line()
    if r < at.cum[at.cum.size - 1] and w < row:
        first, second, third, fourth = p.four_rows(at, r)
        d0, s0, comes0 = way_of_row(at, first, by, own, part)
        d1, s1, comes1 = way_of_row(at, second, by, own, part)
        d2, s2, comes2 = way_of_row(at, third, by, own, part)
        d3, s3, comes3 = way_of_row(at, fourth, by, own, part)
        a, b = p.load_word(out, src, s0 * row + w), p.load_word(out, src, s1 * row + w)
        c, d = p.load_word(out, src, s2 * row + w), p.load_word(out, src, s3 * row + w)
        if part == 0 or comes0:
            p.store_word(out, d0 * row + w, a if comes0 else p.no_word(out))
        if part == 0 or comes1:
            p.store_word(out, d1 * row + w, b if comes1 else p.no_word(out))
        if part == 0 or comes2:
            p.store_word(out, d2 * row + w, c if comes2 else p.no_word(out))
        if part == 0 or comes3:
            p.store_word(out, d3 * row + w, d if comes3 else p.no_word(out))


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines")
