"""Putting the items of columns in order, in memory that the caller lends.

Some columns of a sequence that is not long are sorted side by side in registers, by the exchanges of Batcher's merge
(Knuth, "The Art of Computer Programming", 5.2.2, algorithm M), which are the same whatever the items; NaN comes last.

A column alone is sorted by quicksort as Hoare has it, with the median of three as the pivot.  Input that is made to be
slow for it is told by the work that it has taken, and what is left of it is sorted by Shell's method, which has no such
input.  NaN is left out before.
"""

from typing import Any

from .common import Columns, item_at
from .lanes import choose, in_lanes, load, store, unknown
from .moves import at_most
from .options import shared
from .record import Array, Integers

LINEAR, LOWER, HIGHER, NEAREST, MIDPOINT = range(5)
"""What a quantile is that lies between two items."""


@shared
def key_of(item: int, bits: int, least: int, order: int) -> Any:
    """The key of an item, an integer: keys rise in the order that is wanted.

    `bits`, `least` and `order` are those of `order_rows`.
    """
    size = item & bits
    key = item ^ bits
    if least != 0:
        key = size if item >= 0 else -size
    key = ~key if order & 1 else key
    if least != 0 and size > least:
        key = -0x7FFFFFFFFFFFFFFF if order & 2 else 0x7FFFFFFFFFFFFFFF
    return key


@shared
def find_merged_row(keys: Array, begin: int, length: int, t: int, few: int, width: int) -> Any:
    """The row that row t of a sequence goes to, where runs of `few` are merged, two and two.

    Its column begins at ``keys[begin]``.  A key goes as far as it stands in its own run and in the other; of equal keys
    those on the left come first.
    """
    key = keys[begin + t * width]
    run = t & -few
    left = run & few == 0
    other = run + few if left else run - few
    low, high = at_most(other, length), at_most(other + few, length)
    first = low
    while low < high:
        middle = (low + high) >> 1
        there = keys[begin + middle * width]
        if there < key or (there == key and not left):
            low = middle + 1
        else:
            high = middle
    return t + low - first - (0 if left else few)


@shared
def put_ordered(values: Array, out: Integers, d: int, item: int, t: int, wanted: int) -> None:
    """An item, or its place, to where it belongs."""
    if wanted != 2:
        values[d] = item
    if wanted != 1:
        out[d] = t


@in_lanes
def take_columns(x: Array, out: Array, columns: Columns, begin: int, count: int) -> None:
    """Copy some columns to every `width` of ``out[begin:]``."""
    length, one = columns.length, unknown(1)
    t = 0
    while t < length:
        store(out, begin + t * columns.width, load(x, item_at(columns, t), count, out))
        t += one


@in_lanes
def merge_columns(values: Array, begin: int, length: int, width: int, count: int) -> None:
    """Sort some columns, whose items are every `width` of ``values[begin:]``."""
    one = unknown(1)
    half = 1
    while half * 2 < length:
        half *= 2
    p = half if length > 1 else 0
    while p > 0:
        q, r, d = half, 0, p
        while d > 0:
            t = 0
            while t + d < length:
                if t & p == r:
                    lower, upper = begin + t * width, begin + (t + d) * width
                    a, b = load(values, lower, count, values), load(values, upper, count, values)
                    swap = (b < a) | ((a != a) & (b == b))
                    store(values, lower, choose(swap, b, a))
                    store(values, upper, choose(swap, a, b))
                t += one
            d = q - p
            q >>= 1
            r = p
        p >>= 1


@shared
def sort_columns(x: Array, out: Array, columns: Columns, begin: int) -> bool:
    """Sort the columns of a sequence side by side into ``out[begin:]``, as rows, where that is quicker than one by one.

    `columns` are all of them.
    """
    length, width = columns.length, columns.width
    if width < 4 or length > 2048:
        return False
    k = 0
    while k + 16 <= width:
        some = Columns(columns.begin + k, length, width, columns.steps, columns.step)
        take_columns(x, out, some, begin + k, 16)
        merge_columns(out, begin + k, length, width, 16)
        k += 16
    while k < width:  # the last may be some that have been sorted before, and are copied anew
        k = k if k + 4 <= width else width - 4
        some = Columns(columns.begin + k, length, width, columns.steps, columns.step)
        take_columns(x, out, some, begin + k, 4)
        merge_columns(out, begin + k, length, width, 4)
        k += 4
    return True


