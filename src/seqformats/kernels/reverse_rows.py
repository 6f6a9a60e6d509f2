"""Move the rows of every sequence to the same sequence in reverse order.

`src` and `out` hold the sequences in the same layout, see `Layout`.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    MOVES,
    Array,
    KernelSpec,
    Layout,
    along,
    compiled,
    locate,
    move_row,
    move_run,
    pointer,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import first_of_line, four_rows, move_four


@compiled
def cpu(src: int, out: int, at: Layout, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    at = pointer(at)
    for u in range(lo, hi):
        _, first, length = locate(at, u)
        if at.step != 0:
            last = first + (length - 1) * at.step
            move_run(out, first * row, at.step * row, src, last * row, -at.step * row, row, length)
        else:
            for t in range(length):
                d = first + at.steps[t]
                s = first + at.steps[length - 1 - t]
                move_row(out, d * row, src, s * row, row)


@shared
def way_of_row(at: Layout, found: tuple[int, int, int], row: int) -> Any:
    """Find where the row that was found comes from and goes, in words."""
    i, t, d = found
    return (d - along(at, t) + along(at, at.cum[i + 1] - at.cum[i] - 1 - t)) * row, d * row


def cuda(src: Array, out: Array, at: Layout, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row."""
    r = first_of_line()
    if r < at.cum[at.cum.size - 1]:
        first, second, third, fourth = four_rows(at, r)
        come0, to0 = way_of_row(at, first, row)
        come1, to1 = way_of_row(at, second, row)
        come2, to2 = way_of_row(at, third, row)
        come3, to3 = way_of_row(at, fourth, row)
        move_four(out, src, row, 1, (to0, to1, to2, to3), (come0, come1, come2, come3))


KERNEL = KernelSpec(cpu, cuda, MOVES, "lines")
