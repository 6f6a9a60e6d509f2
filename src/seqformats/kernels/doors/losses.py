"""The cross entropy of a `Ragged` of scores: ``sf.cross_entropy`` without label smoothing.

There is a target for each item, int64: an array of them in the caller's order, or a `Ragged` over the same structure.
A door that `HOLDS` gives a pair: the result, of scores that may be in a graph too, and an array of int64 with what the
gradient needs, for `slopes`: a part each of the following, the targets first, and what the caller has asked for.
"""

from typing import Any

from ...native.words import (
    COUNT,
    DEFAULT,
    FIRST,
    HOLDS,
    KERNEL,
    KERNEL_SECOND,
    KERNEL_THIRD,
    NONE,
    OFFSETS,
    RAGGED,
    ROWS,
    STRUCTURED,
)
from ..parts import clear
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, drop, hold, new_array, number_size, owner
from .encodings import data_in_graph, data_of, kind_of, put_flat, put_number
from .language import (
    at,
    inside,
    is_whole,
    keep,
    let_go,
    new_tuple,
    none,
    number_of,
    peek,
    peek_int,
    poke,
    poke_inverse,
    run,
    shared,
    stack,
    work,
)
from .plans import plan_for
from .structures import new_integers, new_ragged
from .taking import is_large, kind_number, one_an_item, put_runs, row_of

ONE, SEQUENCE, ITEM = range(3)  # what has a loss
ONE_IN_HALVES = 0x3F800000, 0x3FF0000000000000  # 1 as a float of 4 bytes and of 8
ASKED = 3  # what the caller has asked for: what has a loss, the target of items without one, and is there one


@shared
def scales_at(rows: int) -> int:
    """Where what losses are multiplied by begins: behind the targets, and two numbers that a kernel keeps of each."""
    return 3 * rows


@shared
def factors_at(rows: int, n: int) -> int:
    """Where the three factors begin, behind those; a number takes 8 bytes here, or has room for them."""
    return scales_at(rows) + n


@shared
def asked_at(rows: int, n: int) -> int:
    """Where that begins, behind those."""
    return factors_at(rows, n) + 3


@shared
def inverses(counts: int, scale: int, n: int, what: int, size: int) -> bool:
    """Write what losses are multiplied by, a float of `size` bytes for each sequence; is a target no class?"""
    total, least = 0, 0
    for i in range(n):
        total += at(counts, i)
        least = min(least, at(counts, i))
    for i in range(n):
        count = 1 if what == ITEM else max(total if what == ONE else at(counts, i), 1)
        poke_inverse(scale + i * size, count, size)
    return least < 0


@shared
def add_up(adder: int, items: int, rows: int, out: int, cum: int, n: int) -> int:
    """The sums of n sequences of numbers one after the other."""
    words = stack(1)
    place = put_flat(words, 0, items, rows)
    place = put_flat(words, place, out, n)
    place = put_runs(words, place, cum, cum, n)
    place = put_number(words, place, 0)  # sums, no means
    place = put_number(words, place, 1)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    return work(adder, words, 8 * rows)


@shared
def with_held(common: int, result: int, held: int) -> Any:
    """The pair of both, which belong to it from now on; 0 with an error set, as where the result is 0."""
    made = new_tuple(2) if result != 0 else 0
    if made == 0:
        if result != 0:
            let_go(result)
        let_go(held)
        return 0
    poke(inside(common, made), result)
    poke(inside(common, made) + 8, held)
    return made


