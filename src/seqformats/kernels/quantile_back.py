"""Give the items of which quantiles are made their parts of the gradient.

``x (n * q * width,)``, the gradient; `shares` and `places` are those of `quantile_rows`; `out`, zero before, holds the
sequences in any layout, see `Layout`.
"""

from . import parts as p
from .parts import Array, Columns, Integers, Layout


@p.shared
def give(x: Array, shares: Array, places: Integers, out: Array, columns: Columns, q: int, k: int) -> None:
    """Column k of quantile q, counted over all sequences."""
    width = columns.width
    low, high = places[2 * q * width + k], places[(2 * q + 1) * width + k]
    if low >= 0:
        slope, share = x[q * width + k], shares[q]
        out[p.item_at(columns, low)] += slope * (out.dtype.type(1) - share)
        if share != 0:
            out[p.item_at(columns, high)] += slope * share


@p.compiled
def cpu(x: Array, shares: Array, places: Integers, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    count = shares.size // (at.cum.size - 1)
    at = p.pointer(at)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            for q in range(i * count, (i + 1) * count):
                give(x, shares, places, out, columns, q, k)


@p.thread_per_column
def cuda(
    x: Array, shares: Array, places: Integers, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns
) -> None:
    """A column of a sequence, by one thread."""
    count = shares.size // (at.cum.size - 1)
    for q in range(i * count, (i + 1) * count):
        give(x, shares, places, out, columns, q, k)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 3))
