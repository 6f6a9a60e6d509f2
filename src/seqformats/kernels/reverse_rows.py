"""Move the rows of every sequence to the same sequence in reverse order.

`src` and `out` hold the sequences in the same layout, see `locate` for the arguments.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, compiled, compiled_for_cuda, locate, move_row, move_run

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
    for u in range(lo, hi):
        _, first, length = locate(starts, cum, u, stride, left, step)
        if step != 0:
            last = first + (length - 1) * step
            move_run(out, first * row, step * row, src, last * row, -step * row, row, length)
        else:
            for t in range(length):
                d = first + steps[t]
                s = first + steps[length - 1 - t]
                move_row(out, d * row, src, s * row, row)


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
        i, t, d = find(starts, cum, steps, r, stride, left, step)
        s = d - along(t, steps, step) + along(cum[i + 1] - cum[i] - 1 - t, steps, step)
        w = gpu.threadIdx.x
        while w < row:
            move_word(out, d * row + w, src, s * row + w)
            w += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
