"""The gradients of `attend_rows`, which see: ``dq``, ``dk`` and ``dv`` of ``dy``, in the layouts of q, k and v.

``y`` and ``kept`` are what that has written, and so is what is not named here; ``dq`` holds zeros.  Unit u does the
sequences from ``begins[u]`` to ``begins[u + 1]``, each for every group of heads that share keys and values.

The powers are calculated again of the scores: T. Dao, FlashAttention-2, 2023.  Blocks of 128 keys meet 32
queries, or 16, in lanes, one tile after the other, so every sum has its order, whatever the threads.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

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
    from .parts.device import find
    from .parts.gpu import exp, gpu, natural


class Given(NamedTuple):
    """What there is of every query."""

    q: Any
    y: Any
    dy: Any
    kept: Any


@in_lanes
def begin(given: Given, x: Array, at: Layout, factor: float, put: Tiles, of: Queries, count: int) -> None:
    """Bring queries, and their part of `dy`, into lanes: as they are, and behind that mirrored."""
    deep, wide, high, low, one = put.deep, put.wide, put.high, put.low, unknown(1)
    spare = put.slopes + 32 * low  # where slopes are to lie mirrored; until then a row of y
    c = 0
    while c < count:
        if c < of.some:
            row = (of.first + along(at, of.t + c)) * of.heads + of.head
            pack_row(given.q, row * deep, deep, x, put.queries + c * high, high, factor)
            pack_row(given.dy, row * wide, wide, x, put.slopes + c * low, low, 1)
            pack_row(given.y, row * wide, wide, x, spare, low, 1)
            total = each(x, 0, 16)
            k = 0
            while k < low:
                total += load(x, put.slopes + c * low + k, 16, x) * load(x, spare + k, 16, x)
                k += 16 * one
            store(x, of.state + c, load(given.kept, 2 * row, 1, x))
            store(x, of.state + count + c, load(given.kept, 2 * row + 1, 1, x))
            store(x, of.state + 2 * count + c, each(x, fold_add(total), 1))
        else:
            clear_rows(x, put.queries + c * high, high)
            clear_rows(x, put.slopes + c * low, low)
            for k in range(3):
                store(x, of.state + k * count + c, each(x, 0, 1))
        c += 1
    mirror(x, put.queries, count, high, x, put.queries + 32 * high)
    mirror(x, put.slopes, count, low, x, spare)


@in_lanes
def add_products(x: Array, out: int, wide: int, factors: int, rows: int, some: int, sight: Sight, count: int) -> None:
    """Add to rows of `out`, one a key, those of queries in lanes, weighted by `factors`."""
    j = sight.start
    while j < sight.stop:
        a, c = factors + j * count, 0
        while c < wide:
            product = Product(out + j * wide + c, wide, a, count, 1, rows + c, wide, some, 1)
            if wide - c >= 32:
                multiply(x, product, 32)
                c += 32
            else:
                multiply(x, product, 16)
                c += 16
        j += 8


@in_lanes
def advance(x: Array, put: Tiles, some: int, state: int, sight: Sight, count: int) -> None:
    """Let queries in lanes meet some keys of a block; their gradients come where the queries were."""
    high, low, powers, start, stop, one = put.high, put.low, put.scores, sight.start, sight.stop, unknown(1)
    changes = powers + 128 * 32
    mirrored, slopes = put.queries + 32 * high, put.slopes + 32 * low
    j = start
    while j < stop:
        p = j * count
        multiply(x, Product(powers + p, count, put.keys + j * high, high, 1, mirrored, count, high, 0), count)
        multiply(x, Product(changes + p, count, put.values + j * low, low, 1, slopes, count, low, 0), count)
        j += 8
    top, inverse, mean = (
        load(x, state, count, x),
        load(x, state + count, count, x),
        load(x, state + 2 * count, count, x),
    )
    zero, lanes = each(x, 0, count), load(x, put.numbers, count, x)
    j = start
    while j < stop:
        power = exponential(load(x, powers + j * count, count, x) - top) * inverse
        change = power * (load(x, changes + j * count, count, x) - mean)
        if sight.masked != 0:
            from_ = at_most(at_least(j - sight.off - sight.right, 0), count)
            to = at_most(at_least(j - sight.off + sight.left, -1), count)
            seen = (lanes > each(x, from_ - 1, count)) & (lanes < each(x, to + 1, count))
            power, change = choose(seen, power, zero), choose(seen, change, zero)
        store(x, powers + j * count, power)
        store(x, changes + j * count, change)
        j += one
    while j & 7 != 0:
        store(x, powers + j * count, zero)
        store(x, changes + j * count, zero)
        j += one
    grown = put.values + 128 * low  # the gradients of the keys, and behind them those of the values
    add_products(x, grown, high, changes, put.queries, some, sight, count)
    add_products(x, grown + 128 * high, low, powers, put.slopes, some, sight, count)
    keys, first = put.keys + start * high, changes + start * count
    c = 0
    while c < high:
        multiply(x, Product(mirrored + c * count, count, keys + c, 1, high, first, count, stop - start, 0), count)
        c += 8
    mirror(x, mirrored, high, count, x, put.queries)


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
    most = 16 if scale.itemsize == 8 else 32
    given = Given(pointer(q), pointer(y), pointer(dy), pointer(kept))
    k, v, x, dq, dk, dv = pointer(k), pointer(v), pointer(scratch), pointer(dq), pointer(dk), pointer(dv)
    at, at_k, at_v = pointer(at), pointer(at_k), pointer(at_v)
    high, low = (deep + 15) & -16, (wide + 15) & -16
    for u in range(lo, hi):
        numbers = u * room
        state = numbers + 32
        keys = state + 96
        values = keys + 128 * high
        dkeys = values + 128 * low
        dvalues = dkeys + 128 * high
        scores = dvalues + 128 * low
        queries = scores + 2 * 128 * 32
        put = Tiles(deep, wide, high, low, numbers, keys, values, scores, queries, queries + 2 * 32 * high, state)
        for c in range(32):
            store(x, numbers + c, each(x, c, 1))
        for job in range(begins[u] * groups, begins[u + 1] * groups):
            i = job // groups
            group = job - i * groups
            _, row, length = locate(at, places[i])
            _, row_k, length_k = locate(at_k, places[n + i])
            _, row_v, _ = locate(at_v, places[2 * n + i])
            block = 0
            while block < length_k:
                size = at_most(length_k - block, 128)
                for j in range(size):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    pack_row(k, a * deep, deep, x, keys + j * high, high, 1)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    pack_row(v, a * wide, wide, x, values + j * low, low, 1)
                whole = (size + 7) & -8
                clear_rows(x, keys + size * high, (whole - size) * high)
                clear_rows(x, values + size * low, (whole - size) * low)
                clear_rows(x, dkeys, whole * high)
                clear_rows(x, dvalues, whole * low)
                for head in range(group * share, (group + 1) * share):
                    t = 0
                    while t < length:
                        count = most if length - t > 16 else 16
                        some = at_most(length - t, count)
                        off = length_k - length + t - block
                        start = at_least(off - left, 0)
                        stop = at_most(size, off + some + right)
                        if start < stop:
                            start = start & -8
                            masked = 1 if start < off + some - 1 - left or stop > off + right + 1 else 0
                            sight = Sight(start, stop, off, left, right, masked, 0)
                            of = Queries(row, t, some, head, width, state)
                            if count == 32:
                                begin(given, x, at, factor, put, of, 32)
                                advance(x, put, some, state, sight, 32)
                            else:
                                begin(given, x, at, factor, put, of, 16)
                                advance(x, put, some, state, sight, 16)
                            for c in range(some):
                                a = ((row + along(at, t + c)) * width + head) * deep
                                add_row(x, queries + c * high, dq, a, deep, factor)
                        t += count
                for j in range(size):
                    a = (row_k + along(at_k, block + j)) * groups + group
                    give_row(x, dkeys + j * high, dk, a * deep, deep)
                    a = (row_v + along(at_v, block + j)) * groups + group
                    give_row(x, dvalues + j * low, dv, a * wide, wide)
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
