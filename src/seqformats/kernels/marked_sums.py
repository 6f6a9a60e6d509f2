"""Count the items of every sequence that count, and add them and their squares up, in float64.

``x`` holds the sequences in any layout, see `Layout`; ``marks``, a byte an item that is 0 where an item does not count,
lie in the same or are empty.  ``out (n * 3,)``.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, marks: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        number, total, squares = 0, 0.0, 0.0
        for t in range(length):
            row = first + p.along(at, t)
            if marks.size == 0 or marks[row] != 0:
                value = float(x[row])
                number += 1
                total += value
                squares += value * value
        out[3 * i] = number
        out[3 * i + 1] = total
        out[3 * i + 2] = squares


def cuda(x: Array, marks: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, whose threads share the items."""
    parts = p.natural(gpu.shared.array(128, out.dtype))
    threads, slot = gpu.blockDim.x * gpu.blockDim.y, gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        number, total, squares = p.zero_in(out), p.zero_in(out), p.zero_in(out)
        for t in range(slot if gpu.blockIdx.y == 0 else length, length, threads):
            row = first + p.along(at, t)
            if marks.size == 0 or marks[row] != 0:
                value = p.number_in(out, x[row])
                number += p.number_in(out, 1)
                total += value
                squares += value * value
        for turn in range(3):
            parts[slot] = number if turn == 0 else total if turn == 1 else squares
            p.sum_of_block(parts, slot, threads)
            if slot == 0 and gpu.blockIdx.y == 0:
                out[3 * i + turn] = parts[0]
            gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", tuple((kind, "u1", "f8") for kind in p.FLOATS))
