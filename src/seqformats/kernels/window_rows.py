"""Lay the neighbours of every row side by side: the `before` rows before it, itself, and the `after` rows after it.

`src` and `out` hold the sequences in the same layout, see `Layout`; a row of `out` has
``before + 1 + after`` rows of `src`.  What lies outside the sequence is zero, or left as it is where `filled` is 1.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Layout


class Window(NamedTuple):
    """The rows beside each row, and whether the result has zeros already."""

    before: int
    after: int
    filled: int


@p.compiled
def cpu(src: int, out: int, at: Layout, window: Window, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row of `src`."""
    before, after, filled = window
    count = before + 1 + after
    size = count * row
    at = p.pointer(at)
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        t = 0
        while t < length:
            d = (first + p.along(at, t)) * size
            if at.step == 1 and t == before and t + after < length:
                # all neighbours are there until shortly before the end
                p.move_run(out, d, size, src, first * row, row, size, length - after - t)
                t = length - after
                continue
            begin = p.at_least(before - t, 0)  # the first neighbour that is there, and the one after the last
            end = p.at_most(count, length - t + before)
            if filled == 0:
                if begin != 0:
                    p.clear(out, d, begin * row)
                if end != count:
                    p.clear(out, d + end * row, (count - end) * row)
            if at.step == 1:
                p.move(out, d + begin * row, src, (first + t - before + begin) * row, (end - begin) * row)
            else:
                for q in range(begin, end):
                    s = first + p.along(at, t - before + q)
                    p.move_row(out, d + q * row, src, s * row, row)
            t += 1


@p.shared
def neighbour(at: Layout, row_of: tuple[int, int, int], by: int) -> Any:
    """The row `by` rows after one in its sequence, -1 where there is none; `row_of` is what `find` says of that."""
    i, t, d = row_of
    near = t + by
    if near < 0 or near >= at.cum[i + 1] - at.cum[i]:
        return -1
    return d - p.along(at, t) + p.along(at, near)


def cuda(src: Array, out: Array, at: Layout, window: Window, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row of `src`."""
    before, after, filled = window
    count = before + 1 + after
    r, w = p.first_of_line(), p.word_of_line()
    if r < at.cum[at.cum.size - 1] and w < row:
        one, two, three, four = p.four_rows(at, r)
        for q in range(count):
            s0, s1 = neighbour(at, one, q - before), neighbour(at, two, q - before)
            s2, s3 = neighbour(at, three, q - before), neighbour(at, four, q - before)
            a = p.load_word(out, src, s0 * row + w) if s0 >= 0 else p.no_word(out)
            b = p.load_word(out, src, s1 * row + w) if s1 >= 0 else p.no_word(out)
            c = p.load_word(out, src, s2 * row + w) if s2 >= 0 else p.no_word(out)
            d = p.load_word(out, src, s3 * row + w) if s3 >= 0 else p.no_word(out)
            if s0 >= 0 or filled == 0:
                p.store_word(out, (one[2] * count + q) * row + w, a)
            if s1 >= 0 or filled == 0:
                p.store_word(out, (two[2] * count + q) * row + w, b)
            if s2 >= 0 or filled == 0:
                p.store_word(out, (three[2] * count + q) * row + w, c)
            if s3 >= 0 or filled == 0:
                p.store_word(out, (four[2] * count + q) * row + w, d)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines")
