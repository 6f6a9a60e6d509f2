"""Move the sequences of several parts to one sequence each, one after the other, or back.

Part k holds sequence i in the ``cum[k, i + 1] - cum[k, i]`` rows from ``bases[k] + begins[k, i] * units[k]`` on, an
address where `absolute` is 1, else a row; ``cum (parts * (n + 1),)`` and ``begins (parts * (n + 1),)`` are flat.  For
an item that is put into every sequence `units` is 0.  On the other side are rows without gaps, of which sequence i
begins with row ``offsets[i]``.
"""

from typing import Any

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(src: int, out: int, joined: p.Joined, row: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; `row` bytes a row.  With `absolute` 1 `src` is 0, else `out` has the parts."""
    bases, units, begins, cum, offsets, absolute = joined
    parts, n = bases.size, offsets.size - 1
    for i in range(lo, hi):
        place = offsets[i] * row
        for k in range(parts):
            u = k * (n + 1) + i
            size = (cum[u + 1] - cum[u]) * row
            begin = bases[k] + begins[u] * units[k]
            if absolute:
                p.will_read(bases[k] + begins[k * (n + 1) + p.at_most(i + 8, hi - 1)] * units[k])
                p.move_row(out, place, src, begin, size)
            else:
                p.move_row(out, begin * row, src, place, size)
            place += size


@p.shared
def place_in_part(
    bases: Integers, units: Integers, begins: Integers, cum: Integers, offsets: Integers, i: int, r: int, row: int
) -> Any:
    """Find where row r, of sequence i, lies in its part: an address with rows of `row` bytes, or which row.

    `row` is 1 for the latter.
    """
    t, u, k = p.part_of(cum, offsets, i, r)
    return bases[k] + begins[u] * units[k] + t * row


def cuda(src: Array | int, out: Array, joined: p.Joined, row: int) -> None:
    """All rows, a line of threads for four; `src` and `out` are machine words, `row` words a row."""
    bases, units, begins, cum, offsets, absolute = joined
    r, last = p.first_of_line(), offsets[offsets.size - 1] - 1
    if r <= last:
        r1, r2, r3 = p.at_most(r + 1, last), p.at_most(r + 2, last), p.at_most(r + 3, last)
        size = row * out.itemsize if absolute else 1
        i = p.search(offsets, r)
        a = place_in_part(bases, units, begins, cum, offsets, i, r, size)
        i = p.run_on(offsets, i, r1)
        b = place_in_part(bases, units, begins, cum, offsets, i, r1, size)
        i = p.run_on(offsets, i, r2)
        c = place_in_part(bases, units, begins, cum, offsets, i, r2, size)
        i = p.run_on(offsets, i, r3)
        d = place_in_part(bases, units, begins, cum, offsets, i, r3, size)
        whole = (r * row, r1 * row, r2 * row, r3 * row)
        if absolute:
            p.move_four(out, src, row, out.itemsize, whole, (a, b, c, d))
        else:
            p.move_four(out, src, row, 1, (a * row, b * row, c * row, d * row), whole)


KERNEL = p.KernelSpec(cpu, cuda, p.MOVES, "lines")
