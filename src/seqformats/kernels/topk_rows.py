"""The means of the largest items of every sequence, column by column: the sum of the k largest, by k, for several k.

`x` holds the sequences in any layout, see `locate` for the arguments; ``ks (q,)`` with the largest `most`;
``out (n * q * width,)``; ``tops`` and ``places (n * most * width,)``: the largest items, falling, of equal ones the
first, and their places in the sequence, -1 where it is too short.  NaN is beyond every number.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, beyond, compiled, compiled_for_cuda, locate, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@shared
def topk_column(
    x: Any,
    out: Any,
    tops: Any,
    places: Any,
    steps: Any,
    ks: Any,
    width: int,
    step: int,
    most: int,
    i: int,
    first: int,
    length: int,
    k: int,
) -> None:
    """Column k of sequence i."""
    begin = i * most * width + k
    for a in range(most):
        tops[begin + a * width] = 0
        places[begin + a * width] = -1
    for t in range(length):
        value = x[(first + along(t, steps, step)) * width + k]
        a = min(t, most)  # so many are there; it goes before those that it is beyond
        if a == most and not beyond(value, tops[begin + (a - 1) * width], 0):
            continue
        if a == most:
            a -= 1
        while a > 0 and beyond(value, tops[begin + (a - 1) * width], 0):
            tops[begin + a * width] = tops[begin + (a - 1) * width]
            places[begin + a * width] = places[begin + (a - 1) * width]
            a -= 1
        tops[begin + a * width] = value
        places[begin + a * width] = t
    for q in range(ks.size):
        d = (i * ks.size + q) * width + k
        out[d] = 0
        for a in range(min(ks[q], length)):
            out[d] += tops[begin + a * width]
        out[d] = out[d] / out.dtype.type(ks[q])


@compiled
def cpu(
    x: Any,
    out: Any,
    tops: Any,
    places: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    ks: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    most: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        for k in range(width):
            topk_column(x, out, tops, places, steps, ks, width, step, most, i, first, length, k)


@compiled_for_cuda(over="units")
def cuda(
    x: Any,
    out: Any,
    tops: Any,
    places: Any,
    starts: Any,
    cum: Any,
    steps: Any,
    ks: Any,
    width: int,
    stride: int,
    left: int,
    step: int,
    most: int,
) -> None:
    """All units, a thread a column of each."""
    u = gpu.blockIdx.x * gpu.blockDim.y + gpu.threadIdx.y
    while u < cum.size - 1:
        i, first, length = locate(starts, cum, u, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            topk_column(x, out, tops, places, steps, ks, width, step, most, i, first, length, k)
            k += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y
