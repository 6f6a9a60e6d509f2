"""Plain functions that kernels call on every device."""

import math
from typing import Any, NamedTuple

from ...layout import Layout
from .code import Item
from .options import shared
from .record import Array, Integers


@shared
def locate(at: Layout, u: int) -> Any:
    """The sequence of unit `u` (a sequence or a column), the row of its first item, and its length; see `along`.

    Where `starts` are addresses, the row is one.
    """
    i = u if at.step == 1 else at.starts[u]
    length = at.cum[i + 1] - at.cum[i]
    if at.step != 1:
        first = u
    elif at.stride < 0:
        first = at.starts[u]
    else:
        first = u * at.stride + at.left * (at.stride - length)
    return i, first, length


@shared
def along(at: Layout, t: int) -> Any:
    """Count the rows from the first item of a sequence to item t: ``t * step``, or ``steps[t]`` where `step` is 0."""
    return at.steps[t] if at.step == 0 else t * at.step


@shared
def part_of(cum: Integers, offsets: Integers, i: int, r: int) -> Any:
    """Find row r, of sequence i, where parts are joined as in `join_rows`: its row in its part, and which part.

    The number between says where that part of the sequence is in `cum`.
    """
    n = offsets.size - 1
    t, u, k = r - offsets[i], i, 0
    while t >= cum[u + 1] - cum[u]:
        t -= cum[u + 1] - cum[u]
        u += n + 1
        k += 1
    return t, u, k


class Columns(NamedTuple):
    """Some columns of a sequence in a flat array; `item_at` says where its items are."""

    begin: int  # of item 0, as a place in the array
    length: int
    width: int  # of a row
    steps: Integers  # see `Layout`
    step: int


@shared
def item_at(columns: Columns, t: int) -> Any:
    """Find where item t of some columns begins."""
    return columns.begin + (columns.steps[t] if columns.step == 0 else t * columns.step) * columns.width


@shared
def is_better(value: Item, best: Item, least: int) -> Any:
    """Tell whether `value` is above `best`, or below where `least` is 1.  NaN is beyond every number but NaN."""
    return (value < best if least else value > best) or (value != value and best == best)


@shared
def put(values: Array, ids: Array, begin: int, found: int, most: int, value: Item, id: int) -> int:
    """Insert a candidate into a list of the `most` best at `begin`, if it is good enough; the new length of the list.

    The order: higher value, then whoever came first.  NaN and -inf are no candidates.
    """
    place = begin
    for j in range(begin, begin + found):  # counted without branches, which random numbers would mislead
        place += values[j] >= value
    if place == begin + most or not value > -math.inf:
        return found
    j = begin + found if found < most else begin + most - 1
    while j > place:
        values[j] = values[j - 1]
        ids[j] = ids[j - 1]
        j -= 1
    values[place] = value
    ids[place] = id
    return found + 1 if found < most else found


@shared
def place_of(tokens: Integers, lo: int, hi: int, token: int) -> int:
    """Find `token` in ``tokens[lo:hi]``, which rise, or -1."""
    stop = hi
    while lo < hi:
        middle = (lo + hi) >> 1
        if tokens[middle] < token:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < stop and tokens[lo] == token else -1


@shared
def edit(value: Item, addend: Item, factor: Item, divisor: Item) -> Any:
    """A log-probability after an addition, and then a division above zero or a multiplication below; -inf stays."""
    value += addend
    if value > 0:
        return value / divisor
    return value * factor if value > -math.inf else value


@shared
def allows(limits: Any, r: int, token: int) -> Any:
    """Tell whether the mask of row r allows a token, if its `Limits` have masks."""
    return limits.words == 0 or (limits.bits[r * limits.words + (token >> 6)] >> (token & 63)) & 1 != 0


@shared
def apply_limits(value: Item, token: int, r: int, limits: Any) -> Any:
    """A score or log-probability of row r under its `Limits`, -inf where the token must not follow."""
    if limits.edited_at.size != 0:
        e = place_of(limits.edited, limits.edited_at[r], limits.edited_at[r + 1], token)
        if e >= 0:
            value = edit(value, limits.addends[e], limits.factors[e], limits.divisors[e])
    chosen = limits.allowed_from.size != 0 and limits.allowed_from[r] >= 0
    listed = not chosen or place_of(limits.allowed, limits.allowed_from[r], limits.allowed_to[r], token) >= 0
    if not (listed and allows(limits, r, token)):
        value = limits.factors.dtype.type(-math.inf)  # a plain -math.inf would make everything float64
    return value


@shared
def worth(scores: Any, value: Item, token: int, r: int, log: tuple[Item, Item], limits: Any) -> Any:
    """Value a token with this score behind row r of some `Scores`, which `log` turns into log-probabilities."""
    if scores.form != 2:
        value = (value - log[0]) - log[1]
    value = apply_limits(value, token, r, limits)
    if scores.form == 2:
        value = (value - log[0]) - log[1]
    return value + scores.running[r]


@shared
def candidate_value(scores: Any, token: int, r: int, width: int, log: tuple[Item, Item], limits: Any) -> Any:
    """Value a token, whose score is read."""
    return worth(scores, scores.items[r * width + token], token, r, log, limits)


@shared
def begin_of(at: Layout, i: int, length: int, row: int) -> Any:
    """The byte at which the block of sequence i begins, or its address."""
    if at.stride < 0:
        return at.starts[i] * (1 if at.absolute else row)
    return (i * at.stride + at.left * (at.stride - length)) * row


@shared
def dot(x: Array, p: int, y: Array, r: int, size: int) -> Any:
    """The sum of ``x[p + k] * y[r + k]``."""
    total = x.dtype.type(0)
    for k in range(size):
        total += x[p + k] * y[r + k]
    return total
