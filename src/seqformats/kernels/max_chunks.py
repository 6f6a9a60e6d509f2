"""The largest of what several chunks have for every item of the sequences that they are of, column by column.

See `fold_chunks` for the arguments.  With `keep` 1 ``rows (rows * width,)`` gets the row of the chunks that each is
from, the first of equal ones, -1 where there is none; it may be of any size without.  NaN is beyond every number; an
item that no chunk holds is zero.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns, Integers
from .parts.names import gpu


@p.by_columns()
def largest(given: Any, columns: Columns, place: int, count: int) -> None:
    """The largest items of `count` columns to ``out[place:]``."""
    x, out = given
    best, length, one = p.load(x, p.item_at(columns, 0), count, x), columns.length, p.unknown(1)
    t = one
    while t < length:
        best = p.larger(best, p.load(x, p.item_at(columns, t), count, x))
        t += one
    p.store(out, place, best)


@p.compiled
def cpu(x: Array, out: Array, rows: Integers, chunks: p.Chunks, keep: int, width: int, lo: int, hi: int) -> None:
    """Runs `lo` to `hi`: of each every number is a column, and every chunk a row."""
    cum, first, counts, shifts = chunks
    given = p.pointer(x), p.pointer(out)
    for u in range(lo, hi):
        place, size, many = cum[u] * width, (cum[u + 1] - cum[u]) * width, counts[u]
        steps = p.pointer(shifts[first[u] : first[u] + many])
        if many == 0:
            p.clear(out, place, size * out.itemsize)
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


def cuda(x: Array, out: Array, rows: Integers, chunks: p.Chunks, keep: int, width: int) -> None:
    """All rows of `out`, a line of threads each."""
    cum, first, counts, shifts = chunks
    for r in range(p.first_unit(), cum[cum.size - 1], p.units_of_grid()):
        u = p.search(cum, r)
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            best = out.dtype.type(0)
            found = -1
            for c in range(first[u], first[u] + counts[u]):
                value = x[(r + shifts[c]) * width + k]
                if found < 0 or p.is_better(value, best, 0):
                    best = value
                    found = r + shifts[c]
            out[r * width + k] = best
            if keep:
                rows[r * width + k] = found


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.NUMBERS, 2))
