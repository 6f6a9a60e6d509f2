"""Grids and blocks of CUDA kernels: how the work of each kind of kernel is divided among threads."""

from __future__ import annotations

import functools

from ..layout import MOST_THREADS
from .driver import SIMULATED
from .kernel import Work

# Threads of a block, and how many of them lie side by side in a row.  The simulator takes 0.07 ms a thread.
THREADS, _ACROSS = (16, 4) if SIMULATED else (MOST_THREADS, 128)
# A thread of these has a column of a sequence, and a block keeps its registers until the longest of its own is done.
_UNIT_THREADS = 8 if SIMULATED else 64
# Kernels over sequences have shared memory for 128; the order of sums depends on the number.
SUM_THREADS, _SUM_ACROSS = (16, 4) if SIMULATED else (128, 128)
# Those over scores have it for 256, so many where a row of scores has many places.
SCORE_THREADS, _MANY_SCORES = (8, 40) if SIMULATED else (MOST_THREADS, 1 << 12)
# Kernels loop over what the grid does not cover.
_MOST_BLOCKS = 4 if SIMULATED else 1 << 16
_MOST_RUNS = 4 if SIMULATED else 65535
# Numba warns of every grid with fewer blocks than this; blocks without work end at once.
_LEAST_BLOCKS = 1 if SIMULATED else 128
# Rows or places that a thread has on the way at a time: `move_four` and its like are written out for so many.
ROWS_PER_THREAD = 4
# From so many threads on each may have four columns as one item: fewer leave too much of a GPU without work.  An H200
# has room for twice as many.
_FOURS_FROM = 0 if SIMULATED else 1 << 17
# Scores of a group of `best_of_groups`.
_GROUP = 32

Triple = tuple[int, int, int]


def geometry(over: str, work: Work, size: int) -> tuple[Triple, Triple, tuple[int, ...]]:
    """Grid, block, and what the kernel takes after its size.

    `over` is what it goes over, see `KernelSpec`; `size` that of a row, in items or machine words.
    """
    return _geometry(over, int(work.units), int(work.rows), int(size))


@functools.lru_cache(maxsize=1024)
def _geometry(over: str, units: int, rows: int, size: int) -> tuple[Triple, Triple, tuple[int, ...]]:
    if over == "runs":
        return (*_blocks(-(-rows // units), size, units), (units,))
    if over == "blocks":
        # not one more than there are units: for so many `best_tokens` has memory for the work
        return (clip_blocks(units, 1), 1, 1), (_SUM_ACROSS, 1, 1), ()
    if over == "scores":
        return (clip_blocks(units, 1), 1, 1), (SCORE_THREADS if size >= _MANY_SCORES else _SUM_ACROSS, 1, 1), ()
    if over == "sequences":
        across = _power(size, _SUM_ACROSS)
        grid = clip_blocks(units), min(-(-size // across), _MOST_RUNS), 1
        return grid, (across, SUM_THREADS // across, 1), ()
    if over == "lines":
        return (*_lines(rows, size), ())
    if over == "rooms":
        return (*_rooms(units, rows // units, size), ())
    if over == "units":
        (blocks, _, _), block = _blocks(units, size, threads=_UNIT_THREADS)
        return (blocks, min(-(-size // block[0]), _MOST_RUNS), 1), block, ()
    return (*_blocks(rows, size), ())


def fours_fill(over: str, work: Work, size: int) -> bool:
    """Tell whether there are threads enough where each has four columns of a unit, or of some rows."""
    columns = (work.rows // ROWS_PER_THREAD if over == "lines" else work.units) * size
    return columns >= ROWS_PER_THREAD * _FOURS_FROM


def chunks_of(width: int) -> int:
    """Chunks of a row of so many scores, each of some scores for every thread of a block; none where it is short."""
    return -(-width // (SCORE_THREADS * _GROUP)) if width >= _MANY_SCORES else 0


def _power(size: int, most: int) -> int:
    """The least power of two that is not below `size`, but at most `most`."""
    return min(1 << (size - 1).bit_length(), most)


def clip_blocks(blocks: int, least: int = _LEAST_BLOCKS) -> int:
    """A number of blocks that a grid may have."""
    return max(min(blocks, _MOST_BLOCKS), least)


def _blocks(rows: int, row: int, runs: int = 1, threads: int = THREADS) -> tuple[Triple, Triple]:
    """Grid and block: along x threads for the words of a row, along y for rows; the grid's y for `runs` of rows."""
    across = _power(row, _ACROSS)
    down = min(max(threads // across, 1), _power(rows, threads))
    runs = min(runs, _MOST_RUNS)
    return (clip_blocks(-(-rows // down), -(-_LEAST_BLOCKS // runs)), runs, 1), (across, down, 1)


def _side_by_side(row: int) -> int:
    """Threads for the words of a row: a power of two that leaves few of them without a word."""
    if row <= _ACROSS // 4:
        return _power(row, _ACROSS)
    return min((_ACROSS, _ACROSS // 2, _ACROSS // 4), key=lambda across: -(-row // across) * across)


def _lines(rows: int, row: int) -> tuple[Triple, Triple]:
    """Lines of threads along x, each for `ROWS_PER_THREAD` rows; along the grid's y and z all words of a row."""
    across = _side_by_side(row)
    down = min(THREADS // across, _power(-(-rows // ROWS_PER_THREAD), THREADS))
    return (-(-rows // (ROWS_PER_THREAD * down)), *_tiles(-(-row // across))), (across, down, 1)


def _tiles(count: int) -> tuple[int, int]:
    """Return at least so many blocks along y and z."""
    deep = -(-count // _MOST_RUNS)
    return -(-count // deep), deep


def _rooms(runs: int, room: int, row: int) -> tuple[Triple, Triple]:
    """Lines of threads along x, each for `ROWS_PER_THREAD` places of a run along y, and runs along z.

    Along x are all words of a row.
    """
    across = _side_by_side(row)
    down = min(THREADS // across, _power(-(-room // ROWS_PER_THREAD), THREADS))
    deep = min(THREADS // (across * down), _power(runs, THREADS), 64)
    grid = -(-row // across), min(-(-room // (ROWS_PER_THREAD * down)), _MOST_RUNS), min(-(-runs // deep), _MOST_RUNS)
    return grid, (across, down, deep)
