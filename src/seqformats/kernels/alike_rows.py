"""Which items of every sequence are equal, column by column: how many differ, and the most frequent one.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  `mode`: 0 how many different items there
are, 1 the one that is there most often, of several the least.  NaN is equal to NaN, and larger than every number.  An
empty sequence gives zeros.  On the CPU columns are sorted in ``items (rows * width,)``, which nobody reads.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    NUMBERS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    alike,
    compiled,
    item_at,
    locate,
    numbers_of,
    pointer,
    put_in_order,
    room,
    shared,
    sort_columns,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@shared
def first_equal(x: Array, columns: Columns, place: int) -> int:
    """Where the first item of a column stands that is equal to item `place`."""
    value = x[item_at(columns, place)]
    t = 0
    while t < place:
        other = x[item_at(columns, t)]
        if other == value or (other != other and value != value):
            break
        t += 1
    return t


@compiled
def cpu(x: Array, out: Array, items: Array, at: Layout, mode: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, found, column = pointer(x), pointer(out), pointer(items)
    at = pointer(at)
    stack = room(at.cum)
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        begin = at.cum[i] * width
        side_by_side = sort_columns(rows, column, Columns(first * width, length, width, at.steps, at.step), begin)
        for k in range(width):
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            if side_by_side:
                lead, by, there = begin + k, width, length
                while there > 0 and column[lead + (there - 1) * by] != column[lead + (there - 1) * by]:
                    there -= 1
            else:
                lead, by = begin + k * length, 1
                there = numbers_of(rows, column, columns, lead)
                put_in_order(column, lead, lead + there, stack)
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
                value = rows[item_at(columns, t)]
                while value == value if missing > most else value != column[best]:
                    t += 1
                    value = rows[item_at(columns, t)]
                found[place] = value


def cuda(x: Array, out: Array, items: Array, at: Layout, mode: int, width: int) -> None:  # noqa: ARG001  nothing is sorted
    """All units, a thread a column of each, which compares each item with all others."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = gpu.threadIdx.x
        while k < width:
            columns, place = Columns(first * width + k, length, width, at.steps, at.step), i * width + k
            different, most, best = 0, 0, 0
            for t in range(length):
                if first_equal(x, columns, t) == t:
                    different += 1
                    value = x[item_at(columns, t)]
                    many = 0
                    for s in range(t, length):
                        other = x[item_at(columns, s)]
                        if other == value or (other != other and value != value):
                            many += 1
                    top = x[item_at(columns, best)]
                    if many > most or (many == most and (value < top or (top != top and value == value))):
                        most, best = many, t
            out[place] = 0
            if mode == 0:
                out[place] = different
            elif length != 0:
                out[place] = x[item_at(columns, best)]
            k += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(
    cpu, cuda, CALCULATES, "units", (*((kind, "i8", kind) for kind in NUMBERS if kind != "i8"), *alike(NUMBERS, 3))
)
