"""The best of many candidates: few in their order, many in a heap that is sorted once (Williams 1964, "Heapsort").

A candidate is a value and a number; the better one has the larger value, or of the same the smaller number.  They must
come by rising numbers where their values are the same.
"""

import math
from typing import Any

import numpy as np

from .code import Item
from .common import put
from .options import shared
from .record import Array, Integers


@shared
def sink(values: Array, ids: Integers, begin: int, size: int, value: Item, id: int) -> None:
    """Put a candidate in the place of the first one of a heap, of which none is better than those below it."""
    i = 0
    j = 1
    while j < size:
        if j + 1 < size:
            a, b = begin + j, begin + j + 1
            j += values[b] < values[a] or (values[b] == values[a] and ids[b] > ids[a])
        a = begin + j
        if values[a] > value or (values[a] == value and ids[a] < id):
            break
        values[begin + i] = values[a]
        ids[begin + i] = ids[a]
        i = j
        j = 2 * i + 1
    values[begin + i] = value
    ids[begin + i] = id


@shared
def keep(values: Array, ids: Integers, begin: int, found: int, most: int, value: Item, id: int) -> int:
    """Add a candidate to the `most` best at `begin`, if it is good enough; how many there are.  See `put`."""
    if most <= 32:  # to move so few costs less than a heap, whose way random numbers mislead
        return put(values, ids, begin, found, most, value, id)
    if not value > -math.inf:
        return found
    if found == most:
        if value > values[begin]:
            sink(values, ids, begin, found, value, id)
        return found
    i = found
    while i > 0:
        a = begin + ((i - 1) >> 1)
        if values[a] < value or (values[a] == value and ids[a] > id):
            break
        values[begin + i] = values[a]
        ids[begin + i] = ids[a]
        i = (i - 1) >> 1
    values[begin + i] = value
    ids[begin + i] = id
    return found + 1


@shared
def least_kept(values: Array, begin: int, most: int) -> Item:
    """The value of the last of the `most` best, once they are so many."""
    return values[begin] if most > 32 else values[begin + most - 1]


@shared
def in_order(values: Array, ids: Integers, begin: int, found: int, most: int) -> None:
    """Sort what was kept, best first."""
    if most > 32:
        last = found - 1
        while last > 0:
            value, id = values[begin + last], ids[begin + last]
            values[begin + last] = values[begin]
            ids[begin + last] = ids[begin]
            sink(values, ids, begin, last, value, id)
            last -= 1


@shared
def merge(values: Array, ids: Integers, begin: int, found: int, second: int, more: int) -> None:
    """Bring a sorted list at `second` into the one at `begin`, behind which there is room for it."""
    while more > 0:
        last, a, b = begin + found + more - 1, begin + found - 1, second + more - 1
        if found > 0 and (values[a] < values[b] or (values[a] == values[b] and ids[a] > ids[b])):
            values[last] = values[a]
            ids[last] = ids[a]
            found -= 1
        else:
            values[last] = values[b]
            ids[last] = ids[b]
            more -= 1


@shared
def least_of_best(blocks: Array, lo: int, hi: int, values: Array, ids: Integers, start: int, limit: int) -> Any:
    """The `limit` best candidates are worth at least this: the same of what the best of each block are worth."""
    low = np.float32(-np.inf)
    if hi - lo < limit:
        return low
    if (hi - lo) * (hi - lo) <= 64 * limit:  # to compare all with all has no branch that random numbers mislead
        low = np.float32(np.inf)
        for i in range(lo, hi):
            larger = 0
            for j in range(lo, hi):
                larger += blocks[j] > blocks[i]
            low = min(low, blocks[i]) if larger < limit else low
        return low
    found = 0
    for i in range(lo, hi):
        if blocks[i] > low:
            found = keep(values, ids, start, found, limit, blocks[i], 0)
            low = least_kept(values, start, limit) if found == limit else np.float32(-np.inf)
    return low
