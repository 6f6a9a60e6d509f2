"""Write where a rectangle has items: ``out (n * room,)``, a byte a place, 1 where a row is and 0 where padding is.

``cum (n + 1,)`` are the rows before each sequence; `left` is 1 where padding is on the left.
"""

from . import parts as p
from .parts import Array, Integers
from .parts.names import gpu


@p.compiled
def cpu(out: Array, cum: Integers, room: int, left: int, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    places = p.pointer(out)
    for i in range(lo, hi):
        length, begin = cum[i + 1] - cum[i], i * room
        first = begin + (room - length if left else 0)
        for q in range(begin, first):
            places[q] = 0
        for q in range(first, first + length):
            places[q] = 1
        for q in range(first + length, begin + room):
            places[q] = 0


def cuda(out: Array, cum: Integers, room: int, left: int, width: int, runs: int) -> None:
    """All sequences, the grid's y, a thread a place."""
    for i in range(gpu.blockIdx.y, runs, gpu.gridDim.y):
        length = cum[i + 1] - cum[i]
        first = room - length if left else 0
        for q in range(p.first_unit(), room, p.units_of_grid()):
            out[i * room + q] = 1 if q >= first and q < first + length else 0


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "runs", (("u1",),), p.STREAMS)
