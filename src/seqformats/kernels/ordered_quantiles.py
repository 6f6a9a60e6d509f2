"""Quantiles of sequences whose columns are in order, with NaN last.

All is as in `quantile_rows`, but ``ids (rows * width,)``: where the items stood before, for `places`; it has no numbers
where nobody wants these.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    MEANS,
    Array,
    Columns,
    Constants,
    Integers,
    KernelSpec,
    Layout,
    alike,
    compiled,
    item_at,
    locate,
    put_between,
    rank_of_level,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid


@shared
def numbers_before(x: Array, columns: Columns) -> int:
    """Find the first NaN of a column, the length where there is none."""
    low, high = 0, columns.length
    while low < high:
        middle = (low + high) // 2
        value = x[item_at(columns, middle)]
        if value == value:
            low = middle + 1
        else:
            high = middle
    return low


@shared
def pick(
    x: Array, ids: Integers, out: Array, places: Integers, columns: Columns, levels: Array, how: int, to: int
) -> None:
    """All quantiles of a column, the first to ``out[to]``."""
    length, width = columns.length, columns.width
    missing = numbers_before(x, columns)
    for a in range(levels.size):
        place = to + a * width
        rank, share = rank_of_level(levels[a] * max(length - 1, 0), how)
        low = rank if missing == length else missing
        high = low + 1 if missing == length and out.dtype.type(share) != 0 else low
        if length == 0:
            low, high = -1, -1
            out[place] = 0
        else:
            put_between(x, out, columns, place, low, high, out.dtype.type(share))
            if ids.size > 0:
                low, high = ids[item_at(columns, low)], ids[item_at(columns, high)]
        if places.size > 1:
            first = 2 * place - to % width
            places[first] = low
            places[first + width] = high


@shared
def put_shares(shares: Array, levels: Array, how: int, i: int, length: int) -> None:
    """Write how much of the second item the quantiles of sequence i have."""
    for a in range(levels.size):
        _, share = rank_of_level(levels[a] * max(length - 1, 0), how)
        shares[i * levels.size + a] = share


@compiled
def cpu(
    x: Array,
    ids: Integers,
    out: Array,
    places: Integers,
    shares: Array,
    at: Layout,
    wanted: Constants,
    how: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    levels = wanted.numbers
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        if places.size > 1:
            put_shares(shares, levels, how, i, length)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            pick(x, ids, out, places, columns, levels, how, i * levels.size * width + k)


def cuda(
    x: Array,
    ids: Integers,
    out: Array,
    places: Integers,
    shares: Array,
    at: Layout,
    wanted: Constants,
    how: int,
    width: int,
) -> None:
    """All units, a thread a column of each."""
    levels = wanted.numbers
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        if k == 0 and places.size > 1:
            put_shares(shares, levels, how, i, length)
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            pick(x, ids, out, places, columns, levels, how, i * levels.size * width + k)
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "units", tuple((kind, made, made, "f8") for kind, made in (*alike(FLOATS, 2), *MEANS))
)
