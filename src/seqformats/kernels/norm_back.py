"""Give every item its sequence's own row times item / norm: the gradient of `norm_rows`.

``x (n * width,)``, the gradient; `y`, the items, and `out` hold the sequences in the same layout, see `Layout`;
``values (n * width,)``, what `norm_rows` has found.  Where a norm is zero, so is the gradient.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.by_columns()
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """`count` columns of a sequence, to which ``x[place:]`` belongs."""
    x, y, values, out = given
    norm, zero, one = p.load(values, place, count, out), p.each(out, 0, count), p.unknown(1)
    slope = p.choose(norm == zero, zero, p.load(x, place, count, out))
    norm = p.choose(norm == zero, p.each(out, 1, count), norm)
    t = 0
    while t < columns.length:
        d = p.item_at(columns, t)
        p.store(out, d, p.load(y, d, count, out) / norm * slope)  # slope / norm may be infinite
        t += one


@p.compiled
def cpu(x: Array, y: Array, values: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (p.pointer(x), p.pointer(y), p.pointer(values), p.pointer(out)), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        spread(given, columns, i * width, 0, width)


def cuda(x: Array, y: Array, values: Array, out: Array, at: Layout, width: int) -> None:
    """All rows, a line of threads each."""
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, _, d = p.find(at, r)
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            norm = values[i * width + k]
            out[d * width + k] = y[d * width + k] / norm * x[i * width + k] if norm != 0 else norm


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 4), p.STREAMS)
