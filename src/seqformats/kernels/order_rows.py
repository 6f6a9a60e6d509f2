"""The items of every sequence in order, column by column, and their places; of equal items the first comes first.

`x` holds the sequences as `at` says, in integers: those of its items, or the bits of floats.  `to` says where the
results go, in the lengths that it has the first of them are left: the items to `values` and their places to `out`, with
`wanted` 1 the items alone, with 2 the places alone.  Where `least` is not 0 items are floats, and it is the bits of
infinity, `bits` those that are no sign; else `bits` are changed to give integers with a sign the order of those
without.  With `order` 0 items rise, with 1 they fall, and NaN comes last; with 2 more NaN comes first.

Each item has a key, an integer that rises in that order.  A column is sorted in as many places of `keys` and `ids` as
it has items, from those before its sequence on; runs of few by insertion, which are merged to and fro between these and
as many places behind all of them.  On CUDA runs of one item are merged: an item goes as far as it stands in its own run
and in the other.
"""

from typing import Any, NamedTuple

from ..operations.choices import Order
from . import parts as p
from .parts import Array, Columns, Integers, Layout
from .parts.names import gpu


class Made(NamedTuple):
    """Results, and the memory for keys."""

    values: Array
    out: Integers
    keys: Integers
    ids: Integers


@p.shared
def find_rows(at: Layout, to: Layout, u: int) -> Any:
    """Find the row where the results of a unit of `at` begin, and how many there are."""
    i, _, _ = p.locate(at, u)
    _, begin, most = p.locate(to, i if to.step == 1 else u)
    return begin, most


@p.shared
def insert(keys: Integers, ids: Integers, begin: int, found: int, most: int, key: int, id: int) -> int:
    """Put a key among the first `found` of at most `most` from `begin` on; how many there are then."""
    j = begin + found
    if found == most:
        if key >= keys[j - 1]:
            return found
        j -= 1
    while j > begin and key < keys[j - 1]:
        keys[j] = keys[j - 1]
        ids[j] = ids[j - 1]
        j -= 1
    keys[j] = key
    ids[j] = id
    return p.at_most(found + 1, most)


@p.shared
def merge(keys: Integers, ids: Integers, source: int, target: int, middle: int, end: int) -> None:
    """Two runs that stand one after the other from `source` on, of `middle` and ``end - middle`` items, to `target`."""
    a, b, d = source, source + middle, target
    stop, last = source + middle, source + end
    while a < stop and b < last:
        one, two = keys[a], keys[b]
        right = two < one
        keys[d] = two if right else one
        ids[d] = ids[b if right else a]
        b += right
        a += 1 - right
        d += 1
    while a < stop:
        keys[d] = keys[a]
        ids[d] = ids[a]
        a += 1
        d += 1
    while b < last:
        keys[d] = keys[b]
        ids[d] = ids[b]
        b += 1
        d += 1


@p.shared
def sort(
    x: Array, keys: Integers, ids: Integers, columns: Columns, begin: int, behind: int, most: int, how: Any
) -> int:
    """The first `most` items of a column in order, at `begin` in `keys` and `ids` or so many places `behind`; where."""
    bits, least, order = how
    length, few = columns.length, 16
    if most <= few or length <= 2 * few:
        found = 0
        for t in range(length):
            key = p.key_of(x[p.item_at(columns, t)], bits, least, order)
            found = insert(keys, ids, begin, found, most, key, t)
        return begin
    for first in range(0, length, few):
        found = 0
        for t in range(first, p.at_most(first + few, length)):
            key = p.key_of(x[p.item_at(columns, t)], bits, least, order)
            found = insert(keys, ids, begin + first, found, few, key, t)
    source, target = begin, begin + behind
    while few < length:
        for first in range(0, length, 2 * few):
            end = p.at_most(2 * few, length - first)
            merge(keys, ids, source + first, target + first, p.at_most(few, end), end)
        source, target = target, source
        few *= 2
    return source


