"""Take the items of every sequence in the order that `merge_runs` has found, or their places.

`x` holds the sequences as `at` says, in blocks, and `ids` their places in order, one sequence after the other.  `to`,
in blocks too, says where the results go, in the lengths that it has the first of them are left: the items to `values`
and their places to `out`, with `wanted` 1 the items alone, with 2 the places alone.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Integers, Layout


class Given(NamedTuple):
    """The items, and their places in order."""

    x: Array
    ids: Integers


class Made(NamedTuple):
    """Items and places in order."""

    values: Array
    out: Integers


@p.compiled
def cpu(given: Given, made: Made, at: Layout, to: Layout, wanted: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    x, ids = given
    values, out = made
    for i in range(lo, hi):
        _, first, _ = p.locate(at, i)
        _, begin, most = p.locate(to, i)
        for t in range(most):
            for k in range(width):
                place = ids[(at.cum[i] + t) * width + k]
                p.put_ordered(values, out, (begin + t) * width + k, x[(first + place) * width + k], place, wanted)


@p.shared
def place_of(ids: Integers, at: Layout, i: int, t: int, k: int, width: int) -> Any:
    """The place of what comes t-th in column k of sequence i."""
    return ids[(at.cum[i] + t) * width + k]


def cuda(given: Given, made: Made, at: Layout, to: Layout, wanted: int, width: int) -> None:
    """All rows of the results, a line of threads for four."""
    x, ids = given
    values, out = made
    r, k = p.first_of_line(), p.word_of_line()
    if r < to.cum[to.cum.size - 1] and k < width:
        (i0, t0, d0), (i1, t1, d1), (i2, t2, d2), (i3, t3, d3) = p.four_rows(to, r)
        spot, q = place_of(ids, at, i0, t0, k, width), place_of(ids, at, i1, t1, k, width)
        s, u = place_of(ids, at, i2, t2, k, width), place_of(ids, at, i3, t3, k, width)
        a = x[(p.locate(at, i0)[1] + spot) * width + k]
        b = x[(p.locate(at, i1)[1] + q) * width + k]
        c = x[(p.locate(at, i2)[1] + s) * width + k]
        d = x[(p.locate(at, i3)[1] + u) * width + k]
        p.put_ordered(values, out, d0 * width + k, a, spot, wanted)
        p.put_ordered(values, out, d1 * width + k, b, q, wanted)
        p.put_ordered(values, out, d2 * width + k, c, s, wanted)
        p.put_ordered(values, out, d3 * width + k, d, u, wanted)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "lines", p.alike((*p.SIGNED, "u1", "u2", "u4"), 2))
