"""Move sequences from one block each to time steps: the rows of a step side by side, longest sequence first.

`read` says where the blocks begin and how long they are; `write` which sequence is in which column, and where the time
steps begin, whose columns are a prefix.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    MOVES,
    Array,
    KernelSpec,
    Layout,
    along,
    at_most,
    begin_of,
    compiled,
    move_row,
    pointer,
    shared,
    will_read,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import first_of_line, move_four, run_on
    from .parts.gpu import search


@compiled
def cpu(src: int, out: int, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = write.steps.size - 1
    read, write = pointer(read), pointer(write)
    cum, indices, steps = read.cum, write.starts, write.steps
    packed = 1 if write.step == 0 else 0
    t = 0
    while t < count:
        last = at_most(hi, steps[t + 1] - steps[t])
        end = at_most(t + 32, count)  # of so many steps the next column finds its lines in the cache
        # Reads wait and writes do not: so column by column, and where that begins anew, the memory is told in time.
        for j in range(lo, last):
            i = indices[at_most(j + 8, last - 1)]
            most = at_most(end, cum[i + 1] - cum[i])
            s = begin_of(read, i, cum[i + 1] - cum[i], row)
            p = s + t * row
            while p < s + at_most(most * row, t * row + 512):
                will_read(src + p)
                p += 64
            i = indices[j]
            most = at_most(end, cum[i + 1] - cum[i])
            s = begin_of(read, i, cum[i + 1] - cum[i], row)
            for u in range(t, most):
                move_row(out, (j + u * write.step + steps[u] * packed) * row, src, s + u * row, row)
        t = end


@shared
def way_of_row(read: Layout, write: Layout, t: int, r: int, row: int, word: int) -> Any:
    """Find where row r of the steps, which is in step t, comes from and goes, in words."""
    j = r - write.steps[t]
    i = write.starts[j]
    come = begin_of(read, i, read.cum[i + 1] - read.cum[i], row) + t * row * word
    return come, (along(write, t) + j) * row


def cuda(src: Array | int, out: Array, read: Layout, write: Layout, row: int) -> None:
    """All columns, a line of threads for four rows as they are written; `row` machine words a row."""
    word = out.itemsize if read.absolute else 1
    last = write.steps[write.steps.size - 1] - 1
    r = first_of_line()
    if r <= last:
        t = search(write.steps, r)
        come0, to0 = way_of_row(read, write, t, r, row, word)
        t = run_on(write.steps, t, at_most(r + 1, last))  # the last row is moved again where the line has fewer
        come1, to1 = way_of_row(read, write, t, at_most(r + 1, last), row, word)
        t = run_on(write.steps, t, at_most(r + 2, last))
        come2, to2 = way_of_row(read, write, t, at_most(r + 2, last), row, word)
        t = run_on(write.steps, t, at_most(r + 3, last))
        come3, to3 = way_of_row(read, write, t, at_most(r + 3, last), row, word)
        move_four(out, src, row, word, (to0, to1, to2, to3), (come0, come1, come2, come3))


KERNEL = KernelSpec(cpu, cuda, MOVES, over="lines")
