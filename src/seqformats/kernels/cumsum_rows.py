"""The running sum along every sequence, column by column; or from its end, which is the gradient.

`x` and `out` hold the sequences in the same layout, see `Layout`; `back` is 1 for the way from the
end.  The first 16 rows of float32 are added up in float32, and from there on in float64, rounded for each row.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    SUMS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    at_most,
    by_columns,
    columns_of,
    compiled,
    each,
    item_at,
    load,
    locate,
    pointer,
    room,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import four_along, sums_along
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu, item_in, number_in, wide, zero_in


@by_columns(most=4)
def run(given: Any, columns: Columns, _: int, count: int) -> None:
    """Some columns of a sequence."""
    x, out, totals, back = given
    length, one = columns.length, unknown(1)
    place, by = (length - 1) * back, one * (1 - 2 * back)
    few = at_most(length, 16)
    sums = each(out, -0.0, count)  # to which -0.0 can be added
    d = columns.begin
    t = 0
    while t < few:
        d = item_at(columns, place)
        sums += load(x, d, count, out)
        store(out, d, sums)
        place += by
        t += one
    total = each(totals, -0.0, count)
    if t < length:
        total = load(out, d, count, totals)
    while t < length:
        d = item_at(columns, place)
        total += load(x, d, count, totals)
        store(out, d, total)
        place += by
        t += one


@shared
def run_by_rows(given: Any, columns: Columns) -> int:
    """The columns that 32 lanes can share, row by row, as wide ones are best read and written; how many they are.

    `totals` is a `room`, so many columns are taken at once.
    """
    x, out, totals, back = given
    length, even, some = columns.length, columns.width & -32, unknown(32)
    place, by = (length - 1) * back, 1 - 2 * back
    few = at_most(length, 16)
    before = columns.begin
    t = 0
    while t < few:
        d = item_at(columns, place + t * by)
        k = 0
        while k < even:
            for part in range(k, k + 32, 8):  # writes of 8 lanes meet fewer ends of lines of the memory
                sums = load(x, d + part, 8, out)
                if t != 0:
                    sums = load(out, before + part, 8, out) + sums
                store(out, d + part, sums)
            k += some
        before = d
        t += 1
    begin = 0
    while length > 16 and begin < even:
        size = at_most(even - begin, 1024)
        k = 0
        while k < size:
            store(totals, k, load(out, before + begin + k, 32, totals))
            k += some
        t = 16
        while t < length:
            d = item_at(columns, place + t * by) + begin
            k = 0
            while k < size:
                for part in range(k, k + 32, 8):
                    total = load(totals, part, 8, totals) + load(x, d + part, 8, totals)
                    store(totals, part, total)
                    store(out, d + part, total)
                k += some
            t += 1
        begin += size
    return even


@compiled
def cpu(x: Array, out: Array, at: Layout, back: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; float32 is added up in float64, other sums run in the dtype of `out`."""
    given, at = (pointer(x), pointer(out), room(pointer(out)), back), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        k = run_by_rows(given, columns) if width >= 32 else 0
        run(given, columns, i * width, k, width)


def cuda(x: Array, out: Array, at: Layout, back: int, width: int) -> None:
    """All units, a thread a column of each; while four rows are added the next four are on their way."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < at.cum.size - 1:
        _, first, length = locate(at, u)
        begin, by = (length - 1) * back, 1 - 2 * back
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            single = zero_in(out) * number_in(out, -0.0)  # -0.0, to which -0.0 can be added
            following = (zero_in(x), zero_in(x), zero_in(x), zero_in(x))
            if length >= 4:
                following = four_along(x, columns, begin, by)
            t = 0
            while t + 4 <= min(length, 16):
                four = following
                if t + 8 <= length:
                    following = four_along(x, columns, begin + (t + 4) * by, by)
                single = sums_along(out, columns, begin + t * by, by, single, four)
                t += 4
            while t < min(length, 16):
                place = item_at(columns, begin + t * by)
                single += x[place]
                out[place] = single
                t += 1
            total = wide(single)
            while t + 4 <= length:
                a, b, c, d = following
                if t + 8 <= length:
                    following = four_along(x, columns, begin + (t + 4) * by, by)
                total = sums_along(out, columns, begin + t * by, by, total, (wide(a), wide(b), wide(c), wide(d)))
                t += 4
            while t < length:
                place = item_at(columns, begin + t * by)
                total += wide(x[place])
                out[place] = item_in(out, total)
                t += 1
            k += columns_of_grid()
        u += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", SUMS, fours=True)
