"""Move the marked items of every sequence to a sequence of them, or back to their places.

The whole sequences lie as `at` says, in blocks; ``marks (rows,)`` has a byte for each of their items, one sequence
after the other, which is not 0 where it is marked.  The marked items lie one after the other, those of sequence i in
the rows ``cum[i]`` to ``cum[i + 1]``.  With `back` 1 they go to their places, else they come from there.  Where `at`
is absolute, it is a list's arrays, and `src` is 0.
"""

from . import parts as p
from .parts import Array, Bytes, Integers, Layout
from .parts.names import gpu


@p.compiled
def cpu(src: int, out: int, at: Layout, cum: Integers, marks: Bytes, back: int, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at, cum, marks = p.pointer(at), p.pointer(cum), p.pointer(marks)
    unit = 1 if at.absolute else row
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        begin, own = first * unit, at.cum[i]
        q, end, t = cum[i], cum[i + 1], 0
        if back == 0 and row <= 16:
            while q < end and t < length:  # without branches, which random marks would mislead
                p.move_row(out, q * row, src, begin + t * row, row)
                q += marks[own + t] != 0
                t += 1
        while q < end and t < length:
            stop = t + 1
            if marks[own + t] != 0:
                while q + stop - t < end and stop < length and marks[own + stop] != 0:
                    stop += 1
                size = (stop - t) * row
                if back == 0:
                    p.move(out, q * row, src, begin + t * row, size)
                else:
                    p.move(out, begin + t * row, src, q * row, size)
                q += stop - t
            t = stop


def cuda(src: Array | int, out: Array, at: Layout, cum: Integers, marks: Bytes, back: int, row: int) -> None:
    """All sequences, a block each, in which each line of threads has some items one after the other.

    `src` and `out` are machine words, `row` words a row.
    """
    parts = p.natural(gpu.shared.array(128, cum.dtype))
    unit = 1 if at.absolute else row
    word = out.itemsize if at.absolute else 1
    bits = 0
    while 1 << bits < gpu.blockDim.y:  # which is a power of two, and a shift no division
        bits += 1
    for i in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        _, first, length = p.locate(at, i)
        own = at.cum[i]
        share = (length + gpu.blockDim.y - 1) >> bits
        begin = p.at_most(share * gpu.threadIdx.y, length)
        end = p.at_most(begin + share, length)
        found = 0
        for t in range(begin, end):
            found += 1 if marks[own + t] != 0 else 0
        if gpu.threadIdx.x == 0:  # all threads of a line have counted the same
            parts[gpu.threadIdx.y] = found
        gpu.syncthreads()
        q = cum[i]
        for y in range(gpu.threadIdx.y):
            q += parts[y]
        for t in range(begin, end):
            if marks[own + t] != 0:
                for w in range(gpu.blockIdx.y * gpu.blockDim.x + gpu.threadIdx.x, row, gpu.gridDim.y * gpu.blockDim.x):
                    place = first * unit + (t * row + w) * word
                    p.move_word(out, place if back else q * row + w, src, q * row + w if back else place)
                q += 1
        gpu.syncthreads()


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "sequences")
