"""Attention along every sequence: for every query the mean of the values, weighted by the softmax of its scores.

``q`` and ``out`` hold the queries in a layout, `width` heads an item, `deep` and `wide` numbers each; ``k`` and ``v`` the
keys and the values in theirs, ``groups`` an item: ``share`` heads in a row have one in common.  A score is the product of
a query and a key, times ``scale[0]``.  Query t, which stands at ``p = t + keys - queries``, sees the keys from
``p - left`` to ``p + right``.  ``kept`` has two numbers a query and head: the largest score, and the reciprocal of the
sum of the powers beside it; both are 0 where nothing is seen, and so is ``out``.

``places`` has three rows of n: the unit of each sequence in the layouts of q, k and v.  Work is cut into ``jobs``, pairs
of a sequence and the first of 256 of its queries, each for every head; unit u does those from ``begins[u]`` on, of all
heads, and has ``room`` numbers of ``scratch`` to itself.

Softmax as the keys come: M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018; M. N. Rabe and
C. Staats, Self-attention does not need O(n^2) memory, 2021; T. Dao and others, FlashAttention, 2022.  Of 32 queries, or
16, each has a lane, and they meet the keys one after the other, in blocks of 128 whose powers are added up in float32.
"""

import math
from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Integers,
    KernelSpec,
    Layout,
    alike,
    along,
    at_least,
    at_most,
    choose,
    clear_rows,
    compiled,
    dot,
    each,
    give_row,
    in_lanes,
    load,
    locate,
    mirror,
    multiply,
    pack_row,
    pointer,
    store,
    unknown,
)
from .parts import exp as exponential

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import exp, find, gpu


@in_lanes
def begin(
    q: Array,
    tile: Array,
    at: Layout,
    factor: float,
    first: int,
    t: int,
    some: int,
    place: int,
    heads: int,
    deep: int,
    wide: int,
    staged: int,
    state: int,
    count: int,
) -> None:
    """Bring `some` queries of a head into lanes, where `place` is that of its numbers in the first row."""
    high, low = (deep + 15) & -16, (wide + 15) & -16
    c = 0
    while c < count:
        if c < some:
            row = first + along(at, t + c)
            pack_row(q, row * heads * deep + place, deep, tile, staged + c * high, high, factor)
        else:
            clear_rows(tile, staged + c * high, high)
        c += 1
    mirror(tile, staged, count, high, tile, state)
    store(tile, state + (high + low) * count, each(tile, -math.inf, count))
    store(tile, state + (high + low + 1) * count, each(tile, 0, count))


@in_lanes
def advance(
    tile: Array,
    numbers: int,
    keys: int,
    values: int,
    scores: int,
    state: int,
    high: int,
    low: int,
    start: int,
    stop: int,
    off: int,
    left: int,
    right: int,
    masked: int,
    fresh: int,
    count: int,
) -> None:
    """Let queries in lanes see the keys from `start`, a multiple of 8, to `stop` of a block; the first is at `off`."""
    one = unknown(1)
    j = start
    while j < stop:
        multiply(tile, scores + j * count, count, tile, keys + j * high, high, 1, tile, state, count, high, 0, count)
        j += 8
    best = state + (high + low) * count
    before = load(tile, best, count, tile)
    top = before
    least = each(tile, -math.inf, count)
    if masked != 0:
        lanes = load(tile, numbers, count, tile)
        j = start
        while j < stop:
            value = load(tile, scores + j * count, count, tile)
            from_ = at_most(at_least(j - off - right, 0), count)
            to = at_most(at_least(j - off + left, -1), count)
            seen = (lanes > each(tile, from_ - 1, count)) & (lanes < each(tile, to + 1, count))
            value = choose(seen, value, least)
            store(tile, scores + j * count, value)
            top = choose(value > top, value, top)
            j += one
    else:
        other = top
        j = start
        while j + 2 <= stop:
            value = load(tile, scores + j * count, count, tile)
            top = choose(value > top, value, top)
            value = load(tile, scores + (j + 1) * count, count, tile)
            other = choose(value > other, value, other)
            j += 2
        if j < stop:
            value = load(tile, scores + j * count, count, tile)
            top = choose(value > top, value, top)
        top = choose(other > top, other, top)
    store(tile, best, top)
    top = choose(top == least, each(tile, 0, count), top)  # where nothing is seen yet, nothing is to be NaN
    total = each(tile, 0, count)
    j = start
    while j < stop:
        power = exponential(load(tile, scores + j * count, count, tile) - top)
        total += power
        store(tile, scores + j * count, power)
        j += one
    sums = state + high * count
    if fresh == 0:
        shrunk = exponential(before - top)
        total += load(tile, best + count, count, tile) * shrunk
        c = 0
        while c < low:
            store(tile, sums + c * count, load(tile, sums + c * count, count, tile) * shrunk)
            c += one
    store(tile, best + count, total)
    c = 0
    while c < low:
        multiply(
            tile,
            sums + c * count,
            count,
            tile,
            values + start * low + c,
            1,
            low,
            tile,
            scores + start * count,
            count,
            stop - start,
            1 - fresh,
            count,
        )
        c += 8


