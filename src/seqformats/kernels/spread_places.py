"""Give one row of every sequence, column by column, the sequence's own item, and the others zeros: the gradient of a
maximum.

``x (n * width,)``; ``places (n * width,)``: the place in the sequence, -1 for none; `out` holds the sequences in any
layout, see `locate` for the arguments.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import (
    along,
    at_most,
    choose,
    clear,
    columns_at_once,
    compiled,
    compiled_for_cuda,
    each,
    in_lanes,
    load,
    locate,
    pointer,
    store,
    unknown,
)

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import find, gpu


@in_lanes
def place(
    x: Any, places: Any, out: Any, p: int, at: int, steps: Any, width: int, length: int, step: int, one: int, count: int
) -> None:
    """Some columns of a sequence, of which item 0 is at p."""
    row, where = load(x, at, count, x), load(places, at, count, places)
    t = 0
    while t < length:
        here = where == each(places, t, count)
        store(out, p + along(t, steps, step) * width, choose(here, row, each(x, 0, count)))
        t += one


@compiled
def cpu(
    x: Any,
    places: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    row, where, rows = pointer(x), pointer(places), pointer(out)
    starts, cum, steps = pointer(starts), pointer(cum), pointer(steps)
    one, count = unknown(1), columns_at_once(width, 8)
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = 0
        if width >= 32 and step == 1 and length != 0:  # zeros in one go, and then the few items
            clear(out, first * width, length * width * out.itemsize)
            while k < width:
                d = (first + along(where[i * width + k], steps, step)) * width
                rows[d + k] = row[i * width + k]
                k += 1
        while k < width:
            k = at_most(k, width - count)
            p, at = first * width + k, i * width + k
            if count == 32:
                place(row, where, rows, p, at, steps, width, length, step, one, 32)
            elif count == 8:
                place(row, where, rows, p, at, steps, width, length, step, one, 8)
            elif count == 4:
                place(row, where, rows, p, at, steps, width, length, step, one, 4)
            else:
                place(row, where, rows, p, at, steps, width, length, step, one, 1)
            k += count


@compiled_for_cuda(over="rows")
def cuda(
    x: Any,
    places: Any,
    out: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
) -> None:
    """All rows, a line of threads each."""
    r = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while r < cum[cum.size - 1]:
        i, t, d = find(starts, cum, steps, r, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            out[d * width + k] = 0
            if places[i * width + k] == t:
                out[d * width + k] = x[i * width + k]
            k += gpu.blockDim.x
        r += gpu.gridDim.x * gpu.blockDim.y
