"""Functions that CUDA kernels share.

As in the kernels themselves, what is special to CUDA is put among the globals before they are compiled, see `gpu`.
"""

import math
from typing import TYPE_CHECKING, Any

from ...layout import Layout
from .code import Item
from .common import Columns, along, beyond, item_at, locate
from .options import plain_on_cuda
from .record import Array, Integers

if TYPE_CHECKING:  # put among the globals before the function is compiled, by `gpu`, which imports this file
    exp: Any = None
    gpu: Any = None
    load_word: Any = None
    natural: Any = None
    search: Any = None
    store_word: Any = None
    wide: Any = None


# --- moves -----------------------------------------------------------------------------------------------------------


@plain_on_cuda
def first_of_line() -> Any:
    """The first of the four rows that a line of threads moves."""
    return (gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y) * 4


@plain_on_cuda
def word_of_line() -> Any:
    """The word of a row, or item, that is this thread's own."""
    return (gpu.blockIdx.z * gpu.gridDim.y + gpu.blockIdx.y) * gpu.blockDim.x + gpu.threadIdx.x


@plain_on_cuda
def first_column() -> Any:
    """The first column of a unit that is this thread's own."""
    return gpu.blockIdx.y * gpu.blockDim.x + gpu.threadIdx.x


@plain_on_cuda
def columns_of_grid() -> Any:
    """How many columns of a unit the grid has at a time: so many are from one of a thread's own to the next."""
    return gpu.gridDim.y * gpu.blockDim.x


@plain_on_cuda
def bounds_of(at: Layout) -> Any:
    """The rows before each run in which a layout counts rows: a sequence, or a time step."""
    return at.cum if at.step == 1 else at.steps


@plain_on_cuda
def run_on(cum: Integers, run: int, r: int) -> Any:
    """The run that holds row r, which is not before `run`."""
    while cum[natural(run + 1)] <= r:
        run += 1
    return run


@plain_on_cuda
def row_in(at: Layout, run: int, r: int) -> Any:
    """What `find` says of row r, which is in this run."""
    if at.step == 1:
        _, first, _ = locate(at, run)
        t = r - at.cum[natural(run)]
        return run, t, first + t
    first = r - at.steps[natural(run)]
    return at.starts[natural(first)], run, first + along(at, run)


@plain_on_cuda
def move_four(
    out: Array,
    src: Item,
    row: int,
    word: int,
    to: tuple[int, int, int, int],
    come: tuple[int, int, int, int],
) -> None:
    """Move four rows: from word `come` to word `to` on, all on their way at a time; `word` 1, or bytes at addresses.

    In the grid there is a thread for each word of a row.
    """
    w = word_of_line()
    if w < row:
        a = load_word(out, src, come[0] + w * word)
        b = load_word(out, src, come[1] + w * word)
        c = load_word(out, src, come[2] + w * word)
        d = load_word(out, src, come[3] + w * word)
        store_word(out, to[0] + w, a)
        store_word(out, to[1] + w, b)
        store_word(out, to[2] + w, c)
        store_word(out, to[3] + w, d)


# --- sums ------------------------------------------------------------------------------------------------------------


@plain_on_cuda
def find(at: Layout, r: int) -> Any:
    """For the r-th row that is no padding: its sequence, its place in there, and the row of the data where it lies.

    Rows are counted sequence by sequence, or step by step in a time-major layout.
    """
    if at.step == 1:
        i = search(at.cum, r)
        t = r - at.cum[i]
        _, first, _ = locate(at, i)
    else:
        t = search(at.steps, r)
        first = r - at.steps[t]
        i = at.starts[first]
    return i, t, first + along(at, t)


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
    """The same for the largest part."""
    gpu.syncthreads()
    half = gpu.blockDim.y >> 1
    while half > 0:
        if gpu.threadIdx.y < half and beyond(parts[place + half * gpu.blockDim.x], parts[place], 0):
            parts[place] = parts[place + half * gpu.blockDim.x]
        gpu.syncthreads()
        half >>= 1


@plain_on_cuda
def four_of(x: Array, columns: Columns, t: int, by: int) -> Any:
    """Item t of a column and the next three, each `by` items after the one before, all on their way at a time."""
    a = x[natural(item_at(columns, t))]
    b = x[natural(item_at(columns, t + by))]
    c = x[natural(item_at(columns, t + 2 * by))]
    d = x[natural(item_at(columns, t + 3 * by))]
    return a, b, c, d


