"""Sum the rows of every sequence, column by column, in the order of the rows."""

from typing import Any

from .._kernel import compiled


@compiled
def cpu(x: Any, out: Any, offsets: Any, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; flat ``x (rows * width,)`` and ``out (n * width,)``; sums run in the dtype of `out`."""
    for i in range(lo, hi):
        total = out[i * width : (i + 1) * width]
        for k in range(total.size):
            total[k] = 0
        for r in range(offsets[i], offsets[i + 1]):
            row = x[r * width : (r + 1) * width]
            for k in range(row.size):
                total[k] += row[k]