@p.compiled
def cpu(x: Array, made: Made, at: Layout, to: Layout, how: Order, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    bits, least, order, wanted = how
    rows, (items, places, ranks, own) = p.pointer(x), p.pointer(made)
    behind = at.cum[at.cum.size - 1] * width
    at, to = p.pointer(at), p.pointer(to)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        target, most = find_rows(at, to, u)
        for k in range(width if most != 0 else 0):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            begin = sort(rows, ranks, own, columns, at.cum[i] * width, behind, most, (bits, least, order))
            for t in range(most):
                d = (target + p.along(to, t)) * width + k
                if wanted != 2:
                    items[d] = rows[p.item_at(columns, own[begin + t])]
                if wanted != 1:
                    places[d] = own[begin + t]


def cuda(x: Array, made: Made, at: Layout, to: Layout, how: Order, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    values, out, keys, ids = made
    bits, least, order, wanted = how
    total = at.cum[at.cum.size - 1] * width
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        goal, most = find_rows(at, to, u)
        begin = at.cum[i] * width
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            t = gpu.threadIdx.y
            while t < length and k < width:
                keys[begin + t * width + k] = p.key_of(x[(first + p.along(at, t)) * width + k], bits, least, order)
                ids[begin + t * width + k] = t
                t += gpu.blockDim.y
            gpu.syncthreads()
            source, target, few = begin + k, begin + total + k, 1
            while few < length:
                t = gpu.threadIdx.y
                while t < length and k < width:
                    d = p.find_merged_row(keys, source, length, t, few, width)
                    keys[target + d * width] = keys[source + t * width]
                    ids[target + d * width] = ids[source + t * width]
                    t += gpu.blockDim.y
                gpu.syncthreads()
                source, target = target, source
                few *= 2
            t = gpu.threadIdx.y
            while t < most and k < width:
                place, d = ids[source + t * width], (goal + p.along(to, t)) * width + k
                if wanted != 2:
                    values[d] = x[(first + p.along(at, place)) * width + k]
                if wanted != 1:
                    out[d] = place
                t += gpu.blockDim.y
            gpu.syncthreads()


@p.shared
def precedes(key: int, t: int, other: int, s: int) -> int:
    """1 where item s, with the key `other`, comes before item t with this key, else 0."""
    return 1 if other < key or (other == key and s < t) else 0


def short(x: Array, made: Made, at: Layout, to: Layout, how: Order, width: int) -> None:
    """All units, a thread for each column, see `SHORT`: an item's place is the number of those that come before it."""
    values, out = made.values, made.out
    bits, least, order, wanted = how
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        _, first, length = p.locate(at, u)
        goal, most = find_rows(at, to, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            for t in range(0, length, 4):
                a, b, c, d = p.some_of(x, columns, t, 1, x[p.item_at(columns, t)])
                e, f = p.key_of(a, bits, least, order), p.key_of(b, bits, least, order)
                g, h = p.key_of(c, bits, least, order), p.key_of(d, bits, least, order)
                spot = q = r = s = 0
                for v in range(length):
                    other = p.key_of(x[p.item_at(columns, v)], bits, least, order)
                    spot += precedes(e, t, other, v)
                    q += precedes(f, t + 1, other, v)
                    r += precedes(g, t + 2, other, v)
                    s += precedes(h, t + 3, other, v)
                if spot < most:
                    p.put_ordered(values, out, (goal + p.along(to, spot)) * width + k, a, t, wanted)
                if t + 1 < length and q < most:
                    p.put_ordered(values, out, (goal + p.along(to, q)) * width + k, b, t + 1, wanted)
                if t + 2 < length and r < most:
                    p.put_ordered(values, out, (goal + p.along(to, r)) * width + k, c, t + 2, wanted)
                if t + 3 < length and s < most:
                    p.put_ordered(values, out, (goal + p.along(to, s)) * width + k, d, t + 3, wanted)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", p.alike((*p.SIGNED, "u1", "u2", "u4"), 2), 1 << 18, short)
