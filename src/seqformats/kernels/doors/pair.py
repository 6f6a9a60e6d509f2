"""Two `Ragged` cut, the longer first, to at most so many items together: ``sf.truncate_pair(a, b, most)``."""

from ...native.words import COUNT, FIRST, LENGTHS, OFFSETS, RAGGED, STRUCTURED
from .arrays import ARRAY, is_tensor
from .encodings import data_of, kind_of
from .language import at, inside, is_whole, let_go, new_tuple, none, number_of, peek, poke, shared, stack
from .structures import new_integers
from .taking import cut_out, is_known, is_large, kind_number, row_of


@shared
def lengths_of(common: int, structure: int) -> int:
    """The address of the lengths of a structure."""
    return peek(peek(structure + at(common, LENGTHS)) + ARRAY)


@shared
def shortened(own: int, x: int, data: int, other: int, most: int, second: int) -> int:
    """A batch with what is left beside another, as which it is itself, where both are equally long, the second one."""
    common = at(own, FIRST)
    about = kind_of(common, x)
    structure = peek(x + at(about, STRUCTURED))
    n, lengths = number_of(peek(structure + at(common, COUNT))), lengths_of(common, structure)
    others, offsets = lengths_of(common, peek(other + at(about, STRUCTURED))), structure + at(common, OFFSETS)
    block = new_integers(common, 3 * n + 1)
    if block == 0:
        return 0
    table, cum, total, longest = peek(block + ARRAY), peek(peek(offsets) + ARRAY), 0, 0
    poke(table + 8 * n, 0)
    for i in range(n):
        length, beside = at(lengths, i), at(others, i)
        short = min(min(length, beside), most >> 1)
        is_short = length < beside or (length == beside and second == 0)
        kept = short if is_short else min(max(length, beside), most - short)
        total += kept
        longest = max(longest, kept)
        poke(table + 8 * i, kept)
        poke(table + 8 * (n + 1 + i), total)
        poke(table + 8 * (2 * n + 1 + i), at(cum, i))
    return cut_out(own, x, data, block, n, longest)


def door(own: int, args: int, count: int) -> int:
    """`own` is the world of the operation; three arguments."""
    common, number = at(own, FIRST), stack(0)
    if count != 3 or not is_whole(common, peek(args + 16), number) or at(number, 0) < 0:
        return none(common)
    a, b = peek(args), peek(args + 8)
    about = kind_of(common, a)
    if about == 0 or kind_number(common, about) != RAGGED or kind_of(common, b) != about:
        return none(common)
    one, two = data_of(common, about, a, stack(1)), data_of(common, about, b, stack(2))
    if one == 0 or two == 0 or is_tensor(one) != is_tensor(two) or not is_known(own, 0, one):
        return none(common)
    if is_large(common, one, row_of(one, 0)) or is_large(common, two, row_of(two, 0)):
        return none(common)
    places = at(common, COUNT)
    if number_of(peek(peek(a + at(about, STRUCTURED)) + places)) != number_of(
        peek(peek(b + at(about, STRUCTURED)) + places)
    ):
        return none(common)
    pair = new_tuple(2)
    if pair == 0:
        return 0
    first = shortened(own, a, one, b, at(number, 0), 0)
    second = shortened(own, b, two, a, at(number, 0), 1) if first else 0
    poke(inside(common, pair), first)
    poke(inside(common, pair) + 8, second)
    if second == 0:
        let_go(pair)
        return 0
    return pair
