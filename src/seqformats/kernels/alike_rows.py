"""Count the different items of every sequence, or find the most frequent one, column by column.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  `mode`: 0 how many different items there
are, 1 the one that is there most often, of several the least.  NaN is equal to NaN, and larger than every number.  An
empty sequence gives zeros.  Where `in_order` is 1, the items are in order already, with NaN last; so it is on a GPU if
there are long sequences, see `SHORT`.  On the CPU columns are sorted in ``items (rows * width,)``, which nobody reads.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Layout


@p.shared
def are_equal(value: Any, other: Any) -> Any:
    """Tell whether both are the same number, or NaN."""
    return other == value or (other != other and value != value)


@p.compiled
def cpu(
    x: Array,
    out: Array,
    items: Array,
    at: Layout,
    mode: int,
    in_order: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    rows, found, column = p.pointer(x), p.pointer(out), p.pointer(items)
    at = p.pointer(at)
    stack = p.room(at.cum)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        begin = at.cum[i] * width
        side_by_side = p.sort_columns(rows, column, Columns(first * width, length, width, at.steps, at.step), begin)
        for k in range(width):
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if side_by_side:
                lead, by, there = begin + k, width, length
                while there > 0 and column[lead + (there - 1) * by] != column[lead + (there - 1) * by]:
                    there -= 1
            else:
                lead, by = begin + k * length, 1
                there = p.numbers_of(rows, column, columns, lead)
                p.put_in_order(column, lead, lead + there, stack)
            different, most, best = 0, 0, lead
            a = 0
            while a < there:
                b = a + 1
                while b < there and column[lead + b * by] == column[lead + a * by]:
                    b += 1
                different += 1
                if b - a > most:
                    most, best = b - a, lead + a * by
                a = b
            missing = length - there
            if mode == 0:
                found[place] = different + (1 if missing != 0 else 0)
            elif length == 0:
                found[place] = 0
            else:  # the first of them, since zeros have signs
                t = 0
                value = rows[p.item_at(columns, t)]
                while value == value if missing > most else value != column[best]:
                    t += 1
                    value = rows[p.item_at(columns, t)]
                found[place] = value


@p.shared
def equal_to(x: Array, columns: Columns, lo: int, hi: int, four: Any) -> Any:
    """To how many of some items each of four is equal."""
    a, b, c, d = four
    o = q = r = s = 0
    for t in range(lo, hi):
        other = x[p.item_at(columns, t)]
        o += are_equal(a, other)
        q += are_equal(b, other)
        r += are_equal(c, other)
        s += are_equal(d, other)
    return o, q, r, s


@p.shared
def more_alike(x: Array, columns: Columns, found: Any, value: Any, before: int, many: int, t: int) -> Any:
    """Update what `most_alike` has found with item t, equal to so many before it, and to so many from it on."""
    different, most, best = found
    if before == 0:
        different += 1
        top = x[p.item_at(columns, best)]
        if many > most or (many == most and (value < top or (top != top and value == value))):
            most, best = many, t
    return different, most, best


@p.shared
def most_alike(x: Array, columns: Columns) -> Any:
    """Count the different items of a column, and find the one that is there most often, of several the least."""
    found = 0, 0, 0
    t = 0
    while t < columns.length:
        # what is behind the end is equal to the first of the four, and so it counts for nothing
        a, b, c, d = four = p.some_of(x, columns, t, 1, x[p.item_at(columns, t)])
        e, f, g, h = equal_to(x, columns, 0, t, four)
        o, q, r, s = equal_to(x, columns, t, columns.length, four)
        found = more_alike(x, columns, found, a, e, o, t)
        found = more_alike(x, columns, found, b, f + are_equal(a, b), q, t + 1)
        found = more_alike(x, columns, found, c, g + are_equal(a, c) + are_equal(b, c), r, t + 2)
        found = more_alike(x, columns, found, d, h + are_equal(a, d) + are_equal(b, d) + are_equal(c, d), s, t + 3)
        t += 4
    different, _, best = found
    return different, best


@p.shared
def most_alike_in_order(x: Array, columns: Columns) -> Any:
    """Find what `most_alike` does in a column in order."""
    different, most, best, begin = 0, 0, 0, 0
    for t in range(columns.length):
        if t == 0 or not are_equal(x[p.item_at(columns, t - 1)], x[p.item_at(columns, t)]):
            different += 1
            begin = t
        if t - begin >= most:
            most, best = t - begin + 1, begin
    return different, best


def cuda(
    x: Array,
    out: Array,
    items: Array,
    at: Layout,
    mode: int,
    in_order: int,
    width: int,
) -> None:
    """All units, a thread a column of each, which compares each item with all others if they are in no order."""
    for u in range(p.first_unit(), at.cum.size - 1, p.units_of_grid()):
        i, first, length = p.locate(at, u)
        for k in range(p.first_column(), width, p.columns_of_grid()):
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            different, best = most_alike_in_order(x, columns) if in_order != 0 else most_alike(x, columns)
            out[place] = 0
            if mode == 0:
                out[place] = different
            elif length != 0:
                out[place] = x[p.item_at(columns, best)]


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "units",
    (*((kind, "i8", kind) for kind in p.NUMBERS if kind != "i8"), *p.alike(p.NUMBERS, 3)),
)
