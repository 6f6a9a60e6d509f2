"""The best candidates of each lane, from the lists of its rows that `best_tokens` has made apart.

``values``, ``ids (rows * room,)`` and ``counts (rows,)`` are those lists; lane l has the rows ``begin[l]`` to
``end[l]`` and wants the ``most[l]`` best.  All results are in one array, so that one copy brings them to the host:
``out (lanes * (2 * places + 1),)`` float64 holds, one after the other, values and ids, ``lanes * places`` each, and the
counts.  A lane with a bad row r has the count ``-1 - r``.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda, put, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@shared
def merge(
    values: Any,
    ids: Any,
    counts: Any,
    out: Any,
    begin: Any,
    end: Any,
    most: Any,
    room: int,
    places: int,
    lane: int,
) -> None:
    """One lane."""
    size = begin.size * places
    best, names = out[:size], out[size : 2 * size]
    found = 0
    for r in range(begin[lane], end[lane]):
        if counts[r] < 0:
            found = -1 - r
            break
        for j in range(r * room, r * room + counts[r]):
            found = put(best, names, lane * places, found, most[lane], values[j], ids[j])
    out[2 * size + lane] = found


@compiled
def cpu(
    values: Any,
    ids: Any,
    counts: Any,
    out: Any,
    begin: Any,
    end: Any,
    most: Any,
    room: int,
    places: int,
    lo: int,
    hi: int,
) -> None:
    """Lanes `lo` to `hi`."""
    for lane in range(lo, hi):
        merge(values, ids, counts, out, begin, end, most, room, places, lane)


@compiled_for_cuda(over="blocks")
def cuda(
    values: Any,
    ids: Any,
    counts: Any,
    out: Any,
    begin: Any,
    end: Any,
    most: Any,
    room: int,
    places: int,
) -> None:
    """All lanes, a block each."""
    lane = gpu.blockIdx.x
    while lane < begin.size:
        if gpu.threadIdx.x == 0:
            merge(values, ids, counts, out, begin, end, most, room, places, lane)
        lane += gpu.gridDim.x
