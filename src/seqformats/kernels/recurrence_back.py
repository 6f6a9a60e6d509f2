"""The gradients of `recurrence_rows`: a recurrence too, the other way.

``dy`` and ``dx``, the gradients, and ``y``, what `recurrence_rows` has written, hold the sequences in one layout, see
`Layout`, as ``slopes`` do, the gradient for the decay of each number, or they are empty where nobody asks.  The other
arrays and numbers are those of `recurrence_rows`: ``dfinal (n * width,)``, or empty, is the gradient of its ``final``,
and ``dinitial (n * width,)`` that for its ``initial``.

With g the gradient of the state behind item t: ``dx = g``, ``slope = g * (the state before)``, and the gradient of the
state before is ``decay * g``.  To g comes ``dy`` of what was written of that state.  Chunks are those of
`recurrence_rows`, in the other order, and so is the way from one to the next.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, times


class Arrays(NamedTuple):
    """Arrays of `recurrence_rows`, and the gradients of those that it has written."""

    dy: Array
    y: Array
    decay: Array
    initial: Array
    dfinal: Array
    marks: Array
    ends: Array


class Results(NamedTuple):
    """Gradients for its arrays."""

    dx: Array
    slopes: Array
    dinitial: Array


class Run(NamedTuple):
    """Some columns of a sequence, and what belongs to them."""

    dy: Array
    y: Array
    decay: Array
    initial: Array
    marks: Array
    ends: Array
    dx: Array
    slopes: Array
    like: Array  # of float64
    at: Layout
    first: int  # the row of item 0
    length: int
    k: int  # the first of the columns
    width: int
    own: int  # where their decays begin
    start: int  # where their initial states begin
    by_row: int
    by_column: int
    masked: int
    ending: int
    begun: int
    wanted: int


@p.in_lanes
def state_before(run: Run, t: int, back: int, exclusive: int, count: int) -> Any:
    """The state before item t, as it was written."""
    before = t + exclusive_step(back, exclusive)
    if before >= 0 and before < run.length:
        row = run.first + p.along(run.at, before)
        return p.load(run.y, row * run.width + run.k, count, run.like)
    if run.begun != 0:
        return p.load(run.initial, run.start, count, run.like)
    return p.each(run.like, 0.0, count)


@p.shared
def exclusive_step(back: int, exclusive: int) -> int:
    """Return the distance from an item to the state before it."""
    if exclusive != 0:
        return 0
    return 1 if back != 0 else -1


@p.in_lanes
def go_back(run: Run, t: int, rows: int, state: Any, back: int, exclusive: int, blank: int, count: int) -> Any:
    """Go over a chunk of some columns; three chains of operations, which do not wait for each other."""
    one = p.unknown(1)
    zero = p.each(run.like, 0.0, count)
    by = 2 * back - 1
    alone, product, cut = zero, p.each(run.like, 1.0, count), 0
    while rows > 0:
        row = run.first + p.along(run.at, t)
        place = row * run.width + run.k
        if run.ending != 0 and run.ends[row] != 0:
            state = alone = zero
            cut = 1
        slope = p.load(run.dy, place, count, run.like)
        is_step = p.nonzero(p.each(run.like, 1.0, count))
        if run.masked != 0:
            is_step = p.nonzero(p.each(run.like, float(run.marks[row]), count))
            if blank != 0:
                slope = p.choose(is_step, slope, zero)
        if exclusive == 0:
            state = state + slope  # not in place, since lanes may be arrays that have other names too
            alone = alone + slope
        start = run.own + row * run.by_row
        decay = p.each(run.like, run.decay[start], count)
        if run.by_column != 0:
            decay = p.load(run.decay, start, count, run.like)
        p.store(run.dx, place, p.choose(is_step, state, zero))
        if run.wanted != 0:
            found = state * state_before(run, t, back, exclusive, count)
            p.store(run.slopes, place, p.choose(is_step, found, zero))
        state = p.choose(is_step, decay * state, state)
        alone = p.choose(is_step, decay * alone, alone)
        product = p.choose(is_step, decay * product, product)
        if exclusive != 0:
            state = state + slope
            alone = alone + slope
        t += by
        rows -= one
    return state, alone, product, cut


@p.in_lanes
def pull(run: Run, state: Any, back: int, exclusive: int, blank: int, chunk: int, count: int) -> Any:
    """Go through some columns of a sequence, chunk by chunk; the gradient of the state before all items."""
    length = run.length
    begin = 0
    if back == 0 and length > 0:  # the last chunk comes first, and may be short
        begin = (length - 1) // chunk * chunk
    left = length
    while left > 0:
        rows = p.at_most(length - begin, chunk)
        first = begin if back != 0 else begin + rows - 1
        behind, alone, product, cut = go_back(run, first, rows, state, back, exclusive, blank, count)
        left -= rows
        if left == 0:
            state = behind
        elif cut != 0:
            state = alone
        else:
            state = p.choose(p.nonzero(state), product * state + alone, alone)
        begin += (2 * back - 1) * chunk
    return state


@p.compiled
def cpu(
    arrays: Arrays, results: Results, at: Layout, strides: p.Strides, course: p.Course, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    by_row, by_column, by_sequence = strides
    back, exclusive, blank, chunk = course
    masked, ending, begun = int(arrays.marks.size > 0), int(arrays.ends.size > 0), int(arrays.initial.size > 0)
    wanted, continued = int(results.slopes.size > 0), arrays.dfinal.size > 0
    given, written, decays, starts, later, flags, stops = p.pointer(arrays)
    (made, found, states), where = p.pointer(results), p.pointer(at)
    for u in range(lo, hi):
        i, first, length = p.locate(where, u)
        k = 0
        while k < width:
            count = 16 if width - k >= 16 else 4 if width - k >= 4 else 1
            own, start = i * by_sequence + k * by_column, i * width + k
            run = Run(
                given,
                written,
                decays,
                starts,
                flags,
                stops,
                made,
                found,
                states,
                where,
                first,
                length,
                k,
                width,
                own,
                start,
                by_row,
                by_column,
                masked,
                ending,
                begun,
                wanted,
            )
            if count == 16:
                state = p.load(later, start, 16, states) if continued else p.each(states, 0.0, 16)
                p.store(states, start, pull(run, state, back, exclusive, blank, chunk, 16))
            elif count == 4:
                state = p.load(later, start, 4, states) if continued else p.each(states, 0.0, 4)
                p.store(states, start, pull(run, state, back, exclusive, blank, chunk, 4))
            else:
                state = p.load(later, start, 1, states) if continued else p.each(states, 0.0, 1)
                p.store(states, start, pull(run, state, back, exclusive, blank, chunk, 1))
            k += count


class Rows(NamedTuple):
    """The part of a column that is a thread's own: `rows` items from t on, each `by` after the one before it."""

    first: int  # the row of item 0
    t: int
    rows: int
    by: int
    k: int
    own: int  # where their decays begin


