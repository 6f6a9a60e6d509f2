"""The gradients of `attend_rows`, which see: ``dq``, ``dk`` and ``dv`` of ``dy``, in the layouts of q, k and v.

``y`` and ``kept`` are what that has written, and so is what is not named here; ``dq`` holds zeros.  Unit u does the
sequences from ``begins[u]`` to ``begins[u + 1]``, each for every group of heads that share keys and values.

The powers are calculated again of the scores: T. Dao, FlashAttention-2, 2023.  Blocks of 128 keys meet 32 queries, or 16,
in lanes, one tile after the other, so every sum has its order, whatever the threads.
"""

from typing import TYPE_CHECKING

from .parts import (
    CALCULATES,
    FLOATS,
    Array,
    Integers,
    KernelSpec,
    Layout,
    add_row,
    alike,
    along,
    at_least,
    at_most,
    choose,
    clear_rows,
    compiled,
    dot,
    each,
    fold_add,
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
    y: Array,
    dy: Array,
    kept: Array,
    tile: Array,
    at: Layout,
    factor: float,
    first: int,
    t: int,
    some: int,
    head: int,
    heads: int,
    deep: int,
    wide: int,
    queries: int,
    slopes: int,
    state: int,
    count: int,
) -> None:
    """Bring `some` queries of a head, and their part of `dy`, into lanes: as they are, and mirrored."""
    high, low, one = (deep + 15) & -16, (wide + 15) & -16, unknown(1)
    mirrored = queries + 32 * high  # where the queries are to lie; until then a row of y
    c = 0
    while c < count:
        if c < some:
            row = (first + along(at, t + c)) * heads + head
            pack_row(q, row * deep, deep, tile, queries + c * high, high, factor)
            pack_row(dy, row * wide, wide, tile, slopes + c * low, low, 1)
            pack_row(y, row * wide, wide, tile, slopes + 32 * low, low, 1)
            total = each(tile, 0, 16)
            k = 0
            while k < low:
                total += load(tile, slopes + c * low + k, 16, tile) * load(tile, slopes + 32 * low + k, 16, tile)
                k += 16 * one
            store(tile, state + c, load(kept, 2 * row, 1, tile))
            store(tile, state + count + c, load(kept, 2 * row + 1, 1, tile))
            store(tile, state + 2 * count + c, each(tile, fold_add(total), 1))
        else:
            clear_rows(tile, queries + c * high, high)
            clear_rows(tile, slopes + c * low, low)
            for k in range(3):
                store(tile, state + k * count + c, each(tile, 0, 1))
        c += 1
    mirror(tile, queries, count, high, tile, mirrored)
    mirror(tile, slopes, count, low, tile, slopes + 32 * low)


@in_lanes
def add_products(
    tile: Array, out: int, factors: int, rows: int, wide: int, start: int, stop: int, some: int, count: int
) -> None:
    """Add to rows `start` to `stop` of `out` the rows of queries in lanes, weighted by `factors`."""
    j = start
    while j < stop:
        c = 0
        while c < wide:
            if wide - c >= 32:
                multiply(
                    tile,
                    out + j * wide + c,
                    wide,
                    tile,
                    factors + j * count,
                    count,
                    1,
                    tile,
                    rows + c,
                    wide,
                    some,
                    1,
                    32,
                )
                c += 32
            else:
                multiply(
                    tile,
                    out + j * wide + c,
                    wide,
                    tile,
                    factors + j * count,
                    count,
                    1,
                    tile,
                    rows + c,
                    wide,
                    some,
                    1,
                    16,
                )
                c += 16
        j += 8


