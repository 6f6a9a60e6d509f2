"""Columns of a sequence in CUDA kernels: items, some at a time, sums, sums of powers, and slopes.

As in `device`, what is special to CUDA is put among the globals before a function is compiled, see `gpu`.
"""

import math
from typing import Any

from ...layout import SHORT
from .code import Item
from .common import Columns, is_better, item_at
from .names import (
    better,
    exp,
    gpu,
    greater,
    is_above,
    item_in,
    number_in,
    quick_exp,
    size_of,
    where_above,
    wide,
    zero_in,
)
from .options import plain_on_cuda
from .record import Array

LARGEST = 3.4028234663852886e38
"""The largest float32."""


@plain_on_cuda
def tree_sum(parts: Array, place: int) -> None:
    """Add up the parts of each column of threads, in pairs, into its first one; all threads of the block come here.

    A part is what a thread adds up of every so many rows: eight at a time, and these sums in float64 where they are
    float32.  How many threads a column has depends on the width alone, so the order depends on the sequence alone.  Of
    positive float32 the sum is wrong by at most 15 / 2**24: 7 additions of eight rows, a rounding, 7 pairs.
    """
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half:
            parts[place] += parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


@plain_on_cuda
def tree_max(parts: Array, place: int) -> None:
    """Find the largest part in a tree."""
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half and is_better(parts[place + half * gpu.blockDim.x], parts[place], 0):
            parts[place] = parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


@plain_on_cuda
def share_of(length: int) -> Any:
    """The first row of a column that is this thread's, and how far to the next; one thread has all of a short one.

    So the result of a short sequence is the same where a thread has a column and no other thread is asked.
    """
    by = gpu.blockDim.y if length > SHORT else 1
    return gpu.threadIdx.y if gpu.threadIdx.y < by else length, by


@plain_on_cuda
def some_of(x: Array, columns: Columns, t: int, by: int, none: Item) -> Any:
    """Load what `four_of` does, `none` where there are fewer; there is one."""
    if t + 3 * by < columns.length:
        return four_of(x, columns, t, by)
    b = c = none
    if t + by < columns.length:
        b = x[item_at(columns, t + by)]
    if t + 2 * by < columns.length:
        c = x[item_at(columns, t + 2 * by)]
    return x[item_at(columns, t)], b, c, none


@plain_on_cuda
def eight_of(x: Array, columns: Columns, t: int, by: int, none: Item) -> Any:
    """Load eight items, all on their way at a time."""
    a, b, c, d = some_of(x, columns, t, by, none)
    e = f = g = h = none
    if t + 4 * by < columns.length:
        e, f, g, h = some_of(x, columns, t + 4 * by, by, none)
    return a, b, c, d, e, f, g, h


@plain_on_cuda
def has_one(x: Array) -> bool:
    """Tell whether an item is one column, so that a thread has registers for sixteen rows.  The compiler knows."""
    return size_of(x) < 16


@plain_on_cuda
def eight_ahead(x: Array, columns: Columns, t: int, by: int, none: Item) -> Any:
    """Load eight where a thread has one column, or `none` behind its end: on their way while others are used.

    A GPU that has few columns waits for memory.  Where a thread has four it has others, and no registers for more.
    """
    if has_one(x) and t < columns.length:
        return eight_of(x, columns, t, by, none)
    return none, none, none, none, none, none, none, none


@plain_on_cuda
def four_of(x: Array, columns: Columns, t: int, by: int) -> Any:
    """Item t of a column and the next three, each `by` items after the one before, all on their way at a time."""
    place = item_at(columns, t)
    if columns.step == 0:
        b, c = x[item_at(columns, t + by)], x[item_at(columns, t + 2 * by)]
        return x[place], b, c, x[item_at(columns, t + 3 * by)]
    far = by * (columns.step * columns.width)  # the same for every four of a column
    b, c = x[place + far], x[place + 2 * far]
    return x[place], b, c, x[place + 3 * far]


@plain_on_cuda
def put_four(out: Array, columns: Columns, t: int, by: int, four: tuple[Item, Item, Item, Item]) -> None:
    """Write items to where `four_of` reads."""
    place = item_at(columns, t)
    if columns.step == 0:
        out[place] = four[0]
        out[item_at(columns, t + by)] = four[1]
        out[item_at(columns, t + 2 * by)] = four[2]
        out[item_at(columns, t + 3 * by)] = four[3]
        return
    far = by * (columns.step * columns.width)
    out[place] = four[0]
    out[place + far] = four[1]
    out[place + 2 * far] = four[2]
    out[place + 3 * far] = four[3]