@p.shared
def map_of(given: Any, like: Array, at: Layout, rows: Rows, how: tuple[int, int, int], width: int) -> Any:
    """Return what some rows make of a gradient of zero, the product of their decays, and whether they forget it."""
    (dy, decay, marks, ends), (by_row, exclusive, blank) = given, how
    alone, product, cut = p.zero_in(like), p.number_in(like, 1), 0
    for step in range(rows.rows):
        row = rows.first + p.along(at, rows.t + step * rows.by)
        if ends.size != 0 and ends[row] != 0:
            alone, cut = p.zero_in(like), 1
        is_step = marks.size == 0 or marks[row] != 0
        slope = p.number_in(like, dy[row * width + rows.k]) if is_step or blank == 0 else p.zero_in(like)
        if exclusive == 0:
            alone += slope
        if is_step:
            factor = p.number_in(like, decay[rows.own + row * by_row])
            alone, product = times(factor, alone), factor * product
        if exclusive != 0:
            alone += slope
    return alone, product, cut


def cuda(arrays: Arrays, results: Results, at: Layout, strides: p.Strides, course: p.Course, width: int) -> None:
    """All units, a block each: the chunks of a column are shared by a line of threads, some chunks at a time."""
    dy, y, decay, initial, dfinal, marks, ends = arrays
    dx, slopes, dinitial = results
    by_row, by_column, by_sequence = strides
    back, exclusive, blank, chunk = course
    alone = p.natural(gpu.shared.array(128, dinitial.dtype))
    product = p.natural(gpu.shared.array(128, dinitial.dtype))
    before = p.natural(gpu.shared.array(128, dinitial.dtype))  # at first whether a chunk forgets the gradient
    slot = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    by = 2 * back - 1
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        chunks = (length + chunk - 1) // chunk
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            own = i * by_sequence + k * by_column
            state = p.zero_in(dinitial)
            if k < width and dfinal.size != 0:
                state = dfinal[i * width + k]
            for done in range(0, chunks, gpu.blockDim.y):
                mine = done + gpu.threadIdx.y
                is_there = k < width and mine < chunks
                number = mine if back != 0 else chunks - 1 - mine
                begin = number * chunk
                size = min(chunk, length - begin)
                rows = Rows(first, begin if back != 0 else begin + size - 1, size if is_there else 0, by, k, own)
                alone[slot], product[slot], before[slot] = p.zero_in(dinitial), p.zero_in(dinitial), p.zero_in(dinitial)
                if is_there and mine + 1 < chunks:
                    given = dy, decay, marks, ends
                    found = map_of(given, dinitial, at, rows, (by_row, exclusive, blank), width)
                    alone[slot], product[slot], before[slot] = found[0], found[1], p.number_in(dinitial, found[2])
                gpu.syncthreads()
                if gpu.threadIdx.y == 0:
                    for j in range(slot, gpu.blockDim.x * gpu.blockDim.y, gpu.blockDim.x):
                        forgets = before[j] != 0 or state == 0
                        before[j] = state
                        state = alone[j] if forgets else times(product[j], state) + alone[j]
                gpu.syncthreads()
                g = before[slot]
                for step in range(rows.rows):
                    t = rows.t + step * by
                    row = first + p.along(at, t)
                    place = row * width + k
                    if ends.size != 0 and ends[row] != 0:
                        g = p.zero_in(dinitial)
                    is_step = marks.size == 0 or marks[row] != 0
                    slope = p.number_in(dinitial, dy[place]) if is_step or blank == 0 else p.zero_in(dinitial)
                    if exclusive == 0:
                        g += slope
                    dx[place] = p.item_in(dx, g if is_step else p.zero_in(dinitial))
                    if slopes.size != 0:
                        past = t + exclusive_step(back, exclusive)
                        value = p.zero_in(dinitial)
                        if past >= 0 and past < length:
                            value = p.number_in(dinitial, y[(first + p.along(at, past)) * width + k])
                        elif initial.size != 0:
                            value = initial[i * width + k]
                        slopes[place] = p.item_in(slopes, g * value if is_step else p.zero_in(dinitial))
                    if is_step:
                        g = times(p.number_in(dinitial, decay[own + row * by_row]), g)
                    if exclusive != 0:
                        g += slope
                if is_there and mine + 1 == chunks:
                    dinitial[i * width + k] = g
                gpu.syncthreads()  # before the memory is used again
            if chunks == 0 and k < width and gpu.threadIdx.y == 0:
                dinitial[i * width + k] = state


# items, their decays, and the slopes of these
TAKES = (("f4", "f4", "f4"), ("f4", "f4", "f8"), ("f4", "f8", "f8"), ("f8", "f8", "f8"))
KERNEL = p.KernelSpec(
    cpu,
    cuda,
    p.CALCULATES,
    "sequences",
    tuple((kind, kind, by, "f8", "f8", "u1", "u1", kind, slope, "f8") for kind, by, slope in TAKES),
)
