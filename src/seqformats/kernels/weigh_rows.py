"""Sum the rows of every sequence, each times its weight, column by column; or their weighted mean.

The order of summation is that of `parts.sums`.

`x` holds the sequences in any layout, see `Layout`; ``weights (rows,)``, or where `own` is 1 ``(rows * width,)``, a
weight for each number, lie sequence after sequence; ``out (n * width,)``.  `mode`: 0 the sum, 1 the mean, for which
``totals``, ``(n,)`` or ``(n * width,)``, get the sums of the weights.  Where these are zero, so is the mean; an empty
sequence gives zeros.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Columns, Layout
from .parts.names import gpu


class Weighed(NamedTuple):
    """The items and their weights."""

    x: Array
    weights: Array


class Made(NamedTuple):
    """Results, and the sums of weights."""

    out: Array
    totals: Array


@p.in_lanes
def weigh_row(x: Array, weights: Array, out: Array, columns: Columns, t: int, place: int, own: int, count: int) -> Any:
    """Some columns of row t, times their weights; `place` is where the weights of the sequence begin."""
    if own != 0:
        factor = p.load(weights, place + t * columns.width, count, out)
    else:
        factor = p.each(out, weights[place + t], count)
    return p.load(x, p.item_at(columns, t), count, out) * factor


@p.by_columns()
def weigh(given: Any, columns: Columns, place: int, count: int) -> None:
    """The weighted sums of some columns of a sequence to ``out[place:]``, as `total` has them; `blocks` is a `room`."""
    x, weights, out, blocks, begin, own = given
    begin += place * own
    sums, length, one = p.each(out, 0, count), columns.length, p.unknown(1)
    t = 0
    while length >= 8 and t + 4 <= length:
        part = weigh_row(x, weights, out, columns, t, begin, own, count)
        part += weigh_row(x, weights, out, columns, t + 1, begin, own, count)
        part += weigh_row(x, weights, out, columns, t + 2, begin, own, count)
        part += weigh_row(x, weights, out, columns, t + 3, begin, own, count)
        sums += part
        t += 4
        if t & 31 == 0:
            p.add_block(blocks, sums, t == 32)
            sums = p.each(out, 0, count)
    while t < length:
        sums += weigh_row(x, weights, out, columns, t, begin, own, count)
        t += one
    if length >= 32:
        sums = p.round_sum(blocks, sums)
    p.store(out, place, sums)


@p.compiled
def cpu(weighed: Weighed, made: Made, at: Layout, mode: int, own: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; sums run in the dtype of `out`."""
    (rows, factors), (sums, masses) = p.pointer(weighed), p.pointer(made)
    at, blocks = p.pointer(at), p.room(sums)
    row = width if own else 1  # weights of an item
    for u in range(lo, hi):
        i, columns = p.columns_of(at, u, width)
        length = columns.length
        given = rows, factors, sums, blocks, at.cum[i] * row - i * width * own, own
        weigh(given, columns, i * width, 0, width)
        if mode != 0:
            for j in range(row):
                columns = Columns(at.cum[i] * row + j, length, row, at.steps, 1)
                p.total((factors, masses, blocks, 0.0), columns, i * row + j, 1)
            for j in range(width):
                mass = masses[i * row + j * own]
                sums[i * width + j] = sums[i * width + j] / mass if mass != 0 else 0


def cuda(weighed: Weighed, made: Made, at: Layout, mode: int, own: int, width: int) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column.

    The order of summation depends on the sequence alone, see `tree_sum`.
    """
    x, weights = weighed
    out, totals = made
    parts = p.natural(gpu.shared.array(128, out.dtype))
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            columns = Columns(first * width + k, length, width, at.steps, at.step)
            own_row, own_column = (width, k) if own else (1, 0)  # of the weights
            mass = out.dtype.type(0)
            for turn in range(2 if mode else 1, 0, -1):  # the sum of the weights, and that of the items
                parts[place] = 0
                total = parts[place]  # zero in the dtype of out
                blocks = p.wide(total)
                if k < width:
                    t = gpu.threadIdx.y
                    taken = 0
                    weight = (at.cum[i] + t) * own_row + own_column
                    ahead = gpu.blockDim.y * own_row
                    while t + 3 * gpu.blockDim.y < length:
                        e, f = weights[weight], weights[weight + ahead]
                        g, h = weights[weight + 2 * ahead], weights[weight + 3 * ahead]
                        if turn == 1:
                            a, b, c, d = p.four_of(x, columns, t, gpu.blockDim.y)
                            e, f, g, h = e * a, f * b, g * c, h * d
                        total += e
                        total += f
                        total += g
                        total += h
                        t += 4 * gpu.blockDim.y
                        weight += 4 * ahead
                        taken += 4
                        if taken & 7 == 0:
                            blocks += p.wide(total)
                            total = parts[place]
                    while t < length:
                        factor = weights[weight]
                        if turn == 1:
                            factor *= x[p.item_at(columns, t)]
                        weight += ahead
                        total += factor
                        t += gpu.blockDim.y
                        taken += 1
                        if taken & 7 == 0:
                            blocks += p.wide(total)
                            total = parts[place]
                parts[place] = blocks + p.wide(total)
                p.tree_sum(parts, place)
                if gpu.threadIdx.y == 0 and k < width:
                    if turn == 2:
                        mass = parts[place]
                        if own or k == 0:
                            totals[i * width + k if own else i] = mass
                    elif mode == 0:
                        out[i * width + k] = parts[place]
                    else:
                        out[i * width + k] = 0
                        if mass != 0:
                            out[i * width + k] = parts[place] / mass
                gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "sequences",
    (*p.alike(p.FLOATS, 4), *((kind, made, made, made) for kind, made in p.MEANS)),
    p.STREAMS,
)
