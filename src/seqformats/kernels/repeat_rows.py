"""Move row i of an array to every row of sequence i.

`src` has one row a sequence; `out` holds the sequences in any layout, see `Layout`.
"""

from . import parts as p
from .parts import Array, Layout


@p.compiled
def cpu(src: int, out: int, at: Layout, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    if at.step == 1 and at.stride < 0 and row <= 32 and 32 % row == 0:  # one after the other
        p.repeat_words(out, src, at.cum, row, lo, hi)
        return
    at = p.pointer(at)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        if at.step != 0:
            p.move_run(out, first * row, at.step * row, src, i * row, 0, row, length)
        else:
            for t in range(length):
                p.move_row(out, (first + at.steps[t]) * row, src, i * row, row)


def cuda(src: Array, out: Array, at: Layout, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row."""
    r = p.first_of_line()
    if r < at.cum[at.cum.size - 1]:
        (come0, _, to0), (come1, _, to1), (come2, _, to2), (come3, _, to3) = p.four_rows(at, r)
        come = (come0 * row, come1 * row, come2 * row, come3 * row)
        p.move_four(out, src, row, 1, (to0 * row, to1 * row, to2 * row, to3 * row), come)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines", threads_from=p.STREAMS)
