"""Move the marked items of every sequence to a sequence of them, or back to their places.

The whole sequences lie as `at` says, in blocks; ``marks (rows,)`` has a byte for each of their items, one sequence
after the other, which is not 0 where it is marked.  The marked items lie one after the other, those of sequence i in
the rows ``cum[i]`` to ``cum[i + 1]``.  With `back` 1 they go to their places, else they come from there.  Where `at`
is absolute, it is a list's arrays, and `src` is 0.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    Bytes,
    Integers,
    KernelSpec,
    Layout,
    at_most,
    compiled,
    locate,
    move,
    move_row,
    pointer,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, move_word, natural


@compiled
def cpu(src: int, out: int, at: Layout, cum: Integers, marks: Bytes, back: int, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at, cum, marks = pointer(at), pointer(cum), pointer(marks)
    unit = 1 if at.absolute else row
    for i in range(lo, hi):
        _, first, length = locate(at, i)
        begin, own = first * unit, at.cum[i]
        p, end, t = cum[i], cum[i + 1], 0
        if back == 0 and row <= 16:
            while p < end and t < length:  # without branches, which random marks would mislead
                move_row(out, p * row, src, begin + t * row, row)
                p += marks[own + t] != 0
                t += 1
        while p < end and t < length:
            stop = t + 1
            if marks[own + t] != 0:
                while p + stop - t < end and stop < length and marks[own + stop] != 0:
                    stop += 1
                size = (stop - t) * row
                if back == 0:
                    move(out, p * row, src, begin + t * row, size)
                else:
                    move(out, begin + t * row, src, p * row, size)
                p += stop - t
            t = stop


def cuda(src: Array | int, out: Array, at: Layout, cum: Integers, marks: Bytes, back: int, row: int) -> None:
    """All sequences, a block each, in which each line of threads has some items one after the other.

    `src` and `out` are machine words, `row` words a row.
    """
    parts = natural(gpu.shared.array(128, cum.dtype))
    unit = 1 if at.absolute else row
    word = out.itemsize if at.absolute else 1
    bits = 0
    while 1 << bits < gpu.blockDim.y:  # which is a power of two, and a shift no division
        bits += 1
    i = gpu.blockIdx.x
    while i < at.cum.size - 1:
        _, first, length = locate(at, i)
        own = at.cum[i]
        share = (length + gpu.blockDim.y - 1) >> bits
        begin = at_most(share * gpu.threadIdx.y, length)
        end = at_most(begin + share, length)
        found = 0
        for t in range(begin, end):
            found += 1 if marks[own + t] != 0 else 0
        if gpu.threadIdx.x == 0:  # all threads of a line have counted the same
            parts[gpu.threadIdx.y] = found
        gpu.syncthreads()
        p = cum[i]
        for y in range(gpu.threadIdx.y):
            p += parts[y]
        for t in range(begin, end):
            if marks[own + t] != 0:
                w = gpu.blockIdx.y * gpu.blockDim.x + gpu.threadIdx.x
                while w < row:
                    place = first * unit + (t * row + w) * word
                    move_word(out, place if back else p * row + w, src, p * row + w if back else place)
                    w += gpu.gridDim.y * gpu.blockDim.x
                p += 1
        gpu.syncthreads()
        i += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, MOVES, "sequences")
