"""The largest (or least) item of every sequence, column by column, and its place.

`x` holds the sequences in any layout, see `locate` for the arguments; ``out (n * width,)``; ``places (n * width,)`` or
empty: the place in the sequence of the first of equal items.  NaN is beyond every number.  An empty sequence gives
zeros and place -1.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, best_of_column, beyond, compiled, compiled_for_cuda, locate

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@compiled
def cpu(
    x: Any,
    out: Any,
    places: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    least: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        best = out[i * width : (i + 1) * width]
        where = places[i * width : (i + 1) * width]
        for k in range(best.size):
            best[k] = 0
            if length != 0:
                best[k] = x[first * width + k]
        for k in range(where.size):
            where[k] = 0 if length != 0 else -1
        if width < 4 and step == 1 and where.size == 0 and length != 0:
            block = x[first * width : (first + length) * width]
            for k in range(width):  # with a constant, so that the loop compares in one way only
                best[k] = best_of_column(block, k, width, 1) if least else best_of_column(block, k, width, 0)
            continue
        for t in range(1, length):
            r = first + along(t, steps, step)
            row = x[r * width : (r + 1) * width]
            if where.size != 0:
                for k in range(row.size):
                    better = beyond(row[k], best[k], least)
                    where[k] = t if better else where[k]
                    best[k] = row[k] if better else best[k]
            else:
                for k in range(row.size):
                    best[k] = row[k] if beyond(row[k], best[k], least) else best[k]


@compiled_for_cuda(over="sequences")
def cuda(
    x: Any,
    out: Any,
    places: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    least: int,
) -> None:
    """All units, a block each, a thread a column; where they are narrow, several threads share a column."""
    values = gpu.shared.array(128, x.dtype)
    found = gpu.shared.array(128, cum.dtype)
    place = gpu.threadIdx.y * gpu.blockDim.x + gpu.threadIdx.x
    u = gpu.blockIdx.x
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        column = gpu.blockIdx.y * gpu.blockDim.x
        while column < width:  # the same turns for the whole block, which waits for each other below
            k = column + gpu.threadIdx.x
            values[place] = 0
            best = values[place]  # zero in the dtype of x
            where = found[place]
            where = -1
            if k < width:
                t = gpu.threadIdx.y
                while t < length:
                    value = x[(first + along(t, steps, step)) * width + k]
                    if where < 0 or beyond(value, best, least):
                        best = value
                        where = t
                    t += gpu.blockDim.y
            values[place] = best
            found[place] = where
            gpu.syncthreads()
            half = gpu.blockDim.y >> 1
            while half > 0:
                if gpu.threadIdx.y < half:
                    other = place + half * gpu.blockDim.x
                    # of equal items the first: neither is beyond the other
                    if found[other] >= 0 and (
                        beyond(values[other], values[place], least)
                        or (found[other] < found[place] and not beyond(values[place], values[other], least))
                    ):
                        values[place] = values[other]
                        found[place] = found[other]
                gpu.syncthreads()
                half >>= 1
            if gpu.threadIdx.y == 0 and k < width:
                out[i * width + k] = values[place]
                if places.size != 0:
                    places[i * width + k] = found[place]
            column += gpu.gridDim.y * gpu.blockDim.x
        u += gpu.gridDim.x
