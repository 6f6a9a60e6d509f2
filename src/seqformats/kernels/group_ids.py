"""Which bags name each row of a table: the ids of bags, transposed, in the order of the rows, equal ids in their own.

``ids (m,)`` are from 0 to `height` - 1, those of bag i are ``ids[cum[i]:cum[i + 1]]``.  `table`, of ``6 * m + 2049``
numbers, gets the rows that are named, rising; behind the first m numbers where the ids of each begin, and the end; m
further for each id, row by row, its bag, and again m further its place among `ids`.  The rest is workspace.  Returns
how many rows are named, or -1 if an id is no row.

A radix sort by digits of 11 bits, of 8 where ids are few, of words that have an id above its place (Knuth, "The Art of
Computer Programming", 5.2.5).
"""

import numpy as np

from . import parts as p
from .parts import Integers


@p.compiled
def cpu(ids: Integers, cum: Integers, height: int, table: Integers) -> int:
    """Return the number of rows that are named, or -1."""
    m, n = ids.size, cum.size - 1
    table, ids, cum = p.pointer(table), p.pointer(ids), p.pointer(cum)
    source, target, bag_of, counts = 3 * m + 1, 4 * m + 1, 5 * m + 1, 6 * m + 1
    shift, digit = 0, 11 if m > 2048 else 8
    while m >> shift != 0:
        shift += 1
    for i in range(n):
        for q in range(cum[i], cum[i + 1]):
            if np.uint64(ids[q]) >= np.uint64(height):
                return -1
            table[bag_of + q] = i
            table[source + q] = ids[q] << shift | q
    low = shift
    while (height - 1) >> (low - shift) != 0:
        for d in range(1 << digit):
            table[counts + d] = 0
        mask = (1 << digit) - 1
        for q in range(m):
            table[counts + (table[source + q] >> low & mask)] += 1
        total = 0
        for d in range(1 << digit):
            count = table[counts + d]
            table[counts + d] = total
            total += count
        for q in range(m):
            word = table[source + q]
            place = counts + (word >> low & mask)
            table[target + table[place]] = word
            table[place] += 1
        source, target = target, source
        low += digit
    named, last = 0, -1
    for k in range(m):
        word = table[source + k]
        row, q = word >> shift, word & ((1 << shift) - 1)
        if row != last:
            table[named] = row
            table[m + named] = k
            named += 1
            last = row
        table[2 * m + 1 + k] = table[bag_of + q]
        table[3 * m + 1 + k] = q
    table[m + named] = m
    return named


KERNEL = p.KernelSpec(cpu)
