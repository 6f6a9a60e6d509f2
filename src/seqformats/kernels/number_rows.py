"""Number the rows of every sequence: ``first[i] + t`` for item t of sequence i, or i itself where `segments` is 1.

``out (rows,)``; sequence i has the rows ``cum[i]`` to ``cum[i + 1]``; `first` is not looked at for segments.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    Array,
    Integers,
    KernelSpec,
    compiled,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import gpu, search


@compiled
def cpu(out: Array, cum: Integers, first: Integers, segments: int, width: int, lo: int, hi: int) -> None:  # noqa: ARG001  as in every kernel
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        part = out[cum[i] : cum[i + 1]]
        begin = i if segments else first[i]
        for t in range(part.size):
            part[t] = begin + (0 if segments else t)


def cuda(out: Array, cum: Integers, first: Integers, segments: int, width: int) -> None:  # noqa: ARG001  as in every kernel
    """All rows, a thread each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i = search(cum, r)
        out[r] = i if segments else first[i] + r - cum[i]
        r += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "rows", (("i8",),))
