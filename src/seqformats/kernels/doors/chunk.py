"""The sequences of a `Ragged` as chunks: ``sf.chunk(x, size, overlap, last, fill)``, where nothing is filled up."""

from ...native.words import (
    CHUNK_LENGTHS,
    CHUNK_LEVELS,
    CHUNK_LOD,
    CHUNK_ORIGIN,
    CHUNK_STARTS,
    CHUNKS_OF,
    COUNT,
    COUNTER,
    DROPS,
    DTYPE,
    FIRST,
    KEEPS,
    LEAD,
    LENGTHS,
    MOVER,
    OFFSETS,
    ORIGIN_LEVELS,
    ORIGIN_OF,
    ORIGIN_STARTS,
    ORIGIN_WHOLE,
    PLACER,
    RAGGED,
    SHIFTS,
    STRUCTURED,
)
from .arrays import ARRAY, DESCR, drop
from .encodings import data_of, kind_of, put_array, put_flat, put_number
from .language import (
    at,
    inside,
    is_whole,
    keep,
    let_go,
    new_object,
    new_tuple,
    none,
    number_of,
    peek,
    poke,
    run,
    share,
    shared,
    stack,
)
from .structures import begun, integers_in, new_integers, new_structure
from .taking import is_known, is_large, kind_number, move_runs, new_rows, row_of

KEEP, DROP, SHIFT = range(3)  # what becomes of a last chunk that is shorter


@shared
def last_of(own: int, given: int) -> int:
    """Which of these a caller wants; -1 for anything else."""
    if given == at(own, KEEPS):
        return KEEP
    if given == at(own, DROPS):
        return DROP
    return SHIFT if given == at(own, SHIFTS) else -1


@shared
def pair_of(common: int, one: int, two: int) -> int:
    """A tuple of two objects, which stay their owners'; 0 with an error set."""
    made = new_tuple(2)
    if made:
        share(inside(common, made), one)
        share(inside(common, made) + 8, two)
    return made


@shared
def origin_of(own: int, levels: int, starts: int, whole: int) -> int:
    """What chunks are of; 0 with an error set.  All three belong to it from now on."""
    made = new_object(at(own, ORIGIN_OF), 0)
    if made == 0:
        let_go(levels)
        let_go(starts)
        let_go(whole)
        return 0
    poke(made + at(own, ORIGIN_LEVELS), levels)
    poke(made + at(own, ORIGIN_STARTS), starts)
    poke(made + at(own, ORIGIN_WHOLE), whole)
    return made


@shared
def chunks_of(own: int, data: int, chunks: int, items: int, starts: int, whole: int) -> int:
    """`Chunks` of an array and two structures, which belong to it from now on, as `starts` does; 0 with an error set.

    `whole` is the structure of the sequences.
    """
    common = at(own, FIRST)
    descr = peek(data + DESCR)
    levels = pair_of(common, chunks, items)
    lod = pair_of(common, peek(chunks + at(common, OFFSETS)), peek(items + at(common, OFFSETS))) if levels else 0
    let_go(chunks)
    if lod == 0:
        if levels:
            let_go(levels)
        let_go(starts)
        drop(data)
        let_go(items)
        return 0
    keep(levels)
    keep(starts)
    keep(whole)
    origin = origin_of(own, levels, starts, whole)
    made = 0
    if origin:
        made = begun(common, own + 8 * CHUNKS_OF, data, items)
    else:
        drop(data)
        let_go(items)
    if made == 0:
        if origin:
            let_go(origin)
        let_go(levels)
        let_go(lod)
        let_go(starts)
        return 0
    poke(made + at(own, CHUNK_LOD), lod)
    poke(made + at(own, CHUNK_STARTS), starts)
    poke(made + at(own, CHUNK_LEVELS), levels)
    poke(made + at(own, CHUNK_ORIGIN), origin)
    share(made + at(own, CHUNK_LENGTHS), peek(whole + at(common, LENGTHS)))
    share(made + at(own + 8 * CHUNKS_OF, DTYPE), descr)
    return made


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; five arguments."""
    common, numbers = at(own, FIRST), stack(0)
    if count != 5:
        return none(common)
    last = last_of(own, peek(args + 24))
    for k in range(2):
        if last < 0 or not is_whole(common, peek(args + 8 + 8 * k), numbers + 8 * k):
            return none(common)
    if not is_whole(common, peek(args + 32), numbers + 16) or at(numbers, 2) != 0:
        return none(common)
    size, overlap, x = at(numbers, 0), at(numbers, 1), peek(args)
    about = kind_of(common, x)
    if overlap < 0 or overlap >= size or about == 0 or kind_number(common, about) != RAGGED:
        return none(common)
    data = data_of(common, about, x, stack(1))
    if data == 0 or not is_known(own, last, data):
        return none(common)
    structure, row = peek(x + at(about, STRUCTURED)), row_of(data, at(about, LEAD))
    n, offsets = number_of(peek(structure + at(common, COUNT))), peek(structure + at(common, OFFSETS))
    block = new_integers(common, 2 * n + 1)
    if block == 0:
        return 0
    words, table = stack(2), peek(block + ARRAY)
    place = put_array(words, 0, peek(structure + at(common, LENGTHS)))
    place = put_number(words, place, size)
    place = put_number(words, place, size - overlap)
    place = put_number(words, place, 1 if last == DROP else 0)
    put_flat(words, place, table, 2 * n + 1)
    longest, k = run(at(own, COUNTER), words), at(table, 2 * n)
    if is_large(common, data, 32 * k):
        let_go(block)
        return none(common)
    room = new_integers(common, 4 * k + 1)
    if room == 0:
        let_go(block)
        return 0
    found = peek(room + ARRAY)
    place = put_array(words, 0, offsets)
    place = put_flat(words, place, table + 8 * n, n + 1)
    place = put_number(words, place, size)
    place = put_number(words, place, size - overlap)
    place = put_number(words, place, 1 if last == SHIFT else 0)
    put_flat(words, place, found, 4 * k + 1)
    most, rows = run(at(own, PLACER), words), at(found, 2 * k)
    if is_large(common, data, rows * max(row, 1)):
        let_go(room)
        let_go(block)
        return none(common)
    out = new_rows(common, data, at(about, LEAD), rows, stack(3))
    starts = integers_in(common, room, 2 * k + 1, k) if out else 0
    if starts == 0:
        if out:
            drop(out)
        let_go(room)
        let_go(block)
        return 0
    if rows * row:
        move_runs(at(own, MOVER), data, out, found + 8 * (3 * k + 1), found + 8 * k, k, row)
    chunks = new_structure(common, block, n, k, longest)
    items = new_structure(common, room, k, rows, most)
    if chunks == 0 or items == 0:
        if chunks:
            let_go(chunks)
        if items:
            let_go(items)
        drop(out)
        let_go(starts)
        return 0
    return chunks_of(own, out, chunks, items, starts, structure)
