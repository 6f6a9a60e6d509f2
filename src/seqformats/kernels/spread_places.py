"""Give one row of every sequence, column by column, the sequence's own item: the gradient of a maximum.

The others get zeros.

``x (n * width,)``; ``places (n * width,)``: the place in the sequence, -1 for none; `out` holds the sequences in any
layout, see `Layout`.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    Layout,
    alike,
    along,
    at_most,
    choose,
    clear,
    columns_at_once,
    compiled,
    each,
    in_lanes,
    item_at,
    load,
    locate,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import find
    from .parts.gpu import gpu


@in_lanes
def place(x: Array, places: Integers, out: Array, columns: Columns, begin: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[begin:]`` and ``places[begin:]`` belong."""
    length, one = columns.length, unknown(1)
    row, where = load(x, begin, count, x), load(places, begin, count, places)
    t = 0
    while t < length:
        here = where == each(places, t, count)
        store(out, item_at(columns, t), choose(here, row, each(x, 0, count)))
        t += one


@compiled
def cpu(x: Array, places: Integers, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    row, where, rows = pointer(x), pointer(places), pointer(out)
    at = pointer(at)
    count = columns_at_once(width, 8)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        k = 0
        if width >= 32 and at.step == 1 and length != 0:  # zeros in one go, and then the few items
            clear(out, first * width, length * width * out.itemsize)
            while k < width:
                d = (first + along(at, where[i * width + k])) * width
                rows[d + k] = row[i * width + k]
                k += 1
        while k < width:
            k = at_most(k, width - count)
            columns, begin = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if count == 32:
                place(row, where, rows, columns, begin, 32)
            elif count == 8:
                place(row, where, rows, columns, begin, 8)
            elif count == 4:
                place(row, where, rows, columns, begin, 4)
            else:
                place(row, where, rows, columns, begin, 1)
            k += count


def cuda(x: Array, places: Integers, out: Array, at: Layout, width: int) -> None:
    """All rows, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < at.cum[at.cum.size - 1]:
        i, t, d = find(at, r)
        k = gpu.threadIdx.x
        while k < width:
            out[d * width + k] = 0
            if places[i * width + k] == t:
                out[d * width + k] = x[i * width + k]
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", alike(FLOATS, 2))
