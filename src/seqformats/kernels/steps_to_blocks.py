"""Move sequences from time steps to one block each: the way back of `blocks_to_steps`.

Where the steps of `read` are packed, step t begins at ``begins[t]``: a row, or an address where `read` is absolute and
`src` 0 (steps that are arrays of their own).  `write` says where the blocks begin.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    Integers,
    KernelSpec,
    Layout,
    at_most,
    begin_of,
    compiled,
    move_row,
    pointer,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, move_word, search


@compiled
def cpu(src: int, out: int, begins: Integers, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    count = read.steps.size - 1
    read, write, begins = pointer(read), pointer(write), pointer(begins)
    cum, indices, steps = read.cum, read.starts, read.steps
    unit = 1 if read.absolute else row
    for first in range(lo, hi, 1024):
        for t in range(count):
            last = at_most(first + 1024, at_most(hi, steps[t + 1] - steps[t]))
            if last <= first:
                break
            begin = begins[t] * unit if read.step == 0 else t * read.step * row
            for j in range(first, last):
                i = indices[j]
                d = begin_of(write, i, cum[i + 1] - cum[i], row) + t * row
                move_row(out, d, src, begin + j * row, row)


def cuda(src: Array | int, out: Array, begins: Integers, read: Layout, write: Layout, row: int) -> None:
    """All columns, a line of threads a row, rows in the order in which they are read; `row` machine words a row."""
    unit = 1 if read.absolute else row
    word = out.itemsize if read.absolute else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < read.steps[read.steps.size - 1]:
        t = search(read.steps, r)
        j = r - read.steps[t]
        i = read.starts[j]
        s = (begins[t] * unit if read.step == 0 else t * read.step * row) + j * row * word
        d = begin_of(write, i, read.cum[i + 1] - read.cum[i], row) + t * row
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d + w, src, s + w * word)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, over="rows")
