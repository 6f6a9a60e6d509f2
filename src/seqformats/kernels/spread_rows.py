"""Give every row of a sequence the sequence's own row, scaled: the gradient of a sum and of a mean."""

from typing import Any

from .._kernel import compiled


@compiled
def cpu(x: Any, out: Any, offsets: Any, width: int, mean: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`; ``x (n * width,)``, ``out (rows * width,)``, flat; `mean` divides by the length."""
    for i in range(lo, hi):
        source = x[i * width : (i + 1) * width]
        length = offsets[i + 1] - offsets[i]
        for r in range(offsets[i], offsets[i + 1]):
            row = out[r * width : (r + 1) * width]
            for k in range(row.size):
                row[k] = source[k] / length if mean else source[k]
