"""The largest of the rows of a table that the ids of every bag name, column by column, and where it was.

``x (rows * width,)`` is the table, which has a row.  The ids of bag i are ``ids[cum[i]:cum[i + 1]]``; ``out`` and
``places (n * width,)`` get the largest number and the place of the first id that has it, an empty bag 0 and -1.  Where
`placed` is 0 places are left as they are.  NaN is beyond every number.  If an id is no row, ``wrong[0]`` becomes 1, and
row 0 is read in its place.
"""

from typing import Any

import numpy as np

from .parts import (
    CALCULATES,
    FLOATS,
    STREAMS,
    Array,
    Integers,
    KernelSpec,
    alike,
    at_most,
    beyond,
    columns_at_once,
    compiled,
    each,
    in_lanes,
    larger,
    load,
    pointer,
    shared,
    store,
    unknown,
)
from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid


@shared
def known(ids: Integers, wrong: Integers, p: int, rows: int) -> Any:
    """The row that an id names; 0 where there is none."""
    row = ids[p]
    if np.uint64(row) >= np.uint64(rows):
        wrong[0] = 1
        row = np.int64(0)
    return row


@in_lanes
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
    best, one = each(out, 0, count), unknown(1)
    if first < end:
        best = load(x, known(ids, wrong, first, rows) * width + column, count, out)
        p = first + one
        while p < end:
            best = larger(best, load(x, known(ids, wrong, p, rows) * width + column, count, out))
            p += one
    store(out, place, best)


@compiled
def cpu(
    x: Array,
    ids: Integers,
    out: Array,
    places: Integers,
    wrong: Integers,
    cum: Integers,
    rows: int,
    placed: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Bags `lo` to `hi`."""
    x, ids, out, places, wrong = pointer(x), pointer(ids), pointer(out), pointer(places), pointer(wrong)
    count = columns_at_once(width)
    for i in range(lo, hi):
        first, end = cum[i], cum[i + 1]
        k = 0
        while k < width:
            k = at_most(k, width - count)
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
            for p in range(end - 1, first - 1, -1):  # backwards, so that the first one stays
                row = known(ids, wrong, p, rows) * width
                for k in range(width):
                    value, best = x[row + k], out[begin + k]
                    if value == best or (value != value and best != best):
                        places[begin + k] = p


def cuda(
    x: Array,
    ids: Integers,
    out: Array,
    places: Integers,
    wrong: Integers,
    cum: Integers,
    rows: int,
    placed: int,
    width: int,
) -> None:
    """All bags, a thread a column of each."""
    i = first_unit()
    while i < cum.size - 1:
        k = first_column()
        while k < width:
            best, place = out.dtype.type(0), -1
            for p in range(cum[i], cum[i + 1]):
                value = x[known(ids, wrong, p, rows) * width + k]
                if place < 0 or beyond(value, best, 0):
                    best, place = value, p
            out[i * width + k] = best
            if placed != 0:
                places[i * width + k] = place
            k += columns_of_grid()
        i += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", alike(FLOATS, 2), STREAMS)
