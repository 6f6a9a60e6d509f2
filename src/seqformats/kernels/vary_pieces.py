"""The variance of every sequence, or its root, of the sums and variances of its pieces, column by column.

``sums (pieces * width,)``, which `sum_pieces` has made; `variances` beside them, which `var_rows` has, each divided by
the rows of its piece; ``pieces (n + 1,)`` how many there are before each sequence; ``rows (pieces + 1,)`` the rows
before each piece; ``out (n * width,)``.  The squares beside the mean of all are those beside the mean of each piece,
and what the two means lie apart, squared, for each row (Chan, Golub and LeVeque, 1983).  See `var_rows` for the
numbers.
"""

import math
from typing import TYPE_CHECKING, Any

from .parts import CALCULATES, Array, Integers, KernelSpec, compiled, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import columns_of_grid, first_column
    from .parts.gpu import gpu


@shared
def variance(sums: Array, variances: Array, first: int, end: int, k: int, rows: Integers, ddof: int, width: int) -> Any:
    """That of one column of the pieces `first` to `end`, in float64; 0 where there are too few rows."""
    length = rows[end] - rows[first]
    if length <= ddof:
        return 0.0
    total = 0.0
    for piece in range(first, end):
        total += sums[piece * width + k]
    mean, squares = total / length, 0.0
    for piece in range(first, end):
        number = rows[piece + 1] - rows[piece]
        apart = sums[piece * width + k] / number - mean
        squares += number * (variances[piece * width + k] + apart * apart)
    return squares / (length - ddof)


@compiled
def cpu(
    sums: Array,
    variances: Array,
    out: Array,
    pieces: Integers,
    rows: Integers,
    deviation: int,
    ddof: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Sequences `lo` to `hi`."""
    for i in range(lo, hi):
        for k in range(width):
            found = variance(sums, variances, pieces[i], pieces[i + 1], k, rows, ddof, width)
            out[i * width + k] = math.sqrt(found) if deviation else found


def cuda(
    sums: Array,
    variances: Array,
    out: Array,
    pieces: Integers,
    rows: Integers,
    deviation: int,
    ddof: int,
    width: int,
) -> None:
    """All sequences, a thread a column of each."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < pieces.size - 1:
        k = first_column()
        while k < width:
            found = variance(sums, variances, pieces[i], pieces[i + 1], k, rows, ddof, width)
            out[i * width + k] = math.sqrt(found) if deviation else found
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (("f8", "f4", "f4"), ("f8", "f8", "f8")))
