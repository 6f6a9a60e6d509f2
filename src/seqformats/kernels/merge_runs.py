"""Merge runs of keys in order, two and two: one pass of a merge sort, of all sequences at a time.

Every sequence, whose rows lie between two numbers of `cum`, is made of runs of `few` rows, the last of what is left.
Each key goes, with its number in `ids`, as far as it stands in its own run and in the other (Knuth, "The Art of
Computer Programming", 5.2.4); of equal keys those on the left come first.
"""

from typing import TYPE_CHECKING

from .parts import CALCULATES, Array, Integers, KernelSpec, alike, at_most, compiled, merged

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import first_of_line, run_on, word_of_line
    from .parts.gpu import search


@compiled
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
                d = begin + merged(keys, begin, length, t, few, width) * width
                to_keys[d] = keys[s]
                to_ids[d] = ids[s]


def cuda(keys: Array, ids: Array, to_keys: Array, to_ids: Array, cum: Integers, few: int, width: int) -> None:
    """All rows, a line of threads for four."""
    r, k = first_of_line(), word_of_line()
    rows = cum[cum.size - 1]
    if r < rows and k < width:
        i = search(cum, r)
        for row in range(r, at_most(r + 4, rows)):
            i = run_on(cum, i, row)
            begin = cum[i] * width + k
            d = begin + merged(keys, begin, cum[i + 1] - cum[i], row - cum[i], few, width) * width
            to_keys[d] = keys[row * width + k]
            to_ids[d] = ids[row * width + k]


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "lines", alike(("i8",), 4))
