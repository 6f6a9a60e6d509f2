"""Moves of rows for doors: from where they lie to where they belong, by steps or in blocks, and the padding between."""

from ...native.words import (
    COUNT,
    FIRST,
    LENGTHS,
    LIST_DTYPE,
    LIST_ITEMS,
    LIST_SHAPE,
    LIST_STRUCTURED,
    LONGEST,
    MASKED,
    NDARRAY,
    OFFSETS,
    ORDERED,
    PAD_BLOCKS,
    PADDED,
    RAGGED,
    ROWS,
    SORT_LENGTHS,
    TARGET,
    TUPLE,
)
from .arrays import ARRAY, AXES, DESCR, DIMENSIONS, MOST_AXES, is_tensor, seen, shown
from .encodings import has_axes, has_structure, put_flat, put_number, put_steps
from .language import (
    TUPLE_SIZE,
    TYPE_OF,
    at,
    inside,
    let_go,
    new_named,
    number_of,
    peek,
    peek_int,
    poke,
    run,
    shared,
    stack,
    work,
)
from .structures import integers_in, new_integers

# What is to be laid out, in memory: words of the source, its sequences, and a row.
SOURCE, FROM_STEPS, DATA, WORDS, STRUCTURE, BLOCK, N, ROW_COUNT, WIDTH, LENGTHS_AT, OFFSETS_AT = range(11)
SAMPLE, LEADING, BYTES = range(11, 14)


@shared
def of_structure(common: int, job: int, structure: int) -> int:
    """The words of a structure that is there."""
    poke(job + 8 * STRUCTURE, structure)
    poke(job + 8 * N, number_of(peek(structure + at(common, COUNT))))
    poke(job + 8 * ROW_COUNT, number_of(peek(structure + at(common, ROWS))))
    poke(job + 8 * WIDTH, number_of(peek(structure + at(common, LONGEST))))
    poke(job + 8 * LENGTHS_AT, peek(peek(structure + at(common, LENGTHS)) + ARRAY))
    return poke(job + 8 * OFFSETS_AT, peek(peek(structure + at(common, OFFSETS)) + ARRAY))


@shared
def put_rows(words: int, place: int, offsets: int, n: int, stride: int) -> int:
    """The layout of n sequences one after the other, or in rooms of `stride` rows; the place behind it."""
    place = put_flat(words, place, offsets, n + 1)
    place = put_flat(words, place, offsets, n + 1)
    place = put_flat(words, place, offsets, n + 1)
    place = put_number(words, place, stride)
    place = put_number(words, place, 0)
    place = put_number(words, place, 1)
    return put_number(words, place, 0)


@shared
def copy_of(words: int, place: int, source: int) -> int:
    """A layout that has been written elsewhere; the place behind it."""
    for k in range(10):
        poke(words + 8 * (place + k), at(source, k))
    return place + 10


@shared
def ordered(own: int, common: int, job: int) -> int:
    """What `sort_lengths` writes, in a new block; 0 with an error set."""
    n, longest = at(job, N), at(job, WIDTH)
    count = 2 * n + 2 * longest + 1
    block = new_integers(common, count)
    if block != 0:
        words = stack(4)
        place = put_flat(words, 0, at(job, LENGTHS_AT), n)
        place = put_number(words, place, longest)
        put_flat(words, place, peek(block + ARRAY), count)
        work(at(own, SORT_LENGTHS), words, 8 * count)
    return block


@shared
def moved(own: int, job: int, kernel: int, out: int, order: int, steps: int) -> int:
    """Move all rows to the address `out`; the steps of an order lie at `steps`."""
    target, n, rows = at(own, TARGET), at(job, N), at(job, ROW_COUNT)
    longest, row, read = at(job, WIDTH), at(job, BYTES), at(job, WORDS)
    from_steps = at(job, FROM_STEPS) == 1
    units = n
    words = stack(5)
    place = put_number(words, 0, at(job, DATA))
    place = put_number(words, place, out)
    if from_steps and target >= PADDED:  # a step is a block of both
        units = longest
        place = put_rows(words, place, steps, longest, at(read, 8) if at(read, 8) != 0 else -1)
        place = put_rows(words, place, steps, longest, n if target == PADDED else -1)
    else:
        if from_steps:
            place = put_flat(words, place, at(read, 4), at(read, 5))
        place = copy_of(words, place, read)
        if target >= PADDED:
            # behind the sorted lengths, or in the order that is known
            indices = steps - 8 * (n + longest)
            if order != 0:
                indices = peek(peek(inside(at(own, FIRST), order) + 8) + ARRAY)
            step = n if target == PADDED else 0
            place = put_steps(words, place, n, indices, at(job, OFFSETS_AT), steps, longest + 1, step)
        else:
            place = put_rows(words, place, at(job, OFFSETS_AT), n, -1 if target == RAGGED else longest)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    put_number(words, place, units)
    return work(kernel, words, rows * row)


