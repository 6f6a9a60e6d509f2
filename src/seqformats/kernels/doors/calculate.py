"""One kernel over the sequences of an encoding: reductions, and operations that give an item an item.

``door(x, *options)`` is what `operations.over.Calculation` makes of `x`; of a kernel that moves rows, the same rows
elsewhere.
"""

from typing import Any

from ...native.words import (
    BY_ITEM,
    COUNT,
    DEFAULT,
    FIRST,
    KERNEL,
    LEAD,
    LEVELS,
    LOD,
    MADE,
    MOVES,
    NARROW,
    SIZE,
    STRUCTURED,
    WIDENS,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, MOST_AXES, drop, hold, most_of, new_array, number_size, owner
from .encodings import data_of, put_flat, put_number, with_data
from .language import TUPLE_SIZE, at, is_whole, none, number_of, peek, peek_int, poke, shared, stack
from .plans import clear_gaps, kind_or_levels, plan_for, put_rest, put_rows, with_items, work_over

MOST_NEIGHBOURS = 1 << 30


@shared
def neighbours(common: int, x: int) -> Any:
    """How many neighbours a caller wants, -1 for what is no such number."""
    number = stack(0)
    return peek(number) if is_whole(common, x, number) and peek(number) < MOST_NEIGHBOURS else -1


def door(own: int, args: int, count: int) -> Any:
    """`own` is the world of the operation; the batch, its options, and what has to be as it is by default."""
    common, widens = at(own, FIRST), at(own, WIDENS)
    if at(own, DEFAULT):
        count -= 1
        if count < 0 or peek(args + 8 * count) != at(own, DEFAULT):
            return none(common)
    if count != (3 if widens else 1):
        return none(common)
    x = peek(args)
    about = kind_or_levels(own, common, x)
    if about == 0:
        return none(common)
    by_item = at(own, BY_ITEM)
    if about == own + 8 * LOD and not by_item and peek(peek(x + at(own, LEVELS)) + TUPLE_SIZE) != 1:
        return none(common)
    data = data_of(common, about, x, stack(2))
    if data == 0:
        return none(common)
    descr = peek(data + DESCR)
    plan = plan_for(own, descr, 0, 0)
    axes, dimensions, lead = peek_int(data + AXES), peek(data + DIMENSIONS), at(about, LEAD)
    if plan == 0 or axes > MOST_AXES:
        return none(common)
    structure = peek(x + at(about, STRUCTURED))
    n, given, size = number_of(peek(structure + at(common, COUNT))), number_size(data), at(plan, SIZE)
    width = places = 1
    for k in range(lead, axes):
        width *= at(dimensions, k)
    if at(own, NARROW) and axes != lead:
        return none(common)
    for k in range(lead):
        places *= at(dimensions, k)
    items = places * width
    all_bytes = (items if by_item or not at(own, MOVES) else n * width) * given  # a move to a sequence is of one item
    if n * items == 0 or all_bytes > most_of(common, data):
        return none(common)
    before, after = 0, 0
    if widens:
        before, after = neighbours(common, peek(args + 8)), neighbours(common, peek(args + 16))
        if before < 0 or after < 0 or items * size * (before + 1 + after) > most_of(common, data):
            return none(common)
    wide = before + 1 + after

    words, moves = stack(0), at(own, MOVES)
    place = 1 if moves else 2
    out_at = place
    place = put_rows(own, common, words, place + (1 if moves else 2), about, x, dimensions)
    if place == 0:
        return none(common)
    shape = stack(1)
    head = lead if by_item else 1
    if by_item:
        for k in range(lead):
            poke(shape + 8 * k, at(dimensions, k))
    else:
        poke(shape, n)
    for k in range(lead, axes):
        poke(shape + 8 * (head + k - lead), at(dimensions, k))
    axes += head - lead
    if widens:
        if axes == head:
            poke(shape + 8 * head, 1)
            axes += 1
        poke(shape + 8 * head, wide * at(shape, head))
        place = put_number(words, place, before)
        place = put_number(words, place, after)
    out = new_array(common, at(plan, MADE), axes, shape, stack(3))
    if out == 0:
        return 0
    if by_item:
        clear_gaps(common, about, x, out, places, items * wide * size)
    if moves:
        poke(words, peek(data + ARRAY))
        poke(words + 8 * out_at, peek(out + ARRAY))
    else:
        put_flat(words, 0, peek(data + ARRAY), items)
        put_flat(words, out_at, peek(out + ARRAY), items if by_item else n * width)
    put_rest(own, words, place, width * given if moves else width, n)
    hold(data)
    work_over(common, about, x, at(plan, KERNEL), words, all_bytes)
    drop(data)
    if not by_item:
        return owner(out)
    return with_items(common, about, x, out) if widens else with_data(about, x, out)
