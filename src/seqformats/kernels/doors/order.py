"""The items of every sequence in order: ``sf.sort(x, descending)``, and by `MODE` ``argsort``, ``topk`` and ``unique``.

The first two in any encoding, the others of a `Ragged`; ``topk(x, k, largest)`` with one `k`, ``unique(x)`` of numbers.
"""

from ...native.words import (
    BITS,
    COUNT,
    COUNTER,
    FALSE,
    FIRST,
    LEAD,
    LEAST,
    LENGTHS,
    MODE,
    MOVER,
    OFFSETS,
    ORDER_DTYPE,
    ORDER_KERNEL,
    ORDER_PLANS,
    ORDER_WIDE,
    ORDERS,
    PAIR,
    RAGGED,
    ROWS,
    STARTER,
    STRUCTURED,
    TRUE,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, drop, int64_beside, new_array, number_size
from .encodings import clear_padding, data_of, kind_of, put_array, put_flat, put_layout, put_number, with_data
from .language import (
    at,
    inside,
    is_whole,
    keep,
    let_go,
    new_named,
    none,
    number_of,
    peek,
    peek_int,
    poke,
    run,
    shared,
    stack,
    work,
)
from .structures import new_integers, new_ragged, new_structure
from .taking import is_known, is_large, kind_number, new_rows, new_rows_in, put_runs, ragged_of, row_of

SORT, ARGSORT, TOPK, UNIQUE = range(4)
VALUES, PLACES, BOTH = 1, 2, 3


@shared
def flag_of(own: int, given: int) -> int:
    """1 for True, 0 for False, -1 for anything else."""
    if given == at(own, FALSE):
        return 0
    return 1 if given == at(at(own, FIRST), TRUE) else -1


@shared
def put_ordered(words: int, data: int, values: int, places: int) -> int:
    """The array whose items the kernel takes, and the addresses where its results go; the place behind."""
    items = row_of(data, 0) // number_size(data)
    place = put_flat(words, 0, peek(data + ARRAY), items)
    place = put_flat(words, place, values, items)
    return put_flat(words, place, places, items)


@shared
def sort_items(common: int, plan: int, words: int, place: int, wanted: int, numbers: int) -> int:
    """Run the kernel, whose layouts end before `place`; 0 with an error set, where there is no room for it to work.

    `numbers`, so many words: the numbers in all items and in one, the sequences, the order, and how many are wanted.
    """
    items, width, n, order = at(numbers, 0), at(numbers, 1), at(numbers, 2), at(numbers, 3)
    room = new_integers(common, 4 * items)
    if room == 0:
        return 0
    put_flat(words, put_flat(words, 6, peek(room + ARRAY), 2 * items), peek(room + ARRAY) + 16 * items, 2 * items)
    place = put_number(words, place, at(plan, BITS))
    place = put_number(words, place, at(plan, LEAST))
    place = put_number(words, place, order)
    place = put_number(words, place, wanted)
    place = put_number(words, place, width)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    work(at(plan, ORDER_KERNEL), words, 16 * items)
    let_go(room)
    return 1


@shared
def rearranged(own: int, plan: int, about: int, x: int, data: int, numbers: int) -> int:
    """The batch with its items in order, or with their places; None, or 0 with an error set."""
    common, places = at(own, FIRST), at(own, MODE) == ARGSORT
    words, dimensions = stack(0), peek(data + DIMENSIONS)
    place = put_layout(common, words, 10, about, x, dimensions)
    place = put_layout(common, words, place, about, x, dimensions) if place else 0
    if place == 0:
        return none(common)
    descr = int64_beside(common, data) if places else peek(data + DESCR)
    out = new_array(common, descr, peek_int(data + AXES), dimensions, stack(1))
    if out == 0:
        return 0
    clear_padding(about, out, row_of(out, 0))
    put_ordered(words, data, peek(out + ARRAY), peek(out + ARRAY))
    if sort_items(common, plan, words, place, PLACES if places else VALUES, numbers) == 0:
        drop(out)
        return 0
    return with_data(about, x, out)


@shared
def largest(own: int, plan: int, x: int, data: int, numbers: int) -> int:
    """The first k items of every sequence of a `Ragged`, and their places, in a pair; 0 with an error set."""
    common = at(own, FIRST)
    about = kind_of(common, x)
    structure = peek(x + at(about, STRUCTURED))
    n, k, lengths = at(numbers, 2), at(numbers, 4), peek(peek(structure + at(common, LENGTHS)) + ARRAY)
    block = new_integers(common, 2 * n + 1)
    if block == 0:
        return 0
    table, total, longest = peek(block + ARRAY), 0, 0
    poke(table + 8 * n, 0)
    for i in range(n):
        length = min(at(lengths, i), k)
        total += length
        longest = max(longest, length)
        poke(table + 8 * i, length)
        poke(table + 8 * (n + 1 + i), total)
    values = new_rows(common, data, 1, total, stack(2))
    places = new_rows_in(common, int64_beside(common, data), data, 1, total, stack(3)) if values else 0
    kept = new_structure(common, block, n, total, longest) if places else 0
    if kept == 0:
        if places == 0:
            let_go(block)
        else:
            drop(places)
        if values:
            drop(values)
        return 0
    cum = peek(peek(structure + at(common, OFFSETS)) + ARRAY)
    words = stack(1)
    put_ordered(words, data, peek(values + ARRAY), peek(places + ARRAY))
    place = put_runs(words, 10, cum, cum, n)
    place = put_runs(words, place, table + 8 * n, table + 8 * n, n)
    done = sort_items(common, plan, words, place, BOTH, numbers)
    pair = new_named(common, at(own, PAIR), 2) if done else 0
    if pair == 0:
        drop(values)
        drop(places)
        let_go(kept)
        return 0
    keep(kept)
    one, two = new_ragged(common, values, kept), new_ragged(common, places, kept)
    poke(inside(common, pair), one)
    poke(inside(common, pair) + 8, two)
    if one == 0 or two == 0:
        let_go(pair)
        return 0
    return pair


@shared
def distinct(own: int, plan: int, x: int, data: int, numbers: int) -> int:
    """Each item of every sequence of a `Ragged` once; 0 with an error set."""
    common, rows = at(own, FIRST), at(numbers, 0)
    about = kind_of(common, x)
    structure = peek(x + at(about, STRUCTURED))
    n, offsets = at(numbers, 2), peek(structure + at(common, OFFSETS))
    cum, size = peek(offsets + ARRAY), number_size(data)
    room = new_integers(common, 2 * rows)  # items in order, and which are the first of equal ones
    block = new_integers(common, 2 * n + 1) if room else 0
    if block == 0:
        if room:
            let_go(room)
        return 0
    values, table = peek(room + ARRAY), peek(block + ARRAY)
    marks = values + 8 * rows
    words = stack(2)
    put_ordered(words, data, values, values)
    place = put_runs(words, 10, cum, cum, n)
    place = put_runs(words, place, cum, cum, n)
    out, longest = 0, 0
    if sort_items(common, plan, words, place, VALUES, numbers):
        place = put_flat(words, put_flat(words, 0, values, rows), marks, rows)
        place = put_runs(words, place, cum, cum, n)
        place = put_number(words, place, 1)
        place = put_number(words, place, 1)
        place = put_number(words, place, 1)
        place = put_number(words, place, 0)
        put_number(words, place, n)
        work(at(plan, STARTER), words, rows * size)
        place = put_array(words, put_flat(words, 0, marks, rows), offsets)
        put_flat(words, place, table, 2 * n + 1)
        longest = run(at(own, COUNTER), words)
        out = new_rows(common, data, 1, at(table, 2 * n), stack(3))
    if out == 0:
        let_go(room)
        let_go(block)
        return 0
    place = put_number(words, 0, values)
    place = put_number(words, place, peek(out + ARRAY))
    place = put_runs(words, place, cum, cum, n)
    place = put_flat(words, place, table + 8 * n, n + 1)
    place = put_flat(words, place, marks, rows)
    place = put_number(words, place, 0)
    place = put_number(words, place, size)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    work(at(own, MOVER), words, rows * size)
    let_go(room)
    return ragged_of(common, out, block, n, longest)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; two arguments, of `topk` three, of `unique` one."""
    common, mode, numbers = at(own, FIRST), at(own, MODE), stack(0)
    if count != (3 if mode == TOPK else 1 if mode == UNIQUE else 2):
        return none(common)
    x = peek(args)
    about = kind_of(common, x)
    if about == 0 or (mode >= TOPK and kind_number(common, about) != RAGGED):
        return none(common)
    flag = 0 if mode == UNIQUE else flag_of(own, peek(args + 8 * (count - 1)))
    k = numbers + 32
    if flag < 0 or (mode == TOPK and (not is_whole(common, peek(args + 8), k) or peek(k) < 0)):
        return none(common)
    data = data_of(common, about, x, stack(1))
    if data == 0:
        return none(common)
    plan, number = 0, 0
    for j in range(at(own, ORDERS)):
        if at(own, ORDER_PLANS + ORDER_WIDE * j + ORDER_DTYPE) == peek(data + DESCR):
            plan, number = own + 8 * (ORDER_PLANS + ORDER_WIDE * j), j
    if plan == 0 or not is_known(own, 4 * number + kind_number(common, about), data):
        return none(common)
    structure = peek(x + at(about, STRUCTURED))
    rows = number_of(peek(structure + at(common, ROWS)))
    width = row_of(data, at(about, LEAD)) // number_size(data)
    if rows * width == 0 or is_large(common, data, 64 * rows * width + 2 * row_of(data, 0)):
        return none(common)
    poke(numbers, rows * width)
    poke(numbers + 8, width)
    poke(numbers + 16, number_of(peek(structure + at(common, COUNT))))
    poke(numbers + 24, flag + 2 if mode == TOPK else flag)  # NaN is the largest
    if mode == TOPK:
        return largest(own, plan, x, data, numbers)
    if mode == UNIQUE:
        plain = peek_int(data + AXES) == 1 and at(plan, STARTER) != 0  # half precision is compared in another dtype
        return distinct(own, plan, x, data, numbers) if plain else none(common)
    return rearranged(own, plan, about, x, data, numbers)
