"""Add up the chunks of every sequence, which `sum_chunks` has summed, to what `sum_rows` makes of the rows.

``x (rows * width,)`` are the sums of the chunks, ``cum (n + 1,)`` the rows before each sequence, ``out (n * width,)``.
`mode`: 0 the sum, 1 the mean, 2 divided by the square root of the length.
"""

import math
from typing import TYPE_CHECKING

from .parts import CALCULATES, SUMS, Array, Integers, KernelSpec, compiled

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column, put_total
    from .parts.gpu import gpu, natural


@compiled
def cpu(x: Array, out: Array, cum: Integers, mode: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        length, first = cum[i + 1] - cum[i], (cum[i] >> 10) + i
        for k in range(width):
            total = x.dtype.type(0)
            for row in range(first, first + ((length + 1023) >> 10)):
                total += x[row * width + k]
            place = i * width + k
            out[place] = total
            if mode != 0 and length != 0:
                out[place] = out[place] / out.dtype.type(length if mode == 1 else math.sqrt(length))


def cuda(x: Array, out: Array, cum: Integers, mode: int, width: int) -> None:
    """All sequences, a thread a column of each; four chunks are on their way at a time."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < cum.size - 1:
        length, first = cum[i + 1] - cum[i], (cum[i] >> 10) + i
        chunks = (length + 1023) >> 10
        k = first_column()
        while k < width:
            total = x.dtype.type(0)
            place, end = first * width + k, (first + chunks) * width
            while place + 3 * width < end:
                a, b = x[natural(place)], x[natural(place + width)]
                c, d = x[natural(place + 2 * width)], x[natural(place + 3 * width)]
                total += a
                total += b
                total += c
                total += d
                place += 4 * width
            while place < end:
                total += x[natural(place)]
                place += width
            put_total(out, i * width + k, total, length, mode)
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


_IN_WIDE = tuple(("f8" if kind[0] == "f" else to, to) for kind, to in SUMS)
KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", tuple(dict.fromkeys((*_IN_WIDE, ("f8", "f8")))))
