"""The best candidates of each beam, from the lists of its rows that `best_tokens` has made.

`lists` has a list for each row, `wanted` says which rows a beam has and how many candidates it asks for.  All results
are in one array, so that one copy brings them to the host: ``out (beams * (2 * places + 1),)`` float64 holds, one after
the other, values and ids, ``beams * places`` each, and the counts.  A beam with a bad row r has the count ``-1 - r``.
"""

from typing import TYPE_CHECKING

from ..beam.rows import Lists, Wanted
from .parts import CALCULATES, Array, KernelSpec, compiled, in_order, keep

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@compiled
def cpu(lists: Lists, out: Array, wanted: Wanted, places: int, lo: int, hi: int) -> None:
    """Beams `lo` to `hi`."""
    values, ids, counts, row_places = lists
    begin, end, most = wanted
    size = begin.size * places
    best, names = out[:size], out[size : 2 * size]
    for b in range(lo, hi):
        found = 0
        for r in range(begin[b], end[b]):
            if counts[r] < 0:
                found = -1 - r
                break
            for j in range(r * row_places, r * row_places + counts[r]):
                found = keep(best, names, b * places, found, most[b], values[j], ids[j])
        in_order(best, names, b * places, found, most[b])
        out[2 * size + b] = found


def cuda(lists: Lists, out: Array, wanted: Wanted, places: int) -> None:
    """All beams, a block each.  A candidate's place is the number of better ones, which each list tells by halving."""
    values, ids, counts, row_places = lists
    begin, end, most = wanted
    size = begin.size * places
    b = gpu.blockIdx.x
    while b < begin.size:
        first = begin[b]
        last = end[b]
        bad = last
        total = 0
        for r in range(first, last):
            if counts[r] < 0:
                bad = min(bad, r)
            else:
                total += counts[r]
        j = first * row_places + gpu.threadIdx.x
        while bad == last and j < last * row_places:
            own = j // row_places
            rank = j - own * row_places
            if rank < counts[own]:
                value = values[j]
                for r in range(first, last):
                    if r != own:
                        low = r * row_places
                        high = low + counts[r]
                        while low < high:
                            middle = (low + high) >> 1
                            if values[middle] > value or (values[middle] == value and r < own):
                                low = middle + 1
                            else:
                                high = middle
                        rank += low - r * row_places
                if rank < most[b]:
                    out[b * places + rank] = value
                    out[size + b * places + rank] = ids[j]
            j += gpu.blockDim.x
        if gpu.threadIdx.x == 0:
            out[2 * size + b] = min(total, most[b]) if bad == last else -1 - bad
        b += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", (("f4", "f8"),))
