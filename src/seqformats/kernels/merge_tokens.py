"""The best candidates of each lane, from the lists of its rows that `best_tokens` has made apart.

``values``, ``ids (rows * room,)`` and ``counts (rows,)`` are those lists; lane l has the rows ``begin[l]`` to
``end[l]`` and wants the ``most[l]`` best.  All results are in one array, so that one copy brings them to the host:
``out (lanes * (2 * places + 1),)`` float64 holds, one after the other, values and ids, ``lanes * places`` each, and the
counts.  A lane with a bad row r has the count ``-1 - r``.
"""

from typing import TYPE_CHECKING

from .parts import CALCULATES, Array, Integers, KernelSpec, compiled, put

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@compiled
def cpu(
    values: Array,
    ids: Integers,
    counts: Integers,
    out: Array,
    begin: Integers,
    end: Integers,
    most: Integers,
    places: int,
    room: int,
    lo: int,
    hi: int,
) -> None:
    """Lanes `lo` to `hi`."""
    size = begin.size * places
    best, names = out[:size], out[size : 2 * size]
    for lane in range(lo, hi):
        found = 0
        for r in range(begin[lane], end[lane]):
            if counts[r] < 0:
                found = -1 - r
                break
            for j in range(r * room, r * room + counts[r]):
                found = put(best, names, lane * places, found, most[lane], values[j], ids[j])
        out[2 * size + lane] = found


def cuda(
    values: Array,
    ids: Integers,
    counts: Integers,
    out: Array,
    begin: Integers,
    end: Integers,
    most: Integers,
    places: int,
    room: int,
) -> None:
    """All lanes, a block each.  A candidate's place is the number of better ones, which each list tells by halving."""
    size = begin.size * places
    lane = gpu.blockIdx.x
    while lane < begin.size:
        first = begin[lane]
        last = end[lane]
        bad = last
        total = 0
        for r in range(first, last):
            if counts[r] < 0:
                bad = min(bad, r)
            else:
                total += counts[r]
        j = first * room + gpu.threadIdx.x
        while bad == last and j < last * room:
            own = j // room
            rank = j - own * room
            if rank < counts[own]:
                value = values[j]
                for r in range(first, last):
                    if r != own:
                        low = r * room
                        high = low + counts[r]
                        while low < high:
                            middle = (low + high) >> 1
                            if values[middle] > value or (values[middle] == value and r < own):
                                low = middle + 1
                            else:
                                high = middle
                        rank += low - r * room
                if rank < most[lane]:
                    out[lane * places + rank] = value
                    out[size + lane * places + rank] = ids[j]
            j += gpu.blockDim.x
        if gpu.threadIdx.x == 0:
            out[2 * size + lane] = min(total, most[lane]) if bad == last else -1 - bad
        lane += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", (("f4", "f8"),))
