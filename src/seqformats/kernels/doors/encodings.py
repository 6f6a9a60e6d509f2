"""Encodings for doors: what an object is, its array, where its rows lie, and the same over another array."""

from ...native.words import (
    COUNT,
    DATA,
    DTYPE,
    FIELDS,
    GAPPED,
    KINDS,
    LEFT,
    LENGTHS,
    LONGEST,
    MASKED,
    NDARRAY,
    OFFSETS,
    ORDER,
    PADDED,
    RAGGED,
    RIGHT,
    ROWS,
    SHAPE,
    SHAPE_OF_TENSORS,
    SIDE,
    STRUCTURE,
    STRUCTURED,
    TUPLE,
    TYPE,
    WHOLE,
    WIDE,
)
from ..parts import clear
from .arrays import ARRAY, DESCR, DIMENSIONS, drop, has_shape, has_tangent, is_tensor, owner, seen, shown
from .language import TYPE_OF, at, inside, keep, let_go, new_object, peek, poke, shared


@shared
def kind_of(common: int, x: int) -> int:
    """`kind_to_fill`, but 0 for an object whose constructor has not run, or whose private slots were changed."""
    about = kind_to_fill(common, x)
    return about if about != 0 and is_filled(common, about, x) else 0


@shared
def has_structure(common: int, structure: int) -> bool:
    """Is this a structure, with the arrays and numbers that doors read of it?"""
    if peek(structure + TYPE_OF) != at(common, STRUCTURE):
        return False
    lengths, offsets = peek(structure + at(common, LENGTHS)), peek(structure + at(common, OFFSETS))
    n, rows = peek(structure + at(common, COUNT)), peek(structure + at(common, ROWS))
    longest = peek(structure + at(common, LONGEST))
    if lengths == 0 or offsets == 0 or n == 0 or rows == 0 or longest == 0:
        return False
    arrays = peek(lengths + TYPE_OF) == at(common, NDARRAY) and peek(offsets + TYPE_OF) == at(common, NDARRAY)
    whole = at(common, WHOLE)
    return arrays and peek(n + TYPE_OF) == whole and peek(rows + TYPE_OF) == whole and peek(longest + TYPE_OF) == whole


@shared
def is_filled(common: int, about: int, x: int) -> bool:
    """Is there something in all slots of an encoding, and what doors follow of the kind that it has to be?"""
    for k in range(at(about, FIELDS)):
        if peek(x + at(about, FIELDS + 1 + k)) == 0:
            return False
    return bool(has_axes(common, peek(x + at(about, SHAPE))) and has_structure(common, peek(x + at(about, STRUCTURED))))


@shared
def has_axes(common: int, shape: int) -> bool:
    """Is this the shape of an array or of a tensor?"""
    kind = peek(shape + TYPE_OF)
    return kind == at(common, TUPLE) or kind == at(common, SHAPE_OF_TENSORS)


@shared
def kind_to_fill(common: int, x: int) -> int:
    """What is known of the encoding of an object, an address; 0 for any other."""
    kind = peek(x + TYPE_OF)
    for k in range(4):
        about = common + 8 * (KINDS + k * WIDE)
        if at(about, TYPE) == kind:
            return about
    return 0


@shared
def data_of(common: int, about: int, x: int, room: int) -> int:
    """The array of an encoding that is still what was validated, and plain, see `arrays.seen`; else 0."""
    return _valid(common, about, x, seen(common, peek(x + at(about, DATA)), room))


@shared
def data_in_graph(common: int, about: int, x: int, room: int) -> int:
    """The same, where a graph may hear of it later."""
    data = shown(common, peek(x + at(about, DATA)), room)
    return _valid(common, about, x, data) if data == 0 or not is_tensor(data) or not has_tangent(common, data) else 0


@shared
def _valid(common: int, about: int, x: int, data: int) -> int:
    """An array, if it is what was validated; else 0."""
    if data == 0 or peek(data + DESCR) != peek(x + at(about, DTYPE)):
        return 0
    if not has_shape(common, peek(x + at(about, SHAPE)), data):
        return 0
    return data


