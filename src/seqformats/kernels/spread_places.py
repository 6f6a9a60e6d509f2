"""Give one row of every sequence, column by column, the sequence's own item: the gradient of a maximum.

The others get zeros.

``x (n * width,)``; ``places (n * width,)``: the place in the sequence, -1 for none; `out` holds the sequences in any
layout, see `Layout`.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    Layout,
    alike,
    by_columns,
    choose,
    clear,
    columns_of,
    compiled,
    each,
    item_at,
    load,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import find
    from .parts.gpu import gpu


@by_columns(some=8)
def place(given: Any, columns: Columns, begin: int, count: int) -> None:
    """Some columns of a sequence, to which ``x[begin:]`` and ``places[begin:]`` belong."""
    x, places, out = given
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
    row, where, rows, at = pointer(x), pointer(places), pointer(out), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        k = 0
        if width >= 32 and at.step == 1 and columns.length != 0:  # zeros in one go, and then the few items
            clear(out, columns.begin, columns.length * width * out.itemsize)
            while k < width:
                rows[item_at(columns, where[i * width + k]) + k] = row[i * width + k]
                k += 1
        place((row, where, rows), columns, i * width, k, width)


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
