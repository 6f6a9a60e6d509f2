"""Find the first of the largest (least) items of every sequence, column by column, in one pass over the items.

It is for GPUs.  On the CPU `max_rows` and `find_rows` do that together: the second finds the items in the cache, and
both compare many columns at once.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``, -1 for an empty sequence.  The largest are
looked for where `least` is 0, else the least.  NaN is beyond every number.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Integers, Layout
from .parts.names import gpu


@p.compiled
def cpu(x: Array, out: Integers, at: Layout, least: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            where = -1
            for t in range(length):
                if t == 0 or p.is_better(x[p.item_at(columns, t)], x[p.item_at(columns, where)], least):
                    where = t
            out[i * width + k] = where


@p.shared
def first_of_two(a: Any, i: int, b: Any, j: int, least: int) -> Any:
    """The better one of two items, of equal ones the first, and its place."""
    if p.is_better(b, a, least):
        return b, j
    return a, i


@p.shared
def first_of_eight(best: Any, where: int, eight: Any, t: int, by: int, least: int) -> Any:
    """Choose between the best so far and eight that come behind, which stand at t and every so many places on."""
    a, b, c, d, e, f, g, h = eight
    a, i = first_of_two(a, t, b, t + by, least)
    c, j = first_of_two(c, t + 2 * by, d, t + 3 * by, least)
    a, i = first_of_two(a, i, c, j, least)
    e, j = first_of_two(e, t + 4 * by, f, t + 5 * by, least)
    g, k = first_of_two(g, t + 6 * by, h, t + 7 * by, least)
    e, j = first_of_two(e, j, g, k, least)
    a, i = first_of_two(a, i, e, j, least)
    return first_of_two(best, where, a, i, least)


@p.shared
def first_one_way(x: Array, columns: Columns, t: int, by: int, least: int) -> Any:
    """The best of every so many items of a column from t on, and its place; `least` is a constant.

    A thread with no item of its own begins with the first one, as all do, which does no harm.
    """
    best, where = x[p.item_at(columns, 0)], 0
    while t + 15 * by < columns.length:  # all on their way at a time
        eight, more = p.eight_at(x, columns, t, by), p.eight_at(x, columns, t + 8 * by, by)
        best, where = first_of_eight(best, where, eight, t, by, least)
        best, where = first_of_eight(best, where, more, t + 8 * by, by, least)
        t += 16 * by
    while t + 7 * by < columns.length:
        best, where = first_of_eight(best, where, p.eight_at(x, columns, t, by), t, by, least)
        t += 8 * by
    while t < columns.length:
        a, b, c, d = p.some_of(x, columns, t, by, best)  # in place of those behind the end the best, which stays
        best, where = first_of_two(best, where, a, t, least)
        best, where = first_of_two(best, where, b, t + by, least)
        best, where = first_of_two(best, where, c, t + 2 * by, least)
        best, where = first_of_two(best, where, d, t + 3 * by, least)
        t += 4 * by
    return best, where


@p.shared
def first_of_column(x: Array, columns: Columns, t: int, by: int, least: int) -> Any:
    """Find the first of the best of a column, where `least` is a number: each loop compares one way."""
    if least:
        return first_one_way(x, columns, t, by, 1)
    return first_one_way(x, columns, t, by, 0)


@p.block_per_sequence
def cuda(
    x: Array, out: Integers, at: Layout, least: int, width: int, *, i: int, k: int, columns: Columns, slot: int
) -> None:
    """A column of a sequence, by the threads of a block."""
    values = p.natural(gpu.shared.array(128, x.dtype))
    places = p.natural(gpu.shared.array(128, out.dtype))
    places[slot] = -1
    if k < width and columns.length != 0:
        best, where = first_of_column(x, columns, gpu.threadIdx.y, gpu.blockDim.y, least)
        values[slot] = best
        places[slot] = where
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half and columns.length != 0 and k < width:
            other = slot + half * gpu.blockDim.x
            a, b = values[slot], values[other]
            if p.is_better(b, a, least) or (places[other] < places[slot] and not p.is_better(a, b, least)):
                values[slot] = b
                places[slot] = places[other]
        gpu.syncthreads()
        half >>= 1
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = places[slot]


@p.thread_per_column
def short(x: Array, out: Integers, at: Layout, least: int, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    where = -1
    if columns.length != 0:
        _, where = first_of_column(x, columns, 0, 1, least)
    out[i * width + k] = where


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", tuple((kind,) for kind in p.NUMBERS), short=short)
