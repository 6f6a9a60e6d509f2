"""Move sequences that lie in one block each, in both layouts: Ragged, Masked, a list's arrays, a step of Padded.

`read` and `write` say where the blocks begin on each side; both have the same `cum`.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    KernelSpec,
    Layout,
    at_most,
    begin_of,
    compiled,
    move,
    pointer,
    will_read,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, move_word, search


@compiled
def cpu(src: int, out: int, read: Layout, write: Layout, row: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row.

    Where `read` is absolute, `src` is 0.
    """
    read, write = pointer(read), pointer(write)
    unit = 1 if read.absolute else row
    for i in range(lo, hi):
        length = read.cum[i + 1] - read.cum[i]
        if read.stride < 0:
            will_read(src + read.starts[at_most(i + 8, hi - 1)] * unit)  # it may be anywhere
        move(out, begin_of(write, i, length, row), src, begin_of(read, i, length, row), length * row)


def cuda(src: Array | int, out: Array, read: Layout, write: Layout, row: int) -> None:
    """All sequences, a line of threads a row; `src` and `out` are machine words, `row` words a row."""
    word = out.itemsize if read.absolute else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < read.cum[read.cum.size - 1]:
        i = search(read.cum, r)
        length = read.cum[i + 1] - read.cum[i]
        t = r - read.cum[i]
        s = begin_of(read, i, length, row) + t * row * word
        d = begin_of(write, i, length, row) + t * row
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d + w, src, s + w * word)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, over="rows")
