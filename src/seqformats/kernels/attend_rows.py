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
from typing import NamedTuple

from ..operations.attention_rows import (
    Attended,
    Attention,
    AttentionJobs,
    AttentionPlaces,
    AttentionReach,
    AttentionSizes,
    ScoreTerms,
)
from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


class Plan(NamedTuple):
    """Layouts of queries, keys and values, their reach, and the jobs."""

    at: AttentionPlaces
    reach: AttentionReach
    jobs: AttentionJobs
    sizes: AttentionSizes


@p.in_lanes
def begin(q: Array, x: Array, at: Layout, factor: float, put: p.Tiles, of: p.Queries, clear: int, count: int) -> None:
    """Bring queries into lanes, with sums of zero where `clear` is 1."""
    high, low, c = put.high, put.low, 0
    while c < count:
        if c < of.some:
            row = (of.first + p.along(at, of.t + c)) * of.heads + of.head
            p.pack_row(q, row * put.deep, put.deep, x, put.queries + c * high, high, factor)
        else:
            p.clear_rows(x, put.queries + c * high, high)
        c += 1
    p.mirror(x, put.queries, count, high, x, of.state)
    if clear != 0:
        p.clear_rows(x, of.state + high * count, low * count)
    p.store(x, of.state + (high + low) * count, p.each(x, -math.inf, count))
    p.store(x, of.state + (high + low + 1) * count, p.each(x, 0, count))


@p.in_lanes
def advance(x: Array, terms: ScoreTerms, put: p.Tiles, of: p.Queries, sight: p.Sight, count: int) -> None:
    """Let queries in lanes see some keys of a block."""
    high, low, scores, state, start, stop = put.high, put.low, put.scores, of.state, sight.start, sight.stop
    one = p.unknown(1)
    j = start
    while j < stop:
        p.multiply(x, p.Product(scores + j * count, count, put.keys + j * high, high, 1, state, count, high, 0), count)
        j += 8
    if terms.changes != 0:
        p.change_scores(x, terms, put, scores, of, sight, count)
    best = state + (high + low) * count
    before = p.load(x, best, count, x)
    top, other = before, before
    least = p.each(x, -math.inf, count)
    if sight.masked != 0:
        lanes = p.load(x, put.numbers, count, x)
        j = start
        while j < stop:
            value = p.choose(p.seen_lanes(lanes, x, sight, j, count), p.load(x, scores + j * count, count, x), least)
            p.store(x, scores + j * count, value)
            top = p.choose(value > top, value, top)
            j += one
    else:
        j = start
        while j + 2 <= stop:  # two at a time, since a comparison waits for the one before
            value = p.load(x, scores + j * count, count, x)
            top = p.choose(value > top, value, top)
            value = p.load(x, scores + (j + 1) * count, count, x)
            other = p.choose(value > other, value, other)
            j += 2
        if j < stop:
            value = p.load(x, scores + j * count, count, x)
            top = p.choose(value > top, value, top)
        top = p.choose(other > top, other, top)
    p.store(x, best, top)
    top = p.choose(top == least, p.each(x, 0, count), top)  # where nothing is seen yet, nothing is to be NaN
    total = p.each(x, 0, count)
    j = start
    while j < stop:
        power = p.exp(p.load(x, scores + j * count, count, x) - top)
        total += power
        p.store(x, scores + j * count, power)
        j += one
    if terms.drop != 0:
        p.draw_tile(x, terms, put, of, sight, count)
        factors = put.spare + 3 * 128 * 32
        j = start
        while j < stop:
            kept = p.load(x, scores + j * count, count, x) * p.load(x, factors + j * count, count, x)
            p.store(x, scores + j * count, kept)
            j += one
    sums = state + high * count
    if sight.fresh == 0:
        shrunk = p.exp(before - top)
        total += p.load(x, best + count, count, x) * shrunk
        c = 0
        while c < low:
            p.store(x, sums + c * count, p.load(x, sums + c * count, count, x) * shrunk)
            c += one
    p.store(x, best + count, total)
    values, first, adds = put.values + start * low, scores + start * count, 1 - sight.fresh
    c = 0
    while c < low:
        p.multiply(x, p.Product(sums + c * count, count, values + c, 1, low, first, count, stop - start, adds), count)
        c += 8


