"""Random numbers by counters: the same ones in any order, on any device, in any number of threads.

Philox4x32-10 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"):
ten rounds of two products each make four random numbers of a counter and a key.  The counter is a place, a sequence and
a purpose, the key the seed.  So a number depends on these alone, and no two purposes share one.

========  ====================================================  =====================================
purpose   of what                                               place
========  ====================================================  =====================================
0         `mask_items`: is an item, or a word, chosen?          of it, four to a counter
1         what becomes of an item of a chosen word              of the item, four to a counter
2         which other item comes in its place                   of the item
3, 4      `corrupt_items`: where what is kept, and a span, end  the items of the kind that are left
5         `shuffle_items`: which item comes here                of the item, four to a counter
6         the same, drawn again                                 of the item
7         `draw_tokens`: which token comes next                 of the token
========  ====================================================  =====================================

What has to be drawn again takes the same place, and a purpose with 8 more, or a multiple of that.
"""

from typing import Any

from .options import shared


@shared
def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> Any:
    """Four random numbers of 32 bits of a counter and a key, which are words of 32 bits; all in integers of 64."""
    for _ in range(10):
        a = c0 * 0xD2511F53  # may go beyond int64, as which the upper half is masked
        b = c2 * 0xCD9E8D57
        c0 = ((b >> 32) & 0xFFFFFFFF) ^ c1 ^ k0
        c2 = ((a >> 32) & 0xFFFFFFFF) ^ c3 ^ k1
        c1 = b & 0xFFFFFFFF
        c3 = a & 0xFFFFFFFF
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


@shared
def draw(seed: int, purpose: int, sequence: int, place: int) -> Any:
    """Four random numbers of 32 bits for a place, below 2^32, in a sequence."""
    seed, i = int(seed), int(sequence)  # interpreted, a product of Python's integers has no end
    return philox(int(place), i & 0xFFFFFFFF, i >> 32, purpose, seed & 0xFFFFFFFF, seed >> 32)


@shared
def one_of(four: Any, k: int) -> Any:
    """Number k of four, k from 0 to 3."""
    a, b, c, d = four
    low = b if k & 1 else a
    high = d if k & 1 else c
    return high if k & 2 else low


@shared
def draw_integer(limit: int, bits: int, seed: int, purpose: int, sequence: int, place: int) -> Any:
    """One of the numbers from 0 to ``limit - 1``, each as likely, of 32 random bits; `limit` is at most 2^32.

    The bits as a part of 1, times `limit` (D. Lemire 2019, "Fast random integer generation in an interval"): those
    that some numbers have more of than others are drawn again.
    """
    product = bits * int(limit)
    if product & 0xFFFFFFFF < limit:
        over = (0x100000000 - limit) % limit
        while product & 0xFFFFFFFF < over:
            purpose += 8
            product = draw(seed, purpose, sequence, place)[0] * int(limit)
    return (product >> 32) & 0xFFFFFFFF
