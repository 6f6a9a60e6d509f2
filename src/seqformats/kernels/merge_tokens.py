"""The best candidates of each beam, from the lists of its rows that `best_tokens` has made.

`lists` has a list for each row, `wanted` says which rows a beam has and how many candidates it asks for.  All results
are in one array, so that one copy brings them to the host: ``out (beams * (2 * places + 1),)`` float64 holds, one after
the other, values and ids, ``beams * places`` each, and the counts.  A beam with a bad row r has the count ``-1 - r``.
"""

from typing import TYPE_CHECKING

import numpy as np

from ..beam.rows import Lists, Wanted
from .parts import CALCULATES, Array, KernelSpec, compiled, in_order, keep, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, natural
    from .parts.keys import candidate_key, ranked


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


@shared
def put_best(out: Array, lists: Lists, wanted: Wanted, places: int, b: int, j: int, rank: int) -> None:
    """Write the candidate in place j of the lists where it belongs in beam b, if that is one of the best."""
    if rank < wanted.most[b]:
        place = b * places + rank
        out[place] = lists.values[j]
        out[wanted.begin.size * places + place] = lists.ids[j]


def cuda(lists: Lists, out: Array, wanted: Wanted, places: int) -> None:
    """All beams, a block each.  A candidate's place is the number of better ones.

    Of up to 256 each is compared with all others, by their keys; of more it is looked up in each list by halving, which
    waits for memory at every step.
    """
    values, _, counts, row_places = lists
    begin, end, most = wanted
    keys = natural(gpu.shared.array(256, counts.dtype))
    none = -0x7FFFFFFFFFFFFFFF  # the key of no candidate, which is less than any
    me, threads = gpu.threadIdx.x, gpu.blockDim.x
    b = gpu.blockIdx.x
    while b < begin.size:
        first = begin[b]
        last = end[b]
        begins, size = first * row_places, (last - first) * row_places
        j = me
        while j < size and size <= 256:
            own = int(np.uint32(j) // np.uint32(row_places))
            there = j - own * row_places < counts[first + own]
            keys[j] = candidate_key(values[begins + j], j) if there else none
            j += threads
        gpu.syncthreads()
        bad = last
        total = 0
        for r in range(first, last):
            if counts[r] < 0:
                bad = min(bad, r)
            else:
                total += counts[r]
        j = me if bad == last else size
        while j < size:
            if size <= 256:
                if keys[j] != none:
                    put_best(out, lists, wanted, places, b, begins + j, ranked(keys, size, keys[j]))
            else:
                own = first + j // row_places
                rank = begins + j - own * row_places
                if rank < counts[own]:
                    value = values[begins + j]
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
                    put_best(out, lists, wanted, places, b, begins + j, rank)
            j += threads
        if me == 0:
            out[2 * begin.size * places + b] = min(total, most[b]) if bad == last else -1 - bad
        gpu.syncthreads()  # before the memory is used again
        b += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", (("f4", "f8"),))
