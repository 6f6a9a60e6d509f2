"""A linear recurrence along every sequence, column by column: ``state = decay * state + x``, written after each item.

``x`` and ``out`` hold the sequences in one layout, see `Layout`; ``marks`` and ``ends``, a byte an item, lie in the
same or are empty.  Items with a mark of 0 are no steps: the state stands still there, ``x`` and the decay do not
matter, and the state is written, or 0 where `blank` is 1.  Behind an item whose byte in ``ends`` is not 0 the state is
zero again.  `exclusive` writes the state before each item instead, a step or not.

The decay for column k of the item in row r of sequence i is ``decay[r * by_row + k * by_column + i * by_sequence]``.
``initial (n * width,)``, or empty for zeros, and ``final (n * width,)`` are the states before and after all items,
float64 as every state.  `back` is 1 for the way from the end.

A sequence is cut into chunks of `chunk` rows, counted from its first row.  Within a chunk the state goes row by row.
Behind it the state is ``product * state + alone``: the state before the chunk, the product of its decays, and what the
chunk makes of a state of zero; just ``alone`` where the state was zero, since the product may be infinite.  So there is
one order of calculation, in which a thread may take a chunk each, and up to `chunk` rows it is that of the plain loop.
Reference: Blelloch, "Prefix Sums and Their Applications" (1990), section 1.4.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu, times


class Given(NamedTuple):
    """The items and the decays, the states before them, and two bytes an item."""

    x: Array
    decay: Array
    initial: Array
    marks: Array
    ends: Array


class Results(NamedTuple):
    """States behind items, and behind sequences."""

    out: Array
    final: Array


class Run(NamedTuple):
    """Some columns of a sequence, and what belongs to them."""

    x: Array
    decay: Array
    marks: Array
    ends: Array
    out: Array
    like: Array  # of float64
    at: Layout
    first: int  # the row of item 0
    k: int  # the first of the columns
    width: int
    own: int  # where their decays begin
    by_row: int
    by_column: int
    masked: int
    ending: int


@p.in_lanes
def decay_of(run: Run, row: int, count: int) -> Any:
    """The decays for the item in a row."""
    place = run.own + row * run.by_row
    if run.by_column == 0:
        return p.each(run.like, run.decay[place], count)
    return p.load(run.decay, place, count, run.like)


@p.in_lanes
def finish(run: Run, t: int, rows: int, by: int, state: Any, exclusive: int, blank: int, count: int) -> Any:
    """Go over the last chunk of some columns, `rows` rows from t on; the state behind it."""
    one = p.unknown(1)
    zero = p.each(run.like, 0.0, count)
    while rows > 0:
        row = run.first + p.along(run.at, t)
        place = row * run.width + run.k
        following = decay_of(run, row, count) * state + p.load(run.x, place, count, run.like)
        written = following
        if run.masked != 0:  # chosen without a jump, which marks in no order would mislead
            is_step = p.nonzero(p.each(run.like, float(run.marks[row]), count))
            following = p.choose(is_step, following, state)
            written = p.choose(is_step, following, zero) if blank != 0 else following
        if exclusive != 0:
            written = state
        p.store(run.out, place, written)
        state = following
        if run.ending != 0 and run.ends[row] != 0:
            state = zero
        t += by
        rows -= one
    return state


@p.in_lanes
def go_on(run: Run, t: int, rows: int, by: int, state: Any, exclusive: int, blank: int, count: int) -> Any:
    """Go over another chunk; three chains of operations, which do not wait for each other."""
    one = p.unknown(1)
    zero = p.each(run.like, 0.0, count)
    before, alone, product = state, zero, p.each(run.like, 1.0, count)
    cut = 0
    while rows > 0:
        row = run.first + p.along(run.at, t)
        place = row * run.width + run.k
        decay = decay_of(run, row, count)
        item = p.load(run.x, place, count, run.like)
        if run.masked != 0:
            is_step = p.nonzero(p.each(run.like, float(run.marks[row]), count))
            state = p.choose(is_step, decay * state + item, state)
            alone = p.choose(is_step, decay * alone + item, alone)
            product = p.choose(is_step, product * decay, product)
            written = p.choose(is_step, state, zero) if blank != 0 else state
        else:
            state = decay * state + item
            alone = decay * alone + item
            product = product * decay
            written = state
        if exclusive != 0:
            written = before
        p.store(run.out, place, written)
        before = state
        if run.ending != 0 and run.ends[row] != 0:
            state = before = alone = zero
            cut = 1
        t += by
        rows -= one
    return alone, product, cut


@p.in_lanes
def recur(run: Run, length: int, state: Any, back: int, exclusive: int, blank: int, chunk: int, count: int) -> Any:
    """Go through some columns of a sequence, chunk by chunk, from a state on; the state at the end."""
    begin = 0
    if back != 0 and length > 0:  # the last chunk comes first, and may be short
        begin = (length - 1) // chunk * chunk
    by = 1 - 2 * back
    left = length
    while left > 0:
        rows = p.at_most(length - begin, chunk)
        first = begin + back * (rows - 1)
        left -= rows
        if left == 0:
            state = finish(run, first, rows, by, state, exclusive, blank, count)
        else:
            alone, product, cut = go_on(run, first, rows, by, state, exclusive, blank, count)
            if cut != 0:
                state = alone
            else:
                state = p.choose(p.nonzero(state), product * state + alone, alone)
        begin += by * chunk
    return state


class Way(NamedTuple):
    """Numbers that say how to go, as in `cpu`."""

    by_sequence: int
    begun: int
    back: int
    exclusive: int
    blank: int
    chunk: int


@p.in_lanes
def recur_beside(run: Run, u: int, starts: Array, way: Way, count: int) -> bool:
    """Go through so many columns of a rectangle with a number an item, a lane each, and write zeros to their padding.

    They are not begun where one is longer than a chunk.
    """
    one, zero = p.unknown(1), p.each(run.like, 0.0, count)
    lengths, factors, state, longest = zero, zero, zero, 0
    for k in range(count):
        i, _, length = p.locate(run.at, u + k)
        longest = p.at_least(length, longest)
        lengths = p.with_lane(lengths, k, float(length))
        factors = p.with_lane(factors, k, run.decay[i * way.by_sequence])
        if way.begun != 0:
            state = p.with_lane(state, k, starts[i])
    if longest > way.chunk:
        return False
    t, rows = way.back * (longest - 1), longest
    while rows > 0:
        row = u + p.along(run.at, t)
        is_there = p.each(run.like, float(t), count) < lengths
        is_step = is_there
        if run.masked != 0:
            is_step = p.nonzero(p.load(run.marks, row, count, run.like)) & is_there
        decay = p.load(run.decay, row, count, run.like) if run.by_row != 0 else factors
        following = p.choose(is_step, decay * state + p.load(run.x, row, count, run.like), state)
        written = following
        if way.exclusive != 0:
            written = state
        elif way.blank != 0:
            written = p.choose(is_step, following, zero)
        p.store(run.out, row, p.choose(is_there, written, zero))
        state = following
        if run.ending != 0:
            state = p.choose(p.nonzero(p.load(run.ends, row, count, run.like)) & is_there, zero, state)
        t += 1 - 2 * way.back
        rows -= one
    for k in range(count):
        i, _, _ = p.locate(run.at, u + k)
        run.like[i] = p.lane_of(state, k)
    return True


@p.compiled
def cpu(
    given: Given, results: Results, at: Layout, strides: p.Strides, course: p.Course, width: int, lo: int, hi: int
) -> None:
    """Units `lo` to `hi`."""
    _, _, initial, marks, ends = given
    by_row, by_column, by_sequence = strides
    back, exclusive, blank, chunk = course
    masked, ending, begun = int(marks.size > 0), int(ends.size > 0), initial.size > 0
    items, decays, starts, flags, stops = p.pointer(given)
    (made, states), where = p.pointer(results), p.pointer(at)
    u = lo
    while u < hi:
        if at.step > 1 and width == 1 and hi - u >= 16:  # a line of the cache has items of many columns
            run = Run(items, decays, flags, stops, made, states, where, u, 0, 1, 0, by_row, by_column, masked, ending)
            way = Way(by_sequence, int(begun), back, exclusive, blank, chunk)
            if recur_beside(run, u, starts, way, 16):
                u += 16
                continue
        i, first, length = p.locate(where, u)
        k = 0
        while k < width:
            count = 16 if width - k >= 16 else 4 if width - k >= 4 else 1
            own = i * by_sequence + k * by_column
            run = Run(
                items,
                decays,
                flags,
                stops,
                made,
                states,
                where,
                first,
                k,
                width,
                own,
                by_row,
                by_column,
                masked,
                ending,
            )
            place = i * width + k
            if count == 16:
                state = p.load(starts, place, 16, states) if begun else p.each(states, 0.0, 16)
                p.store(states, place, recur(run, length, state, back, exclusive, blank, chunk, 16))
            elif count == 4:
                state = p.load(starts, place, 4, states) if begun else p.each(states, 0.0, 4)
                p.store(states, place, recur(run, length, state, back, exclusive, blank, chunk, 4))
            else:
                state = p.load(starts, place, 1, states) if begun else p.each(states, 0.0, 1)
                p.store(states, place, recur(run, length, state, back, exclusive, blank, chunk, 1))
            k += count
        u += 1


class Rows(NamedTuple):
    """The part of a column that is a thread's own: `rows` items from t on, each `by` after the one before it."""

    first: int  # the row of item 0
    t: int
    rows: int
    by: int
    k: int
    own: int  # where its decays begin


