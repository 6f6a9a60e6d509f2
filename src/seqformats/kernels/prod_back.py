"""Give every item the sequence's own row times the product of all other items of its column: the gradient of a product.

What comes before an item is multiplied from the beginning, what comes after it from the end, and nothing is divided, so
that zeros do no harm.

``x (n * width,)``, the gradient; `y`, the items, and `out` hold the sequences in the same layout, see `Layout`.  Of
complex items the conjugates count.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout


@p.by_columns()
def spread(given: Any, columns: Columns, place: int, count: int) -> None:
    """`count` columns of a sequence, to which ``x[place:]`` belongs."""
    x, y, out = given
    length, one = columns.length, p.unknown(1)
    before = p.load(x, place, count, out)
    t = 0
    while t < length:
        d = p.item_at(columns, t)
        p.store(out, d, before)
        before = before * p.conjugate(p.load(y, d, count, out))
        t += one
    t = length - 1
    after = p.conjugate(p.load(y, p.item_at(columns, t), count, out))
    while t > 0:
        t -= one
        d = p.item_at(columns, t)
        p.store(out, d, p.load(out, d, count, out) * after)
        after = after * p.conjugate(p.load(y, d, count, out))


@p.compiled
def cpu(x: Array, y: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    given, at = (p.pointer(x), p.pointer(y), p.pointer(out)), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        if columns.length != 0:
            spread(given, columns, i * width, 0, width)


@p.thread_per_column
def cuda(x: Array, y: Array, out: Array, at: Layout, width: int, *, i: int, first: int, length: int, k: int) -> None:
    """A column of a sequence, by one thread."""
    before = x[i * width + k]
    for t in range(length):
        d = (first + p.along(at, t)) * width + k
        out[d] = before
        before *= y[d].conjugate()
    after = out.dtype.type(1)
    for s in range(length):
        d = (first + p.along(at, length - 1 - s)) * width + k
        out[d] *= after
        after *= y[d].conjugate()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (*p.alike(p.FLOATS, 3), *p.alike(p.COMPLEX, 3)))
