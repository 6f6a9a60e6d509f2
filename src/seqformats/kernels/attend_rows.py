"""Attention along every sequence: for every query the mean of the values, weighted by the softmax of its scores.

The arguments are the named tuples of `operations.attention_rows`, which tell the shapes.  A score is the product of a
query and a key times the scale, then bent below the soft cap, ``cap * tanh(score / cap)``, then added to the bias.
Query t, which stands at ``p = t + keys - queries``, sees the keys from ``p - left`` to ``p + right`` that are in its
chunk, and those of the prefix.  A sink is one more score, whose value is zero.  Dropout comes after the softmax.

Work is cut into pairs of a sequence and the first of 256 of its queries, each for every head; unit u does those from
``begins[u]`` on, of all heads, and has ``room`` numbers of ``scratch`` to itself; `width` are the heads.

Softmax as the keys come: M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018; M. N. Rabe and
C. Staats, Self-attention does not need O(n^2) memory, 2021; T. Dao and others, FlashAttention, 2022.  Of 32 queries, or
16, each has a lane, and they meet the keys one after the other, in blocks of 128 whose powers are added up in float32.
The soft cap: Gemma 2, 2024.  Slopes as a bias: O. Press, N. Smith and M. Lewis, ALiBi, 2022.  Sinks: G. Xiao and
others, Efficient streaming language models with attention sinks, 2024.
"""

import math
from typing import TYPE_CHECKING

from ..operations.attention_rows import (
    Attended,
    Attention,
    AttentionJobs,
    AttentionPlaces,
    AttentionReach,
    AttentionSizes,
    ScoreTerms,
)
from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    KernelSpec,
    Layout,
    Product,
    Queries,
    Sight,
    Tiles,
    alike,
    along,
    at_least,
    at_most,
    change_scores,
    choose,
    clear_rows,
    compiled,
    draw_tile,
    each,
    first_seen,
    give_row,
    in_lanes,
    last_seen,
    load,
    locate,
    look,
    mirror,
    multiply,
    pack_row,
    pointer,
    prefix_of,
    seen_lanes,
    store,
    unknown,
)
from .parts import exp as exponential

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.device import find
    from .parts.gpu import exp, gpu, natural
    from .parts.meeting import scale_of, score_of, sees


@in_lanes
def begin(q: Array, x: Array, at: Layout, factor: float, put: Tiles, of: Queries, clear: int, count: int) -> None:
    """Bring queries into lanes, with sums of zero where `clear` is 1."""
    high, low, c = put.high, put.low, 0
    while c < count:
        if c < of.some:
            row = (of.first + along(at, of.t + c)) * of.heads + of.head
            pack_row(q, row * put.deep, put.deep, x, put.queries + c * high, high, factor)
        else:
            clear_rows(x, put.queries + c * high, high)
        c += 1
    mirror(x, put.queries, count, high, x, of.state)
    if clear != 0:
        clear_rows(x, of.state + high * count, low * count)
    store(x, of.state + (high + low) * count, each(x, -math.inf, count))
    store(x, of.state + (high + low + 1) * count, each(x, 0, count))


@in_lanes
def advance(x: Array, terms: ScoreTerms, put: Tiles, of: Queries, sight: Sight, count: int) -> None:
    """Let queries in lanes see some keys of a block."""
    high, low, scores, state, start, stop = put.high, put.low, put.scores, of.state, sight.start, sight.stop
    one = unknown(1)
    j = start
    while j < stop:
        multiply(x, Product(scores + j * count, count, put.keys + j * high, high, 1, state, count, high, 0), count)
        j += 8
    if terms.changes != 0:
        change_scores(x, terms, put, scores, of, sight, count)
    best = state + (high + low) * count
    before = load(x, best, count, x)
    top, other = before, before
    least = each(x, -math.inf, count)
    if sight.masked != 0:
        lanes = load(x, put.numbers, count, x)
        j = start
        while j < stop:
            value = choose(seen_lanes(lanes, x, sight, j, count), load(x, scores + j * count, count, x), least)
            store(x, scores + j * count, value)
            top = choose(value > top, value, top)
            j += one
    else:
        j = start
        while j + 2 <= stop:  # two at a time, since a comparison waits for the one before
            value = load(x, scores + j * count, count, x)
            top = choose(value > top, value, top)
            value = load(x, scores + (j + 1) * count, count, x)
            other = choose(value > other, value, other)
            j += 2
        if j < stop:
            value = load(x, scores + j * count, count, x)
            top = choose(value > top, value, top)
        top = choose(other > top, other, top)
    store(x, best, top)
    top = choose(top == least, each(x, 0, count), top)  # where nothing is seen yet, nothing is to be NaN
    total = each(x, 0, count)
    j = start
    while j < stop:
        power = exponential(load(x, scores + j * count, count, x) - top)
        total += power
        store(x, scores + j * count, power)
        j += one
    if terms.drop != 0:
        draw_tile(x, terms, put, of, sight, count)
        factors = put.spare + 3 * 128 * 32
        j = start
        while j < stop:
            kept = load(x, scores + j * count, count, x) * load(x, factors + j * count, count, x)
            store(x, scores + j * count, kept)
            j += one
    sums = state + high * count
    if sight.fresh == 0:
        shrunk = exponential(before - top)
        total += load(x, best + count, count, x) * shrunk
        c = 0
        while c < low:
            store(x, sums + c * count, load(x, sums + c * count, count, x) * shrunk)
            c += one
    store(x, best + count, total)
    values, first, adds = put.values + start * low, scores + start * count, 1 - sight.fresh
    c = 0
    while c < low:
        multiply(x, Product(sums + c * count, count, values + c, 1, low, first, count, stop - start, adds), count)
        c += 8


