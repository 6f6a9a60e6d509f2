"""The best candidates of every row of scores on a GPU, from what `group_scores` has found of its groups.

They are those of `best_tokens`, in its order, and a row that holds NaN or +inf makes the count ``-1 - row``.  No tokens
are apart, and limits act on scores, if any; ``blocks`` are the groups.

So many threads, or four threads each, as candidates are wanted have groups whose best are the best of all.  Candidates
are only in groups whose best is not below the last one of these, and only their scores are read again.
There are at most 64 of a row.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..beam.rows import Limits, Lists, Scores, Wanted
from .parts import (
    CALCULATES,
    Integers,
    KernelSpec,
    alike,
    candidate_value,
    compiled,
    exp,
    in_order,
    keep,
    least_kept,
    shared,
    worth,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import float_of, gpu, ln, natural
    from .parts.keys import added_group, candidate_key, ranked, token_of_key, tree_powers, value_of_key


@compiled
def cpu(
    scores: Scores, out: Lists, blocks: Integers, limits: Limits, wanted: Wanted, width: int, lo: int, hi: int
) -> None:
    """Rows `lo` to `hi`; every score is read again."""
    running, form = scores.running, scores.form
    values, ids, counts, places = out
    groups = blocks.size // running.size
    none = np.float32(-np.inf)
    for r in range(lo, hi):
        limit = 0
        for b in range(wanted.begin.size):
            if wanted.begin[b] <= r and r < wanted.end[b]:
                limit = min(wanted.most[b], places)
        top, total = none, np.float32(0)
        for g in range(r * groups, (r + 1) * groups):
            top = max(top, np.int32(blocks[g] >> 32).view(np.float32))
        for g in range(r * groups, (r + 1) * groups):
            high = np.int32(blocks[g] >> 32).view(np.float32)
            more = np.int32(blocks[g] & 0x7FFFFFFF).view(np.float32)
            total += more * exp(high - top) if high > none else more
        counts[r] = 0
        if limit > 0 and not total < np.inf:
            counts[r] = -1 - r
        elif limit > 0:
            bare = form == 1 or top == none
            log = (np.float32(0) if bare else top, np.float32(0) if bare else np.float32(np.log(total)))
            found, low = 0, none
            for token in range(width):
                value = candidate_value(scores, token, r, width, log, limits)
                if value >= low and value > none:
                    found = keep(values, ids, r * places, found, limit, value, r * width + token)
                    low = least_kept(values, r * places, limit) if found == limit else low
            in_order(values, ids, r * places, found, limit)
            counts[r] = found


@shared
def token_in(named: Integers, hot: int, k: int, size: int, width: int) -> Any:
    """The k-th of `size` tokens of the named groups, or of all if these are too many; `width` where there is none."""
    if k >= size:
        return width
    threads = gpu.blockDim.x
    g = named[2 + (k >> 5)] if hot <= 254 else k >> 5
    chunk = int(np.uint32(g) // np.uint32(threads))
    return min((chunk * 32 + (k & 31)) * threads + (g - chunk * threads), width)


def cuda(scores: Scores, out: Lists, blocks: Integers, limits: Limits, wanted: Wanted, width: int) -> None:
    """All rows, a block each, of whose threads each has some groups.

    Each names those of its groups that may have a candidate; then all look at the scores of the named ones, up to 192
    at a time, since keys of so many and of the 64 best so far have room.
    """
    x, running, form = scores
    values, ids, counts, places = out
    begin, end, most = wanted
    rows = running.size
    groups = blocks.size // rows
    largest = natural(gpu.shared.array(256, x.dtype))
    sums = natural(gpu.shared.array(256, x.dtype))
    keys = natural(gpu.shared.array(256, ids.dtype))
    best = natural(gpu.shared.array(256, ids.dtype))
    named = natural(gpu.shared.array(256, ids.dtype))  # how many groups, how many keys, and then the groups
    me = gpu.threadIdx.x
    threads = gpu.blockDim.x
    infinite = x.dtype.type(math.inf)
    if me == 0:
        named[2] = 0
    gpu.syncthreads()
    r = gpu.blockIdx.x
    while r < rows:
        b = me  # what is read of the row is on its way before the next barrier
        while b < begin.size:
            if begin[b] <= r and r < end[b]:
                named[2] = most[b]
            b += threads
        first = r * groups
        row = r * width
        before = running[r]
        top = -infinite
        total = x.dtype.type(0)
        g = me
        while g + 3 * threads < groups:
            i, j = blocks[first + g], blocks[first + g + threads]
            k, m = blocks[first + g + 2 * threads], blocks[first + g + 3 * threads]
            top, total = added_group(top, total, i)
            top, total = added_group(top, total, j)
            top, total = added_group(top, total, k)
            top, total = added_group(top, total, m)
            g += 4 * threads
        while g < groups:
            top, total = added_group(top, total, blocks[first + g])
            g += threads
        leader = top
        largest[me] = top
        sums[me] = total
        if me == 0:
            named[0] = 0
            named[1] = 0
        tree_powers(largest, sums, threads)
        top = largest[0]
        total = sums[0]
        good = total < infinite  # NaN is not
        log = x.dtype.type(0)
        if form == 1 or not top > -infinite:
            top = x.dtype.type(0)
        else:
            log = ln(total)
        log_of = (top, log)
        gpu.syncthreads()
        leader = ((leader - top) - log) + before
        sums[me] = leader
        if me == 0:
            largest[0] = -infinite
        gpu.syncthreads()
        limit = min(named[2], places)  # 0 where the row is in no beam
        good = good or limit == 0
        # each is compared with all others: where few candidates are wanted, the best of every four threads are enough
        leaders = threads if limit > 16 else threads >> 2
        if me < leaders:
            best_leader = leader
            t = me
            while t < threads:
                best_leader = max(best_leader, sums[t])
                t += leaders
            keys[me] = candidate_key(best_leader, me)
        gpu.syncthreads()
        if me < leaders and ranked(keys, leaders, keys[me]) == limit - 1:
            largest[0] = value_of_key(keys[me])
        gpu.syncthreads()
        bar = largest[0]
        g = me if good and limit > 0 and leader >= bar and leader > -infinite else groups
        while g < groups:
            if ((float_of(blocks[first + g] >> 32) - top) - log) + before >= bar:
                place = gpu.atomic.add(named, 0, 1)
                if place < 254:
                    named[2 + place] = g
            g += threads
        gpu.syncthreads()
        hot = named[0]
        size = (hot if hot <= 254 else groups) * 32
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
                value = worth(scores, score, token, r, log_of, limits)
                if value >= bar and value > -infinite:
                    keys[gpu.atomic.add(named, 1, 1)] = candidate_key(value, token)
            token, score = following, another
            at += step
            gpu.syncthreads()
            found = named[1]
            gpu.syncthreads()
            if found > 64 or at >= size:  # keep the best in their order
                k = me
                while k < found:
                    best[ranked(keys, found, keys[k])] = keys[k]
                    k += threads
                gpu.syncthreads()
                found = min(found, limit)
                if found == limit:
                    bar = max(bar, value_of_key(best[limit - 1]))
                k = me
                while k < found:
                    keys[k] = best[k]
                    k += threads
                if me == 0:
                    named[1] = found
                gpu.syncthreads()
        k = me
        while k < found:
            values[r * places + k] = value_of_key(best[k])
            ids[r * places + k] = row + token_of_key(best[k])
            k += threads
        if me == 0:
            counts[r] = found if good else -1 - r
            named[2] = 0
        gpu.syncthreads()
        r += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "scores", alike(("f4",), 6))
