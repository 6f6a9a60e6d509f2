"""Random items of an encoding without padding, hidden: ``sf.mask_tokens`` of plain ids, where its options are read.

The arguments are the ids, those that are never chosen, those that others are drawn from, and the numbers that the
kernel takes; all but the first are arrays of int64 that the general way has made.
"""

from ...native.words import BOOL, COUNT, FIRST, GAPPED, KERNEL, LEAD, NAMED, ROWS, STRUCTURED, TENSOR_BOOL
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, drop, hold, int64_beside, is_tensor, new_array
from .encodings import data_of, kind_of, put_array, put_flat, put_layout, put_number, with_data
from .language import at, inside, let_go, new_named, none, number_of, peek, peek_int, poke, shared, stack
from .plans import plan_for, work_over
from .taking import is_large, row_of


@shared
def named(common: int, kind: int, about: int, x: int, ids: int, labels: int, chosen: int) -> int:
    """The three arrays, which belong to it from now on, as encodings in a named tuple; 0 with an error set."""
    made = new_named(common, kind, 3)
    one = with_data(about, x, ids)
    two = with_data(about, x, labels)
    three = with_data(about, x, chosen)
    if made == 0 or one == 0 or two == 0 or three == 0:
        for given in (made, one, two, three):
            if given:
                let_go(given)
        return 0
    poke(inside(common, made), one)
    poke(inside(common, made) + 8, two)
    poke(inside(common, made) + 16, three)
    return made


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; four arguments."""
    common = at(own, FIRST)
    if count != 4:
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0 or at(about, GAPPED):
        return none(common)
    data = data_of(common, about, x, stack(1))
    plan = plan_for(own, peek(data + DESCR), 0, 0) if data else 0
    lead = at(about, LEAD)
    if plan == 0 or peek_int(data + AXES) > lead + 1:
        return none(common)
    structure, size = peek(x + at(about, STRUCTURED)), row_of(data, lead)
    n, rows = number_of(peek(structure + at(common, COUNT))), number_of(peek(structure + at(common, ROWS)))
    if size != row_of(data, peek_int(data + AXES)) or rows == 0 or is_large(common, data, 24 * rows):
        return none(common)
    words, dimensions = stack(2), peek(data + DIMENSIONS)
    place = put_layout(common, words, 12, about, x, dimensions)
    if place == 0:
        return none(common)
    boolean = at(common, TENSOR_BOOL) if is_tensor(data) else at(common, BOOL)
    axes = peek_int(data + AXES)
    ids = new_array(common, peek(data + DESCR), axes, dimensions, stack(3))
    labels = new_array(common, int64_beside(common, data), axes, dimensions, stack(4)) if ids else 0
    chosen = new_array(common, boolean, axes, dimensions, stack(5)) if labels else 0
    if chosen == 0:
        if ids:
            drop(ids)
        if labels:
            drop(labels)
        return 0
    put_flat(words, 0, peek(data + ARRAY), rows)
    put_flat(words, 2, words, 0)  # no marks
    put_flat(words, 4, words, 0)  # and no words
    put_flat(words, 6, peek(ids + ARRAY), rows)
    put_flat(words, 8, peek(labels + ARRAY), rows)
    put_flat(words, 10, peek(chosen + ARRAY), rows)
    for k in range(3):
        place = put_array(words, place, peek(args + 8 + 8 * k))
    place = put_number(words, place, 1)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    hold(data)
    work_over(common, about, x, at(plan, KERNEL), words, 24 * rows)
    drop(data)
    return named(common, at(own, NAMED), about, x, ids, labels, chosen)
