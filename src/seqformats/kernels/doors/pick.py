"""Some sequences of a `Ragged` or `Masked`: ``x[index]``, or with `MODE` 1 ``sf.repeat(x, index)``.

An index is a whole number, a slice, a list of whole numbers or an array of int64; a repetition one number for all
sequences, or an array of int64.  Of a slice data is a view.
"""

from ...native.words import (
    COUNT,
    COUNTER,
    FIRST,
    LEAD,
    LENGTHS,
    LIST,
    MASKED,
    MODE,
    MOVER,
    NONE,
    OFFSETS,
    RAGGED,
    RANGE,
    STRUCTURED,
    WHOLE,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, drop, int64_beside, is_tensor, seen
from .encodings import data_of, kind_of, put_array, put_flat
from .language import (
    ITEMS_IN_LIST,
    TUPLE_SIZE,
    TYPE_OF,
    at,
    is_whole,
    let_go,
    none,
    number_of,
    peek,
    peek_int,
    poke,
    run,
    shared,
    stack,
)
from .structures import integers_in, new_integers, new_structure, structure_of
from .taking import (
    is_known,
    is_large,
    kind_number,
    move_runs,
    new_rows,
    ragged_of,
    remade,
    row_of,
    rows_between,
)

NUMBER, SLICE, SEVERAL, ITEMS, TIMES, EACH, BY_TENSOR = range(7)  # what an index may be
KINDS_OF_INDEX = 16


@shared
def form_of(own: int, index: int, array: int, n: int, bounds: int) -> int:
    """What an index is, which is `array` if it is one.

    Of a number or a slice, `bounds` gets the first sequence and the one behind the last.
    """
    common, kind = at(own, FIRST), peek(index + TYPE_OF)
    several = array != 0
    if several and (peek_int(array + AXES) != 1 or peek(array + DESCR) != int64_beside(common, array)):
        return -1
    if at(own, MODE) == 1:
        if several:
            return EACH if at(peek(array + DIMENSIONS), 0) == n else -1
        return TIMES if is_whole(common, index, bounds) else -1
    if several:
        return SEVERAL
    if kind == at(common, LIST):
        return ITEMS
    if kind == at(common, WHOLE):
        if not is_whole(common, index, bounds):
            return -1
        i = at(bounds, 0)
        i += n if i < 0 else 0
        poke(bounds, i)
        poke(bounds + 8, i + 1)
        return NUMBER if 0 <= i < n else -1
    if kind != at(own, RANGE):
        return -1
    for k in range(3):  # start, stop and step
        given, place = peek(index + 16 + 8 * k), bounds + 8 * k
        if given == at(common, NONE):
            poke(place, n if k == 1 else k >> 1)
            continue
        if not is_whole(common, given, place):
            return -1
        bound = peek(place)
        if k == 2:
            continue
        bound += n if bound < 0 else 0
        poke(place, min(max(bound, 0), n))
    poke(bounds + 8, max(at(bounds, 0), at(bounds, 1)))
    return SLICE if at(bounds, 2) == 1 else -1


@shared
def between(common: int, about: int, x: int, data: int, start: int, stop: int) -> int:
    """The sequences from `start` to `stop`, over a view of data."""
    structure = peek(x + at(about, STRUCTURED))
    cum, n = peek(peek(structure + at(common, OFFSETS)) + ARRAY), stop - start
    block = new_integers(common, n + 1)
    if block == 0:
        return 0
    first, longest, moved = at(cum, start), 0, peek(block + ARRAY)
    for k in range(n + 1):
        poke(moved + 8 * k, at(cum, start + k) - first)
        if k:
            longest = max(longest, at(cum, start + k) - at(cum, start + k - 1))
    rows = at(moved, n)
    lengths = integers_in(common, peek(structure + at(common, LENGTHS)), start, n)
    offsets = integers_in(common, block, 0, n + 1) if lengths else 0
    let_go(block)
    made = structure_of(common, lengths, offsets, n, rows, longest)
    if made == 0:
        return 0
    if kind_number(common, about) == RAGGED:
        view = rows_between(common, data, first, rows)
    else:
        view = rows_between(common, data, start, n)
    if view == 0:
        let_go(made)
        return 0
    return remade(common, about, x, view, made, lengths)


@shared
def numbers_in(common: int, index: int, where: int, count: int) -> bool:
    """Write the numbers of a list one after the other; False where there is something else among them."""
    items = peek(index + ITEMS_IN_LIST)
    plain = True
    for j in range(count):
        plain &= is_whole(common, at(items, j), where + 8 * j)
    return plain


@shared
def repetitions(array: int, form: int, bounds: int, n: int) -> int:
    """How many sequences a repetition has; -1 where it is none."""
    if form == TIMES:
        times = at(bounds, 0)
        return times * n if 0 <= times < 1 << 31 else -1
    total, counts = 0, peek(array + ARRAY)
    for i in range(n):
        if not 0 <= at(counts, i) < 1 << 31:
            return -1
        total += at(counts, i)
    return total


@shared
def repeat_places(array: int, form: int, bounds: int, n: int, where: int, size: int) -> bool:
    """Write each place as often as its sequence is repeated; False unless these are `size` places.

    Another thread may have changed the counts since `repetitions` added them up.
    """
    j = 0
    for i in range(n):
        count = at(bounds, 0) if form == TIMES else at(peek(array + ARRAY), i)
        if not 0 <= count <= size - j:
            return False
        for _ in range(count):
            poke(where + 8 * j, i)
            j += 1
    return j == size


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; two arguments."""
    common = at(own, FIRST)
    if count != 2:
        return none(common)
    x, index = peek(args), peek(args + 8)
    about = kind_of(common, x)
    if about == 0:
        return none(common)
    kind = kind_number(common, about)
    data = data_of(common, about, x, stack(2)) if kind in (RAGGED, MASKED) else 0
    if data == 0:
        return none(common)
    structure = peek(x + at(about, STRUCTURED))
    n, bounds = number_of(peek(structure + at(common, COUNT))), stack(0)
    array = seen(common, index, stack(3))
    form = form_of(own, index, array, n, bounds)
    by_tensor = BY_TENSOR if array != 0 and is_tensor(array) else 0
    if form < 0 or not is_known(own, KINDS_OF_INDEX * kind + form + by_tensor, data):
        return none(common)
    if form in (NUMBER, SLICE):
        if is_tensor(data):
            return none(common)
        return between(common, about, x, data, at(bounds, 0), at(bounds, 1))

    if form == ITEMS:
        size = peek(index + TUPLE_SIZE)
    elif form == SEVERAL:
        size = at(peek(array + DIMENSIONS), 0)
    else:
        size = repetitions(array, form, bounds, n)
    if size < 0 or is_large(common, data, 32 * size):
        return none(common)
    block = new_integers(common, 4 * size + 2)  # lengths, offsets, where they begin; the index
    if block == 0:
        return 0
    table = peek(block + ARRAY)
    where = table + 8 * (3 * size + 1)
    if form == SEVERAL:  # read once: another thread may change it after the kernel has checked it
        for j in range(size):
            poke(where + 8 * j, at(peek(array + ARRAY), j))
        good = True
    elif form == ITEMS:
        good = numbers_in(common, index, where, size)
    else:
        good = repeat_places(array, form, bounds, n, where, size)
    if not good:
        let_go(block)
        return none(common)
    words = stack(1)
    place = put_flat(words, 0, where, size)
    place = put_array(words, place, peek(structure + at(common, LENGTHS)))
    place = put_array(words, place, peek(structure + at(common, OFFSETS)))
    put_flat(words, place, table, 3 * size + 1)
    longest = run(at(own, COUNTER), words)
    rows, row, cum, starts = (
        at(table, 2 * size),
        row_of(data, at(about, LEAD)),
        table + 8 * size,
        table + 8 * (2 * size + 1),
    )
    units = rows
    if kind == MASKED:  # a sequence with its padding is one block
        row, units = row_of(data, 1), size
        cum = table + 8 * (3 * size + 1)
        if longest >= 0:
            for j in range(size):
                i = at(where, j)
                poke(starts + 8 * j, i + n if i < 0 else i)
            for j in range(size + 1):
                poke(cum + 8 * j, j)
    if longest < 0 or is_large(common, data, units * row):
        let_go(block)
        return none(common)
    out = new_rows(common, data, at(about, LEAD) if kind == RAGGED else 1, units, stack(4))
    if out == 0:
        let_go(block)
        return 0
    move_runs(at(own, MOVER), data, out, starts, cum, size, row)
    if kind == RAGGED:
        return ragged_of(common, out, block, size, longest)
    made = new_structure(common, block, size, rows, longest)
    if made == 0:
        drop(out)
        return 0
    return remade(common, about, x, out, made, peek(made + at(common, LENGTHS)))
