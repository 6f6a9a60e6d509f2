"""The best candidates of beam search, from the scores of all tokens, in one pass over them.

``x (rows * width,)`` float32 has the scores of every token behind each row, ``running (rows,)`` the score so far.
A row is turned into log-probabilities, ``(x - max) - log(sum(exp(x - max)))``, unless it has them already, `form`
being 1.  A candidate is worth that plus `running`; see `_kernel.put` for the order.

``allowed[allowed_from[r]:allowed_to[r]]``, which rise, are the only tokens that may follow row r, unless
``allowed_from[r]`` is -1 or there are no such arrays.  The tokens of ``edited[edited_at[r]:edited_at[r + 1]]``, which
rise too, have their log-probability multiplied by `factors` (divided, where it is above zero) and increased by
`addends`, where `edited_at` is not empty.  Where `form` is 2, all this happens to the scores, before they become
log-probabilities of what may follow.

Lane l has the rows ``begin[l]`` to ``end[l]`` and wants the ``most[l]`` best: they come to the places ``l * room`` on
of ``values`` and ``ids``, best first, and ``counts[l]`` says how many; an id is ``row * width + token``.  Where `apart`
is 1, every row has such a list of its own.  A row that holds NaN or +inf makes its count ``-1 - row``.

``blocks (rows * ceil(width / 128),)`` is room for the work.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import compiled, compiled_for_cuda, edit, exp, limited, place_of, powers_of_row, put

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, ln


@compiled
def cpu(
    x: Any,
    running: Any,
    factors: Any,
    addends: Any,
    values: Any,
    ids: Any,
    counts: Any,
    blocks: Any,
    begin: Any,
    end: Any,
    most: Any,
    allowed_from: Any,
    allowed_to: Any,
    allowed: Any,
    edited_at: Any,
    edited: Any,
    width: int,
    room: int,
    form: int,
    apart: int,
    lo: int,
    hi: int,
) -> None:
    """Lanes `lo` to `hi`."""
    per_row = (width + 127) // 128
    none = np.float32(-np.inf)
    for lane in range(lo, hi):
        limit = most[lane]
        found = 0
        start = lane * room
        for r in range(begin[lane], end[lane]):
            if apart:
                found = 0
                start = r * room
            row = x[r * width : (r + 1) * width]
            maxima = blocks[r * per_row : (r + 1) * per_row]
            top, total = powers_of_row(row, maxima)
            if not total < np.inf:
                found = -1 - r
                if apart:
                    counts[r] = found
                    continue
                break
            first = edited_at[r] if edited_at.size else 0
            last = edited_at[r + 1] if edited_at.size else 0
            chosen = allowed_from.size != 0 and allowed_from[r] >= 0
            if form == 2 and (chosen or first < last):
                top = none
                for token in range(width):
                    value = limited(
                        row[token], token, r, factors, addends, allowed_from, allowed_to, allowed, edited_at, edited
                    )
                    top = max(top, value)
                total = np.float32(0)
                for token in range(width):
                    value = limited(
                        row[token], token, r, factors, addends, allowed_from, allowed_to, allowed, edited_at, edited
                    )
                    if value > none:
                        total += exp(value - top)
            log = np.float32(np.log(total))
            if form == 1:
                top = np.float32(0)
                log = np.float32(0)
            score = running[r]
            if chosen:
                for j in range(allowed_from[r], allowed_to[r]):
                    token = allowed[j]
                    if first == last or place_of(edited, first, last, token) < 0:
                        value = ((row[token] - top) - log) + score
                        found = put(values, ids, start, found, limit, value, r * width + token)
            else:
                least = values[start + limit - 1] if found == limit else none
                for b in range(per_row):
                    if not ((maxima[b] - top) - log) + score > least:
                        continue
                    for token in range(b * 128, min(b * 128 + 128, width)):
                        value = ((row[token] - top) - log) + score
                        if value > least and (first == last or place_of(edited, first, last, token) < 0):
                            found = put(values, ids, start, found, limit, value, r * width + token)
                            least = values[start + limit - 1] if found == limit else none
            for e in range(first, last):
                token = edited[e]
                if not chosen or place_of(allowed, allowed_from[r], allowed_to[r], token) >= 0:
                    if form == 2:
                        value = ((edit(row[token], factors[e], addends[e]) - top) - log) + score
                    else:
                        value = edit((row[token] - top) - log, factors[e], addends[e]) + score
                    found = put(values, ids, start, found, limit, value, r * width + token)
            if apart:
                counts[r] = found
        if not apart:
            counts[lane] = found


@compiled_for_cuda(over="blocks")
def cuda(
    x: Any,
    running: Any,
    factors: Any,
    addends: Any,
    values: Any,
    ids: Any,
    counts: Any,
    blocks: Any,  # noqa: ARG001  shared memory is room enough
    begin: Any,  # noqa: ARG001  rows apart need no lanes
    end: Any,  # noqa: ARG001
    most: Any,  # noqa: ARG001  each row keeps as many as there is room for
    allowed_from: Any,
    allowed_to: Any,
    allowed: Any,
    edited_at: Any,
    edited: Any,
    width: int,
    room: int,
    form: int,
    apart: int,  # noqa: ARG001  they always are
) -> None:
    """All rows, a block each.  Each thread has its best candidate ready; the best of all is taken, `room` times."""
    best = gpu.shared.array(128, x.dtype)
    place = gpu.shared.array(128, ids.dtype)
    me = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    threads = gpu.blockDim.x * gpu.blockDim.y
    r = gpu.blockIdx.x
    while r < counts.size:
        begin_of = r * width
        top = x.dtype.type(-math.inf)
        wrong = 0
        k = me
        while k < width:
            value = x[begin_of + k]
            if value != value or value == math.inf:
                wrong = 1
            if form == 2:
                value = limited(value, k, r, factors, addends, allowed_from, allowed_to, allowed, edited_at, edited)
            if value > top:
                top = value
            k += threads
        best[me] = top
        place[me] = wrong
        gpu.syncthreads()
        half = threads >> 1
        while half > 0:
            if me < half:
                if best[me + half] > best[me]:
                    best[me] = best[me + half]
                place[me] |= place[me + half]
            gpu.syncthreads()
            half >>= 1
        top = best[0]
        wrong = place[0]
        gpu.syncthreads()
        log = x.dtype.type(0)
        if form == 1 or math.isinf(top):
            top = x.dtype.type(0)
        if form != 1:
            total = x.dtype.type(0)
            k = me
            while k < width:
                value = x[begin_of + k]
                if form == 2:
                    value = limited(value, k, r, factors, addends, allowed_from, allowed_to, allowed, edited_at, edited)
                total += exp(value - top)
                k += threads
            best[me] = total
            gpu.syncthreads()
            half = threads >> 1
            while half > 0:
                if me < half:
                    best[me] += best[me + half]
                gpu.syncthreads()
                half >>= 1
            log = ln(best[0])
            gpu.syncthreads()
        found = 0
        last = x.dtype.type(math.inf)
        taken = -1
        look = 1  # has this thread to look for its next best?
        turn = 0 if wrong == 0 else room
        while turn < room:
            if look == 1:
                best[me] = x.dtype.type(-math.inf)
                place[me] = width
                k = me
                while k < width:
                    value = x[begin_of + k]
                    if form != 2:
                        value = (value - top) - log
                    value = limited(value, k, r, factors, addends, allowed_from, allowed_to, allowed, edited_at, edited)
                    if form == 2:
                        value = (value - top) - log
                    value += running[r]
                    if value > best[me] and (value < last or (value == last and k > taken)):
                        best[me] = value
                        place[me] = k
                    k += threads
            mine = best[me]
            own = place[me]
            gpu.syncthreads()
            half = threads >> 1
            while half > 0:
                if me < half:
                    other = me + half
                    if best[other] > best[me] or (best[other] == best[me] and place[other] < place[me]):
                        best[me] = best[other]
                        place[me] = place[other]
                gpu.syncthreads()
                half >>= 1
            last = best[0]
            taken = place[0]
            gpu.syncthreads()
            best[me] = mine
            place[me] = own
            look = 1 if own == taken else 0
            if taken == width:
                turn = room
            else:
                if me == 0:
                    values[r * room + found] = last
                    ids[r * room + found] = begin_of + taken
                found += 1
                turn += 1
        if me == 0:
            counts[r] = found if wrong == 0 else -1 - r
        gpu.syncthreads()
        r += gpu.gridDim.x
