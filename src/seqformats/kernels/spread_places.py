"""Give one row of every sequence, column by column, the sequence's own item: the gradient of a maximum.

The others get zeros.

``x (n * width,)``; ``places (n * width,)``: the place in the sequence, -1 for none; `out` holds the sequences in any
layout, see `Layout`.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Integers, Layout
from .parts.names import gpu


@p.by_columns(some=8)
def place(given: Any, columns: Columns, begin: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[begin:]`` and ``places[begin:]`` belong."""
    x, places, out = given
    length, one = columns.length, p.unknown(1)
    row, where = p.load(x, begin, count, x), p.load(places, begin, count, places)
    t = 0
    while t < length:
        here = where == p.each(places, t, count)
        p.store(out, p.item_at(columns, t), p.choose(here, row, p.each(x, 0, count)))
        t += one


@p.compiled
def cpu(x: Array, places: Integers, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    row, where, rows, at = p.pointer(x), p.pointer(places), p.pointer(out), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = 0
        if width >= 32 and at.step == 1 and columns.length != 0:  # zeros in one go, and then the few items
            p.clear(out, columns.begin, columns.length * width * out.itemsize)
            while k < width:
                rows[p.item_at(columns, where[i * width + k]) + k] = row[i * width + k]
                k += 1
        place((row, where, rows), columns, i * width, k, width)


def cuda(x: Array, places: Integers, out: Array, at: Layout, width: int) -> None:
    """All rows, a line of threads each."""
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, t, d = p.find(at, r)
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            out[d * width + k] = 0
            if places[i * width + k] == t:
                out[d * width + k] = x[i * width + k]


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 2))
