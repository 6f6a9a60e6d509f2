"""Move sequences from one block each to time steps: the rows of a step side by side, longest sequence first.

`indices (n,)` gives the sequence in column j, `cum (n + 1,)` counts the rows of the sequences, `steps (t + 1,)` those
of the time steps, whose columns are a prefix.  A step begins at row ``t * columns`` (Padded), or at ``steps[t]`` where
`columns` is negative (Packed).  For the blocks' `starts`, `stride`, `left` and `addresses` see `copy_blocks`.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda, move_row

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, move_word, search


@compiled
def cpu(
    src: int,
    out: int,
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
    """Columns `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
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
                move_row(out, (begin + j) * row, src, s, row)


@compiled_for_cuda(over="rows")
def cuda(
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
) -> None:
    """All columns, a line of threads a row, rows in the order in which they are written; `row` machine words a row."""
    unit = 1 if addresses else row
    word = out.itemsize if addresses else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < steps[steps.size - 1]:
        t = search(steps, r)
        j = r - steps[t]
        i = indices[j]
        if stride < 0:
            s = starts[i] * unit + t * row * word
        else:
            s = (i * stride + left * (stride - (cum[i + 1] - cum[i])) + t) * row
        begin = steps[t] if columns < 0 else t * columns
        d = (begin + j) * row
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d + w, src, s + w * word)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