@plain_on_cuda
def column_sum(x: Array, parts: Array, k: int, columns: Columns, lo: int, hi: int) -> Any:
    """The sum of items `lo` to `hi` of column k of a sequence, by the rule of `sums`, in float64 where it is float32.

    `lo` is a multiple of the rows of a chunk.  All threads of the block come here, and all of a column get the sum.
    Each of them adds up four rows and leaves the sum in `parts`, in whose dtype it is; then each adds these sums in
    their order.
    """
    none = parts.dtype.type(0)
    total, blocks, chunks, taken = none, wide(none), wide(none), 0
    fours = (hi - lo) >> 2
    across, down = gpu.blockDim.x, gpu.blockDim.y
    own = gpu.threadIdx.y
    while taken < fours:
        part = none
        if own < fours and k < columns.width:
            a, b, c, d = four_of(x, columns, lo + 4 * own, 1)
            part += a
            part += b
            part += c
            part += d
        parts[natural(gpu.threadIdx.y * across + gpu.threadIdx.x)] = part
        if down != 1:
            gpu.syncthreads()
        place = gpu.threadIdx.x
        while place < across * down and taken < fours:
            total += parts[natural(place)]
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
    t = lo + 4 * fours
    while t < hi and k < columns.width:
        total += x[natural(item_at(columns, t))]
        t += 1
    return chunks + (blocks + wide(total))


@plain_on_cuda
def put_total(out: Array, place: int, total: Item, length: int, mode: int) -> None:
    """A sum of so many rows as it is, divided by their number, or by the root of it; see `sum_rows`."""
    total = out.dtype.type(total)
    if mode == 0 or length == 0:  # not one expression with the rest: integers would pass through float64
        out[place] = total
    elif mode == 1:
        out[place] = total / out.dtype.type(length)  # an integer would divide in float64
    else:
        out[place] = total / out.dtype.type(math.sqrt(length))


@plain_on_cuda
def column_max(x: Array, parts: Array, place: int, k: int, columns: Columns) -> Any:
    """The largest item of column k of a sequence, 0 where it is empty; all threads of the block come here.

    The threads of a column share its items; `parts` keeps what each has found, `place` is the thread's own.
    """
    parts[place] = 0
    if columns.length != 0 and k < columns.width:
        parts[place] = x[columns.begin]
        best = parts[place]
        t = gpu.threadIdx.y
        while t + 3 * gpu.blockDim.y < columns.length:
            a, b, c, d = four_of(x, columns, t, gpu.blockDim.y)
            best = a if beyond(a, best, 0) else best
            best = b if beyond(b, best, 0) else best
            best = c if beyond(c, best, 0) else best
            best = d if beyond(d, best, 0) else best
            t += 4 * gpu.blockDim.y
        while t < columns.length:
            a = x[natural(item_at(columns, t))]
            best = a if beyond(a, best, 0) else best
            t += gpu.blockDim.y
        parts[place] = best
    tree_max(parts, place)
    top = parts[gpu.threadIdx.x]
    gpu.syncthreads()  # before the memory is used again
    return top


@plain_on_cuda
def column_powers(x: Array, parts: Array, place: int, k: int, columns: Columns, top: Item) -> Any:
    """The sum of ``exp(item - top)`` over column k of a sequence, in the same way; see `tree_sum` for the order."""
    parts[place] = 0
    total = parts[place]  # zero in the dtype of x
    blocks = wide(total)
    if k < columns.width:
        t = gpu.threadIdx.y
        taken = 0
        while t + 3 * gpu.blockDim.y < columns.length:
            a, b, c, d = four_of(x, columns, t, gpu.blockDim.y)
            total += exp(a - top)
            total += exp(b - top)
            total += exp(c - top)
            total += exp(d - top)
            t += 4 * gpu.blockDim.y
            taken += 4
            if taken & 7 == 0:
                blocks += wide(total)
                total = parts[place]
        while t < columns.length:
            total += exp(x[natural(item_at(columns, t))] - top)
            t += gpu.blockDim.y
            taken += 1
            if taken & 7 == 0:
                blocks += wide(total)
                total = parts[place]
    parts[place] = blocks + wide(total)
    tree_sum(parts, place)
    total = parts[gpu.threadIdx.x]
    gpu.syncthreads()
    return total


@plain_on_cuda
def frame_powers(x: Array, begin: int, width: int, top: Item) -> Any:
    """The sum of ``exp(x[begin:begin + width] - top)``, by 8 and these in float64."""
    none = x.dtype.type(0)
    total = wide(none)
    k = 0
    while k < width:
        few = none
        for j in range(k, min(k + 8, width)):
            few += exp(x[begin + j] - top)
        total += wide(few)
        k += 8
    return x.dtype.type(total)


SHARED = {
    function.__name__: function
    for function in (
        first_of_line,
        word_of_line,
        first_column,
        columns_of_grid,
        bounds_of,
        run_on,
        row_in,
        move_four,
        find,
        tree_sum,
        tree_max,
        four_of,
        column_sum,
        put_total,
        column_max,
        column_powers,
        frame_powers,
    )
}
