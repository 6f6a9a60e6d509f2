"""The products of each item of every sequence with each item of another, as vectors: ``x_i @ y_i.T`` row by row.

``x (rows * deep,)`` and ``y`` are the items, those of sequence i from ``at_x[i]`` to ``at_x[i + 1]`` and from
``at_y[i]`` to ``at_y[i + 1]``; its products go to ``out`` from ``begins[i]`` on.  Items are multiplied with four others
at a time: 16 numbers in lanes, then 4, then one by one, and the lanes of each are added in pairs.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Integers


class Pairs(NamedTuple):
    """Offsets of sequences in both arrays, and of their products."""

    at_x: Integers
    at_y: Integers
    begins: Integers


@p.shared
def put_products(
    x: Array, y: Array, out: Array, pair: int, rows: tuple[int, int, int, int], place: int, deep: int
) -> None:
    """Write the products of the item at `pair` with the four at `rows`."""
    a, b, c, d = rows
    k = 0
    zero, few = p.each(out, 0, 16), p.each(out, 0, 4)
    one, two, three, four = zero, zero, zero, zero
    while k + 16 <= deep:
        item = p.load(x, pair + k, 16, out)
        one = one + item * p.load(y, a + k, 16, out)
        two = two + item * p.load(y, b + k, 16, out)
        three = three + item * p.load(y, c + k, 16, out)
        four = four + item * p.load(y, d + k, 16, out)
        k += 16
    sums = p.fold_each(one, two, three, four)
    first, second, third, fourth = few, few, few, few
    while k + 4 <= deep:
        some = p.load(x, pair + k, 4, out)
        first = first + some * p.load(y, a + k, 4, out)
        second = second + some * p.load(y, b + k, 4, out)
        third = third + some * p.load(y, c + k, 4, out)
        fourth = fourth + some * p.load(y, d + k, 4, out)
        k += 4
    p.store(out, place, sums + p.fold_each(first, second, third, fourth))
    while k < deep:
        out[place] += x[pair + k] * y[a + k]
        out[place + 1] += x[pair + k] * y[b + k]
        out[place + 2] += x[pair + k] * y[c + k]
        out[place + 3] += x[pair + k] * y[d + k]
        k += 1


@p.compiled
def cpu(x: Array, y: Array, out: Array, pairs: Pairs, deep: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; the last four of the others may be some that were taken before."""
    at_x, at_y, begins = p.pointer(pairs)
    room = p.scratch(out)
    x, y, out = p.pointer(x), p.pointer(y), p.pointer(out)
    for i in range(lo, hi):
        first, count = at_y[i], at_y[i + 1] - at_y[i]
        place = begins[i]
        last = p.at_least(count - 1, 0)
        for r in range(at_x[i], at_x[i + 1]):
            t = 0
            while t < count:
                t = p.at_least(p.at_most(t, count - 4), 0)
                pair, q = (first + t) * deep, (first + last) * deep
                rows = pair, p.at_most(pair + deep, q), p.at_most(pair + 2 * deep, q), p.at_most(pair + 3 * deep, q)
                if count >= 4:
                    put_products(x, y, out, r * deep, rows, place + t, deep)
                else:
                    put_products(x, y, room, r * deep, rows, 0, deep)
                    for k in range(count):
                        out[place + k] = room[k]
                t += 4
            place += count


def cuda(x: Array, y: Array, out: Array, pairs: Pairs, deep: int, width: int) -> None:
    """All products, a thread each."""
    at_x, at_y, begins = pairs
    for pair in range(p.first_unit(), begins[begins.size - 1], p.units_of_grid()):
        i = p.search(begins, pair)
        count = at_y[i + 1] - at_y[i]
        t = pair - begins[i]
        out[pair] = p.dot(x, (at_x[i] + t // count) * deep, y, (at_y[i] + t % count) * deep, deep)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 3), 1 << 19)
