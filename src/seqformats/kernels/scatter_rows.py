"""Add updates to chosen places: row r of sequence i goes to place ``index[r]`` of row i.

``x (rows * width,)`` are the updates, ``index (rows,)`` their places, from 0 to ``room - 1``;
``out (n * room * width,)``; sequence i has the rows ``cum[i]`` to ``cum[i + 1]``.  Where these are more than 16, they
are added to ``sums (n * room * width,)`` and rounded at the end, so that a float64 there keeps what float32 would lose;
nobody else has a place in `sums`, so it may be of any size where no sequence has so many.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(
    x: Array, index: Integers, out: Array, sums: Array, cum: Integers, room: int, width: int, lo: int, hi: int
) -> None:
    """Sequences `lo` to `hi`, updates in their order."""
    size = room * width
    for i in range(lo, hi):
        many = cum[i + 1] - cum[i] > 16
        row = out[i * size : (i + 1) * size]
        for r in range(cum[i], cum[i] if many else cum[i + 1]):
            d = index[r] * width
            total = row[d : d + width]
            part = x[r * width : (r + 1) * width]
            for k in range(part.size):
                total[k] += part[k]
        if many:
            exact = sums[i * size : (i + 1) * size]
            for k in range(row.size):
                exact[k] = row[k]
            for r in range(cum[i], cum[i + 1]):
                d = index[r] * width
                precise = exact[d : d + width]
                part = x[r * width : (r + 1) * width]
                for k in range(part.size):
                    precise[k] += part[k]
            for k in range(row.size):
                row[k] = exact[k]


def cuda(x: Array, index: Integers, out: Array, sums: Array, cum: Integers, room: int, width: int) -> None:
    """All sequences, a thread a column of each, so that updates are added in their order."""
    for i in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        k = p.first_column()
        first = i * room * width
        while k < width:
            if cum[i + 1] - cum[i] > 16:
                for q in range(room):
                    sums[first + q * width + k] = out[first + q * width + k]
                for r in range(cum[i], cum[i + 1]):
                    sums[first + index[r] * width + k] += x[r * width + k]
                for q in range(room):
                    out[first + q * width + k] = sums[first + q * width + k]
            else:
                for r in range(cum[i], cum[i + 1]):
                    out[first + index[r] * width + k] += x[r * width + k]
            k += p.columns_of_grid()


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("f4", "f4", "f8"), *p.alike(p.NUMBERS[1:], 3)))
