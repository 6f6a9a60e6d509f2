"""Give every chunk that holds an item its row, divided by how many do: the gradient of the mean over chunks.

``x (rows * width,)`` are the sequences, `out` the chunks, in which padding is left as it is; see `fold_chunks` for the
other arguments.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Integers,
    KernelSpec,
    alike,
    at_most,
    columns_at_once,
    compiled,
    each,
    in_lanes,
    load,
    pointer,
    store,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, search


@in_lanes
def divided(x: Array, out: Array, place: int, to: int, divisor: float, count: int) -> None:
    """`count` numbers of ``x[place:]`` by `divisor` to ``out[to:]``."""
    store(out, to, load(x, place, count, x) / each(x, divisor, count))


@compiled
def cpu(
    x: Array,
    out: Array,
    cum: Integers,
    first: Integers,
    counts: Integers,
    shifts: Integers,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Runs `lo` to `hi`."""
    rows, chunks = pointer(x), pointer(out)
    for u in range(lo, hi):
        place, size, divisor = cum[u] * width, (cum[u + 1] - cum[u]) * width, float(counts[u])
        count = columns_at_once(size)
        for c in range(first[u], first[u] + counts[u]):
            to = place + shifts[c] * width
            k = 0
            while k < size:
                k = at_most(k, size - count)
                if count == 32:
                    divided(rows, chunks, place + k, to + k, divisor, 32)
                elif count == 4:
                    divided(rows, chunks, place + k, to + k, divisor, 4)
                else:
                    divided(rows, chunks, place + k, to + k, divisor, 1)
                k += count


def cuda(x: Array, out: Array, cum: Integers, first: Integers, counts: Integers, shifts: Integers, width: int) -> None:
    """All rows of `x`, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        u = search(cum, r)
        number = x.dtype.type(counts[u])  # an integer would divide in float64
        k = gpu.threadIdx.x
        while k < width:
            for c in range(first[u], first[u] + counts[u]):
                out[(r + shifts[c]) * width + k] = x[r * width + k] / number
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", alike(FLOATS, 2))
