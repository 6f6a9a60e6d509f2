"""The largest of what several chunks have for every item of the sequences that they are of, column by column.

See `fold_chunks` for the arguments.  With `keep` 1 ``rows (rows * width,)`` gets the row of the chunks that each is
from, the first of equal ones, -1 where there is none; it may be of any size without.  NaN is beyond every number; an
item that no chunk holds is zero.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    NUMBERS,
    Array,
    Columns,
    Integers,
    KernelSpec,
    alike,
    beyond,
    by_columns,
    clear,
    compiled,
    item_at,
    larger,
    load,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, search


@by_columns()
def largest(given: Any, columns: Columns, place: int, count: int) -> None:
    """The largest items of `count` columns to ``out[place:]``."""
    x, out = given
    best, length, one = load(x, item_at(columns, 0), count, x), columns.length, unknown(1)
    t = one
    while t < length:
        best = larger(best, load(x, item_at(columns, t), count, x))
        t += one
    store(out, place, best)


@compiled
def cpu(
    x: Array,
    out: Array,
    rows: Integers,
    cum: Integers,
    first: Integers,
    counts: Integers,
    shifts: Integers,
    keep: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Runs `lo` to `hi`: of each every number is a column, and every chunk a row."""
    given = pointer(x), pointer(out)
    for u in range(lo, hi):
        place, size, many = cum[u] * width, (cum[u + 1] - cum[u]) * width, counts[u]
        steps = pointer(shifts[first[u] : first[u] + many])
        if many == 0:
            clear(out, place, size * out.itemsize)
        else:
            largest(given, Columns(place, many, width, steps, 0), place, 0, size)
        for r in range(cum[u], cum[u + 1] if keep else cum[u]):
            for d in range(r * width, (r + 1) * width):
                found = -1
                for c in range(first[u], first[u] + many):
                    value = x[d + shifts[c] * width]
                    if found < 0 and (value == out[d] or value != value):
                        found = r + shifts[c]
                rows[d] = found


def cuda(
    x: Array,
    out: Array,
    rows: Integers,
    cum: Integers,
    first: Integers,
    counts: Integers,
    shifts: Integers,
    keep: int,
    width: int,
) -> None:
    """All rows of `out`, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        u = search(cum, r)
        k = gpu.threadIdx.x
        while k < width:
            best = out.dtype.type(0)
            found = -1
            for c in range(first[u], first[u] + counts[u]):
                value = x[(r + shifts[c]) * width + k]
                if found < 0 or beyond(value, best, 0):
                    best = value
                    found = r + shifts[c]
            out[r * width + k] = best
            if keep:
                rows[r * width + k] = found
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", alike(NUMBERS, 2))
