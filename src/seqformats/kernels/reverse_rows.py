"""Move the rows of every sequence to the same sequence in reverse order.

`src` and `out` hold the sequences in the same layout, see `Layout`.
"""

from typing import Any

from . import parts as p
from .parts import Array, Layout


@p.compiled
def cpu(src: int, out: int, at: Layout, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at = p.pointer(at)
    for u in range(lo, hi):
        _, first, length = p.locate(at, u)
        if at.step != 0:
            last = first + (length - 1) * at.step
            p.move_run(out, first * row, at.step * row, src, last * row, -at.step * row, row, length)
        else:
            for t in range(length):
                d = first + at.steps[t]
                s = first + at.steps[length - 1 - t]
                p.move_row(out, d * row, src, s * row, row)


@p.shared
def way_of_row(at: Layout, found: tuple[int, int, int], row: int) -> Any:
    """Find where the row that was found comes from and goes, in words."""
    i, t, d = found
    return (d - p.along(at, t) + p.along(at, at.cum[i + 1] - at.cum[i] - 1 - t)) * row, d * row


def cuda(src: Array, out: Array, at: Layout, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row."""
    r = p.first_of_line()
    if r < at.cum[at.cum.size - 1]:
        first, second, third, fourth = p.four_rows(at, r)
        come0, to0 = way_of_row(at, first, row)
        come1, to1 = way_of_row(at, second, row)
        come2, to2 = way_of_row(at, third, row)
        come3, to3 = way_of_row(at, fourth, row)
        p.move_four(out, src, row, 1, (to0, to1, to2, to3), (come0, come1, come2, come3))


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines")
