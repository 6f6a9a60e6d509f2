"""Move row i of an array to every row of sequence i.

`src` has one row a sequence; `out` holds the sequences in any layout, see `locate` for the arguments.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import compiled, compiled_for_cuda, locate, move_row, move_run, repeat_words

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu, move_word


@compiled
def cpu(
    src: int,
    out: int,
    starts: Any,
    cum: Any,
    steps: Any,
    stride: int,
    left: int,
    step: int,
    row: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`; `src` and `out` are addresses, `row` bytes a row."""
    if step == 1 and stride < 0 and row <= 32 and 32 % row == 0:  # one after the other
        repeat_words(out, src, cum, row, lo, hi)
        return
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        if step != 0:
            move_run(out, first * row, step * row, src, i * row, 0, row, length)
        else:
            for t in range(length):
                move_row(out, (first + steps[t]) * row, src, i * row, row)


@compiled_for_cuda(over="rows")
def cuda(
    src: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    stride: int,
    left: int,
    step: int,
    row: int,
) -> None:
    """All rows, a line of threads each; `src` and `out` are machine words, `row` words a row."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i, _, d = find(starts, cum, steps, r, stride, left, step)
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d * row + w, src, i * row + w)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
