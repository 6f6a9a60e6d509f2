"""The gradient of `class_losses`: the slope of an item times the softmax of its scores less what should be.

`x`, `y`, `scale`, `factors` and `kept` are as there, and ``out`` has the layout and the width of `x`.  The slope is
``slopes[0]``, that of its sequence or its own, times ``scale[i]``: `each` is 0, 1 or 2.
"""

from typing import TYPE_CHECKING, Any

from .parts import CALCULATES, FLOATS, Array, Integers, KernelSpec, Layout, alike, along, compiled, exp, locate, shared

if TYPE_CHECKING:  # put among the globals before the kernel is compiled
    from .parts.gpu import find, gpu


@shared
def slope_of(slopes: Array, scale: Array, each: int, i: int, r: int) -> Any:
    """The slope of the item of row r, of sequence i."""
    return slopes[r if each == 2 else i if each == 1 else 0] * scale[i]


@compiled
def cpu(
    x: Array,
    y: Integers,
    scale: Array,
    factors: Array,
    slopes: Array,
    kept: Array,
    out: Array,
    at: Layout,
    each: int,
    ignore: int,
    ignores: int,
    width: int,
    lo: int,
    hi: int,
) -> None:
    """Units `lo` to `hi`."""
    own, share = factors[0], factors[2]
    for u in range(lo, hi):
        i, first, length = locate(at, u)
        for t in range(length):
            r = first + along(at, t)
            begin = r * width
            scores, to = x[begin : begin + width], out[begin : begin + width]
            if ignores != 0 and y[r] == ignore:
                for k in range(to.size):
                    to[k] = 0
                continue
            top, log, slope = kept[2 * r], kept[2 * r + 1], slope_of(slopes, scale, each, i, r)
            for k in range(to.size):
                to[k] = (exp((scores[k] - top) - log) - share) * slope
            to[y[r]] -= own * slope


def cuda(
    x: Array,
    y: Integers,
    scale: Array,
    factors: Array,
    slopes: Array,
    kept: Array,
    out: Array,
    at: Layout,
    each: int,
    ignore: int,
    ignores: int,
    width: int,
) -> None:
    """All items, a block each."""
    own, share = factors[0], factors[2]
    item = gpu.blockIdx.x
    while item < at.cum[at.cum.size - 1]:
        i, _, r = find(at, item)
        begin = r * width
        k = gpu.threadIdx.x
        if ignores != 0 and y[r] == ignore:
            while k < width:
                out[begin + k] = 0
                k += gpu.blockDim.x
        else:
            top, log, slope = kept[2 * r], kept[2 * r + 1], slope_of(slopes, scale, each, i, r)
            while k < width:
                new = (exp((x[begin + k] - top) - log) - share) * slope
                if k == y[r]:
                    new -= own * slope
                out[begin + k] = new
                k += gpu.blockDim.x
        item += gpu.gridDim.x


KERNEL = KernelSpec(cpu, cuda, CALCULATES, "blocks", alike(FLOATS, 6))
