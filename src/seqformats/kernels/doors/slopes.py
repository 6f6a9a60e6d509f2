"""The gradient of the cross entropy of a `Ragged` of scores, by what a door of `losses` has held.

``door(x, dy, held)``: the scores, the gradient of the result, and the array of int64; the gradient, laid out as `x`.
"""

from typing import Any

from ...native.words import COUNT, FIRST, INT64, KERNEL, OFFSETS, RAGGED, ROWS, STRUCTURED
from .arrays import (
    ARRAY,
    AXES,
    DESCR,
    DIMENSIONS,
    drop,
    hold,
    is_tensor,
    new_array,
    seen,
    seen_number,
)
from .encodings import data_of, kind_of, put_flat, put_number, with_data
from .language import at, keep, let_go, none, number_of, peek, peek_int, shared, stack, work
from .losses import ASKED, ITEM, ONE, asked_at, factors_at, scales_at
from .plans import plan_for
from .taking import is_large, kind_number, one_an_item, put_runs, row_of


@shared
def slopes_given(common: int, given: int, structure: int, data: int, each: int, room: int) -> Any:
    """The gradient of the result as an array of the kind and dtype of `data`; 0 where it is not plain."""
    if each == ITEM:
        found = one_an_item(common, given, structure, data, room)
        return found if found != 0 and peek(found + DESCR) == peek(data + DESCR) else 0
    found, axes = seen_number(common, given, room), 0 if each == ONE else 1
    if found == 0 or is_tensor(found) != is_tensor(data) or peek(found + DESCR) != peek(data + DESCR):
        return 0
    if peek_int(found + AXES) != axes:
        return 0
    if axes and at(peek(found + DIMENSIONS), 0) != number_of(peek(structure + at(common, COUNT))):
        return 0
    return found


def door(own: int, args: int, count: int) -> Any:
    """`own` is the world of the operation."""
    common = at(own, FIRST)
    if count != 3:
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    structure, data = peek(x + at(about, STRUCTURED)), data_of(common, about, x, stack(0))
    held = seen(common, peek(args + 16), stack(1)) if data else 0
    plan = plan_for(own, peek(data + DESCR), 0, 0) if held else 0
    if plan == 0 or peek_int(data + AXES) != 2:
        return none(common)
    n, rows = number_of(peek(structure + at(common, COUNT))), number_of(peek(structure + at(common, ROWS)))
    if peek(held + DESCR) != at(common, INT64) or peek_int(held + AXES) != 1:
        return none(common)
    if at(peek(held + DIMENSIONS), 0) != asked_at(rows, n) + ASKED:
        return none(common)
    classes, all_bytes = at(peek(data + DIMENSIONS), 1), row_of(data, 0)
    if rows * classes == 0 or is_large(common, data, all_bytes):
        return none(common)
    targets = peek(held + ARRAY)
    asked = targets + 8 * asked_at(rows, n)
    each = at(asked, 0)
    slopes = slopes_given(common, peek(args + 8), structure, data, each, stack(2))
    if slopes == 0:
        return none(common)
    out = new_array(common, peek(data + DESCR), 2, peek(data + DIMENSIONS), stack(3))
    if out == 0:
        return 0
    cum, words = peek(peek(structure + at(common, OFFSETS)) + ARRAY), stack(4)
    place = put_flat(words, 0, peek(data + ARRAY), rows * classes)
    place = put_flat(words, place, targets, rows)
    place = put_flat(words, place, targets + 8 * scales_at(rows), n)
    place = put_flat(words, place, targets + 8 * factors_at(rows, n), 3)
    place = put_flat(words, place, peek(slopes + ARRAY), rows if each == ITEM else 1 if each == ONE else n)
    place = put_flat(words, place, targets + 8 * rows, 2 * rows)
    place = put_flat(words, place, peek(out + ARRAY), rows * classes)
    place = put_runs(words, place, cum, cum, n)
    place = put_number(words, place, each)
    place = put_number(words, place, at(asked, 1))
    place = put_number(words, place, at(asked, 2))
    place = put_number(words, place, classes)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    keep(structure)
    hold(data)
    hold(slopes)
    hold(held)
    work(at(plan, KERNEL), words, all_bytes)
    drop(held)
    drop(slopes)
    drop(data)
    let_go(structure)
    return with_data(about, x, out)
