"""Lay the neighbours of every row side by side: the `before` rows before it, itself, and the `after` rows after it.

`src` and `out` hold the sequences in the same layout, see `Layout`; a row of `out` has
``before + 1 + after`` rows of `src`.  What lies outside the sequence is zero, or left as it is where `filled` is 1.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    KernelSpec,
    Layout,
    along,
    at_least,
    at_most,
    clear,
    compiled,
    locate,
    move,
    move_row,
    move_run,
    pointer,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import find
    from .parts.gpu import gpu, move_word


@compiled
def cpu(src: int, out: int, at: Layout, before: int, after: int, filled: int, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row of `src`."""
    count = before + 1 + after
    size = count * row
    at = pointer(at)
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        t = 0
        while t < length:
            d = (first + along(at, t)) * size
            if at.step == 1 and t == before and t + after < length:
                # all neighbours are there until shortly before the end
                move_run(out, d, size, src, first * row, row, size, length - after - t)
                t = length - after
                continue
            begin = at_least(before - t, 0)  # the first neighbour that is there, and the one after the last
            end = at_most(count, length - t + before)
            if filled == 0:
                if begin != 0:
                    clear(out, d, begin * row)
                if end != count:
                    clear(out, d + end * row, (count - end) * row)
            if at.step == 1:
                move(out, d + begin * row, src, (first + t - before + begin) * row, (end - begin) * row)
            else:
                for q in range(begin, end):
                    s = first + along(at, t - before + q)
                    move_row(out, d + q * row, src, s * row, row)
            t += 1


def cuda(src: Array, out: Array, at: Layout, before: int, after: int, filled: int, row: int) -> None:
    """All rows, a line of threads each; `src` and `out` are machine words, `row` words a row of `src`."""
    count = before + 1 + after
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < at.cum[at.cum.size - 1]:
        i, t, d = find(at, r)
        first = d - along(at, t)
        length = at.cum[i + 1] - at.cum[i]
        for q in range(count):
            near = t - before + q
            to = (d * count + q) * row
            if near >= 0 and near < length:
                s = (first + along(at, near)) * row
                w = gpu.threadIdx.x
                while w < row:
                    move_word(out, to + w, src, s + w)
                    w += gpu.blockDim.x
            elif filled == 0:
                w = gpu.threadIdx.x
                while w < row:
                    out[to + w] = 0
                    w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, "rows")