@plain_on_cuda
def put_some(out: Array, columns: Columns, t: int, by: int, some: tuple[Item, Item, Item, Item]) -> None:
    """Write items to where `some_of` reads, as many as there are."""
    if t + 3 * by < columns.length:
        put_four(out, columns, t, by, some)
        return
    a, b, c, _ = some
    out[item_at(columns, t)] = a
    if t + by < columns.length:
        out[item_at(columns, t + by)] = b
    if t + 2 * by < columns.length:
        out[item_at(columns, t + 2 * by)] = c


@plain_on_cuda
def eight_at(x: Array, columns: Columns, t: int, by: int) -> Any:
    """Load eight items as `four_of` loads four."""
    a, b, c, d = four_of(x, columns, t, by)
    e, f, g, h = four_of(x, columns, t + 4 * by, by)
    return a, b, c, d, e, f, g, h


@plain_on_cuda
def four_along(x: Array, columns: Columns, place: int, by: int) -> Any:
    """Four items of a column one after the other, forwards or, where `by` is -1, backwards."""
    a, b = x[item_at(columns, place)], x[item_at(columns, place + by)]
    return a, b, x[item_at(columns, place + 2 * by)], x[item_at(columns, place + 3 * by)]


@plain_on_cuda
def sums_along(
    out: Array, columns: Columns, place: int, by: int, total: Item, four: tuple[Item, Item, Item, Item]
) -> Any:
    """Write a sum with each of four items more to where `four_along` reads them; the sum with all of them."""
    a, b, c, d = four
    total += a
    out[item_at(columns, place)] = item_in(out, total)
    total += b
    out[item_at(columns, place + by)] = item_in(out, total)
    total += c
    out[item_at(columns, place + 2 * by)] = item_in(out, total)
    total += d
    out[item_at(columns, place + 3 * by)] = item_in(out, total)
    return total


@plain_on_cuda
def eight_from(x: Array, place: int, by: int) -> Any:
    """``x[place]`` and seven more, each `by` items after the one before, all on their way at a time."""
    a, b, c, d = x[place], x[place + by], x[place + 2 * by], x[place + 3 * by]
    place += 4 * by
    e, f, g, h = x[place], x[place + by], x[place + 2 * by], x[place + 3 * by]
    return a, b, c, d, e, f, g, h


@plain_on_cuda
def column_sum(x: Array, parts: Array, k: int, columns: Columns) -> Any:
    """The sum of column k of a sequence, by the rule of `sums`, in float64 where it is float32.

    All threads of the block come here, and all of a column get the sum.  Each adds up four rows, and leaves the sum in
    `parts`, in whose dtype it is, while its next four are on their way; then each adds these sums in their order.
    """
    none = parts.dtype.type(0)
    total, blocks, chunks, taken = none, wide(none), wide(none), 0
    fours = columns.length >> 2
    across, down = gpu.blockDim.x, gpu.blockDim.y
    own = gpu.threadIdx.y
    following = (zero_in(x), zero_in(x), zero_in(x), zero_in(x))
    if own < fours and k < columns.width:
        following = four_of(x, columns, 4 * own, 1)
    while taken < fours:
        part = none
        if own < fours and k < columns.width:
            a, b, c, d = following
            part = ((item_in(parts, a) + b) + c) + d
            if own + down < fours:
                following = four_of(x, columns, 4 * (own + down), 1)
        parts[gpu.threadIdx.y * across + gpu.threadIdx.x] = part
        if down != 1:
            gpu.syncthreads()
        place = gpu.threadIdx.x
        while place < across * down and taken < fours:
            total += parts[place]
            taken += 1
            if taken & 7 == 0:
                blocks += wide(total)
                total = none
                if taken & 255 == 0:
                    chunks += blocks
                    blocks = wide(none)
            place += across
        if down != 1:
            gpu.syncthreads()  # before the memory is used again
        own += down
    t = 4 * fours
    while t < columns.length and k < columns.width:
        total += x[item_at(columns, t)]
        t += 1
    return chunks + (blocks + wide(total))


@plain_on_cuda
def with_fours(out: Array, total: Item, eight: Any) -> Any:
    """A sum with the sums of four items more, and four others."""
    a, b, c, d, e, f, g, h = eight
    total += ((item_in(out, a) + b) + c) + d
    return total + (((item_in(out, e) + f) + g) + h)


