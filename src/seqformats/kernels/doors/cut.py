"""A run of items of every sequence of a `Ragged`: ``sf.cut(x, start, stop, step)``, with `MODE` 1 ``sf.truncate``.

Bounds are whole numbers or None, for all sequences; runs lie side by side.
"""

from ...native.words import (
    COUNT,
    COUNTER,
    FIRST,
    LEAD,
    LEFT,
    LENGTHS,
    MODE,
    MOVER,
    NONE,
    OFFSETS,
    RAGGED,
    RIGHT,
    ROWS,
    STRUCTURED,
)
from .language import (
    ARRAY,
    at,
    data_of,
    keep,
    kind_of,
    let_go,
    new_integers,
    none,
    number_of,
    peek,
    poke,
    put_array,
    put_flat,
    put_number,
    run,
    shared,
    stack,
)
from .taking import is_known, is_large, is_whole, kind_number, move_runs, new_rows, ragged_of, row_of

FAR = 0x7FFFFFFFFFFFFFFF
OPEN, FROM, TO, BOTH = range(4)  # which bounds there are


@shared
def bounds_of(own: int, args: int, bounds: int) -> int:
    """Write start, stop and step, and return which of the first two there are; -1 where they are not plain."""
    common, found = at(own, FIRST), 0
    for k in range(2):
        given, place = peek(args + 8 * k), bounds + 8 * k
        poke(place, 0)
        if given == at(common, NONE):
            continue
        if not is_whole(own, given, place) or peek(place) < -FAR:
            return -1
        found |= 1 << k
    if not is_whole(own, peek(args + 16), bounds + 16) or at(bounds, 2) == 0 or at(bounds, 2) < -FAR:
        return -1
    return found


@shared
def shortening_of(own: int, args: int, bounds: int) -> int:
    """The same of how many items are left, and the side where others are cut off."""
    common, side = at(own, FIRST), peek(args + 8)
    if not is_whole(own, peek(args), bounds) or at(bounds, 0) < 0:
        return -1
    most = at(bounds, 0)
    poke(bounds + 8, most)
    poke(bounds + 16, 1)
    if side == at(common, LEFT):
        poke(bounds, -most if most else FAR)  # the last 0 items are no slice from -0 on
        poke(bounds + 8, 0)
        return FROM
    poke(bounds, 0)
    return TO if side == at(common, RIGHT) else -1


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; four arguments, or three."""
    common = at(own, FIRST)
    mode = at(own, MODE)
    if count != 4 - mode:
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    data = data_of(common, about, x)
    if data == 0:
        return none(common)
    bounds = stack(0)
    form = shortening_of(own, args + 8, bounds) if mode else bounds_of(own, args + 8, bounds)
    if form < 0 or not is_known(own, form):
        return none(common)
    structure = peek(x + at(about, STRUCTURED))
    n = number_of(peek(structure + at(common, COUNT)))
    block = new_integers(common, 3 * n + 2)  # lengths, offsets, where they begin; do some lie apart?
    if block == 0:
        return 0
    table = peek(block + ARRAY)
    words = stack(1)
    place = put_array(words, 0, peek(structure + at(common, LENGTHS)))
    place = put_array(words, place, peek(structure + at(common, OFFSETS)))
    place = put_flat(words, place, bounds, 3)
    place = put_number(words, place, 0)
    place = put_number(words, place, BOTH - form)
    put_flat(words, place, table, 3 * n + 2)
    longest = run(at(own, COUNTER), words)
    rows, row = at(table, 2 * n), row_of(data, at(about, LEAD))
    if at(table, 3 * n + 1) or is_large(common, rows * row):
        let_go(block)
        return none(common)
    if rows == number_of(peek(structure + at(common, ROWS))):  # nothing is cut off
        let_go(block)
        keep(x)
        return x
    out = new_rows(common, data, at(about, LEAD), rows)
    if out == 0:
        let_go(block)
        return 0
    move_runs(at(own, MOVER), data, out, table + 8 * (2 * n + 1), table + 8 * n, n, row)
    return ragged_of(common, out, block, n, longest)
