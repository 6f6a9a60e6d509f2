"""What the doors that run a kernel over sequences have in common: plans, layouts, results."""

from typing import Any

from ...native.words import (
    GAPPED,
    GIVEN,
    GIVEN_SECOND,
    GIVEN_THIRD,
    LEARNED,
    LOD,
    NUMBER,
    NUMBERS,
    OFFSETS,
    ORDER,
    PLAN,
    PLANS,
    ROWS,
    SHAPE,
    STRUCTURED,
    TYPE,
)
from .arrays import drop, shape_of
from .encodings import clear_padding, is_filled, kind_of, put_blocks, put_layout, put_number, with_data
from .language import (
    FREE_FROM,
    TYPE_OF,
    at,
    keep,
    let_go,
    number_of,
    peek,
    poke,
    run,
    shared,
    work,
)


@shared
def plan_for(own: int, one: int, two: int, three: int) -> Any:
    """Where the plan for these dtypes is, 0 for no such dtype; 0 where there is none."""
    for k in range(at(own, LEARNED)):
        plan = own + 8 * (PLANS + PLAN * k)
        if at(plan, GIVEN) == one and at(plan, GIVEN_SECOND) == two and at(plan, GIVEN_THIRD) == three:
            return plan
    return 0


@shared
def kind_or_levels(own: int, common: int, x: int) -> Any:
    """What is known of the encoding of an object, one with levels too; 0 for any other."""
    if peek(x + TYPE_OF) == at(own, LOD + TYPE):
        return own + 8 * LOD if is_filled(common, own + 8 * LOD, x) else 0
    return kind_of(common, x)


@shared
def put_rows(own: int, common: int, words: int, place: int, about: int, x: int, lead: int) -> Any:
    """`put_layout` for these encodings; `lead` is where the lengths of the axes before those of an item are."""
    if about == own + 8 * LOD:
        offsets = peek(peek(x + at(about, STRUCTURED)) + at(common, OFFSETS))
        return put_blocks(words, place, offsets, offsets, -1, 0)
    return put_layout(common, words, place, about, x, lead)


@shared
def put_rest(own: int, words: int, place: int, width: int, n: int) -> Any:
    """What comes after the layout: the numbers of the operation, the width, the sequences to begin and to end with."""
    for k in range(at(own, NUMBERS)):
        place = put_number(words, place, at(own, NUMBER + k))
    place = put_number(words, place, width)
    place = put_number(words, place, 0)
    return put_number(words, place, n)


@shared
def clear_gaps(common: int, about: int, x: int, array: int, places: int, size: int) -> Any:
    """Zeros in an array of `size` bytes, if rows take less than all its places."""
    if at(about, GAPPED) and number_of(peek(peek(x + at(about, STRUCTURED)) + at(common, ROWS))) != places:
        clear_padding(about, array, size)
    return 0


@shared
def work_over(common: int, about: int, x: int, function: int, words: int, size: int) -> Any:
    """`work`, while nobody can take away what says where the rows of an encoding lie."""
    if size < FREE_FROM:
        return run(function, words)
    structure = peek(x + at(about, STRUCTURED))
    order = peek(structure + at(common, ORDER))  # two threads that ask for it first make it twice
    held = order if order != 0 else structure
    keep(structure)
    keep(held)
    work(function, words, size)
    let_go(held)
    let_go(structure)
    return 0


@shared
def with_items(common: int, about: int, x: int, data: int) -> Any:
    """`with_data` for items of another shape."""
    shape = shape_of(common, data)
    if shape == 0:
        drop(data)
        return 0
    made = with_data(about, x, data)
    if made == 0:
        let_go(shape)
        return 0
    let_go(peek(made + at(about, SHAPE)))
    poke(made + at(about, SHAPE), shape)
    return made
