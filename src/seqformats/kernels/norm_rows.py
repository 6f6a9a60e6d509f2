"""The Euclidean norm of every sequence, column by column: the root of the sum of the squares.

`x` holds the sequences in any layout, see `Layout`; ``out (n * width,)``.  An empty sequence gives zeros.  Squares are
multiplied and added up in float64, so that those of float32 are never beyond what that holds.
"""

from typing import Any

import numpy as np

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu, sqrt


@p.by_columns(most=16)
def norm(given: Any, columns: Columns, place: int, count: int) -> None:
    """The norms of `count` columns of a sequence to ``out[place:]``; `wide` is a `room`."""
    x, out, wide = given
    squares, length, one = p.each(wide, 0.0, count), columns.length, p.unknown(1)
    t = 0
    while t + 4 <= length:
        a = p.load(x, p.item_at(columns, t), count, wide)
        b = p.load(x, p.item_at(columns, t + 1), count, wide)
        c = p.load(x, p.item_at(columns, t + 2), count, wide)
        d = p.load(x, p.item_at(columns, t + 3), count, wide)
        squares += a * a + b * b + (c * c + d * d)
        t += 4
    while t < length:
        a = p.load(x, p.item_at(columns, t), count, wide)
        squares += a * a
        t += one
    p.store(out, place, p.root(squares))


@p.compiled
def cpu(x: Array, out: Array, at: Layout, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    rows, found, at = p.pointer(x), p.pointer(out), p.pointer(at)
    given = rows, found, p.room(found)
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        norm(given, columns, i * width, 0, width)


@p.shared
def square_of(out: Array, item: Any) -> Any:
    """The square of an item, in float64."""
    value = p.wide(p.item_in(out, item))
    return value * value


@p.shared
def squares_of(x: Array, out: Array, columns: Columns, t: int, by: int) -> Any:
    """Add up the squares of every so many items of a column from t on."""
    total = p.wide(p.zero_in(out))
    while t < columns.length:
        a, b, c, d = p.some_of(x, columns, t, by, p.zero_in(x))
        squares = (square_of(out, a) + square_of(out, b)) + (square_of(out, c) + square_of(out, d))
        total += squares
        t += 4 * by
    return total


@p.block_per_sequence
def cuda(x: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns, slot: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    The order of summation depends on the sequence alone, see `tree_sum`.
    """
    parts = p.natural(gpu.shared.array(128, np.float64))
    total = p.wide(p.zero_in(out))
    if k < width:
        t, down = p.share_of(columns.length)
        total = squares_of(x, out, columns, t, down)
    parts[slot] = total
    p.tree_sum(parts, slot)
    if gpu.threadIdx.y == 0 and k < width:
        out[i * width + k] = p.item_in(out, sqrt(parts[slot]))


@p.thread_per_column
def short(x: Array, out: Array, at: Layout, width: int, *, i: int, k: int, columns: Columns) -> None:
    """A column of a sequence, by one thread."""
    out[i * width + k] = p.item_in(out, sqrt(squares_of(x, out, columns, 0, 1)))


KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "sequences", (*p.alike(p.FLOATS, 2), *p.MEANS), p.STREAMS, short, fours=True
)
