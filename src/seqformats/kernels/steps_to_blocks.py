"""Move sequences from time steps to one block each: the way back of `blocks_to_steps`.

The arguments are the same, but that step t begins at ``begins[t]`` where `columns` is negative: a row, or an address
where `addresses` is 1 and `src` 0 (steps that are arrays of their own).
"""

from typing import TYPE_CHECKING, Any

from .._kernel import at_most, compiled, compiled_for_cuda, move_row

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, move_word, search


@compiled
def cpu(
    src: int,
    out: int,
    begins: Any,
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
    for first in range(lo, hi, 1024):
        for t in range(steps.size - 1):
            last = at_most(first + 1024, at_most(hi, steps[t + 1] - steps[t]))
            if last <= first:
                break
            begin = begins[t] * unit if columns < 0 else t * columns * row
            for j in range(first, last):
                i = indices[j]
                if stride < 0:
                    d = starts[i] + t
                else:
                    d = i * stride + left * (stride - (cum[i + 1] - cum[i])) + t
                move_row(out, d * row, src, begin + j * row, row)


@compiled_for_cuda(over="rows")
def cuda(
    src: Any,
    out: Any,
    begins: Any,
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
    """All columns, a line of threads a row, rows in the order in which they are read; `row` machine words a row."""
    unit = 1 if addresses else row
    word = out.itemsize if addresses else 1
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < steps[steps.size - 1]:
        t = search(steps, r)
        j = r - steps[t]
        i = indices[j]
        s = (begins[t] * unit if columns < 0 else t * columns * row) + j * row * word
        if stride < 0:
            d = (starts[i] + t) * row
        else:
            d = (i * stride + left * (stride - (cum[i + 1] - cum[i])) + t) * row
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d + w, src, s + w * word)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
