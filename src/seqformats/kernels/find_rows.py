"""Find where every sequence first has a given item, column by column: the places of maxima.

`x` holds the sequences in any layout, see `Layout`; ``wanted (n * width,)``, items that are there,
and their places ``out (n * width,)``, -1 for an empty sequence.  Where a column has a NaN, NaN is wanted.
"""

from typing import Any

import numpy as np

from . import parts as p
from .parts import Array, Columns, Integers, Layout
from .parts.names import gpu


@p.in_lanes
def first_place(x: Array, wanted: Array, out: Integers, columns: Columns, place: int, counter: int, count: int) -> None:
    """Find where `count` columns of a sequence have ``wanted[place:]``, counted in the dtype of `counter`."""
    items, where, one = p.load(wanted, place, count, x), p.each(counter, -1, count), p.unknown(1)
    t = columns.length - one
    while t >= 0:
        value = p.load(x, p.item_at(columns, t), count, x)
        where = p.choose((value == items) | (value != value), p.each(counter, t, count), where)
        t -= one
    p.store(out, place, where)


@p.shared
def first_places_by_rows(x: Array, wanted: Array, out: Integers, where: Array, columns: Columns, place: int) -> int:
    """Find the places in the columns that 16 lanes can share, row by row, as wide ones are best read; count these.

    `where` is a `scratch` of counters, so many columns are looked at at once.
    """
    even, some = columns.width & -16, p.unknown(16)
    begin = 0
    while begin < even:
        size = p.at_most(even - begin, 1024)
        k = 0
        while k < size:
            p.store(where, k, p.each(where, -1, 16))
            k += some
        t = columns.length
        while t > 0:
            t -= 1
            a = p.item_at(columns, t) + begin
            k = 0
            while k < size:
                value = p.load(x, a + k, 16, x)
                found = (value == p.load(wanted, place + k, 16, x)) | (value != value)
                p.store(where, k, p.choose(found, p.each(where, t, 16), p.load(where, k, 16, where)))
                k += some
        k = 0
        while k < size:
            p.store(out, place + k, p.load(where, k, 16, where))
            k += some
        place += size
        begin += size
    return even


@p.compiled
def cpu(x: Array, wanted: Array, out: Integers, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, items, where = p.pointer(x), p.pointer(wanted), p.pointer(out)
    at, counters = p.pointer(at), p.scratch(np.int32(0))
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        count = p.columns_at_once(width) if length < 1 << 31 else 1  # narrow counters are fast ones
        k = 0
        if width >= 96 and count == 32:
            columns = Columns(first * width, length, width, at.steps, at.step)
            k = first_places_by_rows(rows, items, where, counters, columns, i * width)
        while k < width:
            k = p.at_most(k, width - count)
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if count == 32:
                first_place(rows, items, where, columns, place, np.int32(0), 32)
            elif count == 4:
                first_place(rows, items, where, columns, place, np.int32(0), 4)
            else:
                first_place(rows, items, where, columns, place, np.int64(0), 1)
            k += count


@p.shared
def place_from(x: Array, columns: Columns, item: Any, t: int, by: int) -> int:
    """Find where every so many items of a column from t on first are this one, or NaN; the length where none is."""
    length = columns.length
    where = length
    while t + 3 * by < length and where == length:
        a, b, c, d = p.four_of(x, columns, t, by)
        where = t + 3 * by if d == item or d != d else where
        where = t + 2 * by if c == item or c != c else where
        where = t + by if b == item or b != b else where
        where = t if a == item or a != a else where
        t += 4 * by
    while t < length and where == length:
        value = x[p.item_at(columns, t)]
        if value == item or value != value:
            where = t
        t += by
    return where


@p.block_per_sequence
def cuda(
    x: Array, wanted: Array, out: Integers, at: Layout, width: int, *, i: int, k: int, columns: Columns, slot: int
) -> None:
    """A column of a sequence, by the threads of a block."""
    found = p.natural(gpu.shared.array(128, at.cum.dtype))
    where = columns.length
    if k < width:
        where = place_from(x, columns, wanted[i * width + k], gpu.threadIdx.y, gpu.blockDim.y)
    found[slot] = where
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half:
            found[slot] = min(found[slot], found[slot + half * gpu.blockDim.x])
        gpu.syncthreads()
        half >>= 1
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = found[slot] if columns.length != 0 else -1


@p.thread_per_column
def short(x: Array, wanted: Array, out: Integers, at: Layout, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    where = place_from(x, columns, wanted[i * width + k], 0, 1)
    out[i * width + k] = where if where < columns.length else -1


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.NUMBERS, 2), short=short)
