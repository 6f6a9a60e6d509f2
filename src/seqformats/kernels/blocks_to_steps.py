"""Move sequences from one block each to time steps: the rows of a step side by side, longest sequence first.

`indices (n,)` gives the sequence in column j, `cum (n + 1,)` counts the rows of the sequences, `steps (t + 1,)` those
of the time steps, whose columns are a prefix.  A step begins at row ``t * columns`` (Padded), or at ``steps[t]`` where
`columns` is negative (Packed).  For the blocks' `starts`, `stride`, `left` and `addresses` see `copy_blocks`.
"""

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
    addresses: int,
    columns: int,
    row: int,
    lo: int,
    hi: int,
    size: int,
) -> None:
    unit = 1 if addresses else row
    # Tiles of columns keep the blocks that are read in the cache from one step to the next.
    for first in range(lo, hi, 1024):
        for t in range(steps.size - 1):
            last = min(first + 1024, hi, steps[t + 1] - steps[t])
            if last <= first:
                break
            begin = steps[t] if columns < 0 else t * columns
            for j in range(first, last):
                i = indices[j]
                if stride < 0:
                    s = starts[i] * unit + t * row
                else:
                    s = (i * stride + left * (stride - (cum[i + 1] - cum[i])) + t) * row
                move(out, (begin + j) * row, src, s, size)


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
    addresses: int,
    columns: int,
    row: int,
    lo: int,
    hi: int,
) -> None:
    """Columns `lo` to `hi`; `src` and `out` are flat bytes, `row` bytes a row."""
    if row == 1:
        _rows(src, out, starts, cum, indices, steps, stride, left, addresses, columns, row, lo, hi, 1)
    elif row == 2:
        _rows(src, out, starts, cum, indices, steps, stride, left, addresses, columns, row, lo, hi, 2)
    elif row == 4:
        _rows(src, out, starts, cum, indices, steps, stride, left, addresses, columns, row, lo, hi, 4)
    elif row == 8:
        _rows(src, out, starts, cum, indices, steps, stride, left, addresses, columns, row, lo, hi, 8)
    elif row == 16:
        _rows(src, out, starts, cum, indices, steps, stride, left, addresses, columns, row, lo, hi, 16)
    else:
        _rows(src, out, starts, cum, indices, steps, stride, left, addresses, columns, row, lo, hi, row)
