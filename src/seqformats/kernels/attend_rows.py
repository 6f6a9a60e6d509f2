"""Attention along every sequence: for every query the mean of the values, weighted by the softmax of its scores.

``q`` and ``out`` hold the queries in a layout, `width` heads an item, `deep` and `wide` numbers each; ``k`` and ``v``
the keys and the values in theirs, ``groups`` an item: ``share`` heads in a row have one in common.  A score is the
product of a query and a key, times ``scale[0]``.  Query t, which stands at ``p = t + keys - queries``, sees the keys
from ``p - left`` to ``p + right``.  ``kept`` has two numbers a query and head: the largest score, and the reciprocal of
the sum of the powers beside it; both are 0 where nothing is seen, and so is ``out``.

``places`` has three rows of n: the unit of each sequence in the layouts of q, k and v.  Work is cut into ``jobs``,
pairs of a sequence and the first of 256 of its queries, each for every head; unit u does those from ``begins[u]`` on,
of all heads, and has ``room`` numbers of ``scratch`` to itself.

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
    Product,
    Queries,
    Sight,
    Tiles,
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
    from .parts.device import find
    from .parts.gpu import exp, gpu, natural


@in_lanes
def begin(q: Array, x: Array, at: Layout, factor: float, put: Tiles, of: Queries, count: int) -> None:
    """Bring queries into lanes."""
    high, low, c = put.high, put.low, 0
    while c < count:
        if c < of.some:
            row = (of.first + along(at, of.t + c)) * of.heads + of.head
            pack_row(q, row * put.deep, put.deep, x, put.queries + c * high, high, factor)
        else:
            clear_rows(x, put.queries + c * high, high)
        c += 1
    mirror(x, put.queries, count, high, x, of.state)
    store(x, of.state + (high + low) * count, each(x, -math.inf, count))
    store(x, of.state + (high + low + 1) * count, each(x, 0, count))


@in_lanes
def advance(x: Array, put: Tiles, state: int, sight: Sight, count: int) -> None:
    """Let queries in lanes see some keys of a block."""
    high, low, scores, start, stop = put.high, put.low, put.scores, sight.start, sight.stop
    one = unknown(1)
    j = start
    while j < stop:
        multiply(x, Product(scores + j * count, count, put.keys + j * high, high, 1, state, count, high, 0), count)
        j += 8
    best = state + (high + low) * count
    before = load(x, best, count, x)
    top, other = before, before
    least = each(x, -math.inf, count)
    if sight.masked != 0:
        lanes = load(x, put.numbers, count, x)
        j = start
        while j < stop:
            value = load(x, scores + j * count, count, x)
            from_ = at_most(at_least(j - sight.off - sight.right, 0), count)
            to = at_most(at_least(j - sight.off + sight.left, -1), count)
            seen = (lanes > each(x, from_ - 1, count)) & (lanes < each(x, to + 1, count))
            value = choose(seen, value, least)
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
def finish(x: Array, out: Array, kept: Array, at: Layout, put: Tiles, of: Queries, count: int) -> None:
    """Write the results of queries in lanes."""
    low, wide = put.low, put.wide
    sums = of.state + put.high * count
    best = sums + low * count
    top, total = load(x, best, count, x), load(x, best + count, count, x)
    zero, one = each(x, 0, count), each(x, 1, count)
    nothing = total == zero
    inverse = choose(nothing, zero, one / choose(nothing, one, total))
    store(x, best, choose(nothing, zero, top))
    store(x, best + count, inverse)
    c = 0
    while c < low:
        store(x, sums + c * count, choose(nothing, zero, load(x, sums + c * count, count, x) * inverse))
        c += 1
    mirror(x, sums, low, count, x, put.queries)
    c = 0
    while c < of.some:
        row = (of.first + along(at, of.t + c)) * of.heads + of.head
        give_row(x, put.queries + c * low, out, row * wide, wide)
        store(kept, 2 * row, load(x, best + c, 1, x))
        store(kept, 2 * row + 1, load(x, best + count + c, 1, x))
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
    most = 16 if scale.itemsize == 8 else 32
    q, k, v, out, kept, x = pointer(q), pointer(k), pointer(v), pointer(out), pointer(kept), pointer(scratch)
    at, at_k, at_v = pointer(at), pointer(at_k), pointer(at_v)
    high, low = (deep + 15) & -16, (wide + 15) & -16
    for u in range(lo, hi):
        numbers = u * room
        keys = numbers + 32
        values = keys + 128 * high
        scores = values + 128 * low
        rows = scores + 128 * 32
        put = Tiles(deep, wide, high, low, numbers, keys, values, scores, rows, rows, rows + 32 * at_least(high, low))
        for c in range(32):
            store(x, numbers + c, each(x, c, 1))
        for job in range(begins[u] * width, begins[u + 1] * width):
            w = job // width
            head = job - w * width
            group = head // share
            i, begun = jobs[2 * w], jobs[2 * w + 1]
            _, row, length = locate(at, places[i])
            _, row_k, length_k = locate(at_k, places[n + i])
            _, row_v, _ = locate(at_v, places[2 * n + i])
            queries = at_most(length - begun, 256)
            shift = begun + length_k - length
            t = 0
            while t < queries:
                count = most if queries - t > 16 else 16
                state = put.states + t * (high + low + 2)
                of = Queries(row, begun + t, at_most(queries - t, count), head, width, state)
                if count == 32:
                    begin(q, x, at, factor, put, of, 32)
                else:
                    begin(q, x, at, factor, put, of, 16)
                t += count
            block = at_least(shift - left, 0) & -128
            to = at_most(length_k, shift + queries + right)
            while block < to:
                size = at_most(length_k - block, 128)
                for j in range(size):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    pack_row(k, a * deep, deep, x, keys + j * high, high, 1)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    pack_row(v, a * wide, wide, x, values + j * low, low, 1)
                clear_rows(x, keys + size * high, (((size + 7) & -8) - size) * high)
                t = 0
                while t < queries:
                    count = most if queries - t > 16 else 16
                    some = at_most(queries - t, count)
                    off = shift + t - block
                    fresh = 1 if block == 0 or off >= left else 0
                    start = at_least(off - left, 0)
                    stop = at_most(size, off + some + right)
                    if start < stop:
                        start = start & -8
                        masked = 1 if start < off + some - 1 - left or stop > off + right + 1 else 0
                        sight = Sight(start, stop, off, left, right, masked, fresh)
                        state = put.states + t * (high + low + 2)
                        if count == 32:
                            advance(x, put, state, sight, 32)
                        else:
                            advance(x, put, state, sight, 16)
                    t += count
                block += 128
            t = 0
            while t < queries:
                count = most if queries - t > 16 else 16
                state = put.states + t * (high + low + 2)
                of = Queries(row, begun + t, at_most(queries - t, count), head, width, state)
                if count == 32:
                    finish(x, out, kept, at, put, of, 32)
                else:
                    finish(x, out, kept, at, put, of, 16)
                t += count


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
    parts = natural(gpu.shared.array(128, q.dtype))
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
