"""The means of the largest items of every sequence, column by column: the sum of the k largest, by k, for several k.

`x` holds the sequences in any layout, see `locate` for the arguments; ``ks (q,)`` with the largest `most`;
``out (n * q * width,)``; ``tops`` and ``places (n * most * width,)``: the largest items, falling, of equal ones the
first, and their places in the sequence, -1 where it is too short.  NaN is beyond every number.  Where `needed` is 0
nobody will read these two, and on the CPU sequences share what little of them is written.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import (
    add_block,
    along,
    at_most,
    beyond,
    choose,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    each,
    in_any,
    in_lanes,
    load,
    locate,
    pointer,
    room,
    rounded,
    shared,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, wide


@shared
def topk_column(
    x: Any,
    out: Any,
    tops: Any,
    places: Any,
    steps: Any,
    ks: Any,
    width: int,
    step: int,
    most: int,
    i: int,
    first: int,
    length: int,
    k: int,
) -> None:
    """Column k of sequence i."""
    begin = i * most * width + k
    for a in range(most):
        tops[begin + a * width] = 0
        places[begin + a * width] = -1
    for t in range(length):
        value = x[(first + along(t, steps, step)) * width + k]
        a = at_most(t, most)  # so many are there; it goes before those that it is beyond
        if a == most and not beyond(value, tops[begin + (a - 1) * width], 0):
            continue
        if a == most:
            a -= 1
        while a > 0 and beyond(value, tops[begin + (a - 1) * width], 0):
            tops[begin + a * width] = tops[begin + (a - 1) * width]
            places[begin + a * width] = places[begin + (a - 1) * width]
            a -= 1
        tops[begin + a * width] = value
        places[begin + a * width] = t
    for q in range(ks.size):
        d = (i * ks.size + q) * width + k
        found = at_most(ks[q], length)
        total = out.dtype.type(0)
        blocks = wide(total)
        for a in range(found):
            total += tops[begin + a * width]
            if a & 7 == 7:
                blocks += wide(total)
                total = out.dtype.type(0)
        total = out.dtype.type(blocks + wide(total))
        out[d] = total / out.dtype.type(ks[q])


@in_lanes
def insert(
    x: Any,
    tops: Any,
    places: Any,
    p: int,
    top: int,
    steps: Any,
    width: int,
    length: int,
    step: int,
    most: int,
    needed: int,
    one: int,
    count: int,
) -> None:
    """Some columns of a sequence, of which item 0 is at p, into ``tops[top:]`` and ``places[top:]``."""
    t = 0
    while t < length:
        value = load(x, p + along(t, steps, step) * width, count, x)
        place = each(places, t, count)
        at, end = top, top + at_most(t, most) * width
        if t >= most:
            least = load(tops, end - width, count, x)
            if not in_any((value > least) | ((value != value) & (least == least))):
                at = end
        # from the place where it is larger, everything moves one down
        moved = value != value
        moved = moved & (value == value)
        while at < end:
            best = load(tops, at, count, x)
            moved = moved | (value > best) | ((value != value) & (best == best))
            store(tops, at, choose(moved, value, best))
            value = choose(moved, best, value)
            if needed != 0:
                other = load(places, at, count, places)
                store(places, at, choose(moved, place, other))
                place = choose(moved, other, place)
            at += width * one
        if t < most:
            store(tops, end, value)
            if needed != 0:
                store(places, end, place)
        t += one


@in_lanes
def mean(
    tops: Any, out: Any, blocks: Any, top: int, at: int, width: int, k: int, found: int, one: int, count: int
) -> None:
    """The sum of the first `found` items of some columns of ``tops[top:]``, by k, to ``out[at:]``."""
    total = each(out, 0.0, count)
    a = 0
    end = at_most(found, 8)
    while True:
        while a < end:
            total = total + load(tops, top + a * width, count, out)
            a += one
        if end == found:
            break
        add_block(blocks, total, end == 8)
        total = each(out, 0.0, count)
        end = at_most(end + 8, found)
    if found > 8:
        total = rounded(blocks, total)
    store(out, at, total / each(out, float(k), count))


@compiled
def cpu(
    x: Any,
    out: Any,
    tops: Any,
    places: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    ks: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    most: int,
    needed: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    rows, means, best, where = pointer(x), pointer(out), pointer(tops), pointer(places)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one, count, blocks = unknown(1), columns_at_once(width), room(means)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        begin = (i if needed else lo) * most * width
        for p in range(begin + at_most(length, most) * width, begin + most * width):
            tops[p] = 0
            places[p] = -1
        k = 0
        while k < width:
            k = at_most(k, width - count)
            p, top = first * width + k, begin + k
            if count == 32:
                insert(rows, best, where, p, top, steps, width, length, step, most, needed, one, 32)
            elif count == 4:
                insert(rows, best, where, p, top, steps, width, length, step, most, needed, one, 4)
            else:
                insert(rows, best, where, p, top, steps, width, length, step, most, needed, one, 1)
            for q in range(ks.size):
                at, found = (i * ks.size + q) * width + k, at_most(ks[q], length)
                if count == 32:
                    mean(best, means, blocks, top, at, width, ks[q], found, one, 32)
                elif count == 4:
                    mean(best, means, blocks, top, at, width, ks[q], found, one, 4)
                else:
                    mean(best, means, blocks, top, at, width, ks[q], found, one, 1)
            k += count


@compiled_for_cuda(over="units")
def cuda(
    x: Any,
    out: Any,
    tops: Any,
    places: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    ks: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    most: int,
    needed: int,  # noqa: ARG001  all of them are
) -> None:
    """All units, a thread a column of each."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            topk_column(x, out, tops, places, steps, ks, width, step, most, i, first, length, k)
            k += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y
