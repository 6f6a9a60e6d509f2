"""The gradients of the sums of bags, of those of their means: divided by the number of ids, or by the sum of weights.

``x`` and ``out (n * deep,)`` are the gradients, bag i has ``cum[i + 1] - cum[i]`` ids.  Where `weighted` is 1 the
divisors are ``totals (n,)``, and ``shifts (n,)`` become the products of the means ``y (n * deep,)`` with the quotients.
Where a divisor is zero, so is the gradient.
"""

from typing import Any, NamedTuple

from . import parts as p
from .parts import Array, Integers


class Given(NamedTuple):
    """Gradients, and the means and divisors of the bags."""

    x: Array
    y: Array
    totals: Array


class Made(NamedTuple):
    """Results."""

    out: Array
    shifts: Array


@p.shared
def divide(x: Array, y: Array, out: Array, begin: int, deep: int, divisor: Any) -> Any:
    """Write the gradient of one sum; return its product with the mean."""
    shift = x.dtype.type(0)
    for k in range(begin, begin + deep):
        slope = x.dtype.type(0)
        if divisor != 0:
            slope = x[k] / divisor
        out[k] = slope
        shift += slope * y[k]
    return shift


@p.compiled
def cpu(given: Given, made: Made, cum: Integers, weighted: int, deep: int, width: int, lo: int, hi: int) -> None:
    """Bags `lo` to `hi`."""
    x, y, totals = given
    out, shifts = made
    for i in range(lo, hi):
        divisor = x.dtype.type(cum[i + 1] - cum[i])
        if weighted != 0:
            divisor = totals[i]
        shift = divide(x, y, out, i * deep, deep, divisor)
        if weighted != 0:
            shifts[i] = shift


def cuda(given: Given, made: Made, cum: Integers, weighted: int, deep: int, width: int) -> None:
    """All bags, a thread each."""
    x, y, totals = given
    out, shifts = made
    for i in range(p.first_unit(), cum.size - 1, p.units_of_grid()):
        divisor = x.dtype.type(cum[i + 1] - cum[i])
        if weighted != 0:
            divisor = totals[i]
        shift = divide(x, y, out, i * deep, deep, divisor)
        if weighted != 0:
            shifts[i] = shift


KERNEL = p.KernelSpec(cpu, cuda, p.CALCULATES, "units", p.alike(p.FLOATS, 5))
