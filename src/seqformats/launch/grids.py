"""Grids and blocks of CUDA kernels: how the work of each kind of kernel is divided among threads."""

from __future__ import annotations

from .driver import SIMULATED
from .kernel import Work

# Threads of a block, and how many of them lie side by side in a row.  The simulator takes 0.07 ms a thread.
THREADS, _ACROSS = (16, 4) if SIMULATED else (256, 128)
# Kernels over sequences have shared memory for 128; the order of sums depends on the number.
SUM_THREADS, _SUM_ACROSS = (16, 4) if SIMULATED else (128, 128)
# Kernels loop over what the grid does not cover.
_MOST_BLOCKS = 4 if SIMULATED else 1 << 16
_MOST_RUNS = 4 if SIMULATED else 65535
# Numba warns of every grid with fewer blocks than this; blocks without work end at once.
_LEAST_BLOCKS = 1 if SIMULATED else 128

Pair = tuple[int, int]


def geometry(over: str, work: Work, size: int) -> tuple[Pair, Pair, tuple[int, ...]]:
    """Grid, block, and what the kernel takes after its size.

    `over` is what it goes over, see `KernelSpec`; `size` that of a row, in items or machine words.
    """
    if over == "runs":
        return (*_blocks(int(-(-work.rows // work.units)), size, work.units), (work.units,))
    if over == "blocks":
        return (between(work.units), 1), (_SUM_ACROSS, 1), ()
    if over == "sequences":
        across = _power(size, _SUM_ACROSS)
        grid = between(work.units), min(-(-size // across), _MOST_RUNS)
        return grid, (across, SUM_THREADS // across), ()
    return (*_blocks(int(work.rows if over == "rows" else work.units), size), ())


def _power(size: int, most: int) -> int:
    """The least power of two that is not below `size`, but at most `most`."""
    return min(1 << (size - 1).bit_length(), most)


def between(blocks: int, least: int = _LEAST_BLOCKS) -> int:
    """A number of blocks that a grid may have."""
    return max(min(blocks, _MOST_BLOCKS), least)


def _blocks(rows: int, row: int, runs: int = 1) -> tuple[Pair, Pair]:
    """Grid and block: along x threads for the words of a row, along y for rows; the grid's y for `runs` of rows."""
    across = _power(row, _ACROSS)
    down = min(THREADS // across, _power(rows, THREADS))
    runs = min(runs, _MOST_RUNS)
    return (between(-(-rows // down), -(-_LEAST_BLOCKS // runs)), runs), (across, down)
