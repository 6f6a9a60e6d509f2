"""Write where a rectangle has items: ``out (n * room,)``, a byte a place, 1 where a row is and 0 where padding is.

``cum (n + 1,)`` are the rows before each sequence; `left` is 1 where padding is on the left.
"""

from typing import TYPE_CHECKING

from .parts import CALCULATES, STREAMS, Array, Integers, KernelSpec, compiled, pointer

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu


@compiled
def cpu(out: Array, cum: Integers, room: int, left: int, width: int, lo: int, hi: int) -> None:  # noqa: ARG001  as in every kernel
    """Sequences `lo` to `hi`."""
    places = pointer(out)
    for i in range(lo, hi):
        length, begin = cum[i + 1] - cum[i], i * room
        first = begin + (room - length if left else 0)
        for p in range(begin, first):
            places[p] = 0
        for p in range(first, first + length):
            places[p] = 1
        for p in range(first + length, begin + room):
            places[p] = 0


def cuda(out: Array, cum: Integers, room: int, left: int, width: int, runs: int) -> None:  # noqa: ARG001  as in every kernel
    """All sequences, the grid's y, a thread a place."""
    i = gpu.blockIdx.y
    while i < runs:
        length = cum[i + 1] - cum[i]
        first = room - length if left else 0
        p = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
        while p < room:
            out[i * room + p] = 1 if p >= first and p < first + length else 0
            p += gpu.gridDim.x * gpu.blockDim.y
        i += gpu.gridDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "runs", (("u1",),), STREAMS)
