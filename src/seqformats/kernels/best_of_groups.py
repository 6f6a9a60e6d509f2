"""The best candidates of beam search on a GPU where rows are wide, in one pass over the scores.

They are those of `best_tokens`, in its order, and a row that holds NaN or +inf makes the count ``-1 - row``.  No tokens
are apart, and limits act on scores, if any.

A row falls into chunks of 32 scores for each thread of a block.  Scores that lie as far apart in a chunk as there are
threads are a group: one thread reads them, all threads side by side.  A block has two chunks, and the last block of a
row that is through with them finds the candidates of the row: so many threads, or four threads each, as are wanted have
groups whose best are the best of all, so that candidates are only in groups whose best is not below the last one of
these, and only their scores are read again.  The last row of a beam merges its lists.  There are at most 64 candidates
of a row.
"""

import math
from typing import Any

import numpy as np

from ..beam.rows import Apart, Limits, Lists, RowWork, Scores, Wanted
from . import parts as p
from .parts import Array, Integers, Singles
from .parts.names import gpu


@p.compiled
def cpu(
    scores: Scores, out: Lists, work: Singles, limits: Limits, wanted: Wanted, width: int, lo: int, hi: int
) -> None:
    """Beams `lo` to `hi`, as `best_tokens` has them."""
    apart = Apart(wanted.begin[:0], wanted.end[:0], wanted.begin[:0])  # nothing
    for b in range(lo, hi):
        p.choose_candidates(scores, out, work, limits, wanted, apart, b, width)


@p.shared
def eight_joined(top: Any, total: Any, eight: Any) -> Any:
    """The largest score so far, or the least float32, and the sum of exponentials below it, with eight more.

    The sum becomes NaN with a score that is NaN or +inf, and stays it.
    """
    a, b, c, d, e, f, g, h = eight
    high = p.greater(p.greater(p.greater(a, b), p.greater(c, d)), p.greater(p.greater(e, f), p.greater(g, h)))
    best = p.greater(top, high)
    total = total * p.quick_exp(top - best)
    total += (p.quick_exp(a - best) + p.quick_exp(b - best)) + (p.quick_exp(c - best) + p.quick_exp(d - best))
    total += (p.quick_exp(e - best) + p.quick_exp(f - best)) + (p.quick_exp(g - best) + p.quick_exp(h - best))
    return best, total


@p.shared
def up_to_eight(x: Array, row: int, k: int, end: int, by: int) -> Any:
    """Every so many scores of a row from the k-th on, and -inf in place of those behind the end."""
    none = np.float32(-math.inf)
    a = x[row + k]
    b = x[row + k + by] if k + by < end else none
    c = x[row + k + 2 * by] if k + 2 * by < end else none
    d = x[row + k + 3 * by] if k + 3 * by < end else none
    e = x[row + k + 4 * by] if k + 4 * by < end else none
    f = x[row + k + 5 * by] if k + 5 * by < end else none
    g = x[row + k + 6 * by] if k + 6 * by < end else none
    return a, b, c, d, e, f, g, none


@p.shared
def one_joined(top: Any, total: Any, score: Any) -> Any:
    """Join one score more."""
    best = p.greater(top, score)
    return best, total * p.quick_exp(top - best) + p.quick_exp(score - best)