@p.in_lanes
def finish(x: Array, made: Attention, terms: ScoreTerms, at: Layout, put: p.Tiles, of: p.Queries, count: int) -> None:
    """Write the results of queries in lanes."""
    low, wide = put.low, put.wide
    sums = of.state + put.high * count
    best = sums + low * count
    top, total = p.load(x, best, count, x), p.load(x, best + count, count, x)
    zero, one = p.each(x, 0, count), p.each(x, 1, count)
    nothing = total == zero
    factor = one
    if terms.sunk != 0:
        sink = p.each(x, terms.sinks[of.head], count)
        higher = p.choose(sink > top, sink, top)
        higher = p.choose(higher == p.each(x, -math.inf, count), zero, higher)
        factor = p.exp(top - higher)
        total = total * factor + p.exp(sink - higher)
        top = higher
    inverse = p.choose(nothing, zero, one / p.choose(nothing, one, total))
    p.store(x, best, p.choose(nothing, zero, top))
    p.store(x, best + count, inverse)
    factor = factor * inverse
    c = 0
    while c < low:
        p.store(x, sums + c * count, p.choose(nothing, zero, p.load(x, sums + c * count, count, x) * factor))
        c += 1
    p.mirror(x, sums, low, count, x, put.queries)
    c = 0
    while c < of.some:
        row = (of.first + p.along(at, of.t + c)) * of.heads + of.head
        p.give_row(x, put.queries + c * low, made.out, row * wide, wide)
        p.store(made.kept, 2 * row, p.load(x, best + c, 1, x))
        p.store(made.kept, 2 * row + 1, p.load(x, best + count + c, 1, x))
        c += 1