@shared
def numbers_of(x: Array, out: Array, columns: Columns, begin: int) -> int:
    """Copy a column to ``out[begin:]``, but for NaN; how many items that are."""
    place = begin
    for t in range(columns.length):
        value = x[item_at(columns, t)]
        out[place] = value
        place += value == value
    return place - begin


@shared
def shell_sort(values: Array, lo: int, hi: int) -> None:
    """Put ``values[lo : hi + 1]`` in order by Shell's method, with Knuth's distances; few at the distance of 1."""
    gap = 1
    while gap < (hi - lo) // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for t in range(lo + gap, hi + 1):
            value = values[t]
            s = t
            while s >= lo + gap and values[s - gap] > value:
                values[s] = values[s - gap]
                s -= gap
            values[s] = value
        gap //= 3


@shared
def partition(values: Array, lo: int, hi: int) -> int:
    """Move the items of ``values[lo : hi + 1]`` so that none up to the place returned is larger than one behind it.

    There is one behind it: the median of three is not larger than all others, but where some are equal.
    """
    a, b, c = values[lo], values[lo + ((hi - lo) >> 1)], values[hi]
    pivot = max(min(a, b), min(max(a, b), c))
    i = lo
    j = hi
    while True:
        while values[i] < pivot:
            i += 1
        while values[j] > pivot:
            j -= 1
        if i >= j:
            return j
        value = values[i]
        values[i] = values[j]
        values[j] = value
        i += 1
        j -= 1


@shared
def put_in_order(values: Array, begin: int, end: int, stack: Integers) -> None:
    """Sort ``values[begin:end]``; `stack` is a `room` of whole numbers."""
    left = 128 * (end - begin)
    stack[0] = begin
    stack[1] = end - 1
    top = 2
    while top > 0:
        top -= 2
        lo = stack[top]
        hi = stack[top + 1]
        while hi - lo >= 16 and left > 0:
            left -= hi - lo
            j = partition(values, lo, hi)
            # the larger part waits, so that few do
            shorter = j - lo < hi - j - 1
            stack[top] = j + 1 if shorter else lo
            stack[top + 1] = hi if shorter else j
            top += 2
            if shorter:
                hi = j
            else:
                lo = j + 1
        shell_sort(values, lo, hi)


@shared
def select(values: Array, begin: int, end: int, place: int) -> Any:
    """The item that belongs at `place` of ``values[begin:end]``; none before it is larger then, none behind it less."""
    lo, hi, left = begin, end - 1, 64 * (end - begin)
    while hi - lo >= 16 and left > 0:
        j = partition(values, lo, hi)
        if place <= j:
            hi = j
        else:
            lo = j + 1
        left -= hi - lo
    shell_sort(values, lo, hi)
    return values[place]


@shared
def least_of(values: Array, begin: int, end: int) -> Any:
    """The least item of ``values[begin:end]``."""
    best = values[begin]
    for t in range(begin + 1, end):
        best = values[t] if values[t] < best else best
    return best


@shared
def rank_of_level(place: float, how: int) -> Any:
    """Find the item that a quantile at this place, from 0, is, and how much of the next one it has.

    That of a level is the level times the last place, rounded to a number as NumPy has it.
    """
    rank = int(place)
    share = place - float(rank)
    if how == LINEAR:
        return rank, share
    if how == HIGHER:
        rank += share > 0
    elif how == NEAREST:  # and of two the even one
        rank += share > 0.5 or (share == 0.5 and rank % 2 == 1)
    return rank, 0.5 if how == MIDPOINT and share > 0 else 0.0


@shared
def put_between(x: Array, out: Array, columns: Columns, place: int, low: int, high: int, share: Any) -> None:
    """Write what lies between two items of a column, of which the second has this share, to ``out[place]``."""
    value, above = out.dtype.type(x[item_at(columns, low)]), out.dtype.type(x[item_at(columns, high)])
    out[place] = value
    if value != above:
        out[place] = value * (out.dtype.type(1) - share) + above * share
