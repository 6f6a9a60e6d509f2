"""Items at places of their sequences: ``sf.gather(x, index)`` of two `Ragged`, the places in int64."""

from ...native.words import COUNT, COUNTER, FIRST, LEAD, LENGTHS, MOVER, OFFSETS, RAGGED, ROWS, STRUCTURED
from .arrays import ARRAY, AXES, DESCR, int64_beside
from .encodings import data_of, kind_of, put_array
from .language import at, keep, let_go, none, number_of, peek, peek_int, run, stack
from .structures import new_integers, new_ragged
from .taking import is_known, is_large, kind_number, move_picks, new_rows, row_of


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; two arguments."""
    common = at(own, FIRST)
    if count != 2:
        return none(common)
    x, index = peek(args), peek(args + 8)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED or kind_of(common, index) != about:
        return none(common)
    data, wanted = data_of(common, about, x, stack(1)), data_of(common, about, index, stack(2))
    if data == 0 or wanted == 0 or peek(wanted + DESCR) != int64_beside(common, data) or peek_int(wanted + AXES) != 1:
        return none(common)
    if not is_known(own, 0, data):
        return none(common)
    structure, asked = peek(x + at(about, STRUCTURED)), peek(index + at(about, STRUCTURED))
    n, rows = number_of(peek(structure + at(common, COUNT))), number_of(peek(asked + at(common, ROWS)))
    row = row_of(data, at(about, LEAD))
    if number_of(peek(asked + at(common, COUNT))) != n or is_large(common, data, rows * max(row, 8)):
        return none(common)
    block = new_integers(common, rows)
    if block == 0:
        return 0
    offsets, cum = peek(asked + at(common, OFFSETS)), peek(peek(structure + at(common, OFFSETS)) + ARRAY)
    words = stack(0)
    place = put_array(words, 0, wanted)
    place = put_array(words, place, block)
    place = put_array(words, place, offsets)
    put_array(words, place, peek(structure + at(common, LENGTHS)))
    wrong = run(at(own, COUNTER), words) >= 0
    out = 0 if wrong else new_rows(common, data, at(about, LEAD), rows, stack(3))
    if out == 0:
        let_go(block)
        return none(common) if wrong else 0
    move_picks(at(own, MOVER), data, out, cum, peek(offsets + ARRAY), peek(block + ARRAY), n, row)
    let_go(block)
    keep(asked)
    return new_ragged(common, out, asked)
