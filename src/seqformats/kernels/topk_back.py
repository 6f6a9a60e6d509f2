"""Give the largest items of every sequence their part of the gradient of `topk_rows`.

`places` and `wanted` are those of that kernel.

``x (n * q * width,)`` is the gradient; `out`, zero before, holds the sequences in any layout, see `Layout`.
"""

from . import parts as p
from .parts import Array, Columns, Constants, Integers, Layout


@p.shared
def column(x: Array, places: Integers, out: Array, columns: Columns, ks: Integers, most: int, i: int, k: int) -> None:
    """Column k of sequence i."""
    width = columns.width
    for a in range(most):
        t = places[(i * most + a) * width + k]
        if t >= 0:
            d = p.item_at(columns, t)
            for q in range(ks.size):
                if ks[q] > a:
                    out[d] += x[(i * ks.size + q) * width + k] / out.dtype.type(ks[q])


@p.compiled
def cpu(
    x: Array, places: Integers, out: Array, at: Layout, wanted: Constants, most: int, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    at, ks = p.pointer(at), wanted.numbers
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            column(x, places, out, columns, ks, most, i, k)


def cuda(x: Array, places: Integers, out: Array, at: Layout, wanted: Constants, most: int, width: int) -> None:
    """All units, a thread a column of each."""
    ks = wanted.numbers
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            column(x, places, out, columns, ks, most, i, k)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", tuple((*kinds, "i8") for kinds in p.alike(p.FLOATS, 2)))