def door(own: int, args: int, count: int) -> Any:
    """`own` is the world of the operation: scores, targets, what is ignored, what has a loss, and the smoothing."""
    common, numbers, holds = at(own, FIRST), stack(0), at(own, HOLDS)
    if count != 5 or peek(args + 32) != at(own, DEFAULT) or not is_whole(common, peek(args + 24), numbers):
        return none(common)
    x, ignored, what = peek(args), peek(args + 16), at(numbers, 0)
    ignores = 0 if ignored == at(common, NONE) else 1
    poke(numbers, 0)
    if ignores and not is_whole(common, ignored, numbers):
        return none(common)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    structure = peek(x + at(about, STRUCTURED))
    data = data_in_graph(common, about, x, stack(2)) if holds else data_of(common, about, x, stack(6))
    targets = one_an_item(common, peek(args + 8), structure, data, stack(3)) if data else 0
    plan = plan_for(own, peek(data + DESCR), peek(targets + DESCR), 0) if targets else 0
    if plan == 0 or peek_int(data + AXES) != 2:
        return none(common)
    n, rows = number_of(peek(structure + at(common, COUNT))), number_of(peek(structure + at(common, ROWS)))
    classes, size, all_bytes = at(peek(data + DIMENSIONS), 1), number_size(data), row_of(data, 0)
    if rows * classes == 0 or is_large(common, data, all_bytes) or is_large(common, data, 32 * rows):
        return none(common)
    held = new_integers(common, asked_at(rows, n) + ASKED)
    room = new_integers(common, rows + 2 * n + 2) if held else 0
    if room == 0:
        if held:
            let_go(held)
        return 0
    classes_at, losses = peek(held + ARRAY), peek(room + ARRAY)
    kept, scale, factors = classes_at + 8 * rows, classes_at + 8 * scales_at(rows), classes_at + 8 * factors_at(rows, n)
    counts, sums, ends = losses + 8 * rows, losses + 8 * (rows + n), losses + 8 * (rows + 2 * n)
    right = peek(targets + ARRAY)
    for k in range(rows):  # what may be changed after it has been checked, or before the gradient
        poke(classes_at + 8 * k, at(right, k))
    right = classes_at
    if holds:
        clear(kept, 0, 8 * (asked_at(rows, n) - rows))
        asked = classes_at + 8 * asked_at(rows, n)
        poke(asked, what)
        poke(asked + 8, at(numbers, 0))
        poke(asked + 16, ignores)
    cum, words = peek(peek(structure + at(common, OFFSETS)) + ARRAY), stack(1)
    place = put_flat(words, 0, right, rows)
    place = put_flat(words, place, counts, n)
    place = put_runs(words, place, cum, cum, n)
    place = put_number(words, place, classes)
    place = put_number(words, place, at(numbers, 0))
    place = put_number(words, place, ignores)
    place = put_number(words, place, 1)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    run(at(plan, KERNEL_SECOND), words)
    wrong = inverses(counts, scale, n, what, size)
    shape = stack(4)
    poke(shape, rows if what == ITEM else n)
    out = 0 if wrong else new_array(common, peek(data + DESCR), 0 if what == ONE else 1, shape, stack(5))
    if out == 0:
        let_go(room)
        let_go(held)
        return none(common) if wrong else 0
    poke(factors, ONE_IN_HALVES[0] if size == 4 else ONE_IN_HALVES[1])
    poke(factors + 8, 0)
    poke(factors + 16, 0)
    result = peek(out + ARRAY)
    made = result if what == ITEM else losses
    place = put_flat(words, 0, peek(data + ARRAY), rows * classes)
    place = put_flat(words, place, right, rows)
    place = put_flat(words, place, scale, n)
    place = put_flat(words, place, factors, 3)
    place = put_flat(words, place, made, rows)
    place = put_flat(words, place, kept, 2 * rows)
    place = put_runs(words, place, cum, cum, n)
    place = put_number(words, place, at(numbers, 0))
    place = put_number(words, place, ignores)
    place = put_number(words, place, classes)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    keep(structure)
    hold(data)
    hold(targets)
    work(at(plan, KERNEL), words, all_bytes)
    if what != ITEM:
        add_up(at(plan, KERNEL_THIRD), losses, rows, result if what == SEQUENCE else sums, cum, n)
    if what == ONE:
        poke(ends, 0)
        poke(ends + 8, n)
        add_up(at(plan, KERNEL_THIRD), sums, n, result, ends, 1)
    drop(targets)
    drop(data)
    let_go(room)
    y = new_ragged(common, out, structure) if what == ITEM else owner(out)
    if what != ITEM:
        let_go(structure)
    if holds:
        return with_held(common, y, held)
    let_go(held)
    return y
