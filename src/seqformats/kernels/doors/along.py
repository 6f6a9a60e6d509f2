"""The items of every sequence moved along it: ``sf.shift(x, by, fill)``, as far for each, and filled with zeros."""

from ...native.words import COUNT, FIRST, GAPPED, LEAD, LONGEST, MOVER, ROWS, STRUCTURED
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, new_array
from .encodings import clear_padding, data_of, kind_of, put_flat, put_layout, put_number, with_data
from .language import at, is_whole, none, number_of, peek, peek_int, poke, stack, work
from .taking import is_known, is_large, kind_number, row_of


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; three arguments."""
    common, numbers = at(own, FIRST), stack(0)
    if count != 3:
        return none(common)
    x, by, fill = peek(args), peek(args + 8), peek(args + 16)
    if not is_whole(common, by, numbers) or not is_whole(common, fill, numbers + 8):
        return none(common)
    about = kind_of(common, x)
    if about == 0 or at(numbers, 1) != 0:
        return none(common)
    data = data_of(common, about, x, stack(2))
    if data == 0 or not is_known(own, kind_number(common, about), data):
        return none(common)
    structure, dimensions = peek(x + at(about, STRUCTURED)), peek(data + DIMENSIONS)
    far = number_of(peek(structure + at(common, LONGEST)))
    poke(numbers, min(max(at(numbers, 0), -far), far))
    row, size = row_of(data, at(about, LEAD)), row_of(data, 0)
    words = stack(1)
    place = put_layout(common, words, 2, about, x, dimensions)
    if place == 0 or is_large(common, data, size) or size == 0:
        return none(common)
    out = new_array(common, peek(data + DESCR), peek_int(data + AXES), dimensions, stack(3))
    if out == 0:
        return 0
    if at(about, GAPPED):
        clear_padding(about, out, size)
    put_number(words, put_number(words, 0, peek(data + ARRAY)), peek(out + ARRAY))
    place = put_flat(words, place, numbers, 1)
    place = put_number(words, place, 0)
    place = put_number(words, place, 0)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    place = put_number(words, place, number_of(peek(structure + at(common, COUNT))))
    work(at(own, MOVER), words, row * number_of(peek(structure + at(common, ROWS))))
    return with_data(about, x, out)
