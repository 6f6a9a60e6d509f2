"""Parts of edit distances: parts of sequences, a table of tokens, a column of differences.

See `count_edits` for the algorithm and its source.
"""

from typing import Any, NamedTuple

import numpy as np

from .moves import at_most
from .options import shared
from .record import Array, Integers


class Part(NamedTuple):
    """Some items one after the other."""

    items: Array
    begin: int
    length: int


@shared
def trimmed(one: Part, two: Part, least: int) -> int:
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
def place_in_wide_table(scratch: Integers, home: int, token: int) -> Any:
    """Find where a token stands in the table of four strips, or the free place for it; see `fill_wide_table`."""
    value = np.int64(token)
    s = ((value ^ (value >> 31)) & 0x7FFFFFFF) * 0x9E3779B1 >> 22 & 511
    while scratch[home + s] != 0 and scratch[home + 512 + s] != value:
        s = (s + 1) & 511
    return s


@shared
def are_small(part: Part) -> Any:
    """Tell whether all tokens are from 0 to 511, and so places of the table themselves."""
    large = 0
    for t in range(part.length):
        token = part.items[part.begin + t]
        large |= (token < 0) | (token > 511)
    return large == 0


@shared
def fill_wide_table(scratch: Integers, home: int, strips: Part, least: int, small: int) -> None:
    """Enter the items of four strips, up to 256, so that the last one ends with the last row.

    Of 512 places the first numbers say whether they are taken, those behind them by which token, and four behind these
    which items of each strip are that token.  A place more is that of all tokens which are in no strip.
    """
    for s in range(512):
        scratch[home + s] = small
    for k in range(0 if small else 2048, 2052):
        scratch[home + 1024 + k] = 0
    for k in range(256 - strips.length, 256):
        token = strips.items[strips.begin + strips.length - 256 + k]
        if token >= least:
            s = token if small else place_in_wide_table(scratch, home, token)
            masks = home + 1024 + 4 * s
            if scratch[home + s] == 0:
                scratch[home + s] = 1
                scratch[home + 512 + s] = token
                for j in range(4):
                    scratch[masks + j] = 0
            scratch[masks + (k >> 6)] |= np.int64(1) << (k & 63)


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
