"""Find the work of a thread in CUDA kernels: a thread's own rows, words and columns, and what they move.

As in the kernels themselves, what is special to CUDA is put among the globals before they are compiled, see `gpu`.
"""

from typing import Any

from ...layout import Layout
from .code import Item
from .common import along, locate
from .names import gpu, load_word, search, store_word
from .options import plain_on_cuda
from .record import Array, Integers


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
def first_unit() -> Any:
    """The first unit of which a column is this thread's own."""
    return gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y


@plain_on_cuda
def units_of_grid() -> Any:
    """Count the units that the grid has at a time."""
    return gpu.gridDim.x * gpu.blockDim.y


@plain_on_cuda
def first_of_block() -> Any:
    """The first column of a unit that is of this block, whose threads then take the same turns and can wait there."""
    return gpu.blockIdx.y * gpu.blockDim.x


@plain_on_cuda
def columns_of_grid() -> Any:
    """Count the columns of a unit that the grid has at a time: so many are from one of a thread's own to the next."""
    return gpu.gridDim.y * gpu.blockDim.x


@plain_on_cuda
def sum_of_block(parts: Array, me: int, threads: int) -> Any:
    """The sum of what the threads of a block have put into `parts`, in pairs; threads lie along x."""
    gpu.syncthreads()
    half = threads >> 1
    while half > 0:
        if me < half:
            parts[me] += parts[me + half]
        gpu.syncthreads()
        half >>= 1
    return parts[0]


@plain_on_cuda
def max_of_block(parts: Array, me: int, threads: int) -> Any:
    """The largest of what the threads of a block have put into `parts`; NaN is lost."""
    gpu.syncthreads()
    half = threads >> 1
    while half > 0:
        if me < half:
            parts[me] = max(parts[me], parts[me + half])
        gpu.syncthreads()
        half >>= 1
    return parts[0]


@plain_on_cuda
def run_on(cum: Integers, run: int, r: int) -> Any:
    """The run that holds row r, which is not before `run`."""
    while cum[run + 1] <= r:
        run += 1
    return run


@plain_on_cuda
def row_in(at: Layout, run: int, r: int) -> Any:
    """Find row r, which is in this run, as `find` does."""
    if at.step == 1:
        _, first, _ = locate(at, run)
        t = r - at.cum[run]
        return run, t, first + t
    first = r - at.steps[run]
    return at.starts[first], run, first + along(at, run)


@plain_on_cuda
def four_rows(at: Layout, r: int) -> Any:
    """Find row r and the next three as `find` does, with one search; the last one again where there are fewer."""
    bounds = at.cum if at.step == 1 else at.steps
    last = at.cum[at.cum.size - 1] - 1
    run = search(bounds, r)
    first = row_in(at, run, r)
    run = run_on(bounds, run, min(r + 1, last))
    second = row_in(at, run, min(r + 1, last))
    run = run_on(bounds, run, min(r + 2, last))
    third = row_in(at, run, min(r + 2, last))
    run = run_on(bounds, run, min(r + 3, last))
    return first, second, third, row_in(at, run, min(r + 3, last))


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


SHARED = {
    function.__name__: function
    for function in (
        first_of_line,
        word_of_line,
        max_of_block,
        sum_of_block,
        first_column,
        first_of_block,
        columns_of_grid,
        first_unit,
        units_of_grid,
        four_rows,
        run_on,
        row_in,
        move_four,
        find,
    )
}
