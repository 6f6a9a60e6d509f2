"""Parts of attention: which keys queries see, and the terms of a score beside the product.

Of 32 queries, or 16, each has a lane; keys come in blocks of 128.  A tile holds the scores of a block, key j at
``tile + j * count``.  The named tuples that are not here are those of `operations.attention_rows`.
"""

from typing import Any, NamedTuple

from .code import Item
from .common import along
from .gates import tanh
from .lanes import choose, each, in_lanes, load, store, unknown
from .moves import at_least, at_most
from .options import shared
from .random import one_of, philox
from .record import Array
from .tiles import add_row, clear_rows, mirror, pack_row
from .vectors import exp


class Tiles(NamedTuple):
    """Division of the memory of a unit of work, and widths of queries and values."""

    deep: int
    wide: int
    high: int  # `deep` and `wide`, up to a multiple of 16
    low: int
    numbers: int  # of the lanes
    keys: int  # 128 of them, and as many values
    values: int
    scores: int  # of 128 keys, beside the lanes
    queries: int  # those in lanes, each in a row
    slopes: int  # and their gradients
    states: int  # what is known of each query
    spare: int  # four tiles more, where scores have other terms: two for work, then 1 - tanh^2, then dropout


class Queries(NamedTuple):
    """Some queries of a head, at most as many as there are lanes."""

    first: int  # the row of the first item of the sequence
    t: int  # the first of them
    some: int
    head: int
    heads: int
    state: int  # where it is kept what is known of them
    sequence: int


class Sight(NamedTuple):
    """Which keys of a block some queries see."""

    start: int  # a multiple of 8
    stop: int
    off: int  # the position of the first query, from the beginning of the block
    left: int
    right: int
    chunk: int
    prefix: int  # how many keys of the block all queries see
    block: int  # the place of its first key
    masked: int  # are there others between `start` and `stop`?
    fresh: int  # have these queries seen none before?


@shared
def prefix_of(reach: Item, i: int) -> int:
    """The number of keys of a sequence that all of its queries see."""
    return reach.prefixes[i] if reach.prefixes.size != 0 else 0


