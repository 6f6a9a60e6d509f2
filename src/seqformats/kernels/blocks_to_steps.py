"""Move sequences from one block each to time steps: the rows of a step side by side, longest sequence first.

`indices (n,)` gives the sequence in column j, `cum (n + 1,)` counts the rows of the sequences, `steps (t + 1,)` those
of the time steps, whose columns are a prefix.  A step begins at row ``t * columns`` (Padded), or at ``steps[t]`` where
`columns` is negative (Packed).  For the blocks' `starts`, `stride`, `left` and `addresses` see `copy_blocks`.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import at_most, begin_of, compiled, compiled_for_cuda, move_row, will_read

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
    packed = 1 if columns < 0 else 0
    wide = 0 if columns < 0 else columns
    t = 0
    while t < steps.size - 1:
        last = at_most(hi, steps[t + 1] - steps[t])
        end = at_most(t + 32, steps.size - 1)  # of so many steps the next column finds its lines in the cache
        # Reads wait and writes do not: so column by column, and where that begins anew, the memory is told in time.
        for j in range(lo, last):
            i = indices[at_most(j + 8, last - 1)]
            most = at_most(end, cum[i + 1] - cum[i])
            s = begin_of(starts[i], i, cum[i + 1] - cum[i], stride, left, unit, row)
            p = s + t * row
            while p < s + at_most(most * row, t * row + 512):
                will_read(src + p)
                p += 64
            i = indices[j]
            most = at_most(end, cum[i + 1] - cum[i])
            s = begin_of(starts[i], i, cum[i + 1] - cum[i], stride, left, unit, row)
            for u in range(t, most):
                move_row(out, (j + u * wide + steps[u] * packed) * row, src, s + u * row, row)
        t = end


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
