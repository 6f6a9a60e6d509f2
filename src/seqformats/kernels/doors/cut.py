"""A run of items of every sequence of a `Ragged`: ``sf.cut``, or by `MODE` ``sf.truncate`` or ``sf.slice``.

Bounds are whole numbers or None, for all sequences.
"""

from ...native.words import (
    COUNT,
    COUNTER,
    FIRST,
    LEAD,
    LEFT,
    LENGTHS,
    MODE,
    NONE,
    OFFSETS,
    PICKER,
    PLACER,
    RAGGED,
    RIGHT,
    STRUCTURED,
)
from .arrays import ARRAY
from .encodings import data_of, kind_of, put_array, put_flat, put_number
from .language import at, is_whole, let_go, none, number_of, peek, poke, run, shared, stack
from .structures import new_integers
from .taking import cut_out, is_known, is_large, kind_number, move_picks, new_rows, ragged_of, row_of

CUT, TRUNCATE, SLICE = range(3)
FAR = 0x7FFFFFFFFFFFFFFF
OPEN, FROM, TO, BOTH = range(4)  # which bounds there are
APART = 4  # beside them: are steps others than 1?


@shared
def bounds_of(own: int, args: int, bounds: int) -> int:
    """Write start, stop and step, and return which of the first two there are; -1 where they are not plain."""
    common, found = at(own, FIRST), 0
    for k in range(2):
        given, place = peek(args + 8 * k), bounds + 8 * k
        poke(place, 0)
        if given == at(common, NONE):
            continue
        if not is_whole(common, given, place) or peek(place) < -FAR:
            return -1
        found |= 1 << k
    if not is_whole(common, peek(args + 16), bounds + 16) or at(bounds, 2) == 0 or at(bounds, 2) < -FAR:
        return -1
    return found if at(bounds, 2) == 1 else found | APART


@shared
def shortening_of(own: int, args: int, bounds: int) -> int:
    """The same of how many items are left, and the side where others are cut off."""
    common, side = at(own, FIRST), peek(args + 8)
    if not is_whole(common, peek(args), bounds) or at(bounds, 0) < 0:
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


@shared
def range_of(own: int, args: int, bounds: int) -> int:
    """The same of where a range begins, and how long it is."""
    common = at(own, FIRST)
    if not is_whole(common, peek(args), bounds) or not is_whole(common, peek(args + 8), bounds + 8):
        return -1
    start, size = at(bounds, 0), at(bounds, 1)
    if start < 0 or size < 0 or start > FAR >> 1 or size > FAR >> 1:
        return -1
    poke(bounds + 8, start + size)
    poke(bounds + 16, 1)
    return BOTH


@shared
def reaches(lengths: int, n: int, stop: int) -> bool:
    """Has every sequence so many items?"""
    enough = True
    for i in range(n):
        enough &= at(lengths, i) >= stop
    return enough


@shared
def picked(own: int, data: int, block: int, n: int, longest: int, bounds: int, offsets: int) -> int:
    """A `Ragged` of items that do not lie side by side; the arguments are as those of `cut_out`."""
    common, table = at(own, FIRST), peek(block + ARRAY)
    rows = at(table, 2 * n)
    places = new_integers(common, rows)
    out = new_rows(common, data, 1, rows, stack(3)) if places else 0
    if out == 0:
        if places:
            let_go(places)
        let_go(block)
        return 0
    words, cum = stack(2), table + 8 * n
    place = put_flat(words, 0, table + 8 * (2 * n + 1), n)
    place = put_array(words, place, offsets)
    place = put_flat(words, place, bounds + 16, 1)
    place = put_flat(words, place, cum, n + 1)
    put_array(words, place, places)
    run(at(own, PLACER), words)
    move_picks(at(own, PICKER), data, out, peek(offsets + ARRAY), cum, peek(places + ARRAY), n, row_of(data, 1))
    let_go(places)
    return ragged_of(common, out, block, n, longest)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; four arguments, or three."""
    common = at(own, FIRST)
    mode = at(own, MODE)
    if count != (4 if mode == CUT else 3):
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    data = data_of(common, about, x, stack(2))
    if data == 0:
        return none(common)
    bounds = stack(0)
    if mode == CUT:
        form = bounds_of(own, args + 8, bounds)
    else:
        form = shortening_of(own, args + 8, bounds) if mode == TRUNCATE else range_of(own, args + 8, bounds)
    if form < 0 or not is_known(own, form, data):
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
    place = put_number(words, place, BOTH - (form & BOTH))
    put_flat(words, place, table, 3 * n + 2)
    longest = run(at(own, COUNTER), words)
    rows, row = at(table, 2 * n), row_of(data, at(about, LEAD))
    apart = at(table, 3 * n + 1) != 0
    if is_large(common, data, rows * max(row, 8)) or apart != (form & APART != 0):
        let_go(block)
        return none(common)
    if apart:
        return picked(own, data, block, n, longest, bounds, peek(structure + at(common, OFFSETS)))
    if mode == SLICE and not reaches(peek(peek(structure + at(common, LENGTHS)) + ARRAY), n, at(bounds, 1)):
        let_go(block)
        return none(common)
    return cut_out(own, x, data, block, n, longest)
