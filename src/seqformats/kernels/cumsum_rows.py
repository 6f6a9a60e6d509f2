"""The running sum along every sequence, column by column; or from its end, which is the gradient.

`x` and `out` hold the sequences in the same layout, see `Layout`; `back` is 1 for the way from the
end.  The first 16 rows of float32 are added up in float32, and from there on in float64, rounded for each row.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout


@p.by_columns(most=4)
def run(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence."""
    x, out, totals, back = given
    length, one = columns.length, p.unknown(1)
    place, by = (length - 1) * back, one * (1 - 2 * back)
    few = p.at_most(length, 16)
    sums = p.each(out, -0.0, count)  # to which -0.0 can be added
    d = columns.begin
    t = 0
    while t < few:
        d = p.item_at(columns, place)
        sums += p.load(x, d, count, out)
        p.store(out, d, sums)
        place += by
        t += one
    total = p.each(totals, -0.0, count)
    if t < length:
        total = p.load(out, d, count, totals)
    while t < length:
        d = p.item_at(columns, place)
        total += p.load(x, d, count, totals)
        p.store(out, d, total)
        place += by
        t += one


@p.shared
def run_by_rows(given: Any, columns: Columns) -> int:
    """The columns that 32 lanes can share, row by row, as wide ones are best read and written; how many they are.

    `totals` is a `room`, so many columns are taken at once.
    """
    x, out, totals, back = given
    length, even, some = columns.length, columns.width & -32, p.unknown(32)
    place, by = (length - 1) * back, 1 - 2 * back
    few = p.at_most(length, 16)
    before = columns.begin
    t = 0
    while t < few:
        d = p.item_at(columns, place + t * by)
        k = 0
        while k < even:
            for part in range(k, k + 32, 8):  # writes of 8 lanes meet fewer ends of lines of the memory
                sums = p.load(x, d + part, 8, out)
                if t != 0:
                    sums = p.load(out, before + part, 8, out) + sums
                p.store(out, d + part, sums)
            k += some
        before = d
        t += 1
    begin = 0
    while length > 16 and begin < even:
        size = p.at_most(even - begin, 1024)
        k = 0
        while k < size:
            p.store(totals, k, p.load(out, before + begin + k, 32, totals))
            k += some
        t = 16
        while t < length:
            d = p.item_at(columns, place + t * by) + begin
            k = 0
            while k < size:
                for part in range(k, k + 32, 8):
                    total = p.load(totals, part, 8, totals) + p.load(x, d + part, 8, totals)
                    p.store(totals, part, total)
                    p.store(out, d + part, total)
                k += some
            t += 1
        begin += size
    return even


@p.compiled
def cpu(x: Array, out: Array, at: Layout, back: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; float32 is added up in float64, other sums run in the dtype of `out`."""
    given, at = (p.pointer(x), p.pointer(out), p.room(p.pointer(out)), back), p.pointer(at)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        k = run_by_rows(given, columns) if width >= 32 else 0
        run(given, columns, i * width, k, width)


def cuda(x: Array, out: Array, at: Layout, back: int, width: int) -> None:
    """All units, a thread a column of each; while four rows are added the next four are on their way."""
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        _, first, length = p.locate(at, u)
        begin, by = (length - 1) * back, 1 - 2 * back
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            single = p.zero_in(out) * p.number_in(out, -0.0)  # -0.0, to which -0.0 can be added
            following = (p.zero_in(x), p.zero_in(x), p.zero_in(x), p.zero_in(x))
            if length >= 4:
                following = p.four_along(x, columns, begin, by)
            t = 0
            while t + 4 <= min(length, 16):
                four = following
                if t + 8 <= length:
                    following = p.four_along(x, columns, begin + (t + 4) * by, by)
                single = p.sums_along(out, columns, begin + t * by, by, single, four)
                t += 4
            while t < min(length, 16):
                place = p.item_at(columns, begin + t * by)
                single += x[place]
                out[place] = single
                t += 1
            total = p.wide(single)
            while t + 4 <= length:
                a, b, c, d = following
                if t + 8 <= length:
                    following = p.four_along(x, columns, begin + (t + 4) * by, by)
                total = p.sums_along(
                    out, columns, begin + t * by, by, total, (p.wide(a), p.wide(b), p.wide(c), p.wide(d))
                )
                t += 4
            while t < length:
                place = p.item_at(columns, begin + t * by)
                total += p.wide(x[place])
                out[place] = p.item_in(out, total)
                t += 1


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.SUMS, fours=True)
