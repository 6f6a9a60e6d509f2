"""The largest (or least) item of every sequence, column by column.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  NaN is beyond every
number.  An empty sequence gives zeros.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


@p.by_columns()
def largest(given: Any, columns: Columns, place: int, count: int) -> None:
    """The largest (least) items of `count` columns of a sequence to ``out[place:]``."""
    x, out, least = given
    best, length, one = p.flip_order(p.load(x, p.item_at(columns, 0), count, x), least), columns.length, p.unknown(1)
    t = one
    while t < length:
        best = p.larger(best, p.flip_order(p.load(x, p.item_at(columns, t), count, x), least))
        t += one
    p.store(out, place, p.flip_order(best, least))


@p.shared
def largest_by_rows(given: Any, columns: Columns, place: int, turn: bool) -> int:
    """Take the columns that 16 lanes can share, four rows at a time or `in_turn`, as wide ones are best read.

    How many they are.
    """
    x, out, least = given
    length, even, some = columns.length, columns.width & -16, p.unknown(16)
    a = p.item_at(columns, 0)
    k = 0
    while k < even:
        p.store(out, place + k, p.load(x, a + k, 16, x))
        k += some
    t = 1
    while turn and t < length:
        a = p.item_at(columns, t)
        k = 0
        while k < even:
            best = p.larger(
                p.flip_order(p.load(out, place + k, 16, x), least), p.flip_order(p.load(x, a + k, 16, x), least)
            )
            p.store(out, place + k, p.flip_order(best, least))
            k += some
        t += 1
    while t < length:
        # the last four may have been seen before
        t = p.at_most(t, p.at_least(length - 4, 0))
        a, b = p.item_at(columns, t), p.item_at(columns, p.at_most(t + 1, length - 1))
        c, d = p.item_at(columns, p.at_most(t + 2, length - 1)), p.item_at(columns, p.at_most(t + 3, length - 1))
        k = 0
        while k < even:
            best = p.larger(
                p.flip_order(p.load(out, place + k, 16, x), least), p.flip_order(p.load(x, a + k, 16, x), least)
            )
            best = p.larger(best, p.flip_order(p.load(x, b + k, 16, x), least))
            best = p.larger(best, p.flip_order(p.load(x, c + k, 16, x), least))
            best = p.larger(best, p.flip_order(p.load(x, d + k, 16, x), least))
            p.store(out, place + k, p.flip_order(best, least))
            k += some
        t += 4
    return even


@p.shared
def largest_of_numbers(given: Any, columns: Columns, place: int) -> None:
    """Take the largest of single numbers side by side, 16 at least, 16 in lanes; some may be seen twice."""
    x, out, least = given
    begin, last = columns.begin, columns.length - 16
    t, some = 16, p.unknown(32)
    best, other = p.flip_order(p.load(x, begin, 16, x), least), p.flip_order(p.load(x, begin + last, 16, x), least)
    while t < last:
        best = p.larger(best, p.flip_order(p.load(x, begin + t, 16, x), least))
        other = p.larger(other, p.flip_order(p.load(x, begin + p.at_most(t + 16, last), 16, x), least))
        t += some
    p.store(out, place, p.flip_order(p.largest_lane(p.larger(best, other)), least))


@p.compiled
def cpu(x: Array, out: Array, at: Layout, least: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    turn = p.in_turn(at.cum[at.cum.size - 1], width, x.itemsize, at.step)
    given, at = (p.pointer(x), p.pointer(out), least), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = 0
        if columns.length == 0:
            p.clear(out, i * width, width * out.itemsize)
            k = width
        elif width == 1 and columns.length >= 16 and at.step == 1:
            largest_of_numbers(given, columns, i)
            k = 1
        elif width >= 64:
            k = largest_by_rows(given, columns, i * width, turn)
        largest(given, columns, i * width, k, width)


@p.shared
def best_of_four(best: Any, four: tuple[Any, Any, Any, Any], least: int) -> Any:
    """The largest (least) of five items, the first of which is the best so far."""
    a, b, c, d = four
    best = p.better(p.better(best, a, least), b, least)
    return p.better(p.better(best, c, least), d, least)


@p.shared
def best_of_eight(best: Any, eight: Any, least: int) -> Any:
    """Choose the largest (least) of nine items."""
    a, b, c, d, e, f, g, h = eight
    return best_of_four(best_of_four(best, (a, b, c, d), least), (e, f, g, h), least)


@p.shared
def best_one_way(x: Array, columns: Columns, t: int, by: int, least: int) -> Any:
    """The largest (least) of every so many items of a column from t on; `least` is a constant.

    A thread with no item of its own begins with the first one, as all do, which does no harm.
    """
    best = x[p.item_at(columns, 0)]
    while p.has_one(x) and t + 15 * by < columns.length:  # all on their way at a time
        eight, more = p.eight_at(x, columns, t, by), p.eight_at(x, columns, t + 8 * by, by)
        best = best_of_eight(best_of_eight(best, eight, least), more, least)
        t += 16 * by
    while t + 7 * by < columns.length:
        best = best_of_eight(best, p.eight_at(x, columns, t, by), least)
        t += 8 * by
    while t < columns.length:
        best = best_of_four(best, p.some_of(x, columns, t, by, best), least)
        t += 4 * by
    return best


@p.shared
def best_of_column(x: Array, columns: Columns, t: int, by: int, least: int) -> Any:
    """Choose the largest (least) of a column, where `least` is a number: each loop compares one way."""
    if least:
        return best_one_way(x, columns, t, by, 1)
    return best_one_way(x, columns, t, by, 0)


@p.block_per_sequence
def cuda(
    x: Array, out: Array, at: Layout, least: int, width: int, *, i: int, k: int, columns: Columns, slot: int
) -> None:
    """A column of a sequence, by the threads of a block."""
    values = p.natural(gpu.shared.array(128, x.dtype))
    values[slot] = 0
    best = values[slot]  # zero in the dtype of x
    if k < width and columns.length != 0:
        best = best_of_column(x, columns, gpu.threadIdx.y, gpu.blockDim.y, least)
    values[slot] = best
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half and p.is_better(values[slot + half * gpu.blockDim.x], values[slot], least):
            values[slot] = values[slot + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = values[slot]


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, least: int, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    if columns.length == 0:
        out[i * width + k] = p.zero_in(out)
    else:
        out[i * width + k] = best_of_column(x, columns, 0, 1, least)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike(p.NUMBERS, 2), p.STREAMS, short, fours=True)
