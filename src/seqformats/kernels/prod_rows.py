"""Multiply the rows of every sequence, column by column, in their order.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  An empty sequence gives ones.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    COMPLEX,
    STREAMS,
    SUMS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    alike,
    by_columns,
    columns_of,
    compiled,
    item_at,
    load,
    locate,
    pointer,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import eight_at, has_one, share_of, some_of
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, natural, number_in, zero_in


@by_columns()
def product(given: Any, columns: Columns, place: int, count: int) -> None:
    """The products of `count` columns of a sequence to ``out[place:]``."""
    x, out = given
    found, length, one = load(x, item_at(columns, 0), count, out), columns.length, unknown(1)
    t = one
    while t < length:
        found = found * load(x, item_at(columns, t), count, out)
        t += one
    store(out, place, found)


@compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; products run in the dtype of `out`."""
    given, at = (pointer(x), pointer(out)), pointer(at)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        k = 0
        while k < width and columns.length == 0:
            out[i * width + k] = 1
            k += 1
        product(given, columns, i * width, k, width)


@shared
def with_eight(found: Any, eight: Any) -> Any:
    """A product with eight items more, in their order."""
    a, b, c, d, e, f, g, h = eight
    found = (((found * a) * b) * c) * d
    return (((found * e) * f) * g) * h


@shared
def product_of(x: Array, out: Array, columns: Columns, t: int, by: int) -> Any:
    """Multiply every so many items of a column from t on, in the dtype of `out`."""
    found = zero_in(out) + number_in(out, 1)
    while has_one(x) and t + 15 * by < columns.length:  # all on their way at a time
        eight, more = eight_at(x, columns, t, by), eight_at(x, columns, t + 8 * by, by)
        found = with_eight(with_eight(found, eight), more)
        t += 16 * by
    while t + 7 * by < columns.length:
        found = with_eight(found, eight_at(x, columns, t, by))
        t += 8 * by
    while t < columns.length:
        a, b, c, d = some_of(x, columns, t, by, zero_in(x) + number_in(x, 1))
        found = (((found * a) * b) * c) * d
        t += 4 * by
    return found


def cuda(x: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    Thread y of a column multiplies every so many rows, and the parts are multiplied in pairs.
    """
    parts = natural(gpu.shared.array(128, out.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            found = out.dtype.type(1)
            if k < width:
                columns = Columns(first * width + k, length, width, at.steps, at.step)
                t, down = share_of(length)
                found = product_of(x, out, columns, t, down)
            parts[place] = found
            gpu.syncthreads()
            half = gpu.blockDim.y >> 1
            while half > 0:
                if gpu.threadIdx.y < half:
                    parts[place] *= parts[place + half * gpu.blockDim.x]
                gpu.syncthreads()
                half >>= 1
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = parts[place]
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x


def short(x: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a thread for each column; see `SHORT`."""
    u = first_unit()
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        k = first_column()
        while k < width:
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            out[i * width + k] = product_of(x, out, columns, 0, 1)
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", (*SUMS, *alike(COMPLEX, 2)), STREAMS, short, fours=True)
