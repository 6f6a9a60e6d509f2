"""Move items of several parts to turns, item 0 of each, item 1 of each, and so on, or back.

Where parts lie, see `join_rows`.  On the other side are rows without gaps, sequence by sequence, in turns; a part whose
sequence has ended is left out of the turns that follow.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers


@p.shared
def alike_from(begins: Array, units: Array, cum: Array, parts: int, n: int, unit: int, first: int, hi: int) -> int:
    """Count the sequences from one on that are as long in every part, and begin where the one before ends."""
    i = first
    while i < hi:
        length = cum[i + 1] - cum[i]
        for k in range(parts):
            u = k * (n + 1) + i
            if cum[u + 1] - cum[u] != length:
                return i - first
            if i > first and (units[k] != unit or begins[u] - begins[u - 1] != cum[u] - cum[u - 1]):
                return i - first
        i += 1
    return i - first


@p.compiled
def cpu(src: int, out: int, joined: p.Joined, row: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; `row` bytes a row.  With `absolute` 1 `src` is 0, else `out` has the parts."""
    bases, units, begins, cum, offsets, absolute = joined
    parts, n = bases.size, offsets.size - 1
    unit = row if absolute else 1
    some = p.at_least(4096 // p.at_least(parts * row, 1), 1)  # turns that are written part by part within a cache
    i = lo
    while i < hi:
        last = i + alike_from(begins, units, cum, parts, n, unit, i, hi)
        place, stop, t = offsets[i], offsets[last], 0
        while place < stop:  # a block of turns, in all of which each part has an item
            turns = p.at_most((stop - place) // parts, some)
            for k in range(parts):
                begin, there = bases[k] + begins[k * (n + 1) + i] * units[k], (place + k) * row
                if absolute:
                    p.move_run(out, there, parts * row, src, begin + t * row, row, row, turns)
                else:
                    p.move_run(out, (begin + t) * row, row, src, there, parts * row, row, turns)
            place += parts * turns
            t += turns
        if last > i:
            i = last
            continue
        place = offsets[i]
        t = 0
        while place < offsets[i + 1]:  # some turns, in which the same parts have an item
            taking = 0
            turns = offsets[i + 1] - place
            for k in range(parts):
                u = k * (n + 1) + i
                left = cum[u + 1] - cum[u] - t
                if left > 0:
                    taking += 1
                    turns = p.at_most(turns, left)
            there = place * row
            for k in range(parts):
                u = k * (n + 1) + i
                if cum[u + 1] - cum[u] > t:
                    begin = bases[k] + begins[u] * units[k]
                    if absolute:
                        p.move_run(out, there, taking * row, src, begin + t * row, row, row, turns)
                    else:
                        p.move_run(out, (begin + t) * row, row, src, there, taking * row, row, turns)
                    there += row
            place += taking * turns
            t += turns
        i += 1


@p.shared
def way_of_item(
    bases: Integers, units: Integers, begins: Integers, cum: Integers, offsets: Integers, i: int, r: int, row: int
) -> Any:
    """Find the item that is r-th if the parts of sequence i are joined: its row here, and its place in its part.

    That is an address with rows of `row` bytes, or a row, where `row` is 1.
    """
    parts, n = bases.size, offsets.size - 1
    t, u, k = p.part_of(cum, offsets, i, r)
    place = offsets[i]
    for j in range(parts):  # what is there of each part before this item
        v = j * (n + 1) + i
        length = cum[j * (n + 1) + i + 1] - cum[v]
        place += p.at_most(length, t + (1 if j < k else 0))
    return place, bases[k] + begins[u] * units[k] + t * row


def cuda(src: Array | int, out: Array, joined: p.Joined, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row."""
    bases, units, begins, cum, offsets, absolute = joined
    r, last = p.first_of_line(), offsets[offsets.size - 1] - 1
    if r <= last:
        r1, r2, r3 = p.at_most(r + 1, last), p.at_most(r + 2, last), p.at_most(r + 3, last)
        size = row * out.itemsize if absolute else 1
        i = p.search(offsets, r)
        p0, a = way_of_item(bases, units, begins, cum, offsets, i, r, size)
        i = p.run_on(offsets, i, r1)
        p1, b = way_of_item(bases, units, begins, cum, offsets, i, r1, size)
        i = p.run_on(offsets, i, r2)
        p2, c = way_of_item(bases, units, begins, cum, offsets, i, r2, size)
        i = p.run_on(offsets, i, r3)
        p3, d = way_of_item(bases, units, begins, cum, offsets, i, r3, size)
        whole = (p0 * row, p1 * row, p2 * row, p3 * row)
        if absolute:
            p.move_four(out, src, row, out.itemsize, whole, (a, b, c, d))
        else:
            p.move_four(out, src, row, 1, (a * row, b * row, c * row, d * row), whole)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines")
