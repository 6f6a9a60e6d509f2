"""Quantiles of sequences whose columns are in order, with NaN last.

All is as in `quantile_rows`, but ``ids (rows * width,)``: where the items stood before, for `places`; it has no numbers
where nobody wants these.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Columns, Constants, Integers, Layout


class Given(NamedTuple):
    """The items in order, and where they stood."""

    x: Array
    ids: Integers


class Made(NamedTuple):
    """Quantiles, and of which items they are made."""

    out: Array
    places: Integers
    shares: Array


@p.shared
def numbers_before(x: Array, columns: Columns) -> int:
    """Find the first NaN of a column, the length where there is none."""
    low, high = 0, columns.length
    while low < high:
        middle = (low + high) // 2
        value = x[p.item_at(columns, middle)]
        if value == value:
            low = middle + 1
        else:
            high = middle
    return low


@p.shared
def pick(
    x: Array, ids: Integers, out: Array, places: Integers, columns: Columns, levels: Array, how: int, to: int
) -> None:
    """All quantiles of a column, the first to ``out[to]``."""
    length, width = columns.length, columns.width
    missing = numbers_before(x, columns)
    for a in range(levels.size):
        place = to + a * width
        rank, share = p.rank_of_level(levels[a] * max(length - 1, 0), how)
        low = rank if missing == length else missing
        high = low + 1 if missing == length and out.dtype.type(share) != 0 else low
        if length == 0:
            low, high = -1, -1
            out[place] = 0
        else:
            p.put_between(x, out, columns, place, low, high, out.dtype.type(share))
            if ids.size > 0:
                low, high = ids[p.item_at(columns, low)], ids[p.item_at(columns, high)]
        if places.size > 1:
            first = 2 * place - to % width
            places[first] = low
            places[first + width] = high


@p.shared
def put_shares(shares: Array, levels: Array, how: int, i: int, length: int) -> None:
    """Write how much of the second item the quantiles of sequence i have."""
    for a in range(levels.size):
        _, share = p.rank_of_level(levels[a] * max(length - 1, 0), how)
        shares[i * levels.size + a] = share


@p.compiled
def cpu(given: Given, made: Made, at: Layout, wanted: Constants, how: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, ids = given
    out, places, shares = made
    levels = wanted.numbers
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        if places.size > 1:
            put_shares(shares, levels, how, i, length)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            pick(x, ids, out, places, columns, levels, how, i * levels.size * width + k)


def cuda(given: Given, made: Made, at: Layout, wanted: Constants, how: int, width: int) -> None:
    """All units, a thread a column of each."""
    x, ids = given
    out, places, shares = made
    levels = wanted.numbers
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        k = p.first_column()
        if k == 0 and places.size > 1:
            put_shares(shares, levels, how, i, length)
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            pick(x, ids, out, places, columns, levels, how, i * levels.size * width + k)
            k += p.columns_of_grid()


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "units",
    tuple((kind, made, made, "f8") for kind, made in (*p.alike(p.FLOATS, 2), *p.MEANS)),
)
