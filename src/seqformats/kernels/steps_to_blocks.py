"""Move sequences from time steps to one block each: the way back of `blocks_to_steps`.

Where the steps of `read` are packed, step t begins at ``begins[t]``: a row, or an address where `read` is absolute and
`src` 0 (steps that are arrays of their own).  `write` says where the blocks begin.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers, Layout


@p.compiled
def cpu(src: int, out: int, begins: Integers, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = read.steps.size - 1
    read, write, begins = p.pointer(read), p.pointer(write), p.pointer(begins)
    cum, indices, steps = read.cum, read.starts, read.steps
    unit = 1 if read.absolute else row
    for first in range(lo, hi, 1024):
        for t in range(count):
            last = p.at_most(first + 1024, p.at_most(hi, steps[t + 1] - steps[t]))
            if last <= first:
                break
            begin = begins[t] * unit if read.step == 0 else t * read.step * row
            for j in range(first, last):
                i = indices[j]
                d = p.begin_of(write, i, cum[i + 1] - cum[i], row) + t * row
                p.move_row(out, d, src, begin + j * row, row)


@p.shared
def way_of_row(begins: Integers, read: Layout, write: Layout, t: int, r: int, row: int, word: int) -> Any:
    """Find where row r of the steps, which is in step t, comes from and goes, in words."""
    unit = 1 if read.absolute else row
    j = r - read.steps[t]
    i = read.starts[j]
    come = (begins[t] * unit if read.step == 0 else t * read.step * row) + j * row * word
    return come, p.begin_of(write, i, read.cum[i + 1] - read.cum[i], row) + t * row


def cuda(src: Array | int, out: Array, begins: Integers, read: Layout, write: Layout, row: int) -> None:
    """All columns, a line of threads for four rows as they are read; `row` machine words a row."""
    word = out.itemsize if read.absolute else 1
    last = read.steps[read.steps.size - 1] - 1
    r = p.first_of_line()
    if r <= last:
        t = p.search(read.steps, r)
        come0, to0 = way_of_row(begins, read, write, t, r, row, word)
        t = p.run_on(read.steps, t, p.at_most(r + 1, last))  # the last row is moved again where the line has fewer
        come1, to1 = way_of_row(begins, read, write, t, p.at_most(r + 1, last), row, word)
        t = p.run_on(read.steps, t, p.at_most(r + 2, last))
        come2, to2 = way_of_row(begins, read, write, t, p.at_most(r + 2, last), row, word)
        t = p.run_on(read.steps, t, p.at_most(r + 3, last))
        come3, to3 = way_of_row(begins, read, write, t, p.at_most(r + 3, last), row, word)
        p.move_four(out, src, row, word, (to0, to1, to2, to3), (come0, come1, come2, come3))


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, over="lines")
