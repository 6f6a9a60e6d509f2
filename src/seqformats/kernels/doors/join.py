"""Several `Ragged` as one, sequence by sequence: ``sf.concat(parts)``, or, by the kernel, ``sf.interleave(parts)``.

With `MODE` 1 parts may also be single items: whole numbers where items are int64, or arrays like an item.
"""

from ...native.words import (
    COUNT,
    COUNTER,
    FIRST,
    KINDS,
    LEAD,
    LIST,
    MODE,
    MOVER,
    OFFSETS,
    RAGGED,
    STRUCTURED,
    TUPLE,
    WIDE,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, int64_beside, seen
from .encodings import data_of, kind_of, put_flat, put_number
from .language import (
    TUPLE_SIZE,
    TYPE_OF,
    at,
    inside,
    is_whole,
    keep,
    let_go,
    none,
    number_of,
    peek,
    peek_int,
    poke,
    run,
    shared,
    stack,
    tuple_of_list,
    work,
)
from .structures import new_integers
from .taking import is_known, is_large, new_rows, ragged_of, row_of

MOST_PARTS = 16
BATCHES, CONSTANTS = range(2)


@shared
def fits(data: int, like: int, lead: int) -> bool:
    """Are the items of an array like those of another, and has it so many axes before them?"""
    axes, one, other = peek_int(data + AXES), peek(data + DIMENSIONS), peek(like + DIMENSIONS)
    if peek(data + DESCR) != peek(like + DESCR) or axes - lead != peek_int(like + AXES) - 1:
        return False
    same = True
    for k in range(axes - lead):
        same &= at(one, lead + k) == at(other, 1 + k)
    return same


@shared
def address_of(own: int, about: int, part: int, like: int, number: int, n: int, room: int) -> int:
    """Where the items of a part begin, which may be a number that is written to a place; 0 where it is not plain."""
    common = at(own, FIRST)
    if peek(part + TYPE_OF) == peek(about):
        data, structure = data_of(common, about, part, room), peek(part + at(about, STRUCTURED))
        plain = data != 0 and fits(data, like, 1) and number_of(peek(structure + at(common, COUNT))) == n
        return peek(data + ARRAY) if plain else 0
    if at(own, MODE) == 0:
        return 0
    if is_whole(common, part, number):
        return number if peek(like + DESCR) == int64_beside(common, like) and peek_int(like + AXES) == 1 else 0
    item = seen(common, part, room)
    return peek(item + ARRAY) if item != 0 and fits(item, like, 0) else 0


@shared
def joined(own: int, held: int) -> int:
    """The batch of a tuple of parts, None, or 0 with an error set."""
    common, parts = at(own, FIRST), peek(held + TUPLE_SIZE)
    about = common + 8 * (KINDS + RAGGED * WIDE)
    first = 0
    form = BATCHES
    for k in range(parts if parts <= MOST_PARTS else 0):
        part = at(inside(common, held), k)
        if kind_of(common, part) == 0:
            form = CONSTANTS
        elif first == 0:
            first = part
    if first == 0 or kind_of(common, first) != about:
        return none(common)
    like = data_of(common, about, first, stack(3))
    if like == 0 or not is_known(own, form, like):
        return none(common)
    n, row = number_of(peek(peek(first + at(about, STRUCTURED)) + at(common, COUNT))), row_of(like, at(about, LEAD))
    bases, numbers = stack(0), stack(1)  # addresses, and behind them their units
    for k in range(parts):
        part = at(inside(common, held), k)
        address = address_of(own, about, part, like, numbers + 8 * k, n, stack(4))
        if address == 0:
            return none(common)
        poke(bases + 8 * k, address)
        poke(bases + 8 * (parts + k), row if peek(part + TYPE_OF) == peek(about) else 0)

    room = new_integers(common, parts * (n + 1))  # the offsets of each part
    block = new_integers(common, 2 * n + 1) if room else 0
    if block == 0:
        if room:
            let_go(room)
        return 0
    cum, table = peek(room + ARRAY), peek(block + ARRAY)
    for k in range(parts):
        part, own_cum = at(inside(common, held), k), cum + 8 * k * (n + 1)
        if peek(part + TYPE_OF) == peek(about):
            offsets = peek(peek(peek(part + at(about, STRUCTURED)) + at(common, OFFSETS)) + ARRAY)
            for i in range(n + 1):
                poke(own_cum + 8 * i, at(offsets, i))
        else:
            for i in range(n + 1):
                poke(own_cum + 8 * i, i)
    words = stack(2)
    put_flat(words, put_flat(words, 0, cum, parts * (n + 1)), table, 2 * n + 1)
    longest = run(at(own, COUNTER), words)
    rows = at(table, 2 * n)
    wrong = longest < 0 or is_large(common, like, rows * row)
    out = 0 if wrong else new_rows(common, like, at(about, LEAD), rows, stack(5))
    if out == 0:
        let_go(room)
        let_go(block)
        return none(common) if wrong else 0
    place = put_number(words, 0, 0)
    place = put_number(words, place, peek(out + ARRAY))
    place = put_flat(words, place, bases, parts)
    place = put_flat(words, place, bases + 8 * parts, parts)
    place = put_flat(words, place, cum, parts * (n + 1))
    place = put_flat(words, place, cum, parts * (n + 1))
    place = put_flat(words, place, table + 8 * n, n + 1)
    place = put_number(words, place, 1)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    place = put_number(words, place, n)
    if row:
        work(at(own, MOVER), words, rows * row)
    let_go(room)
    return ragged_of(common, out, block, n, longest)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; one argument, a list or a tuple."""
    common = at(own, FIRST)
    given = peek(args)
    if count != 1 or (peek(given + TYPE_OF) != at(common, LIST) and peek(given + TYPE_OF) != at(common, TUPLE)):
        return none(common)
    held = given
    if peek(given + TYPE_OF) == at(common, LIST):  # others may change it while they run
        held = tuple_of_list(given)
        if held == 0:
            return 0
    else:
        keep(held)
    made = joined(own, held)
    let_go(held)
    return made