@shared
def first_seen(reach: Item, p: int) -> int:
    """The first key that the query at position p sees, without a prefix."""
    first = at_least(p - reach.left, 0)
    return at_least(first, p // reach.chunk * reach.chunk) if reach.chunk != 0 else first


@shared
def last_seen(reach: Item, p: int) -> int:
    """The last key that the query at position p sees, without a prefix, where there are so many."""
    last = p + reach.right
    return at_most(last, p // reach.chunk * reach.chunk + reach.chunk - 1) if reach.chunk != 0 else last


@shared
def look(reach: Item, prefix: int, block: int, size: int, off: int, some: int) -> Any:
    """The `Sight` of so many queries, the first of which stands at ``block + off``, of the `size` keys of a block."""
    start = at_least(first_seen(reach, block + off) - block, 0)
    stop = at_most(size, last_seen(reach, block + off + some - 1) - block + 1)
    own = at_most(at_least(prefix - block, 0), size)
    if own > 0:
        stop = own if start >= stop else at_least(stop, own)
        start = 0
    empty = 1 if start >= stop else 0
    start = start & -8
    masked = 1 if start < off + some - 1 - reach.left or stop > off + reach.right + 1 else 0
    fresh = 1 if block == 0 or off >= reach.left else 0
    if reach.chunk != 0 or prefix > 0:  # what was seen before is not told by the window; the sums hold zeros
        masked = 1
        fresh = 0
    return Sight(
        start, start if empty != 0 else stop, off, reach.left, reach.right, reach.chunk, own, block, masked, fresh
    )


@shared
def lanes_that_see(sight: Item, j: int, count: int) -> Any:
    """The first and the last lane whose query sees key j of a block."""
    low, high = j - sight.off - sight.right, j - sight.off + sight.left
    if sight.chunk != 0:
        begin = (sight.block + j) // sight.chunk * sight.chunk - sight.block - sight.off
        low, high = at_least(low, begin), at_most(high, begin + sight.chunk - 1)
    if j < sight.prefix:
        low, high = 0, count
    return at_most(at_least(low, 0), count), at_most(at_least(high, -1), count)


@in_lanes
def seen_lanes(lanes: Item, x: Array, sight: Item, j: int, count: int) -> Any:
    """The mask of the lanes whose query sees key j of a block; `lanes` are their numbers."""
    first, last = lanes_that_see(sight, j, count)
    return (lanes > each(x, first - 1, count)) & (lanes < each(x, last + 1, count))


@in_lanes
def distances(x: Array, put: Item, sight: Item, j: int, count: int) -> Any:
    """Return the distances of the queries in lanes from key j of a block."""
    away = load(x, put.numbers, count, x) + each(x, sight.off - j, count)
    zero = each(x, 0, count)
    return choose(away < zero, zero - away, away)


@in_lanes
def change_scores(x: Array, terms: Item, put: Item, tile: int, of: Item, sight: Item, count: int) -> None:
    """Bend the scores of a tile below the soft cap, and add the bias."""
    start, stop, one = sight.start, sight.stop, unknown(1)
    cap = terms.factors.numbers[1]
    if terms.changes & 2 != 0:
        bends = put.spare + 2 * 128 * 32
        j = start
        while j < stop:
            bent = tanh(load(x, tile + j * count, count, x) / each(x, cap, count), count)
            store(x, tile + j * count, bent * each(x, cap, count))
            store(x, bends + j * count, each(x, 1, count) - bent * bent)
            j += one
    if terms.form == 1:
        wide = (stop - start + 15) & -16
        c = 0
        while c < count:
            if c < of.some:
                place = (of.head * terms.rows + of.t + c) * terms.columns + sight.block + start
                pack_row(terms.bias, place, stop - start, x, put.spare + c * wide, wide, 1)
            else:
                clear_rows(x, put.spare + c * wide, wide)
            c += 1
        turned = put.spare + 128 * 32
        mirror(x, put.spare, count, wide, x, turned)
        j = start
        while j < stop:
            added = load(x, turned + (j - start) * count, count, x)
            store(x, tile + j * count, load(x, tile + j * count, count, x) + added)
            j += one
    elif terms.form == 2:
        slope = each(x, terms.bias[of.head], count)
        j = start
        while j < stop:
            added = slope * distances(x, put, sight, j, count)
            store(x, tile + j * count, load(x, tile + j * count, count, x) - added)
            j += one


@shared
def draw_weights(terms: Item, i: int, head: int, t: int, j: int) -> Any:
    """Random bits for the weights of eight keys, of which j is one: by sequence, head and places alone.

    The last number of the counter is above all purposes, see `random`.
    """
    return philox(j >> 3, i, t, 0x80000000 | head, terms.seed & 0xFFFFFFFF, terms.seed >> 32)


@shared
def keeps(terms: Item, four: Item, j: int) -> Any:
    """Tell whether dropout keeps the weight of key j, whose random bits are among those of `draw_weights`."""
    return (one_of(four, (j >> 1) & 3) >> (16 * (j & 1))) & 0xFFFF >= terms.drop


@shared
def draw_tile(x: Array, terms: Item, put: Item, of: Item, sight: Item, count: int) -> None:
    """Write the factors of the weights of a tile, for dropout."""
    factors, factor = put.spare + 3 * 128 * 32, terms.factors.numbers[2]
    for c in range(of.some):
        j = sight.start
        while j < sight.stop:
            four = draw_weights(terms, of.sequence, of.head, of.t + c, sight.block + j)
            for k in range(8):
                x[factors + (j + k) * count + c] = factor if keeps(terms, four, k) else 0
            j += 8


@in_lanes
def add_bias_slopes(x: Array, terms: Item, put: Item, tile: int, of: Item, sight: Item, to: Any, count: int) -> None:
    """Add the gradients of the scores of a tile to that of the bias, `to`; those of slopes by query."""
    out, at = to
    start, stop, one = sight.start, sight.stop, unknown(1)
    if terms.form == 1:
        high = (stop - start + 7) & -8
        mirror(x, tile + start * count, high, count, x, put.spare)
        for c in range(of.some):
            place = (of.head * terms.rows + of.t + c) * terms.columns + sight.block + start
            add_row(x, put.spare + c * high, out, place, stop - start, 1)
    else:
        total = each(x, 0, count)
        j = start
        while j < stop:
            total = total - load(x, tile + j * count, count, x) * distances(x, put, sight, j, count)
            j += one
        store(x, put.spare, total)
        for c in range(of.some):
            add_row(x, put.spare + c, out, (of.first + along(at, of.t + c)) * of.heads + of.head, 1, 1)


@in_lanes
def give_sink_slopes(x: Array, terms: Item, put: Item, of: Item, out: Item, at: Item, count: int) -> None:
    """Write by query the gradients of the sinks, of the largest scores, inverse sums and means in the state."""
    top, inverse = load(x, of.state, count, x), load(x, of.state + count, count, x)
    zero = each(x, 0, count)
    share = choose(inverse == zero, zero, exp(each(x, terms.sinks[of.head], count) - top) * inverse)
    store(x, put.spare, zero - share * load(x, of.state + 2 * count, count, x))
    for c in range(of.some):
        row = (of.first + along(at, of.t + c)) * of.heads + of.head
        store(out, row, load(x, put.spare + c, 1, x))
