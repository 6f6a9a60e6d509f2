"""A `List` of arrays: built, filled, or looked at.

``door(x)`` of a list or tuple of arrays is a `List` of them; of a `List` whose fields are as they were given, True
where it has been filled; ``door(x, None)`` of one that was valid, True where it still is.  None where the general way
has to look.
"""

from ...native.words import (
    FIRST,
    LIST,
    LIST_DTYPE,
    LIST_ITEMS,
    LIST_LIKE,
    LIST_OF,
    LIST_SHAPE,
    LIST_STRUCTURED,
    MOST,
    NONE,
    SCAN_ITEMS,
    TRUE,
    TUPLE,
)
from .arrays import ARRAY, DESCR, has_objects, is_of_tensors, is_tensor, shape_of_items
from .language import (
    TUPLE_SIZE,
    TYPE_OF,
    at,
    keep,
    let_go,
    new_object,
    none,
    peek,
    poke,
    replace,
    shared,
    stack,
    tuple_of_list,
)
from .rows import is_built, is_valid, item_of, scanned
from .structures import new_integers, new_structure
from .taking import is_known, is_known_of


def door(own: int, args: int, count: int) -> int:
    """`own` is a world."""
    common = at(own, FIRST)
    x = peek(args)
    is_list = peek(x + TYPE_OF) == at(common, LIST_OF)
    if count == 2 and is_list and is_built(common, x):
        known = is_known_of(own, 0, is_of_tensors(common, peek(x + at(common, LIST_DTYPE))))
        return truth(common) if known and is_valid(common, x, 0) else none(common)
    if count != 1:
        return none(common)
    given = peek(x + at(common, LIST_ITEMS)) if is_list else x
    if given == 0 or (is_list and peek(x + at(common, LIST_LIKE)) != at(common, NONE)):
        return none(common)
    kind = peek(given + TYPE_OF)
    if kind == at(common, LIST):
        items = tuple_of_list(given)
        if items == 0:
            return 0
    elif kind == at(common, TUPLE):
        items = given
        keep(items)
    else:
        return none(common)
    made = x
    if is_list:
        keep(x)
    else:
        made = new_object(at(common, LIST_OF), 0)
    done = filled(own, common, made, items) if made != 0 else -1
    let_go(items)
    if done != 1:
        if made != 0:
            let_go(made)
        return 0 if done < 0 else none(common)
    if is_list:
        let_go(made)
        return truth(common)
    keep(at(common, NONE))
    poke(made + at(common, LIST_LIKE), at(common, NONE))
    return made


@shared
def truth(common: int) -> int:
    """True, to be returned."""
    keep(at(common, TRUE))
    return at(common, TRUE)


@shared
def filled(own: int, common: int, x: int, items: int) -> int:
    """Fill a `List` with the arrays in a tuple; 0 where they are not plain and alike, -1 with an error set."""
    n = peek(items + TUPLE_SIZE)
    if n == 0 or n > at(common, MOST) >> 3:
        return 0
    first = item_of(common, items, 0, 0, stack(0))
    if first == 0 or has_objects(first) or not is_known(own, 0, first):
        return 0
    if at(own, SCAN_ITEMS) == 0 and not is_tensor(first):
        return 0
    block = new_integers(common, 3 * n + 1)
    if block == 0:
        return -1
    lengths = peek(block + ARRAY)
    longest = scanned(common, at(own, SCAN_ITEMS), items, lengths, first, 0)
    if longest < 0:
        let_go(block)
        return 0
    descr = peek(first + DESCR)
    shape = shape_of_items(common, first)
    if shape == 0:
        let_go(block)
        return -1
    structure = new_structure(common, block, n, at(lengths, 2 * n), longest)
    if structure == 0:
        let_go(shape)
        return -1
    keep(descr)
    keep(items)
    replace(x + at(common, LIST_STRUCTURED), structure)
    replace(x + at(common, LIST_SHAPE), shape)
    replace(x + at(common, LIST_DTYPE), descr)
    replace(x + at(common, LIST_ITEMS), items)
    return 1
