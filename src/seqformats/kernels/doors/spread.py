"""One kernel that gives every item of an encoding what is its sequence's, or its own: repetitions, and gradients.

``door(shape, *arrays)`` is what `operations.spread` makes of them: an encoding laid out as `shape`, whose data need not
be there, or an array of all its rows in the caller's order.
"""

from typing import Any

from ...native.words import (
    ALIKE,
    ARRAYS,
    CLEARED,
    COUNT,
    DTYPE,
    FIRST,
    FLAT,
    KERNEL,
    LAID,
    LEAD,
    MADE,
    MOVES,
    OFFSETS,
    ROWS,
    SHAPE,
    SIDE,
    SIZE,
    STRUCTURED,
)
from ..parts import clear
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, MOST_AXES, ROOM, drop, hold, most_of, new_array, owner, seen
from .encodings import data_of, put_blocks, put_flat
from .language import TUPLE_SIZE, TYPE_OF, at, inside, none, number_of, peek, peek_int, poke, shared, stack
from .plans import clear_gaps, kind_or_levels, plan_for, put_rest, put_rows, with_items, work_over


@shared
def items_given(common: int, about: int, shape: int, x: int, laid: int, room: int) -> Any:
    """The array of an argument, plain; 0 for another.

    What is laid out as `shape` may be such an encoding, over the very same sequences.
    """
    if not laid or peek(x + TYPE_OF) != peek(shape + TYPE_OF):
        return seen(common, x, room)
    if peek(x + at(about, STRUCTURED)) != peek(shape + at(about, STRUCTURED)):
        return 0
    side = at(about, SIDE)
    if side and peek(x + side) != peek(shape + side):
        return 0
    return data_of(common, about, x, room)


@shared
def has_dimensions(array: int, lead: int, head: int, item: int, axes: int) -> Any:
    """Has an array the `head` lengths at `lead`, and then the `axes` lengths at `item`?"""
    dimensions = peek(array + DIMENSIONS)
    if peek_int(array + AXES) != head + axes:
        return False
    for k in range(head):
        if at(dimensions, k) != at(lead, k):
            return False
    same = True
    for k in range(axes):
        same = same and at(dimensions, head + k) == at(item, k)
    return same


def door(own: int, args: int, count: int) -> Any:
    """`own` is the world of the operation; the encoding and the arrays."""
    common, arrays = at(own, FIRST), at(own, ARRAYS)
    if count != 1 + arrays:
        return none(common)
    x = peek(args)
    about = kind_or_levels(own, common, x)
    if about == 0:
        return none(common)
    structure, known, head = peek(x + at(about, STRUCTURED)), peek(x + at(about, SHAPE)), at(about, LEAD)
    n, rows = number_of(peek(structure + at(common, COUNT))), number_of(peek(structure + at(common, ROWS)))
    one = stack(0)
    poke(one, n)
    lead, places = stack(1), 1
    for k in range(head):
        length = number_of(peek(inside(common, known) + 8 * k))
        poke(lead + 8 * k, length)
        places *= length

    # what is given: as many items as the first has, of dtypes that are known
    given, descrs, rooms = stack(2), stack(3), stack(5)
    item, axes = 0, 0
    for k in range(3):
        poke(descrs + 8 * k, 0)
    for k in range(arrays):
        laid = at(own, LAID) >> k & 1
        array = items_given(common, about, x, peek(args + 8 + 8 * k), laid, rooms + ROOM * k)
        if array == 0:
            return none(common)
        begin = head if laid else 1
        if k == 0:
            item, axes = peek(array + DIMENSIONS) + 8 * begin, peek_int(array + AXES) - begin
        if not 0 <= axes <= MOST_AXES or not has_dimensions(array, lead if laid else one, begin, item, axes):
            return none(common)
        poke(given + 8 * k, array)
        poke(descrs + 8 * k, peek(array + DESCR))
    plan = plan_for(own, at(descrs, 0), at(descrs, 1), at(descrs, 2))
    if plan == 0:
        return none(common)
    if at(own, ALIKE):
        if at(descrs, 0) != peek(x + at(about, DTYPE)) or peek(known + TUPLE_SIZE) != head + axes:
            return none(common)
        for k in range(axes):
            if number_of(peek(inside(common, known) + 8 * (head + k))) != at(item, k):
                return none(common)
    flat, most, size = at(own, FLAT), most_of(common, at(given, 0)), at(plan, SIZE)
    if flat:
        places, head = rows, 1
        poke(lead, rows)
    width = 1
    for k in range(axes):
        width *= at(item, k)
    if n * rows * width == 0 or places > most or width * size > most or places * width * size > most:
        return none(common)

    words, moves, place = stack(4), at(own, MOVES), 0
    for k in range(arrays):
        address = peek(at(given, k) + ARRAY)
        place = put_flat(words, place, address, (places if at(own, LAID) >> k & 1 else n) * width)
        place -= moves
    out_at = place
    place += 2 - moves
    if flat:
        offsets = peek(structure + at(common, OFFSETS))
        place = put_blocks(words, place, offsets, offsets, -1, 0)
    else:
        place = put_rows(own, common, words, place, about, x, lead)
    if place == 0:
        return none(common)
    for k in range(axes):
        poke(lead + 8 * (head + k), at(item, k))
    out = new_array(common, at(plan, MADE), head + axes, lead, stack(6))
    if out == 0:
        return 0
    bytes = places * width * size
    if at(own, CLEARED):
        clear(peek(out + ARRAY), 0, bytes)
    elif not flat:
        clear_gaps(common, about, x, out, places, bytes)
    poke(words + 8 * out_at, peek(out + ARRAY))
    if not moves:
        poke(words + 8 * out_at + 8, places * width)
    put_rest(own, words, place, width * size if moves else width, n)
    for k in range(arrays):
        hold(at(given, k))
    work_over(common, about, x, at(plan, KERNEL), words, bytes)
    for k in range(arrays):
        drop(at(given, k))
    return owner(out) if flat else with_items(common, about, x, out)
