"""Give the largest items of every sequence their part of the gradient of `topk_rows`, whose `places` and `ks` these
are.

``x (n * q * width,)`` is the gradient; `out`, zero before, holds the sequences in any layout, see `locate`.
"""

from typing import TYPE_CHECKING, Any

from .._kernel import along, compiled, compiled_for_cuda, locate, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .._cuda import gpu


@shared
def column(
    x: Any,
    places: Any,
    out: Any,
    steps: Any,
    ks: Any,
    width: int,
    step: int,
    most: int,
    i: int,
    first: int,
    k: int,
) -> None:
    """Column k of sequence i."""
    for a in range(most):
        t = places[(i * most + a) * width + k]
        if t >= 0:
            d = (first + along(t, steps, step)) * width + k
            for q in range(ks.size):
                if ks[q] > a:
                    out[d] += x[(i * ks.size + q) * width + k] / out.dtype.type(ks[q])


@compiled
def cpu(
    x: Any,
    places: Any,
    out: Any,
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
        i, first, _ = locate(starts, cum, u, stride, left, step)
        for k in range(width):
            column(x, places, out, steps, ks, width, step, most, i, first, k)


@compiled_for_cuda(over="units")
def cuda(
    x: Any,
    places: Any,
    out: Any,
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
        i, first, _ = locate(starts, cum, u, stride, left, step)
        k = gpu.threadIdx.x
        while k < width:
            column(x, places, out, steps, ks, width, step, most, i, first, k)
            k += gpu.blockDim.x
        u += gpu.gridDim.x * gpu.blockDim.y
