"""The means of the largest items of every sequence, column by column: the sum of the k largest, by k, for several k.

`x` holds the sequences in any layout, see `locate` for the arguments; ``ks (q,)`` with the largest `most`;
``out (n * q * width,)``; ``tops`` and ``places (n * most * width,)``: the largest items, falling, of equal ones the
first, and their places in the sequence, -1 where it is too short.  NaN is beyond every number.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from .._kernel import along, at_most, beyond, compiled, compiled_for_cuda, locate, shared

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
        a = at_most(t, most)  # so many are there; it goes before those that it is beyond
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
        for a in range(at_most(ks[q], length)):
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
    """Units `lo` to `hi`; all columns side by side, so that comparisons need no branches."""
    items = np.uint64(width)  # places without a sign need no look at whether they count from the end
    for u in range(lo, hi):
        i, first, length = locate(starts, cum, u, stride, left, step)
        begin = i * most * width
        for p in range(np.uint64(begin + at_most(length, most) * width), np.uint64(begin + most * width)):
            tops[p] = 0
            places[p] = -1
        for t in range(length):
            row = np.uint64((first + along(t, steps, step)) * width)
            a = at_most(t, most - 1)  # it goes to the end of the list, and from there up
            here = np.uint64(begin + a * width)
            if t < most:
                for k in range(items):
                    tops[here + k] = x[row + k]
                    places[here + k] = t
            else:
                fresh = 0
                for k in range(items):
                    value = x[row + k]
                    least = tops[here + k]
                    up = (value > least) | ((value != value) & (least == least))
                    fresh |= up
                    tops[here + k] = value if up else least
                    places[here + k] = t if up else places[here + k]
                if fresh == 0:
                    continue
            while a > 0:
                above = here - items
                for k in range(items):
                    value = tops[here + k]
                    best = tops[above + k]
                    place = places[here + k]
                    other = places[above + k]
                    up = (value > best) | ((value != value) & (best == best))
                    tops[above + k] = value if up else best
                    tops[here + k] = best if up else value
                    places[above + k] = place if up else other
                    places[here + k] = other if up else place
                here = above
                a -= 1
        for q in range(ks.size):
            d = np.uint64((i * ks.size + q) * width)
            for k in range(items):
                out[d + k] = 0
            for a in range(at_most(ks[q], length)):
                top = np.uint64(begin + a * width)
                for k in range(items):
                    out[d + k] += tops[top + k]
            for k in range(items):
                out[d + k] = out[d + k] / out.dtype.type(ks[q])


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
