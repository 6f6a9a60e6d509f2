"""Moving averages along every sequence, column by column, and their gradients: a recurrence with weights by rank.

``x`` and ``out`` hold the sequences in one layout, see `Layout`.  ``marks``, a byte an item, and ``ranks``, how many
items of the sequence have a mark up to and with each, lie in the same, or are both empty where every item counts.
``weights (2 * m + 1,)``, float64 as states: the decay, then for each rank from 0 on a weight before and a weight behind
the recurrence, m of each kind; the last is that of all later ranks.

Forwards ``state = decay * state + before[rank] * x`` where an item counts, and ``behind[rank] * state`` is written
after each.  With `back` 1 it is the transpose, from the end on: each item adds ``before[rank] * x`` to the state, and
one that counts is written as ``behind[rank] * state``, others as 0, and decays the state.  So weights that are swapped
give the gradient.

Chunks of `chunk` rows hand on their states as those of `recurrence_rows` do.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, times


class Arrays(NamedTuple):
    """The items, which of them count, and the weights by their ranks."""

    x: Array
    marks: Array
    ranks: Array
    weights: Array


class Run(NamedTuple):
    """Some columns of a sequence, and what belongs to them."""

    x: Array
    marks: Array
    ranks: Array
    weights: Array
    out: Array
    at: Layout
    first: int  # the row of item 0
    k: int  # the first of the columns
    width: int
    last: int  # the largest rank that has a weight of its own
    masked: int


@p.in_lanes
def go_on(run: Run, t: int, rows: int, state: Any, back: int, count: int) -> Any:
    """Go over a chunk of some columns; three chains of operations, which do not wait for each other."""
    one = p.unknown(1)
    by = 1 - 2 * back
    zero, unit = p.each(run.weights, 0.0, count), p.each(run.weights, 1.0, count)
    factor = p.each(run.weights, run.weights[0], count)
    alone, product = zero, unit
    while rows > 0:
        row = run.first + p.along(run.at, t)
        place = row * run.width + run.k
        counts, rank = p.nonzero(unit), t + 1
        if run.masked != 0:  # chosen without a jump, which marks in no order would mislead
            counts = p.nonzero(p.each(run.weights, float(run.marks[row]), count))
            rank = int(run.ranks[row])
        rank = p.at_most(rank, run.last)
        item = p.each(run.weights, run.weights[1 + rank], count) * p.load(run.x, place, count, run.weights)
        weight = p.each(run.weights, run.weights[2 + run.last + rank], count)
        if back != 0:
            state = state + item  # not in place, since lanes may be arrays that have other names too
            alone = alone + item
            p.store(run.out, place, p.choose(counts, weight * state, zero))
            state = p.choose(counts, factor * state, state)
            alone = p.choose(counts, factor * alone, alone)
        else:
            state = p.choose(counts, factor * state + item, state)
            alone = p.choose(counts, factor * alone + item, alone)
            p.store(run.out, place, weight * state)
        product = p.choose(counts, factor * product, product)
        t += by
        rows -= one
    return state, alone, product


@p.in_lanes
def average(run: Run, length: int, back: int, chunk: int, count: int) -> None:
    """Go through some columns of a sequence, chunk by chunk."""
    state = p.each(run.weights, 0.0, count)
    begin = 0
    if back != 0 and length > 0:  # the last chunk comes first, and may be short
        begin = (length - 1) // chunk * chunk
    left = length
    while left > 0:
        rows = p.at_most(length - begin, chunk)
        _, alone, product = go_on(run, begin + back * (rows - 1), rows, state, back, count)
        state = p.choose(p.nonzero(state), product * state + alone, alone)
        left -= rows
        begin += (1 - 2 * back) * chunk


@p.compiled
def cpu(arrays: Arrays, out: Array, at: Layout, back: int, chunk: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    masked, last = int(arrays.marks.size > 0), arrays.weights.size // 2 - 1
    items, flags, numbers, factors = p.pointer(arrays)
    made, where = p.pointer(out), p.pointer(at)
    for u in range(lo, hi):
        _, first, length = p.locate(where, u)
        k = 0
        while k < width:
            count = 16 if width - k >= 16 else 4 if width - k >= 4 else 1
            run = Run(items, flags, numbers, factors, made, where, first, k, width, last, masked)
            if count == 16:
                average(run, length, back, chunk, 16)
            elif count == 4:
                average(run, length, back, chunk, 4)
            else:
                average(run, length, back, chunk, 1)
            k += count


class Rows(NamedTuple):
    """The part of a column that is a thread's own: `rows` items from t on, each `by` after the one before it."""

    first: int  # the row of item 0
    t: int
    rows: int
    by: int
    k: int


