"""The marked items of every sequence of a `Ragged`: ``sf.filter(x, keep)``.

Marks are an array of bools, or a `Ragged` of them that has its structure in common with `x`.
"""

from ...native.words import BOOL, COUNT, COUNTER, FIRST, LEAD, MOVER, OFFSETS, RAGGED, ROWS, STRUCTURED, TENSOR_BOOL
from .arrays import ARRAY, DESCR, is_tensor
from .encodings import data_of, kind_of, put_array, put_flat, put_number
from .language import at, let_go, none, number_of, peek, run, stack, work
from .structures import new_integers
from .taking import is_known, is_large, kind_number, new_rows, one_an_item, put_runs, ragged_of, row_of

ARRAYS, BATCH = range(2)  # what marks may be


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; two arguments."""
    common = at(own, FIRST)
    if count != 2:
        return none(common)
    x, given = peek(args), peek(args + 8)
    about = kind_of(common, x)
    if about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    data, structure = data_of(common, about, x, stack(1)), peek(x + at(about, STRUCTURED))
    marks = one_an_item(common, given, structure, data, stack(2)) if data else 0
    if marks == 0 or peek(marks + DESCR) != (at(common, TENSOR_BOOL) if is_tensor(data) else at(common, BOOL)):
        return none(common)
    if not is_known(own, BATCH if kind_of(common, given) else ARRAYS, data):
        return none(common)
    rows, row = number_of(peek(structure + at(common, ROWS))), row_of(data, at(about, LEAD))
    if is_large(common, data, rows * row):
        return none(common)
    n, offsets = number_of(peek(structure + at(common, COUNT))), peek(structure + at(common, OFFSETS))
    block = new_integers(common, 2 * n + 1)
    if block == 0:
        return 0
    table = peek(block + ARRAY)
    words = stack(0)
    place = put_array(words, 0, marks)
    place = put_array(words, place, offsets)
    put_flat(words, place, table, 2 * n + 1)
    longest = run(at(own, COUNTER), words)
    out = new_rows(common, data, at(about, LEAD), at(table, 2 * n), stack(3))
    if out == 0:
        let_go(block)
        return 0
    cum = peek(offsets + ARRAY)
    place = put_number(words, 0, peek(data + ARRAY))
    place = put_number(words, place, peek(out + ARRAY))
    place = put_runs(words, place, cum, cum, n)
    place = put_flat(words, place, table + 8 * n, n + 1)
    place = put_array(words, place, marks)
    place = put_number(words, place, 0)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    place = put_number(words, place, n)
    if row:
        work(at(own, MOVER), words, rows * row)
    return ragged_of(common, out, block, n, longest)