@p.shared
def put_groups(scores: Scores, out: Integers, limits: Limits, r: int, chunks: Any, at: int, width: int) -> None:
    """Write what is to be known of the groups of some chunks of a row, from place `at` of the results on.

    Each is two float32: above the largest score, -inf where there is none, below the sum of ``exp(score - largest)``,
    infinite where one is NaN or +inf.  A thread has eight scores of its group on their way while it joins eight.
    """
    x, _, form = scores
    chunk, stop = chunks
    lanes = gpu.blockDim.x
    me = gpu.threadIdx.x
    least = x.dtype.type(-p.LARGEST)
    row = r * width
    while chunk < stop:
        k = chunk * lanes * 32 + me
        end = min((chunk + 1) * lanes * 32, width)
        top = least
        total = x.dtype.type(0)
        if form != 2 and k + 7 * lanes < end:
            eight = p.eight_from(x, row + k, lanes)
            k += 8 * lanes
            while k + 7 * lanes < end:
                ahead = p.eight_from(x, row + k, lanes)
                top, total = eight_joined(top, total, eight)
                eight = ahead
                k += 8 * lanes
            top, total = eight_joined(top, total, eight)
        if form != 2 and k < end:
            top, total = eight_joined(top, total, up_to_eight(x, row, k, end, lanes))
        while form == 2 and k < end:
            score = x[row + k]
            if score < math.inf:  # what is bad stays so
                score = p.apply_limits(score, k, r, limits)
            top, total = one_joined(top, total, score)
            k += lanes
        if total == 0:  # which no power beside the largest score leaves
            top = x.dtype.type(-math.inf)
        if not total < math.inf:
            total = x.dtype.type(math.inf)
        out[at + chunk * lanes + me] = p.bits_of(top) << 32 | p.bits_of(total)
        chunk += 1