@in_lanes
def finish(
    tile: Array,
    out: Array,
    kept: Array,
    at: Layout,
    first: int,
    t: int,
    some: int,
    head: int,
    heads: int,
    wide: int,
    staged: int,
    state: int,
    high: int,
    low: int,
    count: int,
) -> None:
    """Write the results of queries in lanes."""
    best, sums = state + (high + low) * count, state + high * count
    top, total = load(tile, best, count, tile), load(tile, best + count, count, tile)
    zero = each(tile, 0, count)
    nothing = total == zero
    inverse = choose(nothing, zero, each(tile, 1, count) / choose(nothing, each(tile, 1, count), total))
    store(tile, best, choose(nothing, zero, top))
    store(tile, best + count, inverse)
    c = 0
    while c < low:
        value = choose(nothing, zero, load(tile, sums + c * count, count, tile) * inverse)
        store(tile, sums + c * count, value)
        c += 1
    mirror(tile, sums, low, count, tile, staged)
    c = 0
    while c < some:
        row = (first + along(at, t + c)) * heads + head
        give_row(tile, staged + c * low, out, row * wide, wide)
        store(kept, 2 * row, load(tile, best + c, 1, tile))
        store(kept, 2 * row + 1, load(tile, best + count + c, 1, tile))
        c += 1


