"""Move the items at chosen places of every sequence to a sequence of them, or back to their places.

The whole sequences lie as `at` says, in blocks; the chosen items one after the other, those of sequence i in the rows
``cum[i]`` to ``cum[i + 1]``, and row r is the item at ``places[r]`` of its sequence.  With `back` 1 they go there, else
they come from there.  Where `at` is absolute, it is a list's arrays, and `src` is 0.  With more `columns` than 1 each
column of a row has a place of its own, and `row` is the size of one of them.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    Integers,
    KernelSpec,
    Layout,
    compiled,
    locate,
    move_row,
    pointer,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, move_word, search


@compiled
def cpu(
    src: int, out: int, at: Layout, cum: Integers, places: Integers, columns: int, back: int, row: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a column."""
    at, cum, places = pointer(at), pointer(cum), pointer(places)
    whole = row * columns
    unit = 1 if at.absolute else whole
    for i in range(lo, hi):
        _, first, _ = locate(at, i)
        begin = first * unit
        if columns == 1 and back == 0:
            for r in range(cum[i], cum[i + 1]):
                move_row(out, r * row, src, begin + places[r] * row, row)
        else:
            for r in range(cum[i], cum[i + 1]):
                for k in range(columns):
                    c = r * columns + k
                    place = begin + places[c] * whole + k * row
                    if back == 0:
                        move_row(out, c * row, src, place, row)
                    else:
                        move_row(out, place, src, c * row, row)


def cuda(
    src: Array | int, out: Array, at: Layout, cum: Integers, places: Integers, columns: int, back: int, row: int
) -> None:
    """All chosen rows, a line of threads each; `src` and `out` are machine words, `row` words a column."""
    whole = row * columns
    unit = 1 if at.absolute else whole
    word = out.itemsize if at.absolute else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        _, first, _ = locate(at, search(cum, r))
        for k in range(columns):
            c = r * columns + k
            w = gpu.threadIdx.x
            while w < row:
                place = first * unit + (places[c] * whole + k * row + w) * word
                move_word(out, place if back else c * row + w, src, c * row + w if back else place)
                w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, "rows")
