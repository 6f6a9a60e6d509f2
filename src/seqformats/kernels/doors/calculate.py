"""One kernel over the sequences of an encoding: reductions, and operations that give an item an item.

``door(x)`` is what `operations.over.Calculation` makes of `x`; of a kernel that moves rows, the same rows elsewhere.
"""

from ...native.words import (
    BY_ITEM,
    COUNT,
    FIRST,
    GIVEN,
    KERNEL,
    LEAD,
    LEARNED,
    MADE,
    MOST,
    MOVES,
    NARROW,
    NUMBER,
    NUMBERS,
    PLANS,
    SIZE,
    STRUCTURED,
)
from .language import (
    ARRAY,
    AXES,
    DESCR,
    DIMENSIONS,
    ITEM_SIZE,
    at,
    clear_padding,
    data_of,
    kind_of,
    new_array,
    none,
    number_of,
    peek,
    peek_int,
    poke,
    put_flat,
    put_layout,
    put_number,
    stack,
    with_data,
    work,
)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; one argument."""
    common = at(own, FIRST)
    if count != 1:
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0:
        return none(common)
    data = data_of(common, about, x)
    if data == 0:
        return none(common)
    descr = peek(data + DESCR)
    plan = 0
    for k in range(at(own, LEARNED)):
        if at(own, PLANS + 4 * k + GIVEN) == descr:
            plan = own + 8 * (PLANS + 4 * k)
    if plan == 0:
        return none(common)
    axes, dimensions, lead = peek_int(data + AXES), peek(data + DIMENSIONS), at(about, LEAD)
    structure = peek(x + at(about, STRUCTURED))
    n = number_of(peek(structure + at(common, COUNT)))
    width = 1
    for k in range(lead, axes):
        width *= at(dimensions, k)
    if at(own, NARROW) and axes != lead:
        return none(common)
    items = width
    for k in range(lead):
        items *= at(dimensions, k)
    given = peek(descr + ITEM_SIZE)
    size = at(plan, SIZE)
    if n * items == 0 or items * given > at(common, MOST):
        return none(common)

    words = stack(0)
    moves = at(own, MOVES)
    if moves:
        poke(words, peek(data + ARRAY))
        target = 1
    else:
        target = put_flat(words, 0, peek(data + ARRAY), items)
    place = put_layout(common, words, target + (1 if moves else 2), about, x, dimensions)
    if place == 0:
        return none(common)
    if at(own, BY_ITEM):
        out = new_array(common, at(plan, MADE), axes, dimensions)
        if out == 0:
            return 0
        clear_padding(about, out, items * size)
        if not moves:
            poke(words + 8 * target + 8, items)
    else:
        shape = stack(1)
        poke(shape, n)
        for k in range(lead, axes):
            poke(shape + 8 * (1 + k - lead), at(dimensions, k))
        out = new_array(common, at(plan, MADE), 1 + axes - lead, shape)
        if out == 0:
            return 0
        if not moves:
            poke(words + 8 * target + 8, n * width)
    poke(words + 8 * target, peek(out + ARRAY))
    for k in range(at(own, NUMBERS)):
        place = put_number(words, place, at(own, NUMBER + k))
    place = put_number(words, place, width * given if moves else width)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    work(at(plan, KERNEL), words, items * given)
    return with_data(about, x, out) if at(own, BY_ITEM) else out
