"""Layouts of rows: one description, for Python and for kernels on every device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    Array: TypeAlias = Any
    Integers: TypeAlias = Any  # an array of int64

SHORT = 4 if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0") else 64
"""Up to so many rows, a column of a sequence is the work of one thread of a GPU; in the simulator few are many."""
MOST_THREADS = 256
"""So many threads a block of a GPU has at most."""


class Constants(NamedTuple):
    """Few numbers that are no part of a batch and the same in many calls, such as the k of the largest items.

    A kernel takes them as one argument.  On a GPU they stay, and are found by what they are.
    """

    numbers: Array


class Layout(NamedTuple):
    """Places of the rows of some sequences in an array.

    A kernel takes it as one argument, and `locate` and `along` in `kernels/parts/common.py` find a row by it.

    In blocks, a sequence lies in one piece: sequence i begins at row ``starts[i]``, or where `stride` is not negative
    at ``i * stride``, at the right end of that room where `left` is 1.  By steps, column j holds sequence ``starts[j]``
    and its item t lies j rows after the beginning of step t, which is row ``t * step``, or ``steps[t]`` where `step` is
    0.
    """

    starts: Integers  # (units,) int64
    cum: Integers  # (n + 1,) int64, the rows before each sequence
    steps: Integers  # (t + 1,) int64, the rows before each time step; `cum` again where there are no steps
    stride: int
    left: int
    step: int  # 1 in blocks; time-major the number of columns; 0 where time steps are packed
    absolute: int  # 1 where `starts` are addresses
