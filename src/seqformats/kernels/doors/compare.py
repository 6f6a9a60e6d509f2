"""How far the sequences of two batches are from each other: ``sf.levenshtein(x, y)`` of two `Ragged` or `Masked`."""

from ...native.words import (
    COUNT,
    FIRST,
    KERNEL,
    LEAD,
    LONGEST,
    MADE,
    MASKED,
    NUMBER,
    ROWS,
    STRUCTURED,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, drop, hold, is_tensor, most_of, new_array, number_size, owner
from .encodings import data_of, kind_of, put_flat, put_layout, put_number
from .language import at, keep, let_go, none, number_of, peek, peek_int, poke, shared, stack, work
from .plans import plan_for
from .structures import new_integers
from .taking import kind_number, row_of


@shared
def is_of_tokens(common: int, about: int, data: int) -> bool:
    """Does each sequence lie in one piece of an array that is not large, and is an item a number?"""
    if kind_number(common, about) > MASKED or row_of(data, at(about, LEAD)) != number_size(data):
        return False
    return row_of(data, 0) <= most_of(common, data)


@shared
def put_tokens(words: int, place: int, data: int) -> int:
    """An array in one piece; the place behind it."""
    count = 1
    for k in range(peek_int(data + AXES)):
        count *= at(peek(data + DIMENSIONS), k)
    return put_flat(words, place, peek(data + ARRAY), count)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; its numbers: words of a table, columns of much work, the least token."""
    common = at(own, FIRST)
    if count != 2:
        return none(common)
    x, y = peek(args), peek(args + 8)
    one, two = kind_of(common, x), kind_of(common, y)
    if one == 0 or two == 0:
        return none(common)
    items, others = data_of(common, one, x, stack(1)), data_of(common, two, y, stack(2))
    if items == 0 or others == 0 or is_tensor(items) != is_tensor(others):
        return none(common)
    plan = plan_for(own, peek(items + DESCR), peek(others + DESCR), 0)
    if plan == 0 or not is_of_tokens(common, one, items) or not is_of_tokens(common, two, others):
        return none(common)
    first, second = peek(x + at(one, STRUCTURED)), peek(y + at(two, STRUCTURED))
    n, longest = number_of(peek(first + at(common, COUNT))), number_of(peek(second + at(common, LONGEST)))
    columns = number_of(peek(first + at(common, ROWS))) * (longest // 64 + 1)
    if n == 0 or number_of(peek(second + at(common, COUNT))) != n or columns >= at(own, NUMBER + 1):
        return none(common)
    room = at(own, NUMBER) + max(longest, number_of(peek(first + at(common, LONGEST))))
    table, shape, begins = new_integers(common, room), stack(3), stack(4)
    poke(shape, n)
    out = new_array(common, at(plan, MADE), 1, shape, stack(5)) if table else 0
    if out == 0:
        if table:
            let_go(table)
        return 0
    words = stack(0)
    place = put_tokens(words, 0, items)
    place = put_tokens(words, place, others)
    place = put_flat(words, place, peek(out + ARRAY), n)
    place = put_flat(words, place, peek(table + ARRAY), room)
    place = put_layout(common, words, place, one, x, peek(items + DIMENSIONS))
    place = put_layout(common, words, place, two, y, peek(others + DIMENSIONS)) if place else 0
    if place == 0:
        let_go(table)
        drop(out)
        return none(common)
    poke(begins, 0)
    poke(begins + 8, n)
    place = put_flat(words, place, begins, 2)
    place = put_number(words, place, room)
    place = put_number(words, place, at(own, NUMBER + 2))
    place = put_number(words, place, 1)  # width, and the units to begin and to end with
    place = put_number(words, place, 0)
    put_number(words, place, 1)
    keep(first)
    keep(second)
    hold(items)
    hold(others)
    work(at(plan, KERNEL), words, 16 * columns)
    drop(others)
    drop(items)
    let_go(second)
    let_go(first)
    let_go(table)
    return owner(out)
