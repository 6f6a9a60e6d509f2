"""Sum the chunks of every sequence, column by column: a long sequence is then the work of many blocks of a GPU.

A chunk has 1024 rows, or what is left of a sequence.  `x` holds the sequences in blocks, see `Layout`.  Chunk j of
sequence i is row ``cum[i] // 1024 + i + j`` of ``parts (rows * width,)``, in the dtype in which `parts.sums` adds them
up; there are rows in between that no chunk has.  Of `out` only the dtype counts, in which rows are added up.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    MEANS,
    STREAMS,
    SUMS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    Layout,
    at_most,
    compiled,
    item_at,
    locate,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import column_sum, columns_of_grid
    from .parts.gpu import gpu


@compiled
def cpu(x: Array, parts: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        _, first, length = locate(at, i)
        place = ((at.cum[i] >> 10) + i) * width
        for begin in range(0, length, 1024):
            for k in range(width):
                columns = Columns(first * width + k, length, width, at.steps, 1)
                end = at_most(begin + 1024, length)
                blocks, total = parts.dtype.type(0), out.dtype.type(0)
                t = begin
                while t + 4 <= end:
                    four = out.dtype.type(0)
                    for row in range(t, t + 4):
                        four += x[item_at(columns, row)]
                    total += four
                    t += 4
                    if t & 31 == 0:
                        blocks += total
                        total = out.dtype.type(0)
                for row in range(t, end):
                    total += x[item_at(columns, row)]
                parts[place + k] = blocks + total
            place += width


@shared
def sequence_of(cum: Integers, place: int) -> int:
    """The sequence that has this row of the chunks, or the one before it."""
    low, left = 0, cum.size - 1
    while left > 1:
        half = left >> 1
        if (cum[low + half] >> 10) + low + half <= place:
            low += half
        left -= half
    return low


def cuda(x: Array, parts: Array, out: Array, at: Layout, width: int) -> None:
    """All rows of the chunks, a block each; see `sum_rows` for its threads."""
    fours = gpu.shared.array(128, out.dtype)
    place = gpu.blockIdx.x
    while place * width < parts.size:
        i = sequence_of(at.cum, place)
        _, first, length = locate(at, i)
        lo = (place - (at.cum[i] >> 10) - i) << 10
        hi = max(lo, min(lo + 1024, length))  # a row that no chunk has is 0
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, 1)
            total = column_sum(x, fours, k, columns, lo, hi)
            if gpu.threadIdx.y == 0 and k < width:
                parts[place * width + k] = total
            column += columns_of_grid()
        place += gpu.gridDim.x


_IN_WIDE = tuple((kind, "f8" if kind[0] == "f" else to, to) for kind, to in SUMS)
KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", (*_IN_WIDE, *((kind, to, to) for kind, to in MEANS)), STREAMS)
