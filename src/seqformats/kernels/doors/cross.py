"""All pairs of the items of two `Ragged`, sequence by sequence: ``sf.cross(x, y)``."""

from ...native.words import (
    COUNT,
    COUNTER,
    FIRST,
    LENGTHS,
    MOVER,
    OFFSETS,
    PAIR_ONE,
    PAIR_TWO,
    PAIRS_OF,
    RAGGED,
    STRUCTURED,
)
from .arrays import ARRAY, is_tensor
from .encodings import data_of, kind_of, put_array, put_flat, put_number
from .language import at, keep, let_go, new_object, none, number_of, peek, poke, run, shared, stack, work
from .structures import new_integers, new_ragged, new_structure
from .taking import is_known, is_large, kind_number, new_rows, put_runs, row_of

OUTER, INNER = range(2)  # as the kernel has it: does each item come several times, or do all of them?


@shared
def is_many(common: int, data: int, rows: int) -> bool:
    """Is an array, or are so many rows like its own, more than a door reads or writes?"""
    row = max(row_of(data, 1), 8)
    return rows > 1 << 32 or is_large(common, data, row_of(data, 0)) or is_large(common, data, rows * row)


@shared
def paired(own: int, data: int, structure: int, others: int, pairs: int, inner: int) -> int:
    """A `Ragged` of the items of an array in the pairs of its structure and another; 0 with an error set."""
    common = at(own, FIRST)
    cum, offsets = peek(peek(pairs + at(common, OFFSETS)) + ARRAY), peek(structure + at(common, OFFSETS))
    n, row = number_of(peek(pairs + at(common, COUNT))), row_of(data, 1)
    rows = at(cum, n)
    out = new_rows(common, data, 1, rows, stack(3))
    if out == 0:
        return 0
    words = stack(2)
    place = put_number(words, 0, peek(data + ARRAY))
    place = put_number(words, place, peek(out + ARRAY))
    place = put_runs(words, place, peek(offsets + ARRAY), peek(offsets + ARRAY), n)
    place = put_flat(words, place, cum, n + 1)
    place = put_array(words, place, peek(others + at(common, LENGTHS)))
    place = put_number(words, place, inner)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    put_number(words, place, n)
    if row:
        work(at(own, MOVER), words, rows * row)
    keep(pairs)
    return new_ragged(common, out, pairs)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; two arguments."""
    common = at(own, FIRST)
    if count != 2:
        return none(common)
    x, y = peek(args), peek(args + 8)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED or kind_of(common, y) != about:
        return none(common)
    one, two = data_of(common, about, x, stack(1)), data_of(common, about, y, stack(2))
    if one == 0 or two == 0 or is_tensor(one) != is_tensor(two) or not is_known(own, 0, one):
        return none(common)
    first, second = peek(x + at(about, STRUCTURED)), peek(y + at(about, STRUCTURED))
    n = number_of(peek(first + at(common, COUNT)))
    if number_of(peek(second + at(common, COUNT))) != n:
        return none(common)
    block = new_integers(common, 2 * n + 1)
    if block == 0:
        return 0
    words, table = stack(0), peek(block + ARRAY)
    place = put_array(words, 0, peek(first + at(common, LENGTHS)))
    place = put_array(words, place, peek(second + at(common, LENGTHS)))
    put_flat(words, place, table, 2 * n + 1)
    longest, most = run(at(own, COUNTER), words), at(table, 2 * n)
    if longest < 0 or is_many(common, one, most) or is_many(common, two, most):
        let_go(block)
        return none(common)
    pairs = new_structure(common, block, n, most, longest)
    made = new_object(at(common, PAIRS_OF), 0) if pairs else 0
    if made == 0:
        if pairs:
            let_go(pairs)
        return 0
    outer = paired(own, one, first, second, pairs, OUTER)
    inner = paired(own, two, second, first, pairs, INNER) if outer else 0
    poke(made + at(common, PAIR_ONE), outer)
    poke(made + at(common, PAIR_TWO), inner)
    let_go(pairs)
    if inner == 0:
        let_go(made)
        return 0
    return made
