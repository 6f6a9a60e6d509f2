"""Add up the copies of every sequence: the gradient of repeating it.

Sequence i of `x` stands there ``counts[i]`` times, its copies one after the other from row ``starts[i]`` on; in `out`
it has the rows ``cum[i]`` to ``cum[i + 1]``, `width` items each.  Copies are added up as rows are in `sum_rows`.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    NUMBERS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    alike,
    compiled,
    in_turn,
    pointer,
    room,
    scratch,
    total_by_rows,
    total_columns,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, search, wide


@compiled
def cpu(x: Array, out: Array, starts: Integers, cum: Integers, counts: Integers, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`: each is added up as a sequence of copies, of which every number is a column."""
    rows, sums, steps = pointer(x), pointer(out), pointer(cum)
    blocks, four = room(sums), scratch(sums)
    for i in range(lo, hi):
        begin, place, size = starts[i] * width, cum[i] * width, (cum[i + 1] - cum[i]) * width
        k = 0
        if size >= 64:
            turn = in_turn(counts[i], size, x.itemsize, 1)
            k = total_by_rows(rows, sums, blocks, four, Columns(begin, counts[i], size, steps, 1), place, 0.0, turn)
        total_columns((rows, sums, blocks, 0.0), Columns(begin, counts[i], size, steps, 1), place, k, size)


def cuda(x: Array, out: Array, starts: Integers, cum: Integers, counts: Integers, width: int) -> None:
    """All rows of `out`, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i = search(cum, r)
        length = cum[i + 1] - cum[i]
        k = gpu.threadIdx.x
        while k < width:
            total = out.dtype.type(0)
            blocks = wide(total)
            for c in range(counts[i]):
                total += x[(starts[i] + c * length + r - cum[i]) * width + k]
                if c & 7 == 7:
                    blocks += wide(total)
                    total = out.dtype.type(0)
            out[r * width + k] = blocks + wide(total)
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", alike(NUMBERS, 2))
