"""Give the largest items of every sequence their part of the gradient of `topk_rows`.

`places` and `wanted` are those of that kernel.

``x (n * q * width,)`` is the gradient; `out`, zero before, holds the sequences in any layout, see `Layout`.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    Constants,
    Integers,
    KernelSpec,
    Layout,
    alike,
    compiled,
    item_at,
    locate,
    pointer,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


@shared
def column(x: Array, places: Integers, out: Array, columns: Columns, ks: Integers, most: int, i: int, k: int) -> None:
    """Column k of sequence i."""
    width = columns.width
    for a in range(most):
        t = places[(i * most + a) * width + k]
        if t >= 0:
            d = item_at(columns, t)
            for q in range(ks.size):
                if ks[q] > a:
                    out[d] += x[(i * ks.size + q) * width + k] / out.dtype.type(ks[q])


@compiled
def cpu(
    x: Array, places: Integers, out: Array, at: Layout, wanted: Constants, most: int, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    at, ks = pointer(at), wanted.numbers
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            column(x, places, out, columns, ks, most, i, k)


def cuda(x: Array, places: Integers, out: Array, at: Layout, wanted: Constants, most: int, width: int) -> None:
    """All units, a thread a column of each."""
    ks = wanted.numbers
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            column(x, places, out, columns, ks, most, i, k)
            k += columns_of_grid()
        u += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", tuple((*kinds, "i8") for kinds in alike(FLOATS, 2)))
