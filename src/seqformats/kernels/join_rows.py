"""Move the sequences of several parts to one sequence each, one after the other, or back.

Part k holds sequence i in the ``cum[k, i + 1] - cum[k, i]`` rows from ``bases[k] + begins[k, i] * units[k]`` on, an
address where `absolute` is 1, else a row; ``cum (parts * (n + 1),)`` and ``begins (parts * (n + 1),)`` are flat.  For
an item that is put into every sequence `units` is 0.  On the other side are rows without gaps, of which sequence i
begins with row ``offsets[i]``.
"""

from typing import TYPE_CHECKING

from .parts import (
    MOVES,
    Array,
    Integers,
    KernelSpec,
    at_most,
    compiled,
    move_row,
    will_read,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, move_word, search


@compiled
def cpu(
    src: int,
    out: int,
    bases: Integers,
    units: Integers,
    begins: Integers,
    cum: Integers,
    offsets: Integers,
    absolute: int,
    row: int,
    lo: int,
    hi: int,
) -> None:
    """Sequences `lo` to `hi`; `row` bytes a row.  With `absolute` 1 `src` is 0, else `out` has the parts."""
    parts, n = bases.size, offsets.size - 1
    for i in range(lo, hi):
        place = offsets[i] * row
        for k in range(parts):
            u = k * (n + 1) + i
            size = (cum[u + 1] - cum[u]) * row
            begin = bases[k] + begins[u] * units[k]
            if absolute:
                will_read(bases[k] + begins[k * (n + 1) + at_most(i + 8, hi - 1)] * units[k])
                move_row(out, place, src, begin, size)
            else:
                move_row(out, begin * row, src, place, size)
            place += size


def cuda(
    src: Array | int,
    out: Array,
    bases: Integers,
    units: Integers,
    begins: Integers,
    cum: Integers,
    offsets: Integers,
    absolute: int,
    row: int,
) -> None:
    """All rows, a line of threads each; `src` and `out` are machine words, `row` words a row."""
    n = offsets.size - 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < offsets[n]:
        i = search(offsets, r)
        t = r - offsets[i]
        u = i
        k = 0
        while t >= cum[u + 1] - cum[u]:
            t -= cum[u + 1] - cum[u]
            u += n + 1
            k += 1
        begin = bases[k] + begins[u] * units[k]
        w = gpu.threadIdx.x
        while w < row:
            if absolute:
                move_word(out, r * row + w, src, begin + (t * row + w) * out.itemsize)
            else:
                move_word(out, (begin + t) * row + w, src, r * row + w)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, MOVES, "rows")
