"""Merge runs of keys in order, two and two: one pass of a merge sort, of all sequences at a time.

Every sequence, whose rows lie between two numbers of `cum`, is made of runs of `few` rows, the last of what is left.
Each key goes, with its number in `ids`, as far as it stands in its own run and in the other (Knuth, "The Art of
Computer Programming", 5.2.4); of equal keys those on the left come first.
"""

from . import parts as p
from .parts import Array, Integers


@p.compiled
def cpu(
    keys: Array,
    ids: Array,
    to_keys: Array,
    to_ids: Array,
    cum: Integers,
    few: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        length = cum[i + 1] - cum[i]
        for k in range(width):
            begin = cum[i] * width + k
            for t in range(length):
                s = begin + t * width
                d = begin + p.find_merged_row(keys, begin, length, t, few, width) * width
                to_keys[d] = keys[s]
                to_ids[d] = ids[s]


def cuda(keys: Array, ids: Array, to_keys: Array, to_ids: Array, cum: Integers, few: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = p.first_of_line(), p.word_of_line()
    rows = cum[cum.size - 1]
    if r < rows and k < width:
        i = p.search(cum, r)
        for row in range(r, p.at_most(r + 4, rows)):
            i = p.run_on(cum, i, row)
            begin = cum[i] * width + k
            d = begin + p.find_merged_row(keys, begin, cum[i + 1] - cum[i], row - cum[i], few, width) * width
            to_keys[d] = keys[row * width + k]
            to_ids[d] = ids[row * width + k]


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "lines", p.alike(("i8",), 4))
