"""The items of every sequence of a `Ragged` in a random order: ``sf.shuffle(x, seed)``."""

from ...native.words import COUNT, COUNTER, FIRST, LEAD, MOVER, OFFSETS, RAGGED, ROWS, STRUCTURED
from .arrays import ARRAY
from .encodings import data_of, kind_of, put_array, put_number
from .language import at, is_whole, keep, let_go, none, number_of, peek, stack, work
from .structures import new_integers, new_ragged
from .taking import is_known, is_large, kind_number, move_picks, new_rows, row_of


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; two arguments."""
    common, seed = at(own, FIRST), stack(0)
    if count != 2 or not is_whole(common, peek(args + 8), seed) or peek(seed) < 0:
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    data = data_of(common, about, x, stack(1))
    if data == 0 or not is_known(own, 0, data):
        return none(common)
    structure, row = peek(x + at(about, STRUCTURED)), row_of(data, at(about, LEAD))
    n, rows = number_of(peek(structure + at(common, COUNT))), number_of(peek(structure + at(common, ROWS)))
    if rows * row == 0 or is_large(common, data, rows * max(row, 8)):
        return none(common)
    places = new_integers(common, rows)
    out = new_rows(common, data, at(about, LEAD), rows, stack(3)) if places else 0
    if out == 0:
        if places:
            let_go(places)
        return 0
    offsets = peek(structure + at(common, OFFSETS))
    words, cum = stack(2), peek(offsets + ARRAY)
    place = put_array(words, put_array(words, 0, places), offsets)
    place = put_number(words, place, peek(seed))
    place = put_number(words, place, 1)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    work(at(own, COUNTER), words, 8 * rows)
    move_picks(at(own, MOVER), data, out, cum, cum, peek(places + ARRAY), n, row)
    let_go(places)
    keep(structure)
    return new_ragged(common, out, structure)
