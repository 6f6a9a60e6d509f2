"""Count the items that must be inserted, deleted or replaced to make one sequence of another.

``x`` and ``y`` are integers, n sequences each, in layouts of blocks; ``out (n,)`` gets the distances.  The pairs
``begins[b]`` to ``begins[b + 1]`` are the work of unit b, which has ``scratch[b * room:]`` to itself: a table of tokens
and their masks, and around the edges and slots of columns, on the CPU 10,320 numbers and three for each item of the
longest sequence, on a GPU 3,080 and one.  Tokens below `least` are equal to nothing.

The table of distances goes strip by strip: the 64 differences between neighbours down a strip are two words of bits,
and a column is a few operations on them.  What the lower edge of a strip rises or falls from column to column is kept
for the next one.  Which items of a strip are equal to a token, a mask, a small hash table says.  A column of a strip
waits for the column before, which leaves a processor idle, so longer sequences go several strips at a time: on the CPU
eight in the lanes of a vector, each a column behind the one above it, and on a GPU four.
Myers (1999), "A fast bit-vector algorithm for approximate string matching based on dynamic programming", as Hyyrö
(2003), "A bit-vector algorithm for computing Levenshtein and Damerau edit distances", has it for the distance of
whole sequences.
"""

from typing import Any

import numpy as np

from ..operations.choices import Strips
from . import parts as p
from .parts import Integers
from .parts.edits import Part
from .parts.lane_items import collect_across


@p.shared
def strip_of_bits(rows: int) -> Any:
    """Set the bits of the last rows of a strip, of which there are so many; up to none and all."""
    return np.int64(0) if rows <= 0 else np.int64(-1) << (64 - p.at_most(rows, 64))


@p.shared
def edits_of_four(down: Part, along: Part, rows: int, scratch: Integers, home: int, least: int, small: int) -> int:
    """Go along four strips at once, the first `rows` of a part, and say what the last one rises with all columns."""
    top = rows - p.at_most(rows, 256)
    p.fill_wide_table(
        scratch, home, Part(down.items, down.begin + top, rows - top), (4, 256 - rows + top), least, small
    )
    edge = home + 3080
    r0, r1 = strip_of_bits(rows - top - 192), strip_of_bits(rows - top - 128)
    r2, r3 = strip_of_bits(rows - top - 64), strip_of_bits(rows - top)
    f0, f1, f2, f3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    found = 0
    for t in range(along.length):
        bits = 1 if top == 0 else scratch[edge + t]
        masks = home + 1024 + 4 * p.slot_of_token(scratch, home, 512, along.items[along.begin + t], small)
        r0, f0, rises, falls = p.next_column_of_strip(scratch[masks], r0, f0, bits & 1, bits >> 1)
        r1, f1, rises, falls = p.next_column_of_strip(scratch[masks + 1], r1, f1, rises, falls)
        r2, f2, rises, falls = p.next_column_of_strip(scratch[masks + 2], r2, f2, rises, falls)
        r3, f3, rises, falls = p.next_column_of_strip(scratch[masks + 3], r3, f3, rises, falls)
        found += rises - falls
        scratch[edge + t] = rises + 2 * falls
    return found


