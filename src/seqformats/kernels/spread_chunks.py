"""Give every chunk that holds an item its row, divided by how many do: the gradient of the mean over chunks.

``x (rows * width,)`` are the sequences, `out` the chunks, in which padding is left as it is; see `fold_chunks` for the
other arguments.
"""

from typing import Any

from . import parts as p
from .parts import Array, Columns
from .parts.names import gpu


@p.by_columns()
def divide(given: Any, columns: Columns, place: int, count: int) -> None:
    """`count` numbers of ``x[place:]`` by `divisor` to where these columns begin."""
    x, out, divisor = given
    p.store(out, columns.begin, p.load(x, place, count, x) / p.each(x, divisor, count))


@p.compiled
def cpu(x: Array, out: Array, chunks: p.Chunks, width: int, lo: int, hi: int) -> None:
    """Runs `lo` to `hi`."""
    cum, first, counts, shifts = chunks
    rows, to, steps = p.pointer(x), p.pointer(out), p.pointer(cum)
    for u in range(lo, hi):
        place, size, divisor = cum[u] * width, (cum[u + 1] - cum[u]) * width, float(counts[u])
        for c in range(first[u], first[u] + counts[u]):
            columns = Columns(place + shifts[c] * width, 1, width, steps, 1)
            divide((rows, to, divisor), columns, place, 0, size)


def cuda(x: Array, out: Array, chunks: p.Chunks, width: int) -> None:
    """All rows of `x`, a line of threads each."""
    cum, first, counts, shifts = chunks
    for r in range(p.first_unit(), cum[cum.size - 1], p.units_of_grid()):
        u = p.search(cum, r)
        number = x.dtype.type(counts[u])  # an integer would divide in float64
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            for c in range(first[u], first[u] + counts[u]):
                out[(r + shifts[c]) * width + k] = x[r * width + k] / number


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 2))
