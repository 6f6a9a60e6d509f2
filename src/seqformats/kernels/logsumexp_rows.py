"""The logarithm of the sum of exponentials of every sequence, column by column, with the maximum taken out first.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  An empty
sequence gives -inf.

Rows are added up 8 at a time, 8 of these sums in a block, and the blocks of float32 in float64.
"""

import math
from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Columns,
    KernelSpec,
    Layout,
    add_block,
    alike,
    at_least,
    at_most,
    by_columns,
    choose,
    columns_of,
    compiled,
    each,
    exp,
    item_at,
    larger,
    load,
    locate,
    log,
    pointer,
    prefetch,
    room,
    rounded,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.columns import column_powers, powers_of
    from .parts.device import columns_of_grid, first_column, first_unit, units_of_grid
    from .parts.gpu import gpu, ln, natural


def logsumexp_few(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence of up to 8 rows: the same as `logsumexp`, for less."""
    x, out, _ = given
    length, one = columns.length, unknown(1)
    top = load(x, item_at(columns, 0), count, out)
    t = one
    while t < length:
        top = larger(top, load(x, item_at(columns, t), count, out))
        t += one
    infinite = (top == each(out, math.inf, count)) | (top == each(out, -math.inf, count))
    top = choose(infinite, each(out, 0, count), top)
    total = each(out, 0, count)
    t = 0
    while t < length:
        total += exp(load(x, item_at(columns, t), count, out) - top)
        t += one
    store(out, place, top + log(total))


@by_columns(some=8, few=logsumexp_few)
def logsumexp(given: Any, columns: Columns, place: int, count: int) -> None:
    """Some columns of a sequence, to ``out[place:]``."""
    x, out, blocks = given
    length, one = columns.length, unknown(1)
    ahead = at_least(8 * columns.step * columns.width, 1024)
    top = load(x, item_at(columns, 0), count, out)
    t = one
    while t < length:
        d = item_at(columns, t)
        if count >= 32:
            prefetch(x, d + ahead, count)
        value = load(x, d, count, out)
        top = larger(top, value)
        t += one
    infinite = (top == each(out, math.inf, count)) | (top == each(out, -math.inf, count))
    top = choose(infinite, each(out, 0, count), top)  # inf - inf would be NaN
    total = each(out, 0, count)
    t = 0
    end = at_most(length, 8)
    while True:
        part = each(out, 0, count)
        while t < end:
            part += exp(load(x, item_at(columns, t), count, out) - top)
            t += one
        total += part
        if end == length:
            break
        if end & 63 == 0:
            add_block(blocks, total, end == 64)
            total = each(out, 0, count)
        end = at_most(end + 8, length)
    if length > 64:
        total = rounded(blocks, total)
    store(out, place, top + log(total))


@compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    logs, at = pointer(out), pointer(at)
    given = pointer(x), logs, room(logs)
    for u in range(lo, hi):
        i, columns = columns_of(at, u, width)
        k = 0
        while k < width and columns.length == 0:
            store(logs, i * width + k, each(logs, -math.inf, 1))
            k += 1
        logsumexp(given, columns, i * width, k, width)


def cuda(x: Array, out: Array, at: Layout, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    parts = natural(gpu.shared.array(128, x.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < at.cum.size - 1:
        i, first, length = locate(at, u)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            top, total = column_powers(x, parts, place, k, columns)
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = top + ln(total)
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
            top, total = powers_of(x, columns, 0, 1)
            out[i * width + k] = top + ln(total)
            k += columns_of_grid()
        u += units_of_grid()


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "sequences", alike(FLOATS, 2), short=short, fours=True)
