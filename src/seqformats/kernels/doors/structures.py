"""Structures for doors, and encodings over them."""

from ...native.words import (
    COUNT,
    DATA,
    DTYPE,
    INDICES,
    INT64,
    KINDS,
    LENGTHS,
    LENGTHS_OF,
    LONGEST,
    MASKED,
    OFFSETS,
    ORDER,
    PADDED,
    RAGGED,
    RIGHT,
    ROWS,
    SHAPE,
    SIDE,
    SIZES,
    STABLE,
    STRUCTURE,
    STRUCTURED,
    TRUE,
    TYPE,
    WIDE,
)
from .arrays import ARRAY, DESCR, FLAGS, PLAIN, WRITABLE, drop, new_view, new_with_data, owner, shape_of
from .language import (
    at,
    inside,
    keep,
    let_go,
    new_number,
    new_object,
    peek,
    peek_int,
    poke,
    poke_int,
    share,
    shared,
    stack,
)


@shared
def new_integers(common: int, count: int) -> int:
    """A new array of so many int64, which is to be read through views alone: see `integers_in`."""
    shape = stack(2)
    poke(shape, count)
    return new_with_data(common, at(common, INT64), 1, shape, 0, 0)


@shared
def integers_in(common: int, block: int, first: int, count: int) -> int:
    """A read-only view of some integers of a block, which nobody can write to any more; 0 with an error set."""
    shape = stack(3)
    poke(shape, count)
    view = new_view(common, block, at(common, INT64), 1, shape, peek(block + ARRAY) + 8 * first, PLAIN)
    if view != 0:
        poke_int(block + FLAGS, peek_int(block + FLAGS) & ~WRITABLE)
    return view


@shared
def new_structure(common: int, block: int, n: int, rows: int, longest: int) -> int:
    """A structure of a block of n lengths and, after them, n + 1 offsets; 0 with an error set.

    The block belongs to it from now on.
    """
    lengths = integers_in(common, block, 0, n)
    offsets = integers_in(common, block, n, n + 1) if lengths else 0
    let_go(block)
    return structure_of(common, lengths, offsets, n, rows, longest)


@shared
def structure_of(common: int, lengths: int, offsets: int, n: int, rows: int, longest: int) -> int:
    """A structure of two views, which belong to it from now on; 0 with an error set, as where one of them is 0."""
    made = new_object(at(common, STRUCTURE), 0) if lengths and offsets else 0
    if made == 0:
        if lengths:
            let_go(lengths)
        if offsets:
            let_go(offsets)
        return 0
    poke(made + at(common, LENGTHS), lengths)
    poke(made + at(common, OFFSETS), offsets)
    counts = stack(12)
    poke(counts, new_number(n))
    poke(counts + 8, new_number(rows))
    poke(counts + 16, new_number(longest))
    poke(made + at(common, COUNT), peek(counts))
    poke(made + at(common, ROWS), peek(counts + 8))
    poke(made + at(common, LONGEST), peek(counts + 16))
    keep(at(common, TRUE))
    poke(made + at(common, STABLE), at(common, TRUE))
    for k in range(3):
        if at(counts, k) == 0:
            let_go(made)
            return 0
    return made


@shared
def new_ragged(common: int, data: int, structure: int) -> int:
    """A `Ragged`, whose array and structure belong to it from now on; 0 with an error set."""
    return new_batch(common, RAGGED, data, structure)


@shared
def begun(common: int, about: int, data: int, structure: int) -> int:
    """An encoding of an array and a structure that belong to it from now on, 0 with an error set.

    Its other slots are empty, and to be filled.
    """
    made = new_object(at(about, TYPE), 0)
    shape = shape_of(common, data) if made else 0
    if shape == 0:
        if made:
            let_go(made)
        drop(data)
        let_go(structure)
        return 0
    poke(made + at(about, DATA), owner(data))
    poke(made + at(about, STRUCTURED), structure)
    poke(made + at(about, SHAPE), shape)
    return made


@shared
def new_batch(common: int, kind: int, data: int, structure: int) -> int:
    """An encoding, by its place, of an array and a structure that belong to it from now on; 0 with an error set.

    One by steps is as wide as the longest sequence, and the order of its structure is known.
    """
    about = common + 8 * (KINDS + kind * WIDE)
    made = begun(common, about, data, structure)
    if made == 0:
        return 0
    lengths = peek(structure + at(common, LENGTHS))
    if kind >= PADDED:
        order = peek(structure + at(common, ORDER))
        lengths = peek(inside(common, order))
        share(made + at(about, INDICES), peek(inside(common, order) + 8))
        share(made + at(about, SIZES), peek(inside(common, order) + 16))
    if kind == MASKED:
        share(made + at(about, SIDE), at(common, RIGHT))
    share(made + at(about, LENGTHS_OF), lengths)
    share(made + at(about, DTYPE), peek(data + DESCR))
    return made
