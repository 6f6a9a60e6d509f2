"""Where every sequence first has an item, of the places where its pieces have it, as `find_rows` has found them.

``x (pieces * width,)`` are the places in each piece, none of its own where it has no such item; ``pieces (n + 1,)`` how
many pieces there are before each sequence, ``rows (pieces + 1,)`` the rows before each piece; ``out (n * width,)``, -1
where it is nowhere.
"""

from typing import TYPE_CHECKING, Any

from .parts import CALCULATES, Array, Integers, KernelSpec, compiled, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


@shared
def first_of(x: Array, pieces: Integers, rows: Integers, i: int, k: int, width: int) -> Any:
    """Of column k of sequence i."""
    piece, end = pieces[i], pieces[i + 1]
    begin = rows[piece]
    while piece < end:
        place = x[piece * width + k]
        if 0 <= place < rows[piece + 1] - rows[piece]:
            return rows[piece] - begin + place
        piece += 1
    return -1


@compiled
def cpu(x: Array, out: Array, pieces: Integers, rows: Integers, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`, number by number."""
    for i in range(lo, hi):
        for k in range(width):
            out[i * width + k] = first_of(x, pieces, rows, i, k, width)


def cuda(x: Array, out: Array, pieces: Integers, rows: Integers, width: int) -> None:
    """All sequences, a thread a column of each."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < pieces.size - 1:
        k = first_column()
        while k < width:
            out[i * width + k] = first_of(x, pieces, rows, i, k, width)
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (("i8", "i8"),))
