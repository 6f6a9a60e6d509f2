"""A product of matrices, ``out[r, c] = sum(a[r, k] * b[k, c] for k)``, in blocks that fit into caches.

`sizes` are down, along, across, gap, high, deep and share.  The number (r, k) of `a` is at ``r * down + k * along``,
one of which is 1, (k, c) of `b` at ``k * across + c``, and (r, c) of `out` at ``r * gap + c``.  `a` has `high` rows and
`deep` columns; `width` are the columns of `b`.  Unit u does `share` rows, a multiple of 8, from ``u * share`` on.
Where `along` is not 1, the sums of the rows of `a` are written to `sums` ``(high,)``, with 8 spare numbers behind them.

`x` is memory of its own, 164,096 numbers a unit: blocks of `b` of 256 rows and 512 columns by panels of 32, blocks of
`a` of 128 rows, and a tile.  Each number is added up in the order of k, so it does not depend on the other rows.

K. Goto and R. van de Geijn, Anatomy of high-performance matrix multiplication, 2008.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(a: Array, b: Array, out: Array, sums: Array, x: Array, sizes: Integers, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    down, along, across, gap = sizes[0], sizes[1], sizes[2], sizes[3]
    high, deep, share = sizes[4], sizes[5], sizes[6]
    a, b, out, sums, x = p.pointer(a), p.pointer(b), p.pointer(out), p.pointer(sums), p.pointer(x)
    for u in range(lo, hi):
        panels = u * (256 * 512 + 128 * 256 + 256)
        rows = panels + 256 * 512
        tile = rows + 128 * 256
        first, last = u * share, p.at_most((u + 1) * share, high)
        left = 0
        while left < width:
            right = p.at_most(left + 512, width)
            top = 0
            while top < deep or top == 0:
                size = p.at_most(deep - top, 256)
                for k in range(size):
                    c = left
                    while c < right:
                        some = p.at_most(right - c, 32)
                        p.pack_row(b, (top + k) * across + c, some, x, panels + (c - left) * 256 + k * 32, 32, 1)
                        c += 32
                begin = first
                while begin < last:
                    end = p.at_most(begin + 128, last)
                    if along == 1:
                        for r in range(begin, end):
                            p.pack_row(a, r * down + top, size, x, rows + (r - begin) * 256, size, 1)
                    else:
                        for r in range(begin, end, 8):
                            some, total = end - r, p.each(x, 0, 8)
                            for k in range(size):
                                place = rows + (r - begin) * 256 + k * 8
                                if some >= 8:
                                    p.store(x, place, p.load(a, (top + k) * along + r, 8, x))
                                else:
                                    p.pack_row(a, (top + k) * along + r, some, x, place, 8, 1)
                                total = total + p.load(x, place, 8, x)
                            if top > 0:
                                total = total + p.load(sums, r, 8, x)
                            if left == 0:
                                p.store(sums, r, total)
                    c = left
                    while c < right:
                        some = p.at_most(right - c, 32)
                        panel = panels + (c - left) * 256
                        r = begin
                        while r < end:
                            these = rows + (r - begin) * 256
                            if along == 1:
                                p.multiply(x, p.Product(tile, 32, these, 256, 1, panel, 32, size, 0), 32)
                            else:
                                p.multiply(x, p.Product(tile, 32, these, 1, 8, panel, 32, size, 0), 32)
                            for k in range(p.at_most(end - r, 8)):
                                place = (r + k) * gap + c
                                if top == 0:
                                    p.give_row(x, tile + 32 * k, out, place, some)
                                else:
                                    p.add_row(x, tile + 32 * k, out, place, some, 1)
                            r += 8
                        c += 32
                    begin = end
                top += 256
            left = right


KERNEL = p.KernelSpec(cpu, takes=(("f4",) * 5, ("f8",) * 5))
