"""The best candidates of one beam on the host, from the scores of all tokens of its rows; see `best_tokens`.

The arguments are named tuples of `beam.rows`.
"""

from typing import Any

import numpy as np

from .blocks import leave_masked_out, leave_out
from .code import Item
from .common import allows, candidate_value, edit, place_of
from .heap import in_order, keep, least_kept, least_of_best, merge
from .options import shared
from .record import Array
from .vectors import exp, powers_of_row


@shared
def normalise_limited(x: Array, begin: int, width: int, r: int, limits: Item) -> Any:
    """The largest of the scores that limits leave of a row, and the sum of ``exp(score - largest)``.

    It is added up by 64, and these sums in float64: of a large vocabulary float32 would lose the last digits.
    """
    addends, factors, divisors, allowed_from, allowed_to, allowed, edited_at, edited = limits[:8]
    first = edited_at[r] if edited_at.size != 0 else 0
    edits = edited_at[r + 1] if edited_at.size != 0 else 0
    chosen = allowed_from.size != 0 and allowed_from[r] >= 0
    top = np.float32(-np.inf)
    total, part, seen = 0.0, np.float32(0), 0
    for adding in range(2):
        e = first
        for j in range(allowed_from[r] if chosen else 0, allowed_to[r] if chosen else width):
            token = allowed[j] if chosen else j
            if not allows(limits, r, token):
                continue
            while e < edits and edited[e] < token:
                e += 1
            value = x[begin + token]
            if e < edits and edited[e] == token:
                value = edit(value, addends[e], factors[e], divisors[e])
            if adding == 0:
                top = max(top, value)
            elif value > -np.inf:
                part += exp(value - top)
                seen += 1
                if seen & 63 == 0:
                    total += part
                    part = np.float32(0)
    return top, np.float32(total + part)


@shared
def best_of_others(
    scores: Item, out: Item, blocks: Array, limits: Item, wanted: Item, apart: Item, b: int, width: int
) -> int:
    """The best candidates of a beam that are not apart, sorted; how many, or -1 - r for a bad row."""
    x, running, form = scores
    values, ids = out.values, out.ids
    addends, factors, divisors, allowed_from, allowed_to, allowed, edited_at, edited = limits[:8]
    first, last, limit, start = wanted.begin[b], wanted.end[b], wanted.most[b], b * out.places
    lo = apart.begin[b] if apart.begin.size != 0 else 0
    hi = apart.end[b] if apart.begin.size != 0 else 0
    none = np.float32(-np.inf)
    block = 16 if width <= 1024 else 128
    count = (width + block - 1) // block
    shifts = running.size * count
    for r in range(first, last):
        chosen = allowed_from.size != 0 and allowed_from[r] >= 0
        free = not chosen and (edited_at.size == 0 or edited_at[r] == edited_at[r + 1])
        top, total = powers_of_row(x, r * width, width, blocks, r * count, block)
        if not total < np.inf:
            return -1 - r
        if lo < hi:
            leave_out(x, r * width, width, blocks, r * count, block, apart, b)
        if free and limits.words != 0:
            leave_masked_out(x, r, width, blocks, r * count, block, limits, apart, lo, hi)
        if form == 2 and not (free and limits.words == 0):
            top, total = normalise_limited(x, r * width, width, r, limits)
        log = np.float32(np.log(total))
        if form == 1:
            top = np.float32(0)
            log = np.float32(0)
        blocks[shifts + 2 * r] = top
        blocks[shifts + 2 * r + 1] = log
        for i in range(r * count, (r + 1) * count):
            blocks[i] = ((blocks[i] - top) - log) + running[r] if free and blocks[i] > none else none
    low = least_of_best(blocks, first * count, last * count, values, ids, start, limit)
    found = 0
    for r in range(first, last):
        begin = r * width
        top = blocks[shifts + 2 * r]
        log = blocks[shifts + 2 * r + 1]
        score = running[r]
        e = edited_at[r] if edited_at.size != 0 else 0
        edits = edited_at[r + 1] if edited_at.size != 0 else 0
        chosen = allowed_from.size != 0 and allowed_from[r] >= 0
        if not chosen and e == edits:
            for i in range(count):
                best = blocks[r * count + i]
                if best >= low and best > none:
                    for token in range(i * block, min((i + 1) * block, width)):
                        value = ((x[begin + token] - top) - log) + score
                        if (
                            value >= low
                            and value > none
                            and allows(limits, r, token)
                            and place_of(apart.tokens, lo, hi, token) < 0
                        ):
                            found = keep(values, ids, start, found, limit, value, begin + token)
                            low = least_kept(values, start, limit) if found == limit else low
            continue
        for j in range(allowed_from[r] if chosen else 0, allowed_to[r] if chosen else width):
            token = allowed[j] if chosen else j
            if not allows(limits, r, token):
                continue
            while e < edits and edited[e] < token:
                e += 1
            value = x[begin + token] if form == 2 else (x[begin + token] - top) - log
            if e < edits and edited[e] == token:
                value = edit(value, addends[e], factors[e], divisors[e])
            if form == 2:
                value = (value - top) - log
            value += score
            if value >= low and value > none and place_of(apart.tokens, lo, hi, token) < 0:
                found = keep(values, ids, start, found, limit, value, begin + token)
                low = least_kept(values, start, limit) if found == limit else low
    in_order(values, ids, start, found, limit)
    return found


@shared
def with_apart(
    scores: Item, out: Item, blocks: Array, limits: Item, wanted: Item, apart: Item, b: int, width: int
) -> Any:
    """Sort the best that are apart in among the others of a beam, `out.counts[b]`; how many there are together."""
    values, ids = out.values, out.ids
    room = out.places // 3
    limit, start, others = wanted.most[b], b * out.places, out.counts[b]
    second = start + 2 * room  # behind the room for both
    block = 16 if width <= 1024 else 128
    shifts = scores.running.size * ((width + block - 1) // block)
    none = np.float32(-np.inf)
    low = values[start + limit - 1] if others == limit else none
    found = 0
    for r in range(wanted.begin[b], wanted.end[b]):
        log = blocks[shifts + 2 * r], blocks[shifts + 2 * r + 1]
        for e in range(apart.begin[b], apart.end[b]):
            token = apart.tokens[e]
            value = candidate_value(scores, token, r, width, log, limits)
            if value >= low and value > none:
                found = keep(values, ids, second, found, limit, value, r * width + token)
                low = least_kept(values, second, limit) if found == limit else low
    in_order(values, ids, second, found, limit)
    merge(values, ids, start, others, second, found)
    return others + found


@shared
def choose_candidates(
    scores: Item, out: Item, blocks: Array, limits: Item, wanted: Item, apart: Item, b: int, width: int
) -> None:
    """The candidates of a beam, best first; their count, or -1 - r for a bad row, comes to `out.counts`."""
    found = 0
    if wanted.begin[b] < wanted.end[b]:
        found = best_of_others(scores, out, blocks, limits, wanted, apart, b, width)
    out.counts[b] = found
    if found >= 0 and apart.begin.size != 0:
        out.counts[b] = with_apart(scores, out, blocks, limits, wanted, apart, b, width)
