"""Move sequences that lie in one block each, in both layouts: Ragged, Masked, a list's arrays, a step of Padded.

`read` and `write` say where the blocks begin on each side; both have the same `cum`.
"""

from typing import Any

from . import parts as p
from .parts import Array, Layout


@p.compiled
def cpu(src: int, out: int, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row.

    Where `read` is absolute, `src` is 0.
    """
    read, write = p.pointer(read), p.pointer(write)
    unit = 1 if read.absolute else row
    for i in range(lo, hi):
        length = read.cum[i + 1] - read.cum[i]
        if read.stride < 0:
            p.will_read(src + read.starts[p.at_most(i + 8, hi - 1)] * unit)  # it may be anywhere
        p.move(out, p.begin_of(write, i, length, row), src, p.begin_of(read, i, length, row), length * row)


@p.shared
def way_of_row(read: Layout, write: Layout, i: int, r: int, row: int, word: int) -> Any:
    """Find where row r, which is in sequence i, comes from and goes, in words."""
    length = read.cum[i + 1] - read.cum[i]
    t = r - read.cum[i]
    return p.begin_of(read, i, length, row) + t * row * word, p.begin_of(write, i, length, row) + t * row


def cuda(src: Array | int, out: Array, read: Layout, write: Layout, row: int) -> None:
    """All sequences, a line of threads for four rows; `src` and `out` are machine words, `row` words a row."""
    word = out.itemsize if read.absolute else 1
    last = read.cum[read.cum.size - 1] - 1
    r = p.first_of_line()
    if r <= last:
        i = p.search(read.cum, r)
        come0, to0 = way_of_row(read, write, i, r, row, word)
        i = p.run_on(read.cum, i, p.at_most(r + 1, last))  # the last row is moved again where the line has fewer
        come1, to1 = way_of_row(read, write, i, p.at_most(r + 1, last), row, word)
        i = p.run_on(read.cum, i, p.at_most(r + 2, last))
        come2, to2 = way_of_row(read, write, i, p.at_most(r + 2, last), row, word)
        i = p.run_on(read.cum, i, p.at_most(r + 3, last))
        come3, to3 = way_of_row(read, write, i, p.at_most(r + 3, last), row, word)
        p.move_four(out, src, row, word, (to0, to1, to2, to3), (come0, come1, come2, come3))


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, over="lines")
