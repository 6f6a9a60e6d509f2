"""What the constructors of `Ragged` and `Masked` check, and what they put beside their fields.

``door(x)`` of an encoding whose fields are as they were given: True where it has been filled, None where the general
way has to look, and to say what is wrong.
"""

from ...native.words import (
    CHECK_LENGTHS,
    DATA,
    DTYPE,
    FIRST,
    IN_TENSOR,
    KINDS,
    LEAD,
    LEFT,
    LENGTHS,
    LENGTHS_OF,
    LIST,
    MASKED,
    MOST,
    RIGHT,
    SHAPE,
    SIDE,
    STRUCTURED,
    TRUE,
    TUPLE,
    WIDE,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, has_objects, int64_beside, is_tensor, shape_of, shown
from .encodings import kind_to_fill, put_flat, put_number
from .language import (
    ITEMS_IN_LIST,
    TUPLE_SIZE,
    TYPE_OF,
    at,
    inside,
    is_whole,
    keep,
    let_go,
    none,
    peek,
    peek_int,
    poke,
    replace,
    shared,
    stack,
    work,
)
from .structures import new_integers, new_structure
from .taking import is_known


def door(own: int, args: int, count: int) -> int:
    """`own` is a world; one argument."""
    common = at(own, FIRST)
    x = peek(args)
    about = kind_to_fill(common, x) if count == 1 else 0
    if about == 0:
        return none(common)
    kind = (about - common - 8 * KINDS) // (8 * WIDE)
    given, lengths = peek(x + at(about, DATA)), peek(x + at(about, LENGTHS_OF))
    data = shown(common, given, stack(1)) if given != 0 and lengths != 0 else 0
    if data == 0 or has_objects(data) or peek_int(data + AXES) < at(about, LEAD):
        return none(common)
    numbers = shown(common, lengths, stack(2))
    n = count_of(common, lengths, numbers)
    form = kind + (IN_TENSOR if numbers != 0 and is_tensor(numbers) else 0)
    if n < 0 or n > at(common, MOST) >> 3 or not is_known(own, form, data):
        return none(common)
    rows = at(peek(data + DIMENSIONS), 0)
    if kind == MASKED:
        side = peek(x + at(about, SIDE))
        if n != rows or (side != at(common, LEFT) and side != at(common, RIGHT)):
            return none(common)

    block = new_integers(common, 2 * n + 1)
    if block == 0:
        return 0
    begin = peek(block + ARRAY)
    longest = checked(own, common, lengths, numbers, begin, n, 2**63 - 1 if kind == MASKED else rows)
    total = at(begin, 2 * n)
    if longest < 0 or (longest > at(peek(data + DIMENSIONS), 1) if kind == MASKED else total != rows):
        let_go(block)
        return none(common)
    structure = new_structure(common, block, n, total, longest)
    if structure == 0:
        return 0
    shape = shape_of(common, data)
    if shape == 0:
        let_go(structure)
        return 0
    own_lengths, descr = peek(structure + at(common, LENGTHS)), peek(data + DESCR)
    keep(own_lengths)
    keep(descr)
    replace(x + at(about, STRUCTURED), structure)
    replace(x + at(about, SHAPE), shape)
    replace(x + at(about, DTYPE), descr)
    replace(x + at(about, LENGTHS_OF), own_lengths)
    keep(at(common, TRUE))
    return at(common, TRUE)


@shared
def count_of(common: int, lengths: int, numbers: int) -> int:
    """How many numbers are in a list or tuple, or in `numbers`, the array of int64 that it is; else -1."""
    kind = peek(lengths + TYPE_OF)
    if kind == at(common, LIST) or kind == at(common, TUPLE):
        return peek(lengths + TUPLE_SIZE)
    if numbers == 0 or peek(numbers + DESCR) != int64_beside(common, numbers) or peek_int(numbers + AXES) != 1:
        return -1
    return at(peek(numbers + DIMENSIONS), 0)


@shared
def checked(own: int, common: int, lengths: int, numbers: int, begin: int, n: int, limit: int) -> int:
    """Write lengths and offsets; the longest, or a negative number where something is wrong."""
    kind = peek(lengths + TYPE_OF)
    if numbers != 0:
        source = peek(numbers + ARRAY)
        for k in range(n):
            poke(begin + 8 * k, at(source, k))
    else:
        items = inside(common, lengths) if kind == at(common, TUPLE) else peek(lengths + ITEMS_IN_LIST)
        for k in range(n):
            if not is_whole(common, at(items, k), begin + 8 * k) or at(begin, k) < 0:
                return -1
    words = stack(0)
    place = put_flat(words, 0, begin, n)
    place = put_flat(words, place, begin + 8 * n, n + 1)
    put_number(words, place, limit)
    return work(at(own, CHECK_LENGTHS), words, 16 * n)
