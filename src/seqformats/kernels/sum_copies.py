"""Add up the copies of every sequence: the gradient of repeating it.

Sequence i of `x` stands there ``counts[i]`` times, its copies one after the other from row ``starts[i]`` on; in `out`
it has the rows ``cum[i]`` to ``cum[i + 1]``, `width` items each.  Copies are added up as rows are in `sum_rows`.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import (
    at_most,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    pointer,
    room,
    total,
    total_by_rows,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu, search, wide


@compiled
def cpu(x: Any, out: Any, starts: Any, cum: Any, counts: Any, width: int, lo: int, hi: int) -> None:
    """Sequences `lo` to `hi`: each is added up as a sequence of copies, of which every number is a column."""
    rows, sums, steps = pointer(x), pointer(out), pointer(cum)
    one, blocks = unknown(1), room(sums)
    for i in range(lo, hi):
        begin, at, size = starts[i] * width, cum[i] * width, (cum[i + 1] - cum[i]) * width
        count = columns_at_once(size)
        k = 0
        if size >= 64:
            k = total_by_rows(rows, sums, blocks, begin, at, steps, size, counts[i], 1, 0.0)
        while k < size:
            k = at_most(k, size - count)
            if count == 32:
                total(rows, sums, blocks, begin + k, at + k, steps, size, counts[i], 1, 0.0, one, 32)
            elif count == 4:
                total(rows, sums, blocks, begin + k, at + k, steps, size, counts[i], 1, 0.0, one, 4)
            else:
                total(rows, sums, blocks, begin + k, at + k, steps, size, counts[i], 1, 0.0, one, 1)
            k += count


@compiled_for_cuda(over="rows")
def cuda(x: Any, out: Any, starts: Any, cum: Any, counts: Any, width: int) -> None:
    """All rows of `out`, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i = search(cum, r)
        length = cum[i + 1] - cum[i]
        k = gpu.threadIdx.x
        while k < width:
            total = out.dtype.type(0)
            blocks = wide(total)
            for c in range(counts[i]):
                total += x[(starts[i] + c * length + r - cum[i]) * width + k]
                if c & 7 == 7:
                    blocks += wide(total)
                    total = out.dtype.type(0)
            out[r * width + k] = blocks + wide(total)
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
