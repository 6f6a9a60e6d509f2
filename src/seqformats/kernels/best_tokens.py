"""The best candidates of beam search, from the scores of all tokens, in one pass over them.

A row of scores is turned into log-probabilities, ``(x - max) - log(sum(exp(x - max)))``, unless it has them already,
``scores.form`` being 1.  A candidate is worth that plus the row's own score; see `heap` for the order.  Limits act on
log-probabilities; where `form` is 2 on the scores, before they become log-probabilities of what may follow.

Every beam has a list of its candidates, or on CUDA, where `work` says so, every row one of as many as its beam asks
for; on the CPU a caller that wants these makes each row a beam.  A row that holds NaN or +inf makes the count
``-1 - row``.

Where tokens are `apart` a beam has as many as it asks for of all others, and of these as many that are worth at least
the last one of those.  On the CPU they come in one list, whose `places` are three times what the beams ask for, a third
of them for the work; on CUDA in two, those of all beams behind the others, and none is left out.

``work`` is on the CPU ``rows * (ceil(width / block) + 2)`` numbers: what the best of each block is worth, and what
turns the scores of each row into log-probabilities; a block is 16 up to a width of 1024, and 128 beyond.
"""

import math
from typing import Any

import numpy as np

from ..beam.rows import Apart, Limits, Lists, RowWork, Scores, Wanted
from . import parts as p
from .parts import Integers, Singles
from .parts.names import gpu