@in_lanes
def finish(x: Array, made: Attention, terms: ScoreTerms, at: Layout, put: Tiles, of: Queries, count: int) -> None:
    """Write the results of queries in lanes."""
    low, wide = put.low, put.wide
    sums = of.state + put.high * count
    best = sums + low * count
    top, total = load(x, best, count, x), load(x, best + count, count, x)
    zero, one = each(x, 0, count), each(x, 1, count)
    nothing = total == zero
    factor = one
    if terms.sunk != 0:
        sink = each(x, terms.sinks[of.head], count)
        higher = choose(sink > top, sink, top)
        higher = choose(higher == each(x, -math.inf, count), zero, higher)
        factor = exponential(top - higher)
        total = total * factor + exponential(sink - higher)
        top = higher
    inverse = choose(nothing, zero, one / choose(nothing, one, total))
    store(x, best, choose(nothing, zero, top))
    store(x, best + count, inverse)
    factor = factor * inverse
    c = 0
    while c < low:
        store(x, sums + c * count, choose(nothing, zero, load(x, sums + c * count, count, x) * factor))
        c += 1
    mirror(x, sums, low, count, x, put.queries)
    c = 0
    while c < of.some:
        row = (of.first + along(at, of.t + c)) * of.heads + of.head
        give_row(x, put.queries + c * low, made.out, row * wide, wide)
        store(made.kept, 2 * row, load(x, best + c, 1, x))
        store(made.kept, 2 * row + 1, load(x, best + count + c, 1, x))
        c += 1