@shared
def cleared(own: int, job: int, out: int, steps: int, runs: int, room: int) -> int:
    """Write the padding of a rectangle at the address `out`, which is so many runs of `room` rows."""
    row, rows = at(job, BYTES), at(job, ROW_COUNT)
    words = stack(3)
    place = put_number(words, 0, 0)
    place = put_number(words, place, out)
    if at(own, TARGET) == MASKED:
        place = put_flat(words, place, at(job, OFFSETS_AT), runs + 1)
    else:
        place = put_flat(words, place, steps, runs + 1)
    place = put_number(words, place, room)
    place = put_number(words, place, 0)
    place = put_number(words, place, row)
    place = put_number(words, place, 0)
    put_number(words, place, runs)
    return work(at(own, PAD_BLOCKS), words, (runs * room - rows) * row)


@shared
def new_order(common: int, block: int, n: int, longest: int) -> int:
    """An `Order` of what the kernel `sort_lengths` has written in a block, which belongs to it; 0 with an error set."""
    made = new_named(common, at(common, ORDERED), 4)
    done = made != 0
    begin = 0
    for k in range(4):
        count = n if k < 2 else longest + k - 2
        view = integers_in(common, block, begin, count) if done else 0
        if done and view == 0:
            done = False
        if view != 0:
            poke(inside(common, made) + 8 * k, view)
        begin += count
    let_go(block)
    if made != 0 and not done:
        let_go(made)
        return 0
    return made


@shared
def fits(common: int, array: int, descr: int, axes: int, item: int) -> bool:
    """Is an array of this dtype, with so many axes, and `item` the lengths of all but the first?"""
    if array == 0 or peek(array + DESCR) != descr or peek_int(array + AXES) != axes:
        return False
    dimensions, same = peek(array + DIMENSIONS), True
    for k in range(1, axes):
        same &= at(dimensions, k) == at(item, k)
    return same


@shared
def item_of(common: int, items: int, i: int, moved: int, room: int) -> int:
    """An array of a tuple: one that may be `moved`, or else one that may be in a graph; 0 where it is not plain."""
    x = at(inside(common, items), i)
    return seen(common, x, room) if moved else shown(common, x, room)


@shared
def is_valid(common: int, x: int, addresses: int) -> bool:
    """Are the arrays of a `List` what they were when it was built?

    `addresses`, if not 0, is where those of their items are written: they may be moved, then.
    """
    items, structure = peek(x + at(common, LIST_ITEMS)), peek(x + at(common, LIST_STRUCTURED))
    n = peek(items + TUPLE_SIZE)
    if n == 0 or number_of(peek(structure + at(common, COUNT))) != n:
        return False
    lengths = peek(peek(structure + at(common, LENGTHS)) + ARRAY)
    shape, descr = peek(x + at(common, LIST_SHAPE)), peek(x + at(common, LIST_DTYPE))
    axes, item, room = peek(shape + TUPLE_SIZE), stack(6), stack(7)
    if axes > MOST_AXES:
        return False
    for k in range(1, axes):
        poke(item + 8 * k, number_of(at(inside(common, shape), k)))
    for i in range(n):
        array = item_of(common, items, i, addresses, room)
        if not fits(common, array, descr, axes, item) or at(peek(array + DIMENSIONS), 0) != at(lengths, i):
            return False
        if addresses:
            poke(addresses + 8 * i, peek(array + ARRAY))
    return True


@shared
def is_built(common: int, x: int) -> bool:
    """Has the constructor of a `List` run, and are its private slots what they were?"""
    items, structure = peek(x + at(common, LIST_ITEMS)), peek(x + at(common, LIST_STRUCTURED))
    shape = peek(x + at(common, LIST_SHAPE))
    if items == 0 or structure == 0 or shape == 0 or peek(items + TYPE_OF) != at(common, TUPLE):
        return False
    return bool(has_axes(common, shape) and has_structure(common, structure))


@shared
def scanned(common: int, scan_list: int, items: int, lengths: int, first: int, moved: int) -> int:
    """The longest of the arrays in a tuple, or a negative number where they are not plain and alike.

    Lengths, offsets and addresses are written to `lengths`; `first` is the first array.
    """
    n = peek(items + TUPLE_SIZE)
    offsets, addresses = lengths + 8 * n, lengths + 16 * n + 8
    if not is_tensor(first):
        words = stack(6)
        place = put_number(words, 0, inside(common, items))
        place = put_number(words, place, ARRAY)
        place = put_number(words, place, at(common, NDARRAY))
        place = put_flat(words, place, lengths, n)
        place = put_flat(words, place, offsets, n + 1)
        put_flat(words, place, addresses, n)
        return run(scan_list, words)
    descr, axes, item = peek(first + DESCR), peek_int(first + AXES), peek(first + DIMENSIONS)
    room, longest = stack(7), 0
    poke(offsets, 0)
    for i in range(n):
        array = item_of(common, items, i, moved, room)
        if not fits(common, array, descr, axes, item):
            return -1
        length = at(peek(array + DIMENSIONS), 0)
        longest = max(longest, length)
        poke(lengths + 8 * i, length)
        poke(offsets + 8 * (i + 1), at(offsets, i) + length)
        poke(addresses + 8 * i, peek(array + ARRAY))
        if at(offsets, i + 1) < 0:  # tensors without items may be that long
            return -1
    return longest