@p.shared
def map_of(given: Given, final: Array, at: Layout, rows: Rows, by_row: int, width: int) -> Any:
    """Return what some rows make of a state of zero, the product of their decays, and whether they forget the state."""
    x, decay, _, marks, ends = given
    alone, product, cut = p.zero_in(final), p.number_in(final, 1), 0
    for step in range(rows.rows):
        row = rows.first + p.along(at, rows.t + step * rows.by)
        if marks.size == 0 or marks[row] != 0:
            factor = p.number_in(final, decay[rows.own + row * by_row])
            alone = times(factor, alone) + p.number_in(final, x[row * width + rows.k])
            product = product * factor
        if ends.size != 0 and ends[row] != 0:
            alone, cut = p.zero_in(final), 1
    return alone, product, cut


def cuda(given: Given, results: Results, at: Layout, strides: p.Strides, course: p.Course, width: int) -> None:
    """All units, a block each: the chunks of a column are shared by a line of threads, some chunks at a time."""
    x, decay, initial, marks, ends = given
    out, final = results
    by_row, by_column, by_sequence = strides
    back, exclusive, blank, chunk = course
    alone = p.natural(gpu.shared.array(128, final.dtype))
    product = p.natural(gpu.shared.array(128, final.dtype))
    before = p.natural(gpu.shared.array(128, final.dtype))  # at first whether a chunk forgets the state
    slot = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    by = 1 - 2 * back
    for u in range(gpu.blockIdx.x, at.cum.size - 1, gpu.gridDim.x):
        i, first, length = p.locate(at, u)
        chunks = (length + chunk - 1) // chunk
        for column in range(p.first_of_block(), width, p.columns_of_grid()):
            k = column + gpu.threadIdx.x
            own = i * by_sequence + k * by_column
            state = p.zero_in(final)
            if k < width and initial.size != 0:
                state = initial[i * width + k]
            for done in range(0, chunks, gpu.blockDim.y):
                mine = done + gpu.threadIdx.y
                is_there = k < width and mine < chunks
                number = chunks - 1 - mine if back != 0 else mine
                begin = number * chunk
                size = min(chunk, length - begin)
                rows = Rows(first, begin + back * (size - 1), size if is_there else 0, by, k, own)
                alone[slot], product[slot], before[slot] = p.zero_in(final), p.zero_in(final), p.zero_in(final)
                if is_there and mine + 1 < chunks:
                    found = map_of(given, final, at, rows, by_row, width)
                    alone[slot], product[slot], before[slot] = found[0], found[1], p.number_in(final, found[2])
                gpu.syncthreads()
                if gpu.threadIdx.y == 0:
                    for j in range(slot, gpu.blockDim.x * gpu.blockDim.y, gpu.blockDim.x):
                        forgets = before[j] != 0 or state == 0
                        before[j] = state
                        state = alone[j] if forgets else times(product[j], state) + alone[j]
                gpu.syncthreads()
                y = before[slot]
                for step in range(rows.rows):
                    row = first + p.along(at, rows.t + step * by)
                    place = row * width + k
                    is_step = marks.size == 0 or marks[row] != 0
                    written = y
                    if is_step:
                        y = times(p.number_in(final, decay[own + row * by_row]), y) + p.number_in(final, x[place])
                    if exclusive == 0:
                        written = p.zero_in(final) if blank != 0 and not is_step else y
                    out[place] = p.item_in(out, written)
                    if ends.size != 0 and ends[row] != 0:
                        y = p.zero_in(final)
                if is_there and mine + 1 == chunks:
                    final[i * width + k] = y
                gpu.syncthreads()  # before the memory is used again
            if chunks == 0 and k < width and gpu.threadIdx.y == 0:
                final[i * width + k] = state


TAKES = (("f4", "f4"), ("f4", "f8"), ("f8", "f8"))  # items, and their decays
KERNEL = p.KernelSpec(
    cpu, cuda, p.CALCULATES, "sequences", tuple((kind, by, "f8", "u1", "u1", kind, "f8") for kind, by in TAKES)
)
