"""Parts of edit distances: parts of sequences, a table of tokens, a column of differences.

See `count_edits` for the algorithm and its source.
"""

from typing import Any, NamedTuple

import numpy as np

from .lane_items import push_lane
from .lanes import choose, each, in_lanes
from .moves import at_most
from .options import shared
from .record import Array, Integers


class Part(NamedTuple):
    """Some items one after the other."""

    items: Array
    begin: int
    length: int


@shared
def count_equal(one: Part, two: Part, least: int) -> int:
    """With how many equal items two parts begin."""
    most, t = at_most(one.length, two.length), 0
    while t < most and one.items[one.begin + t] == two.items[two.begin + t] and one.items[one.begin + t] >= least:
        t += 1
    return t


@shared
def trimmed_behind(one: Part, two: Part, least: int) -> int:
    """With how many equal items two parts end."""
    most, t = at_most(one.length, two.length), 0
    p, q = one.begin + one.length - 1, two.begin + two.length - 1
    while t < most and one.items[p - t] == two.items[q - t] and one.items[p - t] >= least:
        t += 1
    return t


@shared
def place_in_table(scratch: Integers, home: int, slots: int, token: int) -> Any:
    """Find a token in the table, or the free place for it; its mask is 256 further, 0 where the place is free.

    The number of slots is a power of two, and three of four at least are free, so that the first look mostly ends it.
    """
    value = np.int64(token)
    s = (((value ^ (value >> 31)) & 0x7FFFFFFF) * 0x9E3779B1 >> 22) & (slots - 1)
    while scratch[home + 256 + s] != 0 and scratch[home + s] != value:
        s = (s + 1) & (slots - 1)
    return home + s


@shared
def fill_table(scratch: Integers, home: int, strip: Part, least: int) -> int:
    """Enter the items of a strip, up to 64; the number of slots."""
    slots = 2
    while slots < 4 * strip.length:
        slots <<= 1
    for s in range(slots):
        scratch[home + 256 + s] = 0
    bit = np.int64(1)
    for k in range(strip.length):
        token = strip.items[strip.begin + k]
        if token >= least:
            place = place_in_table(scratch, home, slots, token)
            scratch[place] = token
            scratch[place + 256] |= bit
        bit = bit << 1
    return slots


@shared
def place_in_wide_table(scratch: Integers, home: int, slots: int, token: int) -> Any:
    """Find where a token stands in the table of several strips, or the free place for it; see `fill_wide_table`."""
    value = np.int64(token)
    s = ((value ^ (value >> 31)) & 0x7FFFFFFF) * 0x9E3779B1 >> 22 & (slots - 1)
    while scratch[home + s] != 0 and scratch[home + slots + s] != value:
        s = (s + 1) & (slots - 1)
    return s


@shared
def token_bits(part: Part) -> Any:
    """All bits that tokens have."""
    bits = np.int64(0)
    for t in range(part.length):
        bits |= part.items[part.begin + t]
    return bits


@shared
def small_tokens(one: Part, two: Part) -> Any:
    """Choose a number above all tokens, which are places of the table themselves; 0 if one is not from 0 to 511."""
    bits = token_bits(one) | token_bits(two)
    return bits + 1 if 0 <= bits < 512 else np.int64(0)


@shared
def fill_wide_table(scratch: Integers, home: int, rows: Part, places: tuple[int, int], least: int, small: int) -> None:
    """Enter the items of some strips, up to 64 each; ``places`` are the number of strips and the place of row 0.

    Of 128 slots a strip, the first numbers say whether they are taken, those behind them by which token, and behind
    these each has a mask a strip of the items that are that token.  A slot more is that of all other tokens.
    """
    strips, first = places
    slots = 128 * strips
    masks = home + 2 * slots
    for s in range(0 if small else slots):
        scratch[home + s] = 0
    for k in range(strips * small):
        scratch[masks + k] = 0
    for k in range(strips):
        scratch[masks + strips * slots + k] = 0
    for k in range(rows.length):
        token, row = rows.items[rows.begin + k], first + k
        if token >= least:
            slot = np.int64(token) if small else place_in_wide_table(scratch, home, slots, token)
            if small == 0 and scratch[home + slot] == 0:
                scratch[home + slot] = 1
                scratch[home + slots + slot] = token
                for j in range(strips):
                    scratch[masks + strips * slot + j] = 0
            scratch[masks + strips * slot + (row >> 6)] |= np.int64(1) << (row & 63)


@shared
def slot_of_token(scratch: Integers, home: int, slots: int, token: int, small: int) -> Any:
    """Find the slot of a token, or that of all others."""
    if small:
        return np.int64(token)
    s = place_in_wide_table(scratch, home, slots, token)
    return s if scratch[home + s] != 0 else np.int64(slots)


@shared
def next_column(equal: int, rising: int, falling: int, above: int, count: int) -> Any:
    """The differences down a strip in the next column, and what its lower edge, of item `count`, rises with it.

    ``equal`` is the mask of the items that are the column's token, ``above`` what the row above the strip rises.
    """
    kept = equal | falling
    equal |= (above >> 1) & 1
    diagonal = (((equal & rising) + rising) ^ rising) | equal
    more = falling | ~(diagonal | rising)  # where a row rises from the last column to this one
    less = rising & diagonal
    below = ((more >> (count - 1)) & 1) - ((less >> (count - 1)) & 1)
    more = more << 1 | (above + 1) >> 1
    less = less << 1 | ((above >> 1) & 1)
    return less | ~(kept | more), more & kept, below


@shared
def next_column_of_strip(equal: int, rising: int, falling: int, up: int, down: int) -> Any:
    """Calculate `next_column` of a strip of 64 rows, where `up` and `down` are bits: what the row above does.

    What the lower edge does comes back as two bits, too.  Rows in which no bit is set are as the one above the strip.
    """
    equal |= down
    diagonal = (((equal & rising) + rising) ^ rising) | equal | falling
    more = falling | ~(diagonal | rising)
    less = rising & diagonal
    rises, falls = (more >> 63) & 1, (less >> 63) & 1
    more = more << 1 | up
    less = less << 1 | down
    return less | ~(diagonal | more), more & diagonal, rises, falls


@in_lanes
def next_column_of_strips(equal: Any, state: Any, above: tuple[int, int], count: int) -> Any:
    """Calculate `next_column` of strips in lanes, each a column behind the one above it.

    ``state`` is what rises and falls in a strip, and what its lower edge does, 0 or -1; ``above`` that of the row above
    the first strip.  Returns the new state, and where rows rise and fall from column to column.
    """
    rising, falling, rises, falls = state
    ones, up, down = each(rising, -1, count), push_lane(rises, above[0]), push_lane(falls, above[1])
    equal = equal | (down & each(rising, 1, count))
    diagonal = (((equal & rising) + rising) ^ rising) | equal | falling
    more = falling | ((diagonal | rising) ^ ones)
    less = rising & diagonal
    zero = each(rising, 0, count)
    moved, back = more + more - up, less + less - down
    rises, falls = choose(more < zero, ones, zero), choose(less < zero, ones, zero)
    return (back | ((diagonal | moved) ^ ones), moved & diagonal, rises, falls), more, less
