"""What doors share that take items out of batches: what they are given, and what they make of it."""

from ...native.words import (
    FIELDS,
    FIRST,
    FORM,
    FORMS,
    KINDS,
    KNOWN,
    LENGTHS_OF,
    MOVER,
    RAGGED,
    ROWS,
    STRUCTURED,
    WIDE,
)
from .arrays import (
    ARRAY,
    AXES,
    DESCR,
    DIMENSIONS,
    FLAGS,
    PLAIN,
    WRITABLE,
    drop,
    is_tensor,
    most_of,
    new_array,
    new_view,
    number_size,
    seen,
)
from .encodings import data_of, kind_of, put_flat, put_number
from .language import (
    at,
    keep,
    let_go,
    number_of,
    peek,
    peek_int,
    poke,
    share,
    shared,
    stack,
    work,
)
from .structures import begun, new_ragged, new_structure


@shared
def is_known(own: int, form: int, array: int) -> bool:
    """May calls of this form go through, with arrays of this one's library?"""
    return is_known_of(own, form, is_tensor(array))


@shared
def is_known_of(own: int, form: int, tensors: int) -> bool:
    """The same, with tensors: 1, or with arrays of NumPy: 0."""
    poke(own + 8 * FORM, form + FORMS * tensors)
    return at(own, KNOWN + tensors) >> form & 1 == 1


@shared
def kind_number(common: int, about: int) -> int:
    """Which encoding it is: `native.words.RAGGED` and so on."""
    return (about - common - 8 * KINDS) // (8 * WIDE)


@shared
def row_of(data: int, lead: int) -> int:
    """The bytes of an item."""
    dimensions = peek(data + DIMENSIONS)
    size = number_size(data)
    for k in range(lead, peek_int(data + AXES)):
        size *= at(dimensions, k)
    return size


@shared
def one_an_item(common: int, given: int, structure: int, data: int, room: int) -> int:
    """An array of one number for each item of a structure, beside `data`; 0 where it is not plain.

    It is given as such, or as a `Ragged` over that structure.
    """
    about = kind_of(common, given)
    if about == 0:
        array = seen(common, given, room)
    elif kind_number(common, about) != RAGGED or peek(given + at(about, STRUCTURED)) != structure:
        return 0
    else:
        array = data_of(common, about, given, room)
    if array == 0 or peek_int(array + AXES) != 1 or is_tensor(array) != is_tensor(data):
        return 0
    return array if at(peek(array + DIMENSIONS), 0) == number_of(peek(structure + at(common, ROWS))) else 0


@shared
def new_rows(common: int, like: int, lead: int, rows: int, room: int) -> int:
    """A new array of so many items like those of an array, which begin behind its first axes; 0 with an error set."""
    return new_rows_in(common, peek(like + DESCR), like, lead, rows, room)


@shared
def new_rows_in(common: int, descr: int, like: int, lead: int, rows: int, room: int) -> int:
    """The same in another dtype."""
    shape, dimensions, axes = stack(0), peek(like + DIMENSIONS), peek_int(like + AXES)
    poke(shape, rows)
    for k in range(lead, axes):
        poke(shape + 8 * (1 + k - lead), at(dimensions, k))
    return new_array(common, descr, 1 + axes - lead, shape, room)


@shared
def rows_between(common: int, data: int, first: int, count: int) -> int:
    """A view of some rows of an array of NumPy; 0 with an error set."""
    shape, dimensions, axes = stack(1), peek(data + DIMENSIONS), peek_int(data + AXES)
    poke(shape, count)
    for k in range(1, axes):
        poke(shape + 8 * k, at(dimensions, k))
    flags = PLAIN | (peek_int(data + FLAGS) & WRITABLE)
    place = peek(data + ARRAY) + first * row_of(data, 1)
    return new_view(common, data, peek(data + DESCR), axes, shape, place, flags)


@shared
def is_large(common: int, array: int, size: int) -> bool:
    """Are these more bytes than a door reads and writes of such an array?"""
    return size > most_of(common, array)


@shared
def put_runs(words: int, place: int, starts: int, cum: int, n: int) -> int:
    """The layout of n sequences that begin at rows `starts`, by the addresses of int64; the place behind it."""
    place = put_flat(words, place, starts, n)
    place = put_flat(words, place, cum, n + 1)
    place = put_flat(words, place, cum, n + 1)
    place = put_number(words, place, -1)
    place = put_number(words, place, 0)
    place = put_number(words, place, 1)
    return put_number(words, place, 0)


@shared
def move_runs(mover: int, data: int, out: int, starts: int, cum: int, n: int, row: int) -> int:
    """Move n sequences, that begin at rows `starts` of an array, one after the other to another."""
    words = stack(2)
    place = put_number(words, 0, peek(data + ARRAY))
    place = put_number(words, place, peek(out + ARRAY))
    place = put_runs(words, place, starts, cum, n)
    place = put_runs(words, place, cum, cum, n)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    place = put_number(words, place, n)
    return work(mover, words, at(cum, n) * row)


@shared
def move_picks(mover: int, data: int, out: int, base: int, cum: int, places: int, n: int, row: int) -> int:
    """Move items, at `places` of n sequences that begin at rows `base` of an array, one after the other to another.

    Those of sequence i are ``places[cum[i]:cum[i + 1]]``; all are addresses of int64.
    """
    words = stack(2)
    place = put_number(words, 0, peek(data + ARRAY))
    place = put_number(words, place, peek(out + ARRAY))
    place = put_runs(words, place, base, base, n)
    place = put_flat(words, place, cum, n + 1)
    place = put_flat(words, place, places, at(cum, n))
    place = put_number(words, place, 1)
    place = put_number(words, place, 0)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    return work(mover, words, at(cum, n) * row) if row else 0


@shared
def ragged_of(common: int, data: int, block: int, n: int, longest: int) -> int:
    """A `Ragged` over new data, with the n lengths and the offsets that a block begins with; 0 with an error set.

    Both belong to it from now on.
    """
    structure = new_structure(common, block, n, at(peek(block + ARRAY), 2 * n), longest)
    if structure == 0:
        drop(data)
        return 0
    return new_ragged(common, data, structure)


@shared
def cut_out(own: int, x: int, data: int, block: int, n: int, longest: int) -> int:
    """A `Ragged` of what is taken of each sequence of another, or that itself; 0 with an error set.

    `data` is its array.  A block, which belongs to it from now on, says it: n lengths, the offsets, and the rows where
    these begin.
    """
    common = at(own, FIRST)
    about = kind_of(common, x)
    table = peek(block + ARRAY)
    rows = at(table, 2 * n)
    if rows == number_of(peek(peek(x + at(about, STRUCTURED)) + at(common, ROWS))):  # nothing is cut off
        let_go(block)
        keep(x)
        return x
    out = new_rows(common, data, 1, rows, stack(3))
    if out == 0:
        let_go(block)
        return 0
    move_runs(at(own, MOVER), data, out, table + 8 * (2 * n + 1), table + 8 * n, n, row_of(data, 1))
    return ragged_of(common, out, block, n, longest)


@shared
def remade(common: int, about: int, x: int, data: int, structure: int, lengths: int) -> int:
    """The same kind of encoding over other data of the same dtype and other sequences; 0 with an error set.

    `data` and `structure` belong to it from now on; `lengths` are those of the structure.
    """
    made = begun(common, about, data, structure)
    if made == 0:
        return 0
    for k in range(at(about, FIELDS)):
        slot = at(about, FIELDS + 1 + k)
        if peek(made + slot) == 0:
            share(made + slot, lengths if slot == at(about, LENGTHS_OF) else peek(x + slot))
    return made
