"""The gradients of weighted sums, or means, for the items and for the weights.

``x (n * width,)``, the gradient; `y`, the items, hold the sequences in any layout, see `Layout`, and so does `out`;
``weights``, ``totals``, `mode` and `own` are those of `weigh_rows`, and `values` what it has found; ``slopes``, as many
as the weights, get their gradient.  Where the weights of a sequence add up to zero, their mean has none.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Layout
from .parts.names import gpu


class Given(NamedTuple):
    """The gradient, the items, and what `weigh_rows` has taken and found."""

    x: Array
    y: Array
    weights: Array
    totals: Array
    values: Array


class Made(NamedTuple):
    """Gradients of items and of weights."""

    out: Array
    slopes: Array


@p.shared
def divide(slope: float, totals: Array, place: int, mode: int) -> Any:
    """The gradient of a sum, of which that of a mean is this part."""
    if mode == 0:
        return slope
    return slope / totals[place] if totals[place] != 0 else totals[place]


@p.compiled
def cpu(given: Given, made: Made, at: Layout, mode: int, own: int, width: int, lo: int, hi: int) -> None:
    """Units `lo` to `hi`; what many columns are for one weight is added up in float64."""
    x, y, weights, totals, values = given
    out, slopes = made
    row = width if own else 1  # weights of an item
    at = p.pointer(at)
    for u in range(lo, hi):
        i, first, length = p.locate(at, u)
        dy, means = x[i * width : (i + 1) * width], values[i * width : (i + 1) * width]
        for t in range(length):
            d, r = (first + p.along(at, t)) * width, at.cum[i] + t
            items, dx = y[d : d + width], out[d : d + width]
            sums = 0.0
            for k in range(width):
                place = r * row + k * own
                slope = divide(dy[k], totals, i * row + k * own, mode)
                dx[k] = slope * weights[place]
                part = slope * (items[k] - means[k] if mode else items[k])
                if own:
                    slopes[place] = part
                else:
                    sums += part
            if not own:
                slopes[r] = sums


def cuda(given: Given, made: Made, at: Layout, mode: int, own: int, width: int) -> None:
    """All rows, a line of threads each; the first of them adds up what is for a weight."""
    x, y, weights, totals, values = given
    out, slopes = made
    for r in range(p.first_unit(), at.cum[at.cum.size - 1], p.units_of_grid()):
        i, t, d = p.find(at, r)
        place = at.cum[i] + t
        for k in range(gpu.threadIdx.x, width, gpu.blockDim.x):
            slope = divide(x[i * width + k], totals, i * width + k if own else i, mode)
            out[d * width + k] = slope * weights[place * width + k if own else place]
            if own:
                item = y[d * width + k]
                if mode:
                    item -= values[i * width + k]
                slopes[place * width + k] = slope * item
        if gpu.threadIdx.x == 0 and not own:
            sums = p.wide(out.dtype.type(0))
            for j in range(width):
                item = y[d * width + j]
                if mode:
                    item -= values[i * width + j]
                sums += p.wide(divide(x[i * width + j], totals, i, mode) * item)
            slopes[place] = sums


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "rows", p.alike(p.FLOATS, 7))
