"""Sum, for every bag, the rows of a table that its ids name, column by column; or their mean.  No row is written out.

``x (rows * width,)`` is the table, which has a row.  The ids of bag i are ``ids[cum[i]:cum[i + 1]]``, and where
`weighted` is 1 their factors lie in `weights` in the same way.  Its sum goes to row i of ``out``, or to row ``to[i]``
where `to` is not empty.  `mode` 1 divides it by the number of ids, or by the sum of the weights, which goes to
``totals (n,)``; where that is zero, and of an empty bag, the row is zero.  If an id is no row, ``wrong[0]`` becomes 1,
and row 0 is read in its place.

Rows are added up one after the other, blocks of 32 of them in float64.  On the host `x` and `out` may be the bits of
half precision, see `parts.halves`; `weights` and `totals` are of the dtype in which is calculated.
"""

from typing import Any, NamedTuple

import numpy as np

from . import parts as p
from .parts import Array, Columns, Integers


class Bags(NamedTuple):
    """Arguments for some columns of some bags."""

    lo: int
    hi: int
    last: int  # the place of the last id of all bags
    column: int
    width: int  # of the table
    rows: int
    mode: int
    weighted: int
    moves: int  # are rows of the result where `to` says?


@p.in_lanes
def row_of(x: Array, ids: Integers, wrong: Integers, bags: Bags, place: int, like: Array, count: int) -> Any:
    """Some columns of the row that an id names; the row of the sixteenth id after it is asked for meanwhile."""
    p.prefetch(x, ids[p.at_most(place + 16, bags.last)] * bags.width + bags.column, count)
    row = ids[place]
    if np.uint64(row) >= np.uint64(bags.rows):
        wrong[0] = 1
        row = np.int64(0)
    return p.load_half(x, row * bags.width + bags.column, count, like)


@p.in_lanes
def put_sums(given: Any, bags: Bags, count: int) -> None:
    """Write some columns of the sums of some bags."""
    x, weights, ids, out, totals, wrong, blocks, cum, to = given
    one = p.unknown(1)
    for i in range(bags.lo, bags.hi):
        first, end = cum[i], cum[i + 1]
        length = end - first
        if bags.mode != 0 and bags.weighted != 0 and totals[i] == 0:
            end = first
        sums = p.each(totals, 0, count)
        entry = first
        while entry < end:
            stop = p.at_most(entry + 32, end)
            if bags.weighted != 0:
                while entry < stop:
                    sums += row_of(x, ids, wrong, bags, entry, totals, count) * p.each(totals, weights[entry], count)
                    entry += one
            else:
                while entry < stop:
                    sums += row_of(x, ids, wrong, bags, entry, totals, count)
                    entry += one
            if length >= 32 and entry < end:
                if entry - first == 32:
                    p.add_block(blocks, sums, True)
                else:
                    p.add_block(blocks, sums, False)
                sums = p.each(totals, 0, count)
        if length > 32 and first < end:
            sums = p.rounded(blocks, sums)
        if bags.mode != 0 and first < end:
            sums = sums / p.each(totals, totals[i] if bags.weighted != 0 else length, count)
        p.store_half(out, (to[i] if bags.moves != 0 else i) * bags.width + bags.column, sums)


@p.shared
def lanes_for(columns: int, most: int) -> int:
    """Return as many lanes as hold these columns, or the number below that does not exceed `most`."""
    count = 128 if columns > 64 else 64 if columns > 32 else 32 if columns > 16 else 16 if columns > 4 else 4
    while count > most:
        count = count >> 1 if count > 16 else count >> 2
    return count


@p.compiled
def cpu(
    x: Array,
    weights: Array,
    ids: Integers,
    out: Array,
    totals: Array,
    wrong: Integers,
    cum: Integers,
    to: Integers,
    rows: int,
    mode: int,
    weighted: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Bags `lo` to `hi`; sums run in the dtype of `totals`.  Of wide rows a few bags are in the cache at a time."""
    last, moves = ids.size - 1, p.at_most(to.size, 1)
    x, weights, ids, out, totals = p.pointer(x), p.pointer(weights), p.pointer(ids), p.pointer(out), p.pointer(totals)
    cum, to, wrong = p.pointer(cum), p.pointer(to), p.pointer(wrong)
    blocks = p.room(totals)
    given = x, weights, ids, out, totals, wrong, blocks, cum, to
    if mode != 0 and weighted != 0:
        for i in range(lo, hi):
            p.total((weights, totals, blocks, 0.0), Columns(cum[i], cum[i + 1] - cum[i], 1, cum, 1), i, 1)
    most = lanes_for(width, width)
    few = lanes_for(width % most, most)
    begin = lo
    while begin < hi:
        end = hi if width <= 128 else p.at_most(begin + 4, hi)
        k = 0
        while k < width:
            count = most if width - k >= most else few
            k = p.at_most(k, width - count)
            bags = Bags(begin, end, last, k, width, rows, mode, weighted, moves)
            if count == 128:
                put_sums(given, bags, 128)
            elif count == 64:
                put_sums(given, bags, 64)
            elif count == 32:
                put_sums(given, bags, 32)
            elif count == 16:
                put_sums(given, bags, 16)
            elif count == 4:
                put_sums(given, bags, 4)
            else:
                put_sums(given, bags, 1)
            k += count
        begin = end


def cuda(
    x: Array,
    weights: Array,
    ids: Integers,
    out: Array,
    totals: Array,
    wrong: Integers,
    cum: Integers,
    to: Integers,
    rows: int,
    mode: int,
    weighted: int,
    width: int,
) -> None:
    """All bags, a thread a column of each, in the order of the CPU."""
    for i in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        first, length = cum[i], cum[i + 1] - cum[i]
        for k in range(p.first_column(), width, p.columns_of_grid()):
            none = out.dtype.type(0)
            sums, mass, blocks, masses = none, none, p.wide(none), p.wide(none)
            for t in range(length):
                row = ids[first + t]
                if row < 0 or row >= rows:
                    wrong[0] = 1
                    row = 0
                value = x[row * width + k]
                if weighted != 0:
                    mass += weights[first + t]
                    value *= weights[first + t]
                sums += value
                if t & 31 == 31:
                    blocks += p.wide(sums)
                    masses += p.wide(mass)
                    sums = mass = none
            sums = out.dtype.type(blocks + p.wide(sums))
            if mode != 0 and weighted != 0:
                mass = out.dtype.type(masses + p.wide(mass))
                if k == 0:
                    totals[i] = mass
                sums = none if mass == 0 else sums / mass
            elif mode != 0 and length != 0:
                sums /= out.dtype.type(length)
            out[(to[i] if to.size != 0 else i) * width + k] = sums


HALVES = ("i2", "f4", "i2", "f4"), ("u2", "f4", "u2", "f4")
KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 4), p.STREAMS, on_host=HALVES)
