"""Give every item its key and its place in its sequence, which `merge_runs` puts in order.

`x` holds the sequences as `at` says; `keys` and `ids` have the rows of all one after the other.  `bits`, `least` and
`order` are those of `order_rows`.
"""

from typing import NamedTuple

from . import parts as p
from .parts import Array, Columns, Integers, Layout


class Rule(NamedTuple):
    """Rule by which items become keys."""

    bits: int
    least: int
    order: int


@p.compiled
def cpu(x: Array, keys: Integers, ids: Integers, at: Layout, rule: Rule, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    bits, least, order = rule
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for k in range(width):
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            for t in range(length):
                d = (at.cum[i] + t) * width + k
                keys[d] = p.key_of(x[p.item_at(columns, t)], bits, least, order)
                ids[d] = t


@p.shared
def put(keys: Integers, ids: Integers, d: int, key: int, t: int) -> None:
    """A key and a place to where those of a row begin."""
    keys[d] = key
    ids[d] = t


def cuda(x: Array, keys: Integers, ids: Integers, at: Layout, rule: Rule, width: int) -> None:
    """All rows, a line of threads for four."""
    bits, least, order = rule
    r, k = p.first_of_line(), p.word_of_line()
    if r < at.cum[at.cum.size - 1] and k < width:
        (i0, t0, p0), (i1, t1, p1), (i2, t2, p2), (i3, t3, p3) = p.four_rows(at, r)
        a, b = x[p0 * width + k], x[p1 * width + k]
        c, d = x[p2 * width + k], x[p3 * width + k]
        put(keys, ids, (at.cum[i0] + t0) * width + k, p.key_of(a, bits, least, order), t0)
        put(keys, ids, (at.cum[i1] + t1) * width + k, p.key_of(b, bits, least, order), t1)
        put(keys, ids, (at.cum[i2] + t2) * width + k, p.key_of(c, bits, least, order), t2)
        put(keys, ids, (at.cum[i3] + t3) * width + k, p.key_of(d, bits, least, order), t3)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "lines", p.alike((*p.SIGNED, "u1", "u2", "u4"), 1))
