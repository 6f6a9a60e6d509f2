"""The means of the largest items of every sequence, column by column: the sum of the k largest, by k, for several k.

`x` holds the sequences in any layout, see `Layout`; `wanted` is each k, ``(q,)``, the largest of them `most`;
``out (n * q * width,)``; ``tops`` and ``places (n * most * width,)``: the largest items, falling, of equal ones the
first, and their places in the sequence, -1 where it is too short.  NaN is beyond every number.  Where `needed` is 0
nobody will read these two: on the CPU sequences share what little of them is written, and a GPU takes no `places`, and
with a `most` up to 4 no `tops` either.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Columns, Constants, Integers, Layout


class Made(NamedTuple):
    """Means, and the largest items with their places."""

    out: Array
    tops: Array
    places: Integers


class Sizes(NamedTuple):
    """Number of items to keep, and whether somebody reads them."""

    most: int
    needed: int


@p.shared
def precedes(value: Any, best: Any) -> Any:
    """`is_better` without branches, which the threads of a warp would take one after the other."""
    return (not value <= best) & (best == best)


@p.shared
def push(tops: Array, places: Integers, begin: int, end: int, width: int, value: Any, place: int, first: bool) -> None:
    """Put an item among the falling ones at every `width` of ``tops[begin:end]``, before all of them if it is `first`.

    What is at `end` is lost.
    """
    needed = places.size > 0
    a = end
    while a > begin and (first or p.is_better(value, tops[a - width], 0)):
        tops[a] = tops[a - width]
        if needed:
            places[a] = places[a - width]
        a -= width
    tops[a] = value
    if needed:
        places[a] = place


@p.shared
def offer(tops: Array, places: Integers, columns: Columns, begin: int, most: int, held: Any, t: int, value: Any) -> Any:
    """Item t to what `collect` holds: the four largest and their places, and the last of the rest."""
    a, b, c, d, spot, q, r, s, least = held
    before_d = (t < 4) | precedes(value, d)
    if t >= columns.length or not (before_d or (most > 4 and (t < most or precedes(value, least)))):
        return held
    if most > 4 and t >= 4:
        rest, width = begin + 4 * columns.width, columns.width
        out, place = d if before_d else value, s if before_d else t
        push(tops, places, rest, rest + p.at_most(t - 4, most - 5) * width, width, out, place, before_d)
        least = tops[rest + (most - 5) * width]
    before_a = (t < 1) | precedes(value, a)  # what is beyond one of them is beyond all after it
    before_b = (t < 2) | precedes(value, b)
    before_c = (t < 3) | precedes(value, c)
    d, s = value if before_d else d, t if before_d else s
    d, s = c if before_c else d, r if before_c else s
    c, r = value if before_c else c, t if before_c else r
    c, r = b if before_b else c, q if before_b else r
    b, q = value if before_b else b, t if before_b else q
    b, q = a if before_a else b, spot if before_a else q
    a, spot = value if before_a else a, t if before_a else spot
    return a, b, c, d, spot, q, r, s, least


@p.shared
def collect(x: Array, tops: Array, places: Integers, columns: Columns, begin: int, most: int) -> Any:
    """The `most` largest items of a column, and their places, from the fifth on to every `width` of ``tops[begin:]``.

    Eight are read at a time, and the four largest, which are returned, are held in registers.
    """
    width, none = columns.width, p.zero_in(x)
    for a in range(4, most):
        tops[begin + a * width] = none
        if places.size > 0:
            places[begin + a * width] = -1
    held = none, none, none, none, -1, -1, -1, -1, none
    t = 0
    while t < columns.length:
        a, b, c, d, e, f, g, h = p.eight_of(x, columns, t, 1, none)
        held = offer(tops, places, columns, begin, most, held, t, a)
        held = offer(tops, places, columns, begin, most, held, t + 1, b)
        held = offer(tops, places, columns, begin, most, held, t + 2, c)
        held = offer(tops, places, columns, begin, most, held, t + 3, d)
        held = offer(tops, places, columns, begin, most, held, t + 4, e)
        held = offer(tops, places, columns, begin, most, held, t + 5, f)
        held = offer(tops, places, columns, begin, most, held, t + 6, g)
        held = offer(tops, places, columns, begin, most, held, t + 7, h)
        t += 8
    return held


@p.shared
def keep_four(tops: Array, begin: int, width: int, most: int, four: Any) -> None:
    """The first four, or fewer, to where the others are."""
    a, b, c, d = four
    tops[begin] = a
    if most > 1:
        tops[begin + width] = b
    if most > 2:
        tops[begin + 2 * width] = c
    if most > 3:
        tops[begin + 3 * width] = d


@p.shared
def mean_of_four(out: Array, four: Any, k: int, length: int) -> Any:
    """Calculate `mean_of_first`, where k is at most 4."""
    a, b, c, d = four
    many = p.at_most(k, length)
    total = out.dtype.type(0)
    if many > 0:
        total += a
    if many > 1:
        total += b
    if many > 2:
        total += c
    if many > 3:
        total += d
    return total / out.dtype.type(k)


@p.in_lanes
def insert(
    x: Array, tops: Array, places: Integers, columns: Columns, top: int, most: int, needed: int, count: int
) -> None:
    """Some columns of a sequence, into ``tops[top:]`` and ``places[top:]``."""
    length, width, one = columns.length, columns.width, p.unknown(1)
    t = 0
    while t < length:
        value = p.load(x, p.item_at(columns, t), count, x)
        place = p.each(places, t, count)
        at, end = top, top + p.at_most(t, most) * width
        if t >= most:
            least = p.load(tops, end - width, count, x)
            if not p.in_any((value > least) | ((value != value) & (least == least))):
                at = end
        # from the place where it is larger, everything moves one down
        moved = value != value
        moved = moved & (value == value)
        while at < end:
            best = p.load(tops, at, count, x)
            moved = moved | (value > best) | ((value != value) & (best == best))
            p.store(tops, at, p.choose(moved, value, best))
            value = p.choose(moved, best, value)
            if needed != 0:
                other = p.load(places, at, count, places)
                p.store(places, at, p.choose(moved, place, other))
                place = p.choose(moved, other, place)
            at += width * one
        if t < most:
            p.store(tops, end, value)
            if needed != 0:
                p.store(places, end, place)
        t += one


@p.in_lanes
def mean(tops: Array, out: Array, blocks: Array, columns: Columns, top: int, place: int, k: int, count: int) -> None:
    """The sum of the first k items that there are of some columns of ``tops[top:]``, by k, to ``out[place:]``."""
    found, width, one = p.at_most(k, columns.length), columns.width, p.unknown(1)
    total = p.each(out, 0.0, count)
    a = 0
    end = p.at_most(found, 8)
    while True:
        while a < end:
            total = total + p.load(tops, top + a * width, count, out)
            a += one
        if end == found:
            break
        p.add_block(blocks, total, end == 8)
        total = p.each(out, 0.0, count)
        end = p.at_most(end + 8, found)
    if found > 8:
        total = p.round_sum(blocks, total)
    p.store(out, place, total / p.each(out, float(k), count))


@p.compiled
def cpu(x: Array, made: Made, at: Layout, wanted: Constants, sizes: Sizes, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    _, tops, places = made
    most, needed = sizes
    rows, (means, best, where) = p.pointer(x), p.pointer(made)
    at, ks = p.pointer(at), wanted.numbers
    count, blocks = p.columns_at_once(width), p.room(means)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        begin = (i if needed else lo) * most * width
        for spot in range(begin + p.at_most(length, most) * width, begin + most * width):
            tops[spot] = 0
            places[spot] = -1
        k = 0
        while k < width:
            k = p.at_most(k, width - count)
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


def cuda(x: Array, made: Made, at: Layout, wanted: Constants, sizes: Sizes, width: int) -> None:
    """All units, a thread a column of each; what is not needed stays in its registers where it is little."""
    out, tops, places = made
    most, needed = sizes
    ks, kept = wanted.numbers, needed != 0 or most > 4
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns, begin = Columns(first * width + k, length, width, at.steps, at.step), i * most * width + k
            a, b, c, d, spot, q, r, s, _ = collect(x, tops, places, columns, begin, most)
            four = a, b, c, d
            if kept:
                keep_four(tops, begin, width, most, four)
            if needed != 0:
                keep_four(places, begin, width, most, (spot, q, r, s))
            for j in range(ks.size):
                place = (i * ks.size + j) * width + k
                if kept:
                    out[place] = p.mean_of_first(tops, out, begin, width, ks[j], length)
                else:
                    out[place] = mean_of_four(out, four, ks[j], length)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", tuple((*kinds, "i8") for kinds in p.alike(p.FLOATS, 3)))