@in_lanes
def advance(
    tile: Array,
    numbers: int,
    keys: int,
    values: int,
    high: int,
    low: int,
    powers: int,
    queries: int,
    slopes: int,
    state: int,
    start: int,
    stop: int,
    some: int,
    off: int,
    left: int,
    right: int,
    masked: int,
    count: int,
) -> None:
    """Let queries in lanes meet the keys from `start`, a multiple of 8, to `stop` of a block; the first is at `off`."""
    one = unknown(1)
    changes = powers + 128 * 32
    mirrored = queries + 32 * high
    j = start
    while j < stop:
        multiply(tile, powers + j * count, count, tile, keys + j * high, high, 1, tile, mirrored, count, high, 0, count)
        multiply(
            tile,
            changes + j * count,
            count,
            tile,
            values + j * low,
            low,
            1,
            tile,
            slopes + 32 * low,
            count,
            low,
            0,
            count,
        )
        j += 8
    top, inverse = load(tile, state, count, tile), load(tile, state + count, count, tile)
    mean = load(tile, state + 2 * count, count, tile)
    zero = each(tile, 0, count)
    lanes = load(tile, numbers, count, tile)
    j = start
    while j < stop:
        power = exponential(load(tile, powers + j * count, count, tile) - top) * inverse
        change = power * (load(tile, changes + j * count, count, tile) - mean)
        if masked != 0:
            from_ = at_most(at_least(j - off - right, 0), count)
            to = at_most(at_least(j - off + left, -1), count)
            seen = (lanes > each(tile, from_ - 1, count)) & (lanes < each(tile, to + 1, count))
            power = choose(seen, power, zero)
            change = choose(seen, change, zero)
        store(tile, powers + j * count, power)
        store(tile, changes + j * count, change)
        j += one
    while j & 7 != 0:
        store(tile, powers + j * count, zero)
        store(tile, changes + j * count, zero)
        j += one
    grown = values + 128 * low  # the gradients of the keys, and behind them those of the values
    add_products(tile, grown, changes, queries, high, start, stop, some, count)
    add_products(tile, grown + 128 * high, powers, slopes, low, start, stop, some, count)
    c = 0
    while c < high:
        multiply(
            tile,
            mirrored + c * count,
            count,
            tile,
            keys + start * high + c,
            1,
            high,
            tile,
            changes + start * count,
            count,
            stop - start,
            0,
            count,
        )
        c += 8
    mirror(tile, mirrored, high, count, tile, queries)


