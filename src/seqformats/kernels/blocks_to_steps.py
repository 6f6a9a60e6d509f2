"""Move sequences from one block each to time steps: the rows of a step side by side, longest sequence first.

`read` says where the blocks begin and how long they are; `write` which sequence is in which column, and where the time
steps begin, whose columns are a prefix.
"""

from typing import Any

from . import parts as p
from .parts import Array, Layout


@p.compiled
def cpu(src: int, out: int, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = write.steps.size - 1
    read, write = p.pointer(read), p.pointer(write)
    cum, indices, steps = read.cum, write.starts, write.steps
    packed = 1 if write.step == 0 else 0
    t = 0
    while t < count:
        last = p.at_most(hi, steps[t + 1] - steps[t])
        end = p.at_most(t + 32, count)  # of so many steps the next column finds its lines in the cache
        # Reads wait and writes do not: so column by column, and where that begins anew, the memory is told in time.
        for j in range(lo, last):
            i = indices[p.at_most(j + 8, last - 1)]
            most = p.at_most(end, cum[i + 1] - cum[i])
            s = p.begin_of(read, i, cum[i + 1] - cum[i], row)
            q = s + t * row
            while q < s + p.at_most(most * row, t * row + 512):
                p.will_read(src + q)
                q += 64
            i = indices[j]
            most = p.at_most(end, cum[i + 1] - cum[i])
            s = p.begin_of(read, i, cum[i + 1] - cum[i], row)
            for u in range(t, most):
                p.move_row(out, (j + u * write.step + steps[u] * packed) * row, src, s + u * row, row)
        t = end


@p.shared
def way_of_row(read: Layout, write: Layout, t: int, r: int, row: int, word: int) -> Any:
    """Find where row r of the steps, which is in step t, comes from and goes, in words."""
    j = r - write.steps[t]
    i = write.starts[j]
    come = p.begin_of(read, i, read.cum[i + 1] - read.cum[i], row) + t * row * word
    return come, (p.along(write, t) + j) * row


def cuda(src: Array | int, out: Array, read: Layout, write: Layout, row: int) -> None:
    """All columns, a line of threads for four rows as they are written; `row` machine words a row."""
    word = out.itemsize if read.absolute else 1
    last = write.steps[write.steps.size - 1] - 1
    r = p.first_of_line()
    if r <= last:
        t = p.search(write.steps, r)
        come0, to0 = way_of_row(read, write, t, r, row, word)
        t = p.run_on(write.steps, t, p.at_most(r + 1, last))  # the last row is moved again where the line has fewer
        come1, to1 = way_of_row(read, write, t, p.at_most(r + 1, last), row, word)
        t = p.run_on(write.steps, t, p.at_most(r + 2, last))
        come2, to2 = way_of_row(read, write, t, p.at_most(r + 2, last), row, word)
        t = p.run_on(write.steps, t, p.at_most(r + 3, last))
        come3, to3 = way_of_row(read, write, t, p.at_most(r + 3, last), row, word)
        p.move_four(out, src, row, word, (to0, to1, to2, to3), (come0, come1, come2, come3))


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, over="lines")