@compiled
def cpu(
    given: Attended,
    terms: ScoreTerms,
    made: Attention,
    scratch: Array,
    at: AttentionPlaces,
    reach: AttentionReach,
    jobs: AttentionJobs,
    sizes: AttentionSizes,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    n = at.units.size // 3
    factor = terms.factors.numbers[0]
    most = 16 if scratch.itemsize == 8 else 32
    given, terms, made, x = pointer(given), pointer(terms), pointer(made), pointer(scratch)
    at_q, at_k, at_v = pointer(at.q), pointer(at.k), pointer(at.v)
    groups, share, deep, wide = sizes
    high, low = (deep + 15) & -16, (wide + 15) & -16
    for u in range(lo, hi):
        numbers = u * jobs.room
        keys = numbers + 32
        values = keys + 128 * high
        scores = values + 128 * low
        rows = scores + 128 * 32
        states = rows + 32 * at_least(high, low)
        spare = states + 256 * (high + low + 2)
        put = Tiles(deep, wide, high, low, numbers, keys, values, scores, rows, rows, states, spare)
        for c in range(32):
            store(x, numbers + c, each(x, c, 1))
        for job in range(jobs.begins[u] * width, jobs.begins[u + 1] * width):
            w = job // width
            head = job - w * width
            group = head // share
            i, begun = jobs.places[2 * w], jobs.places[2 * w + 1]
            _, row, length = locate(at_q, at.units[i])
            _, row_k, length_k = locate(at_k, at.units[n + i])
            _, row_v, _ = locate(at_v, at.units[2 * n + i])
            queries = at_most(length - begun, 256)
            shift = begun + length_k - length
            prefix = prefix_of(reach, i)
            clear = 1 if reach.chunk != 0 or prefix > 0 else 0
            t = 0
            while t < queries:
                count = most if queries - t > 16 else 16
                state = states + t * (high + low + 2)
                of = Queries(row, begun + t, at_most(queries - t, count), head, width, state, i)
                if count == 32:
                    begin(given.q, x, at_q, factor, put, of, clear, 32)
                else:
                    begin(given.q, x, at_q, factor, put, of, clear, 16)
                t += count
            lowest = first_seen(reach, shift) & -128
            to = at_most(length_k, at_least(last_seen(reach, shift + queries - 1) + 1, prefix))
            block = 0 if prefix > 0 else lowest
            while block < to:
                size = at_most(length_k - block, 128)
                for j in range(size):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    pack_row(given.k, a * deep, deep, x, keys + j * high, high, 1)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    pack_row(given.v, a * wide, wide, x, values + j * low, low, 1)
                clear_rows(x, keys + size * high, (((size + 7) & -8) - size) * high)
                t = 0
                while t < queries:
                    count = most if queries - t > 16 else 16
                    some = at_most(queries - t, count)
                    sight = look(reach, prefix, block, size, shift + t - block, some)
                    if sight.start < sight.stop:
                        of = Queries(row, begun + t, some, head, width, states + t * (high + low + 2), i)
                        if count == 32:
                            advance(x, terms, put, of, sight, 32)
                        else:
                            advance(x, terms, put, of, sight, 16)
                    t += count
                block += 128
                if block >= prefix:
                    block = at_least(block, lowest)
            t = 0
            while t < queries:
                count = most if queries - t > 16 else 16
                state = states + t * (high + low + 2)
                of = Queries(row, begun + t, at_most(queries - t, count), head, width, state, i)
                if count == 32:
                    finish(x, made, terms, at_q, put, of, 32)
                else:
                    finish(x, made, terms, at_q, put, of, 16)
                t += count


def cuda(
    given: Attended,
    terms: ScoreTerms,
    made: Attention,
    scratch: Array,  # noqa: ARG001  of the host
    at: AttentionPlaces,
    reach: AttentionReach,
    jobs: AttentionJobs,  # noqa: ARG001  of the host
    sizes: AttentionSizes,
    width: int,
) -> None:
    """All queries, a block each, whose threads share the keys, and then the columns."""
    q, k, v, out, kept = given.q, given.k, given.v, made.out, made.kept
    parts = natural(gpu.shared.array(128, q.dtype))
    weights = natural(gpu.shared.array(128, q.dtype))  # the same after dropout
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    n = at.q.cum.size - 1
    groups, share, deep, wide = sizes
    r = gpu.blockIdx.x
    while r < at.q.cum[n]:
        i, t, row = find(at.q, r)
        _, row_k, length = locate(at.k, at.units[n + i])
        _, row_v, _ = locate(at.v, at.units[2 * n + i])
        p = t + length - (at.q.cum[i + 1] - at.q.cum[i])
        prefix = prefix_of(reach, i)
        start = 0 if prefix > 0 else first_seen(reach, p)
        stop = at_most(length, at_least(last_seen(reach, p) + 1, prefix))
        head = 0
        for group in range(groups):
            for _ in range(share):
                own = (row * width + head) * deep
                top = q.dtype.type(-math.inf)
                j = start + me
                while j < stop:
                    if sees(reach, prefix, p, j):
                        a = ((row_k + along(at.k, j)) * groups + group) * deep
                        score, _ = score_of(q, own, k, a, deep, terms, head, t, p, j)
                        top = score if score > top else top
                    j += threads
                parts[me] = top
                gpu.syncthreads()
                half = threads >> 1
                while half > 0:
                    if me < half and parts[me + half] > parts[me]:
                        parts[me] = parts[me + half]
                    gpu.syncthreads()
                    half >>= 1
                top = parts[0]
                gpu.syncthreads()  # before the memory is used again
                if terms.sunk != 0 and terms.sinks[head] > top:
                    top = terms.sinks[head]
                if top == q.dtype.type(-math.inf):
                    top = q.dtype.type(0)
                column = 0
                while column < wide:  # the same turns for the whole block, which waits for each other below
                    total = q.dtype.type(0)
                    value = q.dtype.type(0)
                    c = column + me
                    block = start
                    while block < stop:
                        j = block + me
                        if j < stop:
                            a = ((row_k + along(at.k, j)) * groups + group) * deep
                            parts[me] = q.dtype.type(0)
                            if sees(reach, prefix, p, j):
                                score, _ = score_of(q, own, k, a, deep, terms, head, t, p, j)
                                parts[me] = exp(score - top)
                            weights[me] = parts[me] * scale_of(q, terms, i, head, t, j)
                        gpu.syncthreads()
                        for b in range(threads):
                            if block + b < stop:
                                total += parts[b]
                                if c < wide:
                                    a = ((row_v + along(at.v, block + b)) * groups + group) * wide
                                    value += weights[b] * v[a + c]
                        gpu.syncthreads()
                        block += threads
                    nothing = total == 0
                    if terms.sunk != 0:
                        total += exp(terms.sinks[head] - top)
                    if c < wide:
                        out[(row * width + head) * wide + c] = q.dtype.type(0) if nothing else value / total
                    if me == 0:
                        kept[2 * (row * width + head)] = q.dtype.type(0) if nothing else top
                        one = q.dtype.type(1)
                        kept[2 * (row * width + head) + 1] = q.dtype.type(0) if nothing else one / total
                    column += threads
                head += 1
        r += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", alike(FLOATS, 9))
