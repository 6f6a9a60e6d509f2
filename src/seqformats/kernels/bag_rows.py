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


class Arrays(NamedTuple):
    """The table, and what the bags hold."""

    x: Array
    weights: Array
    ids: Integers


class Made(NamedTuple):
    """Results, and whether an id is wrong."""

    out: Array
    totals: Array
    wrong: Integers


class How(NamedTuple):
    """The rows of the table, and how they are added up."""

    rows: int
    mode: int
    weighted: int


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
    ahead: int  # is the table too large for the first cache, so that rows are asked for?


@p.in_lanes
def row_of(x: Array, ids: Integers, wrong: Integers, bags: Bags, place: int, like: Array, count: int) -> Any:
    """Some columns of the row that an id names; the row of the sixteenth id after it is asked for meanwhile."""
    if bags.ahead != 0:
        p.prefetch(x, ids[p.at_most(place + 16, bags.last)] * bags.width + bags.column, count)
    row = ids[place]
    if np.uint64(row) >= np.uint64(bags.rows):
        wrong[0] = 1
        row = np.int64(0)
    return p.load_half(x, row * bags.width + bags.column, count, like)


@p.in_lanes
def put_sums(given: Any, bags: Bags, plain: int, count: int) -> None:
    """Write some columns of the sums of some bags; where `plain` is 1 the compiler leaves out all other cases."""
    x, weights, ids, out, totals, wrong, blocks, cum, to = given
    weighted, mode, moves = bags.weighted * (1 - plain), bags.mode * (1 - plain), bags.moves * (1 - plain)
    one = p.unknown(1)
    end = cum[bags.lo]
    for i in range(bags.lo, bags.hi):
        first, end = end, cum[i + 1]
        length = end - first
        sums = p.each(totals, 0, count)
        entry, stop = first, p.at_most(first + 32, end)
        if weighted == 0:
            while entry < stop:
                sums += row_of(x, ids, wrong, bags, entry, totals, count)
                entry += one
        else:
            while entry < stop:
                sums += row_of(x, ids, wrong, bags, entry, totals, count) * p.each(totals, weights[entry], count)
                entry += one
        if length > 32:
            p.add_block(blocks, sums, True)
            while entry < end:
                sums = p.each(totals, 0, count)
                stop = p.at_most(entry + 32, end)
                while entry < stop:
                    value = row_of(x, ids, wrong, bags, entry, totals, count)
                    if weighted != 0:
                        value = value * p.each(totals, weights[entry], count)
                    sums += value
                    entry += one
                if entry < end:
                    p.add_block(blocks, sums, False)
            sums = p.round_sum(blocks, sums)
        if mode != 0 and length != 0:
            mass = totals[i] if weighted != 0 else length
            sums = p.each(totals, 0, count) if mass == 0 else sums / p.each(totals, mass, count)
        p.store_half(out, (to[i] if moves != 0 else i) * bags.width + bags.column, sums)


@p.in_lanes
def put_columns(given: Any, bags: Bags, count: int) -> None:
    """Write some columns: of plain sums by code of their own, since bags are short and each has but a few cycles."""
    if bags.weighted == 0 and bags.mode == 0 and bags.moves == 0:
        put_sums(given, bags, 1, count)
    else:
        put_sums(given, bags, 0, count)


@p.shared
def lanes_for(columns: int, most: int) -> int:
    """Return as many lanes as hold these columns, or the number below that does not exceed `most`."""
    count = 128 if columns > 64 else 64 if columns > 32 else 32 if columns > 16 else 16 if columns > 4 else 4
    while count > most:
        count = count >> 1 if count > 16 else count >> 2
    return count


@p.compiled
def cpu(arrays: Arrays, made: Made, cum: Integers, to: Integers, how: How, width: int, lo: int, hi: int) -> None:
    """Bags `lo` to `hi`; sums run in the dtype of `totals`.

    Of wide rows one bag is done at a time, so that for its next columns the branches are as predicted.
    """
    rows, mode, weighted = how
    last, moves = arrays.ids.size - 1, p.at_most(to.size, 1)
    x, weights, ids = p.pointer(arrays)
    (out, totals, wrong), cum, to = p.pointer(made), p.pointer(cum), p.pointer(to)
    blocks = p.room(totals)
    given = x, weights, ids, out, totals, wrong, blocks, cum, to
    if mode != 0 and weighted != 0:
        for i in range(lo, hi):
            p.total((weights, totals, blocks, 0.0), Columns(cum[i], cum[i + 1] - cum[i], 1, cum, 1), i, 1)
    most = lanes_for(width, width)
    few = lanes_for(width % most, most)
    ahead = p.at_most(rows * width >> 13, 1)  # a smaller table stays in the first cache
    begin = lo
    while begin < hi:
        end = hi if width <= 128 else begin + 1
        k = 0
        while k < width:
            count = most if width - k >= most else few
            k = p.at_most(k, width - count)
            bags = Bags(begin, end, last, k, width, rows, mode, weighted, moves, ahead)
            if count == 128:
                put_columns(given, bags, 128)
            elif count == 64:
                put_columns(given, bags, 64)
            elif count == 32:
                put_columns(given, bags, 32)
            elif count == 16:
                put_columns(given, bags, 16)
            elif count == 4:
                put_columns(given, bags, 4)
            else:
                put_columns(given, bags, 1)
            k += count
        begin = end


def cuda(arrays: Arrays, made: Made, cum: Integers, to: Integers, how: How, width: int) -> None:
    """All bags, a thread a column of each, in the order of the CPU."""
    x, weights, ids = arrays
    out, totals, wrong = made
    rows, mode, weighted = how
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
