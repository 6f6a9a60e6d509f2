"""Move sequences from one block each to time steps: the rows of a step side by side, longest sequence first.

`read` says where the blocks begin and how long they are; `write` which sequence is in which column, and where the time
steps begin, whose columns are a prefix.
"""

from typing import TYPE_CHECKING

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
    will_read,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, move_word, search


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


def cuda(src: Array | int, out: Array, read: Layout, write: Layout, row: int) -> None:
    """All columns, a line of threads a row, rows in the order in which they are written; `row` machine words a row."""
    word = out.itemsize if read.absolute else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < write.steps[write.steps.size - 1]:
        t = search(write.steps, r)
        j = r - write.steps[t]
        i = write.starts[j]
        s = begin_of(read, i, read.cum[i + 1] - read.cum[i], row) + t * row * word
        d = (along(write, t) + j) * row
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d + w, src, s + w * word)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, over="rows")