@p.shared
def weigh_item(x: Array, marks: Array, ranks: Array, weights: Array, row: int, t: int, place: int, back: int) -> Any:
    """Return whether an item counts, its rank as weights have it, and what it adds to the state."""
    counts, rank = True, t + 1
    if marks.size != 0:
        counts, rank = marks[row] != 0, int(ranks[row])
    rank = min(rank, weights.size // 2 - 1)
    item = p.zero_in(weights)
    if counts or back != 0:
        item = times(weights[1 + rank], p.number_in(weights, x[place]))
    return counts, rank, item


@p.shared
def map_of(
    x: Array,
    marks: Array,
    ranks: Array,
    weights: Array,
    at: Layout,
    rows: Rows,
    back: int,
    width: int,
) -> Any:
    """Return what some rows make of a state of zero, and the product of their decays."""
    alone, product = p.zero_in(weights), p.number_in(weights, 1)
    for step in range(rows.rows):
        t = rows.t + step * rows.by
        row = rows.first + p.along(at, t)
        counts, _, item = weigh_item(x, marks, ranks, weights, row, t, row * width + rows.k, back)
        if back != 0:
            alone += item
        if counts:
            alone, product = times(weights[0], alone), weights[0] * product
        if back == 0:
            alone += item
    return alone, product


def cuda(arrays: Arrays, out: Array, at: Layout, back: int, chunk: int, width: int) -> None:
    """All units, a block each: the chunks of a column are shared by a line of threads, some chunks at a time."""
    x, marks, ranks, weights = arrays
    alone = p.natural(gpu.shared.array(128, weights.dtype))
    product = p.natural(gpu.shared.array(128, weights.dtype))
    given = p.natural(gpu.shared.array(128, weights.dtype))  # the states before chunks
    slot = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    by = 1 - 2 * back
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        _, first, length = p.locate(at, u)
        chunks = (length + chunk - 1) // chunk
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            state = p.zero_in(weights)
            for done in range(0, chunks, gpu.blockDim.y):
                mine = done + gpu.threadIdx.y
                is_there = k < width and mine < chunks
                begin = (chunks - 1 - mine if back != 0 else mine) * chunk
                size = min(chunk, length - begin)
                rows = Rows(first, begin + back * (size - 1), size if is_there else 0, by, k)
                alone[slot], product[slot] = p.zero_in(weights), p.zero_in(weights)
                if is_there and mine + 1 < chunks:
                    alone[slot], product[slot] = map_of(x, marks, ranks, weights, at, rows, back, width)
                gpu.syncthreads()
                if gpu.threadIdx.y == 0:
                    for j in range(slot, gpu.blockDim.x * gpu.blockDim.y, gpu.blockDim.x):
                        given[j] = state
                        state = alone[j] if state == 0 else times(product[j], state) + alone[j]
                gpu.syncthreads()
                y = given[slot]
                for step in range(rows.rows):
                    t = rows.t + step * by
                    row = first + p.along(at, t)
                    place = row * width + k
                    counts, rank, item = weigh_item(x, marks, ranks, weights, row, t, place, back)
                    written = p.zero_in(weights)
                    if back != 0:
                        y += item
                        if counts:
                            written, y = weights[1 + weights.size // 2 + rank] * y, times(weights[0], y)
                    else:
                        if counts:
                            y = times(weights[0], y) + item
                        written = weights[1 + weights.size // 2 + rank] * y
                    out[place] = p.item_in(out, written)
                gpu.syncthreads()  # before the memory is used again


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "sequences", tuple((kind, "u1", "i8", "f8", kind) for kind in p.FLOATS))
