"""Plain functions that kernels call on every device."""

import math
from typing import Any

from .options import shared


@shared
def locate(starts: Any, cum: Any, u: int, stride: int, left: int, step: int) -> Any:
    """The sequence of unit `u` (a sequence or a column), the row of its first item, and its length; see `along`.

    Where `step` is 1, sequence u begins at row ``starts[u]``, or, where `stride` is not negative, at ``u * stride``, at
    the right end of that room where `left` is 1.  Otherwise column u holds sequence ``starts[u]``.
    """
    i = u if step == 1 else starts[u]
    length = cum[i + 1] - cum[i]
    if step != 1:
        first = u
    elif stride < 0:
        first = starts[u]
    else:
        first = u * stride + left * (stride - length)
    return i, first, length


@shared
def along(t: int, steps: Any, step: int) -> Any:
    """How many rows item t of a sequence comes after its first: ``t * step``, or ``steps[t]`` where `step` is 0."""
    return steps[t] if step == 0 else t * step


@shared
def beyond(value: Any, best: Any, least: int) -> Any:
    """Is `value` larger than `best`, or less where `least` is 1?  NaN is beyond every number, but not beyond NaN."""
    return (value < best if least else value > best) or (value != value and best == best)


@shared
def best_of_column(block: Any, k: int, width: int, least: int) -> Any:
    """The largest (least) item of column k of a few: `beyond` without branches, which random numbers would mislead.

    Call it with a constant `least`, so that the loop it becomes compares in one way only.
    """
    best = block[k]
    j = k
    while j < block.size:
        value = block[j]
        best = value if (value < best if least else value > best) | (value != value) else best
        j += width
    return best


@shared
def put(values: Any, ids: Any, begin: int, found: int, most: int, value: Any, id: int) -> int:
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
def place_of(tokens: Any, lo: int, hi: int, token: int) -> int:
    """Where `token` stands in ``tokens[lo:hi]``, which rise, or -1."""
    stop = hi
    while lo < hi:
        middle = (lo + hi) >> 1
        if tokens[middle] < token:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < stop and tokens[lo] == token else -1


@shared
def edit(value: Any, factor: Any, addend: Any) -> Any:
    """A log-probability after a multiplication, which makes it less likely on both sides of zero, and an addition."""
    return (value / factor if value > 0 else value * factor) + addend


@shared
def limited(value: Any, token: int, r: int, limits: Any) -> Any:
    """A score or log-probability of row r under its `Limits`, -inf where the token must not follow."""
    if limits.edited_at.size != 0:
        e = place_of(limits.edited, limits.edited_at[r], limits.edited_at[r + 1], token)
        if e >= 0:
            value = edit(value, limits.factors[e], limits.addends[e])
    chosen = limits.allowed_from.size != 0 and limits.allowed_from[r] >= 0
    if chosen and place_of(limits.allowed, limits.allowed_from[r], limits.allowed_to[r], token) < 0:
        value = limits.factors.dtype.type(-math.inf)  # a plain -math.inf would make everything float64
    return value


@shared
def begin_of(start: int, i: int, length: int, stride: int, left: int, unit: int, row: int) -> int:
    """The byte at which the block of sequence i begins, on a side as `kernels.copy_blocks` tells it.

    `unit` is what `start` counts in: `row`, or 1 where it is an address.
    """
    return start * unit if stride < 0 else (i * stride + left * (stride - length)) * row