@p.shared
def edits_by_fours(down: Part, along: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two parts, four strips at a time; the rows stand at the end of the strips.

    Above the first row are rows that are as the edge of the table.
    """
    m, found = down.length, 0
    small = p.small_tokens(down, along)
    rows = ((m - 1) & 255) + 1  # of the first four strips, all others being full
    while rows <= m:
        found = edits_of_four(down, along, rows, scratch, home, least, small)
        rows += 256
    return found + m


@p.shared
def edits_by_strips(down: Part, along: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two parts, of which the first lies down the strips, one after the other."""
    m, n = down.length, along.length
    found = 0 if m != 0 else n
    top = 0
    while top < m:
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


@p.in_lanes
def edits_of_eight(scratch: Integers, home: int, places: int, n: int, edge: int, end: int, count: int) -> Any:
    """Go along eight strips with `n` columns, and say what row `end` rises with all of them.

    Lane k is in column t - k, whose slot stands at ``places - t + k``.  At ``edge`` there is for each column where the
    row above rises, and then where it falls, 0 or -1; the lower edge of the strips takes the place of both.
    """
    masks, falling_edge = home + 2 * 128 * count, edge + n + 16
    none = p.each(scratch, 0, count)
    state = (p.each(scratch, -1, count), none, none, none)
    bit = p.with_lane(none, end >> 6, np.int64(1) << (end & 63))
    found, one = none, p.each(scratch, 1, count)
    for t in range(n + (end >> 6)):
        equal = collect_across(scratch, masks, scratch, places - t, 8)
        above = scratch[edge + t], scratch[falling_edge + t]
        state, more, less = p.next_column_of_strips(equal, state, above, count)
        found = found + p.choose((more & bit) != none, one, none) - p.choose((less & bit) != none, one, none)
        scratch[edge + t - 7], scratch[falling_edge + t - 7] = p.lane_of(state[2], 7), p.lane_of(state[3], 7)
    return p.lane_of(found, end >> 6)


@p.shared
def edits_by_eights(down: Part, along: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two parts, eight strips at a time, on the CPU.

    A column of a strip waits for the one above in the same column, so each strip is a column behind the one above it:
    then all eight are independent, and stand in the lanes of a vector.  Before its first column a strip has no token
    and an edge that neither rises nor falls, which leaves it as it is.
    """
    m, n = down.length, along.length
    small = p.small_tokens(down, along)
    edge = home + 10264
    places = edge + 3 * n + 40  # of the slot of the first column; those of the next ones stand before it
    for t in range(n):
        scratch[edge + t], scratch[edge + n + 16 + t] = -1, 0
    for t in range(8):
        scratch[edge - 8 + t] = scratch[edge + n + t] = scratch[edge + n + 8 + t] = 0
        scratch[edge + 2 * n + 16 + t] = 0
        scratch[places + 1 + t] = scratch[places - n - t] = 8192
    top = found = 0
    while top < m:
        count = p.at_most(m - top, 512)
        p.fill_wide_table(scratch, home, Part(down.items, down.begin + top, count), (8, 0), least, small)
        for t in range(n):
            scratch[places - t] = 8 * p.slot_of_token(scratch, home, 1024, along.items[along.begin + t], small)
        top += 512
        found = edits_of_eight(scratch, home, places, n, edge, count - 1 if top >= m else 511, 8)
    return found + m


@p.shared
def parts_of(one: Part, two: Part, least: int, rows: int) -> Any:
    """Cut off what two sequences begin and end with in common: what lies down strips of so many rows, and along."""
    t = p.count_equal(one, two, least)
    one = Part(one.items, one.begin + t, one.length - t)
    two = Part(two.items, two.begin + t, two.length - t)
    t = p.trimmed_behind(one, two, least)
    m, n = one.length - t, two.length - t
    if ((m + rows - 1) // rows) * n > ((n + rows - 1) // rows) * m:  # the fewer columns of strips
        return Part(two.items, two.begin, n), Part(one.items, one.begin, m)
    return Part(one.items, one.begin, m), Part(two.items, two.begin, n)


@p.compiled
def cpu(
    both: p.Compared, out: Integers, scratch: Integers, pairs: p.Pairs, strips: Strips, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    at_x, at_y, begins = pairs
    room, least = strips
    (items, others), table = p.pointer(both), p.pointer(scratch)
    at_x, at_y = p.pointer(at_x), p.pointer(at_y)
    for i in range(begins[lo], begins[hi]):
        _, first, m = p.locate(at_x, i)
        _, second, n = p.locate(at_y, i)
        down, along = parts_of(Part(items, first, m), Part(others, second, n), least, 512)
        if down.length > 64:
            out[i] = edits_by_eights(down, along, table, lo * room, least)
        else:
            out[i] = edits_by_strips(down, along, table, lo * room, least)


def cuda(both: p.Compared, out: Integers, scratch: Integers, pairs: p.Pairs, strips: Strips, width: int) -> None:
    """All units, a thread each."""
    x, y = both
    at_x, at_y, begins = pairs
    room, least = strips
    for b in range(p.first_unit(), begins.size - 1, p.units_of_grid()):
        for i in range(begins[b], begins[b + 1]):
            _, first, m = p.locate(at_x, i)
            _, second, n = p.locate(at_y, i)
            down, along = parts_of(Part(x, first, m), Part(y, second, n), least, 64)
            if down.length > 128:
                out[i] = edits_by_fours(down, along, scratch, b * room, least)
            else:
                out[i] = edits_by_strips(down, along, scratch, b * room, least)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("i4", "i4"), ("i8", "i8")), 1 << 20)