@p.compiled
def cpu(
    given: Attended,
    terms: ScoreTerms,
    made: Attention,
    scratch: Array,
    plan: Plan,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    at, reach, jobs, sizes = plan
    n = at.units.size // 3
    factor = terms.factors.numbers[0]
    most = 16 if scratch.itemsize == 8 else 32
    given, terms, made, x = p.pointer(given), p.pointer(terms), p.pointer(made), p.pointer(scratch)
    at_q, at_k, at_v = p.pointer(at.q), p.pointer(at.k), p.pointer(at.v)
    groups, share, deep, wide = sizes
    high, low = (deep + 15) & -16, (wide + 15) & -16
    for u in range(lo, hi):
        numbers = u * jobs.room
        keys = numbers + 32
        values = keys + 128 * high
        scores = values + 128 * low
        rows = scores + 128 * 32
        states = rows + 32 * p.at_least(high, low)
        spare = states + 256 * (high + low + 2)
        put = p.Tiles(deep, wide, high, low, numbers, keys, values, scores, rows, rows, states, spare)
        for c in range(32):
            p.store(x, numbers + c, p.each(x, c, 1))
        for job in range(jobs.begins[u] * width, jobs.begins[u + 1] * width):
            w = job // width
            head = job - w * width
            group = head // share
            i, begun = jobs.places[2 * w], jobs.places[2 * w + 1]
            _, row, length = p.locate(at_q, at.units[i])
            _, row_k, length_k = p.locate(at_k, at.units[n + i])
            _, row_v, _ = p.locate(at_v, at.units[2 * n + i])
            queries = p.at_most(length - begun, 256)
            shift = begun + length_k - length
            prefix = p.prefix_of(reach, i)
            clear = 1 if reach.chunk != 0 or prefix > 0 else 0
            t = 0
            while t < queries:
                count = most if queries - t > 16 else 16
                state = states + t * (high + low + 2)
                of = p.Queries(row, begun + t, p.at_most(queries - t, count), head, width, state, i)
                if count == 32:
                    begin(given.q, x, at_q, factor, put, of, clear, 32)
                else:
                    begin(given.q, x, at_q, factor, put, of, clear, 16)
                t += count
            lowest = p.first_seen(reach, shift) & -128
            to = p.at_most(length_k, p.at_least(p.last_seen(reach, shift + queries - 1) + 1, prefix))
            block = 0 if prefix > 0 else lowest
            while block < to:
                size = p.at_most(length_k - block, 128)
                for j in range(size):
                    a = (row_k + p.along(at_k, block + j)) * groups + group
                    p.pack_row(given.k, a * deep, deep, x, keys + j * high, high, 1)
                    a = (row_v + p.along(at_v, block + j)) * groups + group
                    p.pack_row(given.v, a * wide, wide, x, values + j * low, low, 1)
                p.clear_rows(x, keys + size * high, (((size + 7) & -8) - size) * high)
                t = 0
                while t < queries:
                    count = most if queries - t > 16 else 16
                    some = p.at_most(queries - t, count)
                    sight = p.look(reach, prefix, block, size, shift + t - block, some)
                    if sight.start < sight.stop:
                        of = p.Queries(row, begun + t, some, head, width, states + t * (high + low + 2), i)
                        if count == 32:
                            advance(x, terms, put, of, sight, 32)
                        else:
                            advance(x, terms, put, of, sight, 16)
                    t += count
                block += 128
                if block >= prefix:
                    block = p.at_least(block, lowest)
            t = 0
            while t < queries:
                count = most if queries - t > 16 else 16
                state = states + t * (high + low + 2)
                of = p.Queries(row, begun + t, p.at_most(queries - t, count), head, width, state, i)
                if count == 32:
                    finish(x, made, terms, at_q, put, of, 32)
                else:
                    finish(x, made, terms, at_q, put, of, 16)
                t += count


def cuda(given: Attended, terms: ScoreTerms, made: Attention, scratch: Array, plan: Plan, width: int) -> None:
    """All queries, a block each, whose threads share the keys, and then the columns."""
    at, reach, _, sizes = plan
    q, k, v, out, kept = given.q, given.k, given.v, made.out, made.kept
    parts = p.natural(gpu.shared.array(128, q.dtype))
    weights = p.natural(gpu.shared.array(128, q.dtype))  # the same after dropout
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    n = at.q.cum.size - 1
    groups, share, deep, wide = sizes
    for r in range(gpu.blockIdx.x, at.q.cum[n], gpu.gridDim.x):
        i, t, row = p.find(at.q, r)
        _, row_k, length = p.locate(at.k, at.units[n + i])
        _, row_v, _ = p.locate(at.v, at.units[2 * n + i])
        spot = t + length - (at.q.cum[i + 1] - at.q.cum[i])
        prefix = p.prefix_of(reach, i)
        start = 0 if prefix > 0 else p.first_seen(reach, spot)
        stop = p.at_most(length, p.at_least(p.last_seen(reach, spot) + 1, prefix))
        head = 0
        for group in range(groups):
            for _ in range(share):
                own = (row * width + head) * deep
                top = q.dtype.type(-math.inf)
                j = start + me
                while j < stop:
                    if p.sees(reach, prefix, spot, j):
                        a = ((row_k + p.along(at.k, j)) * groups + group) * deep
                        score, _ = p.score_of((q, own), (k, a), deep, terms, head, (t, spot, j))
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
                # the same turns for the whole block, which waits for each other below
                for column in range(0, wide, threads):
                    total = q.dtype.type(0)
                    value = q.dtype.type(0)
                    c = column + me
                    for block in range(start, stop, threads):
                        j = block + me
                        if j < stop:
                            a = ((row_k + p.along(at.k, j)) * groups + group) * deep
                            parts[me] = q.dtype.type(0)
                            if p.sees(reach, prefix, spot, j):
                                score, _ = p.score_of((q, own), (k, a), deep, terms, head, (t, spot, j))
                                parts[me] = p.exp(score - top)
                            weights[me] = parts[me] * p.scale_of(q, terms, i, head, t, j)
                        gpu.syncthreads()
                        for b in range(threads):
                            if block + b < stop:
                                total += parts[b]
                                if c < wide:
                                    a = ((row_v + p.along(at.v, block + b)) * groups + group) * wide
                                    value += weights[b] * v[a + c]
                        gpu.syncthreads()
                    nothing = total == 0
                    if terms.sunk != 0:
                        total += p.exp(terms.sinks[head] - top)
                    if c < wide:
                        out[(row * width + head) * wide + c] = q.dtype.type(0) if nothing else value / total
                    if me == 0:
                        kept[2 * (row * width + head)] = q.dtype.type(0) if nothing else top
                        one = q.dtype.type(1)
                        kept[2 * (row * width + head) + 1] = q.dtype.type(0) if nothing else one / total
                head += 1


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", p.alike(p.FLOATS, 9))
