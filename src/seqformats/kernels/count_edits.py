"""Count the items that must be inserted, deleted or replaced to make one sequence of another.

``x`` and ``y`` are integers, n sequences each, in layouts of blocks; ``out (n,)`` gets the distances.  The pairs
``begins[b]`` to ``begins[b + 1]`` are the work of unit b, which has ``scratch[b * room:]`` to itself: a table of tokens
and their masks, 3,080 numbers, and one for each item of the longest sequence.  Tokens below `least` are equal to
nothing.

The table of distances goes strip by strip: the 64 differences between neighbours down a strip are two words of bits,
and a column is a few operations on them. What the lower edge of a strip rises or falls from column to column is kept
for the next one. Which items of a strip are equal to a token, a mask, a small hash table says. Four strips go
together where there are more than two: a column of one waits for the column before, which leaves a processor idle.
Then the rows stand at the end of the strips, and above the first row are rows that are as the edge of the table.
Myers (1999), "A fast bit-vector algorithm for approximate string matching based on dynamic programming", as Hyyrö
(2003), "A bit-vector algorithm for computing Levenshtein and Damerau edit distances", has it for the distance of
whole sequences.
"""

from typing import Any

import numpy as np

from . import parts as p
from .parts import Array, Integers, Layout
from .parts.edits import Part


@p.shared
def strip_of_bits(rows: int) -> Any:
    """Set the bits of the last rows of a strip, of which there are so many; up to none and all."""
    return np.int64(0) if rows <= 0 else np.int64(-1) << (64 - p.at_most(rows, 64))


@p.shared
def edits_of_strips(down: Part, along: Part, rows: int, scratch: Integers, home: int, least: int, small: int) -> int:
    """Go along four strips at once, the first `rows` of a part, and say what the last one rises with all columns.

    A column of a strip waits for the column before and for the strip above, so that one alone leaves a processor idle.
    """
    top = rows - p.at_most(rows, 256)
    p.fill_wide_table(scratch, home, Part(down.items, down.begin + top, rows - top), least, small)
    edge = home + 3080
    r0, r1 = strip_of_bits(rows - top - 192), strip_of_bits(rows - top - 128)
    r2, r3 = strip_of_bits(rows - top - 64), strip_of_bits(rows - top)
    f0, f1, f2, f3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    found = 0
    for t in range(along.length):
        bits = 1 if top == 0 else scratch[edge + t]
        s = along.items[along.begin + t]
        if small == 0:
            s = p.place_in_wide_table(scratch, home, s)
            s = s if scratch[home + s] != 0 else 512
        masks = home + 1024 + 4 * s
        r0, f0, rises, falls = p.next_column_of_strip(scratch[masks], r0, f0, bits & 1, bits >> 1)
        r1, f1, rises, falls = p.next_column_of_strip(scratch[masks + 1], r1, f1, rises, falls)
        r2, f2, rises, falls = p.next_column_of_strip(scratch[masks + 2], r2, f2, rises, falls)
        r3, f3, rises, falls = p.next_column_of_strip(scratch[masks + 3], r3, f3, rises, falls)
        found += rises - falls
        scratch[edge + t] = rises + 2 * falls
    return found


@p.shared
def edits(down: Part, along: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two parts, of which the first lies down the strips."""
    m, n = down.length, along.length
    found = 0 if m != 0 else n
    rows = ((m - 1) & 255) + 1 if m > 128 else 0  # of the first four strips, all others being full
    small = int(rows != 0 and p.are_small(down) and p.are_small(along))
    while rows != 0 and rows <= m:
        found = edits_of_strips(down, along, rows, scratch, home, least, small)
        rows += 256
    top = 0
    while m <= 128 and top < m:
        count = p.at_most(m - top, 64)
        slots = p.fill_table(scratch, home, Part(down.items, down.begin + top, count), least)
        edge = home + 3080
        rising, falling = np.int64(-1), np.int64(0)  # from each item of the strip to the next one, in this column
        for t in range(n):
            above = 1 if top == 0 else scratch[edge + t]  # what the row above the strip rises with this column
            equal = scratch[p.place_in_table(scratch, home, slots, along.items[along.begin + t]) + 256]
            rising, falling, below = p.next_column(equal, rising, falling, above, count)
            if top + count == m:
                found += below
            else:
                scratch[edge + t] = below
        top += 64
    return found + m


@p.shared
def distance(one: Part, two: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two sequences: what they begin and end with in common costs nothing."""
    t = p.trimmed(one, two, least)
    one = Part(one.items, one.begin + t, one.length - t)
    two = Part(two.items, two.begin + t, two.length - t)
    t = p.trimmed_behind(one, two, least)
    m, n = one.length - t, two.length - t
    swapped = ((m + 63) >> 6) * n > ((n + 63) >> 6) * m  # the fewer columns of strips
    down = Part(two.items, two.begin, n) if swapped else Part(one.items, one.begin, m)
    along = Part(one.items, one.begin, m) if swapped else Part(two.items, two.begin, n)
    return edits(down, along, scratch, home, least)


@p.compiled
def cpu(
    x: Array,
    y: Array,
    out: Integers,
    scratch: Integers,
    at_x: Layout,
    at_y: Layout,
    begins: Integers,
    room: int,
    least: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    items, others, table = p.pointer(x), p.pointer(y), p.pointer(scratch)
    at_x, at_y = p.pointer(at_x), p.pointer(at_y)
    for i in range(begins[lo], begins[hi]):
        _, first, m = p.locate(at_x, i)
        _, second, n = p.locate(at_y, i)
        out[i] = distance(Part(items, first, m), Part(others, second, n), table, lo * room, least)


def cuda(
    x: Array,
    y: Array,
    out: Integers,
    scratch: Integers,
    at_x: Layout,
    at_y: Layout,
    begins: Integers,
    room: int,
    least: int,
    width: int,
) -> None:
    """All units, a thread each."""
    for b in range(p.first_unit(), begins.size - 1, p.units_of_grid()):
        for i in range(begins[b], begins[b + 1]):
            _, first, m = p.locate(at_x, i)
            _, second, n = p.locate(at_y, i)
            out[i] = distance(Part(x, first, m), Part(y, second, n), scratch, b * room, least)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("i4", "i4"), ("i8", "i8")), 1 << 20)
