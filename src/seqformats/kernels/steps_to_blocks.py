"""Move sequences from time steps to one block each: the way back of `blocks_to_steps`, with the same arguments."""

from typing import Any

from .._kernel import compiled, move, part


@part
def _rows(
    src: Any,
    out: Any,
    starts: Any,
    cum: Any,
    indices: Any,
    steps: Any,
    stride: int,
    left: int,
    columns: int,
    row: int,
    lo: int,
    hi: int,
    size: int,
) -> None:
    for first in range(lo, hi, 1024):
        for t in range(steps.size - 1):
            last = min(first + 1024, hi, steps[t + 1] - steps[t])
            if last <= first:
                break
            begin = steps[t] if columns < 0 else t * columns
            for j in range(first, last):
                i = indices[j]
                if stride < 0:
                    d = starts[i] + t
                else:
                    d = i * stride + left * (stride - (cum[i + 1] - cum[i])) + t
                move(out, d * row, src, (begin + j) * row, size)


@compiled
def cpu(
    src: Any,
    out: Any,
    starts: Any,
    cum: Any,
    indices: Any,
    steps: Any,
    stride: int,
    left: int,
    columns: int,
    row: int,
    lo: int,
    hi: int,
) -> None:
    """Columns `lo` to `hi`; `src` and `out` are flat bytes, `row` bytes a row."""
    if row == 1:
        _rows(src, out, starts, cum, indices, steps, stride, left, columns, row, lo, hi, 1)
    elif row == 2:
        _rows(src, out, starts, cum, indices, steps, stride, left, columns, row, lo, hi, 2)
    elif row == 4:
        _rows(src, out, starts, cum, indices, steps, stride, left, columns, row, lo, hi, 4)
    elif row == 8:
        _rows(src, out, starts, cum, indices, steps, stride, left, columns, row, lo, hi, 8)
    elif row == 16:
        _rows(src, out, starts, cum, indices, steps, stride, left, columns, row, lo, hi, 16)
    else:
        _rows(src, out, starts, cum, indices, steps, stride, left, columns, row, lo, hi, row)
