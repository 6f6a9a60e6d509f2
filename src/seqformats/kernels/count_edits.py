"""How many items must be inserted, deleted or replaced to make one sequence of another?

``x`` and ``y`` are integers, n sequences each, in layouts of blocks; ``out (n,)`` gets the distances.  The pairs
``begins[b]`` to ``begins[b + 1]`` are the work of unit b, which has ``scratch[b * room:]`` to itself: 256 tokens, as
many masks, and a number for each item of the longest sequence.  Tokens below `least` are equal to nothing.

The table of distances goes strip by strip: the 64 differences between neighbours down a strip are two words of bits,
and a column is a few operations on them.  What the lower edge of a strip rises or falls from column to column is kept
for the next one.  Which items of a strip are equal to a token, a mask, a small hash table says.  Myers (1999), "A fast
bit-vector algorithm for approximate string matching based on dynamic programming", as Hyyrö (2003), "A bit-vector
algorithm for computing Levenshtein and Damerau edit distances", has it for the distance of whole sequences.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from .parts import (
    CALCULATES,
    Array,
    Integers,
    KernelSpec,
    Layout,
    at_most,
    compiled,
    locate,
    pointer,
    shared,
)
from .parts.edits import Part, fill_table, next_column, place_in_table, trimmed, trimmed_behind

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@shared
def edits(down: Part, along: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two parts, of which the first lies down the strips."""
    m, n = down.length, along.length
    found = m if m != 0 else n
    top = 0
    while top < m:
        count = at_most(m - top, 64)
        slots = fill_table(scratch, home, Part(down.items, down.begin + top, count), least)
        edge = home + 512
        rising, falling = np.int64(-1), np.int64(0)  # from each item of the strip to the next one, in this column
        for t in range(n):
            above = 1 if top == 0 else scratch[edge + t]  # what the row above the strip rises with this column
            equal = scratch[place_in_table(scratch, home, slots, along.items[along.begin + t]) + 256]
            rising, falling, below = next_column(equal, rising, falling, above, count)
            if top + count == m:
                found += below
            else:
                scratch[edge + t] = below
        top += 64
    return found


@shared
def distance(one: Part, two: Part, scratch: Integers, home: int, least: int) -> Any:
    """The distance of two sequences: what they begin and end with in common costs nothing."""
    t = trimmed(one, two, least)
    one = Part(one.items, one.begin + t, one.length - t)
    two = Part(two.items, two.begin + t, two.length - t)
    t = trimmed_behind(one, two, least)
    m, n = one.length - t, two.length - t
    swapped = ((m + 63) >> 6) * n > ((n + 63) >> 6) * m  # the fewer columns of strips
    down = Part(two.items, two.begin, n) if swapped else Part(one.items, one.begin, m)
    along = Part(one.items, one.begin, m) if swapped else Part(two.items, two.begin, n)
    return edits(down, along, scratch, home, least)


@compiled
def cpu(
    x: Array,
    y: Array,
    out: Integers,
    scratch: Integers,
    at_x: Layout,
    at_y: Layout,
    begins: Integers,
    room: int,
    least: int,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    items, others, table = pointer(x), pointer(y), pointer(scratch)
    at_x, at_y = pointer(at_x), pointer(at_y)
    for i in range(begins[lo], begins[hi]):
        _, first, m = locate(at_x, i)
        _, second, n = locate(at_y, i)
        out[i] = distance(Part(items, first, m), Part(others, second, n), table, lo * room, least)


def cuda(
    x: Array,
    y: Array,
    out: Integers,
    scratch: Integers,
    at_x: Layout,
    at_y: Layout,
    begins: Integers,
    room: int,
    least: int,
    width: int,  # noqa: ARG001  every kernel that calculates has a width
) -> None:
    """All units, a thread each."""
    b = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while b < begins.size - 1:
        for i in range(begins[b], begins[b + 1]):
            _, first, m = locate(at_x, i)
            _, second, n = locate(at_y, i)
            out[i] = distance(Part(x, first, m), Part(y, second, n), scratch, b * room, least)
        b += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (("i4", "i4"), ("i8", "i8")), 1 << 20)