@compiled
def cpu(
    q: Array,
    k: Array,
    v: Array,
    y: Array,
    dy: Array,
    kept: Array,
    scale: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    scratch: Array,
    at: Layout,
    at_k: Layout,
    at_v: Layout,
    places: Integers,
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
    q, k, v, y, dy, kept, tile = (
        pointer(q),
        pointer(k),
        pointer(v),
        pointer(y),
        pointer(dy),
        pointer(kept),
        pointer(scratch),
    )
    dq, dk, dv = pointer(dq), pointer(dk), pointer(dv)
    at, at_k, at_v = pointer(at), pointer(at_k), pointer(at_v)
    high, low = (deep + 15) & -16, (wide + 15) & -16
    for u in range(lo, hi):
        numbers = u * room
        state = numbers + 32
        keys = state + 96
        values = keys + 128 * high
        dkeys = values + 128 * low
        dvalues = dkeys + 128 * high
        powers = dvalues + 128 * low
        queries = powers + 2 * 128 * 32
        slopes = queries + 2 * 32 * high
        for c in range(32):
            store(tile, numbers + c, each(tile, c, 1))
        for job in range(begins[u] * groups, begins[u + 1] * groups):
            i = job // groups
            group = job - i * groups
            _, row, length = locate(at, places[i])
            _, row_k, length_k = locate(at_k, places[n + i])
            _, row_v, _ = locate(at_v, places[2 * n + i])
            shift = length_k - length
            block = 0
            while block < length_k:
                stop = at_most(length_k - block, 128)
                for j in range(stop):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    pack_row(k, a * deep, deep, tile, keys + j * high, high, 1)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    pack_row(v, a * wide, wide, tile, values + j * low, low, 1)
                size = ((stop + 7) & -8) - stop
                clear_rows(tile, keys + stop * high, size * high)
                clear_rows(tile, values + stop * low, size * low)
                clear_rows(tile, dkeys, (stop + size) * high)
                clear_rows(tile, dvalues, (stop + size) * low)
                for head in range(group * share, (group + 1) * share):
                    t = 0
                    while t < length:
                        some = length - t
                        count = 32 if some > 16 and not narrow else 16
                        some = at_most(some, count)
                        off = shift + t - block  # where the first query stands among the keys of the block
                        start = at_least(off - left, 0)
                        end = at_most(stop, off + some + right)
                        if start < end:
                            start = start & -8
                            masked = 1 if start < off + some - 1 - left or end > off + right + 1 else 0
                            if count == 32:
                                begin(
                                    q,
                                    y,
                                    dy,
                                    kept,
                                    tile,
                                    at,
                                    factor,
                                    row,
                                    t,
                                    some,
                                    head,
                                    width,
                                    deep,
                                    wide,
                                    queries,
                                    slopes,
                                    state,
                                    32,
                                )
                                advance(
                                    tile,
                                    numbers,
                                    keys,
                                    values,
                                    high,
                                    low,
                                    powers,
                                    queries,
                                    slopes,
                                    state,
                                    start,
                                    end,
                                    some,
                                    off,
                                    left,
                                    right,
                                    masked,
                                    32,
                                )
                            else:
                                begin(
                                    q,
                                    y,
                                    dy,
                                    kept,
                                    tile,
                                    at,
                                    factor,
                                    row,
                                    t,
                                    some,
                                    head,
                                    width,
                                    deep,
                                    wide,
                                    queries,
                                    slopes,
                                    state,
                                    16,
                                )
                                advance(
                                    tile,
                                    numbers,
                                    keys,
                                    values,
                                    high,
                                    low,
                                    powers,
                                    queries,
                                    slopes,
                                    state,
                                    start,
                                    end,
                                    some,
                                    off,
                                    left,
                                    right,
                                    masked,
                                    16,
                                )
                            for c in range(some):
                                a = ((row + along(at, t + c)) * width + head) * deep
                                add_row(tile, queries + c * high, dq, a, deep, factor)
                        t += count
                for j in range(stop):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    give_row(tile, dkeys + j * high, dk, a * deep, deep)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    give_row(tile, dvalues + j * low, dv, a * wide, wide)
                block += 128


def cuda(
    q: Array,
    k: Array,
    v: Array,
    y: Array,
    dy: Array,
    kept: Array,
    scale: Array,
    dq: Array,
    dk: Array,
    dv: Array,
    scratch: Array,  # noqa: ARG001  of the host
    at: Layout,
    at_k: Layout,
    at_v: Layout,
    places: Integers,
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
    """All queries, and then all keys, a block each, whose threads share what those meet, and then the columns."""
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
        head = row * width
        for group in range(groups):
            for _ in range(share):
                mean = dot(y, head * wide, dy, head * wide, wide)
                column = 0
                while column < deep:  # the same turns for the whole block, which waits for each other below
                    total = q.dtype.type(0)
                    c = column + me
                    block = start
                    while block < stop:
                        j = block + me
                        if j < stop:
                            a = (row_k + along(at_k, j)) * groups + group
                            score = dot(q, head * deep, k, a * deep, deep) * factor
                            power = exp(score - kept[2 * head]) * kept[2 * head + 1]
                            a = (row_v + along(at_v, j)) * groups + group
                            parts[me] = power * (dot(dy, head * wide, v, a * wide, wide) - mean)
                        gpu.syncthreads()
                        if c < deep:
                            for b in range(threads):
                                if block + b < stop:
                                    a = (row_k + along(at_k, block + b)) * groups + group
                                    total += parts[b] * k[a * deep + c]
                        gpu.syncthreads()
                        block += threads
                    if c < deep:
                        dq[head * deep + c] = total * factor
                    column += threads
                head += 1
        r += gpu.gridDim.x
    r = gpu.blockIdx.x
    while r < at_k.cum[n]:
        i, j, row_k = find(at_k, r)
        _, row, length = locate(at, places[i])
        _, row_v, _ = locate(at_v, places[2 * n + i])
        row_v += along(at_v, j)
        p = j + length - (at_k.cum[i + 1] - at_k.cum[i])  # the query that stands here
        start = p - right if p > right else 0
        stop = p + left + 1 if p + left + 1 < length else length
        for group in range(groups):
            own, other = row_k * groups + group, row_v * groups + group
            column = 0
            while column < deep + wide:  # those of dk, and from `deep` on those of dv
                total = q.dtype.type(0)
                c = column + me
                block = start
                while block < stop:
                    for shared_by in range(share):
                        t = block + me
                        head = group * share + shared_by
                        if t < stop:
                            a = (row + along(at, t)) * width + head
                            score = dot(q, a * deep, k, own * deep, deep) * factor
                            parts[me] = exp(score - kept[2 * a]) * kept[2 * a + 1]
                            if column < deep:
                                change = dot(dy, a * wide, v, other * wide, wide) - dot(y, a * wide, dy, a * wide, wide)
                                parts[me] *= change
                        gpu.syncthreads()
                        for b in range(threads):
                            if block + b < stop:
                                a = (row + along(at, block + b)) * width + head
                                if column < deep:
                                    if c < deep:
                                        total += parts[b] * q[a * deep + c]
                                elif c < deep + wide:
                                    total += parts[b] * dy[a * wide + c - deep]
                        gpu.syncthreads()
                    block += threads
                if column < deep:
                    if c < deep:
                        dk[own * deep + c] = total * factor
                elif c < deep + wide:
                    dv[other * wide + c - deep] = total
                column = deep if column < deep <= column + threads else column + threads
        r += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", alike(FLOATS, 11))
