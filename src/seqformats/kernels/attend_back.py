"""The gradients of `attend_rows`, which see: of q, k and v, in the layouts of these, of the bias and the sinks.

The gradient of a table is its own; of slopes and sinks there is one of each query and head.  Unit u does
the jobs from ``begins[u]`` to ``begins[u + 1]``: sequences, each for every group of heads that share keys and values;
or where the gradient of a table is wanted groups, each for every sequence, so that no two units add to one number.

The powers are calculated again of the scores: T. Dao, FlashAttention-2, 2023.  Blocks of 128 keys meet 32
queries, or 16, in lanes, one tile after the other, so every sum has its order, whatever the threads.
"""

from typing import NamedTuple

from ..operations.attention_rows import (
    Answered,
    AttentionJobs,
    AttentionPlaces,
    AttentionReach,
    AttentionSizes,
    AttentionSlopes,
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
def begin(given: Answered, x: Array, at: Layout, factor: float, put: p.Tiles, of: p.Queries, count: int) -> None:
    """Bring queries, and their part of `dy`, into lanes: as they are, and behind that mirrored."""
    deep, wide, high, low, one = put.deep, put.wide, put.high, put.low, p.unknown(1)
    spare = put.slopes + 32 * low  # where slopes are to lie mirrored; until then a row of y
    c = 0
    while c < count:
        if c < of.some:
            row = (of.first + p.along(at, of.t + c)) * of.heads + of.head
            p.pack_row(given.q, row * deep, deep, x, put.queries + c * high, high, factor)
            p.pack_row(given.dy, row * wide, wide, x, put.slopes + c * low, low, 1)
            p.pack_row(given.y, row * wide, wide, x, spare, low, 1)
            total = p.each(x, 0, 16)
            k = 0
            while k < low:
                total += p.load(x, put.slopes + c * low + k, 16, x) * p.load(x, spare + k, 16, x)
                k += 16 * one
            p.store(x, of.state + c, p.load(given.kept, 2 * row, 1, x))
            p.store(x, of.state + count + c, p.load(given.kept, 2 * row + 1, 1, x))
            p.store(x, of.state + 2 * count + c, p.each(x, p.fold_add(total), 1))
        else:
            p.clear_rows(x, put.queries + c * high, high)
            p.clear_rows(x, put.slopes + c * low, low)
            for k in range(3):
                p.store(x, of.state + k * count + c, p.each(x, 0, 1))
        c += 1
    p.mirror(x, put.queries, count, high, x, put.queries + 32 * high)
    p.mirror(x, put.slopes, count, low, x, spare)


@p.in_lanes
def add_products(x: Array, out: int, wide: int, factors: int, rows: int, some: int, sight: p.Sight, count: int) -> None:
    """Add to rows of `out`, one a key, those of queries in lanes, weighted by `factors`."""
    j = sight.start
    while j < sight.stop:
        a, c = factors + j * count, 0
        while c < wide:
            product = p.Product(out + j * wide + c, wide, a, count, 1, rows + c, wide, some, 1)
            if wide - c >= 32:
                p.multiply(x, product, 32)
                c += 32
            else:
                p.multiply(x, product, 16)
                c += 16
        j += 8


@p.in_lanes
def weigh(x: Array, terms: ScoreTerms, put: p.Tiles, sight: p.Sight, state: int, count: int) -> None:
    """Make of the scores of a tile the weights, after dropout, and of the slopes of these those of the scores."""
    powers, start, stop, one = put.scores, sight.start, sight.stop, p.unknown(1)
    changes, factors = powers + 128 * 32, put.spare + 3 * 128 * 32
    top, inverse, mean = (
        p.load(x, state, count, x),
        p.load(x, state + count, count, x),
        p.load(x, state + 2 * count, count, x),
    )
    zero, lanes = p.each(x, 0, count), p.load(x, put.numbers, count, x)
    j = start
    while j < stop:
        power = p.exp(p.load(x, powers + j * count, count, x) - top) * inverse
        change = p.load(x, changes + j * count, count, x)
        weight = power
        if terms.drop != 0:
            factor = p.load(x, factors + j * count, count, x)
            weight, change = power * factor, change * factor
        change = power * (change - mean)
        if sight.masked != 0:
            seen = p.seen_lanes(lanes, x, sight, j, count)
            weight, change = p.choose(seen, weight, zero), p.choose(seen, change, zero)
        p.store(x, powers + j * count, weight)
        p.store(x, changes + j * count, change)
        j += one
    while j & 7 != 0:
        p.store(x, powers + j * count, zero)
        p.store(x, changes + j * count, zero)
        j += one


@p.in_lanes
def advance(
    x: Array,
    terms: ScoreTerms,
    put: p.Tiles,
    of: p.Queries,
    sight: p.Sight,
    gives: tuple[AttentionSlopes, int],
    at: Layout,
    count: int,
) -> None:
    """Let queries in lanes meet some keys of a block; their gradients come where the queries were.

    Those of bias and sinks, where they are wanted, go to `made`.
    """
    made, wanted = gives
    high, low, powers, start, stop, one = put.high, put.low, put.scores, sight.start, sight.stop, p.unknown(1)
    changes = powers + 128 * 32
    mirrored, slopes = put.queries + 32 * high, put.slopes + 32 * low
    j = start
    while j < stop:
        q = j * count
        p.multiply(x, p.Product(powers + q, count, put.keys + j * high, high, 1, mirrored, count, high, 0), count)
        p.multiply(x, p.Product(changes + q, count, put.values + j * low, low, 1, slopes, count, low, 0), count)
        j += 8
    if terms.changes != 0:
        p.change_scores(x, terms, put, powers, of, sight, count)
        if terms.drop != 0:
            p.draw_tile(x, terms, put, of, sight, count)
    weigh(x, terms, put, sight, of.state, count)
    if wanted & 1 != 0:
        p.add_bias_slopes(x, terms, put, changes, of, sight, (made.bias, at), count)
    if wanted & 2 != 0:
        p.give_sink_slopes(x, terms, put, of, made.sinks, at, count)
    if terms.changes & 2 != 0:
        bends = put.spare + 2 * 128 * 32
        j = start
        while j < stop:
            bent = p.load(x, changes + j * count, count, x) * p.load(x, bends + j * count, count, x)
            p.store(x, changes + j * count, bent)
            j += one
    grown = put.values + 128 * low  # the gradients of the keys, and behind them those of the values
    add_products(x, grown, high, changes, put.queries, of.some, sight, count)
    add_products(x, grown + 128 * high, low, powers, put.slopes, of.some, sight, count)
    keys, first = put.keys + start * high, changes + start * count
    c = 0
    while c < high:
        p.multiply(x, p.Product(mirrored + c * count, count, keys + c, 1, high, first, count, stop - start, 0), count)
        c += 8
    p.mirror(x, mirrored, high, count, x, put.queries)


@p.compiled
def cpu(
    given: Answered,
    terms: ScoreTerms,
    made: AttentionSlopes,
    scratch: Array,
    plan: Plan,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; `width` are the heads."""
    at, reach, jobs, sizes = plan
    n = at.units.size // 3
    factor = terms.factors.numbers[0]
    most = 16 if scratch.itemsize == 8 else 32
    wanted = (1 if made.bias.size != 0 else 0) + (2 if made.sinks.size != 0 else 0)
    given, terms, made, x = p.pointer(given), p.pointer(terms), p.pointer(made), p.pointer(scratch)
    at_q, at_k, at_v = p.pointer(at.q), p.pointer(at.k), p.pointer(at.v)
    groups, share, deep, wide = sizes
    high, low = (deep + 15) & -16, (wide + 15) & -16
    inner = n if jobs.by_group != 0 else groups
    for u in range(lo, hi):
        numbers = u * jobs.room
        state = numbers + 32
        keys = state + 96
        values = keys + 128 * high
        dkeys = values + 128 * low
        dvalues = dkeys + 128 * high
        scores = dvalues + 128 * low
        queries = scores + 2 * 128 * 32
        slopes = queries + 2 * 32 * high
        put = p.Tiles(
            deep, wide, high, low, numbers, keys, values, scores, queries, slopes, state, slopes + 2 * 32 * low
        )
        for c in range(32):
            p.store(x, numbers + c, p.each(x, c, 1))
        for job in range(jobs.begins[u] * inner, jobs.begins[u + 1] * inner):
            i = job // inner
            group = job - i * inner
            if jobs.by_group != 0:
                i, group = group, i
            _, row, length = p.locate(at_q, at.units[i])
            _, row_k, length_k = p.locate(at_k, at.units[n + i])
            _, row_v, _ = p.locate(at_v, at.units[2 * n + i])
            prefix = p.prefix_of(reach, i)
            block = 0
            while block < length_k:
                size = p.at_most(length_k - block, 128)
                for j in range(size):
                    a = (row_k + p.along(at_k, block + j)) * groups + group
                    p.pack_row(given.k, a * deep, deep, x, keys + j * high, high, 1)
                    a = (row_v + p.along(at_v, block + j)) * groups + group
                    p.pack_row(given.v, a * wide, wide, x, values + j * low, low, 1)
                whole = (size + 7) & -8
                p.clear_rows(x, keys + size * high, (whole - size) * high)
                p.clear_rows(x, values + size * low, (whole - size) * low)
                p.clear_rows(x, dkeys, whole * high)
                p.clear_rows(x, dvalues, whole * low)
                for head in range(group * share, (group + 1) * share):
                    t = 0
                    while t < length:
                        count = most if length - t > 16 else 16
                        some = p.at_most(length - t, count)
                        sight = p.look(reach, prefix, block, size, length_k - length + t - block, some)
                        if sight.start < sight.stop:
                            of = p.Queries(row, t, some, head, width, state, i)
                            if count == 32:
                                begin(given, x, at_q, factor, put, of, 32)
                                advance(x, terms, put, of, sight, (made, wanted), at_q, 32)
                            else:
                                begin(given, x, at_q, factor, put, of, 16)
                                advance(x, terms, put, of, sight, (made, wanted), at_q, 16)
                            for c in range(some):
                                a = ((row + p.along(at_q, t + c)) * width + head) * deep
                                p.add_row(x, queries + c * high, made.q, a, deep, factor)
                        t += count
                for j in range(size):
                    a = (row_k + p.along(at_k, block + j)) * groups + group
                    p.give_row(x, dkeys + j * high, made.k, a * deep, deep)
                    a = (row_v + p.along(at_v, block + j)) * groups + group
                    p.give_row(x, dvalues + j * low, made.v, a * wide, wide)
                block += 128


def cuda(given: Answered, terms: ScoreTerms, made: AttentionSlopes, scratch: Array, plan: Plan, width: int) -> None:
    """All queries, then all keys, a block each, whose threads share what those meet; then the rows of the table."""
    at, reach, _, sizes = plan
    q, k, v, y, dy, kept = given
    parts = p.natural(gpu.shared.array(128, q.dtype))
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    n = at.q.cum.size - 1
    groups, share, deep, wide = sizes
    factor = terms.factors.numbers[0]
    for r in range(gpu.blockIdx.x, at.q.cum[n], gpu.gridDim.x):
        i, t, row = p.find(at.q, r)
        _, row_k, length = p.locate(at.k, at.units[n + i])
        _, row_v, _ = p.locate(at.v, at.units[2 * n + i])
        spot = t + length - (at.q.cum[i + 1] - at.q.cum[i])
        prefix = p.prefix_of(reach, i)
        start = 0 if prefix > 0 else p.first_seen(reach, spot)
        stop = p.at_most(length, p.at_least(p.last_seen(reach, spot) + 1, prefix))
        head = row * width
        for group in range(groups):
            for _ in range(share):
                own = head - row * width
                mean = p.dot(y, head * wide, dy, head * wide, wide)
                column = 0
                while column < p.at_least(
                    deep, 1
                ):  # the same turns for the whole block, which waits for each other below
                    total, far = q.dtype.type(0), q.dtype.type(0)
                    c = column + me
                    for block in range(start, stop, threads):
                        j = block + me
                        if j < stop:
                            parts[me] = q.dtype.type(0)
                            if p.sees(reach, prefix, spot, j):
                                a = (row_k + p.along(at.k, j)) * groups + group
                                score, slope = p.score_of(
                                    (q, head * deep), (k, a * deep), deep, terms, own, (t, spot, j)
                                )
                                power = p.exp(score - kept[2 * head]) * kept[2 * head + 1]
                                a = (row_v + p.along(at.v, j)) * groups + group
                                change = p.dot(dy, head * wide, v, a * wide, wide) * p.scale_of(q, terms, i, own, t, j)
                                parts[me] = power * (change - mean)
                                far += parts[me] * q.dtype.type(spot - j if spot > j else j - spot)
                                parts[me] *= slope
                        gpu.syncthreads()
                        if c < deep:
                            for b in range(threads):
                                if block + b < stop:
                                    a = (row_k + p.along(at.k, block + b)) * groups + group
                                    total += parts[b] * k[a * deep + c]
                        gpu.syncthreads()
                    if c < deep:
                        made.q[head * deep + c] = total * factor
                    if made.sinks.size != 0 and column == 0 and me == 0 and kept[2 * head + 1] != 0:
                        made.sinks[head] = -p.exp(terms.sinks[own] - kept[2 * head]) * kept[2 * head + 1] * mean
                    if terms.form == 2 and made.bias.size != 0 and column == 0:
                        parts[me] = far
                        gpu.syncthreads()
                        if me == 0:
                            total = q.dtype.type(0)
                            for b in range(threads):
                                total += parts[b]
                            made.bias[head] = -total
                        gpu.syncthreads()
                    column += threads
                head += 1
    for r in range(gpu.blockIdx.x, at.k.cum[n], gpu.gridDim.x):
        i, j, row_k = p.find(at.k, r)
        _, row, length = p.locate(at.q, at.units[i])
        _, row_v, _ = p.locate(at.v, at.units[2 * n + i])
        row_v += p.along(at.v, j)
        shift = at.k.cum[i + 1] - at.k.cum[i] - length  # query t stands at t + shift
        prefix = p.prefix_of(reach, i)
        start, stop = 0, length
        if prefix == 0:
            start, stop = p.at_least(j - reach.right - shift, 0), p.at_most(j + reach.left - shift + 1, length)
        for group in range(groups):
            own, other = row_k * groups + group, row_v * groups + group
            column = 0
            while column < deep + wide:  # those of dk, and from `deep` on those of dv
                total = q.dtype.type(0)
                c = column + me
                for block in range(start, stop, threads):
                    for shared_by in range(share):
                        t = block + me
                        head = group * share + shared_by
                        if t < stop:
                            parts[me] = q.dtype.type(0)
                            if p.sees(reach, prefix, t + shift, j):
                                a = (row + p.along(at.q, t)) * width + head
                                score, slope = p.score_of(
                                    (q, a * deep), (k, own * deep), deep, terms, head, (t, t + shift, j)
                                )
                                power = p.exp(score - kept[2 * a]) * kept[2 * a + 1]
                                weight = p.scale_of(q, terms, i, head, t, j)
                                if column < deep:
                                    change = p.dot(dy, a * wide, v, other * wide, wide) * weight
                                    mean = p.dot(y, a * wide, dy, a * wide, wide)
                                    parts[me] = power * (change - mean) * slope
                                else:
                                    parts[me] = power * weight
                        gpu.syncthreads()
                        for b in range(threads):
                            if block + b < stop:
                                a = (row + p.along(at.q, block + b)) * width + head
                                if column < deep:
                                    if c < deep:
                                        total += parts[b] * q[a * deep + c]
                                elif c < deep + wide:
                                    total += parts[b] * dy[a * wide + c - deep]
                        gpu.syncthreads()
                if column < deep:
                    if c < deep:
                        made.k[own * deep + c] = total * factor
                elif c < deep + wide:
                    made.v[other * wide + c - deep] = total
                column = deep if column < deep <= column + threads else column + threads
    if terms.form != 1 or made.bias.size == 0:
        return
    # a query of a head in the table, of all sequences that are so long
    for r in range(gpu.blockIdx.x, width * terms.rows, gpu.gridDim.x):
        head = r // terms.rows
        t = r - head * terms.rows
        group = head // share
        j = me
        while j < terms.columns:
            total = q.dtype.type(0)
            for i in range(n):
                _, row, length = p.locate(at.q, at.units[i])
                _, row_k, length_k = p.locate(at.k, at.units[n + i])
                _, row_v, _ = p.locate(at.v, at.units[2 * n + i])
                spot = t + length_k - length
                if t < length and j < length_k and p.sees(reach, p.prefix_of(reach, i), spot, j):
                    a = (row + p.along(at.q, t)) * width + head
                    b = ((row_k + p.along(at.k, j)) * groups + group) * deep
                    score, _ = p.score_of((q, a * deep), (k, b), deep, terms, head, (t, spot, j))
                    power = p.exp(score - kept[2 * a]) * kept[2 * a + 1]
                    b = ((row_v + p.along(at.v, j)) * groups + group) * wide
                    change = p.dot(dy, a * wide, v, b, wide) * p.scale_of(q, terms, i, head, t, j)
                    total += power * (change - p.dot(y, a * wide, dy, a * wide, wide))
            made.bias[r * terms.columns + j] = total
            j += threads


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", p.alike(p.FLOATS, 15))
