"""Count the items of a sequence that are hit, substituted, deleted and inserted to make another one of it.

``x`` (references) and ``y`` (hypotheses) are integers, n sequences each, in layouts of blocks; ``out (4 * n,)`` gets n
hits, n substitutions, n deletions and n insertions.  The pairs ``begins[b]`` to ``begins[b + 1]`` are the work of unit
b, which has ``scratch[b * room:]`` to itself: a table of 512 numbers, then one for each item of the longest hypothesis
and one more, and then room for `most` differences.  Tokens below `least` are equal to nothing; ``numbers`` are `room`,
`least` and `most`.

There may be several ways with the fewest edits.  Seen from the end, the one that is counted deletes where it can, else
substitutes, else inserts, and else hits: so RapidFuzz, and jiwer by it, aligns two sequences.  The differences between
neighbours down the table of distances tell where which edit can be, see `count_edits`; they are kept, column by column
of each strip, and followed back from the end.  Where they are more than `most`, the table itself is filled, a row in
place of the one before, with ``edits << 32 | substitutions`` of this way in each cell.  Only cells at most k columns
from the diagonal are, since there all ways with k edits lie; where it takes more, k is doubled (E. Ukkonen (1985),
"Algorithms for approximate string matching").
"""

from typing import Any, NamedTuple

import numpy as np

from . import parts as p
from .parts import Integers
from .parts.edits import Part


class Own(NamedTuple):
    """Memory of one unit of work."""

    home: int
    kept: int  # where differences are kept
    most: int
    least: int


@p.shared
def by_rows(one: Part, two: Part, row: Integers, home: int, least: int, band: int) -> Any:
    """The cost of the way that is counted, if it is never more than `band` columns from the diagonal."""
    edit, far = np.int64(1) << 32, np.int64(1) << 62
    m, n = one.length, two.length
    for j in range(p.at_most(n, band) + 1):
        row[home + j] = j * edit
    for i in range(1, m + 1):
        item = one.items[one.begin + i - 1]
        first, last = p.at_least(i - band, 1), p.at_most(i + band, n)
        corner = row[home + first - 1]
        left = far
        if i <= band:
            left = i * edit
            row[home] = left
        if i + band <= n:
            row[home + i + band] = far
        for j in range(first, last + 1):
            above = row[home + j]
            hit = two.items[two.begin + j - 1] == item and item >= least
            best = corner if hit else corner + edit + 1
            if (left + edit) >> 32 < (best >> 32) + (1 if hit else 0):
                best = left + edit
            if (above + edit) >> 32 <= best >> 32:
                best = above + edit
            row[home + j] = best
            corner, left = above, best
    return row[home + n]


@p.shared
def keep_differences(down: Part, along: Part, scratch: Integers, home: int, kept: int, least: int) -> None:
    """Keep of each strip where its columns rise and fall, from the first one on."""
    top, edge, place = 0, home + 512, kept
    while top < down.length:
        count = p.at_most(down.length - top, 64)
        slots = p.fill_table(scratch, home, Part(down.items, down.begin + top, count), least)
        rising, falling = np.int64(-1), np.int64(0)
        for t in range(along.length):
            above = 1 if top == 0 else scratch[edge + t]
            equal = scratch[p.place_in_table(scratch, home, slots, along.items[along.begin + t]) + 256]
            rising, falling, below = p.next_column(equal, rising, falling, above, count)
            scratch[edge + t] = below
            scratch[place] = rising
            scratch[place + 1] = falling
            place += 2
        top += 64


@p.shared
def by_differences(down: Part, along: Part, scratch: Integers, kept: int, least: int) -> Any:
    """The hits and the substitutions of the way that is counted, followed back from the end."""
    i, j, hits, substitutions = down.length, along.length, 0, 0
    while i > 0 and j > 0:
        place = kept + 2 * (((i - 1) >> 6) * along.length + j - 1)
        bit = (i - 1) & 63
        if (scratch[place] >> bit) & 1 != 0:  # to here it rises: item i is deleted
            i -= 1
        elif j > 1 and (scratch[place - 1] >> bit) & 1 != 0:  # it fell one column before: item j is inserted
            j -= 1
        else:
            i -= 1
            j -= 1
            item = down.items[down.begin + i]
            if item == along.items[along.begin + j] and item >= least:
                hits += 1
            else:
                substitutions += 1
    return hits, substitutions


@p.shared
def put_errors(out: Integers, i: int, n: int, one: Part, two: Part, scratch: Integers, own: Own) -> None:
    """Count the errors of a pair: what both begin and end with is hit."""
    home, least = own.home, own.least
    t = p.count_equal(one, two, least)
    a = Part(one.items, one.begin + t, one.length - t)
    b = Part(two.items, two.begin + t, two.length - t)
    t += p.trimmed_behind(a, b, least)
    a, b = Part(a.items, a.begin, one.length - t), Part(b.items, b.begin, two.length - t)
    longest = p.at_least(a.length, b.length)
    if 2 * ((a.length + 63) >> 6) * b.length <= own.most:
        keep_differences(a, b, scratch, home, own.kept, least)
        hits, substitutions = by_differences(a, b, scratch, own.kept, least)
    else:
        row = home + 512
        band = p.at_most(p.at_least(longest - p.at_most(a.length, b.length), 64), longest)
        cost = by_rows(a, b, scratch, row, least, band)
        while (cost >> 32) > band:
            band = p.at_most(p.at_most(2 * band, cost >> 32), longest)
            cost = by_rows(a, b, scratch, row, least, band)
        edits, substitutions = cost >> 32, cost & 0xFFFFFFFF
        hits = (a.length + b.length - edits - substitutions) // 2
    hits += t
    out[i] = hits
    out[n + i] = substitutions
    out[2 * n + i] = one.length - hits - substitutions
    out[3 * n + i] = two.length - hits - substitutions


@p.compiled
def cpu(
    both: p.Compared, out: Integers, scratch: Integers, pairs: p.Pairs, numbers: Integers, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    at_x, at_y, begins = pairs
    (items, others), row = p.pointer(both), p.pointer(scratch)
    n = at_x.cum.size - 1
    room, least, most = numbers[0], numbers[1], numbers[2]
    own = Own(lo * room, (lo + 1) * room - most, most, least)
    for i in range(begins[lo], begins[hi]):
        _, first, length = p.locate(at_x, i)
        one = Part(items, first, length)
        _, first, length = p.locate(at_y, i)
        put_errors(out, i, n, one, Part(others, first, length), row, own)


def cuda(both: p.Compared, out: Integers, scratch: Integers, pairs: p.Pairs, numbers: Integers, width: int) -> None:
    """All units, a thread each."""
    x, y = both
    at_x, at_y, begins = pairs
    n = at_x.cum.size - 1
    b = p.first_unit()
    room, least, most = numbers[0], numbers[1], numbers[2]
    while b < begins.size - 1:
        own = Own(b * room, (b + 1) * room - most, most, least)
        for i in range(begins[b], begins[b + 1]):
            _, first, length = p.locate(at_x, i)
            one = Part(x, first, length)
            _, first, length = p.locate(at_y, i)
            put_errors(out, i, n, one, Part(y, first, length), scratch, own)
        b += p.units_of_grid()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("i4", "i4"), ("i8", "i8")), 1 << 20)
