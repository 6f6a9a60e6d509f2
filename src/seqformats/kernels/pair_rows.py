"""Move the items of every sequence beside those of another: each of them several times, or all of them.

The sequences lie as `at` says, in blocks, and ``others (n,)`` are the lengths of the others.  The pairs of sequence i
are the rows from ``cum[i]`` on: with `inner` 0 each item comes ``others[i]`` times, and then the next; with `inner` 1
all of them come one after the other, and this so many times.  Where `at` is absolute, it is a list's arrays, and `src`
is 0.
"""

from . import parts as p
from .parts import Array, Integers, Layout
from .parts.names import gpu


@p.compiled
def cpu(
    src: int, out: int, at: Layout, cum: Integers, others: Integers, inner: int, row: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at, cum, others = p.pointer(at), p.pointer(cum), p.pointer(others)
    unit = 1 if at.absolute else row
    for i in range(lo, hi):
        _, first, length = p.locate(at, i)
        begin, other = first * unit, others[i]
        d = cum[i] * row
        for k in range(other if inner else length):
            for j in range(length if inner else other):
                p.move_row(out, d, src, begin + (j if inner else k) * row, row)
                d += row


def cuda(src: Array | int, out: Array, at: Layout, cum: Integers, others: Integers, inner: int, row: int) -> None:
    """All sequences, a block each, a line of threads an item; `src` and `out` are machine words, `row` words a row."""
    unit = 1 if at.absolute else row
    word = out.itemsize if at.absolute else 1
    for i in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        _, first, length = p.locate(at, i)
        other = others[i]
        for t in range(gpu.threadIdx.y, length, gpu.blockDim.y):
            for k in range(other):
                d = (cum[i] + (k * length + t if inner else t * other + k)) * row
                for w in range(gpu.blockIdx.y * gpu.blockDim.x + gpu.threadIdx.x, row, gpu.gridDim.y * gpu.blockDim.x):
                    p.move_word(out, d + w, src, first * unit + (t * row + w) * word)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "sequences")
