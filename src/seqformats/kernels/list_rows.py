"""Nested Python lists of numbers, a level at a time, by the public C functions that make lists, floats and ints.

A list of all numbers first and slices of it after, as Python would do, goes over every number three times.
"""

from .parts import (
    Array,
    Integers,
    KernelSpec,
    compiled_with_gil,
    give,
    give_room,
)


@compiled_with_gil
def cpu(parents: Integers, cum: Integers, offsets: Integers, x: Array, made: Integers, inside: int) -> int:
    """Put a list of ``offsets[r + 1] - offsets[r]`` items in place ``r - cum[p]`` of each list p, r from ``cum[p]``.

    ``parents`` are the addresses of the lists p, which have ``cum[p + 1] - cum[p]`` items.  The new lists are those of
    ``x[offsets[r]:offsets[r + 1]]``, float64 or int64; or where there is room for their addresses in `made`, they are
    to be filled.  `inside` is where a list object keeps the address of its items.  The result is how many were made:
    fewer than all mean that there was no memory.
    """
    for p in range(parents.size):
        for r in range(cum[p], cum[p + 1]):
            if made.size:
                made[r] = give_room(parents[p], r - cum[p], offsets[r + 1] - offsets[r])
                if made[r] == 0:
                    return r
            elif not give(parents[p], r - cum[p], x, offsets[r], offsets[r + 1], inside):
                return r
    return int(offsets.size - 1)


KERNEL = KernelSpec(cpu, takes=(("f8",), ("i8",)))
