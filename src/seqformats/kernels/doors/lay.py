"""From a list of arrays, or from an encoding, to another encoding: `formats.rows.lay_out` without options.

``door(x)``; what it makes is in its world.  Where rows lie is read of `x`, and where they belong decides which kernel
moves them; the order of the sequences is found, or taken from the structure where it is known.
"""

from ...native.words import (
    BLOCKS_TO_STEPS,
    COPY_BLOCKS,
    FIRST,
    FORM,
    FROM,
    IN_WORDS,
    KINDS,
    LEAD,
    LIST,
    LIST_ITEMS,
    LIST_OF,
    LIST_STRUCTURED,
    MASKED,
    NOT_IN_ORDER,
    ORDER,
    PAD_BLOCKS,
    PADDED,
    SCAN_LIST,
    SORT_LENGTHS,
    STABLE,
    STEPS_TO_BLOCKS,
    STEPS_TO_WORDS,
    STRUCTURED,
    TARGET,
    TRUE,
    TUPLE,
    WIDE,
    WITH_GAPS,
    WORDS_TO_STEPS,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, drop, has_objects, is_tensor, most_of, new_array, number_size
from .encodings import data_of, kind_of, put_flat, put_layout
from .language import (
    TUPLE_SIZE,
    TYPE_OF,
    at,
    inside,
    keep,
    let_go,
    none,
    peek,
    peek_int,
    poke,
    shared,
    stack,
    tuple_of_list,
)
from .rows import (
    BLOCK,
    BYTES,
    DATA,
    FROM_STEPS,
    LEADING,
    LENGTHS_AT,
    OFFSETS_AT,
    ROW_COUNT,
    SAMPLE,
    SOURCE,
    STRUCTURE,
    WIDTH,
    WORDS,
    N,
    cleared,
    is_built,
    is_valid,
    item_of,
    moved,
    new_order,
    of_structure,
    ordered,
    put_rows,
    scanned,
)
from .structures import new_batch, new_integers, new_structure
from .taking import is_known


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the target; one argument."""
    common = at(own, FIRST)
    if count != 1:
        return none(common)
    x = peek(args)
    kind = peek(x + TYPE_OF)
    if kind == at(common, LIST):
        items = tuple_of_list(x)  # whoever changes the list meanwhile frees nothing
        if items == 0:
            return 0
    elif kind == at(common, TUPLE):
        items = x
        keep(items)
    elif kind == at(common, LIST_OF):
        return of_list(own, common, x)
    else:
        return of_encoding(own, common, x)
    made = of_items(own, common, items)
    let_go(items)
    return made


@shared
def of_encoding(own: int, common: int, x: int) -> int:
    """Of the rows of an encoding; None of anything else."""
    about = kind_of(common, x)
    if about == 0:
        return none(common)
    kind = (about - common - 8 * KINDS) // (8 * WIDE)
    if kind == at(own, TARGET):
        keep(x)
        return x
    data = data_of(common, about, x, stack(2))
    if data == 0:
        return none(common)
    structure = peek(x + at(about, STRUCTURED))
    if at(own, TARGET) < PADDED and peek(structure + at(common, STABLE)) != at(common, TRUE):
        return none(common)
    words, job = stack(0), stack(1)
    if put_layout(common, words, 0, about, x, peek(data + DIMENSIONS)) == 0:
        return none(common)
    poke(job + 8 * SOURCE, 1 + kind)
    poke(job + 8 * FROM_STEPS, 1 if kind >= PADDED else 0)
    poke(job + 8 * DATA, peek(data + ARRAY))
    poke(job + 8 * WORDS, words)
    of_structure(common, job, structure)
    poke(job + 8 * SAMPLE, data)
    poke(job + 8 * LEADING, at(about, LEAD))
    return laid_out(own, common, job)


@shared
def of_items(own: int, common: int, items: int) -> int:
    """Of the arrays in a tuple, where all are plain and alike."""
    n = peek(items + TUPLE_SIZE)
    first = item_of(common, items, 0, 1, stack(2)) if n else 0
    if first == 0 or has_objects(first):
        return none(common)
    if at(own, SCAN_LIST) == 0 and not is_tensor(first):
        poke(own + 8 * FORM, 0)  # as if it were that of some list
        return none(common)
    block = new_integers(common, 3 * n + 1)
    if block == 0:
        return 0
    lengths = peek(block + ARRAY)
    offsets = lengths + 8 * n
    addresses = offsets + 8 * n + 8
    words, job = stack(0), stack(1)
    longest = scanned(common, at(own, SCAN_LIST), items, lengths, first, 1)
    if longest < 0:
        let_go(block)
        return none(common)
    place = put_rows(words, 0, offsets, n, -1)
    put_flat(words, 0, addresses, n)
    poke(words + 8 * place - 8, 1)  # where they lie are addresses
    poke(job + 8 * SOURCE, 0)
    poke(job + 8 * FROM_STEPS, 0)
    poke(job + 8 * DATA, 0)
    poke(job + 8 * WORDS, words)
    poke(job + 8 * STRUCTURE, 0)
    poke(job + 8 * BLOCK, block)
    poke(job + 8 * N, n)
    poke(job + 8 * ROW_COUNT, at(offsets, n))
    poke(job + 8 * WIDTH, longest)
    poke(job + 8 * LENGTHS_AT, lengths)
    poke(job + 8 * OFFSETS_AT, offsets)
    poke(job + 8 * SAMPLE, first)
    poke(job + 8 * LEADING, 1)
    made = laid_out(own, common, job)
    let_go(block)
    return made


@shared
def of_list(own: int, common: int, x: int) -> int:
    """Of a `List`, whose structure is shared."""
    if not is_built(common, x):
        return none(common)
    structure = peek(x + at(common, LIST_STRUCTURED))
    if at(own, TARGET) < PADDED and peek(structure + at(common, STABLE)) != at(common, TRUE):
        return none(common)
    items = peek(x + at(common, LIST_ITEMS))
    n = peek(items + TUPLE_SIZE)
    table = new_integers(common, n)
    if table == 0:
        return 0
    addresses = peek(table + ARRAY)
    if not is_valid(common, x, addresses):
        let_go(table)
        return none(common)
    job = stack(1)
    of_structure(common, job, structure)
    words = stack(0)
    place = put_rows(words, 0, at(job, OFFSETS_AT), n, -1)
    put_flat(words, 0, addresses, n)
    poke(words + 8 * place - 8, 1)
    poke(job + 8 * SOURCE, 5)
    poke(job + 8 * FROM_STEPS, 0)
    poke(job + 8 * DATA, 0)
    poke(job + 8 * WORDS, words)
    poke(job + 8 * SAMPLE, item_of(common, items, 0, 1, stack(2)))
    poke(job + 8 * LEADING, 1)
    made = laid_out(own, common, job)
    let_go(table)
    return made


@shared
def laid_out(own: int, common: int, job: int) -> int:
    """The encoding; None where a way is not open yet, or too much is to be done."""
    target, sample = at(own, TARGET), at(job, SAMPLE)
    n, rows, longest = at(job, N), at(job, ROW_COUNT), at(job, WIDTH)
    lead, axes, item = at(job, LEADING), peek_int(sample + AXES), peek(sample + DIMENSIONS)
    row = number_size(sample)
    for k in range(lead, axes):
        row *= at(item, k)
    if row == 0 or rows == 0 or axes > 60:
        return none(common)
    most = most_of(common, sample) // row
    runs = n if target == MASKED else longest  # of a rectangle
    room = longest if target == MASKED else n
    rectangle = target in (MASKED, PADDED)
    if rows > most or (rectangle and n > most // longest):
        return none(common)
    free = runs * room - rows if rectangle else 0

    structure = at(job, STRUCTURE)
    to_steps, from_steps = target >= PADDED, at(job, FROM_STEPS) == 1
    order = peek(structure + at(common, ORDER)) if structure != 0 else 0
    if order != 0 and to_steps and peek(peek(peek(inside(common, order) + 16) + DIMENSIONS)) != longest:
        return none(common)  # steps without a row
    sorts = to_steps and order == 0
    single = row == 1 or row == 2 or row == 4 or row == 8
    if to_steps == from_steps:
        kernel, single = at(own, COPY_BLOCKS), False
    elif to_steps:
        kernel = at(own, WORDS_TO_STEPS if single else BLOCKS_TO_STEPS)
    else:
        kernel = at(own, STEPS_TO_WORDS if single else STEPS_TO_BLOCKS)
    way = at(job, SOURCE) * FROM + (IN_WORDS if single else 0) + (WITH_GAPS if free else 0)
    way += NOT_IN_ORDER if sorts else 0
    if (
        not is_known(own, way, sample)
        or kernel == 0
        or (free != 0 and at(own, PAD_BLOCKS) == 0)
        or (sorts and at(own, SORT_LENGTHS) == 0)
    ):
        return none(common)
    poke(job + 8 * BYTES, row)

    sorted_block = 0
    if sorts:
        sorted_block = ordered(own, common, job)
        if sorted_block == 0:
            return 0
    shape = stack(2)
    poke(shape, runs if rectangle else rows)
    poke(shape + 8, room)
    leading = 2 if rectangle else 1
    for k in range(lead, axes):
        poke(shape + 8 * (leading + k - lead), at(item, k))
    out = new_array(common, peek(sample + DESCR), leading + axes - lead, shape, stack(3))
    if out != 0:
        steps = 0
        if order != 0:
            steps = peek(peek(inside(common, order) + 24) + ARRAY)
        elif sorts:
            steps = peek(sorted_block + ARRAY) + 8 * (2 * n + longest)
        moved(own, job, kernel, peek(out + ARRAY), order, steps)
        if free:
            cleared(own, job, peek(out + ARRAY), steps, runs, room)
    return sealed(common, job, target, out, sorted_block)


@shared
def sealed(common: int, job: int, target: int, out: int, sorted_block: int) -> int:
    """The encoding over `out`, and over a new structure or order where there was none; takes both arrays."""
    structure = at(job, STRUCTURE)
    if out != 0:
        if structure != 0:
            keep(structure)
        else:
            keep(at(job, BLOCK))
            structure = new_structure(common, at(job, BLOCK), at(job, N), at(job, ROW_COUNT), at(job, WIDTH))
    if out == 0 or structure == 0:
        if out != 0:
            drop(out)
        if sorted_block != 0:
            let_go(sorted_block)
        return 0
    if sorted_block != 0:
        order = new_order(common, sorted_block, at(job, N), at(job, WIDTH))
        if order == 0:
            drop(out)
            let_go(structure)
            return 0
        if peek(structure + at(common, ORDER)) == 0:
            poke(structure + at(common, ORDER), order)
        else:  # another thread has found it meanwhile
            let_go(order)
    return new_batch(common, target, out, structure)
