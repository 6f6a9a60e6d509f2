"""Move the first or the last row of every sequence to an array of one row a sequence, or back to its place.

One side holds the sequences in any layout, see `Layout`; where the layout is absolute, it is a
list's arrays, and `src` is 0.  An empty sequence gives zero bytes, and takes nothing.
"""

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


@p.shared
def tell(address: int, row: int) -> None:
    """Tell the memory that a row will soon be read, the first 512 bytes of it."""
    p.will_read(address)
    p.will_read(address + 64)
    end = address + p.at_most(row, 512)
    q = address + 128
    while q < end:
        p.will_read(q)
        q += 64


@p.shared
def take(out: int, src: int, at: Layout, last: int, row: int, lo: int, hi: int) -> None:
    """The rows of blocks one after the other; where `row` is a constant, a move is some vectors."""
    begin = at.cum[lo]
    for u in range(lo, hi):
        if row >= 128:  # of several lines each, so the memory is told in time
            v = p.at_most(u + 8, hi - 1)
            tell(src + (at.starts[v] + last * p.at_least(at.cum[v + 1] - at.cum[v] - 1, 0)) * row, row)
        end = at.cum[u + 1]
        length = end - begin
        if length != 0:
            p.move_row(out, u * row, src, (at.starts[u] + last * (length - 1)) * row, row)
        else:
            p.clear(out, u * row, row)
        begin = end


@p.compiled
def cpu(src: int, out: int, at: Layout, last: int, back: int, row: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row; with `back` 1, `out` has the sequences."""
    at = p.pointer(at)
    unit = 1 if at.absolute else row
    if at.step == 1 and at.stride < 0 and at.absolute == 0 and back == 0:
        if row == 4:
            take(out, src, at, last, 4, lo, hi)
        elif row == 8:
            take(out, src, at, last, 8, lo, hi)
        elif row == 16:
            take(out, src, at, last, 16, lo, hi)
        elif row == 32:
            take(out, src, at, last, 32, lo, hi)
        else:
            take(out, src, at, last, row, lo, hi)
        return
    for u in range(lo, hi):
        if row >= 128 and back == 0:
            _, first, length = p.locate(at, p.at_most(u + 8, hi - 1))
            tell(src + first * unit + p.along(at, last * p.at_least(length - 1, 0)) * row, row)
        i, first, length = p.locate(at, u)
        place = (
            first * unit + p.along(at, last * p.at_least(length - 1, 0)) * row
        )  # of an empty one it is not looked at
        if length == 0:
            if back == 0:
                p.clear(out, i * row, row)
        elif back:
            p.move_row(out, place, src, i * row, row)
        else:
            p.move_row(out, i * row, src, place, row)


def cuda(src: Array | int, out: Array, at: Layout, last: int, back: int, row: int) -> None:
    """All units, a line of threads each; `src` and `out` are machine words, `row` words a row."""
    unit = 1 if at.absolute else row
    word = out.itemsize if at.absolute else 1
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for w in range(gpu.threadIdx.x, row, gpu.blockDim.x):
            if length != 0:
                place = first * unit + (p.along(at, last * (length - 1)) * row + w) * word
                d = place if back else i * row + w
                s = i * row + w if back else place
                p.move_word(out, d, src, s)
            elif back == 0:
                out[i * row + w] = 0


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "rows")