@plain_on_cuda
def short_sum(x: Array, out: Array, columns: Columns) -> Any:
    """Sum a short column, which one thread has, in the dtype of `out` or wider."""
    none = zero_in(out)
    total, blocks = none, wide(none)
    t = 0
    while t + 8 <= columns.length:
        stop = min(t + 32, columns.length & -8)
        while has_one(x) and t + 16 <= stop:
            eight, more = eight_at(x, columns, t, 1), eight_at(x, columns, t + 8, 1)
            total = with_fours(out, with_fours(out, total, eight), more)
            t += 16
        while t < stop:
            total = with_fours(out, total, eight_at(x, columns, t, 1))
            t += 8
        if t & 31 == 0:
            blocks += wide(total)
            total = none
    if t < columns.length:
        a, b, c, d, e, f, g, _ = eight_of(x, columns, t, 1, zero_in(x))
        if t + 4 <= columns.length:
            total += ((item_in(out, a) + b) + c) + d
            a, b, c = e, f, g
            t += 4
        if t < columns.length:
            total += a
        if t + 1 < columns.length:
            total += b
        if t + 2 < columns.length:
            total += c
    return wide(none) + (blocks + wide(total))


@plain_on_cuda
def put_total(out: Array, place: int, total: Item, length: int, mode: int) -> None:
    """A sum of so many rows as it is, divided by their number, or by the root of it; see `sum_rows`."""
    total = item_in(out, total)
    if mode == 0 or length == 0:  # not one expression with the rest: integers would pass through float64
        out[place] = total
    elif mode == 1:
        out[place] = total / number_in(out, length)  # an integer would divide in float64
    else:
        out[place] = total / number_in(out, math.sqrt(length))


@plain_on_cuda
def rescaling(x: Array, old: Item, new: Item) -> Any:
    """``exp(old - new)``, by which powers beside one number become those beside another, which is not less.

    It is never 0, since 0 times an infinite sum would be NaN; what is multiplied by e**-80 no longer counts.
    """
    return exp(better(old - new, zero_in(x) - number_in(x, 80), 0))


@plain_on_cuda
def with_powers(x: Array, top: Item, blocks: Item, eight: Any) -> Any:
    """Update what `powers_of` knows with eight items more."""
    none, one = zero_in(x), number_in(x, 1)
    infinity = none + number_in(x, math.inf)
    a, b, c, d, e, f, g, h = eight
    best = greater(greater(greater(a, b), greater(c, d)), greater(greater(e, f), greater(g, h)))
    best = where_above(infinity, best, best, top)
    best = where_above(best, top + one, best, top)
    total = none
    if is_above(best, top):
        total = where_above(best, top, item_in(x, blocks) * rescaling(x, top, best), none)
        blocks = where_above(best, top, wide(none), blocks)
        top = best
    total += quick_exp(a - top)
    total += quick_exp(b - top)
    total += quick_exp(c - top)
    total += quick_exp(d - top)
    total += quick_exp(e - top)
    total += quick_exp(f - top)
    total += quick_exp(g - top)
    total += quick_exp(h - top)
    return top, blocks + wide(total)


@plain_on_cuda
def powers_of(x: Array, columns: Columns, t: int, by: int) -> Any:
    """A number near the largest of every so many items of a column from t on, and the sum of ``exp(item - number)``.

    The items are read once (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).  Another number
    is taken only where an item is more than 1 above it: so no power is above e, and what is multiplied anew has become
    less than half of what is added, so that roundings do not pile up.

    Of -inf alone, or nothing, the number is the lowest finite one, and the sum 0.  Where +inf is among the items the
    sum is infinite.
    """
    none = zero_in(x)
    infinity = none + number_in(x, math.inf)
    top, blocks = none - number_in(x, 1.7976931348623157e308 if size_of(x) == 8 else LARGEST), wide(none)
    eight = eight_ahead(x, columns, t, by, none - infinity)
    while t < columns.length:
        if not has_one(x):
            eight = eight_of(x, columns, t, by, none - infinity)
        t += 8 * by
        more = eight_ahead(x, columns, t, by, none - infinity)
        top, blocks = with_powers(x, top, blocks, eight)
        if has_one(x) and t < columns.length:
            t += 8 * by
            eight = eight_ahead(x, columns, t, by, none - infinity)
            top, blocks = with_powers(x, top, blocks, more)
    return top, item_in(x, blocks)


