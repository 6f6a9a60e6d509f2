"""The means of the largest items of every sequence, column by column: the sum of the k largest, by k, for several k.

`x` holds the sequences in any layout, see `Layout`; ``ks (q,)`` with the largest `most`;
``out (n * q * width,)``; ``tops`` and ``places (n * most * width,)``: the largest items, falling, of equal ones the
first, and their places in the sequence, -1 where it is too short.  NaN is beyond every number.  Where `needed` is 0
nobody will read these two, and on the CPU sequences share what little of them is written.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    Layout,
    add_block,
    alike,
    at_most,
    beyond,
    choose,
    columns_at_once,
    compiled,
    each,
    in_any,
    in_lanes,
    item_at,
    load,
    locate,
    pointer,
    room,
    rounded,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import mean_of_first
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


@shared
def collect(x: Array, tops: Array, places: Integers, columns: Columns, begin: int, most: int) -> None:
    """The `most` largest items of a column, and their places, to every `width` of ``tops[begin:]``."""
    width = columns.width
    for a in range(most):
        tops[begin + a * width] = 0
        places[begin + a * width] = -1
    for t in range(columns.length):
        value = x[item_at(columns, t)]
        a = at_most(t, most)  # so many are there; it goes before those that it is beyond
        if a == most and not beyond(value, tops[begin + (a - 1) * width], 0):
            continue
        if a == most:
            a -= 1
        while a > 0 and beyond(value, tops[begin + (a - 1) * width], 0):
            tops[begin + a * width] = tops[begin + (a - 1) * width]
            places[begin + a * width] = places[begin + (a - 1) * width]
            a -= 1
        tops[begin + a * width] = value
        places[begin + a * width] = t


@in_lanes
def insert(
    x: Array, tops: Array, places: Integers, columns: Columns, top: int, most: int, needed: int, count: int
) -> None:
    """Some columns of a sequence, into ``tops[top:]`` and ``places[top:]``."""
    length, width, one = columns.length, columns.width, unknown(1)
    t = 0
    while t < length:
        value = load(x, item_at(columns, t), count, x)
        place = each(places, t, count)
        at, end = top, top + at_most(t, most) * width
        if t >= most:
            least = load(tops, end - width, count, x)
            if not in_any((value > least) | ((value != value) & (least == least))):
                at = end
        # from the place where it is larger, everything moves one down
        moved = value != value
        moved = moved & (value == value)
        while at < end:
            best = load(tops, at, count, x)
            moved = moved | (value > best) | ((value != value) & (best == best))
            store(tops, at, choose(moved, value, best))
            value = choose(moved, best, value)
            if needed != 0:
                other = load(places, at, count, places)
                store(places, at, choose(moved, place, other))
                place = choose(moved, other, place)
            at += width * one
        if t < most:
            store(tops, end, value)
            if needed != 0:
                store(places, end, place)
        t += one


@in_lanes
def mean(tops: Array, out: Array, blocks: Array, columns: Columns, top: int, place: int, k: int, count: int) -> None:
    """The sum of the first k items that there are of some columns of ``tops[top:]``, by k, to ``out[place:]``."""
    found, width, one = at_most(k, columns.length), columns.width, unknown(1)
    total = each(out, 0.0, count)
    a = 0
    end = at_most(found, 8)
    while True:
        while a < end:
            total = total + load(tops, top + a * width, count, out)
            a += one
        if end == found:
            break
        add_block(blocks, total, end == 8)
        total = each(out, 0.0, count)
        end = at_most(end + 8, found)
    if found > 8:
        total = rounded(blocks, total)
    store(out, place, total / each(out, float(k), count))


@compiled
def cpu(
    x: Array,
    out: Array,
    tops: Array,
    places: Integers,
    at: Layout,
    ks: Integers,
    most: int,
    needed: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    rows, means, best, where = pointer(x), pointer(out), pointer(tops), pointer(places)
    at = pointer(at)
    count, blocks = columns_at_once(width), room(means)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        begin = (i if needed else lo) * most * width
        for p in range(begin + at_most(length, most) * width, begin + most * width):
            tops[p] = 0
            places[p] = -1
        k = 0
        while k < width:
            k = at_most(k, width - count)
            columns, top = Columns(first * width + k, length, width, at.steps, at.step), begin + k
            if count == 32:
                insert(rows, best, where, columns, top, most, needed, 32)
            elif count == 4:
                insert(rows, best, where, columns, top, most, needed, 4)
            else:
                insert(rows, best, where, columns, top, most, needed, 1)
            for q in range(ks.size):
                place = (i * ks.size + q) * width + k
                if count == 32:
                    mean(best, means, blocks, columns, top, place, ks[q], 32)
                elif count == 4:
                    mean(best, means, blocks, columns, top, place, ks[q], 4)
                else:
                    mean(best, means, blocks, columns, top, place, ks[q], 1)
            k += count


def cuda(
    x: Array,
    out: Array,
    tops: Array,
    places: Integers,
    at: Layout,
    ks: Integers,
    most: int,
    needed: int,  # noqa: ARG001  all of them are
    width: int,
) -> None:
    """All units, a thread a column of each."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns, begin = Columns(first * width + k, length, width, at.steps, at.step), i * most * width + k
            collect(x, tops, places, columns, begin, most)
            for q in range(ks.size):
                out[(i * ks.size + q) * width + k] = mean_of_first(tops, out, begin, width, ks[q], length)
            k += columns_of_grid()
        u += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", alike(FLOATS, 3))
