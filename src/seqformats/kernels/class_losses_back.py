"""The gradient of `class_losses`: the slope of an item times the softmax of its scores less what should be.

`x`, `y`, `scale`, `factors` and `kept` are as there, and ``out`` has the layout and the width of `x`.  The slope is
``slopes[0]``, that of its sequence or its own, times ``scale[i]``: `which` is 0, 1 or 2.
"""

from typing import Any, NamedTuple

from ..operations.choices import Ignored
from . import parts as p
from .parts import Array, Columns, Integers, Layout
from .parts.names import gpu


class Arrays(NamedTuple):
    """Arrays of `class_losses`, and the slopes of losses."""

    x: Array
    y: Integers
    scale: Array
    factors: Array
    slopes: Array
    kept: Array


@p.shared
def slope_of(slopes: Array, scale: Array, which: int, i: int, r: int) -> Any:
    """The slope of the item of row r, of sequence i."""
    return slopes[r if which == 2 else i if which == 1 else 0] * scale[i]


@p.by_columns(some=8)
def classes_of(given: Any, _: Columns, d: int, count: int) -> None:
    """Some classes of an item, from number d on, as if none of them were right."""
    x, out, top, log, share, slope = given
    power = p.exp((p.load(x, d, count, x) - p.each(x, top, count)) - p.each(x, log, count))
    p.store(out, d, (power - p.each(x, share, count)) * p.each(x, slope, count))


@p.compiled
def cpu(arrays: Arrays, out: Array, at: Layout, which: int, ignored: Ignored, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`."""
    x, y, scale, factors, slopes, kept = arrays
    ignore, ignores = ignored
    own, share = factors[0], factors[2]
    scores, to_scores = p.pointer(x), p.pointer(out)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        for t in range(length):
            r = first + p.along(at, t)
            begin = r * width
            if ignores != 0 and y[r] == ignore:
                to = out[begin : begin + width]
                for k in range(to.size):
                    to[k] = 0
                continue
            top, log, slope = kept[2 * r], kept[2 * r + 1], slope_of(slopes, scale, which, i, r)
            given = scores, to_scores, top, log, share, slope
            classes_of(given, Columns(begin, 1, width, at.steps, 1), begin, 0, width)
            out[begin + y[r]] -= own * slope


def cuda(arrays: Arrays, out: Array, at: Layout, which: int, ignored: Ignored, width: int) -> None:
    """All items, a block each."""
    x, y, scale, factors, slopes, kept = arrays
    ignore, ignores = ignored
    own, share = factors[0], factors[2]
    for item in range(gpu.blockIdx.x, at.cum[at.cum.size - 1], gpu.gridDim.x):
        i, _, r = p.find(at, item)
        begin = r * width
        k = gpu.threadIdx.x
        if ignores != 0 and y[r] == ignore:
            while k < width:
                out[begin + k] = 0
                k += gpu.blockDim.x
        else:
            top, log, slope = kept[2 * r], kept[2 * r + 1], slope_of(slopes, scale, which, i, r)
            while k < width:
                new = (p.exp((x[begin + k] - top) - log) - share) * slope
                if k == y[r]:
                    new -= own * slope
                out[begin + k] = new
                k += gpu.blockDim.x


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "blocks", p.alike(p.FLOATS, 6))