@plain_on_cuda
def column_powers(x: Array, parts: Array, place: int, k: int, columns: Columns) -> Any:
    """A number near the largest item of column k of a sequence, and the sum of ``exp(item - number)``; see `powers_of`.

    The threads of a column share its items, all threads of the block come here, and `place` in `parts` is the thread's
    own; see `tree_sum` for the order.
    """
    t, by = share_of(columns.length)
    top, total = powers_of(x, columns, t if k < columns.width else columns.length, by)
    parts[place] = top
    tree_max(parts, place)
    best = parts[gpu.threadIdx.x]
    gpu.syncthreads()  # before the memory is used again
    parts[place] = total * rescaling(x, top, best)
    tree_sum(parts, place)
    total = parts[gpu.threadIdx.x]
    gpu.syncthreads()
    return best, total


@plain_on_cuda
def slopes_of(x: Array, y: Array, columns: Columns, t: int, by: int, log: int) -> Any:
    """The sum of ``x * y`` over every so many items of a column from t on, or of `x` where `log` is 1."""
    none = zero_in(x)
    blocks = wide(none)
    while t + 7 * by < columns.length:
        a, b, c, d = four_of(x, columns, t, by)
        e, f, g, h = four_of(x, columns, t + 4 * by, by)
        if not log:
            i, j, k, m = four_of(y, columns, t, by)
            a, b, c, d = a * i, b * j, c * k, d * m
            i, j, k, m = four_of(y, columns, t + 4 * by, by)
            e, f, g, h = e * i, f * j, g * k, h * m
        blocks += wide((((((((none + a) + b) + c) + d) + e) + f) + g) + h)
        t += 8 * by
    total = none
    while t < columns.length:
        a, b, c, d = some_of(x, columns, t, by, none)
        if not log:
            e, f, g, h = some_of(y, columns, t, by, none)
            a, b, c, d = a * e, b * f, c * g, d * h
        total = (((total + a) + b) + c) + d
        t += 4 * by
    return item_in(x, blocks + wide(total))


@plain_on_cuda
def column_slopes(x: Array, y: Array, parts: Array, place: int, k: int, columns: Columns, log: int) -> Any:
    """The sum of ``x * y`` over column k of a sequence, or of `x` where `log` is 1; see `tree_sum` for the order.

    All threads of the block come here; `place` in `parts` is the thread's own.
    """
    t, by = share_of(columns.length)
    parts[place] = slopes_of(x, y, columns, t if k < columns.width else columns.length, by, log)
    tree_sum(parts, place)
    total = parts[gpu.threadIdx.x]
    gpu.syncthreads()  # before the memory is used again
    return total


@plain_on_cuda
def softmax_slope(slope: Item, item: Item, total: Item, log: int) -> Any:
    """The gradient of softmax at one item of its result, or of its logarithm; `total` is that of `column_slopes`."""
    return slope - exp(item) * total if log else item * (slope - total)


@plain_on_cuda
def mean_of_first(tops: Array, out: Array, begin: int, width: int, k: int, length: int) -> Any:
    """The sum of the first k items, or as many as there are, of a column that begins at ``tops[begin]``, by k."""
    total = out.dtype.type(0)
    blocks = wide(total)
    for a in range(min(k, length)):
        total += tops[begin + a * width]
        if a & 7 == 7:
            blocks += wide(total)
            total = out.dtype.type(0)
    return out.dtype.type(blocks + wide(total)) / out.dtype.type(k)


@plain_on_cuda
def frame_powers(x: Array, begin: int, width: int, top: Item) -> Any:
    """The sum of ``exp(x[begin:begin + width] - top)``, by 8 and these in float64."""
    none = x.dtype.type(0)
    total = wide(none)
    for k in range(0, width, 8):
        few = none
        for j in range(k, min(k + 8, width)):
            few += exp(x[begin + j] - top)
        total += wide(few)
    return x.dtype.type(total)


SHARED = {
    function.__name__: function
    for function in (
        share_of,
        some_of,
        eight_of,
        has_one,
        eight_ahead,
        put_four,
        put_some,
        tree_sum,
        tree_max,
        four_of,
        eight_at,
        four_along,
        sums_along,
        eight_from,
        column_sum,
        with_fours,
        short_sum,
        put_total,
        rescaling,
        with_powers,
        powers_of,
        column_powers,
        slopes_of,
        column_slopes,
        softmax_slope,
        frame_powers,
        mean_of_first,
    )
}
