"""Take the items of every sequence in the order that `merge_runs` has found, or their places.

`x` holds the sequences as `at` says, in blocks, and `ids` their places in order, one sequence after the other.  `to`,
in blocks too, says where the results go, in the lengths that it has the first of them are left: the items to `values`
and their places to `out`, with `wanted` 1 the items alone, with 2 the places alone.
"""

from typing import TYPE_CHECKING, Any

from .parts import (
    CALCULATES,
    SIGNED,
    Array,
    Integers,
    KernelSpec,
    Layout,
    alike,
    compiled,
    locate,
    put_ordered,
    shared,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import first_of_line, four_rows, word_of_line


@compiled
def cpu(
    x: Array,
    ids: Integers,
    values: Array,
    out: Integers,
    at: Layout,
    to: Layout,
    wanted: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        _, first, _ = locate(at, i)
        _, begin, most = locate(to, i)
        for t in range(most):
            for k in range(width):
                place = ids[(at.cum[i] + t) * width + k]
                put_ordered(values, out, (begin + t) * width + k, x[(first + place) * width + k], place, wanted)


@shared
def place_of(ids: Integers, at: Layout, i: int, t: int, k: int, width: int) -> Any:
    """The place of what comes t-th in column k of sequence i."""
    return ids[(at.cum[i] + t) * width + k]


def cuda(
    x: Array, ids: Integers, values: Array, out: Integers, at: Layout, to: Layout, wanted: int, width: int
) -> None:
    """All rows of the results, a line of threads for four."""
    r, k = first_of_line(), word_of_line()
    if r < to.cum[to.cum.size - 1] and k < width:
        (i0, t0, d0), (i1, t1, d1), (i2, t2, d2), (i3, t3, d3) = four_rows(to, r)
        p, q = place_of(ids, at, i0, t0, k, width), place_of(ids, at, i1, t1, k, width)
        s, u = place_of(ids, at, i2, t2, k, width), place_of(ids, at, i3, t3, k, width)
        a = x[(locate(at, i0)[1] + p) * width + k]
        b = x[(locate(at, i1)[1] + q) * width + k]
        c = x[(locate(at, i2)[1] + s) * width + k]
        d = x[(locate(at, i3)[1] + u) * width + k]
        put_ordered(values, out, d0 * width + k, a, p, wanted)
        put_ordered(values, out, d1 * width + k, b, q, wanted)
        put_ordered(values, out, d2 * width + k, c, s, wanted)
        put_ordered(values, out, d3 * width + k, d, u, wanted)


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "lines", alike((*SIGNED, "u1", "u2", "u4"), 2))