@shared
def put_array(words: int, place: int, array: int) -> int:
    """An array with one axis, as a kernel takes it; the place behind it."""
    poke(words + 8 * place, peek(array + ARRAY))
    poke(words + 8 * place + 8, peek(peek(array + DIMENSIONS)))
    return place + 2


@shared
def put_flat(words: int, place: int, address: int, count: int) -> int:
    """The same of an address and a number of items."""
    poke(words + 8 * place, address)
    poke(words + 8 * place + 8, count)
    return place + 2


@shared
def put_number(words: int, place: int, number: int) -> int:
    """A whole number; the place behind it."""
    poke(words + 8 * place, number)
    return place + 1


@shared
def put_blocks(words: int, place: int, starts: int, cum: int, stride: int, left: int) -> int:
    """The layout of sequences in blocks; `starts` and `cum` are arrays."""
    place = put_array(words, place, starts)
    place = put_array(words, place, cum)
    place = put_array(words, place, cum)
    place = put_number(words, place, stride)
    place = put_number(words, place, left)
    place = put_number(words, place, 1)
    return put_number(words, place, 0)


@shared
def put_layout(common: int, words: int, place: int, about: int, x: int, dimensions: int) -> int:
    """Where the rows of an encoding lie; the place behind, or 0 where it is not known yet."""
    structure = peek(x + at(about, STRUCTURED))
    offsets = peek(structure + at(common, OFFSETS))
    kind = (about - common - 8 * KINDS) // (8 * WIDE)
    if kind == RAGGED:
        return put_blocks(words, place, offsets, offsets, -1, 0)
    if kind == MASKED:
        side = peek(x + at(about, SIDE))
        if side != at(common, RIGHT) and side != at(common, LEFT):
            return 0
        left = 1 if side == at(common, LEFT) else 0
        return put_blocks(words, place, offsets, offsets, at(dimensions, 1), left)
    order = peek(structure + at(common, ORDER))
    if order == 0:
        return 0
    n, indices, steps = (
        peek(peek(offsets + DIMENSIONS)) - 1,
        peek(inside(common, order) + 8),
        peek(inside(common, order) + 24),
    )
    count = peek(peek(steps + DIMENSIONS))
    step = n if kind == PADDED else 0
    return put_steps(words, place, n, peek(indices + ARRAY), peek(offsets + ARRAY), peek(steps + ARRAY), count, step)


@shared
def put_steps(words: int, place: int, n: int, indices: int, offsets: int, steps: int, count: int, step: int) -> int:
    """The layout of n sequences by steps, whose arrays lie at these addresses, `count` numbers at `steps`."""
    place = put_flat(words, place, indices, n)
    place = put_flat(words, place, offsets, n + 1)
    place = put_flat(words, place, steps, count)
    place = put_number(words, place, -1)
    place = put_number(words, place, 0)
    place = put_number(words, place, step)
    return put_number(words, place, 0)


@shared
def with_data(about: int, x: int, data: int) -> int:
    """The same encoding over other data of the same shape, which belongs to it from now on; 0 with an error set."""
    made = new_object(at(about, TYPE), 0)
    if made == 0:
        drop(data)
        return 0
    for k in range(at(about, FIELDS)):
        slot = at(about, FIELDS + 1 + k)
        value = peek(x + slot)
        if value != 0:
            keep(value)
        poke(made + slot, value)
    let_go(peek(x + at(about, DATA)))
    poke(made + at(about, DATA), owner(data))
    descr = peek(data + DESCR)
    keep(descr)
    let_go(peek(made + at(about, DTYPE)))
    poke(made + at(about, DTYPE), descr)
    return made


@shared
def clear_padding(about: int, array: int, size: int) -> int:
    """Zeros in an array of so many bytes, if rows need not take all its places."""
    if at(about, GAPPED):
        clear(peek(array + ARRAY), 0, size)
    return 0
