"""Quantiles of every sequence, column by column: the item of a rank, or something between it and the next one.

`x` holds the sequences in any layout, see `Layout`; `wanted` are the levels ``(q,)``, from 0 to 1, and `how` says
what there is between two items, see `rank_of_level`; ``out (n * q * width,)``.  A NaN in a column gives NaN, an empty
sequence zeros.
Where ``places (n * q * 2 * width,)`` has more than one number, it gets the places of the two items in their sequence:
of equal ones in their order, with a NaN the first of these, -1 for none; and ``shares (n * q,)`` how much of the second
one there is, 0 to 1.

On the CPU columns are
sorted side by side in ``items (rows * width,)``, which nobody reads; of one alone, or long ones, what is before and
behind a rank is told apart there by quickselect (Hoare, "Algorithm 65: find", 1961).
"""

import math
from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Columns, Constants, Integers, Layout


class Made(NamedTuple):
    """Quantiles, of which items they are made, and memory for sorting."""

    out: Array
    places: Integers
    shares: Array
    items: Array


@p.shared
def precedes(other: Any, s: int, value: Any, t: int) -> int:
    """1 where item s, `other`, comes before item t in order, else 0; both are numbers."""
    return 1 if other < value or (other == value and s < t) else 0


@p.shared
def pair_of_rank(x: Array, columns: Columns, rank: int) -> Any:
    """Find the item of this rank in a column of numbers, and the next one: each is compared with all others."""
    length, low, high = columns.length, 0, 0
    t = 0
    while t < length:
        a, b, c, d = p.some_of(x, columns, t, 1, x[p.item_at(columns, t)])
        spot = q = r = s = -rank
        for v in range(length):
            other = x[p.item_at(columns, v)]
            spot += precedes(other, v, a, t)
            q += precedes(other, v, b, t + 1)
            r += precedes(other, v, c, t + 2)
            s += precedes(other, v, d, t + 3)
        low, high = (t if spot == 0 else low), (t if spot == 1 else high)
        if t + 1 < length:
            low, high = (t + 1 if q == 0 else low), (t + 1 if q == 1 else high)
        if t + 2 < length:
            low, high = (t + 2 if r == 0 else low), (t + 2 if r == 1 else high)
        if t + 3 < length:
            low, high = (t + 3 if s == 0 else low), (t + 3 if s == 1 else high)
        t += 4
    return low, high


@p.shared
def place_of_rank(x: Array, columns: Columns, value: float, rank: int) -> int:
    """Find the place of the item of this rank, which is `value`."""
    left = rank
    for t in range(columns.length):
        left -= x[p.item_at(columns, t)] < value
    t = -1
    while left >= 0:
        t += 1
        left -= x[p.item_at(columns, t)] == value
    return t


@p.shared
def first_nan(x: Array, columns: Columns) -> int:
    """Find the first NaN of a column, the length where there is none."""
    t = 0
    while t < columns.length and x[p.item_at(columns, t)] == x[p.item_at(columns, t)]:
        t += 1
    return t


@p.compiled
def cpu(x: Array, made: Made, at: Layout, wanted: Constants, how: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    out, places, shares, items = made
    levels, needed = wanted.numbers, places.size > 1
    rows, found, column = p.pointer(x), p.pointer(out), p.pointer(items)
    at = p.pointer(at)
    stack = p.room(at.cum)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        lead = at.cum[i] * width
        side_by_side = p.sort_columns(rows, column, Columns(first * width, length, width, at.steps, at.step), lead)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            if side_by_side:
                begin, by, end = lead + k, width, lead + k
                last = begin + (length - 1) * width
                whole = length == 0 or column[last] == column[last]
            else:
                begin, by = lead + k * length, 1
                end = begin + p.numbers_of(rows, column, columns, begin)
                whole = end - begin == length
                if levels.size > 8:
                    p.put_in_order(column, begin, end, stack)
            all_sorted = side_by_side or levels.size > 8
            for a in range(levels.size):
                q, low, high = i * levels.size + a, -1, -1
                rank, part = p.rank_of_level(levels[a] * max(length - 1, 0), how)
                share = out.dtype.type(part)
                if length == 0:
                    found[q * width + k] = 0
                elif not whole:
                    found[q * width + k] = math.nan
                    if needed:
                        low = first_nan(rows, columns)
                        high = low
                else:
                    place = begin + rank * by
                    value = column[place] if all_sorted else p.select(column, begin, end, place)
                    above = value
                    if share != 0:
                        above = column[place + by] if all_sorted else p.least_of(column, place + 1, end)
                    found[q * width + k] = value
                    if value != above:
                        found[q * width + k] = value * (out.dtype.type(1) - share) + above * share
                    if needed:
                        low = place_of_rank(rows, columns, value, rank)
                        high = low if share == 0 else place_of_rank(rows, columns, above, rank + 1)
                if needed:
                    shares[q] = share
                    places[2 * q * width + k] = low
                    places[(2 * q + 1) * width + k] = high


def cuda(x: Array, made: Made, at: Layout, wanted: Constants, how: int, width: int) -> None:
    """All units, a thread a column of each."""
    out, places, shares, _ = made
    levels, needed = wanted.numbers, places.size > 1
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            missing = first_nan(x, columns)
            for a in range(levels.size):
                q = i * levels.size + a
                rank, part = p.rank_of_level(levels[a] * max(length - 1, 0), how)
                share = out.dtype.type(part)
                low, high = missing, missing
                if missing == length:
                    low, high = pair_of_rank(x, columns, rank)
                    high = low if share == 0 else high
                if length == 0:
                    low, high = -1, -1
                    out[q * width + k] = 0
                else:
                    p.put_between(x, out, columns, q * width + k, low, high, share)
                if needed:
                    if k == 0:  # the same for every column
                        shares[q] = share
                    places[2 * q * width + k] = low
                    places[(2 * q + 1) * width + k] = high


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "units",
    tuple((kind, made, made, made, "f8") for kind, made in (*p.alike(p.FLOATS, 2), *p.MEANS)),
)