@p.compiled
def cpu(
    scores: Scores,
    out: Lists,
    work: Singles,
    limits: Limits,
    wanted: Wanted,
    apart: Apart,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Beams `lo` to `hi`."""
    for b in range(lo, hi):
        p.choose_candidates(scores, out, work, limits, wanted, apart, b, width)


@p.shared
def add_score(top: Any, total: Any, value: Any, token: int, r: int, form: int, limits: Limits) -> Any:
    """The largest score so far, and the sum of exponentials below it, with another score; infinite where it is bad."""
    none = limits.factors.dtype.type(-math.inf)
    if value != value or value == -none:
        total = -none
    if form == 2:
        value = p.apply_limits(value, token, r, limits)
    if form != 1 and value > top:
        total = total * p.exp(top - value) + limits.factors.dtype.type(1)
        top = value
    elif form != 1 and value > none:
        total += p.exp(value - top)
    return top, total


@p.shared
def key_above(
    least: int,
    scores: Scores,
    value: Any,
    token: int,
    r: int,
    log: tuple[Any, Any],
    limits: Limits,
    aside: Integers,
    lo: int,
    hi: int,
) -> Any:
    """The key of a token with this score, if that is more than `least`, and none of those aside; else `least`."""
    value = p.worth(scores, value, token, r, log, limits)
    key = p.candidate_key(value, token)
    if value > -math.inf and key > least and p.place_of(aside, lo, hi, token) < 0:
        return key
    return least


@p.shared
def put_in_list(list: Integers, begin: int, found: int, limit: int, key: int, least: int) -> int:
    """Put a key above `least` in a list of `found`, best first, of at most `limit`; how many there are then."""
    if key > least and (found < limit or key > list[begin + limit - 1]):
        j = begin + min(found, limit - 1)
        while j > begin and list[j - 1] < key:
            list[j] = list[j - 1]
            j -= 1
        list[j] = key
        found = min(found + 1, limit)
    return found


def cuda(
    scores: Scores, out: Integers, work: RowWork, limits: Limits, wanted: Wanted, apart: Apart, width: int
) -> None:
    """All rows, a block each, of which the last one of a beam merges its lists.

    Every thread looks for its best candidate.  Where as many as are wanted have a better one it is out; those that
    remain list, best first, what is not below the worst of their best ones, at the end of the results: for each
    block of the grid ``min(places, 128)`` lists of `places`.  A candidate's place is the number of better ones in them
    all.  Where there are more places than 128, no more threads of a block have work than there are lists.
    """
    x, running, form = scores
    counters, by_beams, _, _, of_rows, places, counts, rest = work
    begin, end, most = wanted
    rows = running.size
    beams = begin.size
    parts = 2 if apart.begin.size != 0 else 1
    largest = p.natural(gpu.shared.array(256, x.dtype))
    sums = p.natural(gpu.shared.array(256, x.dtype))
    keys = p.natural(gpu.shared.array(256, out.dtype))
    floors = p.natural(gpu.shared.array(256, out.dtype))
    told = p.natural(gpu.shared.array(256, np.int32))  # two of `came_last` and `merge_rows`, then four of the row
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x if places <= 128 else min(gpu.blockDim.x, 128)
    works = me < threads
    infinite = x.dtype.type(math.inf)
    none = p.candidate_key(-infinite, 0xFFFFFFFF)
    home = rest + gpu.blockIdx.x * min(places, 128) * places
    r = gpu.blockIdx.x
    if me == 0:
        told[2] = 0
        told[3] = -1
    gpu.syncthreads()
    while r < rows:
        b = me
        while b < beams:
            if begin[b] <= r and r < end[b]:
                told[2] = min(most[b], places)
                told[3] = b
                if parts == 2:
                    told[4] = apart.begin[b]
                    told[5] = apart.end[b]
            elif r == 0 and by_beams != 0 and begin[b] >= end[b]:
                out[b] = 0
                if parts == 2:
                    out[beams + b] = 0
            b += threads
        gpu.syncthreads()
        limit = int(told[2])  # 0 where the row is in no beam
        own = int(told[3])  # this beam, or -1
        lo = int(told[4]) if parts == 2 else 0
        hi = int(told[5]) if parts == 2 else 0
        row = r * width
        top = -infinite
        total = x.dtype.type(0)
        k = me if limit > 0 and works else width
        while k + 3 * threads < width:  # four scores are on their way at a time
            a, b = x[row + k], x[row + k + threads]
            c, d = x[row + k + 2 * threads], x[row + k + 3 * threads]
            top, total = add_score(top, total, a, k, r, form, limits)
            top, total = add_score(top, total, b, k + threads, r, form, limits)
            top, total = add_score(top, total, c, k + 2 * threads, r, form, limits)
            top, total = add_score(top, total, d, k + 3 * threads, r, form, limits)
            k += 4 * threads
        while k < width:
            top, total = add_score(top, total, x[row + k], k, r, form, limits)
            k += threads
        largest[me] = top
        sums[me] = total
        p.tree_powers(largest, sums, threads)
        top = largest[0]
        total = sums[0]
        good = total < infinite  # NaN is not
        log = x.dtype.type(0)
        if form == 1 or not top > -infinite:
            top = x.dtype.type(0)
        else:
            log = p.ln(total)
        log_of = (top, log)
        for part in range(parts):
            size = width if part == 0 else hi - lo
            without = hi if part == 0 else lo  # tokens that are apart are not in the first part
            begin_at = me if good and limit > 0 and works else size
            best = none
            k = begin_at
            while part == 0 and k + 3 * threads < size:
                a, b = x[row + k], x[row + k + threads]
                c, d = x[row + k + 2 * threads], x[row + k + 3 * threads]
                best = key_above(best, scores, a, k, r, log_of, limits, apart.tokens, lo, without)
                best = key_above(best, scores, b, k + threads, r, log_of, limits, apart.tokens, lo, without)
                best = key_above(best, scores, c, k + 2 * threads, r, log_of, limits, apart.tokens, lo, without)
                best = key_above(best, scores, d, k + 3 * threads, r, log_of, limits, apart.tokens, lo, without)
                k += 4 * threads
            while k < size:
                token = k if part == 0 else apart.tokens[lo + k]
                a = x[row + token]
                best = key_above(best, scores, a, token, r, log_of, limits, apart.tokens, lo, without)
                k += threads
            keys[me] = best
            floors[me] = none
            gpu.syncthreads()
            rank = p.count_larger(keys, min(threads, size), best)
            chosen = rank < limit and best > none
            if chosen and rank == limit - 1:
                floors[0] = best - 1
            gpu.syncthreads()
            keys[me] = 0  # how long the list is that this thread may have
            gpu.syncthreads()
            lists = min(threads, limit)
            floor = floors[0]
            mine = home + rank * places
            alone = size <= threads  # each thread has looked at all that it has: its rank is the place of its best one
            found = 0
            if alone and chosen:
                out[of_rows + (part * rows + r) * places + rank] = best
                found = 1
            k = begin_at if chosen and not alone else size
            while part == 0 and k + 3 * threads < size:
                a, b = x[row + k], x[row + k + threads]
                c, d = x[row + k + 2 * threads], x[row + k + 3 * threads]
                key = key_above(floor, scores, a, k, r, log_of, limits, apart.tokens, lo, without)
                found = put_in_list(out, mine, found, limit, key, floor)
                key = key_above(floor, scores, b, k + threads, r, log_of, limits, apart.tokens, lo, without)
                found = put_in_list(out, mine, found, limit, key, floor)
                key = key_above(floor, scores, c, k + 2 * threads, r, log_of, limits, apart.tokens, lo, without)
                found = put_in_list(out, mine, found, limit, key, floor)
                key = key_above(floor, scores, d, k + 3 * threads, r, log_of, limits, apart.tokens, lo, without)
                found = put_in_list(out, mine, found, limit, key, floor)
                k += 4 * threads
            while k < size:
                token = k if part == 0 else apart.tokens[lo + k]
                a = x[row + token]
                key = key_above(floor, scores, a, token, r, log_of, limits, apart.tokens, lo, without)
                found = put_in_list(out, mine, found, limit, key, floor)
                k += threads
            if chosen:
                keys[rank] = found
            gpu.syncthreads()
            k = me if works and not alone else lists * places
            while k < lists * places:
                mine = k // places
                place = k - mine * places
                if place < keys[mine]:
                    key = out[home + k]
                    for other in range(lists):
                        if other != mine:
                            low = home + other * places
                            high = low + keys[other]
                            while low < high:
                                middle = (low + high) >> 1
                                if out[middle] > key:
                                    low = middle + 1
                                else:
                                    high = middle
                            place += low - (home + other * places)
                    if place < limit:
                        out[of_rows + (part * rows + r) * places + place] = key
                k += threads
            if me == 0:
                found = 0
                for k in range(lists):
                    found += keys[k]
                out[counts + part * rows + r] = min(found, limit) if good else -1 - r
            gpu.syncthreads()
        first, last, to, shift = r, r + 1, r, rows
        if by_beams != 0 and own >= 0:
            first, last, to, shift = begin[own], end[own], own, beams
            limit = most[own]
        merges = p.came_last(counters, rows + own, last - first, told) and (by_beams == 0 or own >= 0)
        if merges:
            for part in range(parts):
                before = part * rows
                of = first + before, last + before, before
                p.merge_rows(work, out, keys, told, of, limit, part * shift + to, width)
        if me == 0:
            told[2] = 0
            told[3] = -1
        gpu.syncthreads()
        r += gpu.gridDim.x


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "scores", p.alike(("f4",), 5))