@p.shared
def token_in(named: Integers, hot: int, k: int, size: int, width: int) -> Any:
    """The k-th of `size` tokens of the named groups, or of all if these are too many; `width` where there is none."""
    if k >= size:
        return width
    threads = gpu.blockDim.x
    g = int(named[4 + (k >> 5)]) if hot <= 252 else k >> 5
    chunk = int(np.uint32(g) // np.uint32(threads))
    return min((chunk * 32 + (k & 31)) * threads + (g - chunk * threads), width)


@p.shared
def choose_of_row(
    scores: Scores, out: Integers, limits: Limits, wanted: Wanted, room: Any, r: int, of_row: Any, width: int
) -> Any:
    """List the candidates of a row; how many are wanted comes back, and of which beam, or -1.

    `of_row` has how many keys the list has room for, where in the results it is, where their number, and where what is
    known of the groups, and how many groups there are.

    Each thread names those of its groups that may have a candidate; then all look at the scores of the named ones, up
    to 192 at a time, since keys of so many and of the 64 best so far have room.
    """
    x, running, form = scores
    places, listed, count, first, groups = of_row
    largest, sums, keys, best, named = room
    begin, end, most = wanted
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    infinite = x.dtype.type(math.inf)
    if me == 0:
        named[2] = 0
        named[3] = -1
    gpu.syncthreads()
    b = me  # what is read of the row is on its way before the next barrier
    while b < begin.size:
        if begin[b] <= r and r < end[b]:
            named[2] = min(most[b], places)
            named[3] = b
        b += threads
    row = r * width
    before = running[r]
    top = -infinite
    total = x.dtype.type(0)
    g = me
    while g + 3 * threads < groups:
        i, j = out[first + g], out[first + g + threads]
        k, m = out[first + g + 2 * threads], out[first + g + 3 * threads]
        top, total = p.added_group(top, total, i)
        top, total = p.added_group(top, total, j)
        top, total = p.added_group(top, total, k)
        top, total = p.added_group(top, total, m)
        g += 4 * threads
    while g < groups:
        top, total = p.added_group(top, total, out[first + g])
        g += threads
    leader = top
    largest[me] = top
    sums[me] = total
    if me == 0:
        named[0] = 0
        named[1] = 0
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
    gpu.syncthreads()
    leader = ((leader - top) - log) + before
    sums[me] = leader
    if me == 0:
        largest[0] = -infinite
    gpu.syncthreads()
    limit = int(named[2])  # 0 where the row is in no beam
    own = int(named[3])
    good = good or limit == 0
    # each is compared with all others: where few candidates are wanted, the best of every four threads are enough
    leaders = threads if limit > 16 else threads >> 2
    if me < leaders:
        best_leader = leader
        t = me
        while t < threads:
            best_leader = max(best_leader, sums[t])
            t += leaders
        keys[me] = p.candidate_key(best_leader, me)
    gpu.syncthreads()
    if me < leaders and p.count_larger(keys, leaders, keys[me]) == limit - 1:
        largest[0] = p.value_of_key(keys[me])
    gpu.syncthreads()
    bar = largest[0]
    g = me if good and limit > 0 and leader >= bar and leader > -infinite else groups
    while g < groups:
        if ((p.float_of(out[first + g] >> 32) - top) - log) + before >= bar:
            place = gpu.atomic.add(named, 0, 1)
            if place < 252:
                named[4 + place] = g
        g += threads
    gpu.syncthreads()
    hot = int(named[0])
    size = (hot if hot <= 252 else groups) * 32
    step = min(threads, 192)
    found = 0
    at = 0
    mine = me if me < step else size
    token = token_in(named, hot, mine, size, width)
    score = x[row + token] if token < width else infinite
    while at < size:
        mine += step
        following = token_in(named, hot, mine, size, width)
        another = x[row + following] if following < width else infinite  # on its way meanwhile
        if token < width:
            value = p.worth(scores, score, token, r, log_of, limits)
            if value >= bar and value > -infinite:
                keys[gpu.atomic.add(named, 1, 1)] = p.candidate_key(value, token)
        token, score = following, another
        at += step
        gpu.syncthreads()
        found = int(named[1])
        gpu.syncthreads()
        if found > 64 or at >= size:  # keep the best in their order
            k = me
            while k < found:
                best[p.count_larger(keys, found, keys[k])] = keys[k]
                k += threads
            gpu.syncthreads()
            found = min(found, limit)
            if found == limit:
                bar = max(bar, p.value_of_key(best[limit - 1]))
            k = me
            while k < found:
                keys[k] = best[k]
                k += threads
            if me == 0:
                named[1] = found
            gpu.syncthreads()
    k = me
    while k < found:
        out[listed + k] = best[k]
        k += threads
    if me == 0:
        out[count] = found if good else -1 - r
    return limit, own


def cuda(scores: Scores, out: Integers, work: RowWork, limits: Limits, wanted: Wanted, width: int) -> None:
    """All rows, a block for each two chunks, of which the last one of a row has some groups for each thread."""
    rows = scores.running.size
    counters, by_beams, _, _, of_rows, places, counts, rest = work
    largest = p.natural(gpu.shared.array(256, scores.items.dtype))
    sums = p.natural(gpu.shared.array(256, scores.items.dtype))
    keys = p.natural(gpu.shared.array(256, out.dtype))
    best = p.natural(gpu.shared.array(256, out.dtype))
    named = p.natural(gpu.shared.array(256, np.int32))  # four numbers, and then the groups
    begin, end, most = wanted
    threads = gpu.blockDim.x
    chunks: Any = np.int64(np.uint32(width + threads * 32 - 1) // np.uint32(threads * 32))
    pairs = (chunks + 1) >> 1
    for u in range(gpu.blockIdx.x, rows * pairs, gpu.gridDim.x):
        r: Any = np.int64(np.uint32(u) // np.uint32(pairs))  # a quarter of the time that numbers of 64 bits take
        groups = rest + r * chunks * threads
        chunk = 2 * (u - r * pairs)
        put_groups(scores, out, limits, r, (chunk, min(chunk + 2, chunks)), groups, width)
        for b in range(gpu.threadIdx.x if u == 0 and by_beams != 0 else begin.size, begin.size, threads):
            if begin[b] >= end[b]:
                out[b] = 0
        whole = p.came_last(counters, r, pairs, named)
        if whole:
            room = largest, sums, keys, best, named
            of_row = places, of_rows + r * places, counts + r, groups, chunks * threads
            limit, own = choose_of_row(scores, out, limits, wanted, room, r, of_row, width)
            first, last, to = r, r + 1, r
            if by_beams != 0 and own >= 0:
                first, last, to, limit = begin[own], end[own], own, most[own]
            merges = p.came_last(counters, rows + own, last - first, named) and (by_beams == 0 or own >= 0)
            if merges:
                p.merge_rows(work, out, keys, named, (first, last, 0), limit, to, width)


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "scores", p.alike(("f4",), 5))