@compiled
def cpu(
    q: Array,
    k: Array,
    v: Array,
    scale: Array,
    out: Array,
    kept: Array,
    scratch: Array,
    at: Layout,
    at_k: Layout,
    at_v: Layout,
    places: Integers,
    jobs: Integers,
    begins: Integers,
    room: int,
    groups: int,
    share: int,
    deep: int,
    wide: int,
    left: int,
    right: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; `width` are the heads."""
    n = places.size // 3
    factor = scale[0]
    narrow = scale.itemsize == 8
    q, k, v, out, kept, tile = pointer(q), pointer(k), pointer(v), pointer(out), pointer(kept), pointer(scratch)
    at, at_k, at_v = pointer(at), pointer(at_k), pointer(at_v)
    high, low = (deep + 15) & -16, (wide + 15) & -16
    for u in range(lo, hi):
        numbers = u * room
        keys = numbers + 32
        values = keys + 128 * high
        scores = values + 128 * low
        staged = scores + 128 * 32
        states = staged + 32 * at_least(high, low)
        for c in range(32):
            store(tile, numbers + c, each(tile, c, 1))
        for job in range(begins[u] * width, begins[u + 1] * width):
            w = job // width
            head = job - w * width
            group = head // share
            i = jobs[2 * w]
            first = jobs[2 * w + 1]
            _, row, length = locate(at, places[i])
            _, row_k, length_k = locate(at_k, places[n + i])
            _, row_v, _ = locate(at_v, places[2 * n + i])
            queries = at_most(length - first, 256)
            shift = first + length_k - length
            from_ = at_least(shift - left, 0)
            to = at_most(length_k, shift + queries + right)
            t = 0
            while t < queries:
                some = queries - t
                state = states + t * (high + low + 2)
                if some > 16 and not narrow:
                    begin(
                        q,
                        tile,
                        at,
                        factor,
                        row,
                        first + t,
                        at_most(some, 32),
                        head * deep,
                        width,
                        deep,
                        wide,
                        staged,
                        state,
                        32,
                    )
                    t += 32
                else:
                    begin(
                        q,
                        tile,
                        at,
                        factor,
                        row,
                        first + t,
                        at_most(some, 16),
                        head * deep,
                        width,
                        deep,
                        wide,
                        staged,
                        state,
                        16,
                    )
                    t += 16
            block = from_ & -128
            while block < to:
                stop = at_most(length_k - block, 128)
                for j in range(stop):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    pack_row(k, a * deep, deep, tile, keys + j * high, high, 1)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    pack_row(v, a * wide, wide, tile, values + j * low, low, 1)
                clear_rows(tile, keys + stop * high, (((stop + 7) & -8) - stop) * high)
                t = 0
                while t < queries:
                    some = queries - t
                    state = states + t * (high + low + 2)
                    count = 32 if some > 16 and not narrow else 16
                    some = at_most(some, count)
                    off = shift + t - block  # where the first query stands among the keys of the block
                    start = off - left
                    fresh = 1 if block == 0 or start >= 0 else 0
                    start = at_least(start, 0)
                    end = at_most(stop, off + some + right)
                    if start < end:
                        start = start & -8
                        masked = 1 if start < off + some - 1 - left or end > off + right + 1 else 0
                        if count == 32:
                            advance(
                                tile,
                                numbers,
                                keys,
                                values,
                                scores,
                                state,
                                high,
                                low,
                                start,
                                end,
                                off,
                                left,
                                right,
                                masked,
                                fresh,
                                32,
                            )
                        else:
                            advance(
                                tile,
                                numbers,
                                keys,
                                values,
                                scores,
                                state,
                                high,
                                low,
                                start,
                                end,
                                off,
                                left,
                                right,
                                masked,
                                fresh,
                                16,
                            )
                    t += count
                block += 128
            t = 0
            while t < queries:
                some = queries - t
                state = states + t * (high + low + 2)
                if some > 16 and not narrow:
                    finish(
                        tile,
                        out,
                        kept,
                        at,
                        row,
                        first + t,
                        at_most(some, 32),
                        head,
                        width,
                        wide,
                        staged,
                        state,
                        high,
                        low,
                        32,
                    )
                    t += 32
                else:
                    finish(
                        tile,
                        out,
                        kept,
                        at,
                        row,
                        first + t,
                        at_most(some, 16),
                        head,
                        width,
                        wide,
                        staged,
                        state,
                        high,
                        low,
                        16,
                    )
                    t += 16


def cuda(
    q: Array,
    k: Array,
    v: Array,
    scale: Array,
    out: Array,
    kept: Array,
    scratch: Array,  # noqa: ARG001  of the host
    at: Layout,
    at_k: Layout,
    at_v: Layout,
    places: Integers,
    jobs: Integers,  # noqa: ARG001  of the host
    begins: Integers,  # noqa: ARG001  of the host
    room: int,  # noqa: ARG001  of the host
    groups: int,
    share: int,
    deep: int,
    wide: int,
    left: int,
    right: int,
    width: int,
) -> None:
    """All queries, a block each, whose threads share the keys, and then the columns."""
    parts = gpu.shared.array(128, q.dtype)
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    n = at.cum.size - 1
    factor = scale[0]
    r = gpu.blockIdx.x
    while r < at.cum[n]:
        i, t, row = find(at, r)
        _, row_k, length = locate(at_k, places[n + i])
        _, row_v, _ = locate(at_v, places[2 * n + i])
        p = t + length - (at.cum[i + 1] - at.cum[i])
        start = p - left if p > left else 0
        stop = p + right + 1 if p + right + 1 < length else length
        head = 0
        for group in range(groups):
            for _ in range(share):
                own = (row * width + head) * deep
                top = q.dtype.type(-math.inf)
                j = start + me
                while j < stop:
                    score = dot(q, own, k, ((row_k + along(at_k, j)) * groups + group) * deep, deep) * factor
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
                            score = dot(q, own, k, ((row_k + along(at_k, j)) * groups + group) * deep, deep) * factor
                            parts[me] = exp(score - top)
                        gpu.syncthreads()
                        for b in range(threads):
                            if block + b < stop:
                                total += parts[b]
                                if c < wide:
                                    a = ((row_v + along(at_v, block + b)) * groups + group) * wide
                                    value += parts[b] * v[a + c]
                        gpu.syncthreads()
                        block += threads
                    nothing = total == 0
                    if c < wide:
                        out[(row * width + head) * wide + c] = q.dtype.type(0) if nothing else value / total
                    if me == 0:
                        kept[2 * (row * width + head)] = q.dtype.type(0) if nothing else top
                        one = q.dtype.type(1)
                        kept[2 * (row * width + head) + 1] = q.dtype.type(0) if nothing else one / total
                    column += threads
                head += 1
        r += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", alike(FLOATS, 7))
