"""Multiply the rows of every sequence, column by column, in their order.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  An empty sequence gives ones.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.by_columns()
def product(given: Any, columns: Columns, place: int, count: int) -> None:
    """The products of `count` columns of a sequence to ``out[place:]``."""
    x, out = given
    found, length, one = p.load(x, p.item_at(columns, 0), count, out), columns.length, p.unknown(1)
    t = one
    while t < length:
        found = found * p.load(x, p.item_at(columns, t), count, out)
        t += one
    p.store(out, place, found)


@p.compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; products run in the dtype of `out`."""
    given, at = (p.pointer(x), p.pointer(out)), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = 0
        while k < width and columns.length == 0:
            out[i * width + k] = 1
            k += 1
        product(given, columns, i * width, k, width)


@p.shared
def with_eight(found: Any, eight: Any) -> Any:
    """A product with eight items more, in their order."""
    a, b, c, d, e, f, g, h = eight
    found = (((found * a) * b) * c) * d
    return (((found * e) * f) * g) * h


@p.shared
def product_of(x: Array, out: Array, columns: Columns, t: int, by: int) -> Any:
    """Multiply every so many items of a column from t on, in the dtype of `out`."""
    found = p.zero_in(out) + p.number_in(out, 1)
    while p.has_one(x) and t + 15 * by < columns.length:  # all on their way at a time
        eight, more = p.eight_at(x, columns, t, by), p.eight_at(x, columns, t + 8 * by, by)
        found = with_eight(with_eight(found, eight), more)
        t += 16 * by
    while t + 7 * by < columns.length:
        found = with_eight(found, p.eight_at(x, columns, t, by))
        t += 8 * by
    while t < columns.length:
        a, b, c, d = p.some_of(x, columns, t, by, p.zero_in(x) + p.number_in(x, 1))
        found = (((found * a) * b) * c) * d
        t += 4 * by
    return found


@p.block_per_sequence
def cuda(x: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns, slot: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    Thread y of a column multiplies every so many rows, and the parts are multiplied in pairs.
    """
    parts = p.natural(gpu.shared.array(128, out.dtype))
    found = out.dtype.type(1)
    if k < width:
        t, down = p.share_of(columns.length)
        found = product_of(x, out, columns, t, down)
    parts[slot] = found
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half:
            parts[slot] *= parts[slot + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = parts[slot]


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    out[i * width + k] = product_of(x, out, columns, 0, 1)


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "sequences", (*p.SUMS, *p.alike(p.COMPLEX, 2)), p.STREAMS, short, fours=True
)
