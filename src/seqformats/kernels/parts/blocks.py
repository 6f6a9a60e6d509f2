"""The largest of each block of a row of scores, without what may not be a candidate.

`limits` and `apart` are those of `beam.rows`.
"""

import numpy as np

from .code import Item
from .options import shared
from .record import Array
from .vectors import largest, largest_of


@shared
def leave_out(x: Array, begin: int, width: int, blocks: Array, at: int, block: int, apart: Item, b: int) -> None:
    """The largest of each block of a row without the tokens that are apart, where one of those is the largest."""
    tokens = apart.tokens
    e = apart.begin[b]
    while e < apart.end[b]:
        own = tokens[e] // block
        stop = min((own + 1) * block, width)
        first = e
        is_one = False
        while e < apart.end[b] and tokens[e] < stop:
            is_one |= x[begin + tokens[e]] == blocks[at + own]
            e += 1
        if is_one:
            best = np.float32(-np.inf)
            token = own * block
            while token < stop:
                following = tokens[first] if first < e else stop
                if token < following:
                    best = max(best, largest(x, begin + token, following - token))
                token = following + 1
                first += 1
            blocks[at + own] = best


@shared
def allows_all(limits: Item, r: int, token: int, stop: int) -> bool:
    """Tell whether the mask of a row allows every token from `token` to below `stop`."""
    whole = True
    while whole and token < stop:
        until = min((token | 63) + 1, stop)
        every = -1 if until - token == 64 else (1 << (until - token)) - 1
        whole = (limits.bits[r * limits.words + (token >> 6)] >> (token & 63)) & every == every
        token = until
    return whole


@shared
def leave_masked_out(
    x: Array, r: int, width: int, blocks: Array, at: int, block: int, limits: Item, apart: Item, e: int, hi: int
) -> None:
    """The largest of each block of a row among what its mask allows and is not apart; as it is where all is allowed.

    From `e` to `hi` are the tokens that are apart.
    """
    for i in range((width + block - 1) // block):
        token = i * block
        stop = min(token + block, width)
        if allows_all(limits, r, token, stop):
            continue
        best = np.float32(-np.inf)
        while token < stop:  # 16 at a time
            until = min(token + 16, stop)
            bits = limits.bits[r * limits.words + (token >> 6)] >> (token & 63) & ((1 << (until - token)) - 1)
            while e < hi and apart.tokens[e] < 0:
                e += 1
            while e < hi and apart.tokens[e] < until:
                bits &= ~(1 << (apart.tokens[e] - token))
                e += 1
            if bits != 0:
                best = max(best, largest_of(x, r * width + token, bits))
            token = until
        blocks[at + i] = best
