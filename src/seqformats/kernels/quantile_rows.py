"""Quantiles of every sequence, column by column: the item of a rank, or something between it and the next one.

`x` holds the sequences in any layout, see `Layout`; ``ranks (n * q,)``: which item, from 0, ``shares (n * q,)``: how
much of the next one, 0 to 1; ``out (n * q * width,)``.  A NaN in a column gives NaN, an empty sequence zeros.  Where
``places (n * q * 2 * width,)`` has more than one number, it gets the places of the two items in their sequence: of
equal ones in their order, with a NaN the first of these, -1 for none.

On the CPU columns are sorted side by side in ``items (rows * width,)``, which nobody reads; of one alone, or long ones,
what is before and behind a rank is told apart there by quickselect (Hoare, "Algorithm 65: find", 1961).
"""

import math
from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    MEANS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    Layout,
    alike,
    compiled,
    item_at,
    least_of,
    locate,
    numbers_of,
    pointer,
    put_in_order,
    room,
    select,
    shared,
    sort_columns,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@shared
def rank_of(x: Array, columns: Columns, t: int) -> int:
    """How many items of a column come before item t, which is a number: those that are less, and equal ones there."""
    value = x[item_at(columns, t)]
    rank = 0
    for s in range(columns.length):
        other = x[item_at(columns, s)]
        rank += other < value or (other == value and s < t)
    return rank


@shared
def place_of_rank(x: Array, columns: Columns, value: float, rank: int) -> int:
    """Where the item of this rank stands, which is `value`."""
    left = rank
    for t in range(columns.length):
        left -= x[item_at(columns, t)] < value
    t = -1
    while left >= 0:
        t += 1
        left -= x[item_at(columns, t)] == value
    return t


@shared
def first_nan(x: Array, columns: Columns) -> int:
    """Where the first NaN of a column stands, the length where there is none."""
    t = 0
    while t < columns.length and x[item_at(columns, t)] == x[item_at(columns, t)]:
        t += 1
    return t


@compiled
def cpu(
    x: Array,
    shares: Array,
    out: Array,
    places: Integers,
    items: Array,
    at: Layout,
    ranks: Integers,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    needed, count = places.size > 1, ranks.size // (at.cum.size - 1)
    rows, found, column = pointer(x), pointer(out), pointer(items)
    at = pointer(at)
    stack = room(at.cum)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        lead = at.cum[i] * width
        side_by_side = sort_columns(rows, column, Columns(first * width, length, width, at.steps, at.step), lead)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            if side_by_side:
                begin, by, end = lead + k, width, lead + k
                last = begin + (length - 1) * width
                whole = length == 0 or column[last] == column[last]
            else:
                begin, by = lead + k * length, 1
                end = begin + numbers_of(rows, column, columns, begin)
                whole = end - begin == length
                if count > 8:
                    put_in_order(column, begin, end, stack)
            in_order = side_by_side or count > 8
            for q in range(i * count, (i + 1) * count):
                low, high = -1, -1
                if length == 0:
                    found[q * width + k] = 0
                elif not whole:
                    found[q * width + k] = math.nan
                    if needed:
                        low = first_nan(rows, columns)
                        high = low
                else:
                    place, share = begin + ranks[q] * by, shares[q]
                    value = column[place] if in_order else select(column, begin, end, place)
                    above = value
                    if share != 0:
                        above = column[place + by] if in_order else least_of(column, place + 1, end)
                    found[q * width + k] = value
                    if value != above:
                        found[q * width + k] = value * (shares.dtype.type(1) - share) + above * share
                    if needed:
                        low = place_of_rank(rows, columns, value, ranks[q])
                        high = low if share == 0 else place_of_rank(rows, columns, above, ranks[q] + 1)
                if needed:
                    places[2 * q * width + k] = low
                    places[(2 * q + 1) * width + k] = high


def cuda(
    x: Array,
    shares: Array,
    out: Array,
    places: Integers,
    items: Array,  # noqa: ARG001  nothing is sorted
    at: Layout,
    ranks: Integers,
    width: int,
) -> None:
    """All units, a thread a column of each, which compares each item with all others."""
    needed, count = places.size > 1, ranks.size // (at.cum.size - 1)
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = gpu.threadIdx.x
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            missing = first_nan(x, columns)
            for q in range(i * count, (i + 1) * count):
                low, high = missing, missing
                if length == 0:
                    low, high = -1, -1
                elif missing == length:
                    for t in range(length):
                        rank = rank_of(x, columns, t)
                        if rank == ranks[q]:
                            low = t
                        elif rank == ranks[q] + 1:
                            high = t
                    if shares[q] == 0:
                        high = low
                out[q * width + k] = 0
                if length != 0:
                    value, above = out.dtype.type(x[item_at(columns, low)]), out.dtype.type(x[item_at(columns, high)])
                    out[q * width + k] = value
                    if value != above:
                        share = shares[q]
                        out[q * width + k] = value * (shares.dtype.type(1) - share) + above * share
                if needed:
                    places[2 * q * width + k] = low
                    places[(2 * q + 1) * width + k] = high
            k += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "units", (*alike(FLOATS, 4), *((kind, made, made, made) for kind, made in MEANS))
)
