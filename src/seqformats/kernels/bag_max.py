"""The largest of the rows of a table that the ids of every bag name, column by column, and where it was.

``x (rows * width,)`` is the table, which has a row.  The ids of bag i are ``ids[cum[i]:cum[i + 1]]``; ``out`` and
``places (n * width,)`` get the largest number and the place of the first id that has it, an empty bag 0 and -1.  Where
`placed` is 0 places are left as they are.  NaN is beyond every number.  If an id is no row, ``wrong[0]`` becomes 1, and
row 0 is read in its place.
"""

from typing import Any, NamedTuple

import numpy as np

from . import parts as p
from .parts import Array, Integers


class Made(NamedTuple):
    """The largest numbers, where they are, and whether an id is wrong."""

    out: Array
    places: Integers
    wrong: Integers


class Sizes(NamedTuple):
    """The rows of the table, and whether places are wanted."""

    rows: int
    placed: int


@p.shared
def check_row(ids: Integers, wrong: Integers, entry: int, rows: int) -> Any:
    """The row that an id names; 0 where there is none."""
    row = ids[entry]
    if np.uint64(row) >= np.uint64(rows):
        wrong[0] = 1
        row = np.int64(0)
    return row


@p.in_lanes
def put_largest(
    x: Array,
    ids: Integers,
    out: Array,
    wrong: Integers,
    run: tuple[int, int, int],
    at: tuple[int, int, int],
    count: int,
) -> None:
    """Write the largest numbers of some columns: `run` are the ids and the rows, `at` the place, column and width."""
    first, end, rows = run
    place, column, width = at
    best, one = p.each(out, 0, count), p.unknown(1)
    if first < end:
        best = p.load(x, check_row(ids, wrong, first, rows) * width + column, count, out)
        entry = first + one
        while entry < end:
            best = p.larger(best, p.load(x, check_row(ids, wrong, entry, rows) * width + column, count, out))
            entry += one
    p.store(out, place, best)


@p.compiled
def cpu(x: Array, ids: Integers, made: Made, cum: Integers, sizes: Sizes, width: int, lo: int, hi: int) -> None:
    """Bags `lo` to `hi`."""
    rows, placed = sizes
    x, ids, (out, places, wrong) = p.pointer(x), p.pointer(ids), p.pointer(made)
    count = p.columns_at_once(width)
    for i in range(lo, hi):
        first, end = cum[i], cum[i + 1]
        k = 0
        while k < width:
            k = p.at_most(k, width - count)
            run, at = (first, end, rows), (i * width + k, k, width)
            if count == 32:
                put_largest(x, ids, out, wrong, run, at, 32)
            elif count == 4:
                put_largest(x, ids, out, wrong, run, at, 4)
            else:
                put_largest(x, ids, out, wrong, run, at, 1)
            k += count
        if placed != 0:
            begin = i * width
            for k in range(width):
                places[begin + k] = -1
            for entry in range(end - 1, first - 1, -1):  # backwards, so that the first one stays
                row = check_row(ids, wrong, entry, rows) * width
                for k in range(width):
                    value, best = x[row + k], out[begin + k]
                    if value == best or (value != value and best != best):
                        places[begin + k] = entry


def cuda(x: Array, ids: Integers, made: Made, cum: Integers, sizes: Sizes, width: int) -> None:
    """All bags, a thread a column of each."""
    out, places, wrong = made
    rows, placed = sizes
    for i in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        for k in range(p.first_column(), width, p.columns_of_grid()):
            best, place = out.dtype.type(0), -1
            for entry in range(cum[i], cum[i + 1]):
                value = x[check_row(ids, wrong, entry, rows) * width + k]
                if place < 0 or p.is_better(value, best, 0):
                    best, place = value, entry
            out[i * width + k] = best
            if placed != 0:
                places[i * width + k] = place


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 2), p.STREAMS)
