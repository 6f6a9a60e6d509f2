"""The variance of every sequence, or its root, of the sums and variances of its pieces, column by column.

``sums (pieces * width,)``, which `sum_pieces` has made; `variances` beside them, which `var_rows` has, each divided by
the rows of its piece; ``pieces (n + 1,)`` how many there are before each sequence; ``rows (pieces + 1,)`` the rows
before each piece; ``out (n * width,)``.  The squares beside the mean of all are those beside the mean of each piece,
and what the two means lie apart, squared, for each row (Chan, Golub and LeVeque, 1983).  See `var_rows` for the
numbers.
"""

import math
from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Integers


class Moments(NamedTuple):
    """Sums and variances of pieces."""

    sums: Array
    variances: Array


class How(NamedTuple):
    """Options of `var_rows`."""

    deviation: int
    ddof: int


@p.shared
def variance(sums: Array, variances: Array, first: int, end: int, k: int, rows: Integers, ddof: int, width: int) -> Any:
    """Calculate the variance of one column of the pieces `first` to `end`, in float64; 0 for too few rows."""
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


@p.compiled
def cpu(moments: Moments, out: Array, pieces: Integers, rows: Integers, how: How, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`."""
    sums, variances = moments
    deviation, ddof = how
    for i in range(lo, hi):
        for k in range(width):
            found = variance(sums, variances, pieces[i], pieces[i + 1], k, rows, ddof, width)
            out[i * width + k] = math.sqrt(found) if deviation else found


@p.shared
def with_piece(found: tuple[float, int, float], total: Any, variance: Any, number: int, mean: float) -> Any:
    """The squares beside the mean of all, with those of a piece of so many rows; and 1 by the last such number."""
    squares, known, inverse = found
    if number != known:  # but for the last ones of sequences all pieces have the same
        inverse = 1.0 / number
    apart = total * inverse - mean
    return squares + number * (variance + apart * apart), number, inverse


def cuda(moments: Moments, out: Array, pieces: Integers, rows: Integers, how: How, width: int) -> None:
    """All sequences, a thread a column of each; eight pieces are on their way at a time.  See `variance`."""
    sums, variances = moments
    deviation, ddof = how
    for i in range(p.first_unit(), pieces.size - 1, p.units_of_grid()):
        first, end = pieces[i], pieces[i + 1]
        length = rows[end] - rows[first]
        for k in range(p.first_column(), width, p.columns_of_grid()):
            total = found = 0.0
            piece = first
            while piece + 8 <= end:
                a, b, c, d, e, f, g, h = p.eight_from(sums, piece * width + k, width)
                total = (((((((total + a) + b) + c) + d) + e) + f) + g) + h
                piece += 8
            while piece < end:
                total += sums[piece * width + k]
                piece += 1
            mean = total / length
            piece = first
            so_far = 0.0, 1, 1.0
            while piece + 8 <= end:
                a, b, c, d, e, f, g, h = p.eight_from(sums, piece * width + k, width)
                q, r, s, t, u, v, w, x = p.eight_from(variances, piece * width + k, width)
                ends, last = p.eight_from(rows, piece, 1), rows[piece + 8]
                so_far = with_piece(so_far, a, q, ends[1] - ends[0], mean)
                so_far = with_piece(so_far, b, r, ends[2] - ends[1], mean)
                so_far = with_piece(so_far, c, s, ends[3] - ends[2], mean)
                so_far = with_piece(so_far, d, t, ends[4] - ends[3], mean)
                so_far = with_piece(so_far, e, u, ends[5] - ends[4], mean)
                so_far = with_piece(so_far, f, v, ends[6] - ends[5], mean)
                so_far = with_piece(so_far, g, w, ends[7] - ends[6], mean)
                so_far = with_piece(so_far, h, x, last - ends[7], mean)
                piece += 8
            while piece < end:
                place = piece * width + k
                so_far = with_piece(so_far, sums[place], variances[place], rows[piece + 1] - rows[piece], mean)
                piece += 1
            squares = so_far[0]
            if length > ddof:
                found = squares / (length - ddof)
            out[i * width + k] = math.sqrt(found) if deviation else found


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", (("f8", "f4", "f4"), ("f8", "f8", "f8")))
