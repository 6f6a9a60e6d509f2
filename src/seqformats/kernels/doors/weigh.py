"""The weighted sum, or mean, of every sequence of an encoding: ``sf.reduce_sum(x, weights=)``.

There is a weight for each item: an array of them in the caller's order, or a `Ragged` over the structure of the batch.
"""

from ...native.words import COUNT, DEFAULT, FIRST, KERNEL, LEAD, LEVELS, LOD, MADE, STRUCTURED
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, MOST_AXES, drop, hold, most_of, new_array, number_size, owner
from .encodings import data_of, put_flat
from .language import TUPLE_SIZE, at, let_go, none, number_of, peek, peek_int, poke, stack
from .plans import kind_or_levels, plan_for, put_rest, put_rows, work_over
from .structures import new_integers
from .taking import one_an_item


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; the batch, the weights, and what has to be as it is by default."""
    common = at(own, FIRST)
    if count != 3 or peek(args + 16) != at(own, DEFAULT):
        return none(common)
    x = peek(args)
    about = kind_or_levels(own, common, x)
    if about == 0 or (about == own + 8 * LOD and peek(peek(x + at(own, LEVELS)) + TUPLE_SIZE) != 1):
        return none(common)
    structure, data = peek(x + at(about, STRUCTURED)), data_of(common, about, x, stack(2))
    weights = one_an_item(common, peek(args + 8), structure, data, stack(4)) if data else 0
    plan = plan_for(own, peek(data + DESCR), peek(weights + DESCR), 0) if weights else 0
    if plan == 0:
        return none(common)
    axes, dimensions, lead = peek_int(data + AXES), peek(data + DIMENSIONS), at(about, LEAD)
    n, width, items = number_of(peek(structure + at(common, COUNT))), 1, 1
    for k in range(min(axes, MOST_AXES)):
        items *= at(dimensions, k)
        width *= at(dimensions, k) if k >= lead else 1
    size, words = items * number_size(data), stack(0)
    place = put_rows(own, common, words, 8, about, x, dimensions)
    if place == 0 or axes > MOST_AXES or n * items == 0 or size > most_of(common, data):
        return none(common)
    shape = stack(1)
    poke(shape, n)
    for k in range(lead, axes):
        poke(shape + 8 * (1 + k - lead), at(dimensions, k))
    totals = new_integers(common, n)  # which a mean divides by
    out = new_array(common, at(plan, MADE), 1 + axes - lead, shape, stack(3)) if totals else 0
    if out == 0:
        if totals:
            let_go(totals)
        return 0
    put_flat(words, 0, peek(data + ARRAY), items)
    put_flat(words, 2, peek(weights + ARRAY), at(peek(weights + DIMENSIONS), 0))
    put_flat(words, 4, peek(out + ARRAY), n * width)
    put_flat(words, 6, peek(totals + ARRAY), n)
    put_rest(own, words, place, width, n)
    hold(data)
    hold(weights)
    work_over(common, about, x, at(plan, KERNEL), words, size)
    drop(weights)
    drop(data)
    let_go(totals)
    return owner(out)
