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

from typing import TYPE_CHECKING, Any, NamedTuple

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

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


class Part(NamedTuple):
    """Some items one after the other."""

    items: Array
    begin: int
    length: int


@shared
def place_in_table(scratch: Integers, home: int, slots: int, token: int) -> Any:
    """Where a token stands in the table, or the free place for it; its mask is 256 further, 0 where the place is free.

    The number of slots is a power of two, and three of four at least are free, so that the first look mostly ends it.
    """
    value = np.int64(token)
    s = (((value ^ (value >> 31)) & 0x7FFFFFFF) * 0x9E3779B1 >> 22) & (slots - 1)
    while scratch[home + 256 + s] != 0 and scratch[home + s] != value:
        s = (s + 1) & (slots - 1)
    return home + s


@shared
def fill_table(scratch: Integers, home: int, strip: Part, least: int) -> int:
    """Enter the items of a strip, up to 64; the number of slots."""
    slots = 2
    while slots < 4 * strip.length:
        slots <<= 1
    for s in range(slots):
        scratch[home + 256 + s] = 0
    bit = np.int64(1)
    for k in range(strip.length):
        token = strip.items[strip.begin + k]
        if token >= least:
            place = place_in_table(scratch, home, slots, token)
            scratch[place] = token
            scratch[place + 256] |= bit
        bit = bit << 1
    return slots


@shared
def trimmed(one: Part, two: Part, least: int) -> int:
    """With how many equal items two parts begin."""
    most, t = at_most(one.length, two.length), 0
    while t < most and one.items[one.begin + t] == two.items[two.begin + t] and one.items[one.begin + t] >= least:
        t += 1
    return t


@shared
def trimmed_behind(one: Part, two: Part, least: int) -> int:
    """With how many equal items two parts end."""
    most, t = at_most(one.length, two.length), 0
    p, q = one.begin + one.length - 1, two.begin + two.length - 1
    while t < most and one.items[p - t] == two.items[q - t] and one.items[p - t] >= least:
        t += 1
    return t


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
            kept = equal | falling
            equal |= (above >> 1) & 1
            diagonal = (((equal & rising) + rising) ^ rising) | equal
            more = falling | ~(diagonal | rising)  # where a row rises from the last column to this one
            less = rising & diagonal
            below = ((more >> (count - 1)) & 1) - ((less >> (count - 1)) & 1)
            more = more << 1 | (above + 1) >> 1
            less = less << 1 | ((above >> 1) & 1)
            rising = less | ~(kept | more)
            falling = more & kept
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
