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
    from .parts.device import columns_of_grid, eight_from, first_column
    from .parts.gpu import gpu, natural


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


@shared
def four_squares(squares: float, sums: Any, variances: Any, ends: Any, last: int, mean: float) -> Any:
    """The squares beside the mean of all, with those of four pieces, of which the last ends before row `last`."""
    a, b, c, d = sums
    e, f, g, h = variances
    j, m, n, o = ends
    a, b, c, d = a / (m - j) - mean, b / (n - m) - mean, c / (o - n) - mean, d / (last - o) - mean
    squares += (m - j) * (e + a * a)
    squares += (n - m) * (f + b * b)
    squares += (o - n) * (g + c * c)
    return squares + (last - o) * (h + d * d)


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
    """All sequences, a thread a column of each; eight pieces are on their way at a time.  See `variance`."""
    i = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while i < pieces.size - 1:
        first, end = pieces[i], pieces[i + 1]
        length = rows[end] - rows[first]
        k = first_column()
        while k < width:
            total = squares = found = 0.0
            piece = first
            while piece + 8 <= end:
                a, b, c, d, e, f, g, h = eight_from(sums, piece * width + k, width)
                total = (((((((total + a) + b) + c) + d) + e) + f) + g) + h
                piece += 8
            while piece < end:
                total += sums[natural(piece * width + k)]
                piece += 1
            mean = total / length
            piece = first
            while piece + 8 <= end:
                some = eight_from(sums, piece * width + k, width)
                beside = eight_from(variances, piece * width + k, width)
                ends, last = eight_from(rows, piece, 1), rows[natural(piece + 8)]
                squares = four_squares(squares, some[:4], beside[:4], ends[:4], ends[4], mean)
                squares = four_squares(squares, some[4:], beside[4:], ends[4:], last, mean)
                piece += 8
            while piece < end:
                number = rows[piece + 1] - rows[piece]
                apart = sums[natural(piece * width + k)] / number - mean
                squares += number * (variances[natural(piece * width + k)] + apart * apart)
                piece += 1
            if length > ddof:
                found = squares / (length - ddof)
            out[i * width + k] = math.sqrt(found) if deviation else found
            k += columns_of_grid()
        i += gpu.gridDim.x * gpu.blockDim.y


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "units", (("f8", "f4", "f4"), ("f8", "f8", "f8")))
